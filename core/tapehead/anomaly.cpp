// SPDX-License-Identifier: MIT
// Looking for the first NaN or infinity.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/tape.h>

namespace tapehead {
namespace {

bool is_floating(const Tensor& x) { return x.dtype() == DType::f32 || x.dtype() == DType::f64; }

// An exponent of ones is NaN or infinity. Written with integers and without a way out, so that it compiles to vectors.
template <class T, class Bits>
bool all_finite(std::span<const T> values) {
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  Bits found = 0;
  for (const T value : values) found |= (std::bit_cast<Bits>(value) & kExponent) == kExponent ? Bits{1} : Bits{0};
  return found == 0;
}

bool all_finite(const Tensor& x) {
  if (x.dtype() == DType::f32) return all_finite<float, std::uint32_t>(x.read<float>());
  if (x.dtype() == DType::f64) return all_finite<double, std::uint64_t>(x.read<double>());
  return true;
}

struct Content {
  Index bad = 0;
  std::size_t first = 0;  // place and value of the first that is not finite
  double value = 0;
  double low = std::numeric_limits<double>::infinity();  // of those that are finite
  double high = -std::numeric_limits<double>::infinity();
};

template <class T>
Content content(std::span<const T> values) {
  Content found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    if (std::isfinite(value)) {
      found.low = std::min(found.low, value);
      found.high = std::max(found.high, value);
    } else if (found.bad++ == 0) {
      found.first = i;
      found.value = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;  // its sign says nothing
    }
  }
  return found;
}

Content content(const Tensor& x) {
  return x.dtype() == DType::f32 ? content(x.read<float>()) : content(x.read<double>());
}

std::string index_text(std::size_t flat, const Shape& shape) {
  std::string text;
  auto rest = static_cast<Index>(flat);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    text = fmt::format("{}{}{}", rest % shape[axis], text.empty() ? "" : ", ", text);
    rest /= shape[axis];
  }
  return "[" + text + "]";
}

std::string finding(const Tensor& x) {
  const Content found = content(x);
  return fmt::format("{} {}: {} of {} elements not finite, the first {} at {}", to_string(x.shape()),
                     name_of(x.dtype()), found.bad, x.numel(), found.value, index_text(found.first, x.shape()));
}

// Collects the ranges of what an operation was given, and which of it was not finite already.
class Given {
 public:
  void add(const std::string& role, const Tensor& x) {
    if (!is_floating(x)) return;
    const Content found = content(x);
    text_ += fmt::format("; {} {} ", role, to_string(x.shape()));
    text_ +=
        found.low <= found.high ? fmt::format("{:.6g} to {:.6g}", found.low, found.high) : "without finite elements";
    if (found.bad == 0) return;
    text_ += fmt::format(" and {} not finite", found.bad);
    guilty_ += (guilty_.empty() ? "" : " and ") + role;
  }
  std::string text() const { return text_ + (guilty_.empty() ? "; it arose here" : "; it came in with " + guilty_); }

 private:
  std::string text_;
  std::string guilty_;
};

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", name);
  return text;
}

}  // namespace

namespace detail {
namespace {

std::vector<std::string> leaf_names(std::span<const Edge> inputs) {
  std::vector<std::string> names;
  for (const Edge& edge : inputs) {
    if (edge.leaf() != nullptr && edge.leaf()->name != nullptr) names.push_back(*edge.leaf()->name);
  }
  return names;
}

}  // namespace

// Number and parameters of an operation; one without parameters is placed by the last one that had some.
std::string Anomaly::place(const Node& node) {
  std::string text = fmt::format("operation #{} on the tape", node.number());
  const std::vector<const Node*> behind = Node::behind(&node);
  for (auto at = behind.rbegin(); at != behind.rend(); ++at) {
    const std::vector<std::string> names = leaf_names((*at)->inputs());
    if (names.empty()) continue;
    if (*at == &node) return fmt::format("{}, with {}", text, quoted(names));
    return fmt::format("{}, after \"{}\" #{} with {}", text, (*at)->op(), (*at)->number(), quoted(names));
  }
  return text;
}

void Anomaly::check_result(const char* op, const Tensor& out, std::span<const Tensor* const> inputs) {
  if (all_finite(out)) return;
  std::string where = "not recorded";
  if (const Node* node = out.body().made_by.get()) {
    where = place(*node);
  } else {
    std::vector<std::string> names;
    for (const Tensor* input : inputs) {
      if (!input->name().empty()) names.emplace_back(input->name());
    }
    if (!names.empty()) where += ", with " + quoted(names);
  }
  Given given;
  for (std::size_t i = 0; i < inputs.size(); ++i) given.add(fmt::format("input {}", i), *inputs[i]);
  throw ValueError(fmt::format("{}: result {}; {}{}", op, finding(out), where, given.text()));
}

void Anomaly::check_gradient(const Node& node, int input, const Tensor& gradient, const Tensor& arrived) {
  if (all_finite(gradient)) return;
  Given given;
  given.add("gradient", arrived);
  int i = 0;
  for (const Saved& slot : node.saved()) {
    const std::string role = fmt::format("saved {}", i++);
    if (slot.body) given.add(role, Tensor(slot.body));
    if (slot.storage) given.add(role, Tensor(make_body(slot.storage, node.shape_, node.dtype_)));
  }
  throw ValueError(fmt::format("{}: backward gives input {} the gradient {}; {}{}", node.op(), input, finding(gradient),
                               place(node), given.text()));
}

void Anomaly::check_sum(const Tensor& sum, const std::string& place) {
  if (all_finite(sum)) return;
  throw ValueError(fmt::format("backward: the gradients gathered at {} add up to {}; what was added last was finite",
                               place, finding(sum)));
}

}  // namespace detail

DetectAnomaly::DetectAnomaly() : before_(std::exchange(detail::Anomaly::wanted, true)) {}
DetectAnomaly::~DetectAnomaly() { detail::Anomaly::wanted = before_; }

}  // namespace tapehead
