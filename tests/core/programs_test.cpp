// SPDX-License-Identifier: MIT
// Random programs of operations of the table: their gradient against differences along three directions.
// TAPEHEAD_PROGRAMS says how many (2000, in a full run 100,000), TAPEHEAD_PROGRAMS_SEED which (1). What fails is shrunk
// and printed as code.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <stdexcept>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tapehead/ops.h>

#include "core/op_table.h"
#include "full.h"

using namespace tapehead;
using namespace op_table;

namespace {

// An operation with one of the table's ways to call it.
struct Call {
  std::string name;
  int number;  // of the case
  const Case* one;
};

struct Operand {
  std::size_t value;  // leaves come first, then the results of the steps
  bool squashed;      // into the range that the case is made for
};

struct Step {
  const Call* call;
  std::vector<Operand> operands;
};

struct Program {
  std::vector<Shape> leaves;
  std::vector<Step> steps;
};

// Any value under any shape: its elements in order, repeated as often as it takes. Depends on shapes alone. Nothing
// fills no shape, however often it is repeated.
Tensor fitted(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const Index wanted = shape.numel(), count = x.numel();
  if (count == 0 && wanted > 0) {
    throw std::invalid_argument(fmt::format("{} cannot fill {}", to_string(x.shape()), to_string(shape)));
  }
  Tensor flat = reshape(x, {count});
  if (count < wanted) flat = concat(std::vector<Tensor>(static_cast<std::size_t>((wanted + count - 1) / count), flat));
  return reshape(slice(flat, 0, {.stop = wanted}), shape);
}

Tensor squashed(const Tensor& x, double low, double high) { return (high - low) * sigmoid(x) + low; }

Tensor result_of(const Step& step, const std::vector<Tensor>& values) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    const Input& wanted = step.call->one->inputs[i];
    const Tensor x = fitted(values[step.operands[i].value], wanted.shape);
    inputs.push_back(step.operands[i].squashed ? squashed(x, wanted.low, wanted.high) : x);
  }
  return step.call->one->function(inputs);
}

// Every result that no later step uses, weighted unevenly and summed.
Tensor total(const Program& program, const std::vector<Tensor>& leaves) {
  std::vector<Tensor> values = leaves;
  for (const Step& step : program.steps) values.push_back(result_of(step, values));
  std::vector<bool> used(values.size(), false);
  for (const Step& step : program.steps) {
    for (const Operand& operand : step.operands) used[operand.value] = true;
  }
  Tensor out = zeros({}, DType::f64);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!used[i]) out = out + sum(values[i] * sample({values[i].shape()}, static_cast<int>(i) + 7, DType::f64));
  }
  return out;
}

std::vector<Tensor> leaves_of(const Program& program) {
  std::vector<Tensor> leaves;
  for (const Shape& shape : program.leaves) {
    leaves.push_back(sample({shape}, static_cast<int>(leaves.size()) + 1, DType::f64).requires_grad_());
  }
  return leaves;
}

bool inside(const Tensor& x, const Input& wanted) {
  const double margin = 0.01 * (wanted.high - wanted.low);
  return std::ranges::all_of(
      x.read<double>(), [&](double value) { return value >= wanted.low + margin && value <= wanted.high - margin; });
}

Program generate(const std::vector<Call>& calls, Generator& random) {
  static const std::vector<Shape> shapes = {{}, {1}, {3}, {2, 3}, {5, 3}, {2, 1, 3}, {3, 3}, {7}};
  const auto pick = [&](std::size_t count) {
    return static_cast<std::size_t>(random.below(static_cast<Index>(count)));
  };
  Program program;
  const std::size_t leaf_count = 1 + pick(3);
  for (std::size_t i = 0; i < leaf_count; ++i) program.leaves.push_back(shapes[pick(shapes.size())]);
  const NoGrad no_grad;
  std::vector<Tensor> values = leaves_of(program);
  const std::size_t length = 1 + pick(30);
  while (program.steps.size() < length) {
    Step step{&calls[pick(calls.size())], {}};
    for (const Input& wanted : step.call->one->inputs) {
      std::size_t chosen = pick(values.size());
      for (int tries = 0; tries < 4 && values[chosen].shape() != wanted.shape; ++tries) chosen = pick(values.size());
      while (values[chosen].numel() == 0 && wanted.shape.numel() > 0) chosen = pick(values.size());
      step.operands.push_back({chosen, !inside(fitted(values[chosen], wanted.shape), wanted)});
    }
    program.steps.push_back(step);
    values.push_back(result_of(step, values));
  }
  return program;
}

