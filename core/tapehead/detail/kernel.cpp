// SPDX-License-Identifier: MIT
#include <tapehead/detail/kernel.h>

#include <fmt/format.h>

#include <tapehead/error.h>

namespace tapehead::detail {

void check_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) {
    throw DTypeError(fmt::format("{}: a {} is {} and b {} is {}; convert one with to()", op, to_string(a.shape()),
                                 name_of(a.dtype()), to_string(b.shape()), name_of(b.dtype())));
  }
}

void check_floating(const char* op, const char* role, const Tensor& x) {
  if (!is_floating(x.dtype())) throw_dtype(op, role, x.dtype(), "f32 or f64; convert it with to()");
}

}  // namespace tapehead::detail
