#include "bitmma/analysis/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
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

/// What a unit of 16 bytes holds, in the order of its bytes.
struct Unit {
  Extent extent;
  std::vector<PlacedElement> elements;
};

std::map<int64_t, Unit> units_of(std::span<const PlacedElement> elements) {
  std::map<int64_t, Unit> units;
  for (const PlacedElement& element : elements) {
    if (element.byte < 0)
      throw Error({.field = "byte", .seen = std::to_string(element.byte), .expected = "addresses from 0 on"});
    Unit& unit = units[element.byte / unit_bytes];
    unit.extent.add(element.row, element.col);
    unit.elements.push_back(element);
  }
  for (auto& [index, unit] : units) std::ranges::stable_sort(unit.elements, {}, &PlacedElement::byte);
  return units;
}

/// Elements that follow each other along one coordinate.
struct Run {
  int first_row = 0, last_row = 0, first_col = 0, last_col = 0;

  bool take(const PlacedElement& next) {
    const bool along_k = next.row == first_row && last_row == first_row && next.col == int64_t{last_col} + 1;
    const bool along_rows = next.col == first_col && last_col == first_col && next.row == int64_t{last_row} + 1;
    if (along_k) last_col = next.col;
    if (along_rows) last_row = next.row;
    return along_k || along_rows;
  }
};

/// How the elements of a unit can be written down.
enum class UnitText : uint8_t {
  ordered,
  scattered,  // too many pieces, or bytes between them
  shared,     // more than fit
};

struct DrawnUnit {
  std::string text = {};
  UnitText kind = UnitText::ordered;
};

DrawnUnit text_of(const Unit& unit, int element_bits) {
  constexpr size_t most_runs = 4;
  const Extent& extent = unit.extent;
  const std::string all =
      fmt::format("r{} k{}", range(extent.first_row, extent.last_row), range(extent.first_col, extent.last_col));
  if (extent.elements > std::max(1, 128 / element_bits)) return {all + "*", UnitText::shared};
  std::vector<Run> runs;
  bool has_gaps = false;
  const PlacedElement* last = nullptr;
  for (const PlacedElement& e : unit.elements) {
    has_gaps |= last && element_bits >= 8 && e.byte - last->byte != element_bits / 8;
    last = &e;
    if (runs.empty() || !runs.back().take(e)) runs.push_back({e.row, e.row, e.col, e.col});
  }
  if (runs.size() == 1 && !has_gaps) return {all, UnitText::ordered};
  if (runs.size() > most_runs || has_gaps) return {all + "~", UnitText::scattered};
  std::string text;
  const Run* before = nullptr;
  for (const Run& run : runs) {
    const std::string rows = fmt::format("r{}", range(run.first_row, run.last_row)),
                      cols = fmt::format("k{}", range(run.first_col, run.last_col));
    const bool same_rows = before && before->first_row == run.first_row && before->last_row == run.last_row;
    const bool same_cols = before && before->first_col == run.first_col && before->last_col == run.last_col;
    text += (before ? "|" : "") + (same_rows ? cols : same_cols ? rows : rows + " " + cols);
    before = &run;
  }
  return {text, UnitText::ordered};
}

constexpr std::string_view shared_note = "* more elements than fit: several share these bytes";
constexpr std::string_view scattered_note =
    "~ not one after the other: these are the first and last row and k; --csv has every byte";

/// The lines of 128 bytes that hold an element, in order.
std::vector<int64_t> lines_of(std::span<const PlacedElement> elements) {
  std::vector<int64_t> lines;
  for (const PlacedElement& element : elements) lines.push_back(element.byte / line_bytes);
  std::ranges::sort(lines);
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return lines;
}

/// The place of the line of `byte` among `lines`.
std::optional<int64_t> place_of_line(const std::vector<int64_t>& lines, int64_t byte) {
  const auto at = std::ranges::lower_bound(lines, byte / line_bytes);
  if (at == lines.end() || *at != byte / line_bytes) return std::nullopt;
  return at - lines.begin();
}

/// The line of a picture that holds byte `byte`, if it is drawn.
std::optional<size_t> line_index(const Picture& picture, const std::vector<int64_t>& lines, int64_t byte) {
  const std::optional<int64_t> place = place_of_line(lines, byte);
  if (!place || *place >= std::ssize(picture.rows)) return std::nullopt;
  return static_cast<size_t>(*place);
}

