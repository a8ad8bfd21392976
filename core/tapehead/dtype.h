// SPDX-License-Identifier: MIT
// The element types, chosen at run time, so that one model computes in f32 and is checked in f64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tapehead {

using Index = std::int64_t;

enum class DType : std::uint8_t { f32, f64, i64, boolean };

constexpr std::size_t size_of(DType dtype) { return dtype == DType::f32 ? 4 : dtype == DType::boolean ? 1 : 8; }

/// "f32", "f64", "i64" or "bool".
constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view names[] = {"f32", "f64", "i64", "bool"};
  return names[static_cast<int>(dtype)];
}

constexpr bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

/// The DType of a C++ type: float, double, std::int64_t or bool.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::f32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::f64;
  } else if constexpr (std::is_same_v<T, Index>) {
    return DType::i64;
  } else {
    static_assert(std::is_same_v<T, bool>, "elements are float, double, std::int64_t or bool");
    return DType::boolean;
  }
}

/// Throws DTypeError: "op: role must be EXPECTED, is DTYPE".
[[noreturn]] void throw_dtype(const char* op, const char* role, DType dtype, const char* expected);

/// Calls f(float{}) or f(double{}); throws DTypeError for the other types.
template <class F>
decltype(auto) visit_float(DType dtype, const char* op, F&& f) {
  switch (dtype) {
    case DType::f32: return std::forward<F>(f)(float{});
    case DType::f64: return std::forward<F>(f)(double{});
    default: throw_dtype(op, "input", dtype, "f32 or f64; convert it with to()");
  }
}

/// Calls f with a value of the element's C++ type.
template <class F>
decltype(auto) visit_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return std::forward<F>(f)(float{});
    case DType::f64: return std::forward<F>(f)(double{});
    case DType::i64: return std::forward<F>(f)(Index{});
    default: return std::forward<F>(f)(bool{});
  }
}

}  // namespace tapehead
