// SPDX-License-Identifier: MIT
// Every differentiable operation with inputs to try it on. An operation that ops.h or attention.h declares and that
// has no entry here fails the test run.
#pragma once

#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include <tapehead/gradcheck.h>
#include <tapehead/ops.h>

namespace op_table {

/// A floating input: its shape and the range of its elements.
struct Input {
  tapehead::Shape shape;
  double low = -2;
  double high = 2;
};

/// What a wrong element type means for an operation.
enum class WrongType {
  whole,  ///< i64 in place of the floating inputs is refused
  mixed,  ///< f32 beside f64 is refused
  none    ///< one input of any type
};

struct Case {
  std::string what;
  tapehead::TensorFunction function;  ///< the same for f32 and f64
  std::vector<Input> inputs;
};

struct Entry {
  std::string name;  ///< as declared
  WrongType wrong_type = WrongType::whole;
  std::vector<Case> cases = {};
};

/// The operations that the public headers declare, without those that have no gradient: what must have an entry.
std::set<std::string> differentiable_operations();

/// All entries.
const std::vector<Entry>& entries();

/// Elements spread evenly over an input's range, in an order without pattern; `seed` tells inputs apart.
tapehead::Tensor sample(const Input& input, int seed, tapehead::DType dtype);

// Shared by the pages of the table.
using Inputs = const std::vector<tapehead::Tensor>&;

/// Booleans, two of three true.
tapehead::Tensor pattern(const tapehead::Shape& shape);
tapehead::Tensor whole(std::initializer_list<tapehead::Index> values, const tapehead::Shape& shape);
/// A case on each of: rank 0, all sizes 1, a size 0 on either axis, primes, rank 5 and 6.
std::vector<Case> on_shapes(const tapehead::TensorFunction& function, double low, double high,
                            const std::string& what = "");
void append(std::vector<Case>& cases, std::vector<Case> more);

/// A function of one number, on all of those shapes.
Entry unary(const std::string& name, const std::function<tapehead::Tensor(const tapehead::Tensor&)>& f, double low,
            double high);
using Reducer = std::function<tapehead::Tensor(const tapehead::Tensor&, const tapehead::Axes&, bool keepdim)>;
/// A reduction over all axes and over some, with and without keeping them; `over_nothing` where that has a result.
Entry reduction(const std::string& name, const Reducer& f, bool over_nothing);

void add_functions(std::vector<Entry>& table);
void add_shapes(std::vector<Entry>& table);
void add_rearrangements(std::vector<Entry>& table);
void add_lookups(std::vector<Entry>& table);
void add_indexing(std::vector<Entry>& table);
void add_losses(std::vector<Entry>& table);
void add_networks(std::vector<Entry>& table);
void add_attention(std::vector<Entry>& table);

}  // namespace op_table
