// SPDX-License-Identifier: MIT
// Layers called one after the other.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <tapehead/attention.h>
#include <tapehead/module.h>

namespace tapehead {

/// A list of layers and functions, each called with the result of the one before: Sequential(Linear(2, 16), relu,
/// Linear(16, 1)). Layers are held by value; attention hands on its output. Parameters are named by the place in the
/// list: "0.weight", "0.bias", "2.weight", "2.bias".
class Sequential : public Module {
 public:
  template <class... Steps>
  explicit Sequential(Steps... steps) {
    (steps_.push_back(std::make_unique<Held<Steps>>(std::move(steps))), ...);
  }
  Sequential(const Sequential& other);
  Sequential(Sequential&&) noexcept = default;
  /// Writes the other's weights into the layers here, as assigning each layer does; an empty list takes copies. Throws
  /// StateError for a list of other layers.
  Sequential& operator=(const Sequential& other);
  Sequential& operator=(Sequential&&) noexcept = default;

  Tensor operator()(const Tensor& x) const;
  void members(Members& m) override;

 private:
  struct Step {
    Step() = default;
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    virtual ~Step() = default;
    virtual Tensor call(const Tensor& x) const = 0;
    virtual std::unique_ptr<Step> copy() const = 0;
    virtual bool same_type(const Step& other) const = 0;
    virtual void assign(const Step& other) = 0;  // of the same type
    virtual Module* module() = 0;                // nullptr for a function
  };

  static Tensor output_of(Tensor output) { return output; }
  static Tensor output_of(AttentionResult result) { return std::move(result.output); }

  template <class F>
  struct Held final : Step {
    static constexpr bool kIsModule = std::is_base_of_v<Module, F>;

    explicit Held(F f) : function(std::move(f)) {}
    Tensor call(const Tensor& x) const override { return output_of(function(x)); }
    std::unique_ptr<Step> copy() const override { return std::make_unique<Held>(function); }
    bool same_type(const Step& other) const override { return dynamic_cast<const Held*>(&other) != nullptr; }
    void assign(const Step& other) override {
      if constexpr (kIsModule) function = static_cast<const Held&>(other).function;
    }
    Module* module() override {
      if constexpr (kIsModule) {
        return &function;
      } else {
        return nullptr;
      }
    }
    F function;
  };

  std::vector<std::unique_ptr<Step>> steps_;
};

}  // namespace tapehead
