// SPDX-License-Identifier: MIT
#include "bitmma/layout/canonical.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"

namespace bitmma {
namespace {

/// Checks that no size or stride makes the code below divide by zero or overflow.
void require_sound(const SwizzleInfo& swizzle, std::initializer_list<int64_t> bytes, int element_bits, int rows,
                   int cols) {
  constexpr int64_t most_bytes = int64_t{1} << 40;
  constexpr int most_extent = 1 << 20;
  std::vector<Violation> violations;
  const auto require = [&](bool holds, std::string_view field, int64_t seen, std::string_view expected) {
    if (holds) return;
    violations.push_back(
        {.field = std::string(field), .seen = std::to_string(seen), .expected = std::string(expected)});
  };
  require(element_bits >= 1 && element_bits <= 128, "element bits", element_bits, "1..128");
  require(rows >= 0 && rows <= most_extent, "rows", rows, "0..1048576");
  require(cols >= 0 && cols <= most_extent, "columns", cols, "0..1048576");
  require(swizzle.width_bytes >= 16 && swizzle.width_bytes <= 256, "swizzle", swizzle.width_bytes,
          "16..256 bytes wide");
  require(swizzle.rows_per_atom >= 1 && swizzle.rows_per_atom <= 8, "swizzle", swizzle.rows_per_atom,
          "1..8 rows per atom");
  for (const int64_t byte : bytes) require(byte >= 0 && byte <= most_bytes, "stride or padding", byte, "0..2^40 bytes");
  if (!violations.empty()) throw Error(std::move(violations));
}

}  // namespace

Layout canonical_layout(Major major, const SwizzleInfo& swizzle, const Strides& strides, int element_bits, int rows,
                        int cols) {
  require_sound(swizzle, {strides.leading_dim_byte_offset, strides.stride_dim_byte_offset}, element_bits, rows, cols);
  const int64_t unit = 128 / element_bits;         // T: elements in 16 bytes
  const int64_t width = swizzle.width_bytes / 16;  // W: 16-byte units in a row of the pattern
  const int64_t rows_per_atom = swizzle.rows_per_atom;
  const auto elements = [&](int64_t bytes) { return bytes * 8 / element_bits; };
  const int64_t leading = elements(strides.leading_dim_byte_offset);
  const int64_t stride = elements(strides.stride_dim_byte_offset);
  if (major == Major::k) {
    const int64_t unit_stride = swizzle.bits == 0 ? leading : unit;
    return {.row = {{8, width * unit}, {ceil_div(rows, 8), stride}},
            .col = {{unit, 1}, {ceil_div(cols, unit), unit_stride}}};
  }
  const int64_t row_stride = swizzle.bits == 0 ? stride : leading;
  const int64_t col_stride = swizzle.bits == 0 ? leading : stride;
  return {.row = {{unit, 1}, {width, unit}, {ceil_div(rows, unit * width), row_stride}},
          .col = {{rows_per_atom, width * unit}, {ceil_div(cols, rows_per_atom), col_stride}}};
}

Layout hardware_layout(Major major, const SwizzleInfo& swizzle, const Strides& strides, int element_bits, int rows,
                       int cols) {
  Layout layout = canonical_layout(major, swizzle, strides, element_bits, rows, cols);
  if (!is_wider_than_swizzle(major, swizzle, element_bits, cols)) return layout;
  const int64_t unit = 128 / element_bits, width = swizzle.width_bytes / 16;
  layout.col = {
      {unit, 1}, {width, unit}, {ceil_div(cols, unit * width), strides.leading_dim_byte_offset * 8 / element_bits}};
  return layout;
}

Strides minimal_strides(Major major, const SwizzleInfo& swizzle, int element_bits, int rows, int cols,
                        int64_t padding_bytes) {
  require_sound(swizzle, {padding_bytes}, element_bits, rows, cols);
  const int64_t atom_bytes = int64_t{swizzle.width_bytes} * (major == Major::k ? 8 : swizzle.rows_per_atom);
  const int64_t col_bytes = ceil_div(int64_t{cols} * element_bits, 8);
  const int64_t row_bytes = ceil_div(int64_t{rows} * element_bits, 8);
  if (major == Major::k) {
    if (swizzle.bits != 0) {
      const int64_t stride = atom_bytes + padding_bytes;
      const bool wider = is_wider_than_swizzle(major, swizzle, element_bits, cols);
      return {.leading_dim_byte_offset = wider ? stride * ceil_div(rows, 8) + padding_bytes : 16,
              .stride_dim_byte_offset = stride};
    }
    const int64_t leading = 128 + padding_bytes;
    return {.leading_dim_byte_offset = leading,
            .stride_dim_byte_offset = leading * ceil_div(col_bytes, 16) + padding_bytes};
  }
  const int64_t along_rows = atom_bytes + padding_bytes;
  const int64_t along_cols = along_rows * ceil_div(row_bytes, swizzle.width_bytes) + padding_bytes;
  if (swizzle.bits == 0) return {.leading_dim_byte_offset = along_cols, .stride_dim_byte_offset = along_rows};
  return {.leading_dim_byte_offset = along_rows, .stride_dim_byte_offset = along_cols};
}

bool is_wider_than_swizzle(Major major, const SwizzleInfo& swizzle, int element_bits, int cols) {
  return major == Major::k && swizzle.bits != 0 && int64_t{cols} * element_bits > 8 * swizzle.width_bytes;
}

}  // namespace bitmma
