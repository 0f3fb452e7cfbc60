// SPDX-License-Identifier: MIT
#include "bitmma/memory/tma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace bitmma {
namespace {

constexpr std::string_view tma_source = "CUDA Driver API, cuTensorMapEncodeTiled";

int64_t inner_extent(const TmaTile& tile) { return tile.major == Major::k ? tile.cols : tile.rows; }
int64_t outer_extent(const TmaTile& tile) { return tile.major == Major::k ? tile.rows : tile.cols; }

}  // namespace

TmaTile checked(TmaTile tile) {
  constexpr int64_t most_box = 256, most = 65536;
  std::vector<Violation> violations;
  const auto refuse = [&](std::string field, std::string seen, std::string expected) {
    violations.push_back({.field = std::move(field),
                          .seen = std::move(seen),
                          .expected = std::move(expected),
                          .source = std::string(tma_source)});
  };
  constexpr std::array widths{4, 8, 16, 32, 64};
  if (std::ranges::find(widths, tile.element_bits) == widths.end())
    refuse("element bits", std::to_string(tile.element_bits), "4, 8, 16, 32 or 64");
  for (const int64_t extent : {tile.rows, tile.cols}) {
    if (extent < 1 || extent > most) refuse("extent", std::to_string(extent), "1..65536");
  }
  if (tile.start_bytes < 0 || tile.start_bytes % 128 != 0 || tile.start_bytes > int64_t{1} << 32)
    refuse("start", std::to_string(tile.start_bytes), "a multiple of 128 bytes, as TMA requires");
  if (!violations.empty()) throw Error(std::move(violations));
  const SwizzleInfo& mode = info(tile.swizzle);
  const int64_t width = int64_t{mode.width_bytes} * 8 / tile.element_bits;
  if (tile.box_inner == 0) tile.box_inner = mode.bits == 0 ? std::min(inner_extent(tile), most_box) : width;
  if (tile.box_outer == 0) tile.box_outer = outer_extent(tile);
  if (tile.box_inner < 1 || tile.box_inner > most_box || tile.box_inner * tile.element_bits % 128 != 0)
    refuse("inner box", std::to_string(tile.box_inner), "1..256 elements that fill a multiple of 16 bytes");
  else if (mode.bits != 0 && tile.box_inner != width)
    refuse(
        "inner box", fmt::format("{} elements of {} bits", tile.box_inner, tile.element_bits),
        fmt::format(
            "{}: the {} bytes of the swizzle; wider boxes are illegal, and the pattern of narrower boxes is not known",
            width, mode.width_bytes));
  if (tile.box_outer < 1 || tile.box_outer > most) refuse("outer box", std::to_string(tile.box_outer), "1..65536");
  if (!violations.empty()) throw Error(std::move(violations));
  return tile;
}

int64_t byte_of(const TmaTile& tile, int64_t row, int64_t col) {
  const int64_t inner = tile.major == Major::k ? col : row, outer = tile.major == Major::k ? row : col;
  const int64_t box = inner / tile.box_inner * tile.box_inner * tile.box_outer;
  const int64_t elements = box + outer * tile.box_inner + inner % tile.box_inner;
  return apply(info(tile.swizzle), tile.start_bytes + elements * tile.element_bits / 8);
}

Map map_of(const TmaTile& unchecked) {
  const TmaTile tile = checked(unchecked);
  Map map{.title = fmt::format("what TMA writes with swizzle {}: {} x {} elements of {} bits, rows of a box along {}",
                               info(tile.swizzle).name, tile.rows, tile.cols, tile.element_bits,
                               tile.major == Major::k ? "K" : "M or N"),
          .picture = MapPicture::shared_memory};
  map.axes = {{"row", AxisKind::element, tile.rows},
              {"col", AxisKind::element, tile.cols},
              {"byte", AxisKind::place, 0, std::max(1, tile.element_bits / 8)},
              {"bit", AxisKind::place, 8, std::min(tile.element_bits, 8)}};
  map.locate = [tile](MapEntry& entry) {
    const int64_t inner = tile.major == Major::k ? entry[1] : entry[0];
    entry[2] = byte_of(tile, entry[0], entry[1]), entry[3] = inner * tile.element_bits % 8;
  };
  const int64_t boxes = (inner_extent(tile) + tile.box_inner - 1) / tile.box_inner;
  map.notes.push_back(fmt::format("box {} x {}{}", tile.box_inner, tile.box_outer,
                                  boxes == 1 ? "" : fmt::format(", {} boxes one after the other", boxes)));
  return map;
}

PlaceDifference difference_of(const SmemMatrix& matrix, const std::function<int64_t(int, int)>& byte_of) {
  const SmemMap map(matrix);
  PlaceDifference difference;
  for (int row = 0; row < matrix.rows; ++row) {
    for (int col = 0; col < matrix.cols; ++col) {
      const int64_t byte = byte_of(row, col), by_descriptor = map.place_of(row, col).byte;
      if (byte == by_descriptor) continue;
      ++difference.elements;
      if (!difference.first) difference.first = PlaceDifference::Element{row, col, byte, by_descriptor};
    }
  }
  return difference;
}

PlaceDifference difference_of(const TmaTile& box, const SmemMatrix& matrix) {
  const int64_t start = matrix.descriptor.start_address_bytes;
  TmaTile tile = box;
  tile.start_bytes = start / 128 * 128;
  tile = checked(tile);
  const int64_t skipped = start % 128 * 8 / matrix.element_bits;
  const bool is_k = matrix.major == Major::k;
  return difference_of(
      matrix, [&](int row, int col) { return byte_of(tile, row + (is_k ? 0 : skipped), col + (is_k ? skipped : 0)); });
}

}  // namespace bitmma
