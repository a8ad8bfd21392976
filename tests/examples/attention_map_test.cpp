// SPDX-License-Identifier: MIT
#include "common/attention_map.h"

#include <doctest/doctest.h>

using namespace examples;
using tapehead::tensor;

namespace {

AttentionMap map_of(std::string title) {
  return {std::move(title), tensor({{0, 1}, {0.25, 0.0625}}), {"a", "b"}, {"7", "<"}};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("attention text: a ramp of characters without colours") {
  CHECK(attention_text({map_of("t")}, {}) ==
        "t\n"
        "  7 <\n"
        "a   @@\n"
        "b ++::\n"
        "\n"
        "weight 0   ....::::--====++++**####%%%%@@ 1\n");
}

TEST_CASE("attention text: cells in colours, closed on every line") {
  const std::string text = attention_text({map_of("t")}, {.live = true, .colors = Colors::truecolor, .columns = 80});
  CHECK(count(text, "\x1b[48;2;68;1;84m  \x1b[48;2;253;231;37m  \x1b[0m\n") == 1);
  CHECK(count(text, "\x1b[0m") == 3);  // two rows and the scale
  const std::string palette =
      attention_text({map_of("t")}, {.live = true, .colors = Colors::palette256, .columns = 80});
  CHECK(count(palette, "\x1b[48;5;") == count(text, "\x1b[48;2;"));
}

TEST_CASE("attention text: maps stand side by side as far as there is room") {
  const std::string wide = attention_text({map_of("one"), map_of("two")}, {.columns = 15});
  CHECK(count(wide, "one      two\n") == 1);
  CHECK(count(wide, "a   @@   a   @@\n") == 1);
  const std::string narrow = attention_text({map_of("one"), map_of("two")}, {.columns = 14});
  CHECK(count(narrow, "one\n") == 1);
  CHECK(count(narrow, "\n\ntwo\n") == 1);
}

TEST_CASE("attention SVG: one cell per weight, labels escaped, nothing loaded from elsewhere") {
  const std::string svg = attention_svg({map_of("one"), map_of("two")}, "A & B");
  CHECK(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0) == 0);
  CHECK(count(svg, "</title></rect>") == 8);
  CHECK(count(svg, "fill=\"#fde725\"><title>row 1 (a), column 2 (&lt;): 1.0000</title>") == 2);
  CHECK(count(svg, "A &amp; B") == 2);
  CHECK(count(svg, "http") == 1);
  CHECK(count(svg, "<text") == count(svg, "</text>"));
}
