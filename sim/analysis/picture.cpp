// SPDX-License-Identifier: MIT
#include "bitmma/analysis/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

constexpr int char_width = 7, line_height = 18, cell_height = 24, padding = 8, margin = 16;

/// Backgrounds for dark text; their brightness differs too, for readers with impaired colour vision.
constexpr std::array<uint32_t, picture_colors> palette{0x9ecae9, 0xffbf79, 0x88d27a, 0xf2cf5b,
                                                       0xb8a0dc, 0xff9d98, 0x83bcb6, 0xd8b5a5};

/// A hue unchanged, lighter, darker and greyer.
std::string color_of(int color) {
  constexpr std::array<std::pair<uint32_t, int>, picture_tints> mixed_with{
      {{0x000000, 0}, {0xffffff, 55}, {0x606060, 30}, {0xc8c8c8, 60}}};  // a colour and its percentage
  const auto number = static_cast<size_t>(color);
  const uint32_t hue = palette[number % palette.size()];
  const auto [other, percent] = mixed_with[number / palette.size() % mixed_with.size()];
  uint32_t mixed = 0;
  for (int shift = 0; shift < 24; shift += 8) {
    const auto part = [&](uint32_t rgb) { return rgb >> shift & 0xff; };
    const auto share = static_cast<uint32_t>(percent);
    mixed |= (part(hue) * (100 - share) + part(other) * share) / 100 << shift;
  }
  return fmt::format("#{:06x}", mixed);
}

/// Text of an element. XML does not allow control characters, even escaped ones, nor U+FFFE and U+FFFF.
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
  if (picture.has_equal_columns && columns > 0) std::ranges::fill(widths, *std::ranges::max_element(widths));
  const auto is_drawn = [&](const PictureArrow& arrow) {
    return std::max(arrow.from_row, arrow.to_row) < picture.rows.size() &&
           std::max(arrow.from_column, arrow.to_column) < columns;
  };
  // Each arrow beside the table takes a lane; each arrow above it takes a line.
  constexpr int arrow_lane = 26;
  int beside_width = 0, lines_above = 0;
  for (const PictureArrow& arrow : picture.arrows) {
    if (!is_drawn(arrow)) continue;
    if (arrow.from_row == arrow.to_row) ++lines_above;
    else beside_width += arrow_lane + width_of(arrow.text);
  }
  int width = head_width + beside_width;
  for (const int column_width : widths) width += column_width;
  int text_width = width_of(picture.title) * 9 / 7;
  for (const std::string& note : picture.notes) text_width = std::max(text_width, width_of(note));
  for (const auto& [color, text] : picture.legend) text_width = std::max(text_width, width_of(text) + 30);
  width = std::max(width, text_width) + 2 * margin;
  const int arrows_top = margin + 24 + line_height * static_cast<int>(picture.notes.size()) + 8;
  const int top = arrows_top + line_height * lines_above;
  const int table_height = cell_height * (static_cast<int>(picture.rows.size()) + 1);
  const int height = top + table_height + 16 + line_height * static_cast<int>(picture.legend.size()) + margin;

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"11\">\n"
      "<style>\n"
      "  .page {{ fill: #ffffff; }} .ink {{ fill: #1a1a1a; }} .soft {{ fill: #555555; }} .line {{ stroke: #666666; "
      "fill: none; }} .empty {{ fill: #f2f2f2; }} .on {{ fill: #101010; }} .edge {{ stroke: #1a1a1a; stroke-width: "
      "2.5; }} .mark {{ stroke: "
      "#d4001a; stroke-width: 3; fill: none; }} .arrow {{ stroke: #1a1a1a; stroke-width: 1.5; fill: none; }} .tip {{ "
      "fill: #1a1a1a; }}\n"
      "  @media (prefers-color-scheme: dark) {{ .page {{ fill: #1b1b1d; }} .ink {{ fill: #e8e8e8; }} .soft {{ fill: "
      "#b0b0b0; }} .line {{ stroke: #8a8a8a; }} .empty {{ fill: #2a2a2d; }} .edge, .arrow {{ stroke: #f4f4f4; }} .tip "
      "{{ fill: "
      "#f4f4f4; }} }}\n"
      "</style>\n"
      "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" "
      "orient=\"auto-start-reverse\"><path class=\"tip\" d=\"M0 0 L8 4 L0 8 z\"/></marker></defs>\n"
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
  std::string edges, marks;  // drawn over the cells
  for (const auto& [head, cells] : picture.rows) {
    svg += text_at("soft", margin, head_width, y, head);
    x = margin + head_width;
    for (size_t i = 0; i < columns; ++i) {
      const PictureCell cell = i < cells.size() ? cells[i] : PictureCell{};
      const std::string fill = cell.color < 0 ? "class=\"empty\"" : fmt::format("fill=\"{}\"", color_of(cell.color));
      svg += fmt::format(
          "<rect {} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/><rect class=\"line\" x=\"{}\" y=\"{}\" width=\"{}\" "
          "height=\"{}\"/>\n",
          fill, x, y, widths[i], cell_height, x, y, widths[i], cell_height);
      if (!cell.text.empty()) svg += text_at(cell.color < 0 ? "soft" : "on", x, widths[i], y, cell.text);
      const auto edge = [&](int to_x, int to_y) {
        edges += fmt::format("<line class=\"edge\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", x, y, to_x, to_y);
      };
      if (cell.has_edge_above) edge(x + widths[i], y);
      if (cell.has_edge_left) edge(x, y + cell_height);
      if (cell.is_marked)
        marks += fmt::format("<rect class=\"mark\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", x + 1, y + 1,
                             widths[i] - 2, cell_height - 2);
      x += widths[i];
    }
    y += cell_height;
  }
  svg += edges + marks;
  const auto middle_of = [&](size_t column) {
    int middle = margin + head_width + widths[column] / 2;
    for (size_t i = 0; i < column; ++i) middle += widths[i];
    return middle;
  };
  const auto row_middle = [&](size_t row) { return top + cell_height * (static_cast<int>(row) + 1) + cell_height / 2; };
  int lane = x, line = arrows_top;
  for (const PictureArrow& arrow : picture.arrows) {
    if (!is_drawn(arrow)) continue;
    std::string path, label;
    if (arrow.from_row == arrow.to_row) {
      const int from = middle_of(arrow.from_column), to = middle_of(arrow.to_column);
      path = fmt::format("M{0} {2} V{1} H{3} V{2}", from, line + 6, line + line_height - 2, to);
      label = fmt::format("<text class=\"ink\" x=\"{}\" y=\"{}\">{}</text>\n", std::max(from, to) + 8, line + 10,
                          escaped(arrow.text));
      line += line_height;
    } else {
      const int from = row_middle(arrow.from_row), to = row_middle(arrow.to_row), turn = lane + arrow_lane - 12;
      path = fmt::format("M{0} {1} H{2} V{3} H{0}", lane + 3, from, turn, to);
      label = fmt::format("<text class=\"ink\" x=\"{}\" y=\"{}\">{}</text>\n", turn + 4, (from + to) / 2 + 4,
                          escaped(arrow.text));
      lane += arrow_lane + width_of(arrow.text);
    }
    svg += fmt::format("<path class=\"arrow\" d=\"{}\" marker-end=\"url(#head)\"/>\n{}", path, label);
  }
  y += 12;
  for (const auto& [color, text] : picture.legend) {
    svg += fmt::format(
        "<rect fill=\"{}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"12\"/><text class=\"ink\" x=\"{}\" "
        "y=\"{}\">{}</text>\n",
        color_of(color), margin, y, margin + 22, y + 10, escaped(text));
    y += line_height;
  }
  return svg + "</svg>\n";
}

