// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include <tapehead/error.h>
#include <tapehead/npy.h>
#include <tapehead/ops.h>

#include "scratch.h"

using namespace tapehead;
using namespace std::string_literals;

namespace {

std::string npy(std::string header, const std::string& data, int version = 1) {
  const std::size_t length = header.size();
  std::string out = "\x93NUMPY"s + static_cast<char>(version) + '\0' + static_cast<char>(length & 0xff) +
                    static_cast<char>(length >> 8);
  if (version > 1) out += "\0\0"s;
  return out + header + data;
}

std::string dict(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

template <class T>
std::string bytes_of(std::initializer_list<T> values, bool big_endian = false) {
  std::string out;
  for (T value : values) {
    std::string element(reinterpret_cast<const char*>(&value), sizeof value);
    if (big_endian) std::reverse(element.begin(), element.end());
    out += element;
  }
  return out;
}

Tensor load(const std::string& bytes) {
  const Scratch scratch;
  return load_npy(scratch.file("x.npy", bytes));
}

template <class T>
std::vector<T> values(const Tensor& x) {
  return {x.read<T>().begin(), x.read<T>().end()};
}

template <class T>
void check_integers(const std::string& code, T low, T high) {
  CAPTURE(code);
  const std::vector<Index> expected = {static_cast<Index>(low), static_cast<Index>(high), 7};
  for (const bool big_endian : {false, true}) {
    const std::string order = big_endian ? ">" : "<";
    const Tensor x = load(npy(dict(order + code, "(3,)"), bytes_of<T>({low, high, 7}, big_endian)));
    CHECK(x.dtype() == DType::i64);
    CHECK(values<Index>(x) == expected);
  }
}

}  // namespace

// The two files were written by NumPy 2.4.6, numpy.save.
TEST_CASE("save_npy writes NumPy's bytes") {
  const Scratch scratch;
  save_npy(scratch.path("f4.npy"), tensor({{1.5, -2}, {3, 4}}));
  CHECK(scratch.bytes("f4.npy") ==
        "\x93NUMPY\x01\x00v\x00"s + "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }" +
            std::string(58, ' ') + "\n\x00\x00\xc0?\x00\x00\x00\xc0\x00\x00@@\x00\x00\x80@"s);
  save_npy(scratch.path("f8.npy"), tensor(2.5, DType::f64));
  CHECK(scratch.bytes("f8.npy") == "\x93NUMPY\x01\x00v\x00"s +
                                       "{'descr': '<f8', 'fortran_order': False, 'shape': (), }" +
                                       std::string(62, ' ') + "\n\x00\x00\x00\x00\x00\x00\x04@"s);
  save_npy(scratch.path("b1.npy"), tensor({1, 0}, DType::boolean));
  CHECK(scratch.bytes("b1.npy") == "\x93NUMPY\x01\x00v\x00"s +
                                       "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }" +
                                       std::string(60, ' ') + "\n\x01\x00"s);
  CHECK(scratch.names() == std::vector<std::string>{"b1.npy", "f4.npy", "f8.npy"});
}

TEST_CASE("what save_npy writes, load_npy reads") {
  const Scratch scratch;
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 0, 3}, Shape{2, 3, 1, 2}, Shape{1, 1, 1, 1, 1, 1, 1, 2}}) {
      const Tensor x = to(arange(0, static_cast<double>(shape.numel())), dtype);
      save_npy(scratch.path("x.npy"), reshape(x, shape));
      const Tensor y = load_npy(scratch.path("x.npy"));
      CHECK(y.shape() == shape);
      CHECK(y.dtype() == dtype);
      CHECK(sum(to(equal(reshape(y, {shape.numel()}), x), DType::i64)).item() == static_cast<double>(shape.numel()));
      CHECK(scratch.bytes("x.npy").size() % 64 == static_cast<std::size_t>(shape.numel()) * size_of(dtype) % 64);
    }
  }
}

TEST_CASE("load_npy keeps the bits of NaN, infinities and both zeros") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const Tensor x = load(npy(dict(">f8", "(4,)"), bytes_of<double>({nan, -infinity, -0.0, 5e-324}, true)));
  CHECK(std::isnan(x.at({0})));
  CHECK(x.at({1}) == -infinity);
  CHECK(std::signbit(x.at({2})));
  CHECK(x.at({3}) == 5e-324);
}

