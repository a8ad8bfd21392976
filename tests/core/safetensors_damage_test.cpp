// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <tapehead/error.h>

#include "core/safetensors_files.h"

using namespace tapehead;
using namespace safetensors_files;
using namespace std::string_literals;

namespace {

const std::string kManyAxes = [] {
  std::string out = "[1";
  for (int i = 0; i < 64; ++i) out += ",1";
  return out + "]";
}();
}  // namespace

TEST_CASE("load_safetensors refuses damaged files and says where") {
  struct Bad {
    std::string bytes, part;
  };
  const auto header = [&](const std::string& text) { return file_of(text, kEight); };
  const auto x = [&](const std::string& dtype, const std::string& shape, const std::string& at) {
    return header("{" + entry("x", dtype, shape, at) + "}");
  };
  const std::string good = file_of("{" + kGood + "}", kEight);
  const auto two = [&](const std::string& first, const std::string& second) {
    return header("{" + entry("x", "U8", "[4]", first) + "," + entry("y", "U8", "[4]", second) + "}");
  };
  const std::string metadata = R"({"__metadata__":)";
  const Bad all[] = {
      // the length of the header
      {"", "a file of 0 bytes is too short"},
      {"1234567", "a file of 7 bytes is too short"},
      {with_length(0, ""), "must begin with {, is \"\""},
      {with_length(3, "{}"), "has 3 bytes, but 2 follow"},
      {with_length(100'000'001, "{}"), "has 100000001 bytes; expected at most 100000000"},
      {with_length(~std::uint64_t{0}, "{}"), "has 18446744073709551615 bytes"},
      {with_length(~std::uint64_t{0} - 7, "{}"), "expected at most 100000000"},
      {good.substr(0, 40), "follow its length"},
      // the text of the header
      {header("{\"\xff\":1}"), "not JSON at byte"},
      {header("{\"\xc0\xaf\":1}"), "not JSON at byte"},
      {header(" {}"), "must begin with {"},
      {header("[]"), "must begin with {, is \"[]\""},
      {header("\xef\xbb\xbf{}"), "must begin with {"},
      {header("{"), "not JSON at byte"},
      {header("{" + kGood), "not JSON at byte"},
      {header("{" + kGood + ",}"), "not JSON at byte"},
      {header("{x:1}"), "not JSON at byte 2"},
      {header("{" + kGood + "} x"), "not JSON at byte"},
      {header("{" + kGood + "}{}"), "not JSON at byte"},
      {header("{" + kGood + "}\0x"s), "of the header is 0"},
      {header("{" + kGood + "/**/}"), "not JSON at byte"},
      {header(R"({"\ud800":{}})"), "not JSON at byte"},
      {header("{\"a\nb\":{}}"), "not JSON at byte"},
      {header("{\"a\":" + std::string(100'000, '[')), "tensor \"a\": expected an object, got a list"},
      {header("{\"a\":" + std::string(100'000, '{')), "not JSON at byte"},
      {header(std::string(100'000, '{')), "not JSON at byte"},
      {header("{\"a\":{\"shape\":" + std::string(100'000, '[')),
       "expected a list of sizes from 0 to 2^63 - 1 as shape, got a list"},
      // names and fields
      {header("{" + kGood + "," + kGood + "}"), "the name \"x\" comes twice"},
      {header("{" + kGood + "," + entry("\\u0078", "F32", "[2]", "[0,8]") + "}"), "the name \"x\" comes twice"},
      {header(R"({"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
       "has the field \"dtype\" twice"},
      {header(R"({"x":{"shape":[2],"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
       "has the field \"shape\" twice"},
      {header(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})"), "has the unknown field \"more\""},
      {header(R"({"x":{"shape":[2],"data_offsets":[0,8]}})"), "tensor \"x\" lacks its dtype"},
      {header(R"({"x":{"dtype":"F32","data_offsets":[0,8]}})"), "tensor \"x\" lacks its shape"},
      {header(R"({"x":{"dtype":"F32","shape":[2]}})"), "tensor \"x\" lacks its data_offsets"},
      {header(R"({"x":1})"), "tensor \"x\": expected an object, got 1"},
      {header(R"({"x":null})"), "tensor \"x\": expected an object, got null"},
      {header(R"({"x":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})"), "expected a text as dtype, got 7"},
      {header(R"({"x":{"dtype":"F32","shape":"2","data_offsets":[0,8]}})"),
       "expected a list of sizes from 0 to 2^63 - 1 as shape, got a text"},
      {header(R"({"x":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})"), "as shape, got 2"},
      {header(R"({"x":{"dtype":"F32","shape":{},"data_offsets":[0,8]}})"), "as shape, got an object"},
      {header(R"({"x":{"dtype":true,"shape":[2],"data_offsets":[0,8]}})"), "as dtype, got true"},
      // metadata
      {header(metadata + "1}"), "tensor \"__metadata__\": expected an object, got 1"},
      {header(metadata + R"({"a":1}})"), "metadata \"a\": expected a text, got 1"},
      {header(metadata + R"({"a":{}}})"), "metadata \"a\": expected a text, got an object"},
      {header(metadata + R"({"a":"1","a":"2"}})"), "the name \"a\" comes twice"},
      {header(metadata + R"({},"__metadata__":{}})"), "the name \"__metadata__\" comes twice"},
      // types and shapes
      {x("F31", "[2]", "[0,8]"), "has the element type \"F31\""},
      {x("f32", "[2]", "[0,8]"), "has the element type \"f32\""},
      {x("", "[2]", "[0,8]"), "has the element type \"\""},
      {x("F8_E4M3", "[8]", "[0,8]"), "has the element type \"F8_E4M3\""},
      {x("F32", "[-2]", "[0,8]"), "as shape, got -2"},
      {x("F32", "[2.5]", "[0,8]"), "as shape, got 2.5"},
      {x("F32", "[2.0]", "[0,8]"), "as shape, got 2.0"},
      {x("F32", "[1e3]", "[0,8]"), "as shape, got 1e3"},
      {x("F32", "[1e400]", "[0,8]"), "not JSON at byte"},
      {x("F32", "[9223372036854775808]", "[0,8]"), "as shape, got 9223372036854775808"},
      {x("F32", "[18446744073709551616]", "[0,8]"), "as shape, got 18446744073709551616"},
      {x("F32", "[\"2\"]", "[0,8]"), "as shape, got a text"},
      {x("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), "has more than 8 axes"},
      {x("F32", kManyAxes, "[0,8]"), "has more than 8 axes"},
      {x("F32", "[4294967296,4294967296]", "[0,8]"), "takes more than 2^60 bytes, but its data has 8"},
      {x("F32", "[4611686018427387906]", "[0,8]"), "takes more than 2^60 bytes"},
      {x("F32", "[0,4611686018427387904,4]", "[0,0]"), "takes more than 2^60 bytes"},
      {x("F32", "[3]", "[0,8]"), "F32 [3], takes 12 bytes, but its data has 8"},
      {x("BOOL", "[]", "[0,8]"), "takes 1 bytes, but its data has 8"},
      // positions
      {x("F32", "[2]", "[8,0]"), "begins at byte 8 and ends at 0"},
      {x("F32", "[2]", "[0,9]"), "ends at byte 9, the data at 8"},
      {x("F32", "[2]", "[0,9223372036854775807]"), "ends at byte 9223372036854775807, the data at 8"},
      {x("F32", "[2]", "[9223372036854775808,8]"), "as data_offsets, got 9223372036854775808"},
      {x("F32", "[2]", "[-1,8]"), "as data_offsets, got -1"},
      {x("F32", "[2]", "[0,8.0]"), "as data_offsets, got 8.0"},
      {x("F32", "[2]", "[0]"), "as data_offsets, got a list of another length"},
      {x("F32", "[2]", "[0,8,8]"), "as data_offsets, got 8"},
      {two("[0,4]", "[2,6]"), "tensor \"y\" begins at byte 2, but the one before it ends at 4"},
      {two("[0,4]", "[0,4]"), "tensor \"y\" begins at byte 0, but the one before it ends at 4"},
      {header("{" + entry("x", "U8", "[2]", "[0,2]") + "," + entry("y", "U8", "[4]", "[4,8]") + "}"),
       "tensor \"y\" begins at byte 4, but the one before it ends at 2"},
      {x("U8", "[4]", "[4,8]"), "tensor \"x\" begins at byte 4, but the one before it ends at 0"},
      {x("U8", "[4]", "[0,4]"), "4 bytes are left over"},
      {header("{}"), "8 bytes are left over"},
      {good.substr(0, good.size() - 1), "tensor \"x\" ends at byte 8, the data at 7"},
      {file_of("{" + entry("x", "U64", "[1]", "[0,8]") + "}", std::string(8, '\xff')),
       "element 0 of tensor \"x\" is an unsigned number above"},
  };
  for (const Bad& bad : all) {
    CAPTURE(bad.part);
    std::string text = "nothing was thrown";
    try {
      load(bad.bytes);
    } catch (const FormatError& error) {
      text = error.what();
    }
    CHECK(text.rfind("load_safetensors: ", 0) == 0);
    CHECK_MESSAGE(text.find("x.safetensors: ") != std::string::npos, text);
    CHECK_MESSAGE(text.find(bad.part) != std::string::npos, text);
    CHECK(text.size() < 500);
  }
}
