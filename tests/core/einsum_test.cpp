// SPDX-License-Identifier: MIT
// Einstein's sums. The figures are what NumPy and PyTorch give for the same small whole numbers.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

using namespace tapehead;

namespace {

Tensor counting(const Shape& shape, double first = 0) {
  return to(reshape(arange(shape.numel()), shape), DType::f64) + first;
}

void check(const std::string& equation, const std::vector<Tensor>& operands, const Shape& shape,
           const std::vector<double>& expected) {
  CAPTURE(equation);
  const Tensor y = einsum(equation, operands);
  REQUIRE(y.shape() == shape);
  const std::vector<double> got(y.read<double>().begin(), y.read<double>().end());
  CHECK(got == expected);
}

}  // namespace

TEST_CASE("einsum: one operand") {
  const Tensor a = counting({2, 3}, 1), c = counting({3, 3}), t = counting({3, 3, 3});
  check("ii->i", {c}, {3}, {0, 4, 8});
  check("ii->", {c}, {}, {12});
  check("ii", {c}, {}, {12});
  check("ij->ji", {a}, {3, 2}, {1, 4, 2, 5, 3, 6});
  check("ba", {a}, {3, 2}, {1, 4, 2, 5, 3, 6});
  check("ij->", {a}, {}, {21});
  check("ij->j", {a}, {3}, {5, 7, 9});
  check("iii->i", {t}, {3}, {0, 13, 26});
  check("iji->j", {t}, {3}, {30, 39, 48});
  check("ii->i", {zeros({0, 0}, DType::f64)}, {0}, {});
  check("", {tensor(5, DType::f64)}, {}, {5});
}

TEST_CASE("einsum: several operands") {
  const Tensor a = counting({2, 3}, 1), b = counting({3, 4}, -5), c = counting({3, 3});
  check("ij,jk->ik", {a, b}, {2, 4}, {2, 8, 14, 20, -7, 8, 23, 38});
  check(" ij , jk -> ki ", {a, b}, {4, 2}, {2, -7, 8, 8, 14, 23, 20, 38});
  check("ij,jk", {a, b}, {2, 4}, {2, 8, 14, 20, -7, 8, 23, 38});
  check("i,j->ij", {select(a, 0, 0), select(b, 0, 0)}, {3, 4}, {-5, -4, -3, -2, -10, -8, -6, -4, -15, -12, -9, -6});
  check("ij,ij->i", {a, a * 2.0}, {2}, {28, 154});
  check("ij,jk->k", {a, b}, {4}, {-5, 16, 37, 58});
  check("ij,jk,kl->il", {a, b, transpose(b, 0, 1)}, {2, 3}, {-124, 52, 228, -142, 106, 354});
  check("ij,ij->ij", {a, a}, {2, 3}, {1, 4, 9, 16, 25, 36});
  check("jj,ij->i", {c, a}, {2}, {32, 68});
  const Tensor q = counting({2, 2, 2}), w = counting({2, 2, 2}, -3);
  check("bij,bkj->bik", {q, w}, {2, 2, 2}, {-2, 0, -12, -2, 14, 32, 20, 46});
  check("bij,bik->bjk", {q, w}, {2, 2, 2}, {-2, 0, -6, -2, 22, 32, 26, 38});
  check("bij,bjk->kbi", {q, w}, {2, 2, 2}, {-1, -9, 19, 27, 0, -4, 28, 40});
  check("bhi,bhi->bh", {q, w}, {2, 2}, {-2, -2, 14, 46});
}

TEST_CASE("einsum: batched products move nothing") {
  const Tensor q = counting({2, 3, 4}).requires_grad_(), w = counting({2, 4, 5});
  const auto operations = [&](const Tensor& y) {
    std::vector<std::string> names;
    for (const TapeEntry& entry : tape(y)) {
      if (entry.op != "reshape") names.push_back(entry.op);
    }
    return names;
  };
  const std::vector<std::string> product = {"matmul"};
  CHECK(operations(einsum("bij,bjk->bik", {q, w})) == product);
  CHECK(operations(einsum("bij,bkj->bik", {q, counting({2, 5, 4})})) == product);
  CHECK(operations(einsum("bij,bik->bjk", {q, counting({2, 3, 5})})) == product);
}

TEST_CASE("einsum: what it refuses") {
  const Tensor a = ones({2, 3}), b = ones({4, 5});
  CHECK_THROWS_WITH_AS(
      einsum("ij,jk->ik", {a, b}),
      "einsum: 'j' is 3 in operand 0 [2, 3] (\"ij\") and 4 in operand 1 [4, 5] (\"jk\"); sizes under one "
      "letter must be equal",
      ShapeError);
  CHECK_THROWS_WITH_AS(
      einsum("ii->i", {a}),
      "einsum: 'i' is 2 in operand 0 [2, 3] (\"ii\") and 3 in operand 0 [2, 3] (\"ii\"); sizes under one "
      "letter must be equal",
      ShapeError);
  CHECK_THROWS_WITH_AS(einsum("ijk->i", {a}),
                       "einsum: operand 0 [2, 3] has 2 axes and \"ijk\" names 3; name each axis once", ShapeError);
  CHECK_THROWS_WITH_AS(einsum("ij,jk->ik", {a}), "einsum: equation \"ij,jk->ik\"; it names 2 operands, 1 are given",
                       ValueError);
  CHECK_THROWS_WITH_AS(einsum("ij->iz", {a}), "einsum: equation \"ij->iz\"; the result names 'z', which no operand has",
                       ValueError);
  CHECK_THROWS_WITH_AS(einsum("ij->ii", {a}), "einsum: equation \"ij->ii\"; the result names 'i' twice", ValueError);
  CHECK_THROWS_WITH_AS(einsum("...j->j", {a}),
                       "einsum: equation \"...j->j\"; '.' at 0 has no place there: letters, commas and one \"->\" do",
                       ValueError);
  CHECK_THROWS_AS(einsum("ij->i->j", {a}), ValueError);
  CHECK_THROWS_AS(einsum("ij-", {a}), ValueError);
  CHECK_THROWS_AS(einsum("", {}), ValueError);
  CHECK_THROWS_AS(einsum("ij->j", {ones({2, 2}, DType::i64)}), DTypeError);
}
