// SPDX-License-Identifier: MIT
// Pictures for documents and reviews: tables of coloured cells as SVG, readable on light and dark backgrounds.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

struct PictureCell {
  std::string text = {};
  int color = -1;               // 8 * tint + hue; -1 for an empty cell
  bool is_marked = false;       // framed
  bool has_edge_above = false;  // heavier lines at the start of a group
  bool has_edge_left = false;
};

/// An arrow between two cells, labelled with the distance. Arrows within a row run above the table, others beside
/// it.
struct PictureArrow {
  std::size_t from_row = 0, from_column = 0, to_row = 0, to_column = 0;
  std::string text = {};
};

struct [[nodiscard]] Picture {
  std::string title = {};
  std::vector<std::string> notes = {};  // lines below the title: CuTe notation, orientation, source
  std::string corner = {};              // heading of the row heads
  std::vector<std::string> column_heads = {};
  std::vector<std::pair<std::string, std::vector<PictureCell>>> rows = {};
  std::vector<std::pair<int, std::string>> legend = {};  // a colour and its meaning
  std::vector<PictureArrow> arrows = {};
  bool has_equal_columns = false;
};

/// The number of hues, and of tints per hue.
inline constexpr int picture_colors = 8, picture_tints = 4;

/// The picture as a standalone SVG document.
std::string to_svg(const Picture& picture);

/// The picture as text for a terminal: title, notes and table, eight columns at a time.
std::string to_text(const Picture& picture);

}  // namespace bitmma
