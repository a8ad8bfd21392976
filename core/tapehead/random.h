// SPDX-License-Identifier: MIT
// Random numbers that are the same on every platform: a counter-based generator and our own distributions.
#pragma once

#include <array>
#include <cstdint>
#include <random>

#include <tapehead/tensor.h>

namespace tapehead {

/// Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The n-th
/// block of four numbers is a function of seed and n, so the whole state is two integers. Every draw takes a block of
/// its own, so that seed and position restore a generator exactly.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}

  std::uint64_t seed() const { return seed_; }
  /// Blocks drawn so far.
  std::uint64_t position() const { return position_; }
  void set_state(std::uint64_t seed, std::uint64_t position);

  /// The next 32 random bits.
  std::uint32_t next();
  /// Uniform in [0, 1), 53 random bits.
  double uniform();
  /// Uniform in [0, limit). Throws ValueError unless limit is at least 1.
  Index below(Index limit);

  /// Takes `count` whole blocks for a tensor's elements and returns the number of the first.
  std::uint64_t reserve(std::uint64_t count);

 private:
  std::uint64_t seed_;
  std::uint64_t position_ = 0;
};

namespace detail {
/// The function itself: four random numbers for a counter of 128 bits and a key of 64, low words first.
std::array<std::uint32_t, 4> philox(const std::array<std::uint32_t, 4>& counter,
                                    const std::array<std::uint32_t, 2>& key);
/// `count` blocks of the stream with this seed, from block `first` on, as 4 * count numbers. Uses vectors.
void philox_blocks(std::uint64_t seed, std::uint64_t first, Index count, std::uint32_t* out);
/// The z for which a standard normal variable is below z with probability p in (0, 1).
double inverse_normal(double p);
}  // namespace detail

/// The generator that operations and layers use when none is passed; one per process, not for use from two threads.
Generator& default_generator();
/// Starts the default generator anew from a seed.
void manual_seed(std::uint64_t seed);

/// Uniform in [0, 1).
Tensor rand(const Shape& shape, DType dtype = DType::f32, Generator& generator = default_generator());
/// Normal with mean 0 and variance 1.
Tensor randn(const Shape& shape, DType dtype = DType::f32, Generator& generator = default_generator());
/// Uniform integers in [low, high), i64. Throws ValueError unless low < high.
Tensor randint(Index low, Index high, const Shape& shape, Generator& generator = default_generator());
/// 0 to n-1 in random order, i64 [n].
Tensor randperm(Index n, Generator& generator = default_generator());

/// NumPy's legacy stream: the numbers of np.random.seed(s) followed by rand and randn, so that published examples
/// replay from their seed. Results are f64.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : engine_(seed) {}
  double rand();
  double randn();
  Tensor rand(const Shape& shape);
  Tensor randn(const Shape& shape);

 private:
  std::mt19937 engine_;
  double kept_ = 0;
  bool has_kept_ = false;
};

}  // namespace tapehead
