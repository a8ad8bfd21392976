// SPDX-License-Identifier: MIT
#include <tapehead/tape.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <tapehead/detail/recording.h>
#include <tapehead/error.h>
#include <tapehead/ops.h>

namespace tapehead {
namespace {

thread_local bool recording = true;
std::atomic<std::uint64_t> next_number{1};
std::atomic<std::int64_t> nodes_alive{0};

class SetChecking {
 public:
  explicit SetChecking(bool on) : before_(std::exchange(detail::Anomaly::wanted, on)) {}
  ~SetChecking() { detail::Anomaly::wanted = before_; }
  SetChecking(const SetChecking&) = delete;
  SetChecking& operator=(const SetChecking&) = delete;

 private:
  bool before_;
};

bool sole_owner(const Tensor& tensor) {
  return tensor.ref()->use_count() == 1 && tensor.ref()->storage->use_count() == 1;
}

// sum += term, in place where nobody else can see it. Addition commutes, so the bits do not depend on the way taken.
void accumulate(Tensor& sum, Tensor term) {
  if (!sum.defined()) {
    sum = std::move(term);
  } else if (!recording && sole_owner(sum)) {
    detail::add_in_place(sum, term);
  } else if (!recording && sole_owner(term)) {
    detail::add_in_place(term, sum);
    sum = std::move(term);
  } else {
    sum = sum + term;
  }
}

Tensor starting_gradient(const char* caller, const Tensor& output, const Tensor& given) {
  if (!output.requires_grad()) {
    throw GraphError(
        fmt::format("{}: the {} {} output needs no gradient: no input of it asked for one with "
                    "requires_grad_(), or it was computed under NoGrad",
                    caller, to_string(output.shape()), name_of(output.dtype())));
  }
  if (!given.defined()) {
    if (output.numel() != 1) {
      throw GraphError(
          fmt::format("{}: the output is {}, not a scalar; reduce it with sum() or mean(), or pass "
                      ".gradient of that shape",
                      caller, to_string(output.shape())));
    }
    return ones(output.shape(), output.dtype());
  }
  if (given.shape() != output.shape()) {
    throw ShapeError(fmt::format("{}: gradient {} must have the output's shape {}", caller, to_string(given.shape()),
                                 to_string(output.shape())));
  }
  if (given.dtype() != output.dtype()) {
    throw DTypeError(fmt::format("{}: gradient is {}, the output {}; convert one with to()", caller,
                                 name_of(given.dtype()), name_of(output.dtype())));
  }
  return given;
}

}  // namespace

namespace detail {

bool wants_record(std::span<const Tensor* const> inputs) {
  if (!recording) return false;
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor* input) { return input->requires_grad(); });
}

Edge::Edge(const Tensor& input) {
  const TensorBody& body = input.body();
  if (body.made_by) {
    Ref<Node> node = body.made_by;
    bits_ = reinterpret_cast<std::uintptr_t>(node.get());
    ::new (static_cast<void*>(&node)) Ref<Node>;  // the count now belongs to bits_
  } else if (body.wants_grad) {
    Ref<TensorBody> leaf = input.ref();
    bits_ = reinterpret_cast<std::uintptr_t>(leaf.get()) | 1;
    ::new (static_cast<void*>(&leaf)) Ref<TensorBody>;
  }
}

void Edge::reset() noexcept {
  if (Node* to = node()) {
    Ref<Node>::adopt(to);
  } else if (TensorBody* to_leaf = leaf()) {
    Ref<TensorBody>::adopt(to_leaf);
  }
  bits_ = 0;
}

// One playback: nodes wait in a heap by number, because whoever uses a result always has the larger number.
class Sweep {
 public:
  Sweep(const char* caller, const BackwardOptions& options)
      : caller_(caller),
        retain_(options.retain || options.create_graph),
        recording_(options.create_graph),
        checking_(Anomaly::wanted) {}
  ~Sweep() {
    for (const Ref<Node>& node : heap_) clear(*node);
    for (std::size_t i = touched_.size(); i-- > 0;) {
      touched_[i].leaf->sweep = nullptr;
      touched_[i].leaf->grad = touched_[i].before;
    }
  }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  // Gradients of these tensors are handed out instead of being gathered in leaves.
  void capture(const std::vector<Tensor>& inputs) {
    capturing_ = true;
    stop_below_ = std::numeric_limits<std::uint64_t>::max();
    for (const Tensor& input : inputs) {
      captured_.push_back({input, Tensor()});
      const Ref<Node>& node = input.body().made_by;
      stop_below_ = std::min(stop_below_, node ? node->number() : 0);
    }
  }
  const Tensor& captured(std::size_t i) const { return captured_[i].gradient; }

