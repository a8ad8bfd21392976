// SPDX-License-Identifier: MIT
// Element types as files know them, and the tensors they become.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <tapehead/detail/file.h>
#include <tapehead/shape.h>
#include <tapehead/tensor.h>

namespace tapehead::detail {

/// An element type in a file: f16 and bf16 become f32, smaller integers and u64 become i64.
struct StoredType {
  std::string_view name;  ///< in safetensors files
  std::string_view code;  ///< in npy files, without the byte order; empty if they lack it
  std::size_t bytes;
  DType dtype;
  /// Converts n elements; returns how many of them fitted, which is n except for large u64.
  Index (*convert)(const std::byte* from, void* to, Index n);
};

/// nullptr if there is none.
const StoredType* stored_type_named(std::string_view name);
const StoredType* stored_type_coded(std::string_view code);
/// What a tensor of this type is written as.
const StoredType& stored_type_of(DType dtype);

/// The elements at `offset`, in row-major order, their bytes reversed where asked. `what` names them in messages.
/// Throws FormatError, after checking nothing: that the file holds them is for the caller to see to.
Tensor read_elements(const InputFile& file, std::uint64_t offset, const StoredType& type, const Shape& shape,
                     bool reversed, std::string_view what);

/// The elements as they lie in memory.
void write_elements(OutputFile& file, const Tensor& tensor);

/// Bytes of an array with these sizes and `item` bytes per element; -1 if its sizes other than 0 come to more than
/// 2^60.
Index stored_bytes(std::span<const Index> sizes, std::size_t item);

}  // namespace tapehead::detail
