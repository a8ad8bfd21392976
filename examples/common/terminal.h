// SPDX-License-Identifier: MIT
// What the terminal behind standard output can show, and colours in it.
#pragma once

#include <functional>
#include <string>

namespace examples {

enum class Colors { none, palette256, truecolor };

struct Terminal {
  bool live = false;  ///< a line can be redrawn in place; false for files, pipes and TERM=dumb
  Colors colors = Colors::none;
  int columns = 80;
};

/// Standard output's terminal. COLORTERM and TERM say which colours it has, NO_COLOR (https://no-color.org) turns them
/// off, COLUMNS overrides its width.
Terminal stdout_terminal();

using Environment = std::function<const char*(const char* name)>;
/// The same from its parts; `columns` is what the terminal itself reports, 0 if it does not.
Terminal describe_terminal(bool is_terminal, int columns, const Environment& environment);

struct Rgb {
  int red, green, blue;
};

/// A colour for a share in [0, 1], from dark violet through green to yellow: the map "viridis" by Stefan van der Walt
/// and Nathaniel Smith (CC0), whose brightness rises evenly, so that it reads the same for colour-blind eyes.
Rgb viridis(double share);

/// The escape sequence that makes the background viridis(share), or what comes near it in the 256-colour palette;
/// empty without colours.
std::string background(double share, Colors colors);
/// The escape sequence that ends it; empty without colours.
std::string reset(Colors colors);

}  // namespace examples