  void play(const Tensor& output, Tensor gradient) {
    const SetRecording mode(recording_);
    // A rule may pass through infinities that it does not hand over; only what it hands over counts.
    const SetChecking off(false);
    const Edge root(output);
    arrive(root, std::move(gradient));
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), earlier);
      const Ref<Node> node = std::move(heap_.back());
      heap_.pop_back();
      if (node->number() < stop_below_) {
        clear(*node);
        continue;
      }
      Tensor arrived = std::move(node->pending_);
      clear(*node);
      for (Captured& wanted : captured_) {
        if (wanted.input.body().made_by.get() == node.get()) accumulate(wanted.gradient, arrived);
      }
      if (node->number() == stop_below_) continue;
      Backward back(*node, *this, std::move(arrived));
      node->run(back);
      if (!retain_) node->forget();
    }
    for (const Touched& touched : touched_) touched.leaf->sweep = nullptr;
    touched_.clear();
  }

  void arrive(const Edge& edge, Tensor gradient) {
    if (TensorBody* leaf = edge.leaf()) {
      arrive_at_leaf(*leaf, std::move(gradient));
      return;
    }
    Node& node = *edge.node();
    if (node.played_) {
      throw GraphError(
          fmt::format("{}: the values that \"{}\" saved are gone, this tape was played before; pass "
                      ".retain = true to the first playback",
                      caller_, node.op()));
    }
    if (node.sweep_ != nullptr && node.sweep_ != this) {
      throw GraphError(fmt::format("{}: \"{}\" is in the middle of another playback", caller_, node.op()));
    }
    const bool adds = node.pending_.defined();
    accumulate(node.pending_, std::move(gradient));
    if (checking_ && adds) Anomaly::check_sum(node.pending_, fmt::format("\"{}\" #{}", node.op(), node.number()));
    if (node.sweep_ == nullptr) {
      node.sweep_ = this;
      heap_.push_back(Ref<Node>::share(&node));
      std::push_heap(heap_.begin(), heap_.end(), earlier);
    }
  }

  bool checking() const { return checking_; }

 private:
  struct Captured {
    Tensor input;
    Tensor gradient;
  };

  // A leaf that this playback has reached; if it fails, the gradient of before comes back.
  struct Touched {
    Ref<TensorBody> leaf;
    Ref<TensorBody> before;
  };

  static bool earlier(const Ref<Node>& a, const Ref<Node>& b) { return a->number() < b->number(); }

  static void clear(Node& node) {
    node.sweep_ = nullptr;
    node.pending_ = Tensor();
  }

  void arrive_at_leaf(TensorBody& leaf, Tensor gradient) {
    if (capturing_) {
      for (Captured& wanted : captured_) {
        if (wanted.input.ref().get() == &leaf) accumulate(wanted.gradient, gradient);
      }
      return;
    }
    if (leaf.sweep != this) {
      touched_.push_back({Ref<TensorBody>::share(&leaf), leaf.grad});
      leaf.sweep = this;
    }
    Tensor sum(leaf.grad);
    leaf.grad.reset();
    // A leaf owns its gradient alone: clipping and accumulating write into it.
    if (!sum.defined() && !sole_owner(gradient)) gradient = clone(gradient);
    const bool adds = sum.defined();
    accumulate(sum, std::move(gradient));
    if (checking_ && adds) Anomaly::check_sum(sum, fmt::format("leaf \"{}\"", leaf.name != nullptr ? *leaf.name : ""));
    leaf.grad = sum.ref();
  }

  const char* caller_;
  bool retain_;
  bool recording_;
  bool checking_;
  bool capturing_ = false;
  std::uint64_t stop_below_ = 0;
  std::vector<Captured> captured_;
  std::vector<Touched> touched_;
  std::vector<Ref<Node>> heap_;
};

}  // namespace detail

Node::Node(const char* op, const Tensor& out, std::size_t block_bytes)
    : op_(op),
      number_(next_number.fetch_add(1, std::memory_order_relaxed)),
      block_bytes_(block_bytes),
      dtype_(out.dtype()),
      shape_(out.shape()) {
  nodes_alive.fetch_add(1, std::memory_order_relaxed);
}

void Node::attach(std::byte* tail, const Tensor& out, std::span<const Tensor* const> inputs,
                  std::span<const Tensor* const> saved) {
  inputs_ = reinterpret_cast<detail::Edge*>(tail);
  for (const Tensor* input : inputs) ::new (static_cast<void*>(inputs_ + input_count_++)) detail::Edge(*input);
  saved_ = reinterpret_cast<detail::Saved*>(tail + inputs.size() * sizeof(detail::Edge));
  for (const Tensor* value : saved) {
    detail::Saved& slot = *::new (static_cast<void*>(saved_ + saved_count_++)) detail::Saved;
    if (value == nullptr) continue;
    slot.version = value->body().storage->version;
    if (value->ref().get() == out.ref().get()) {
      slot.storage = value->body().storage;
    } else {
      slot.body = value->ref();
    }
  }
}

