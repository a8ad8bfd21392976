// SPDX-License-Identifier: MIT
// The expected texts are str() of the same arrays in NumPy 2.4.
#include <limits>
#include <sstream>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>

using namespace tapehead;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("print: NumPy's digits, f64") {
  CHECK(to_string(tensor({1.0, 1.0, 1.0, 1.0}, DType::f64)) == "[1. 1. 1. 1.]");
  CHECK(to_string(tensor({0.5, 0.25, -1.0}, DType::f64)) == "[ 0.5   0.25 -1.  ]");
  CHECK(to_string(tensor({0.3333333333333333, 0.6666666666666666, 1.0}, DType::f64)) ==
        "[0.33333333 0.66666667 1.        ]");
  CHECK(to_string(tensor({0.1, 0.001}, DType::f64)) == "[0.1   0.001]");
  CHECK(to_string(tensor({100000000.0, 1.0}, DType::f64)) == "[1.e+08 1.e+00]");
  CHECK(to_string(tensor({99999999.0, 1.0}, DType::f64)) == "[9.9999999e+07 1.0000000e+00]");
  CHECK(to_string(tensor({0.0001, 0.1}, DType::f64)) == "[0.0001 0.1   ]");
  CHECK(to_string(tensor({9.9e-05, 0.05}, DType::f64)) == "[9.9e-05 5.0e-02]");
  CHECK(to_string(tensor({1000.0, 1.0}, DType::f64)) == "[1000.    1.]");
  CHECK(to_string(tensor({1001.0, 1.0}, DType::f64)) == "[1.001e+03 1.000e+00]");
  CHECK(to_string(tensor({0.0, -0.0}, DType::f64)) == "[ 0. -0.]");
  CHECK(to_string(tensor({1e+300, 1e-300}, DType::f64)) == "[1.e+300 1.e-300]");
  CHECK(to_string(tensor({10000000000.0}, DType::f64)) == "[1.e+10]");
  CHECK(to_string(tensor({0.001953125, 0.005859375}, DType::f64)) == "[0.00195312 0.00585938]");
  CHECK(to_string(tensor({12345.678901234, 20000.0}, DType::f64)) == "[12345.67890123 20000.        ]");
  CHECK(to_string(tensor({0.999999999, 0.5}, DType::f64)) == "[1.  0.5]");
  CHECK(to_string(tensor({1e+100, -2.5e+99}, DType::f64)) == "[ 1.0e+100 -2.5e+099]");
  CHECK(to_string(tensor({666666666.6666666, 1000000000.0}, DType::f64)) == "[6.66666667e+08 1.00000000e+09]");
}

TEST_CASE("print: NumPy's digits, f32") {
  CHECK(to_string(tensor({0.1, 0.2, 0.3})) == "[0.1 0.2 0.3]");
  CHECK(to_string(tensor({0.3333333333333333, 0.6666666666666666, 1.0})) == "[0.33333334 0.6666667  1.        ]");
  CHECK(to_string(tensor({999999.0, 100000.0})) == "[999999. 100000.]");
  CHECK(to_string(tensor({1000000.0, 100000.0})) == "[1.e+06 1.e+05]");
  CHECK(to_string(tensor({123.456, 0.789})) == "[123.456   0.789]");
  CHECK(to_string(tensor({3.4e+38, 1e-45})) == "[3.4e+38 1.4e-45]");
  CHECK(to_string(tensor({16777216.0, 0.0})) == "[1.6777216e+07 0.0000000e+00]");
}

TEST_CASE("print: infinities and NaN") {
  CHECK(to_string(tensor({1.5, -kInf, kNaN}, DType::f64)) == "[ 1.5 -inf  nan]");
  CHECK(to_string(tensor({kInf, 1.0}, DType::f64)) == "[inf  1.]");
  CHECK(to_string(tensor({kNaN, kNaN}, DType::f64)) == "[nan nan]");
  CHECK(to_string(tensor({-kInf}, DType::f64)) == "[-inf]");
  CHECK(to_string(tensor({10000000000.0, -kInf, kNaN}, DType::f64)) == "[1.e+10   -inf    nan]");
  CHECK(to_string(tensor({0.0, kInf}, DType::f64)) == "[ 0. inf]");
}