enum class Verdict { agrees, undecided, fails };

struct Check {
  Verdict verdict = Verdict::agrees;
  std::string text;
};

// The slope along a direction by five-point differences, with smaller steps until two of them agree: a bend nearer
// than a step shows in one of them.
Check along(const Program& program, const std::vector<Tensor>& leaves, const std::vector<Tensor>& direction,
            double analytic) {
  const auto at = [&](double step) {
    const NoGrad no_grad;
    std::vector<Tensor> moved;
    for (std::size_t i = 0; i < leaves.size(); ++i) moved.push_back(leaves[i] + step * direction[i]);
    return total(program, moved).item();
  };
  const double height = std::abs(at(0));
  double before = std::nan("");
  for (double step = 1e-3; step > 1e-6; step /= 4) {
    const double slope = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
    const double allowed = 1e-8 * (1 + height) + 1e-6 * std::abs(slope);
    if (std::abs(slope - before) <= 0.3 * allowed) {
      if (std::abs(slope - analytic) <= allowed) return {};
      // A bend at the point itself, or nearer than any step, gives the mean of two slopes for every step. The slopes on
      // both sides then stay apart, while those of a smooth function meet as the step shrinks.
      const auto gap = [&](double h) { return std::abs(at(h) - 2 * at(0) + at(-h)) / h; };
      const double near = gap(1e-6);
      if (near > 0.5 * gap(1e-5) && near > 0.1 * std::abs(slope - analytic)) return {Verdict::undecided, ""};
      return {Verdict::fails, fmt::format("the tape says {}, differences say {}", analytic, slope)};
    }
    before = slope;
  }
  return {Verdict::undecided, ""};
}

Check check(const Program& program) {
  const std::vector<Tensor> leaves = leaves_of(program);
  const std::int64_t nodes_before = live_nodes();
  {
    const Tensor out = total(program, leaves);
    if (!std::isfinite(out.item())) return {Verdict::undecided, ""};
    if (!out.requires_grad()) return {};
    out.backward();
  }
  if (live_nodes() != nodes_before) return {Verdict::fails, "operations stay on the tape"};
  Check worst;
  for (int number = 0; number < 3; ++number) {
    std::vector<Tensor> direction;
    double analytic = 0;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      direction.push_back(sample({leaves[i].shape(), -1, 1}, 10 * number + static_cast<int>(i) + 40, DType::f64));
      if (leaves[i].grad().defined()) analytic += sum(leaves[i].grad() * direction[i]).item();
    }
    const Check one = along(program, leaves, direction, analytic);
    if (one.verdict > worst.verdict) worst = one;
  }
  return worst;
}

// Without one step; who used its result uses one of its operands instead.
Program without(const Program& program, std::size_t step) {
  Program out = program;
  const std::size_t result = program.leaves.size() + step;
  const std::size_t instead = program.steps[step].operands[0].value;
  out.steps.erase(out.steps.begin() + static_cast<std::ptrdiff_t>(step));
  for (Step& later : out.steps) {
    for (Operand& operand : later.operands) {
      if (operand.value == result) operand.value = instead;
      if (operand.value > result) --operand.value;
    }
  }
  return out;
}

// The smallest program that still fails, found by leaving out one step after the other.
Program shrunk(Program program) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t step = program.steps.size(); step-- > 0 && program.steps.size() > 1;) {
      const Program smaller = without(program, step);
      try {
        if (check(smaller).verdict != Verdict::fails) continue;
      } catch (const std::exception&) {
        continue;
      }
      program = smaller;
      changed = true;
    }
  }
  return program;
}

std::string code(const Program& program) {
  std::string text;
  std::size_t value = 0;
  for (const Shape& shape : program.leaves) {
    text +=
        fmt::format("  v{} = sample({{{}}}, {}, DType::f64).requires_grad_();\n", value, to_string(shape), value + 1);
    ++value;
  }
  for (const Step& step : program.steps) {
    std::vector<std::string> operands;
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const Input& wanted = step.call->one->inputs[i];
      std::string operand = fmt::format("fitted(v{}, {})", step.operands[i].value, to_string(wanted.shape));
      if (step.operands[i].squashed) operand = fmt::format("squashed({}, {}, {})", operand, wanted.low, wanted.high);
      operands.push_back(operand);
    }
    text += fmt::format("  v{} = {}({});  // case {}{}\n", value++, step.call->name, fmt::join(operands, ", "),
                        step.call->number, step.call->one->what.empty() ? "" : ": " + step.call->one->what);
  }
  return text;
}