/// An element takes a hundred bytes on its way into a picture; pictures of a million elements are unreadable.
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
  std::map<int64_t, std::vector<std::string>> lines;
  size_t width = 6;
  bool shared = false, scattered = false;
  for (const auto& [index, unit] : units_of(elements)) {
    auto& cells = lines[index / units_per_line];
    cells.resize(units_per_line, ".");
    auto [text, kind] = text_of(unit, element_bits);
    shared |= kind == UnitText::shared;
    scattered |= kind == UnitText::scattered;
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
  if (shared) picture += fmt::format("{}\n", shared_note);
  if (scattered) picture += fmt::format("{}\n", scattered_note);
  return picture;
}

Picture picture_of_smem(std::span<const PlacedElement> elements, int element_bits, int max_lines) {
  require_lines(element_bits, max_lines);
  const int per_unit = 128 / element_bits;
  Picture picture{.corner = "byte", .has_equal_columns = true};
  for (int unit = 0; unit < units_per_line; ++unit)
    picture.column_heads.push_back(fmt::format("+{} banks {}-{}", unit * unit_bytes, 4 * unit, 4 * unit + 3));
  const auto units = units_of(elements);
  // The unit's place along its contiguous direction: k where a unit holds one row, otherwise rows.
  const auto colour_of = [&](const Extent& unit) {
    return (unit.first_row == unit.last_row ? unit.first_col : unit.first_row) / per_unit % picture_colors;
  };
  // Rows go by eight in K-major, values of k in MN-major.
  const auto atom_of = [](const Extent& unit) {
    return (unit.first_row == unit.last_row ? unit.first_row : unit.first_col) / 8;
  };
  std::map<int64_t, std::vector<PictureCell>> lines;
  std::map<int, std::string> legend;
  std::map<int64_t, int> first_atoms;  // of the lines
  bool shared = false, scattered = false;
  for (const auto& [index, unit] : units) {
    auto& cells = lines[index / units_per_line];
    cells.resize(units_per_line);
    const int color = colour_of(unit.extent);
    auto [text, kind] = text_of(unit, element_bits);
    shared |= kind == UnitText::shared;
    scattered |= kind == UnitText::scattered;
    PictureCell& cell = cells[static_cast<size_t>(index % units_per_line)];
    cell = {.text = std::move(text), .color = color};
    if (const auto before = units.find(index - 1); before != units.end() && index % units_per_line != 0)
      cell.has_edge_left = atom_of(before->second.extent) != atom_of(unit.extent);
    if (const auto above = units.find(index - units_per_line); above != units.end())
      cell.has_edge_above = atom_of(above->second.extent) != atom_of(unit.extent);
    first_atoms.try_emplace(index / units_per_line, atom_of(unit.extent));
    const bool along_k = unit.extent.first_row == unit.extent.last_row;
    legend.try_emplace(color, fmt::format("unit {} of {}: {} {} ...", color, along_k ? "a row" : "a column of k",
                                          along_k ? "k" : "rows", color * per_unit));
  }
  const std::vector<PictureCell>* above = nullptr;
  int64_t line_above = 0;
  for (auto& [line, cells] : lines) {
    if (static_cast<int>(picture.rows.size()) == max_lines) {
      picture.notes.push_back(fmt::format("the first {} of {} lines of 128 bytes", max_lines, lines.size()));
      break;
    }
    // An atom ends where the whole line does, and where addresses jump.
    const bool jumps = above && (line != line_above + 1 || first_atoms.at(line) != first_atoms.at(line_above));
    for (PictureCell& cell : cells) cell.has_edge_above |= jumps;
    picture.rows.emplace_back(fmt::format("{:#x}", line * line_bytes), cells);
    above = &cells, line_above = line;
  }
  picture.notes.push_back("heavier lines: between groups of 8 rows (8 k in MN-major), and where addresses jump");
  if (shared) picture.notes.emplace_back(shared_note);
  if (scattered) picture.notes.emplace_back(scattered_note);
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
  // The strides, from the first element to where each leads.
  const SwizzleInfo& swizzle = info(matrix.descriptor.swizzle);
  const int width = swizzle.width_bytes * 8 / matrix.element_bits, atom = swizzle.rows_per_atom;
  const bool along_k = matrix.major == Major::k, plain = swizzle.bits == 0;
  const auto lines = lines_of(placed_elements(map));
  const auto add_arrow = [&](std::string_view name, int64_t bytes, int row, int col) {
    if (row >= matrix.rows || col >= matrix.cols) return;
    const int64_t from = map.place_of(0, 0).byte, to = map.place_of(row, col).byte;
    const auto from_line = line_index(picture, lines, from), to_line = line_index(picture, lines, to);
    const std::string text = fmt::format("{} {}", name, bytes);
    const auto unit_of = [](int64_t byte) { return static_cast<size_t>(byte % line_bytes / unit_bytes); };
    if (from_line && to_line) picture.arrows.push_back({*from_line, unit_of(from), *to_line, unit_of(to), text});
    else picture.notes.push_back(fmt::format("{}: to byte {:#x}, which is not drawn", text, to));
  };
  const Strides& strides = matrix.descriptor.strides;
  if (!matrix.descriptor.leading_dim_absolute) {
    const bool leading_along_k = along_k || plain;
    add_arrow("LBO", strides.leading_dim_byte_offset, leading_along_k ? 0 : width,
              leading_along_k ? (along_k ? width : atom) : 0);
    const bool stride_along_rows = along_k || plain;
    add_arrow("SBO", strides.stride_dim_byte_offset, stride_along_rows ? (along_k ? 8 : width) : 0,
              stride_along_rows ? 0 : atom);
  }
  return picture;
}

