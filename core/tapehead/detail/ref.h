// SPDX-License-Identifier: MIT
// Intrusive reference counting: one pointer wide, counts are atomic because users load data on threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace tapehead::detail {

/// Base of counted objects. T provides `static void destroy(T*) noexcept`.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  std::uint32_t use_count() const { return count_.load(std::memory_order_acquire); }

 private:
  template <class T>
  friend class Ref;
  std::atomic<std::uint32_t> count_{1};
};

template <class T>
class Ref {
 public:
  Ref() = default;
  ~Ref() { reset(); }
  Ref(const Ref& other) : object_(other.object_) {
    if (object_ != nullptr) object_->count_.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(const Ref& other) {
    Ref(other).swap(*this);
    return *this;
  }
  Ref& operator=(Ref&& other) noexcept {
    Ref(std::move(other)).swap(*this);
    return *this;
  }

  /// Takes over a new object, whose count is one.
  static Ref adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  /// One more reference to a live object.
  static Ref share(T* object) {
    if (object != nullptr) object->count_.fetch_add(1, std::memory_order_relaxed);
    return adopt(object);
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  void swap(Ref& other) noexcept { std::swap(object_, other.object_); }
  void reset() noexcept {
    T* object = std::exchange(object_, nullptr);
    if (object == nullptr) return;
    // The sole owner needs no locked instruction: nobody else can add a reference.
    if (object->count_.load(std::memory_order_acquire) == 1 ||
        object->count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      T::destroy(object);
    }
  }

 private:
  T* object_ = nullptr;
};

}  // namespace tapehead::detail
