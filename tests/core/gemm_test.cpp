// SPDX-License-Identifier: MIT
// Products against plain loops in f64, and the promise that an element has the same bits in any company.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tapehead/attention.h>
#include <tapehead/detail/gemm.h>
#include <tapehead/ops.h>
#include <tapehead/runtime.h>

using namespace tapehead;
using detail::gemm;
using detail::gemm_bias;
using detail::gemm_tile;
using detail::MatrixView;

namespace {

// An operand of a product: rows x columns as the product sees it, stored with `gap` elements between rows.
template <class T>
struct Matrix {
  Matrix(Index r, Index c, bool t, Index gap, double phase)
      : rows(r), columns(c), transposed(t), stride((t ? r : c) + gap) {
    values.assign(static_cast<std::size_t>(stride * (t ? c : r)), T{100});  // gaps must not be read as elements
    for (Index i = 0; i < r; ++i) {
      for (Index j = 0; j < c; ++j) at(i, j) = static_cast<T>(std::sin(phase += 1.7));
    }
  }
  T& at(Index i, Index j) { return values[static_cast<std::size_t>(transposed ? j * stride + i : i * stride + j)]; }
  MatrixView<T> view(Index row = 0, Index column = 0) const {
    return {values.data() + (transposed ? column * stride + row : row * stride + column), stride, transposed};
  }
  Index rows, columns;
  bool transposed;
  Index stride;
  std::vector<T> values;
};

template <class T>
std::vector<T> product(Matrix<T>& a, Matrix<T>& b, Index row, Index rows) {
  std::vector<T> c(static_cast<std::size_t>(rows * b.columns), std::numeric_limits<T>::quiet_NaN());
  gemm_tile<T>(rows, b.columns, a.columns, T{1}, a.view(row), b.view(), T{0}, c.data(), b.columns);
  return c;
}

template <class T>
std::vector<T> product(Matrix<T>& a, Matrix<T>& b) {
  return product(a, b, 0, a.rows);
}

template <class T>
bool same_bits(const T* x, const T* y, Index count) {
  return std::memcmp(x, y, sizeof(T) * static_cast<std::size_t>(count)) == 0;
}
template <class T>
bool same_bits(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() && same_bits(x.data(), y.data(), static_cast<Index>(x.size()));
}

// The largest difference from loops in f64, in units of what rounding may do: (k + 3) epsilon times the sum of the
// absolute terms (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
template <class T>
double error_of(Index m, Index n, Index k, bool ta, bool tb, double alpha, double beta) {
  Matrix<T> a(m, k, ta, 3, 0.1), b(k, n, tb, 5, 0.2), c(m, n, false, 2, 0.3);
  Matrix<T> before = c;
  if (beta == 0) std::fill(c.values.begin(), c.values.end(), std::numeric_limits<T>::quiet_NaN());
  gemm<T>(m, n, k, static_cast<T>(alpha), a.view(), b.view(), static_cast<T>(beta), c.values.data(), c.stride);
  double worst = 0;
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (Index p = 0; p < k; ++p) {
        const double term = static_cast<double>(a.at(i, p)) * static_cast<double>(b.at(p, j));
        sum += term;
        size += std::abs(term);
      }
      const double start = beta * static_cast<double>(before.at(i, j));
      const double difference = std::abs(static_cast<double>(c.at(i, j)) - (alpha * sum + start));
      const double allowed = static_cast<double>(std::numeric_limits<T>::epsilon()) * static_cast<double>(k + 3) *
                             (std::abs(alpha) * size + std::abs(start));
      worst = std::isnan(difference) ? HUGE_VAL : std::max(worst, difference / allowed);
    }
    for (Index j = n; j < c.stride && i + 1 < m; ++j) {  // what lies beside the result stays as it was
      const T gap = c.values[static_cast<std::size_t>(i * c.stride + j)];
      if (beta == 0 ? !std::isnan(gap) : gap != T{100}) worst = HUGE_VAL;
    }
  }
  return worst;
}

template <class T>
void check_against_loops() {
  const Index sizes[][3] = {{1, 1, 1},   {1, 65, 37},   {2, 3, 5},    {3, 17, 600},  {4, 48, 16},    {5, 49, 17},
                            {6, 100, 1}, {7, 241, 33},  {8, 16, 4},   {9, 15, 1030}, {15, 33, 100},  {16, 64, 32},
                            {17, 5, 3},  {33, 300, 20}, {65, 31, 70}, {70, 130, 80}, {131, 97, 301}, {64, 64, 32}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        CAPTURE(ta);
        CAPTURE(tb);
        CHECK(error_of<T>(m, n, k, ta, tb, 1, 0) < 1);
        CHECK(error_of<T>(m, n, k, ta, tb, 1, 1) < 1);
        CHECK(error_of<T>(m, n, k, ta, tb, -0.5, 0) < 1);
        CHECK(error_of<T>(m, n, k, ta, tb, 1.5, 0.25) < 1);
      }
    }
  }
}

template <class T>
void check_rows_alone(Index n, Index k) {
  for (const bool tb : {false, true}) {
    for (const bool ta : {false, true}) {
      Matrix<T> a(70, k, ta, 1, 0.1), b(k, n, tb, 2, 0.2);
      const std::vector<T> all = product(a, b);
      for (Index rows = 1; rows <= 70; ++rows) {
        CAPTURE(rows);
        const Index from = 70 - rows;  // other rows at other places of the tile
        const std::vector<T> some = product(a, b, from, rows);
        CHECK(same_bits(some.data(), all.data() + from * n, rows * n));
      }
    }
  }
}

}  // namespace

