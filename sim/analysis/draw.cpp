// SPDX-License-Identifier: MIT
#include "bitmma/analysis/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bitmma/core/error.hpp"

namespace bitmma {
namespace {

using Entries = std::vector<MapEntry>;  // the entries of one cell of a picture, never empty

/// How to draw one kind of map: line and column of each entry, and the text of a cell.
struct View {
  std::string corner = {};
  std::function<std::array<int64_t, 2>(const MapEntry&)> cell_of = {};
  std::function<std::string(int64_t)> line_head = {}, column_head = {};
  std::function<std::string(const Entries&)> text = {};
  std::function<int(const Entries&)> color = {};
  std::function<int64_t(const Entries&)> group = {};            // heavier lines divide groups
  std::function<std::string(const Entries&, int)> legend = {};  // what the colour of a cell means
  int64_t all_lines = 0, all_columns = 0;                       // extents drawn even if empty; 0: only those in use
  int64_t most_lines = 32, most_columns = 16;
};

std::string range(int64_t first, int64_t last) {
  return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
}

/// "5", or "3-7": the first and the last value of an axis.
struct Extent {
  int64_t first = 0, last = 0;
  bool is_one() const { return first == last; }
  std::string text() const { return range(first, last); }
};
Extent extent_of(const Entries& entries, size_t axis) {
  const auto [least, most] = std::ranges::minmax(entries, {}, [&](const MapEntry& entry) { return entry[axis]; });
  return {least[axis], most[axis]};
}

/// Threads of a warp: eight hues in four tints.
int thread_color(int64_t thread) { return static_cast<int>(thread % (picture_colors * picture_tints)); }
std::string thread_legend(const Entries&, int color) {
  return color < picture_colors
             ? fmt::format("thread {0}, its tints {1}, {2}, {3} of the warp", color, color + 8, color + 16, color + 24)
             : "";
}

/// Rows down, columns across, one matrix below the other.
View view_of_registers(const Map& map) {
  const std::vector<size_t> own = map.element_axes();
  const size_t row = own[own.size() - 2], col = own.back(), thread = map.axis("thread");
  const int64_t rows = map.axes[row].extent, across = map.columns_per_cell;
  const bool has_matrices = own.size() == 3, has_registers = map.axes[thread + 1].extent > 1;
  const bool has_bits = map.axes[thread + 2].step() * across < 32;
  const std::string outer(map.axes[row].name), inner(map.axes[col].name);
  return {.corner = has_matrices ? fmt::format("{} {}", map.axes[own[0]].name, outer) : outer,
          .cell_of = [=](const MapEntry& e) -> std::array<int64_t, 2> {
            return {(has_matrices ? e[own[0]] * rows : 0) + e[row], e[col] / across};
          },
          .line_head =
              [=](int64_t line) {
                return has_matrices ? fmt::format("{} {}", line / rows, line % rows) : std::to_string(line);
              },
          .column_head =
              [=](int64_t column) {
                return fmt::format("{} {}", inner, range(across * column, across * (column + 1) - 1));
              },
          .text =
              [=](const Entries& cell) {
                const MapEntry& e = cell.front();
                return fmt::format("T{}{}{}", e[thread], has_registers ? fmt::format(":r{}", e[thread + 1]) : "",
                                   has_bits ? fmt::format(" b{}", e[thread + 2]) : "");
              },
          .color = [=](const Entries& cell) { return thread_color(cell.front()[thread]); },
          .group = [=](const Entries& cell) { return (has_matrices ? 100 * cell[0][own[0]] : 0) + cell[0][row] / 8; },
          .legend = thread_legend,
          .most_lines = map.axes[thread].extent > 32 ? 16 : 32,
          .most_columns = std::max<int64_t>(16, 8 * across)};
}

/// Consecutive elements along one coordinate.
struct Run {
  Extent rows = {}, cols = {};

