// SPDX-License-Identifier: MIT
// The bytes of a tensor: one pooled block that starts with its own count and version.
#pragma once

#include <cstddef>
#include <new>

#include <tapehead/detail/pool.h>
#include <tapehead/detail/ref.h>

namespace tapehead::detail {

/// Shared by a tensor, its reshapes and its detached twins. The version counts explicit writes, so that
/// the tape can tell when a value it saved was edited.
class alignas(64) Storage : public RefCounted {
 public:
  static Ref<Storage> make(std::size_t bytes) {
    return Ref<Storage>::adopt(::new (allocate(sizeof(Storage) + bytes)) Storage(bytes));
  }
  static void destroy(Storage* storage) noexcept {
    const std::size_t bytes = sizeof(Storage) + storage->bytes_;
    storage->~Storage();
    deallocate(storage, bytes);
  }

  void* data() { return this + 1; }
  std::size_t bytes() const { return bytes_; }

  std::uint32_t version = 0;
  const char* written_by = "";  // the last explicit write, for error messages

 private:
  explicit Storage(std::size_t bytes) : bytes_(bytes) {}
  ~Storage() = default;
  std::size_t bytes_;
};

}  // namespace tapehead::detail