std::optional<int64_t> line_of(std::span<const PlacedElement> elements, int64_t byte) {
  return place_of_line(lines_of(elements), byte);
}

void mark_elements(Picture& picture, std::span<const PlacedElement> elements,
                   std::span<const std::pair<int, int>> marked) {
  const std::vector<int64_t> lines = lines_of(elements);
  const std::set<std::pair<int, int>> wanted(marked.begin(), marked.end());
  for (const PlacedElement& e : elements) {
    if (!wanted.contains({e.row, e.col})) continue;
    const auto line = line_index(picture, lines, e.byte);
    if (line) picture.rows[*line].second[static_cast<size_t>(e.byte % line_bytes / unit_bytes)].is_marked = true;
    picture.notes.push_back(
        fmt::format("framed: row {}, k {} at byte {:#x}{}", e.row, e.col, e.byte, line ? "" : ", which is not drawn"));
  }
}

std::string draw_fragment(const Fragment& fragment, int max_cols) {
  const int rows = fragment.threads > 32 ? 16 : fragment.rows;  // of a warp
  const int per_register = fragment.elements_per_register();
  // As many columns as stay readable: eight registers across, at least what was asked for.
  const int cols = std::min(fragment.cols, std::max(max_cols, 8 * per_register));
  // Eight registers across, so that a line fits 90 columns; the next ones below.
  std::string picture;
  for (int begin = 0; begin < cols; begin += 8 * per_register) {
    const int end = std::min(cols, begin + 8 * per_register);
    picture += begin == 0 ? "       " : "\n       ";
    for (int col = begin; col < end; col += per_register) {
      picture += fmt::format(
          " {:<9}", per_register == 1 ? fmt::format("c{}", col) : fmt::format("c{}-{}", col, col + per_register - 1));
    }
    while (picture.back() == ' ') picture.pop_back();
    picture += '\n';
    for (int row = 0; row < rows; ++row) {
      picture += fmt::format("row {:<3}", row);
      for (int col = begin; col < end; col += per_register) {
        const RegisterPlace place = place_of(fragment, row, col);
        picture += fmt::format(" {:<9}", fmt::format("T{}:r{}", place.thread, place.reg));
      }
      while (picture.back() == ' ') picture.pop_back();
      picture += '\n';
    }
  }
  if (fragment.rows > rows) picture += "rows 16-31, 32-47, 48-63: the same with threads +32, +64, +96\n";
  if (fragment.cols > cols) picture += fmt::format("columns {}-{} are not drawn\n", cols, fragment.cols - 1);
  return picture;
}

