// SPDX-License-Identifier: MIT
#include <tapehead/detail/stored.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/error.h>

namespace tapehead::detail {
namespace {

static_assert(std::endian::native == std::endian::little, "files hold their elements little-endian");

// IEEE 754 binary16.
struct Half {
  std::uint16_t bits;
  explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
    if (exponent == 0) {  // zero and subnormal
      const float value = static_cast<float>(fraction) * 0x1p-24f;
      return sign != 0 ? -value : value;
    }
    const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
  }
};

// The upper half of a binary32.
struct BFloat {
  std::uint16_t bits;
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

template <class From, class To>
Index convert(const std::byte* from, void* to, Index n) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(To));
    return n;
  }
  To* out = static_cast<To*>(to);
  for (Index i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<Index>(sizeof(From)), sizeof(From));
    if constexpr (std::is_same_v<From, std::uint64_t>) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<Index>::max())) return i;
    }
    if constexpr (std::is_same_v<To, bool>) {
      out[i] = value != 0;
    } else {
      out[i] = static_cast<To>(value);
    }
  }
  return n;
}

template <class From, class To>
constexpr StoredType stored(std::string_view name, std::string_view code) {
  return {name, code, sizeof(From), dtype_of<To>(), convert<From, To>};
}

constexpr StoredType kTypes[] = {
    stored<float, float>("F32", "f4"),         stored<double, double>("F64", "f8"),
    stored<Index, Index>("I64", "i8"),         stored<std::uint8_t, bool>("BOOL", "b1"),
    stored<Half, float>("F16", "f2"),          stored<BFloat, float>("BF16", ""),
    stored<std::int32_t, Index>("I32", "i4"),  stored<std::int16_t, Index>("I16", "i2"),
    stored<std::int8_t, Index>("I8", "i1"),    stored<std::uint64_t, Index>("U64", "u8"),
    stored<std::uint32_t, Index>("U32", "u4"), stored<std::uint16_t, Index>("U16", "u2"),
    stored<std::uint8_t, Index>("U8", "u1"),
};

void reverse_elements(std::byte* bytes, std::size_t count, std::size_t size) {
  for (std::size_t i = 0; i < count; ++i) std::reverse(bytes + i * size, bytes + (i + 1) * size);
}

}  // namespace

const StoredType* stored_type_named(std::string_view name) {
  const auto* found = std::ranges::find(kTypes, name, &StoredType::name);
  return found == std::end(kTypes) ? nullptr : found;
}

const StoredType* stored_type_coded(std::string_view code) {
  const auto* found = code.empty() ? std::end(kTypes) : std::ranges::find(kTypes, code, &StoredType::code);
  return found == std::end(kTypes) ? nullptr : found;
}

const StoredType& stored_type_of(DType dtype) { return kTypes[static_cast<int>(dtype)]; }

Tensor read_elements(const InputFile& file, std::uint64_t offset, const StoredType& type, const Shape& shape,
                     bool reversed, std::string_view what) {
  constexpr std::size_t kBuffer = std::size_t{1} << 16;
  Tensor out = empty(shape, type.dtype);
  std::byte* to = fresh<std::byte>(out);
  const std::size_t total = static_cast<std::size_t>(shape.numel()), item = size_of(type.dtype);
  if (&type == &stored_type_of(type.dtype) && type.dtype != DType::boolean) {
    file.read(offset, to, total * type.bytes);
    if (reversed) reverse_elements(to, total, type.bytes);
    return out;
  }
  std::vector<std::byte> buffer(std::min(kBuffer, total * type.bytes));
  for (std::size_t done = 0; done < total;) {
    const std::size_t count = std::min(total - done, kBuffer / type.bytes);
    file.read(offset + done * type.bytes, buffer.data(), count * type.bytes);
    if (reversed) reverse_elements(buffer.data(), count, type.bytes);
    const Index fitted = type.convert(buffer.data(), to + done * item, static_cast<Index>(count));
    if (fitted != static_cast<Index>(count)) {
      throw FormatError(fmt::format("{}: {}: element {} of {} is an unsigned number above the largest i64 {}",
                                    file.op(), file.path(), done + static_cast<std::size_t>(fitted), what,
                                    std::numeric_limits<Index>::max()));
    }
    done += count;
  }
  return out;
}

void write_elements(OutputFile& file, const Tensor& tensor) {
  file.write(data<std::byte>(tensor), static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
}

Index stored_bytes(std::span<const Index> sizes, std::size_t item) {
  Index bytes = static_cast<Index>(item);
  bool empty = false;
  for (const Index size : sizes) {
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > (Index{1} << 60)) {
      return -1;
    }
  }
  return empty ? 0 : bytes;
}

}  // namespace tapehead::detail
