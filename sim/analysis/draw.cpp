#include "bitmma/analysis/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "bitmma/core/error.hpp"

namespace bitmma {
namespace {

constexpr int line_bytes = 128, unit_bytes = 16, units_per_line = line_bytes / unit_bytes;

std::string range(int first, int last) {
  return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
}

/// First and last row and column of what one place holds.
struct Extent {
  int first_row = 0, last_row = 0, first_col = 0, last_col = 0;
  int elements = 0;

  void add(int row, int col) {
    if (elements++ == 0) first_row = last_row = row, first_col = last_col = col;
    first_row = std::min(first_row, row), last_row = std::max(last_row, row);
    first_col = std::min(first_col, col), last_col = std::max(last_col, col);
  }
};

std::map<int64_t, Extent> units_of(std::span<const PlacedElement> elements) {
  std::map<int64_t, Extent> units;
  for (const PlacedElement& element : elements) {
    if (element.byte < 0)
      throw Error({.field = "byte", .seen = std::to_string(element.byte), .expected = "addresses from 0 on"});
    units[element.byte / unit_bytes].add(element.row, element.col);
  }
  return units;
}

std::string text_of(const Extent& unit, int per_unit) {
  return fmt::format("r{} k{}{}", range(unit.first_row, unit.last_row), range(unit.first_col, unit.last_col),
                     unit.elements > per_unit ? "*" : "");
}

/// An element takes a hundred bytes on its way into a picture, and nobody looks at a million of them.
void require_drawable(int64_t rows, int64_t cols) {
  constexpr int64_t most = 1 << 20;
  if (rows >= 1 && cols >= 1 && rows <= most && cols <= most / rows) return;
  throw Error({.field = "picture",
               .seen = fmt::format("{} x {} elements", rows, cols),
               .expected = fmt::format("at most {}", most),
               .fix = "lists of elements may be longer"});
}

void require_lines(int element_bits, int max_lines) {
  std::vector<Violation> found;
  if (element_bits < 1 || element_bits > line_bytes)
    found.push_back({.field = "element bits", .seen = std::to_string(element_bits), .expected = "1..128"});
  if (max_lines < 0)
    found.push_back({.field = "lines of the picture", .seen = std::to_string(max_lines), .expected = "0 or more"});
  if (!found.empty()) throw Error(std::move(found));
}

struct Band {
  Extent matrix;
  int first_column = 1 << 20, last_column = -1;
};

/// By CTA and block of 16 lanes.
std::map<std::pair<int, int>, Band> bands_of(std::span<const TmemElement> elements) {
  std::map<std::pair<int, int>, Band> bands;
  for (const TmemElement& e : elements) {
    Band& band = bands[{e.place.cta, e.place.lane / 16}];
    band.matrix.add(e.row, e.col);
    band.first_column = std::min(band.first_column, e.place.column),
    band.last_column = std::max(band.last_column, e.place.column);
  }
  return bands;
}

}  // namespace

std::vector<PlacedElement> placed_elements(const SmemMap& map) {
  require_drawable(map.matrix().rows, map.matrix().cols);
  std::vector<PlacedElement> elements;
  for (int row = 0; row < map.matrix().rows; ++row) {
    for (int col = 0; col < map.matrix().cols; ++col) elements.push_back({row, col, map.place_of(row, col).byte});
  }
  return elements;
}

std::vector<PlacedElement> placed_elements(const CuteLayout& cute, int element_bits) {
  require_lines(element_bits, 0);
  require_drawable(cute.rows, cute.cols);
  std::vector<PlacedElement> elements;
  for (int row = 0; row < cute.rows; ++row) {
    for (int col = 0; col < cute.cols; ++col) elements.push_back({row, col, cute.byte_of(row, col, element_bits)});
  }
  return elements;
}

std::string draw_smem(std::span<const PlacedElement> elements, int element_bits, int max_lines) {
  require_lines(element_bits, max_lines);
  const int per_unit = 128 / element_bits;
  std::map<int64_t, std::vector<std::string>> lines;
  size_t width = 6;
  bool shared = false;
  for (const auto& [index, unit] : units_of(elements)) {
    auto& cells = lines[index / units_per_line];
    cells.resize(units_per_line, ".");
    std::string text = text_of(unit, per_unit);
    shared |= unit.elements > per_unit;
    width = std::max(width, text.size());
    cells[static_cast<size_t>(index % units_per_line)] = std::move(text);
  }
  std::string picture = fmt::format("{:>9} ", "byte");
  for (int unit = 0; unit < units_per_line; ++unit)
    picture += fmt::format(" {:<{}}", fmt::format("+{}", unit * unit_bytes), width);
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

Picture picture_of_smem(std::span<const PlacedElement> elements, int element_bits, int max_lines) {
  require_lines(element_bits, max_lines);
  const int per_unit = 128 / element_bits;
  Picture picture{.corner = "byte"};
  for (int unit = 0; unit < units_per_line; ++unit)
    picture.column_heads.push_back(fmt::format("+{} banks {}-{}", unit * unit_bytes, 4 * unit, 4 * unit + 3));
  const auto units = units_of(elements);
  // The unit's place along its contiguous direction: k where a unit holds one row, otherwise rows.
  const auto colour_of = [&](const Extent& unit) {
    return (unit.first_row == unit.last_row ? unit.first_col : unit.first_row) / per_unit % picture_colors;
  };
  std::map<int64_t, std::vector<PictureCell>> lines;
  std::map<int, std::string> legend;
  for (const auto& [index, unit] : units) {
    auto& cells = lines[index / units_per_line];
    cells.resize(units_per_line);
    const int color = colour_of(unit);
    cells[static_cast<size_t>(index % units_per_line)] = {text_of(unit, per_unit), color};
    const bool along_k = unit.first_row == unit.last_row;
    legend.try_emplace(color, fmt::format("unit {} of {}: {} {} ...", color, along_k ? "a row" : "a column of k",
                                          along_k ? "k" : "rows", color * per_unit));
  }
  for (const auto& [line, cells] : lines) {
    if (static_cast<int>(picture.rows.size()) == max_lines) {
      picture.notes.push_back(fmt::format("the first {} of {} lines of 128 bytes", max_lines, lines.size()));
      break;
    }
    picture.rows.emplace_back(fmt::format("{:#x}", line * line_bytes), cells);
  }
  picture.legend.assign(legend.begin(), legend.end());
  return picture;
}

Picture picture_of_smem(const SmemMap& map, int max_lines) {
  const SmemMatrix& matrix = map.matrix();
  Picture picture = picture_of_smem(placed_elements(map), matrix.element_bits, max_lines);
  picture.title = fmt::format("{} shared memory, {} x {} elements of {} bits", print(matrix.major), matrix.rows,
                              matrix.cols, matrix.element_bits);
  picture.notes.insert(
      picture.notes.begin(),
      {fmt::format("{} (descriptor {:#018x} of {}, start {:#x})", print_hardware_cute(matrix),
                   encode(matrix.descriptor), print(matrix.descriptor.target), matrix.descriptor.start_address_bytes),
       "a line is 128 bytes, 32 banks; r rows of M or N, k columns of K, as the canonical layouts "
       "of the PTX ISA (9.7.15.5.1.2, 9.7.16.3)"});
  return picture;
}

std::string draw_fragment(const Fragment& fragment, int max_cols) {
  const int rows = fragment.threads > 32 ? 16 : fragment.rows;  // of a warp
  const int per_register = fragment.elements_per_register();
  // As many columns as stay readable: eight registers across, at least what was asked for.
  const int cols = std::min(fragment.cols, std::max(max_cols, 8 * per_register));
  std::string picture = "       ";
  for (int col = 0; col < cols; col += per_register) {
    picture += fmt::format(
        " {:<9}", per_register == 1 ? fmt::format("c{}", col) : fmt::format("c{}-{}", col, col + per_register - 1));
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
  if (fragment.cols > cols) picture += fmt::format("columns {}-{} are not drawn\n", cols, fragment.cols - 1);
  return picture;
}

Picture picture_of_fragment(const Fragment& fragment, int max_cols) {
  const int rows = fragment.threads > 32 ? 16 : fragment.rows, per_register = fragment.elements_per_register();
  const int cols = std::min(fragment.cols, std::max(max_cols, 8 * per_register));
  Picture picture{.corner = "row"};
  for (int col = 0; col < cols; col += per_register)
    picture.column_heads.push_back(per_register == 1 ? std::to_string(col)
                                                     : fmt::format("{}-{}", col, col + per_register - 1));
  for (int row = 0; row < rows; ++row) {
    std::vector<PictureCell> cells;
    for (int col = 0; col < cols; col += per_register) {
      const RegisterPlace place = place_of(fragment, row, col);
      cells.push_back({fmt::format("T{} r{}", place.thread, place.reg), place.thread % 4 + 4 * (place.thread / 4 % 2)});
    }
    picture.rows.emplace_back(std::to_string(row), std::move(cells));
  }
  for (int quad = 0; quad < 4; ++quad) {
    picture.legend.emplace_back(quad, fmt::format("threads t with t % 4 = {}, even quads", quad));
    picture.legend.emplace_back(quad + 4, fmt::format("threads t with t % 4 = {}, odd quads", quad));
  }
  if (fragment.rows > rows) picture.notes.push_back("rows 16-31, 32-47, 48-63: the same with threads +32, +64, +96");
  if (fragment.cols > cols) picture.notes.push_back(fmt::format("columns 0-{} of {}", cols - 1, fragment.cols));
  return picture;
}

std::string draw_tmem(std::span<const TmemElement> elements, int ctas) {
  const auto bands = bands_of(elements);
  std::string text =
      fmt::format("{:<5}{:<9}{:<13}{:<13}{}\n", "cta", "lanes", "matrix rows", "matrix cols", "TMEM columns");
  for (int cta = 0; cta < ctas; ++cta) {
    for (int block = 0; block < tmem_lanes / 16; ++block) {
      const auto found = bands.find({cta, block});
      const std::string lanes = range(16 * block, 16 * block + 15);
      if (found == bands.end()) {
        text += fmt::format("{:>3}  {:<9}{:<13}{:<13}{}\n", cta, lanes, ".", ".", ".");
        continue;
      }
      const Band& band = found->second;
      text +=
          fmt::format("{:>3}  {:<9}{:<13}{:<13}{}\n", cta, lanes, range(band.matrix.first_row, band.matrix.last_row),
                      range(band.matrix.first_col, band.matrix.last_col), range(band.first_column, band.last_column));
    }
  }
  return text;
}

Picture picture_of_tmem(std::span<const TmemElement> elements, int ctas) {
  const auto bands = bands_of(elements);
  Picture picture{.corner = "lanes"};
  for (int cta = 0; cta < ctas; ++cta)
    picture.column_heads.push_back(ctas == 1 ? "CTA" : cta == 0 ? "even CTA" : "odd CTA");
  std::map<int, std::string> legend;
  int last_row = 0;
  for (const TmemElement& e : elements) last_row = std::max(last_row, e.row);
  for (int block = 0; block < tmem_lanes / 16; ++block) {
    std::vector<PictureCell> cells;
    for (int cta = 0; cta < ctas; ++cta) {
      const auto found = bands.find({cta, block});
      if (found == bands.end()) {
        cells.push_back({"not used", -1});
        continue;
      }
      const Band& band = found->second;
      const int color = band.matrix.first_row / 16 % picture_colors;
      cells.push_back(
          {fmt::format("rows {}, cols {} in columns {}", range(band.matrix.first_row, band.matrix.last_row),
                       range(band.matrix.first_col, band.matrix.last_col), range(band.first_column, band.last_column)),
           color});
      legend.try_emplace(
          color, fmt::format("rows {}-{} of the matrix{}", 16 * color, 16 * color + 15,
                             last_row >= 128 ? fmt::format(", and {}-{}", 128 + 16 * color, 143 + 16 * color) : ""));
    }
    picture.rows.emplace_back(range(16 * block, 16 * block + 15), std::move(cells));
  }
  picture.legend.assign(legend.begin(), legend.end());
  return picture;
}

}  // namespace bitmma
