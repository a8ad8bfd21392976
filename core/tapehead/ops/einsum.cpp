// SPDX-License-Identifier: MIT
// Einstein's sums, made of permutations, sums and one matmul for each pair of operands.
#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <string>

#include <fmt/format.h>

#include <tapehead/detail/kernel.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

// A tensor whose axes have names, one letter each.
struct Lettered {
  Tensor tensor;
  std::string letters;
};

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

bool has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

Index size_of_letter(const Lettered& x, char letter) {
  return x.tensor.shape()[static_cast<int>(x.letters.find(letter))];
}

[[noreturn]] void throw_equation(std::string_view equation, const std::string& what) {
  throw ValueError(fmt::format("einsum: equation \"{}\"; {}", equation, what));
}

// Letters that occur once, in alphabetical order.
std::string implicit_result(const std::vector<std::string>& operands) {
  std::map<char, int> counts;
  for (const std::string& letters : operands) {
    for (const char letter : letters) ++counts[letter];
  }
  std::string result;
  for (const auto& [letter, count] : counts) {
    if (count == 1) result += letter;
  }
  return result;
}

Equation parse(std::string_view text) {
  Equation out;
  std::string* now = &out.operands.emplace_back();
  bool arrow = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      *now += c;
    } else if (c == ',' && !arrow) {
      now = &out.operands.emplace_back();
    } else if (c == '-' && !arrow && text.substr(i, 2) == "->") {
      arrow = true;
      now = &out.result;
      ++i;
    } else {
      throw_equation(text, fmt::format("'{}' at {} has no place there: letters, commas and one \"->\" do", c, i));
    }
  }
  if (!arrow) out.result = implicit_result(out.operands);
  for (std::size_t i = 0; i < out.result.size(); ++i) {
    const char letter = out.result[i];
    if (out.result.find(letter) != i) throw_equation(text, fmt::format("the result names '{}' twice", letter));
    const auto names = [letter](const std::string& letters) { return has(letters, letter); };
    if (std::none_of(out.operands.begin(), out.operands.end(), names)) {
      throw_equation(text, fmt::format("the result names '{}', which no operand has", letter));
    }
  }
  return out;
}

void check(std::string_view text, const Equation& equation, const std::vector<Tensor>& operands) {
  if (equation.operands.size() != operands.size()) {
    throw_equation(text, fmt::format("it names {} operands, {} are given", equation.operands.size(), operands.size()));
  }
  struct Seen {
    Index size;
    std::size_t operand;
  };
  std::map<char, Seen> sizes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string& letters = equation.operands[i];
    const Tensor& x = operands[i];
    detail::check_floating("einsum", "operand", x);
    detail::check_same_dtype("einsum", operands[0], x);
    if (static_cast<int>(letters.size()) != x.rank()) {
      throw ShapeError(fmt::format("einsum: operand {} {} has {} axes and \"{}\" names {}; name each axis once", i,
                                   to_string(x.shape()), x.rank(), letters, letters.size()));
    }
    for (int axis = 0; axis < x.rank(); ++axis) {
      const char letter = letters[static_cast<std::size_t>(axis)];
      const Index size = x.shape()[axis];
      const auto [place, is_new] = sizes.emplace(letter, Seen{size, i});
      if (is_new || place->second.size == size) continue;
      const std::size_t other = place->second.operand;
      throw ShapeError(
          fmt::format("einsum: '{}' is {} in operand {} {} (\"{}\") and {} in operand {} {} (\"{}\"); "
                      "sizes under one letter must be equal",
                      letter, place->second.size, other, to_string(operands[other].shape()), equation.operands[other],
                      size, i, to_string(x.shape()), letters));
    }
  }
}

// The axes in the order of `letters`, a permutation of x's.
Lettered ordered(const Lettered& x, const std::string& letters) {
  if (x.letters == letters) return x;
  std::vector<int> axes;
  for (const char letter : letters) axes.push_back(static_cast<int>(x.letters.find(letter)));
  return {permute(x.tensor, axes), letters};
}

