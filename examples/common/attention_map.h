// SPDX-License-Identifier: MIT
// Attention weights as pictures: coloured cells in the terminal, and an SVG file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tapehead/tensor.h>

#include "common/terminal.h"

namespace examples {

struct AttentionMap {
  std::string title;
  tapehead::Tensor weights;               ///< f32 or f64 [queries, keys], each in [0, 1]
  std::vector<std::string> query_labels;  ///< one for each row, ASCII
  std::vector<std::string> key_labels;    ///< one for each column, ASCII, one or two characters
};

/// The maps side by side as far as the terminal is wide, with a scale below. A cell is two characters wide: a
/// background colour where the terminal has colours, else a character of the ramp " .:-=+*#%@".
std::string attention_text(const std::vector<AttentionMap>& maps, const Terminal& terminal);

/// The same as a picture that needs nothing but itself; pointing at a cell shows its weight. `caption` goes above.
std::string attention_svg(const std::vector<AttentionMap>& maps, std::string_view caption);

}  // namespace examples