Picture picture_of_fragment(const Fragment& fragment, int max_cols, int first_row) {
  const int rows = fragment.threads > 32 ? 16 : fragment.rows, per_register = fragment.elements_per_register();
  if (first_row < 0 || first_row % 16 != 0 || first_row + rows > fragment.rows)
    throw Error({.field = "first row of the picture",
                 .seen = std::to_string(first_row),
                 .expected = fmt::format("a multiple of 16 in 0..{}", fragment.rows - rows)});
  const int cols = std::min(fragment.cols, std::max(max_cols, 8 * per_register));
  Picture picture{.corner = "row", .has_equal_columns = true};
  for (int col = 0; col < cols; col += per_register)
    picture.column_heads.push_back(per_register == 1 ? std::to_string(col)
                                                     : fmt::format("{}-{}", col, col + per_register - 1));
  for (int row = first_row; row < first_row + rows; ++row) {
    std::vector<PictureCell> cells;
    for (int col = 0; col < cols; col += per_register) {
      const RegisterPlace place = place_of(fragment, row, col);
      cells.push_back({.text = fmt::format("T{} r{}", place.thread, place.reg),
                       .color = place.thread % 32,
                       .has_edge_above = row != first_row && row % 8 == 0});
    }
    picture.rows.emplace_back(std::to_string(row), std::move(cells));
  }
  for (int hue = 0; hue < picture_colors; ++hue)
    picture.legend.emplace_back(
        hue, fmt::format("thread {0}, its tints {1}, {2}, {3} of the warp", hue, hue + 8, hue + 16, hue + 24));
  if (fragment.rows > rows)
    picture.notes.push_back(first_row == 0 ? "rows 16-31, 32-47, 48-63: the same with threads +32, +64, +96"
                                           : "every 16 rows are those of a warp: the others are the same");
  if (fragment.cols > cols) picture.notes.push_back(fmt::format("columns 0-{} of {}", cols - 1, fragment.cols));
  return picture;
}

Picture picture_of_ldst(const LdSt& move, int max_cols) {
  require_legal(move);
  constexpr int warp = 32;
  std::map<int, std::map<int, PictureCell>> cells;  // by lane and column
  std::set<int> columns;
  for (int thread = 0; thread < warp; ++thread) {
    for (int reg = 0; reg < move.registers(); ++reg) {
      for (int half = 0; half < (move.pack_16b ? 2 : 1); ++half) {
        const TmemAddress cell = move.place_of(thread, reg, half);
        cells[cell.lane][cell.column] = {
            .text = fmt::format("T{} r{}{}", thread, reg, move.pack_16b ? (half ? "h" : "l") : ""), .color = thread};
        columns.insert(cell.column);
      }
    }
  }
  Picture picture{.corner = "lane", .has_equal_columns = true};
  std::vector<int> shown;
  for (const int column : columns) {
    if (static_cast<int>(shown.size()) == std::max(1, max_cols)) break;
    shown.push_back(column);
    picture.column_heads.push_back(fmt::format("+{}", column));
  }
  for (const auto& [lane, row] : cells) {
    std::vector<PictureCell> line;
    for (const int column : shown) {
      const auto cell = row.find(column);
      line.push_back(cell == row.end() ? PictureCell{} : cell->second);
    }
    picture.rows.emplace_back(std::to_string(lane), std::move(line));
  }
  picture.notes.push_back("lanes of one warp's partition down, columns from the address across; T thread, r register");
  if (shown.size() < columns.size())
    picture.notes.push_back(fmt::format("the first {} of {} columns", shown.size(), columns.size()));
  return picture;
}

Picture picture_of_scale_image(const ScaleImage& image) {
  constexpr int lines = 32, blocks = 4, bands = 4;
  Picture picture{.title = fmt::format("scales in shared memory: {} bytes of {} rows x {} blocks", image.bytes(),
                                       image.rows, image.blocks),
                  .notes = {"CuTe of a tile, (row, block) -> byte: ((32,4),4):((16,4),1)",
                            "a line is 16 bytes, which tcgen05.cp .32x128b.warpx4 copies to one lane; R row, b block"},
                  .corner = "byte",
                  .has_equal_columns = true};
  for (int byte = 0; byte < bands * blocks; ++byte) picture.column_heads.push_back(fmt::format("+{}", byte));
  for (int line = 0; line < lines; ++line) {
    std::vector<PictureCell> cells;
    for (int byte = 0; byte < bands * blocks; ++byte) {
      const int row = line + 32 * (byte / blocks), block = byte % blocks;
      const bool is_scale = row < image.rows && block < image.blocks;
      cells.push_back({.text = is_scale ? fmt::format("R{} b{}", row, block) : "0",
                       .color = is_scale ? byte / blocks : -1,
                       .has_edge_left = byte % blocks == 0 && byte != 0});
    }
    picture.rows.emplace_back(fmt::format("{:#x}", 16 * line), std::move(cells));
  }
  for (int band = 0; band < bands; ++band)
    picture.legend.emplace_back(band,
                                fmt::format("rows {}-{}: column {} of Tensor Memory", 32 * band, 32 * band + 31, band));
  if (image.bytes() > 512)
    picture.notes.push_back(fmt::format("the first of {} tiles: blocks go first, then rows", image.bytes() / 512));
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
    }
    picture.rows.emplace_back(range(16 * block, 16 * block + 15), std::move(cells));
  }
  return picture;
}

}  // namespace bitmma