TEST_CASE("load_npy widens integers and halves, in both byte orders") {
  check_integers<std::int8_t>("i1", -128, 127);
  check_integers<std::int16_t>("i2", -32768, 32767);
  check_integers<std::int32_t>("i4", std::numeric_limits<std::int32_t>::min(),
                               std::numeric_limits<std::int32_t>::max());
  check_integers<std::int64_t>("i8", std::numeric_limits<Index>::min(), std::numeric_limits<Index>::max());
  check_integers<std::uint8_t>("u1", 0, 255);
  check_integers<std::uint16_t>("u2", 0, 65535);
  check_integers<std::uint32_t>("u4", 0, std::numeric_limits<std::uint32_t>::max());
  check_integers<std::uint64_t>("u8", 0, std::numeric_limits<Index>::max());
  // numpy.array([1, -0., 6.1e-5, 5.96e-8, 65504, inf, -inf, nan, 0.333], numpy.float16), written by NumPy 2.4.6
  const Tensor half = load(npy(dict("<f2", "(9,)"), "\x00<\x00\x80\xff\x03\x01\x00\xff{\x00|\x00\xfc\x00~T5"s));
  const std::vector<float> expected = {1, -0.F, 6.097555160522461e-05F, 5.960464477539063e-08F, 65504};
  CHECK(half.dtype() == DType::f32);
  CHECK(std::equal(expected.begin(), expected.end(), half.read<float>().begin()));
  CHECK(std::signbit(half.at({1})));
  CHECK(half.at({5}) == std::numeric_limits<double>::infinity());
  CHECK(half.at({6}) == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(half.at({7})));
  CHECK(half.at({8}) == 0.3330078125);
  const Tensor flags = load(npy(dict("|b1", "(3,)"), "\x00\x01\x02"s));
  CHECK(flags.read<bool>()[1]);
  CHECK(flags.read<bool>()[2]);
  std::string many;  // more than one buffer
  for (int i = 0; i < 50'000; ++i) many += bytes_of<std::uint16_t>({static_cast<std::uint16_t>(i)});
  const Tensor counted = load(npy(dict("<u2", "(50000,)"), many));
  for (Index i = 0; i < 50'000; ++i) REQUIRE(counted.read<Index>()[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("load_npy puts Fortran order into rows") {
  // numpy.asfortranarray(numpy.arange(6, dtype='>i2').reshape(2, 3)), written by NumPy 2.4.6
  const Tensor x = load(npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }" + std::string(59, ' ') + "\n",
                            "\x00\x00\x00\x03\x00\x01\x00\x04\x00\x02\x00\x05"s));
  CHECK(x.shape() == Shape{2, 3});
  CHECK(values<Index>(x) == std::vector<Index>{0, 1, 2, 3, 4, 5});
  CHECK(load(npy(dict("<f4", "(0, 3)", "True"), "")).shape() == Shape{0, 3});
  CHECK(load(npy(dict("<f4", "(1,)", "True"), bytes_of<float>({2}))).item() == 2);
}

