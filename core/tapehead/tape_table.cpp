// SPDX-License-Identifier: MIT
// Reading the tape.
#include <set>

#include <fmt/format.h>

#include <tapehead/tape.h>

namespace tapehead {

// An operation and those that it depends on, in the order of their numbers.
std::vector<const Node*> Node::behind(const Node* last) {
  const auto by_number = [](const Node* a, const Node* b) { return a->number() < b->number(); };
  std::set<const Node*, decltype(by_number)> seen(by_number);
  std::vector<const Node*> open;
  const auto visit = [&](const Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  visit(last);
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (const detail::Edge& edge : node->inputs()) visit(edge.node());
  }
  return {seen.begin(), seen.end()};
}

std::vector<TapeEntry> tape(const Tensor& output) {
  std::vector<TapeEntry> entries;
  for (const Node* node : Node::behind(output.body().made_by.get())) {
    TapeEntry& entry = entries.emplace_back(TapeEntry{node->number(), node->op(), node->shape_, node->dtype_, 0, {}});
    for (const detail::Saved& slot : node->saved()) {
      const detail::Storage* storage = slot.body ? slot.body->storage.get() : slot.storage.get();
      if (storage != nullptr) entry.saved_bytes += storage->bytes();
    }
    for (const detail::Edge& edge : node->inputs()) {
      if (edge.node() != nullptr) {
        entry.inputs.push_back(fmt::format("#{}", edge.node()->number()));
      } else if (edge.leaf() != nullptr) {
        entry.inputs.push_back(edge.leaf()->name != nullptr ? *edge.leaf()->name : "leaf");
      } else {
        entry.inputs.push_back(node->played_ ? "(played)" : "-");
      }
    }
  }
  return entries;
}

std::vector<Tensor> leaves(const Tensor& output) {
  if (output.is_leaf()) return output.requires_grad() ? std::vector<Tensor>{output} : std::vector<Tensor>{};
  std::vector<Tensor> found;
  std::set<const detail::TensorBody*> seen;
  for (const Node* node : Node::behind(output.body().made_by.get())) {
    for (const detail::Edge& edge : node->inputs()) {
      if (edge.leaf() != nullptr && seen.insert(edge.leaf()).second) {
        found.emplace_back(detail::Ref<detail::TensorBody>::share(edge.leaf()));
      }
    }
  }
  return found;
}

std::string tape_table(const Tensor& output) {
  const std::vector<TapeEntry> entries = tape(output);
  std::string text = fmt::format("{:>8}  {:<28} {:<18} {:<5} {:>12}  inputs\n", "number", "operation", "shape", "dtype",
                                 "saved bytes");
  std::size_t total = 0;
  for (const TapeEntry& entry : entries) {
    text += fmt::format("{:>8}  {:<28} {:<18} {:<5} {:>12} ", fmt::format("#{}", entry.number), entry.op,
                        to_string(entry.shape), name_of(entry.dtype), entry.saved_bytes);
    for (const std::string& input : entry.inputs) text += " " + input;
    text += '\n';
    total += entry.saved_bytes;
  }
  return text + fmt::format("{} operations, {} bytes saved\n", entries.size(), total);
}

}  // namespace tapehead