TEST_CASE("print: whole numbers and truth values") {
  CHECK(to_string(tensor({{1, 0}, {-10, 200}}, DType::i64)) ==
        "[[  1   0]\n"
        " [-10 200]]");
  CHECK(to_string(full({1}, -0x1p63, DType::i64)) == "[-9223372036854775808]");
  CHECK(to_string(arange(30)) ==
        "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
        " 24 25 26 27 28 29]");
  CHECK(to_string(tensor({{1, 0}, {1, 1}}, DType::boolean)) ==
        "[[ True False]\n"
        " [ True  True]]");
  CHECK(to_string(ones({2}, DType::boolean)) == "[ True  True]");
}

TEST_CASE("print: scalars print every digit that reads back") {
  CHECK(to_string(tensor(1.0 / 3, DType::f64)) == "0.3333333333333333");
  CHECK(to_string(tensor(1.0 / 3)) == "0.33333334");
  CHECK(to_string(tensor(5, DType::f64)) == "5.0");
  CHECK(to_string(tensor(1e16, DType::f64)) == "1e+16");
  CHECK(to_string(tensor(123456789, DType::f64)) == "123456789.0");
  CHECK(to_string(tensor(1e6)) == "1e+06");
  CHECK(to_string(tensor(0.00001, DType::f64)) == "1e-05");
  CHECK(to_string(tensor(0, DType::f64)) == "0.0");
  CHECK(to_string(tensor(-kInf)) == "-inf");
  CHECK(to_string(tensor(kNaN)) == "nan");
  CHECK(to_string(tensor(-7, DType::i64)) == "-7");
  CHECK(to_string(tensor(1, DType::boolean)) == "True");
}

TEST_CASE("print: long rows wrap, blocks are set apart") {
  CHECK(to_string(reshape(to(arange(40), DType::f64) / tensor(7, DType::f64), {2, 20})) ==
        "[[0.         0.14285714 0.28571429 0.42857143 0.57142857 0.71428571\n"
        "  0.85714286 1.         1.14285714 1.28571429 1.42857143 1.57142857\n"
        "  1.71428571 1.85714286 2.         2.14285714 2.28571429 2.42857143\n"
        "  2.57142857 2.71428571]\n"
        " [2.85714286 3.         3.14285714 3.28571429 3.42857143 3.57142857\n"
        "  3.71428571 3.85714286 4.         4.14285714 4.28571429 4.42857143\n"
        "  4.57142857 4.71428571 4.85714286 5.         5.14285714 5.28571429\n"
        "  5.42857143 5.57142857]]");
  CHECK(to_string(reshape(arange(24), {2, 3, 4})) ==
        "[[[ 0  1  2  3]\n"
        "  [ 4  5  6  7]\n"
        "  [ 8  9 10 11]]\n"
        "\n"
        " [[12 13 14 15]\n"
        "  [16 17 18 19]\n"
        "  [20 21 22 23]]]");
  CHECK(to_string(reshape(arange(16), {2, 2, 2, 2})) ==
        "[[[[ 0  1]\n"
        "   [ 2  3]]\n"
        "\n"
        "  [[ 4  5]\n"
        "   [ 6  7]]]\n"
        "\n"
        "\n"
        " [[[ 8  9]\n"
        "   [10 11]]\n"
        "\n"
        "  [[12 13]\n"
        "   [14 15]]]]");
  CHECK(to_string(reshape(arange(2), {1, 1, 1, 1, 2})) == "[[[[[0 1]]]]]");
}

