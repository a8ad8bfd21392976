// SPDX-License-Identifier: MIT
// Lesson 1: tensors. Make them, look at them, compute with them.
#include <vector>

#include <fmt/core.h>
#include <tapehead/tapehead.h>

namespace th = tapehead;
using th::Tensor;

namespace {

void heading(const char* text) { fmt::print("\n{}\n\n", text); }

void making() {
  heading("A tensor has a shape, an element type and its elements in row-major order");
  const Tensor a = th::tensor({{1, 2, 3}, {4, 5, 6}});
  fmt::print("a\n{}\n", a);
  fmt::print("shape {}, rank {}, {} elements of type {}\n\n", a.shape(), a.rank(), a.numel(), th::name_of(a.dtype()));
  fmt::print("zeros({{2, 3}})\n{}\n", th::zeros({2, 3}));
  fmt::print("eye(3)\n{}\n", th::eye(3));
  fmt::print("arange(0, 1, 0.25, f64)\n{}\n", th::arange(0, 1, 0.25, th::DType::f64));
  const std::vector<float> mine{1.5f, 2.5f, 3.5f, 4.5f};
  fmt::print("from_data(mine, {{2, 2}})\n{}\n", th::from_data(mine, {2, 2}));
}

void arithmetic() {
  heading("Operations are functions that return new tensors, and shapes broadcast as in NumPy");
  const Tensor a = th::tensor({{1, 2, 3}, {4, 5, 6}});
  fmt::print("a * 10 + row\n{}\n", a * 10 + th::tensor({0.1, 0.2, 0.3}));
  fmt::print("exp(-a)\n{}\n", th::exp(-a));
  fmt::print("sum(a) = {}, mean over axis 0 = {}\n", th::sum(a).item(), th::mean(a, 0));
  fmt::print("a a^T\n{}\n", th::matmul(a, a, {.transpose_b = true}));
  fmt::print("where(a > 3, a, 0)\n{}\n", th::where(th::greater(a, th::full({}, 3)), a, th::full({}, 0)));
}

void parts() {
  heading("Parts: negative positions count from the end, a negative step walks backwards");
  const Tensor a = th::reshape(th::arange(12), {3, 4});
  fmt::print("a\n{}\n", a);
  fmt::print("a.at({{1, -1}}) = {}\n", a.at({1, -1}));
  fmt::print("last row      {}\n", th::select(a, 0, -1));
  fmt::print("rows reversed\n{}\n", th::slice(a, 0, {.step = -1}));
  fmt::print("a[0:2, 1:3]\n{}\n", th::slice(a, {{.stop = 2}, {.start = 1, .stop = 3}}));
}

void random_numbers() {
  heading("Random numbers are the same on every machine");
  th::manual_seed(7);
  fmt::print("seed 7        {}\n", th::randn({4}));
  th::manual_seed(7);
  fmt::print("seed 7 again  {}\n", th::randn({4}));
  fmt::print("NumPy's np.random.seed(42); np.random.randn(4)\n{}\n", th::NumpyRandom(42).randn({4}));
}

void handles() {
  heading("A Tensor is a handle: copies share the elements, clone() does not");
  Tensor a = th::tensor({1, 2, 3});
  const Tensor shared = a, own = th::clone(a);
  a.write<float>()[0] = 100;
  fmt::print("shared {}   own {}\n", shared, own);
}

void mistakes() {
  heading("Mistakes are exceptions that say what disagrees");
  try {
    th::matmul(th::ones({2, 3}), th::ones({4, 5}));
  } catch (const th::ShapeError& error) {
    fmt::print("{}\n", error.what());
  }
  try {
    th::ones({3}) + th::ones({3}, th::DType::f64);
  } catch (const th::DTypeError& error) {
    fmt::print("{}\n", error.what());
  }
}

}  // namespace

int main() {
  making();
  arithmetic();
  parts();
  random_numbers();
  handles();
  mistakes();
}
