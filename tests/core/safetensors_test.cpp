// SPDX-License-Identifier: MIT
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/runtime.h>
#include <tapehead/safetensors.h>

#include "core/safetensors_files.h"
#include "scratch.h"

using namespace tapehead;
using namespace safetensors_files;
using namespace std::string_literals;

namespace {

std::vector<NamedTensor> one(double value) { return {{"x", tensor({value, value})}}; }

}  // namespace

// Written by Python's safetensors 0.8.0 (torch.save) from PyTorch 2.15 tensors.
TEST_CASE("save_safetensors writes the bytes of the reference implementation") {
  const Scratch scratch;
  save_safetensors(scratch.path("x"), {{"weight", tensor({{1.5, -2}})},
                                       {"ids", tensor({3}, DType::i64)},
                                       {"norm.bias", tensor({0.25}, DType::f64)},
                                       {"flag", tensor({1, 0, 1}, DType::boolean)},
                                       {"a", tensor(7)}});
  CHECK(scratch.bytes("x") ==
        "(\x01\0\0\0\0\0\0"s + R"({"ids":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"norm.bias":)" +
            R"({"dtype":"F64","shape":[1],"data_offsets":[8,16]},"a":{"dtype":"F32",)" +
            R"("shape":[],"data_offsets":[16,20]},"weight":{"dtype":"F32","shape":[1,2],)" +
            R"("data_offsets":[20,28]},"flag":{"dtype":"BOOL","shape":[3],)" + R"("data_offsets":[28,31]}}   )" +
            "\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\xd0?\0\0\xe0@\0\0\xc0?\0\0\0\xc0\x01\0\x01"s);
  save_safetensors(scratch.path("empty"), {});
  CHECK(scratch.bytes("empty") == "\x08\0\0\0\0\0\0\0{}      "s);
  CHECK(load_safetensors(scratch.path("empty")).tensors.empty());
}

