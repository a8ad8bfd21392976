// SPDX-License-Identifier: MIT
// Lists every differentiable operation with what was checked of it, here and now, from the table of operations.
// Exits 1 unless each was checked and held.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tapehead/error.h>

#include "core/op_table.h"

using namespace tapehead;
using namespace op_table;

namespace {

std::vector<Tensor> samples(const Case& one) {
  std::vector<Tensor> out;
  for (const Input& input : one.inputs) {
    out.push_back(sample(input, static_cast<int>(out.size()), DType::f64).requires_grad_());
  }
  return out;
}

const char* shape_class(const Shape& shape) {
  if (shape.rank() == 0) return "scalar";
  if (shape.numel() == 0) return "empty";
  if (shape.numel() == 1) return "ones";
  if (shape.rank() == 1) return "vector";
  if (shape.rank() == 2) return "matrix";
  return shape.rank() < 5 ? "batches" : "rank 5 and more";
}

bool refused(const Case& one, const std::vector<Tensor>& inputs) {
  try {
    (void)one.function(inputs);
  } catch (const DTypeError&) {
    return true;
  }
  return false;
}

struct Report {
  std::size_t first = 0, second = 0;  // cases that hold
  std::map<std::string, int> shapes;
  std::size_t types_tried = 0, types_refused = 0;
};

void try_types(const Entry& entry, const Case& one, Report& report) {
  const std::vector<Tensor> inputs = samples(one);
  const bool whole_numbers = entry.wrong_type == WrongType::whole;
  if (entry.wrong_type == WrongType::none || (!whole_numbers && inputs.size() < 2)) return;
  for (std::size_t i = 0; i < (whole_numbers ? 1 : inputs.size()); ++i) {
    std::vector<Tensor> wrong = inputs;
    if (whole_numbers) {
      for (Tensor& x : wrong) x = to(x.detach(), DType::i64);
    } else {
      wrong[i] = to(wrong[i].detach(), DType::f32);
    }
    ++report.types_tried;
    report.types_refused += refused(one, wrong) ? 1 : 0;
  }
}

Report check(const Entry& entry) {
  Report report;
  for (const Case& one : entry.cases) {
    Index elements = 0;
    for (const Input& input : one.inputs) {
      elements += input.shape.numel();
      ++report.shapes[shape_class(input.shape)];
    }
    try {
      report.first += gradcheck(one.function, samples(one)) ? 1 : 0;
      const int directions = elements > 60 ? 3 : 0;
      const GradcheckOptions second = {.atol = 1e-6, .rtol = 1e-4, .directions = directions};
      report.second += gradgradcheck(one.function, samples(one), second) ? 1 : 0;
      try_types(entry, one, report);
    } catch (const std::exception& error) {
      fmt::print("{} ({}): {}\n", entry.name, one.what, error.what());
    }
  }
  return report;
}

}  // namespace

int main() {
  std::set<std::string> unchecked = differentiable_operations();
  fmt::print("{:<30} {:>5} {:>7} {:>7} {:>9}  shapes\n", "operation", "cases", "first", "second", "type");
  for (const Entry& entry : entries()) {
    const Report report = check(entry);
    const std::size_t cases = entry.cases.size();
    std::vector<std::string> shapes;
    for (const auto& [name, count] : report.shapes) shapes.push_back(fmt::format("{} {}", count, name));
    const std::string types =
        entry.wrong_type == WrongType::none ? "any" : fmt::format("{}/{}", report.types_refused, report.types_tried);
    fmt::print("{:<30} {:>5} {:>7} {:>7} {:>9}  {}\n", entry.name, cases, fmt::format("{}/{}", report.first, cases),
               fmt::format("{}/{}", report.second, cases), types, fmt::join(shapes, ", "));
    const bool typed =
        report.types_refused == report.types_tried && (entry.wrong_type == WrongType::none || report.types_tried > 0);
    if (cases > 0 && report.first == cases && report.second == cases && typed) unchecked.erase(entry.name);
  }
  fmt::print("first, second: cases whose derivatives agree with differences; type: wrong element types refused\n");
  fmt::print("{} operations, {}\n", entries().size(),
             unchecked.empty() ? "none unchecked" : fmt::format("unchecked: {}", fmt::join(unchecked, ", ")));
  return unchecked.empty() ? 0 : 1;
}