TEST_CASE("load_npy reads every way to write a header") {
  const std::string data = bytes_of<float>({1, 2});
  for (const int version : {1, 2, 3}) CHECK(load(npy(dict("<f4", "(2,)"), data, version)).at({1}) == 2);
  CHECK(load(npy("{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"=f4\"}", data)).at({1}) == 2);
  CHECK(load(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}   \n", data)).shape() == Shape{1, 2});
  CHECK(load(npy(dict("<f4", "()"), bytes_of<float>({7}))).item() == 7);
  CHECK(load(npy(dict("<f4", "(0, 72057594037927936)", "False"), "")).numel() == 0);
}

TEST_CASE("load_npy refuses damaged files and says what it expected and got") {
  struct Bad {
    std::string bytes, part;
  };
  const std::string good = npy(dict("<f4", "(2,)"), bytes_of<float>({1, 2}));
  const std::string two = bytes_of<float>({1, 2});
  const auto header = [&](const std::string& text) { return npy(text, two); };
  const Bad all[] = {
      {"", "does not begin with"},
      {"\x93NUMP", "does not begin with"},
      {"PK\x03\x04" + good, "does not begin with"},
      {"\x93NUMPY", "ends at byte 6"},
      {good.substr(0, 9), "ends at byte 9"},
      {npy(dict("<f4", "(2,)"), two, 0), "version 0.0"},
      {npy(dict("<f4", "(2,)"), two, 4), "version 4.0"},
      {"\x93NUMPY\x01\x01v\x00"s, "version 1.1"},
      {"\x93NUMPY\x01\x00\xff\x0f"s + "{}", "has 4095 bytes, but the file ends 2 bytes"},
      {"\x93NUMPY\x02\x00\xff\xff\xff\xff"s, "has 4294967295 bytes; expected at most 10000"},
      {npy(dict("<f4", "(2,)") + std::string(10'000, ' '), two), "expected at most 10000"},
      {header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), '\xc3\xa9': 1}"),
       "byte 57 of the header is not ASCII"},
      {header(""), "expected '{'"},
      {header("[1, 2]"), "expected '{' at character 0 of the header, got \"[1, 2]\""},
      {header("{'descr': '<f4', 'fortran_order': False}"), "lacks the key 'shape'"},
      {header("{'fortran_order': False, 'shape': (2,)}"), "lacks the key 'descr'"},
      {header("{'descr': '<f4', 'shape': (2,)}"), "lacks the key 'fortran_order'"},
      {header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"),
       "key 'descr' is unknown or doubled"},
      {header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'shape': (2,)}"),
       "key 'shape' is unknown or doubled"},
      {header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}"), "key 'more' is unknown"},
      {header(dict("<f4", "(2,)") + "x"), "expected the end of the header"},
      {header("{'descr': '<f4', 'fortran_order': False 'shape': (2,)}"), "expected '}'"},
      {header("{'descr: <f4}"), "expected the end of a quoted text"},
      {header(dict("|O", "(2,)")), "descr '|O' is not an element type"},
      {header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"), "descr [('a'"},
      {header(dict("|S4", "(2,)")), "descr '|S4'"},
      {header(dict("<U4", "(2,)")), "descr '<U4'"},
      {header(dict("<c8", "(1,)")), "descr '<c8'"},
      {header(dict("<M8[s]", "(1,)")), "descr '<M8[s]'"},
      {header(dict("<f16", "(2,)")), "descr '<f16'"},
      {header(dict("f4", "(2,)")), "descr 'f4'"},
      {header(dict("", "(2,)")), "descr ''"},
      {header(dict("|f4", "(2,)")), "descr '|f4'"},
      {header(dict("<", "(2,)")), "descr '<'"},
      {header(dict("<f4", "(2,)", "0")), "expected True or False"},
      {header(dict("<f4", "(2,)", "true")), "expected True or False"},
      {header(dict("<f4", "(-2,)")), "expected a size from 0"},
      {header(dict("<f4", "(2)")), "expected a comma"},
      {header(dict("<f4", "(2L,)")), "expected a comma"},
      {header(dict("<f4", "(1L, 2L)")), "expected a comma"},
      {header(dict("<f4", "(n,)")), "expected a size"},
      {header(dict("<f4", "(int(2),)")), "expected a size"},
      {header(dict("<f4", "(2.0,)")), "expected a comma"},
      {header(dict("<f4", "(02,)")), "expected a size"},
      {header(dict("<f4", "[2]")), "expected '('"},
      {header(dict("<f4", "(9223372036854775808,)")), "expected a size"},
      {header(dict("<f4", "(4294967296, 4294967296)")), "takes more than 2^60 bytes, but 8 follow"},
      {header(dict("<f4", "(4611686018427387904, 4, 0)")), "takes more than 2^60 bytes"},
      {header(dict("<f4", "(4611686018427387906,)")), "takes more than 2^60 bytes"},
      {header(dict("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 2)")), "more than 8 axes"},
      {header(dict("<f4", "(3,)")), "F32 array [3] takes 12 bytes, but 8 follow"},
      {header(dict("<f4", "(1,)")), "F32 array [1] takes 4 bytes, but 8 follow"},
      {header(dict("<f4", "()")), "takes 4 bytes, but 8 follow"},
      {header(dict("<u8", "(1,)")).substr(0, good.size() - 8) + "\xff\xff\xff\xff\xff\xff\xff\xff",
       "element 0 of the array"},
  };
  for (const Bad& bad : all) {
    CAPTURE(bad.part);
    std::string text = "nothing was thrown";
    try {
      load(bad.bytes);
    } catch (const FormatError& error) {
      text = error.what();
    }
    CHECK(text.rfind("load_npy: ", 0) == 0);
    CHECK_MESSAGE(text.find("x.npy: ") != std::string::npos, text);
    CHECK_MESSAGE(text.find(bad.part) != std::string::npos, text);
  }
}

TEST_CASE("npy files that the system refuses are named with its reason") {
  const Scratch scratch;
  const std::string missing = scratch.path("missing.npy");
  CHECK_THROWS_WITH_AS(load_npy(missing), ("load_npy: cannot read " + missing + ": No such file or directory").c_str(),
                       IoError);
  CHECK_THROWS_WITH_AS(load_npy(scratch.path("")), doctest::Contains("Is a directory"), IoError);
  CHECK_THROWS_WITH_AS(load_npy("/dev/null"), doctest::Contains("not a regular file"), IoError);
  const std::string nowhere = scratch.path("folder/x.npy");
  CHECK_THROWS_WITH_AS(
      save_npy(nowhere, ones({2})),
      ("save_npy: cannot write " + nowhere + ": No such file or directory; make its folder first or name another file")
          .c_str(),
      IoError);
  CHECK_THROWS_WITH_AS(save_npy(scratch.path("."), ones({2})), doctest::Contains("Is a directory"), IoError);
  CHECK_THROWS_WITH_AS(save_npy("/dev/full", ones({2})), doctest::Contains("No space left on device"), IoError);
  CHECK_THROWS_AS(save_npy(scratch.path("x.npy"), Tensor()), StateError);
  CHECK(scratch.names().empty());
}
