// SPDX-License-Identifier: MIT
#include <tapehead/sequential.h>

#include <string>

#include <fmt/format.h>

#include <tapehead/error.h>

namespace tapehead {

Sequential::Sequential(const Sequential& other) : Module(other) {
  for (const auto& step : other.steps_) steps_.push_back(step->copy());
}

Sequential& Sequential::operator=(const Sequential& other) {
  if (steps_.empty()) return *this = Sequential(other);
  if (steps_.size() != other.steps_.size()) {
    throw StateError(
        fmt::format("Sequential: a list of {} steps cannot take the values of {}", steps_.size(), other.steps_.size()));
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!steps_[i]->same_type(*other.steps_[i])) {
      throw StateError(fmt::format("Sequential: step {} is of another type in the list to copy from", i));
    }
  }
  Module::operator=(other);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i]->module() != nullptr) {
      steps_[i]->assign(*other.steps_[i]);
    } else {
      steps_[i] = other.steps_[i]->copy();
    }
  }
  return *this;
}

Tensor Sequential::operator()(const Tensor& x) const {
  Tensor y = x;
  for (const auto& step : steps_) y = step->call(y);
  return y;
}

void Sequential::members(Members& m) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (Module* module = steps_[i]->module()) m(std::to_string(i), *module);
  }
}

}  // namespace tapehead
