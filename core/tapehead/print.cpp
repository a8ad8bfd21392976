// SPDX-License-Identifier: MIT
// Tensors as text, laid out as NumPy's str() lays out arrays (numpy/_core/arrayprint.py describes the rules in code).
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/error.h>
#include <tapehead/tensor.h>

namespace tapehead {
namespace {

template <class... Format>
std::string digits_of(auto value, Format... format) {
  std::array<char, 1200> text;  // f64 has up to 309 digits before the point
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format...).ptr;
  return {text.data(), end};
}

// A number's parts as they are printed: "-12", "34" and "+05", the last only in scientific notation.
struct Decimal {
  std::string whole;
  std::string fraction;
  std::string exponent;

  explicit Decimal(std::string_view text) {
    const std::size_t e = text.find('e');
    const std::size_t point = text.find('.');
    whole = text.substr(0, std::min(point, e));
    if (point < e) fraction = text.substr(point + 1, e == text.npos ? e : e - point - 1);
    if (e != text.npos) exponent = text.substr(e + 1);
  }
};

// The shortest digits that read back as the same number, or correctly rounded ones where that is more than allowed.
template <class T>
Decimal decimal(T value, std::chars_format notation, int precision) {
  Decimal shortest(digits_of(value, notation));
  if (static_cast<int>(shortest.fraction.size()) <= precision) return shortest;
  Decimal rounded(digits_of(value, notation, precision));
  rounded.fraction.erase(rounded.fraction.find_last_not_of('0') + 1);
  return rounded;
}

std::string padded_left(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

// Decides for all printed numbers together on the notation and the width of its parts.
template <class T>
class FloatFormat {
 public:
  FloatFormat(const std::vector<T>& values, int precision) : precision_(precision) {
    choose_notation(values);
    bool finite = false;
    for (const T value : values) {
      if (!std::isfinite(value)) continue;
      finite = true;
      const Decimal parts = decimal(value, notation_, precision_);
      whole_ = std::max(whole_, parts.whole.size());
      fraction_ = std::max(fraction_, parts.fraction.size());
      exponent_ = std::max(exponent_, parts.exponent.size());
    }
    width_ = whole_ + 1 + fraction_ + (exponent_ > 0 ? exponent_ + 1 : 0);
    if (!finite) width_ = 1;
    for (const T value : values) {
      if (!std::isfinite(value)) width_ = std::max(width_, word_of(value).size());
    }
  }

  std::string operator()(T value) const {
    if (!std::isfinite(value)) return padded_left(word_of(value), width_);
    if (notation_ == std::chars_format::scientific) {
      Decimal parts(digits_of(value, notation_, static_cast<int>(fraction_)));
      parts.exponent.insert(1, exponent_ - parts.exponent.size(), '0');
      return padded_left(parts.whole + '.' + parts.fraction + 'e' + parts.exponent, width_);
    }
    Decimal parts = decimal(value, notation_, precision_);
    parts.fraction.resize(fraction_, ' ');
    return padded_left(parts.whole + '.' + parts.fraction, width_);
  }

 private:
  void choose_notation(const std::vector<T>& values) {
    T largest = 0;
    T smallest = std::numeric_limits<T>::infinity();
    for (const T value : values) {
      if (!std::isfinite(value) || value == 0) continue;
      largest = std::max(largest, std::abs(value));
      smallest = std::min(smallest, std::abs(value));
    }
    if (largest == 0) return;
    constexpr T kLargestFixed = sizeof(T) == 4 ? T(1e6) : T(1e8);
    if (largest >= kLargestFixed || smallest < T(1e-4) || largest / smallest > 1000) {
      notation_ = std::chars_format::scientific;
    }
  }

  static std::string word_of(T value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

  std::chars_format notation_ = std::chars_format::fixed;
  int precision_;
  std::size_t whole_ = 0;
  std::size_t fraction_ = 0;
  std::size_t exponent_ = 0;
  std::size_t width_ = 0;
};

std::vector<std::string> words(const std::vector<bool>& values, const PrintOptions&) {
  std::vector<std::string> out;
  for (const bool value : values) out.emplace_back(value ? " True" : "False");
  return out;
}

std::vector<std::string> words(const std::vector<Index>& values, const PrintOptions&) {
  std::vector<std::string> out;
  std::size_t width = 0;
  for (const Index value : values) width = std::max(width, out.emplace_back(digits_of(value)).size());
  for (std::string& word : out) word = padded_left(std::move(word), width);
  return out;
}

template <class T>
std::vector<std::string> words(const std::vector<T>& values, const PrintOptions& options) {
  const FloatFormat<T> format(values, options.precision);
  std::vector<std::string> out;
  for (const T value : values) out.push_back(format(value));
  return out;
}

// A tensor without axes prints like a number in Python, with every digit that it takes to read it back.
std::string scalar_text(bool value) { return value ? "True" : "False"; }
std::string scalar_text(Index value) { return digits_of(value); }
template <class T>
std::string scalar_text(T value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  const double size = std::abs(static_cast<double>(value));
  const bool fixed = size == 0 || (size >= 1e-4 && size < (sizeof(T) == 4 ? 1e6 : 1e16));
  const std::string text = digits_of(value, fixed ? std::chars_format::fixed : std::chars_format::scientific);
  return fixed && text.find('.') == text.npos ? text + ".0" : text;
}

// Walks the elements that are printed, in order, and lays their words out.
class Layout {
 public:
  Layout(const Shape& shape, const PrintOptions& options)
      : shape_(shape), options_(options), summarised_(shape.numel() > options.threshold) {}

  /// Offsets of the elements that are printed, in order.
  std::vector<Index> printed() const {
    std::vector<Index> offsets{0};
    for (int axis = 0; axis < shape_.rank(); ++axis) {
      std::vector<Index> finer;
      for (const Index offset : offsets) {
        for (Index i = 0; i < shape_[axis]; ++i) {
          if (cut(axis) && i == options_.edge_items) i = shape_[axis] - options_.edge_items;
          finer.push_back(offset * shape_[axis] + i);
        }
      }
      offsets = std::move(finer);
    }
    return offsets;
  }

  std::string text(const std::vector<std::string>& words) {
    word_ = words.data();
    return block(0, " ", static_cast<std::size_t>(std::max(options_.line_width, 0)));
  }

 private:
  // Whether the middle of the axis is left out.
  bool cut(int axis) const { return summarised_ && shape_[axis] > 2 * options_.edge_items; }

  std::string block(int axis, const std::string& indent, std::size_t width) {
    if (axis == shape_.rank() - 1) return row(axis, indent, width);
    const std::string separator(static_cast<std::size_t>(shape_.rank() - axis - 1), '\n');
    std::string out = "[";
    for (Index i = 0; i < shape_[axis]; ++i) {
      if (i > 0) out += separator + indent;
      if (cut(axis) && i == options_.edge_items) {
        out += "..." + separator + indent;
        i = shape_[axis] - options_.edge_items;
      }
      out += block(axis + 1, indent + ' ', width - std::min<std::size_t>(width, 1));
    }
    return out + ']';
  }

  std::string row(int axis, const std::string& indent, std::size_t width) {
    const std::size_t limit = width - std::min<std::size_t>(width, 1);  // the bracket needs a place
    std::string out;
    std::string line = indent;
    const auto extend = [&](const std::string& word) {
      if (line.size() + word.size() > limit && line.size() > indent.size()) {
        out += line.erase(line.find_last_not_of(' ') + 1) + '\n';
        line = indent;
      }
      line += word;
    };
    for (Index i = 0; i < shape_[axis]; ++i) {
      if (i > 0) line += ' ';
      if (cut(axis) && i == options_.edge_items) {
        extend("...");
        line += ' ';
        i = shape_[axis] - options_.edge_items;
      }
      extend(*word_++);
    }
    out += line;
    return '[' + out.substr(indent.size()) + ']';
  }

  const Shape& shape_;
  const PrintOptions& options_;
  bool summarised_;
  const std::string* word_ = nullptr;
};

void check_options(const PrintOptions& options) {
  if (options.precision >= 0 && options.threshold >= 0 && options.edge_items >= 1) return;
  throw ValueError(fmt::format("to_string: precision {} and threshold {} must be at least 0, edge_items {} at least 1",
                               options.precision, options.threshold, options.edge_items));
}

}  // namespace

std::string to_string(const Tensor& tensor, const PrintOptions& options) {
  check_options(options);
  if (tensor.numel() == 0) return "[]";
  return visit_any(tensor.dtype(), [&](auto zero) -> std::string {
    using T = decltype(zero);
    const T* elements = detail::data<T>(tensor);
    if (tensor.rank() == 0) return scalar_text(*elements);
    Layout layout(tensor.shape(), options);
    std::vector<T> values;
    for (const Index offset : layout.printed()) values.push_back(elements[offset]);
    return layout.text(words(values, options));
  });
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) { return stream << to_string(tensor); }

std::ostream& operator<<(std::ostream& stream, const Shape& shape) { return stream << to_string(shape); }

}  // namespace tapehead