void Node::forget() noexcept {
  played_ = true;
  for (detail::Saved& slot : saved()) {
    slot.body.reset();
    slot.storage.reset();
  }
  for (detail::Edge& edge : inputs()) edge.reset();
}

void Node::release_block() noexcept {
  forget();
  const std::size_t bytes = block_bytes_;
  this->~Node();
  detail::deallocate(this, bytes);
  nodes_alive.fetch_sub(1, std::memory_order_relaxed);
}

// Dropping a chain of a million operations must not recurse: whoever is outermost releases the rest in a loop.
void Node::destroy(Node* node) noexcept {
  thread_local Node* waiting = nullptr;
  thread_local bool draining = false;
  node->next_released_ = waiting;
  waiting = node;
  if (draining) return;
  draining = true;
  while (waiting != nullptr) {
    Node* next = waiting;
    waiting = next->next_released_;
    next->release_block();
  }
  draining = false;
}

Tensor Backward::saved(int i) const {
  const detail::Saved& slot = node_.saved_[i];
  detail::Storage& storage = slot.body ? *slot.body->storage : *slot.storage;
  if (storage.version != slot.version) {
    throw GraphError(fmt::format(
        "{}: a value {}{} that its gradient needs was changed by {} after it was recorded "
        "(version {}, now {}); change it after backward(), or record with a clone()",
        node_.op_, slot.body && slot.body->name ? fmt::format("\"{}\" ", *slot.body->name) : "",
        to_string(slot.body ? slot.body->shape : node_.shape_), storage.written_by, slot.version, storage.version));
  }
  if (slot.body) return Tensor(slot.body);
  Tensor out(detail::make_body(slot.storage, node_.shape_, node_.dtype_));
  if (recording) out.body().made_by = detail::Ref<Node>::share(&node_);
  return out;
}

Shape Backward::input_shape(int i) const {
  const detail::Edge& edge = node_.inputs_[i];
  if (const Node* node = edge.node()) return node->shape_;
  if (const detail::TensorBody* leaf = edge.leaf()) return leaf->shape;
  return {};
}

void Backward::to(int i, Tensor gradient) {
  const detail::Edge& edge = node_.inputs_[i];
  if (!edge.wanted()) return;
  const Shape& wanted = edge.node() != nullptr ? edge.node()->shape_ : edge.leaf()->shape;
  const DType dtype = edge.node() != nullptr ? edge.node()->dtype_ : edge.leaf()->dtype;
  if (gradient.dtype() != dtype) {
    throw DTypeError(fmt::format("{}: its rule gives a gradient of {} for input {}, which is {}", node_.op_,
                                 name_of(gradient.dtype()), i, name_of(dtype)));
  }
  if (gradient.shape() != wanted) gradient = sum_to(gradient, wanted);
  if (sweep_.checking()) detail::Anomaly::check_gradient(node_, i, gradient, gradient_);
  sweep_.arrive(edge, std::move(gradient));
}

detail::SetRecording::SetRecording(bool on) : before_(std::exchange(recording, on)) {}
detail::SetRecording::~SetRecording() { recording = before_; }

NoGrad::NoGrad() : before_(std::exchange(recording, false)) {}
NoGrad::~NoGrad() { recording = before_; }

bool is_recording() { return recording; }

std::int64_t live_nodes() { return nodes_alive.load(std::memory_order_relaxed); }

void Tensor::backward() const { backward(BackwardOptions{}); }

void Tensor::backward(const BackwardOptions& options) const {
  Tensor gradient = starting_gradient("backward", *this, options.gradient);
  detail::Sweep("backward", options).play(*this, std::move(gradient));
}

std::vector<Tensor> grad(const Tensor& output, const std::vector<Tensor>& inputs, const BackwardOptions& options) {
  Tensor gradient = starting_gradient("grad", output, options.gradient);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) {
      throw GraphError(
          fmt::format("grad: input {} {} does not ask for a gradient; call requires_grad_() before it is used", i,
                      to_string(inputs[i].shape())));
    }
  }
  detail::Sweep sweep("grad", options);
  sweep.capture(inputs);
  sweep.play(output, std::move(gradient));
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!sweep.captured(i).defined()) {
      throw GraphError(fmt::format("grad: the output does not depend on input {} {}", i, to_string(inputs[i].shape())));
    }
    out.push_back(sweep.captured(i));
  }
  return out;
}

}  // namespace tapehead
