// SPDX-License-Identifier: MIT
// Recording and playing back. Every recorded operation is a node with a number; the tape is the set of live nodes in
// the order of their numbers, and nobody owns it: a node lives as long as a tensor or a later node needs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <tapehead/detail/pool.h>
#include <tapehead/tensor.h>

namespace tapehead {

class Backward;
class Node;

struct BackwardOptions {
  Tensor gradient = {};       ///< d(loss)/d(output), shaped like the output; for a scalar output it may be left out
  bool retain = false;        ///< keep saved values, so that the tape can be played again
  bool create_graph = false;  ///< record the gradients' own computation; implies retain
};

/// d(output)/d(input) for each input (leaf or intermediate), shaped like it; leaves' grad() stays as it is.
/// Throws GraphError when the output does not depend on an input, naming its place, and as Tensor::backward does.
std::vector<Tensor> grad(const Tensor& output, const std::vector<Tensor>& inputs, const BackwardOptions& options = {});

/// While it lives, operations in this thread are not recorded.
class [[nodiscard]] NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

/// While it lives, every floating result that this thread computes and every gradient that a rule hands over is read,
/// and the first NaN or infinity throws ValueError: operation, number on the tape, parameters, shape, first index, how
/// many, and the range of each input, which tells whether it arose here or came in. Free while none lives.
class [[nodiscard]] DetectAnomaly {
 public:
  DetectAnomaly();
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  bool before_;
};

/// Whether operations in this thread are recorded.
bool is_recording();

/// Recorded operations alive in the process.
std::int64_t live_nodes();

/// One recorded operation, as tape() lists it.
struct TapeEntry {
  std::uint64_t number;  ///< process-wide; later operations have larger numbers
  std::string op;
  Shape shape;  ///< of the result
  DType dtype;
  std::size_t saved_bytes;          ///< kept for the gradient (values shared between entries count in each)
  std::vector<std::string> inputs;  ///< "#12" for a recorded input, a leaf's name or "leaf", "-" for a constant
};

/// The operations behind a tensor in the order in which they were recorded.
std::vector<TapeEntry> tape(const Tensor& output);

/// The same as a table, one line per operation, with a sum of the bytes saved.
std::string tape_table(const Tensor& output);

/// The leaves that want a gradient of this tensor, each once, in the order of their first use. What was played without
/// `.retain` is forgotten.
std::vector<Tensor> leaves(const Tensor& output);

/// Puts an operation on the tape; this is all that a differentiable operation needs beside its kernel:
///
///     return record("square", y, {&x}, {&x}, [](Backward& back) { back.to(0, 2.0 * back.saved(0) * back.gradient());
///     });
///
/// `inputs` are the operands, `saved` what the rule will ask for (operands or `out` itself; nullptr for none), `rule`
/// a callable that captures plain values, never tensors. Rules are written with recorded operations, so that second
/// derivatives follow. Returns `out`, untouched when recording is off or no input wants a gradient.
template <class Rule>
Tensor record(const char* op, Tensor out, std::span<const Tensor* const> inputs, std::span<const Tensor* const> saved,
              Rule rule);

template <class Rule>
Tensor record(const char* op, Tensor out, std::initializer_list<const Tensor*> inputs,
              std::initializer_list<const Tensor*> saved, Rule rule) {
  return record(op, std::move(out), std::span<const Tensor* const>(inputs.begin(), inputs.size()),
                std::span<const Tensor* const>(saved.begin(), saved.size()), std::move(rule));
}

// What follows is how recording works; users of the tape need none of it.

namespace detail {

class Sweep;

// What DetectAnomaly switches on. Each throws ValueError where its tensor holds a NaN or an infinity.
struct Anomaly {
  static constinit inline thread_local bool wanted = false;
  static void check_result(const char* op, const Tensor& out, std::span<const Tensor* const> inputs);
  static void check_gradient(const Node& node, int input, const Tensor& gradient, const Tensor& arrived);
  static void check_sum(const Tensor& sum, const std::string& place);
  static std::string place(const Node& node);
};

bool wants_record(std::span<const Tensor* const> inputs);

// A recorded input: a node, a leaf, or neither. One tagged, counted pointer.
class Edge {
 public:
  explicit Edge(const Tensor& input);
  ~Edge() { reset(); }
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;

  Node* node() const { return is_leaf() ? nullptr : reinterpret_cast<Node*>(bits_); }
  TensorBody* leaf() const { return is_leaf() ? reinterpret_cast<TensorBody*>(bits_ & ~std::uintptr_t{1}) : nullptr; }
  bool wanted() const { return bits_ != 0; }
  void reset() noexcept;

