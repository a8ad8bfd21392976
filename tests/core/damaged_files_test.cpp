// SPDX-License-Identifier: MIT
// Sound files with random damage: a reader throws FormatError or reads something that it writes and reads again.
#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/npy.h>
#include <tapehead/random.h>
#include <tapehead/runtime.h>
#include <tapehead/safetensors.h>

#include "scratch.h"

using namespace tapehead;

namespace {

std::string damaged(std::string bytes, Generator& generator) {
  static const std::string tokens[] = {"0", "-", "9", "]",   "[",  "{", "}", ",",      "\"",
                                       "'", "(", ")", "F64", "U8", "<", ">", "\\u0000"};
  for (Index changes = 1 + generator.below(3); changes > 0 && !bytes.empty(); --changes) {
    const auto at = static_cast<std::size_t>(generator.below(static_cast<Index>(bytes.size())));
    switch (generator.below(5)) {
      case 0: bytes[at] = static_cast<char>(generator.below(256)); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << generator.below(8))); break;
      case 2: bytes.erase(at, static_cast<std::size_t>(1 + generator.below(8))); break;
      case 3: bytes.insert(at, tokens[generator.below(std::size(tokens))]); break;
      default: bytes.resize(at); break;
    }
  }
  return bytes;
}

struct Outcome {
  int read = 0, refused = 0;
};

// `read_again` reads a file, writes what it holds to another, reads that, and says whether it is the same.
Outcome try_damage(const std::string& sound,
                   const std::function<bool(const std::string&, const std::string&)>& read_again) {
  const Scratch scratch;
  Generator generator(2026);
  Outcome out;
  for (int i = 0; i < 3000; ++i) {
    const std::string path = scratch.file("damaged", damaged(sound, generator));
    try {
      const bool equal = read_again(path, scratch.path("again"));
      CHECK(equal);
      ++out.read;
    } catch (const FormatError&) {
      ++out.refused;
    }
  }
  return out;
}

bool same(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  return visit_any(a.dtype(), [&](auto zero) {
    const auto x = a.read<decltype(zero)>(), y = b.read<decltype(zero)>();
    return std::memcmp(x.data(), y.data(), x.size_bytes()) == 0;
  });
}

}  // namespace

TEST_CASE("damaged npy files are refused or mean something") {
  const Scratch scratch;
  save_npy(scratch.path("sound"), ones({20, 30}));
  const std::string sound = scratch.bytes("sound");
  const std::size_t before = live_bytes();
  const Outcome outcome = try_damage(sound, [](const std::string& path, const std::string& again) {
    const Tensor x = load_npy(path);
    save_npy(again, x);
    return same(load_npy(again), x);
  });
  CHECK(outcome.refused > 1000);
  CHECK(outcome.read > 100);
  CHECK(live_bytes() == before);
}

TEST_CASE("damaged safetensors files are refused or mean something") {
  const Scratch scratch;
  save_safetensors(scratch.path("sound"), {{"a", ones({300}, DType::f64)}, {"b", tensor({1, 0, 1}, DType::boolean)}},
                   {{"step", "7"}});
  const std::string sound = scratch.bytes("sound");
  const std::size_t before = live_bytes();
  const Outcome outcome = try_damage(sound, [](const std::string& path, const std::string& again) {
    const Safetensors file = load_safetensors(path);
    save_safetensors(again, file.tensors, file.metadata);
    const Safetensors twin = load_safetensors(again);
    bool equal = twin.metadata == file.metadata && twin.tensors.size() == file.tensors.size();
    for (const NamedTensor& entry : file.tensors) {
      const auto found = std::ranges::find(twin.tensors, entry.name, &NamedTensor::name);
      equal = equal && found != twin.tensors.end() && same(found->tensor, entry.tensor);
    }
    return equal;
  });
  CHECK(outcome.refused > 1000);
  CHECK(outcome.read > 100);
  CHECK(live_bytes() == before);
}
