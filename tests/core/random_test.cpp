// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/random.h>
#include <tapehead/runtime.h>

using namespace tapehead;

namespace {

using Block = std::array<std::uint32_t, 4>;

template <class T>
std::vector<T> values(const Tensor& x) {
  return {x.read<T>().begin(), x.read<T>().end()};
}

// Mean of the k-th powers.
double moment(const Tensor& x, int k) {
  double sum = 0;
  for (const double v : x.read<double>()) sum += std::pow(v, k);
  return sum / static_cast<double>(x.numel());
}

// The same draw with one and with three threads.
template <class Draw>
void check_threads(Draw draw) {
  const int threads = num_threads();
  set_num_threads(1);
  const auto alone = draw();
  set_num_threads(3);
  CHECK(draw() == alone);
  set_num_threads(threads);
}

}  // namespace

TEST_CASE("random: Philox 4x32-10 gives the known answers of Random123") {
  CHECK(detail::philox({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(detail::philox({ones, ones, ones, ones}, {ones, ones}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(detail::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random: blocks computed in vectors are those computed one by one") {
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{0xfffffffa}, ~std::uint64_t{0} - 3}) {
    const std::uint64_t seed = 0x123456789abcdef0;
    std::vector<std::uint32_t> words(4 * 37);
    detail::philox_blocks(seed, first, 37, words.data());
    for (std::uint64_t i = 0; i < 37; ++i) {
      const std::uint64_t at = first + i;
      const Block block = detail::philox({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, 0},
                                         {0x9abcdef0, 0x12345678});
      CHECK(std::equal(block.begin(), block.end(), words.begin() + static_cast<std::ptrdiff_t>(4 * i)));
    }
  }
}

TEST_CASE("random: inverse_normal undoes the normal distribution function") {
  // Values of Python's statistics.NormalDist().inv_cdf.
  CHECK(detail::inverse_normal(0.5) == 0);
  CHECK(detail::inverse_normal(0.1) == doctest::Approx(-1.2815515655446008).epsilon(1e-15));
  CHECK(detail::inverse_normal(0.925) == doctest::Approx(1.439531470938456).epsilon(1e-15));
  CHECK(detail::inverse_normal(0.0749) == doctest::Approx(-1.4402382675279632).epsilon(1e-15));
  CHECK(detail::inverse_normal(1e-5) == doctest::Approx(-4.2648907939228256).epsilon(1e-15));
  CHECK(detail::inverse_normal(1e-12) == doctest::Approx(-7.034483825301132).epsilon(1e-15));
  CHECK(detail::inverse_normal(0x1p-53) == doctest::Approx(-8.209536151601386).epsilon(1e-15));
  CHECK(detail::inverse_normal(1 - 0x1p-53) == doctest::Approx(8.209536151601386).epsilon(1e-15));
  for (double p = 1e-15; p < 0.5; p *= 1.37) {
    CHECK(std::erfc(-detail::inverse_normal(p) / std::sqrt(2.0)) / 2 == doctest::Approx(p).epsilon(1e-13));
  }
}

TEST_CASE("random: the numbers of a seed stay the same for ever") {
  // From a Philox and an inverse normal distribution function written in Python.
  manual_seed(7);
  CHECK(values<float>(rand({4})) ==
        std::vector<float>{0.9545971155166626f, 0.7501521706581116f, 0.11417734622955322f, 0.08565783500671387f});
  manual_seed(7);
  CHECK(values<double>(rand({2}, DType::f64)) == std::vector<double>{0.7501522221031126, 0.0856578653012815});
  manual_seed(7);
  CHECK(values<float>(randn({4})) ==
        std::vector<float>{1.6911625862121582f, 0.6749688386917114f, -1.2046078443527222f, -1.3679883480072021f});
  manual_seed(7);
  const Tensor normal = randn({2}, DType::f64);
  CHECK(normal.at({0}) == doctest::Approx(0.6749688500369042).epsilon(1e-15));
  CHECK(normal.at({1}) == doctest::Approx(-1.367988324959371).epsilon(1e-15));
  manual_seed(8);  // the upper limit makes every other draw one that is rejected
  CHECK(values<Index>(randint(std::numeric_limits<Index>::min(), 1, {6})) ==
        std::vector<Index>{-9125752843197580630, -5727258603862570766, -5468057931611774255, -8340320513653121583,
                           -7463584950413340414, -5051662133161310253});
  Generator generator(7);
  CHECK(generator.next() == 4099963437);
  CHECK(generator.uniform() == 0.7952840373401903);
}

TEST_CASE("random: seed and position restore a generator") {
  Generator generator(11);
  generator.next();
  generator.uniform();
  rand({5}, DType::f32, generator);
  CHECK(generator.position() == 4);
  Generator twin(0);
  twin.set_state(generator.seed(), generator.position());
  CHECK(twin.next() == generator.next());
  CHECK(twin.below(1000) == generator.below(1000));
  CHECK(values<double>(randn({3}, DType::f64, twin)) == values<double>(randn({3}, DType::f64, generator)));
  CHECK(values<Index>(randperm(9, twin)) == values<Index>(randperm(9, generator)));
  CHECK(twin.position() == generator.position());
}

TEST_CASE("random: an element depends on its place alone, whatever the size of the tensor and the threads") {
  const auto draw = [](Index n) {
    Generator generator(3);
    return values<float>(randn({n}, DType::f32, generator));
  };
  std::vector<float> large = draw(100'003);
  large.resize(1001);
  CHECK(draw(1001) == large);
  check_threads([&] { return draw(100'003); });
  check_threads([] {
    Generator generator(3);
    return values<double>(rand({70'001}, DType::f64, generator));
  });
  check_threads([] {
    Generator generator(3);
    return values<Index>(randint(-5, 1000, {70'001}, generator));
  });
}

TEST_CASE("random: moments of rand and randn") {
  Generator generator(5);
  const Tensor uniform = rand({200'000}, DType::f64, generator);
  CHECK(std::abs(moment(uniform, 1) - 1.0 / 2) < 4e-3);  // six standard errors
  CHECK(std::abs(moment(uniform, 2) - 1.0 / 3) < 4e-3);
  CHECK(*std::max_element(uniform.read<double>().begin(), uniform.read<double>().end()) < 1);
  CHECK(*std::min_element(uniform.read<double>().begin(), uniform.read<double>().end()) >= 0);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor normal = to(randn({200'000}, dtype, generator), DType::f64);
    CHECK(std::abs(moment(normal, 1)) < 0.0135);
    CHECK(std::abs(moment(normal, 2) - 1) < 0.019);
    CHECK(std::abs(moment(normal, 3)) < 0.052);
    CHECK(std::abs(moment(normal, 4) - 3) < 0.132);
  }
}

TEST_CASE("random: randint and below reach every value evenly and nothing else") {
  Generator generator(1);
  std::vector<int> counts(7);
  for (const Index value : values<Index>(randint(-3, 4, {70'000}, generator))) {
    REQUIRE(value >= -3);
    REQUIRE(value < 4);
    ++counts[static_cast<std::size_t>(value + 3)];
  }
  for (const int count : counts) CHECK(std::abs(count - 10'000) < 560);  // six standard deviations
  constexpr Index least = std::numeric_limits<Index>::min();
  constexpr Index most = std::numeric_limits<Index>::max();
  const std::vector<Index> wide = values<Index>(randint(least, most, {100}, generator));
  CHECK(*std::min_element(wide.begin(), wide.end()) < least / 2);
  CHECK(*std::max_element(wide.begin(), wide.end()) > most / 2);
  // Just above half of all numbers: every other draw is rejected and must be made up for.
  double mean = 0;
  for (const Index value : values<Index>(randint(least, 1, {10'000}, generator))) {
    REQUIRE(value < 1);
    mean += static_cast<double>(value) / 0x1p63 / 10'000;
  }
  CHECK(std::abs(mean + 0.5) < 6 * std::sqrt(1.0 / 12 / 10'000));
  mean = 0;
  Generator twin(8);
  for (int i = 0; i < 10'000; ++i) mean += static_cast<double>(twin.below(most / 2 + 2)) / 0x1p62 / 10'000;
  CHECK(std::abs(mean - 0.5) < 6 * std::sqrt(1.0 / 12 / 10'000));
  CHECK(generator.below(1) == 0);
  CHECK_THROWS_WITH_AS(generator.below(0), "below: limit is 0; it must be at least 1", ValueError);
  CHECK_THROWS_WITH_AS(randint(2, 2, {1}, generator), "randint: low 2 must be below high 2", ValueError);
}

TEST_CASE("random: randperm is a permutation, every one of them as often") {
  Generator generator(2);
  std::vector<Index> order = values<Index>(randperm(1000, generator));
  CHECK(!std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  CHECK(order == values<Index>(arange(1000)));
  std::vector<int> counts(27);
  for (int i = 0; i < 6000; ++i) {
    const std::vector<Index> three = values<Index>(randperm(3, generator));
    ++counts[static_cast<std::size_t>(three[0] * 9 + three[1] * 3 + three[2])];
  }
  CHECK(std::count(counts.begin(), counts.end(), 0) == 21);
  for (const int count : counts) CHECK((count == 0 || std::abs(count - 1000) < 175));
  CHECK(randperm(0, generator).shape() == Shape{0});
  CHECK(values<Index>(randperm(1, generator)) == std::vector<Index>{0});
  CHECK_THROWS_WITH_AS(randperm(-1, generator), "randperm: n is -1; it must be at least 0", ValueError);
}

TEST_CASE("random: empty tensors, scalars and wrong types") {
  Generator generator(4);
  CHECK(rand({0, 3}, DType::f32, generator).shape() == Shape{0, 3});
  CHECK(randn({3, 0}, DType::f64, generator).numel() == 0);
  CHECK(randint(0, 2, {0}, generator).numel() == 0);
  CHECK(generator.position() == 0);
  CHECK(randn({}, DType::f32, generator).rank() == 0);
  CHECK_THROWS_WITH_AS(rand({2}, DType::i64, generator), "rand: dtype must be f32 or f64, is i64", DTypeError);
  CHECK_THROWS_WITH_AS(randn({2}, DType::boolean, generator), "randn: dtype must be f32 or f64, is bool", DTypeError);
  CHECK(generator.position() == 1);
}

TEST_CASE("random: NumPy's legacy stream") {
  NumpyRandom numpy(42);
  CHECK(values<double>(numpy.randn(Shape{2, 3})) == std::vector<double>{0.4967141530112327, -0.13826430117118466,
                                                                        0.6476885381006925, 1.5230298564080254,
                                                                        -0.23415337472333597, -0.23413695694918055});
  // np.random.seed(123), then rand(3), randn(3), rand(2), randn(2): the second of a pair of normals waits.
  NumpyRandom mixed(123);
  CHECK(values<double>(mixed.rand(Shape{3})) ==
        std::vector<double>{0.6964691855978616, 0.28613933495037946, 0.2268514535642031});
  CHECK(values<double>(mixed.randn(Shape{3})) ==
        std::vector<double>{1.7383701332168267, 0.4064540971499301, 0.32210606833962163});
  CHECK(values<double>(mixed.rand(Shape{2})) == std::vector<double>{0.6848297385848633, 0.48093190148436094});
  CHECK(values<double>(mixed.randn(Shape{2})) == std::vector<double>{-0.0515177209393851, -1.6193000650367457});
  NumpyRandom long_run(42);
  for (int i = 0; i < 99'999; ++i) long_run.randn();
  CHECK(long_run.randn() == 0.12006294082414522);
}
