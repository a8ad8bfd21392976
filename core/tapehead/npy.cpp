// SPDX-License-Identifier: MIT
#include <tapehead/npy.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tapehead/detail/stored.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>
#include <tapehead/tape.h>

namespace tapehead {
namespace {

using detail::InputFile;
using detail::shown;
using detail::StoredType;

constexpr std::string_view kMagic = "\x93NUMPY";
// NumPy's own limit: its headers have about 100 characters, and a longer one is no plain array's.
constexpr std::uint32_t kMaxHeader = 10'000;

struct Header {
  const StoredType* type = nullptr;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<Index> sizes;
  std::uint64_t data_offset = 0;
};

[[noreturn]] void fail(const InputFile& file, const std::string& what) {
  throw FormatError(fmt::format("load_npy: {}: {}", file.path(), what));
}

// The header is a Python dict with three entries; this reads what NumPy writes for plain arrays and nothing else.
class Parser {
 public:
  Parser(const InputFile& file, std::string_view text) : file_(file), text_(text) {}

  Header run() {
    Header header;
    bool has_order = false, has_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && header.type == nullptr) {
        read_descr(header);
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        header.fortran_order = boolean();
      } else if (key == "shape" && !std::exchange(has_shape, true)) {
        header.sizes = tuple();
      } else {
        fail(file_, fmt::format("the header's key '{}' is unknown or doubled; expected descr, fortran_order and "
                                "shape, once each",
                                shown(key)));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) unexpected("the end of the header");
    const char* missing = header.type == nullptr ? "descr" : !has_order ? "fortran_order" : "shape";
    if (header.type == nullptr || !has_order || !has_shape) {
      fail(file_, fmt::format("the header lacks the key '{}'", missing));
    }
    return header;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void unexpected(const std::string& expected) {
    fail(file_,
         fmt::format("expected {} at character {} of the header, got \"{}\"", expected, at_, shown(text_.substr(at_))));
  }
  void expect(char c) {
    if (!take(c)) unexpected(fmt::format("'{}'", c));
  }

  std::string_view quoted() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"' && !take('"')) unexpected("a quoted text");
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) unexpected("the end of a quoted text");
    const std::string_view out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }

  bool boolean() {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    const bool value = rest.starts_with("True");
    if (!value && !rest.starts_with("False")) unexpected("True or False for fortran_order");
    at_ += value ? 4 : 5;
    return value;
  }

  Index number() {
    skip_space();
    Index value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    const bool leading_zero = end - begin > 1 && *begin == '0';
    if (error != std::errc() || value < 0 || leading_zero) unexpected("a size from 0 to 2^63 - 1");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  std::vector<Index> tuple() {
    std::vector<Index> sizes;
    expect('(');
    while (!take(')')) {
      sizes.push_back(number());
      if (sizes.size() > Shape::kMaxRank) {
        fail(file_, fmt::format("the array has more than {} axes", static_cast<int>(Shape::kMaxRank)));
      }
      if (take(',')) continue;
      if (sizes.size() == 1) unexpected("a comma: (3,) is a tuple, (3) is not");
      expect(')');
      break;
    }
    return sizes;
  }

  void read_descr(Header& header) {
    skip_space();
    const std::size_t begin = at_;
    constexpr std::string_view kExpected = "expected '<f4' or another float of 2, 4 or 8 bytes, integer or bool";
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) {
      fail(file_, fmt::format("descr {} is not a plain element type; {}", shown(text_.substr(begin)), kExpected));
    }
    const std::string_view descr = quoted();
    const char order = descr.empty() ? ' ' : descr[0];
    if (order == '<' || order == '>' || order == '=' || order == '|') {
      header.type = detail::stored_type_coded(descr.substr(1));
      header.big_endian = order == '>';
    }
    if (header.type == nullptr || (order == '|' && header.type->bytes != 1)) {
      fail(file_, fmt::format("descr '{}' is not an element type that Tapehead has; {}", shown(descr), kExpected));
    }
  }

  const InputFile& file_;
  std::string_view text_;
  std::size_t at_ = 0;
};

