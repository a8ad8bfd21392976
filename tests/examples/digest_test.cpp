// SPDX-License-Identifier: MIT
#include "common/digest.h"

#include <doctest/doctest.h>

using examples::digest;
using tapehead::tensor;

TEST_CASE("digest: the published FNV-1a values") {
  CHECK(digest({}) == "cbf29ce484222325");
  CHECK(digest({{"foobar", tapehead::zeros({0})}}) == "85944171f73967e8");
}

TEST_CASE("digest: follows every bit, the name and the order") {
  const auto of = [](const char* name, double value) { return digest({{name, tensor({1, value})}}); };
  CHECK(of("w", 2) == of("w", 2));
  CHECK(of("w", 2) != of("v", 2));
  CHECK(of("w", 0.0) != of("w", -0.0));
  const tapehead::NamedTensor a{"a", tensor({1})}, b{"b", tensor({2})};
  CHECK(digest({a, b}) != digest({b, a}));
}
