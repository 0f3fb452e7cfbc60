#include "bitmma/analysis/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

constexpr int char_width = 7, line_height = 18, cell_height = 24, padding = 8, margin = 16;

/// Backgrounds that dark text reads well on, told apart also without colour vision by their brightness.
constexpr std::array<std::string_view, picture_colors> palette{"#9ecae9", "#ffbf79", "#88d27a", "#f2cf5b",
                                                               "#b8a0dc", "#ff9d98", "#83bcb6", "#d8b5a5"};

/// Text of an element. XML has no control characters, however they are written, and of Unicode not U+FFFE and U+FFFF.
std::string escaped(std::string_view text) {
  std::string visible = printable(text), result;
  for (const std::string_view not_in_xml : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (size_t at = 0; (at = visible.find(not_in_xml, at)) != std::string::npos;) visible[at + 2] = '\xBD';  // U+FFFD
  }
  for (const char c : visible) {
    if (c == '&') result += "&amp;";
    else if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else result += c;
  }
  return result;
}

int width_of(std::string_view text) {
  constexpr size_t most_characters = 10000;
  return static_cast<int>(std::min(text.size(), most_characters)) * char_width;
}

}  // namespace

std::string to_svg(const Picture& picture) {
  const size_t columns = picture.column_heads.size();
  int head_width = width_of(picture.corner);
  for (const auto& [head, cells] : picture.rows) head_width = std::max(head_width, width_of(head));
  head_width += 2 * padding;
  std::vector<int> widths(columns);
  for (size_t i = 0; i < columns; ++i) {
    widths[i] = width_of(picture.column_heads[i]);
    for (const auto& [head, cells] : picture.rows) {
      if (i < cells.size()) widths[i] = std::max(widths[i], width_of(cells[i].text));
    }
    widths[i] += 2 * padding;
  }
  int width = head_width;
  for (const int one : widths) width += one;
  int text_width = width_of(picture.title) * 9 / 7;
  for (const std::string& note : picture.notes) text_width = std::max(text_width, width_of(note));
  for (const auto& [color, text] : picture.legend) text_width = std::max(text_width, width_of(text) + 30);
  width = std::max(width, text_width) + 2 * margin;
  const int top = margin + 24 + line_height * static_cast<int>(picture.notes.size()) + 8;
  const int table_height = cell_height * (static_cast<int>(picture.rows.size()) + 1);
  const int height = top + table_height + 16 + line_height * static_cast<int>(picture.legend.size()) + margin;

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"11\">\n"
      "<style>\n"
      "  .page {{ fill: #ffffff; }} .ink {{ fill: #1a1a1a; }} .soft {{ fill: #555555; }} .line {{ stroke: #666666; "
      "fill: none; }} .empty {{ fill: #f2f2f2; }} .on {{ fill: #101010; }}\n"
      "  @media (prefers-color-scheme: dark) {{ .page {{ fill: #1b1b1d; }} .ink {{ fill: #e8e8e8; }} .soft {{ fill: "
      "#b0b0b0; }} .line {{ stroke: #8a8a8a; }} .empty {{ fill: #2a2a2d; }} }}\n"
      "</style>\n"
      "<title>{2}</title>\n"
      "<rect class=\"page\" width=\"{0}\" height=\"{1}\"/>\n"
      "<text class=\"ink\" x=\"{3}\" y=\"{4}\" font-size=\"14\" font-weight=\"bold\">{2}</text>\n",
      width, height, escaped(picture.title), margin, margin + 12);
  int y = margin + 12 + line_height + 2;
  for (const std::string& note : picture.notes) {
    svg += fmt::format("<text class=\"soft\" x=\"{}\" y=\"{}\">{}</text>\n", margin, y, escaped(note));
    y += line_height;
  }
  const auto text_at = [&](std::string_view style, int x, int cell_width, int row_top, std::string_view text) {
    return fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", style,
                       x + cell_width / 2, row_top + 16, escaped(text));
  };
  svg += text_at("soft", margin, head_width, top, picture.corner);
  int x = margin + head_width;
  for (size_t i = 0; i < columns; ++i) {
    svg += text_at("soft", x, widths[i], top, picture.column_heads[i]);
    x += widths[i];
  }
  y = top + cell_height;
  for (const auto& [head, cells] : picture.rows) {
    svg += text_at("soft", margin, head_width, y, head);
    x = margin + head_width;
    for (size_t i = 0; i < columns; ++i) {
      const PictureCell cell = i < cells.size() ? cells[i] : PictureCell{};
      const std::string fill =
          cell.color < 0 ? "class=\"empty\""
                         : fmt::format("fill=\"{}\"", palette[static_cast<size_t>(cell.color) % palette.size()]);
      svg += fmt::format(
          "<rect {} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/><rect class=\"line\" x=\"{}\" y=\"{}\" width=\"{}\" "
          "height=\"{}\"/>\n",
          fill, x, y, widths[i], cell_height, x, y, widths[i], cell_height);
      if (!cell.text.empty()) svg += text_at(cell.color < 0 ? "soft" : "on", x, widths[i], y, cell.text);
      x += widths[i];
    }
    y += cell_height;
  }
  y += 12;
  for (const auto& [color, text] : picture.legend) {
    svg += fmt::format(
        "<rect fill=\"{}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"12\"/><text class=\"ink\" x=\"{}\" "
        "y=\"{}\">{}</text>\n",
        palette[static_cast<size_t>(color) % palette.size()], margin, y, margin + 22, y + 10, escaped(text));
    y += line_height;
  }
  return svg + "</svg>\n";
}

}  // namespace bitmma
