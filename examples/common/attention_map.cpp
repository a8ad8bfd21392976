// SPDX-License-Identifier: MIT
#include "common/attention_map.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace examples {

using tapehead::Index;

namespace {

constexpr int kGap = 3;          // columns between maps in the terminal
constexpr int kScaleCells = 16;  // of the terminal's scale

// Weights of one in sixteen should differ visibly from zero, hence the root.
double brightness(double weight) { return std::sqrt(std::clamp(weight, 0.0, 1.0)); }

std::string cell(double weight, Colors colors) {
  const double share = brightness(weight);
  if (colors != Colors::none) return background(share, colors) + "  ";
  constexpr std::string_view ramp = " .:-=+*#%@";
  return std::string(2, ramp[static_cast<std::size_t>(std::lround(share * static_cast<double>(ramp.size() - 1)))]);
}

int label_width(const AttentionMap& map) {
  std::size_t width = 0;
  for (const std::string& label : map.query_labels) width = std::max(width, label.size());
  return static_cast<int>(width);
}

int text_width(const AttentionMap& map) {
  return std::max(static_cast<int>(map.title.size()),
                  label_width(map) + 1 + 2 * static_cast<int>(map.weights.shape()[1]));
}

// A map as lines, all padded to text_width().
std::vector<std::string> text_block(const AttentionMap& map, Colors colors) {
  const int margin = label_width(map) + 1;
  const Index queries = map.weights.shape()[0], keys = map.weights.shape()[1];
  const std::string padding(static_cast<std::size_t>(text_width(map) - margin - 2 * static_cast<int>(keys)), ' ');
  std::vector<std::string> lines = {fmt::format("{:<{}}", map.title, text_width(map))};
  std::string header(static_cast<std::size_t>(margin), ' ');
  for (const std::string& label : map.key_labels) header += fmt::format("{:<2}", label);
  lines.push_back(header + padding);
  for (Index query = 0; query < queries; ++query) {
    std::string line = fmt::format("{:>{}} ", map.query_labels[static_cast<std::size_t>(query)], margin - 1);
    for (Index key = 0; key < keys; ++key) line += cell(map.weights.at({query, key}), colors);
    lines.push_back(line + reset(colors) + padding);
  }
  return lines;
}

std::string scale_text(Colors colors) {
  std::string line = "weight 0 ";
  for (int i = 0; i < kScaleCells; ++i) {
    const double share = static_cast<double>(i) / (kScaleCells - 1);
    line += cell(share * share, colors);
  }
  return line + reset(colors) + " 1";
}

std::string escape_xml(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

std::string hex(const Rgb& color) { return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue); }

// Sizes of the picture in its own units.
constexpr int kCell = 18;
constexpr int kMargin = 28;
constexpr int kMapTop = 100;

void add_text(std::string& svg, double x, double y, std::string_view style, std::string_view text) {
  fmt::format_to(std::back_inserter(svg), "<text x=\"{:g}\" y=\"{:g}\" {}>{}</text>\n", x, y, style, escape_xml(text));
}

// Draws one map with its cells from `left` on; returns where its cells end.
int add_map(std::string& svg, const AttentionMap& map, int left) {
  const Index queries = map.weights.shape()[0], keys = map.weights.shape()[1];
  add_text(svg, left, kMapTop - 30, "font-weight=\"bold\"", map.title);
  for (Index key = 0; key < keys; ++key) {
    add_text(svg, left + (static_cast<double>(key) + 0.5) * kCell, kMapTop - 6, "text-anchor=\"middle\"",
             map.key_labels[static_cast<std::size_t>(key)]);
  }
  for (Index query = 0; query < queries; ++query) {
    const std::string& label = map.query_labels[static_cast<std::size_t>(query)];
    const Index top = kMapTop + query * kCell;
    add_text(svg, left - 6, static_cast<double>(top) + 0.72 * kCell, "text-anchor=\"end\"", label);
    for (Index key = 0; key < keys; ++key) {
      const double weight = map.weights.at({query, key});
      fmt::format_to(
          std::back_inserter(svg),
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>row {} ({}), column {} ({}): "
          "{:.4f}</title></rect>\n",
          left + key * kCell, top, kCell, kCell, hex(viridis(brightness(weight))), query + 1, escape_xml(label),
          key + 1, escape_xml(map.key_labels[static_cast<std::size_t>(key)]), weight);
    }
  }
  return left + static_cast<int>(keys) * kCell;
}

void add_scale(std::string& svg, int left, int top) {
  constexpr int kSteps = 64, kStepWidth = 4;
  for (int i = 0; i < kSteps; ++i) {
    fmt::format_to(std::back_inserter(svg), "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"10\" fill=\"{}\"/>\n",
                   left + i * kStepWidth, top, kStepWidth, hex(viridis(static_cast<double>(i) / (kSteps - 1))));
  }
  for (const double weight : {0.0, 0.0625, 0.25, 0.5, 1.0}) {
    add_text(svg, left + brightness(weight) * kSteps * kStepWidth, top + 25, "text-anchor=\"middle\"",
             fmt::format("{:g}", weight));
  }
}

}  // namespace

std::string attention_text(const std::vector<AttentionMap>& maps, const Terminal& terminal) {
  std::string text;
  std::vector<std::string> row;  // lines of the maps that stand side by side
  int width = 0;
  const auto flush = [&] {
    for (const std::string& line : row) text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    if (!row.empty()) text += "\n";
    row.clear();
  };
  for (const AttentionMap& map : maps) {
    const std::vector<std::string> block = text_block(map, terminal.colors);
    if (!row.empty() && (width + kGap + text_width(map) > terminal.columns || row.size() != block.size())) flush();
    if (row.empty()) {
      row = block;
      width = text_width(map);
      continue;
    }
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += std::string(kGap, ' ') + block[i];
    width += kGap + text_width(map);
  }
  flush();
  return text + scale_text(terminal.colors) + "\n";
}

std::string attention_svg(const std::vector<AttentionMap>& maps, std::string_view caption) {
  std::string body;
  int right = 0;
  Index queries = 0;
  for (const AttentionMap& map : maps) {
    const int labels = 10 + 8 * label_width(map);
    right = add_map(body, map, right + kMargin + labels);
    queries = std::max(queries, map.weights.shape()[0]);
  }
  const int scale_top = kMapTop + static_cast<int>(queries) * kCell + 22;
  add_text(body, kMargin, 34, "font-size=\"14\"", caption);
  add_text(body, kMargin, scale_top + 9, "", "weight");
  add_scale(body, kMargin + 60, scale_top);
  const int width = std::max(right + kMargin, kMargin * 2 + 9 * static_cast<int>(caption.size()));
  const int height = scale_top + 25 + kMargin;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
      "aria-label=\"{2}\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" "
      "font-size=\"12\" fill=\"#1b1b1b\">\n"
      "<rect width=\"{0}\" height=\"{1}\" rx=\"8\" fill=\"#ffffff\"/>\n"
      "<g shape-rendering=\"crispEdges\">\n{3}</g>\n</svg>\n",
      width, height, escape_xml(caption), body);
}

}  // namespace examples