TEST_CASE("gemm: agrees with loops in f64, whatever the sizes, transposes, strides, alpha and beta") {
  check_against_loops<float>();
  check_against_loops<double>();
}

TEST_CASE("gemm: large weight gradients, which BLAS computes, agree with loops in f64") {
  CHECK(error_of<float>(517, 519, 520, true, false, 1, 0) < 1);
  CHECK(error_of<float>(517, 519, 520, true, true, 0.5, 1) < 1);
}

TEST_CASE("gemm: an empty sum is beta times what was there") {
  std::vector<float> c{1, 2, 3, 4};
  gemm<float>(2, 2, 0, 1, {nullptr, 0}, {nullptr, 2}, 0.5f, c.data(), 2);
  CHECK(c == std::vector<float>{0.5f, 1, 1.5f, 2});
  gemm<float>(2, 2, 0, 1, {nullptr, 0}, {nullptr, 2}, 0, c.data(), 2);
  CHECK(c == std::vector<float>(4, 0));
  const std::vector<float> bias{7, 8};
  gemm_bias<float>(2, 2, 0, {nullptr, 0}, {nullptr, 2}, bias.data(), c.data(), 2);
  CHECK(c == std::vector<float>{7, 8, 7, 8});
}

TEST_CASE("gemm: a row has the same bits among any number of rows") {
  for (const Index n : {1, 31, 65, 250}) {
    for (const Index k : {37, 600}) {
      CAPTURE(n);
      CAPTURE(k);
      check_rows_alone<float>(n, k);
      check_rows_alone<double>(n, k);
    }
  }
}

TEST_CASE("gemm: how operands are stored, and the number of columns, change no bit") {
  Matrix<float> a(37, 530, false, 0, 0.1), b(530, 310, false, 0, 0.2);
  Matrix<float> a_turned(37, 530, true, 3, 0.1), b_turned(530, 310, true, 1, 0.2);
  const std::vector<float> all = product(a, b);
  CHECK(same_bits(all, product(a_turned, b)));
  CHECK(same_bits(all, product(a, b_turned)));
  for (const Index columns : {1, 2, 16, 17, 50, 100, 309}) {
    for (Index i = 0; i < 3; ++i) {
      const Index from = i * (310 - columns) / 2;
      for (Matrix<float>* right : {&b, &b_turned}) {
        std::vector<float> c(static_cast<std::size_t>(37 * columns));
        gemm_tile<float>(37, columns, 530, 1, a.view(), right->view(0, from), 0, c.data(), columns);
        for (Index r = 0; r < 37; ++r) CHECK(same_bits(c.data() + r * columns, all.data() + r * 310 + from, columns));
      }
    }
  }
}

TEST_CASE("gemm: zeros behind the end of k change no bit") {
  for (const Index k : {3, 30, 500}) {
    Matrix<float> a(19, k, false, 0, 0.1), b(k, 33, true, 0, 0.2);
    Matrix<float> longer_a(19, k + 40, false, 0, 0), longer_b(k + 40, 33, true, 0, 0);
    std::fill(longer_a.values.begin(), longer_a.values.end(), 0.0f);
    for (Index i = 0; i < 19; ++i) {
      for (Index p = 0; p < k; ++p) longer_a.at(i, p) = a.at(i, p);
    }
    for (Index p = 0; p < k; ++p) {
      for (Index j = 0; j < 33; ++j) longer_b.at(p, j) = b.at(p, j);
    }
    CHECK(same_bits(product(a, b), product(longer_a, longer_b)));
  }
}

TEST_CASE("gemm: NaN and infinity reach their row or column and no other") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const Index m : {1, 3, 8, 13, 21}) {
        for (const Index n : {1, 17, 50}) {
          Matrix<float> a(m, 20, ta, 1, 0.1), b(20, n, tb, 1, 0.2);
          for (const Index row : {Index{0}, m - 1}) {
            for (const float value : {nan, inf}) {
              Matrix<float> bad = a;
              bad.at(row, 7) = value;
              const std::vector<float> c = product(bad, b);
              for (Index i = 0; i < m * n; ++i) CHECK(std::isfinite(c[static_cast<std::size_t>(i)]) == (i / n != row));
            }
          }
          for (const Index column : {Index{0}, n - 1}) {
            Matrix<float> bad = b;
            bad.at(7, column) = inf;
            for (Index i = 0; i < m; ++i) a.at(i, 7) = 0;  // 0 * infinity
            const std::vector<float> c = product(a, bad);
            for (Index i = 0; i < m * n; ++i) CHECK(std::isnan(c[static_cast<std::size_t>(i)]) == (i % n == column));
          }
        }
      }
    }
  }
}

TEST_CASE("gemm: the same bits for any number of threads") {
  const int before = num_threads();
  for (const Index m : {1, 7, 300, 770}) {
    for (const bool ta : {false, true}) {  // 770 x 450 x 520 transposed is BLAS
      Matrix<float> a(m, 520, ta, 0, 0.1), b(520, 450, !ta, 0, 0.2);
      std::vector<std::vector<float>> results;
      for (const int threads : {1, 2, 3}) {
        set_num_threads(threads);
        results.emplace_back(static_cast<std::size_t>(m * 450));
        gemm<float>(m, 450, 520, 1, a.view(), b.view(), 0, results.back().data(), 450);
      }
      CHECK(same_bits(results[0], results[1]));
      CHECK(same_bits(results[0], results[2]));
      if (!ta) CHECK(same_bits(results[0], product(a, b)));
    }
  }
  set_num_threads(before);
}
