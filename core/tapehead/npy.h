// SPDX-License-Identifier: MIT
// NumPy's array files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions 1.0 to 3.0.
#pragma once

#include <string>

#include <tapehead/tensor.h>

namespace tapehead {

/// The array in an .npy file, in row-major order whatever the file's. f32, f64, i64 and bool are read as they are, f16
/// as f32, all other integers as i64, in both byte orders. Throws IoError with the path and the system's reason, and
/// FormatError for a file that is damaged, longer or shorter than its header says, holds Python objects, structures,
/// text, complex numbers or times, has more than 8 axes, or holds an unsigned number above the largest i64.
Tensor load_npy(const std::string& path);

/// Writes the bytes that numpy.save writes. An older file stays as it is until the new one is whole. Throws IoError,
/// and StateError for an empty tensor.
void save_npy(const std::string& path, const Tensor& tensor);

}  // namespace tapehead
