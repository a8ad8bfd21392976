// SPDX-License-Identifier: MIT
// Tensors as text, laid out like NumPy's str().
#include <ostream>

#include <tapehead/tensor.h>

namespace tapehead {

std::ostream& operator<<(std::ostream& stream, const Shape& shape) { return stream << to_string(shape); }

}  // namespace tapehead