TEST_CASE("load_safetensors reads what Python writes") {
  const Safetensors file =
      load("\xf8\0\0\0\0\0\0\0"s + R"({"__metadata__":{"format":"pt"},"e":{"dtype":"F32","shape":[2,0],)" +
           R"("data_offsets":[0,0]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},)" +
           R"("h":{"dtype":"F16","shape":[2],"data_offsets":[2,6]},"u":{"dtype":"U8",)" +
           R"("shape":[1],"data_offsets":[6,7]}}  )" + "I@\0<T\xb5\xff"s);
  CHECK(file.metadata == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(file.tensors.size() == 4);
  const auto named = [&](const std::string& name) {
    for (const NamedTensor& entry : file.tensors) {
      if (entry.name == name) return entry.tensor;
    }
    return Tensor();
  };
  CHECK(named("e").shape() == Shape{2, 0});
  CHECK(named("e").dtype() == DType::f32);
  CHECK(named("h").dtype() == DType::f32);
  CHECK(named("h").at({1}) == -0.3330078125);
  CHECK(named("b").dtype() == DType::f32);
  CHECK(named("b").item() == 3.140625);
  CHECK(named("u").dtype() == DType::i64);
  CHECK(named("u").item() == 255);
}

TEST_CASE("what save_safetensors writes, load_safetensors reads") {
  const Scratch scratch;
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const std::vector<NamedTensor> tensors = {{"scalar", tensor(2.5, DType::f64)},
                                            {"none", zeros({0, 3})},
                                            {"odd", tensor({1, 0, 1}, DType::boolean)},
                                            {"special", tensor({nan, infinity, -infinity, -0.0})},
                                            {"a/../\"b\"\n\\", tensor({{1, 2}, {3, 4}})},
                                            {"größe", arange(3)},
                                            {"", ones({1})}};
  const std::map<std::string, std::string> metadata = {{"step", "100"}, {"text", "line\n\"two\" \xe2\x82\xac"}};
  save_safetensors(scratch.path("x"), tensors, metadata);
  const Safetensors file = load_safetensors(scratch.path("x"));
  CHECK(file.metadata == metadata);
  REQUIRE(file.tensors.size() == tensors.size());
  for (const NamedTensor& before : tensors) {
    CAPTURE(before.name);
    const auto after = std::ranges::find(file.tensors, before.name, &NamedTensor::name);
    REQUIRE(after != file.tensors.end());
    CHECK(after->tensor.dtype() == before.tensor.dtype());
    CHECK(after->tensor.shape() == before.tensor.shape());
    visit_any(before.tensor.dtype(), [&](auto zero) {
      const auto a = before.tensor.read<decltype(zero)>(), b = after->tensor.read<decltype(zero)>();
      CHECK(std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
    });
  }
  const std::string bytes = scratch.bytes("x");
  save_safetensors(scratch.path("y"), file.tensors, file.metadata);
  CHECK(scratch.bytes("y") == bytes);
}

TEST_CASE("load_safetensors reads unusual but sound files") {
  CHECK(load(file_of("{}")).tensors.empty());
  CHECK(load(file_of("{" + kGood + "}     ", kEight)).tensors.size() == 1);
  CHECK(load(file_of("{ \"x\" : {\n\"data_offsets\": [0, 8], \"shape\": [2],\t\"dtype\": \"F32\" } }", kEight))
            .tensors.size() == 1);
  CHECK(load(file_of("{" + entry("x", "F32", "[]", "[0,4]") + "," + entry("none", "F32", "[0]", "[4,4]") + "}",
                     "\0\0\x80?"s))
            .tensors[0]
            .tensor.item() == 1);
  const Safetensors unsorted = load(file_of(
      "{" + entry("b", "I16", "[1]", "[2,4]") + "," + entry("a", "U16", "[1]", "[0,2]") + "}", "\1\0\xff\xff"s));
  CHECK(unsorted.tensors[0].name == "a");
  CHECK(unsorted.tensors[0].tensor.item() == 1);
  CHECK(unsorted.tensors[1].tensor.item() == -1);
  CHECK(load(file_of(R"({"__metadata__":{}})")).metadata.empty());
  CHECK(load(file_of("{" + entry("..\\/\\u00e9", "F32", "[2]", "[0,8]") + "}", kEight)).tensors[0].name ==
        "../\xc3\xa9");
  CHECK(load(file_of("{" + entry("x", "F32", "[-0,3]", "[0,0]") + "}")).tensors[0].tensor.shape() == Shape{0, 3});
  CHECK(load(file_of("{" + entry("a\\u0000b", "F32", "[2]", "[0,8]") + "}", kEight)).tensors[0].name == "a\0b"s);
  CHECK(load(file_of("{" + entry(std::string(10'000'000, 'n'), "F32", "[2]", "[0,8]") + "}", kEight))
            .tensors[0]
            .name.size() == 10'000'000);
  std::string many = "{";
  for (int i = 0; i < 100'000; ++i) many += entry("n" + std::to_string(i), "F32", "[0]", "[0,0]") + ",";
  many.back() = '}';
  CHECK(load(file_of(many)).tensors.size() == 100'000);
}

TEST_CASE("a header that promises much takes no memory") {
  const std::size_t before = live_bytes();
  const Scratch scratch;
  const std::string path =
      scratch.file("x", file_of("{" + entry("x", "F32", "[1000000000000]", "[0,4000000000000]") + "}"));
  CHECK_THROWS_AS(load_safetensors(path), FormatError);
  CHECK(live_bytes() == before);
}

TEST_CASE("a file that cannot be written leaves the old one and nothing else") {
  const Scratch scratch;
  save_safetensors(scratch.path("x"), one(1));
  const std::string before = scratch.bytes("x");
  SUBCASE("the disk is full") {
    struct rlimit old {};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small { 4096, old.rlim_max };
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    std::string text = "nothing was thrown";
    try {
      save_safetensors(scratch.path("x"), {{"big", zeros({1 << 20})}});
    } catch (const IoError& error) {
      text = error.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
    CHECK(text == "save_safetensors: cannot write " + scratch.path("x") + ": File too large; name another file");
  }
  SUBCASE("somebody is in its way") {
    std::filesystem::create_directory(scratch.path("x.part"));
    CHECK_THROWS_WITH_AS(save_safetensors(scratch.path("x"), one(2)), doctest::Contains("Is a directory"), IoError);
    std::filesystem::remove(scratch.path("x.part"));
  }
  SUBCASE("what is saved makes no sense") {
    CHECK_THROWS_AS(save_safetensors(scratch.path("x"), {{"y", Tensor()}}), StateError);
    CHECK_THROWS_WITH_AS(save_safetensors(scratch.path("x"), {{"y", ones({1})}, {"y", ones({1})}}),
                         "save_safetensors: two tensors are called \"y\"", ValueError);
    CHECK_THROWS_AS(save_safetensors(scratch.path("x"), {{"__metadata__", ones({1})}}), ValueError);
    CHECK_THROWS_WITH_AS(save_safetensors(scratch.path("x"), {{"\xff", ones({1})}}), doctest::Contains("is not UTF-8"),
                         ValueError);
    CHECK_THROWS_AS(save_safetensors(scratch.path("x"), {}, {{"a", "\xff"}}), ValueError);
  }
  CHECK(scratch.bytes("x") == before);
  CHECK(scratch.names() == std::vector<std::string>{"x"});
}

TEST_CASE("a save takes over what a killed one left, and follows links") {
  const Scratch scratch;
  scratch.file("x.part", std::string(100'000, 'z'));
  save_safetensors(scratch.path("x"), one(3));
  CHECK(load_safetensors(scratch.path("x")).tensors[0].tensor.at({1}) == 3);
  CHECK(scratch.names() == std::vector<std::string>{"x"});
  std::filesystem::create_symlink("x", scratch.path("latest"));
  save_safetensors(scratch.path("latest"), one(4));
  CHECK(std::filesystem::is_symlink(scratch.path("latest")));
  CHECK(load_safetensors(scratch.path("x")).tensors[0].tensor.at({1}) == 4);
}

TEST_CASE("safetensors files that the system refuses are named with its reason") {
  const Scratch scratch;
  const std::string missing = scratch.path("missing"), nowhere = scratch.path("folder/x");
  CHECK_THROWS_WITH_AS(load_safetensors(missing),
                       ("load_safetensors: cannot read " + missing + ": No such file or directory").c_str(), IoError);
  CHECK_THROWS_WITH_AS(save_safetensors(nowhere, one(1)),
                       ("save_safetensors: cannot write " + nowhere +
                        ": No such file or directory; make its folder first or name another file")
                           .c_str(),
                       IoError);
  CHECK_THROWS_WITH_AS(load_safetensors(scratch.path("")), doctest::Contains("Is a directory"), IoError);
  CHECK_THROWS_WITH_AS(load_safetensors("/dev/zero"), doctest::Contains("not a regular file"), IoError);
}