Header read_header(const InputFile& file) {
  unsigned char start[12] = {};
  const std::size_t have = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), sizeof start));
  file.read(0, start, have);
  const std::string_view magic(reinterpret_cast<const char*>(start), std::min(have, kMagic.size()));
  if (magic != kMagic) fail(file, "not an .npy file: it does not begin with the bytes 93 'NUMPY'");
  const int version = start[6];
  const std::size_t begin = version == 1 ? 10 : 12;
  if (have >= 8 && (version < 1 || version > 3 || start[7] != 0)) {
    fail(file, fmt::format("format version {}.{} is unknown; expected 1.0, 2.0 or 3.0", version, start[7]));
  }
  if (have < begin) fail(file, fmt::format("the file ends at byte {}, inside the length of its header", file.size()));
  std::uint32_t length = start[8] | static_cast<std::uint32_t>(start[9]) << 8;
  if (version > 1) length |= static_cast<std::uint32_t>(start[10]) << 16 | static_cast<std::uint32_t>(start[11]) << 24;
  if (length > kMaxHeader) {
    fail(file, fmt::format("the header has {} bytes; expected at most {}", length, kMaxHeader));
  }
  if (length > file.size() - begin) {
    fail(file, fmt::format("the header has {} bytes, but the file ends {} bytes after its length", length,
                           file.size() - begin));
  }
  std::string text(length, '\0');
  file.read(begin, text.data(), length);
  const auto foreign = text.find_first_not_of(
      "\n\t !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
      "abcdefghijklmnopqrstuvwxyz{|}~");
  if (foreign != std::string::npos) fail(file, fmt::format("byte {} of the header is not ASCII text", foreign));
  Header header = Parser(file, text).run();
  header.data_offset = begin + length;
  return header;
}

std::string header_text(const Tensor& tensor) {
  const detail::StoredType& type = detail::stored_type_of(tensor.dtype());
  std::string shape;
  for (const Index size : tensor.shape()) shape += fmt::format("{}{}", shape.empty() ? "" : ", ", size);
  if (tensor.rank() == 1) shape += ',';
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 type.bytes == 1 ? '|' : '<', type.code, shape);
  // NumPy keeps room for the first size to grow to 21 digits, and lets the data begin at a multiple of 64.
  if (tensor.rank() > 0) text.append(21 - std::to_string(tensor.shape()[0]).size(), ' ');
  text.append(64 - (kMagic.size() + 4 + text.size() + 1) % 64, ' ');
  return text + '\n';
}

}  // namespace

Tensor load_npy(const std::string& path) {
  const InputFile file("load_npy", path);
  const Header header = read_header(file);
  const Index bytes = detail::stored_bytes(header.sizes, header.type->bytes);
  const std::uint64_t have = file.size() - header.data_offset;
  if (bytes < 0 || static_cast<std::uint64_t>(bytes) != have) {
    fail(file, fmt::format("its {} array [{}] takes {} bytes, but {} follow the header", header.type->name,
                           fmt::join(header.sizes, ", "), bytes < 0 ? "more than 2^60" : std::to_string(bytes), have));
  }
  const Shape stored(header.fortran_order ? std::vector<Index>(header.sizes.rbegin(), header.sizes.rend())
                                          : header.sizes);
  const Tensor out =
      detail::read_elements(file, header.data_offset, *header.type, stored, header.big_endian, "the array");
  if (!header.fortran_order || out.rank() < 2) return out;
  std::vector<int> reversed;
  for (int axis = out.rank() - 1; axis >= 0; --axis) reversed.push_back(axis);
  return permute(out, reversed);
}

void save_npy(const std::string& path, const Tensor& tensor) {
  const std::string header = header_text(tensor);
  detail::OutputFile file("save_npy", path);
  file.write(std::string(kMagic) + '\x01' + '\0' + static_cast<char>(header.size() & 0xff) +
             static_cast<char>(header.size() >> 8));
  file.write(header);
  detail::write_elements(file, tensor);
  file.commit();
}

}  // namespace tapehead
