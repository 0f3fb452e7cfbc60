// SPDX-License-Identifier: MIT
#include "image_plan.hpp"

#include <fmt/format.h>

#include <map>

#include "bitmma/core/bits.hpp"

namespace bitmma {

void ImagePlan::add(std::string_view operand, const OperandLayout& layout, SmemMatrix matrix) {
  if (layout.padding_bytes < 0 || layout.padding_bytes % 16 != 0 || layout.padding_bytes >= window_bytes) {
    violations_.push_back({.field = fmt::format("padding of {}", operand),
                           .seen = std::to_string(layout.padding_bytes),
                           .expected = fmt::format("a multiple of 16 bytes, 0..{}", window_bytes - 16),
                           .fix = "strides are stored in units of 16 bytes"});
    return;
  }
  matrix.major = layout.major;
  matrix.descriptor = {.target = target_,
                       .start_address_bytes = end_ + layout.start_bytes,
                       .strides = strides_of(layout, matrix.element_bits, matrix.rows, matrix.cols),
                       .base_offset = layout.base_offset,
                       .swizzle = layout.swizzle};
  // K = 96 has rows of 48 bytes: one that crosses the end of its 128 bytes continues in a second buffer, if legal.
  const int64_t row_bytes = int64_t{matrix.cols} * matrix.element_bits / 8;
  if (matrix.cols == 96 && layout.major == Major::k && layout.swizzle == Swizzle::b128 &&
      layout.start_bytes % 128 + row_bytes > 128) {
    matrix.descriptor.strides.leading_dim_byte_offset = round_up(end_byte(SmemMap(matrix)), alignment);
    matrix.descriptor.leading_dim_absolute = true;
  }
  if (layout.leading_dim_byte_offset || layout.stride_dim_byte_offset) require_apart(operand, SmemMap(matrix));
  matrices_.push_back(matrix);
  end_ = round_up(end_byte(SmemMap(matrix)), alignment);
}

void ImagePlan::require_apart(std::string_view operand, const SmemMap& map) {
  std::map<std::pair<int64_t, int>, std::pair<int, int>> taken;
  for (int row = 0; row < map.matrix().rows; ++row) {
    for (int col = 0; col < map.matrix().cols; ++col) {
      const SmemPlace place = map.place_of(row, col);
      const auto [other, is_new] = taken.try_emplace({place.byte, place.bit}, row, col);
      if (is_new) continue;
      const Strides& strides = map.matrix().descriptor.strides;
      violations_.push_back({.code = ViolationCode::contradiction,
                             .field = fmt::format("strides of {}", operand),
                             .seen = fmt::format("LBO {}, SBO {}: ({}, {}) and ({}, {}) both in byte {}",
                                                 strides.leading_dim_byte_offset, strides.stride_dim_byte_offset,
                                                 other->second.first, other->second.second, row, col, place.byte),
                             .expected = "strides for which no elements overlap",
                             .fix = "omit lbo and sbo to use the smallest such strides"});
      return;
    }
  }
}

void ImagePlan::require_fits() const {
  std::vector<Violation> violations = violations_;
  if (end_ > window_bytes) {
    violations.push_back({.code = ViolationCode::too_large,
                          .field = "image",
                          .seen = fmt::format("{} bytes", end_),
                          .expected = fmt::format("at most {} bytes, the reach of a descriptor", window_bytes),
                          .fix = "use less padding"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

}  // namespace bitmma
