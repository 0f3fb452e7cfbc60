// Pictures for documents and reviews: tables of coloured cells as SVG, readable on light and dark backgrounds.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bitmma {

struct PictureCell {
  std::string text = {};
  int color = -1;  // one of eight, or -1 for an empty cell
};

struct Picture {
  std::string title = {};
  std::vector<std::string> notes = {};  // below the title: CuTe notation, orientation, source
  std::string corner = {};              // heads the row heads
  std::vector<std::string> column_heads = {};
  std::vector<std::pair<std::string, std::vector<PictureCell>>> rows = {};
  std::vector<std::pair<int, std::string>> legend = {};  // colour and what it means
};

inline constexpr int picture_colors = 8;

/// The picture as a standalone SVG document.
std::string to_svg(const Picture& picture);

}  // namespace bitmma