 private:
  bool is_leaf() const { return (bits_ & 1) != 0; }
  std::uintptr_t bits_ = 0;
};

// A value kept for the rule. The operation's own result is kept as bare storage: its body would keep the node alive.
struct Saved {
  Ref<TensorBody> body;
  Ref<Storage> storage;
  std::uint32_t version = 0;
};

}  // namespace detail

/// One recorded operation with exactly one result. A single pooled block: header, rule, inputs, saved values.
class Node : public detail::RefCounted {
 public:
  const char* op() const { return op_; }
  std::uint64_t number() const { return number_; }
  static void destroy(Node* node) noexcept;

 protected:
  Node(const char* op, const Tensor& out, std::size_t block_bytes);
  virtual ~Node() = default;
  virtual void run(Backward& back) = 0;

  void attach(std::byte* tail, const Tensor& out, std::span<const Tensor* const> inputs,
              std::span<const Tensor* const> saved);

 private:
  friend class Backward;
  friend class detail::Sweep;
  friend struct detail::Anomaly;
  friend std::vector<TapeEntry> tape(const Tensor&);
  friend std::vector<Tensor> leaves(const Tensor&);
  static std::vector<const Node*> behind(const Node* last);

  std::span<detail::Edge> inputs() const { return {inputs_, input_count_}; }
  std::span<detail::Saved> saved() const { return {saved_, saved_count_}; }
  void forget() noexcept;
  void release_block() noexcept;

  const char* op_;
  std::uint64_t number_;
  std::size_t block_bytes_;
  detail::Edge* inputs_ = nullptr;
  detail::Saved* saved_ = nullptr;
  std::uint32_t input_count_ = 0;
  std::uint32_t saved_count_ = 0;
  bool played_ = false;  // its saved values are gone
  DType dtype_;
  Shape shape_;
  Tensor pending_;                  // gradient gathered so far, only during a sweep
  detail::Sweep* sweep_ = nullptr;  // the sweep that has this node in its queue
  Node* next_released_ = nullptr;
};

/// What a rule sees while the tape is played back.
class Backward {
 public:
  /// d(loss)/d(result), shaped like the result.
  const Tensor& gradient() const { return gradient_; }
  /// The i-th saved tensor. Throws GraphError if it was edited since it was recorded.
  Tensor saved(int i) const;
  /// Whether anybody wants the gradient of the i-th input; lets a rule skip work.
  bool wants(int i) const { return node_.inputs_[i].wanted(); }
  /// Hands over the gradient of the i-th input. Axes that the operation broadcast are summed here.
  void to(int i, Tensor gradient);
  Shape input_shape(int i) const;

 private:
  friend class detail::Sweep;
  Backward(Node& node, detail::Sweep& sweep, Tensor gradient)
      : node_(node), sweep_(sweep), gradient_(std::move(gradient)) {}
  Node& node_;
  detail::Sweep& sweep_;
  Tensor gradient_;
};

namespace detail {

template <class Rule>
class RuleNode final : public Node {
 public:
  static Ref<Node> make(const char* op, const Tensor& out, std::span<const Tensor* const> inputs,
                        std::span<const Tensor* const> saved, Rule rule) {
    const std::size_t bytes = sizeof(RuleNode) + inputs.size() * sizeof(Edge) + saved.size() * sizeof(Saved);
    auto* block = static_cast<std::byte*>(allocate(bytes));
    auto* node = ::new (static_cast<void*>(block)) RuleNode(op, out, bytes, std::move(rule));
    node->attach(block + sizeof(RuleNode), out, inputs, saved);
    return Ref<Node>::adopt(node);
  }

 private:
  RuleNode(const char* op, const Tensor& out, std::size_t bytes, Rule rule)
      : Node(op, out, bytes), rule_(std::move(rule)) {}
  void run(Backward& back) override { rule_(back); }
  Rule rule_;
};

}  // namespace detail

template <class Rule>
Tensor record(const char* op, Tensor out, std::span<const Tensor* const> inputs, std::span<const Tensor* const> saved,
              Rule rule) {
  if (detail::wants_record(inputs)) {
    out.body().made_by = detail::RuleNode<Rule>::make(op, out, inputs, saved, std::move(rule));
  }
  if (detail::Anomaly::wanted) detail::Anomaly::check_result(op, out, inputs);
  return out;
}

}  // namespace tapehead
