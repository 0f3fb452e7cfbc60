#include "bitmma/io/draw.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

namespace bitmma {
namespace {

constexpr int line_bytes = 128, unit_bytes = 16;

/// First and last row and column that one 16-byte unit holds.
struct UnitContents {
  int first_row = 0, last_row = 0, first_col = 0, last_col = 0;
  int elements = 0;
};

std::string range(int first, int last) { return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last); }

}  // namespace

std::string draw_smem(const SmemMap& map, int max_lines) {
  std::map<int64_t, UnitContents> units;
  const SmemMatrix& matrix = map.matrix();
  const int per_unit = 128 / matrix.element_bits;
  for (int row = 0; row < matrix.rows; ++row) {
    for (int col = 0; col < matrix.cols; ++col) {
      UnitContents& unit = units[map.place_of(row, col).byte / unit_bytes];
      if (unit.elements++ == 0) unit = {.first_row = row, .last_row = row, .first_col = col, .last_col = col, .elements = 1};
      unit.first_row = std::min(unit.first_row, row);
      unit.last_row = std::max(unit.last_row, row);
      unit.first_col = std::min(unit.first_col, col);
      unit.last_col = std::max(unit.last_col, col);
    }
  }
  std::map<int64_t, std::vector<std::string>> lines;
  size_t width = 6;
  bool shared = false;
  for (const auto& [index, unit] : units) {
    const int64_t line = index / (line_bytes / unit_bytes);
    auto& cells = lines[line];
    cells.resize(line_bytes / unit_bytes, ".");
    std::string text = fmt::format("r{} k{}", range(unit.first_row, unit.last_row), range(unit.first_col, unit.last_col));
    if (unit.elements > per_unit) {
      text += "*";
      shared = true;
    }
    width = std::max(width, text.size());
    cells[static_cast<size_t>(index % (line_bytes / unit_bytes))] = std::move(text);
  }
  std::string picture = fmt::format("{:>9} ", "byte");
  for (int unit = 0; unit < line_bytes / unit_bytes; ++unit) picture += fmt::format(" {:<{}}", fmt::format("+{}", unit * unit_bytes), width);
  while (picture.back() == ' ') picture.pop_back();
  picture += '\n';
  int drawn = 0;
  for (const auto& [line, cells] : lines) {
    if (drawn++ == max_lines) {
      picture += fmt::format("... {} more lines\n", lines.size() - static_cast<size_t>(max_lines));
      break;
    }
    picture += fmt::format("{:>9} ", fmt::format("{:#x}", line * line_bytes));
    for (const std::string& cell : cells) picture += fmt::format(" {:<{}}", cell, width);
    while (picture.back() == ' ') picture.pop_back();
    picture += '\n';
  }
  if (shared) picture += "* more elements than fit: several share these bytes\n";
  return picture;
}

std::string draw_fragment(const Fragment& fragment, int max_cols) {
  const int rows = std::min(fragment.rows, 16);
  const int per_register = fragment.elements_per_register();
  // As many columns as stay readable: eight registers across, at least what was asked for.
  const int cols = std::min(fragment.cols, std::max(max_cols, 8 * per_register));
  std::string picture = "       ";
  for (int col = 0; col < cols; col += per_register) {
    picture += fmt::format(" {:<9}", per_register == 1 ? fmt::format("c{}", col) : fmt::format("c{}-{}", col, col + per_register - 1));
  }
  while (picture.back() == ' ') picture.pop_back();
  picture += '\n';
  for (int row = 0; row < rows; ++row) {
    picture += fmt::format("row {:<3}", row);
    for (int col = 0; col < cols; col += per_register) {
      const RegisterPlace place = place_of(fragment, row, col);
      picture += fmt::format(" {:<9}", fmt::format("T{}:r{}", place.thread, place.reg));
    }
    while (picture.back() == ' ') picture.pop_back();
    picture += '\n';
  }
  if (fragment.rows > rows) picture += "rows 16-31, 32-47, 48-63: the same with threads +32, +64, +96\n";
  if (fragment.cols > cols) picture += fmt::format("columns {}-{}: --max-cols shows them\n", cols, fragment.cols - 1);
  return picture;
}

}  // namespace bitmma
