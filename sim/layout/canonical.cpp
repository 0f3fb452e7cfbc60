#include "bitmma/layout/canonical.hpp"

#include <algorithm>

namespace bitmma {
namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

Layout canonical_layout(Major major, const SwizzleInfo& swizzle, const Strides& strides, int element_bits, int rows,
                        int cols) {
  const int64_t unit = 128 / element_bits;            // T: elements in 16 bytes
  const int64_t width = swizzle.width_bytes / 16;     // W: 16-byte units in a row of the pattern
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

Strides minimal_strides(Major major, const SwizzleInfo& swizzle, int element_bits, int rows, int cols,
                        int64_t padding_bytes) {
  const int64_t atom_bytes = int64_t{swizzle.width_bytes} * (major == Major::k ? 8 : swizzle.rows_per_atom);
  const int64_t col_bytes = ceil_div(int64_t{cols} * element_bits, 8);
  const int64_t row_bytes = ceil_div(int64_t{rows} * element_bits, 8);
  if (major == Major::k) {
    if (swizzle.bits != 0) return {.leading_dim_byte_offset = 16, .stride_dim_byte_offset = atom_bytes + padding_bytes};
    const int64_t leading = 128 + padding_bytes;
    return {.leading_dim_byte_offset = leading,
            .stride_dim_byte_offset = leading * ceil_div(col_bytes, 16) + padding_bytes};
  }
  const int64_t along_rows = atom_bytes + padding_bytes;
  const int64_t along_cols = along_rows * ceil_div(row_bytes, swizzle.width_bytes) + padding_bytes;
  if (swizzle.bits == 0) return {.leading_dim_byte_offset = along_cols, .stride_dim_byte_offset = along_rows};
  return {.leading_dim_byte_offset = along_rows, .stride_dim_byte_offset = along_cols};
}

bool fits_one_to_one(Major major, const SwizzleInfo& swizzle, int element_bits, int cols) {
  return major == Major::mn || swizzle.bits == 0 || int64_t{cols} * element_bits <= 8 * swizzle.width_bytes;
}

}  // namespace bitmma