std::string to_text(const Picture& picture) {
  constexpr size_t columns_at_a_time = 8;
  std::string text = picture.title.empty() ? "" : picture.title + "\n";
  for (const std::string& note : picture.notes) text += note + "\n";
  size_t head_width = picture.corner.size();
  for (const auto& [head, cells] : picture.rows) head_width = std::max(head_width, head.size());
  for (size_t begin = 0; begin < picture.column_heads.size(); begin += columns_at_a_time) {
    const size_t end = std::min(picture.column_heads.size(), begin + columns_at_a_time);
    const auto cell_text = [&](const std::vector<PictureCell>& cells, size_t column) -> std::string {
      return column >= cells.size() || cells[column].text.empty() ? "." : cells[column].text;
    };
    std::vector<size_t> widths;
    for (size_t i = begin; i < end; ++i) {
      widths.push_back(picture.column_heads[i].size());
      for (const auto& [head, cells] : picture.rows)
        widths.back() = std::max(widths.back(), cell_text(cells, i).size());
    }
    const auto add_line = [&](const std::string& head, const auto& text_of) {
      std::string line = fmt::format("{:>{}}", head, head_width);
      for (size_t i = begin; i < end; ++i) line += fmt::format("  {:<{}}", text_of(i), widths[i - begin]);
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    };
    text += "\n";
    add_line(picture.corner, [&](size_t i) { return picture.column_heads[i]; });
    for (const auto& [head, cells] : picture.rows) add_line(head, [&](size_t i) { return cell_text(cells, i); });
  }
  return text;
}

}  // namespace bitmma