// Letters that occur twice made one, by the diagonal of their axes.
Lettered without_repeats(Lettered x) {
  for (std::size_t i = 0; i < x.letters.size();) {
    const char letter = x.letters[i];
    const std::size_t again = x.letters.find(letter, i + 1);
    if (again == std::string::npos) {
      ++i;
      continue;
    }
    std::vector<int> axes;
    std::string rest;
    for (std::size_t j = 0; j < x.letters.size(); ++j) {
      if (j == i || j == again) continue;
      axes.push_back(static_cast<int>(j));
      rest += x.letters[j];
    }
    axes.push_back(static_cast<int>(i));
    axes.push_back(static_cast<int>(again));
    const Index n = x.tensor.shape()[axes.back()];
    const Tensor square = permute(x.tensor, axes);
    const Tensor flat = reshape(square, square.shape().without(-1).with(-1, n * n));
    x = {slice(flat, -1, {.step = n + 1}), rest + letter};
    i = 0;
  }
  return x;
}

// Sums over the letters that nobody needs any more.
Lettered summed(const Lettered& x, const std::string& needed) {
  std::vector<int> axes;
  std::string rest;
  for (std::size_t i = 0; i < x.letters.size(); ++i) {
    if (has(needed, x.letters[i])) {
      rest += x.letters[i];
    } else {
      axes.push_back(static_cast<int>(i));
    }
  }
  return axes.empty() ? x : Lettered{sum(x.tensor, Axes(std::move(axes))), rest};
}

std::string selected(const std::string& letters, const std::string& among, bool in) {
  std::string out;
  std::copy_if(letters.begin(), letters.end(), std::back_inserter(out), [&](char c) { return has(among, c) == in; });
  return out;
}

// [batch, outer, inner], or with the last two swapped where that is how x lies in memory.
struct Matrices {
  Tensor tensor;
  bool transposed;
};

Matrices matrices(const Lettered& x, const std::string& batch, const std::string& rows, const std::string& columns) {
  const auto size = [&](const std::string& letters) {
    Index n = 1;
    for (const char letter : letters) n *= size_of_letter(x, letter);
    return n;
  };
  const bool transposed = x.letters == batch + columns + rows && x.letters != batch + rows + columns;
  const Lettered laid = transposed ? x : ordered(x, batch + rows + columns);
  const Index m = size(transposed ? columns : rows), n = size(transposed ? rows : columns);
  return {reshape(laid.tensor, batch.empty() ? Shape{m, n} : Shape{size(batch), m, n}), transposed};
}

// The product of two operands, summed over the letters that both have and nobody needs any more.
Lettered contracted(const Lettered& left, const Lettered& right, const std::string& needed) {
  const Lettered a = summed(left, needed + right.letters);
  const Lettered b = summed(right, needed + left.letters);
  const std::string shared = selected(a.letters, b.letters, true);
  const std::string batch = selected(shared, needed, true);
  const std::string inner = selected(shared, needed, false);
  const std::string a_own = selected(a.letters, shared, false);
  const std::string b_own = selected(b.letters, shared, false);
  const Matrices x = matrices(a, batch, a_own, inner);
  const Matrices y = matrices(b, batch, inner, b_own);
  const std::string letters = batch + a_own + b_own;
  std::vector<Index> sizes;
  for (const char letter : letters) sizes.push_back(size_of_letter(has(a.letters, letter) ? a : b, letter));
  // Without a sum the matrices are columns and rows: broadcasting multiplies them in one pass.
  const Tensor product = inner.empty()
                             ? x.tensor * y.tensor
                             : matmul(x.tensor, y.tensor, {.transpose_a = x.transposed, .transpose_b = y.transposed});
  return {reshape(product, Shape(std::span<const Index>(sizes))), letters};
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  const Equation parsed = parse(equation);
  check(equation, parsed, operands);
  Lettered now = without_repeats({operands[0], parsed.operands[0]});
  for (std::size_t i = 1; i < operands.size(); ++i) {
    std::string needed = parsed.result;
    for (std::size_t later = i + 1; later < operands.size(); ++later) needed += parsed.operands[later];
    now = contracted(now, without_repeats({operands[i], parsed.operands[i]}), needed);
  }
  return ordered(summed(now, parsed.result), parsed.result).tensor;
}

}  // namespace tapehead
