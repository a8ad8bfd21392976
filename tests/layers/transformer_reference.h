// SPDX-License-Identifier: MIT
// A transformer in plain loops over doubles, its backward pass derived by hand, with an AdamW of its own: what the
// library's model is held against. It includes nothing of the library and shares no code with it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace reference {

using Numbers = std::vector<double>;  // row-major

struct Sizes {
  std::size_t batch, time, vocabulary, width, heads, head_width, hidden, blocks;
};

/// Embeddings of tokens and positions; blocks of x + attention(norm(x)) and x + down(gelu(up(norm(x)))), causal; a last
/// norm, and a linear head without bias. The loss is the mean cross entropy over all positions.
class Transformer {
 public:
  /// Weights from sines of their own place and name, small enough to train.
  explicit Transformer(const Sizes& sizes);

  /// ids and targets [batch, time]. Fills `gradients`.
  double loss(const std::vector<std::size_t>& ids, const std::vector<std::size_t>& targets);

  struct AdamW {
    double lr, beta1, beta2, eps, weight_decay;
  };
  /// Loshchilov and Hutter 2019, algorithm 2, with the gradients of the last loss().
  void step(const AdamW& options);

  std::map<std::string, Numbers> values;     // by the name that the parameter has in the library
  std::map<std::string, Numbers> gradients;  // of the last loss()

 private:
  struct Norm;
  struct Attention;
  struct Block;

  void parameter(const std::string& name, std::size_t count, double scale, double offset = 0);
  Numbers normalise(const std::string& name, const Numbers& x, Norm& kept) const;
  Numbers normalise_backward(const std::string& name, const Norm& kept, const Numbers& dy);
  Numbers attend(const std::string& name, const Numbers& x, Attention& kept) const;
  Numbers attend_backward(const std::string& name, const Attention& kept, const Numbers& dy);
  Numbers run(const std::string& name, const Numbers& x, Block& kept) const;
  Numbers run_backward(const std::string& name, const Block& kept, const Numbers& dy);

  Sizes sizes_;
  std::map<std::string, Numbers> first_, second_;  // moments
  int steps_ = 0;
};

}  // namespace reference