std::vector<Call> calls_of(const std::vector<Entry>& table) {
  std::vector<Call> calls;
  for (const Entry& entry : table) {
    int number = 0;
    for (const Case& one : entry.cases) {
      Index elements = 0;
      for (const Input& input : one.inputs) elements += input.shape.numel();
      if (elements <= 60) calls.push_back({entry.name, number, &one});
      ++number;
    }
  }
  return calls;
}

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

Generator generator_of(std::uint64_t seed, std::uint64_t number) { return Generator((seed << 32) + number); }

}  // namespace

TEST_CASE("random programs: gradients against differences") {
  const std::vector<Call> calls = calls_of(entries());
  const std::uint64_t count = setting("TAPEHEAD_PROGRAMS", full_run() ? 100000 : 2000),
                      seed = setting("TAPEHEAD_PROGRAMS_SEED", 1);
  std::uint64_t steps = 0, undecided = 0;
  std::set<std::string> used;
  for (std::uint64_t number = 0; number < count; ++number) {
    Generator random = generator_of(seed, number);
    try {
      const Program program = generate(calls, random);
      steps += program.steps.size();
      for (const Step& step : program.steps) used.insert(step.call->name);
      const Check result = check(program);
      undecided += result.verdict == Verdict::undecided ? 1 : 0;
      if (result.verdict != Verdict::fails) continue;
      const Program small = shrunk(program);
      FAIL_CHECK(fmt::format("seed {}, program {} of {} steps: {}; shrunk: {}\n{}", seed, number, program.steps.size(),
                             result.text, check(small).text, code(small)));
    } catch (const std::exception& error) {
      FAIL_CHECK(fmt::format("seed {}, program {}: {}", seed, number, error.what()));
    }
  }
  MESSAGE(fmt::format("seed {}: {} programs, {} steps of {} operations, {} undecided", seed, count, steps, used.size(),
                      undecided));
  CHECK(undecided * 50 <= count);
  if (count >= 500) CHECK(used.size() == entries().size());
}

TEST_CASE("random programs: a wrong rule is found and shrunk to its call") {
  const auto wrong = [](Inputs in) {
    const Tensor y = tanh(in[0].detach());
    return record("wrong", y, {&in[0]}, {&y}, [](Backward& back) { back.to(0, back.gradient() * back.saved(0)); });
  };
  std::vector<Entry> table = {{"wrong", WrongType::none, on_shapes(wrong, -2, 2)}};
  for (const Entry& entry : entries()) {
    if (entry.name != "dropout") table.push_back(entry);
  }
  const std::vector<Call> calls = calls_of(table);
  int found = 0;
  for (std::uint64_t number = 0; number < 100; ++number) {
    Generator random = generator_of(2, number);
    const Program program = generate(calls, random);
    if (check(program).verdict != Verdict::fails) continue;
    const Program small = shrunk(program);
    ++found;
    CHECK_MESSAGE(small.steps.size() <= 3, code(small));
    CHECK(code(small).find(" = wrong(") != std::string::npos);
  }
  CHECK(found >= 3);
}

TEST_CASE("random programs: shrinking passes over programs that make something of nothing") {
  const auto wrong = [](Inputs in) {
    const Tensor y = tanh(in[0].detach() + in[1]);
    return record("wrong", y, {&in[0]}, {&y}, [](Backward& back) { back.to(0, back.gradient() * back.saved(0)); });
  };
  const Case nothing{"", [](Inputs in) { return slice(in[0], 0, {.stop = 0}); }, {{{2, 3}}}};
  const Case total_of_nothing{"", [](Inputs in) { return sum(in[0], 0); }, {{{0, 3}}}};
  const Case last{"", wrong, {{{3}}, {{3}}}};
  const Call calls[] = {{"nothing", 0, &nothing}, {"total", 0, &total_of_nothing}, {"wrong", 0, &last}};
  const Program program{
      {{2, 3}, {3}},
      {{&calls[0], {{0, false}}}, {&calls[1], {{2, false}}}, {&calls[2], {{1, false}, {3, false}}}},
  };
  REQUIRE(check(program).verdict == Verdict::fails);
  CHECK_THROWS_AS(check(without(program, 1)), std::invalid_argument);
  CHECK(shrunk(program).steps.size() == 1);
}
