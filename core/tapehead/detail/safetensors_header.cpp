// SPDX-License-Identifier: MIT
#include <tapehead/detail/safetensors_header.h>

#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tapehead/detail/file.h>
#include <tapehead/error.h>
#include <tapehead/shape.h>

namespace tapehead::detail {
namespace {

using Json = nlohmann::json;

// Told of each token in turn. The nesting that a header can have is fixed, so that a deeper one ends the reading at
// once, and what is not part of a header is never kept.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(const std::string& path) : path_(path) {}
  SafetensorsHeader header;

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool binary(binary_t& /*value*/) override { unexpected("bytes"); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { unexpected(text); }
  bool number_integer(number_integer_t value) override {
    if (value == 0) return number_unsigned(0);  // "-0"
    unexpected(std::to_string(value));
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<Index>::max())) unexpected(std::to_string(value));
    const Index number = static_cast<Index>(value);
    if (place_ == Place::shape) {
      if (entry().sizes.size() == Shape::kMaxRank) {
        fail(fmt::format("tensor \"{}\" has more than {} axes", shown(entry().name), +Shape::kMaxRank));
      }
      entry().sizes.push_back(number);
    } else if (place_ == Place::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? entry().begin : entry().end) = number;
    } else {
      unexpected(std::to_string(value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      header.metadata[key_] = std::move(value);
    } else if (place_ == Place::tensor && key_ == "dtype") {
      entry().dtype = std::move(value);
    } else {
      unexpected("a text");
    }
    return true;
  }

  bool start_object(std::size_t /*size*/) override {
    if (place_ == Place::outside) {
      place_ = Place::top;
    } else if (place_ == Place::top && key_ == "__metadata__") {
      place_ = Place::metadata;
    } else if (place_ == Place::top) {
      place_ = Place::tensor;
      header.entries.emplace_back().name = key_;
      fields_.clear();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (!fields_.contains(field)) fail(fmt::format("tensor \"{}\" lacks its {}", shown(entry().name), field));
      }
    }
    place_ = place_ == Place::top ? Place::outside : Place::top;
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (place_ == Place::tensor && key_ == "shape") {
      place_ = Place::shape;
    } else if (place_ == Place::tensor && key_ == "data_offsets") {
      place_ = Place::offsets;
      offsets_ = 0;
    } else {
      unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_ != 2) unexpected("a list of another length");
    place_ = Place::tensor;
    return true;
  }

  bool key(string_t& value) override {
    if (place_ == Place::tensor && value != "dtype" && value != "shape" && value != "data_offsets") {
      fail(fmt::format("tensor \"{}\" has the unknown field \"{}\"", shown(entry().name), shown(value)));
    }
    auto& keys = place_ == Place::top ? names_ : place_ == Place::tensor ? fields_ : metadata_keys_;
    if (!keys.insert(value).second) {
      fail(place_ == Place::tensor
               ? fmt::format("tensor \"{}\" has the field \"{}\" twice", shown(entry().name), shown(value))
               : fmt::format("the name \"{}\" comes twice", shown(value)));
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/, const Json::exception& error) override {
    std::string reason = error.what();
    reason.erase(0, reason.find("] ") + 2);  // the parser's number for it
    fail(fmt::format("the header is not JSON at byte {}: {}", position, shown(reason)));
  }

 private:
  enum class Place { outside, top, metadata, tensor, shape, offsets };

  SafetensorsEntry& entry() { return header.entries.back(); }

  [[noreturn]] void fail(const std::string& what) const {
    throw FormatError(fmt::format("load_safetensors: {}: {}", path_, what));
  }

  [[noreturn]] void unexpected(const std::string& got) const {
    const bool in_tensor = place_ == Place::tensor || place_ == Place::shape || place_ == Place::offsets;
    if (in_tensor) {
      const char* expected = key_ == "dtype"   ? "a text"
                             : key_ == "shape" ? "a list of sizes from 0 to 2^63 - 1"
                                               : "a list of two positions from 0 to 2^63 - 1";
      fail(fmt::format("tensor \"{}\": expected {} as {}, got {}", shown(header.entries.back().name), expected, key_,
                       shown(got)));
    }
    fail(place_ == Place::metadata ? fmt::format("metadata \"{}\": expected a text, got {}", shown(key_), shown(got))
         : place_ == Place::top    ? fmt::format("tensor \"{}\": expected an object, got {}", shown(key_), shown(got))
                                   : fmt::format("expected an object, got {}", shown(got)));
  }

  const std::string& path_;
  Place place_ = Place::outside;
  std::string key_;
  int offsets_ = 0;
  std::set<std::string, std::less<>> names_, fields_, metadata_keys_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view text) {
  if (text.empty() || text[0] != '{') {
    throw FormatError(fmt::format("load_safetensors: {}: the header must begin with {{, is \"{}\"", path, shown(text)));
  }
  // The parser takes a zero byte for the end of the text.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw FormatError(fmt::format("load_safetensors: {}: byte {} of the header is 0", path, zero));
  }
  Reader reader(path);
  Json::sax_parse(text.begin(), text.end(), &reader);
  return std::move(reader.header);
}

}  // namespace tapehead::detail