TEST_CASE("print: more than a thousand elements are summarised") {
  CHECK(to_string(arange(1001)) == "[   0    1    2 ...  998  999 1000]");
  CHECK(to_string(reshape(arange(3000), {50, 60})) ==
        "[[   0    1    2 ...   57   58   59]\n"
        " [  60   61   62 ...  117  118  119]\n"
        " [ 120  121  122 ...  177  178  179]\n"
        " ...\n"
        " [2820 2821 2822 ... 2877 2878 2879]\n"
        " [2880 2881 2882 ... 2937 2938 2939]\n"
        " [2940 2941 2942 ... 2997 2998 2999]]");
  CHECK(to_string(reshape(arange(2000), {2, 10, 100})) ==
        "[[[   0    1    2 ...   97   98   99]\n"
        "  [ 100  101  102 ...  197  198  199]\n"
        "  [ 200  201  202 ...  297  298  299]\n"
        "  ...\n"
        "  [ 700  701  702 ...  797  798  799]\n"
        "  [ 800  801  802 ...  897  898  899]\n"
        "  [ 900  901  902 ...  997  998  999]]\n"
        "\n"
        " [[1000 1001 1002 ... 1097 1098 1099]\n"
        "  [1100 1101 1102 ... 1197 1198 1199]\n"
        "  [1200 1201 1202 ... 1297 1298 1299]\n"
        "  ...\n"
        "  [1700 1701 1702 ... 1797 1798 1799]\n"
        "  [1800 1801 1802 ... 1897 1898 1899]\n"
        "  [1900 1901 1902 ... 1997 1998 1999]]]");
  CHECK(to_string(reshape(to(arange(8000), DType::f64), {20, 20, 20})) ==
        "[[[0.000e+00 1.000e+00 2.000e+00 ... 1.700e+01 1.800e+01 1.900e+01]\n"
        "  [2.000e+01 2.100e+01 2.200e+01 ... 3.700e+01 3.800e+01 3.900e+01]\n"
        "  [4.000e+01 4.100e+01 4.200e+01 ... 5.700e+01 5.800e+01 5.900e+01]\n"
        "  ...\n"
        "  [3.400e+02 3.410e+02 3.420e+02 ... 3.570e+02 3.580e+02 3.590e+02]\n"
        "  [3.600e+02 3.610e+02 3.620e+02 ... 3.770e+02 3.780e+02 3.790e+02]\n"
        "  [3.800e+02 3.810e+02 3.820e+02 ... 3.970e+02 3.980e+02 3.990e+02]]\n"
        "\n"
        " [[4.000e+02 4.010e+02 4.020e+02 ... 4.170e+02 4.180e+02 4.190e+02]\n"
        "  [4.200e+02 4.210e+02 4.220e+02 ... 4.370e+02 4.380e+02 4.390e+02]\n"
        "  [4.400e+02 4.410e+02 4.420e+02 ... 4.570e+02 4.580e+02 4.590e+02]\n"
        "  ...\n"
        "  [7.400e+02 7.410e+02 7.420e+02 ... 7.570e+02 7.580e+02 7.590e+02]\n"
        "  [7.600e+02 7.610e+02 7.620e+02 ... 7.770e+02 7.780e+02 7.790e+02]\n"
        "  [7.800e+02 7.810e+02 7.820e+02 ... 7.970e+02 7.980e+02 7.990e+02]]\n"
        "\n"
        " [[8.000e+02 8.010e+02 8.020e+02 ... 8.170e+02 8.180e+02 8.190e+02]\n"
        "  [8.200e+02 8.210e+02 8.220e+02 ... 8.370e+02 8.380e+02 8.390e+02]\n"
        "  [8.400e+02 8.410e+02 8.420e+02 ... 8.570e+02 8.580e+02 8.590e+02]\n"
        "  ...\n"
        "  [1.140e+03 1.141e+03 1.142e+03 ... 1.157e+03 1.158e+03 1.159e+03]\n"
        "  [1.160e+03 1.161e+03 1.162e+03 ... 1.177e+03 1.178e+03 1.179e+03]\n"
        "  [1.180e+03 1.181e+03 1.182e+03 ... 1.197e+03 1.198e+03 1.199e+03]]\n"
        "\n"
        " ...\n"
        "\n"
        " [[6.800e+03 6.801e+03 6.802e+03 ... 6.817e+03 6.818e+03 6.819e+03]\n"
        "  [6.820e+03 6.821e+03 6.822e+03 ... 6.837e+03 6.838e+03 6.839e+03]\n"
        "  [6.840e+03 6.841e+03 6.842e+03 ... 6.857e+03 6.858e+03 6.859e+03]\n"
        "  ...\n"
        "  [7.140e+03 7.141e+03 7.142e+03 ... 7.157e+03 7.158e+03 7.159e+03]\n"
        "  [7.160e+03 7.161e+03 7.162e+03 ... 7.177e+03 7.178e+03 7.179e+03]\n"
        "  [7.180e+03 7.181e+03 7.182e+03 ... 7.197e+03 7.198e+03 7.199e+03]]\n"
        "\n"
        " [[7.200e+03 7.201e+03 7.202e+03 ... 7.217e+03 7.218e+03 7.219e+03]\n"
        "  [7.220e+03 7.221e+03 7.222e+03 ... 7.237e+03 7.238e+03 7.239e+03]\n"
        "  [7.240e+03 7.241e+03 7.242e+03 ... 7.257e+03 7.258e+03 7.259e+03]\n"
        "  ...\n"
        "  [7.540e+03 7.541e+03 7.542e+03 ... 7.557e+03 7.558e+03 7.559e+03]\n"
        "  [7.560e+03 7.561e+03 7.562e+03 ... 7.577e+03 7.578e+03 7.579e+03]\n"
        "  [7.580e+03 7.581e+03 7.582e+03 ... 7.597e+03 7.598e+03 7.599e+03]]\n"
        "\n"
        " [[7.600e+03 7.601e+03 7.602e+03 ... 7.617e+03 7.618e+03 7.619e+03]\n"
        "  [7.620e+03 7.621e+03 7.622e+03 ... 7.637e+03 7.638e+03 7.639e+03]\n"
        "  [7.640e+03 7.641e+03 7.642e+03 ... 7.657e+03 7.658e+03 7.659e+03]\n"
        "  ...\n"
        "  [7.940e+03 7.941e+03 7.942e+03 ... 7.957e+03 7.958e+03 7.959e+03]\n"
        "  [7.960e+03 7.961e+03 7.962e+03 ... 7.977e+03 7.978e+03 7.979e+03]\n"
        "  [7.980e+03 7.981e+03 7.982e+03 ... 7.997e+03 7.998e+03 7.999e+03]]]");
  CHECK(to_string(reshape(to(arange(2000), DType::f64), {200, 10})) ==
        "[[0.000e+00 1.000e+00 2.000e+00 ... 7.000e+00 8.000e+00 9.000e+00]\n"
        " [1.000e+01 1.100e+01 1.200e+01 ... 1.700e+01 1.800e+01 1.900e+01]\n"
        " [2.000e+01 2.100e+01 2.200e+01 ... 2.700e+01 2.800e+01 2.900e+01]\n"
        " ...\n"
        " [1.970e+03 1.971e+03 1.972e+03 ... 1.977e+03 1.978e+03 1.979e+03]\n"
        " [1.980e+03 1.981e+03 1.982e+03 ... 1.987e+03 1.988e+03 1.989e+03]\n"
        " [1.990e+03 1.991e+03 1.992e+03 ... 1.997e+03 1.998e+03 1.999e+03]]");
}

