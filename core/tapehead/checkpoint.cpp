// SPDX-License-Identifier: MIT
#include <tapehead/checkpoint.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include <tapehead/detail/recording.h>
#include <tapehead/error.h>
#include <tapehead/random.h>
#include <tapehead/tape.h>

namespace tapehead {
namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// While it lives, the default generator stands elsewhere.
class Rewound {
 public:
  Rewound(std::uint64_t seed, std::uint64_t position) : before_(default_generator()) {
    default_generator().set_state(seed, position);
  }
  ~Rewound() { default_generator() = before_; }
  Rewound(const Rewound&) = delete;
  Rewound& operator=(const Rewound&) = delete;

 private:
  Generator before_;
};

// The same values as leaves of their own, so that the function's tape begins with them.
std::vector<Tensor> cut_off(const std::vector<Tensor>& inputs, const std::vector<bool>& wanted) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    out.push_back(inputs[i].detach());
    if (wanted[i]) out.back().requires_grad_();
  }
  return out;
}

}  // namespace

Tensor checkpoint(Function function, const std::vector<Tensor>& inputs) {
  if (!function) throw ValueError("checkpoint: the function is empty");
  if (!is_recording()) return function(inputs);
  const std::uint64_t seed = default_generator().seed(), position = default_generator().position();
  std::vector<bool> wanted;
  for (const Tensor& input : inputs) wanted.push_back(input.requires_grad());

  // Recorded once to see which leaves it uses; that tape goes when this function returns.
  const std::vector<Tensor> own = cut_off(inputs, wanted);
  const Tensor recorded = function(own);
  if (!recorded.requires_grad()) return recorded;
  std::vector<Tensor> sources = inputs;  // then the leaves that the function brings along
  std::vector<std::size_t> used;         // places in `sources` that the result depends on
  for (const Tensor& leaf : leaves(recorded)) {
    const auto found = std::ranges::find(own, leaf.ref().get(), [](const Tensor& x) { return x.ref().get(); });
    used.push_back(found != own.end() ? static_cast<std::size_t>(found - own.begin()) : sources.size());
    if (found == own.end()) sources.push_back(leaf);
  }
  std::vector<const Tensor*> all;
  for (const Tensor& source : sources) all.push_back(&source);
  const std::size_t count = inputs.size();
  const auto rule = [function = std::move(function), wanted, used, count, seed, position](Backward& back) {
    if (is_recording()) {
      throw GraphError("checkpoint: no second derivative; call the function directly where create_graph is wanted");
    }
    std::vector<Tensor> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(back.saved(static_cast<int>(i)));
    const std::vector<Tensor> again = cut_off(values, wanted);
    std::vector<Tensor> asked;
    for (const std::size_t i : used) asked.push_back(i < count ? again[i] : back.saved(static_cast<int>(i)));
    std::vector<Tensor> gradients;
    {
      const detail::SetRecording on(true);
      const Rewound rewound(seed, position);
      gradients = grad(function(again), asked, {.gradient = back.gradient()});
    }
    for (std::size_t i = 0; i < used.size(); ++i) back.to(static_cast<int>(used[i]), std::move(gradients[i]));
  };
  return record("checkpoint", recorded.detach(), all, all, rule);
}

}  // namespace tapehead