  bool take(int64_t row, int64_t col) {
    const bool along_k = rows.is_one() && row == rows.first && col == cols.last + 1;
    const bool along_rows = cols.is_one() && col == cols.first && row == rows.last + 1;
    if (along_k) cols.last = col;
    if (along_rows) rows.last = row;
    return along_k || along_rows;
  }
};

constexpr int line_bytes = 128, unit_bytes = 16, units_per_line = line_bytes / unit_bytes;

/// The contents of 16 bytes in order; "r1 k8-15|k0-7" if that is not the matrix's order. A star means that there are
/// too many elements. A tilde means only the extent is shown, because there are too many pieces, or gaps between them.
std::string unit_text(Entries cell, int64_t element_bits) {
  constexpr size_t most_runs = 4;
  const std::string all = fmt::format("r{} k{}", extent_of(cell, 0).text(), extent_of(cell, 1).text());
  if (std::ssize(cell) > std::max<int64_t>(1, 128 / element_bits)) return all + "*";
  std::ranges::stable_sort(cell, {}, [](const MapEntry& e) { return e[2]; });
  std::vector<Run> runs;
  bool has_gaps = false;
  for (size_t i = 0; i < cell.size(); ++i) {
    const auto& [row, col, byte, bit, linear, a, b, c, d] = cell[i];
    has_gaps |= i > 0 && element_bits >= 8 && byte - cell[i - 1][2] != element_bits / 8;
    if (runs.empty() || !runs.back().take(row, col)) runs.push_back({{row, row}, {col, col}});
  }
  if (runs.size() == 1 && !has_gaps) return all;
  if (runs.size() > most_runs || has_gaps) return all + "~";
  std::string text;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string rows = fmt::format("r{}", runs[i].rows.text()), cols = fmt::format("k{}", runs[i].cols.text());
    const bool same_rows = i > 0 && runs[i - 1].rows.text() == runs[i].rows.text();
    const bool same_cols = i > 0 && runs[i - 1].cols.text() == runs[i].cols.text();
    text += (i ? "|" : "") + (same_rows ? cols : same_cols ? rows : rows + " " + cols);
  }
  return text;
}

View view_of_memory(const Map& map) {
  const int64_t bits = map.axes[2].width > 1 ? 8 * map.axes[2].width : map.axes[3].width;
  const int64_t per_unit = std::max<int64_t>(1, 128 / (map.axes[2].width > 1 ? bits : map.axes[3].step()));
  // A 16-byte unit holds part of a row (K-major) or of a column (MN-major).
  const auto is_along_k = [](const Entries& cell) { return extent_of(cell, 0).is_one(); };
  return {.corner = "byte",
          .cell_of = [](const MapEntry& e) -> std::array<int64_t, 2> {
            if (e[2] < 0)
              throw Error({.field = "byte", .seen = std::to_string(e[2]), .expected = "addresses from 0 on"});
            return {e[2] / line_bytes, e[2] % line_bytes / unit_bytes};
          },
          .line_head = [](int64_t line) { return fmt::format("{:#x}", line * line_bytes); },
          .column_head = [](int64_t unit) { return fmt::format("+{}", unit * unit_bytes); },
          .text = [=](const Entries& cell) { return unit_text(cell, bits); },
          // The unit's index along its contiguous direction.
          .color =
              [=](const Entries& cell) {
                return static_cast<int>(extent_of(cell, is_along_k(cell) ? 1 : 0).first / per_unit % picture_colors);
              },
          // Groups of eight rows in K-major, of eight k in MN-major.
          .group = [=](const Entries& cell) { return extent_of(cell, is_along_k(cell) ? 0 : 1).first / 8; },
          .legend =
              [=](const Entries& cell, int color) {
                const bool along_k = is_along_k(cell);
                return fmt::format("unit {} of {}: {} {} ...", color, along_k ? "a row" : "a column of k",
                                   along_k ? "k" : "rows", color * per_unit);
              },
          .all_columns = units_per_line,
          .most_columns = units_per_line};
}

/// Lanes down, 16 at a time.
View view_of_tensor_memory(const Map& map) {
  constexpr int band = 16, bands = tmem_lanes / band;
  const size_t cta = map.axis("cta");
  const std::string across = map.axes[1].name == "chunk" ? "chunks" : "cols";
  return {
      .corner = "cta lanes",
      .cell_of = [=](const MapEntry& e) -> std::array<int64_t, 2> {
        return {bands * e[cta] + e[cta + 1] / band, 0};
      },
      .line_head =
          [](int64_t line) {
            const int64_t lane = line % bands * band;
            return fmt::format("{} {:>7}", line / bands, range(lane, lane + band - 1));
          },
      .column_head = [](int64_t) { return "matrix rows, columns, and columns of Tensor Memory"; },
      .text =
          [=](const Entries& cell) {
            return fmt::format("rows {}, {} {} in columns {}", extent_of(cell, 0).text(), across,
                               extent_of(cell, 1).text(), extent_of(cell, cta + 2).text());
          },
      .color = [](const Entries& cell) { return static_cast<int>(extent_of(cell, 0).first / band % picture_colors); },
      .all_lines = bands* map.axes[cta].extent,
      .all_columns = 1};
}

View view_of_cells(const Map& map) {
  const MapEntry first = map.place_of({0, 0, 0}), second = map.place_of({0, 0, 1});
  const bool is_packed = first[4] != second[4];
  return {.corner = "lane",
          .cell_of = [](const MapEntry& e) -> std::array<int64_t, 2> {
            return {e[3], e[4]};
          },
          .line_head = [](int64_t lane) { return std::to_string(lane); },
          .column_head = [](int64_t column) { return fmt::format("col {}", column); },
          .text =
              [=](const Entries& cell) {
                return fmt::format("T{}:r{}{}", cell[0][0], cell[0][1], !is_packed ? "" : cell[0][2] ? "h" : "l");
              },
          .color = [](const Entries& cell) { return thread_color(cell.front()[0]); },
          .legend = thread_legend};
}

std::string band_legend(int64_t band, int64_t rows) {
  return fmt::format("rows {}", range(32 * band, std::min(32 * band + 31, rows - 1)));
}

/// Bands of 32 lanes with their columns down, the bytes of a cell across. The bands of the replicas are one line.
View view_of_scales(const Map& map) {
  const int64_t rows = map.axes[0].extent;
  const size_t replica = map.axis("replica");
  return {.corner = "lanes column",
          .cell_of = [=](const MapEntry& e) -> std::array<int64_t, 2> {
            return {(e[6] / 32 - e[replica]) * tmem_columns + e[7], e[8]};
          },
          .line_head =
              [lanes = 32 * map.axes[replica].extent](int64_t line) {
                const int64_t lane = line / tmem_columns * 32;
                return fmt::format("{} {:>3}", range(lane, lane + lanes - 1), line % tmem_columns);
              },
          .column_head = [](int64_t byte) { return fmt::format("byte {}", byte); },
          .text =
              [](const Entries& cell) {
                const Extent held = extent_of(cell, 0);
                return fmt::format("row {}..{} block {}", held.first, held.last, cell[0][1]);
              },
          .color = [](const Entries& cell) { return static_cast<int>(extent_of(cell, 0).first / 32 % picture_colors); },
          .legend = [=](const Entries& cell, int) { return band_legend(extent_of(cell, 0).first / 32, rows); },
          .all_columns = 4,
          .most_lines = 256};
}

/// The first tile: each line of 16 bytes holds four blocks of four rows.
View view_of_scale_image(const Map& map) {
  const int64_t rows = map.axes[0].extent;
  return {.corner = "byte",
          .cell_of = [](const MapEntry& e) -> std::array<int64_t, 2> {
            return {e[3] / 16, e[3] % 16 / 4};
          },
          .line_head = [](int64_t line) { return fmt::format("{:#x}", 16 * line); },
          .column_head = [](int64_t word) { return fmt::format("+{}", 4 * word); },
          .text = [](const Entries& cell) { return fmt::format("R{} b{}", cell[0][0], extent_of(cell, 1).text()); },
          .color = [](const Entries& cell) { return static_cast<int>(cell[0][0] / 32 % picture_colors); },
          .legend = [=](const Entries&, int band) { return band_legend(band, rows); },
          .all_lines = 32,
          .all_columns = 4};
}

/// The metadata of four chunks in every two bytes: a row of A and its columns.
View view_of_metadata(const Map& map) {
  const size_t k = map.axis("k"), byte = map.axis("byte");
  const int64_t chunk = map.axes[1].extent > 1 ? map.place_of({0, 1})[k] : 1;
  return {.corner = "byte",
          .cell_of = [=](const MapEntry& e) -> std::array<int64_t, 2> {
            return {e[byte] / unit_bytes, e[byte] % unit_bytes / 2};
          },
          .line_head = [](int64_t line) { return fmt::format("{:#x}", line * unit_bytes); },
          .column_head = [](int64_t word) { return fmt::format("+{}", 2 * word); },
          .text =
              [=](const Entries& cell) {
                const Extent rows = extent_of(cell, 0), cols = extent_of(cell, k);
                return fmt::format("r{} k{}", rows.text(), range(cols.first, cols.last + chunk - 1));
              },
          .color = [](const Entries& cell) { return static_cast<int>(extent_of(cell, 0).first / 8 % picture_colors); },
          .legend = [](const Entries&, int color) { return fmt::format("rows {}", range(8 * color, 8 * color + 7)); },
          .all_columns = 8,
          .most_columns = 8};
}

View view_of(const Map& map) {
  switch (map.picture) {
    case MapPicture::registers: return view_of_registers(map);
    case MapPicture::shared_memory: return view_of_memory(map);
    case MapPicture::tensor_memory: return view_of_tensor_memory(map);
    case MapPicture::cells: return view_of_cells(map);
    case MapPicture::scales: return view_of_scales(map);
    case MapPicture::scale_image: return view_of_scale_image(map);
    case MapPicture::metadata: return view_of_metadata(map);
  }
  return view_of_registers(map);
}

/// Throws Error if the picture has no room for the elements of the map.
void require_drawable(const Map& map, const PictureSize& size) {
  constexpr int64_t most = 1 << 20;
  std::vector<Violation> violations;
  std::string extents;
  for (const size_t axis : map.element_axes())
    extents += fmt::format("{}{}", extents.empty() ? "" : " x ", map.axes[axis].extent);
  int64_t left = most;
  for (const size_t axis : map.element_axes()) left = map.axes[axis].extent > 0 ? left / map.axes[axis].extent : 0;
  if (left < 1)
    violations.push_back({.code = ViolationCode::too_large,
                          .field = "picture",
                          .seen = fmt::format("{} elements", extents),
                          .expected = fmt::format("1..{}", most),
                          .fix = "a list of elements may be longer"});
  for (const auto& [name, value] :
       {std::pair("lines of the picture", size.lines), std::pair("columns", size.columns)}) {
    if (value && *value < 0)
      violations.push_back({.field = name, .seen = std::to_string(*value), .expected = "0 or more"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

/// The part of the used lines or columns that is drawn.
struct Window {
  std::vector<int64_t> keys;  // keys of all lines or columns, sorted
  int64_t first = 0, count = 0;

  Window(const std::set<int64_t>& used, int64_t all, int64_t most) {
    if (all > 0) {
      for (int64_t key = 0; key < all; ++key) keys.push_back(key);
    } else {
      keys.assign(used.begin(), used.end());
    }
    count = std::min<int64_t>(most, std::ssize(keys));
  }
  /// The drawn index of a key, if it is visible.
  std::optional<size_t> index_of(int64_t key) const {
    const int64_t index = std::ranges::lower_bound(keys, key) - keys.begin() - first;
    if (index < 0 || index >= count) return std::nullopt;
    return static_cast<size_t>(index);
  }
  /// Scrolls by whole pages to show a key.
  void show(int64_t key, int64_t most) {
    const int64_t index = std::ranges::lower_bound(keys, key) - keys.begin();
    if (most < 1) return;
    first = index / most * most;
    count = std::min<int64_t>(most, std::ssize(keys) - first);
  }
  int64_t key(size_t index) const { return keys[static_cast<size_t>(first) + index]; }
  std::string note(const std::string& unit, const std::function<std::string(int64_t)>& head) const {
    if (count == std::ssize(keys)) return "";
    return count == 0 ? fmt::format("0 of {} {}", keys.size(), unit)
                      : fmt::format("{} of {} {}: {} to {}", count, keys.size(), unit, head(key(0)),
                                    head(key(static_cast<size_t>(count) - 1)));
  }
};

/// "row 3, col 30 in thread 14, register 13, bit 0".
std::string describe(const Map& map, const MapEntry& entry) {
  std::string text;
  for (const AxisKind kind : {AxisKind::element, AxisKind::place}) {
    std::string part;
    for (size_t i = 0; i < map.axes.size(); ++i) {
      if (map.axes[i].kind == kind)
        part += fmt::format("{}{} {}", part.empty() ? "" : ", ", map.axes[i].name, entry[i]);
    }
    text += (text.empty() ? "" : " in ") + part;
  }
  return text;
}

void frame(Picture& picture, const Map& map, const View& view, const Window& lines, const Window& columns,
           std::span<const MapEntry> framed) {
  constexpr size_t most_notes = 32;
  for (size_t i = 0; i < framed.size(); ++i) {
    const auto [line, column] = view.cell_of(framed[i]);
    const auto at = lines.index_of(line), across = columns.index_of(column);
    if (at && across) picture.rows[*at].second[*across].is_marked = true;
    if (i < most_notes)
      picture.notes.push_back(
          fmt::format("framed: {}{}", describe(map, framed[i]), at && across ? "" : ", which is not drawn"));
  }
  if (framed.size() > most_notes) picture.notes.push_back(fmt::format("and {} more", framed.size() - most_notes));
}

/// Heavier lines: between groups, and above a line that does not follow its predecessor.
void add_edges(Picture& picture, const View& view, const Window& lines,
               const std::map<std::pair<size_t, size_t>, Entries>& cells) {
  for (size_t line = 0; line < picture.rows.size(); ++line) {
    const auto first_group = [&](size_t of) {
      const auto cell = cells.lower_bound({of, 0});
      return cell != cells.end() && cell->first.first == of ? std::optional(view.group(cell->second)) : std::nullopt;
    };
    const bool jumps =
        line > 0 && (lines.key(line) != lines.key(line - 1) + 1 || first_group(line) != first_group(line - 1));
    auto& row = picture.rows[line].second;
    for (size_t column = 0; column < row.size(); ++column) {
      const auto cell = cells.find({line, column});
      const auto differs = [&](size_t other_line, size_t other_column) {
        const auto other = cells.find({other_line, other_column});
        return cell != cells.end() && other != cells.end() && view.group(cell->second) != view.group(other->second);
      };
      row[column].has_edge_above = jumps || (line > 0 && differs(line - 1, column));
      row[column].has_edge_left = column > 0 && differs(line, column - 1);
    }
  }
}

void add_arrows(Picture& picture, const Map& map, const View& view, const Window& lines, const Window& columns) {
  for (const MapArrow& arrow : map.arrows) {
    const auto [from_line, from_column] = view.cell_of(map.place_of({0, 0}));
    const MapEntry end = map.place_of({arrow.row, arrow.col});
    const auto [to_line, to_column] = view.cell_of(end);
    const auto from_row = lines.index_of(from_line), from = columns.index_of(from_column);
    const auto to_row = lines.index_of(to_line), to = columns.index_of(to_column);
    if (!from_row || !from) continue;
    if (to_row && to) picture.arrows.push_back({*from_row, *from, *to_row, *to, arrow.text});
    else picture.notes.push_back(fmt::format("{}: to {}, which is not drawn", arrow.text, describe(map, end)));
  }
}

}  // namespace

Picture picture_of(const Map& map, std::span<const MapEntry> framed, const PictureSize& size) {
  require_drawable(map, size);
  const View view = view_of(map);
  std::set<int64_t> used_lines, used_columns;
  map.for_each({}, [&](const MapEntry& entry) {
    const auto [line, column] = view.cell_of(entry);
    used_lines.insert(line), used_columns.insert(column);
  });
  const int64_t most_lines = size.lines.value_or(view.most_lines);
  const int64_t most_columns =
      std::max(view.all_columns, std::max(view.most_columns, size.columns.value_or(0)) / map.columns_per_cell);
  Window lines(used_lines, view.all_lines, most_lines), columns(used_columns, view.all_columns, most_columns);
  if (!framed.empty()) {
    const auto [line, column] = view.cell_of(framed.front());
    lines.show(line, most_lines), columns.show(column, most_columns);
  }
  std::map<std::pair<size_t, size_t>, Entries> cells;
  map.for_each({}, [&](const MapEntry& entry) {
    const auto [line, column] = view.cell_of(entry);
    const auto row = lines.index_of(line), across = columns.index_of(column);
    if (row && across) cells[{*row, *across}].push_back(entry);
  });

  Picture picture{.title = map.title, .notes = map.notes, .corner = view.corner, .has_equal_columns = true};
  for (int64_t i = 0; i < columns.count; ++i)
    picture.column_heads.push_back(view.column_head(columns.key(static_cast<size_t>(i))));
  for (int64_t i = 0; i < lines.count; ++i)
    picture.rows.emplace_back(view.line_head(lines.key(static_cast<size_t>(i))),
                              std::vector<PictureCell>(picture.column_heads.size()));
  std::map<int, std::string> legend;
  std::set<char> marks;
  for (const auto& [at, entries] : cells) {
    PictureCell& cell = picture.rows[at.first].second[at.second];
    cell = {.text = view.text(entries), .color = view.color(entries)};
    marks.insert(cell.text.back());
    if (!view.legend || legend.contains(cell.color)) continue;
    if (std::string meaning = view.legend(entries, cell.color); !meaning.empty()) legend[cell.color] = meaning;
  }
  picture.legend.assign(legend.begin(), legend.end());
  if (view.group) add_edges(picture, view, lines, cells);
  for (const std::string& note : {lines.note("lines", view.line_head), columns.note("columns", view.column_head)}) {
    if (!note.empty()) picture.notes.push_back(note);
  }
  if (marks.contains('*'))
    picture.notes.emplace_back("* more elements than fit into the picture: several share these bytes");
  if (marks.contains('~'))
    picture.notes.emplace_back(
        "~ not consecutive: the picture shows the first and last row and k; --csv lists every byte");
  add_arrows(picture, map, view, lines, columns);
  frame(picture, map, view, lines, columns, framed);
  return picture;
}

}  // namespace bitmma