TEST_CASE("print: options") {
  CHECK(to_string(tensor({{1.0 / 3, 2.0 / 3, 1e3 / 3}, {1, 2, 3}}, DType::f64), {.precision = 3}) ==
        "[[  0.333   0.667 333.333]\n"
        " [  1.      2.      3.   ]]");
  CHECK(to_string(tensor({{1.0 / 3, 2.0 / 3, 1e3 / 3}, {1, 2, 3}}, DType::f64), {.precision = 0}) ==
        "[[  0.   1. 333.]\n"
        " [  1.   2.   3.]]");
  CHECK(to_string(tensor({{1.0 / 3, 2.0 / 3, 1e3 / 3}, {1, 2, 3}}, DType::f64), {.line_width = 20}) ==
        "[[  0.33333333\n"
        "    0.66666667\n"
        "  333.33333333]\n"
        " [  1.\n"
        "    2.\n"
        "    3.        ]]");
  CHECK(to_string(tensor({{1.0 / 3, 2.0 / 3, 1e3 / 3}, {1, 2, 3}}, DType::f64), {.line_width = 1}) ==
        "[[  0.33333333\n"
        "    0.66666667\n"
        "  333.33333333]\n"
        " [  1.\n"
        "    2.\n"
        "    3.        ]]");
  CHECK(to_string(arange(12), {.threshold = 10}) == "[ 0  1  2 ...  9 10 11]");
  CHECK(to_string(arange(12), {.threshold = 10, .edge_items = 1}) == "[ 0 ... 11]");
}

TEST_CASE("print: nothing inside") {
  CHECK(to_string(zeros({0})) == "[]");
  CHECK(to_string(zeros({3, 0, 2}, DType::i64)) == "[]");
}

TEST_CASE("print: the attention documents' matrices") {
  const Tensor weights = tensor(
      {{0.252399512, 0.247516848, 0.251063452, 0.249020188}, {0.248930512, 0.252025958, 0.248139618, 0.250903922}},
      DType::f64);
  CHECK(to_string(weights) ==
        "[[0.25239951 0.24751685 0.25106345 0.24902019]\n"
        " [0.24893051 0.25202596 0.24813962 0.25090392]]");
  const Tensor row = tensor(
      {-0.027280917, 0.004733034, -0.042759964, -0.079676071, 0.038383118, 0.063563031, -0.086371039, 0.068737833},
      DType::f64);
  CHECK(to_string(row) ==
        "[-0.02728092  0.00473303 -0.04275996 -0.07967607  0.03838312  0.06356303\n"
        " -0.08637104  0.06873783]");
  CHECK(to_string(tensor({{1, 0}, {0.496910461, 0.503089539}}, DType::f64)) ==
        "[[1.         0.        ]\n"
        " [0.49691046 0.50308954]]");
  CHECK(to_string(tensor({{-0.232109391, -kInf}, {0.734692991, 0.4282943}}, DType::f64)) ==
        "[[-0.23210939        -inf]\n"
        " [ 0.73469299  0.4282943 ]]");
  CHECK(to_string(tril(ones({4, 4}, DType::i64))) ==
        "[[1 0 0 0]\n"
        " [1 1 0 0]\n"
        " [1 1 1 0]\n"
        " [1 1 1 1]]");
}

TEST_CASE("print: streams and fmt") {
  std::ostringstream stream;
  stream << tensor({1, 2}) << ' ' << Shape{2, 3} << ' ' << Shape{};
  CHECK(stream.str() == "[1. 2.] [2, 3] []");
  CHECK(fmt::format("{} {}", tensor({1, 2}), Shape{2, 3}) == "[1. 2.] [2, 3]");
}

TEST_CASE("print: refuses what makes no sense") {
  CHECK_THROWS_WITH_AS(to_string(ones({2}), {.precision = -1}),
                       "to_string: precision -1 and threshold 1000 must be at least 0, edge_items 3 at least 1",
                       ValueError);
  CHECK_THROWS_AS(to_string(ones({2}), {.threshold = -1}), ValueError);
  CHECK_THROWS_AS(to_string(ones({2}), {.edge_items = 0}), ValueError);
  CHECK_THROWS_AS(to_string(Tensor()), StateError);
}
