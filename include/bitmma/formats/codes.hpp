// SPDX-License-Identifier: MIT
// Codes in the memory of other programs: one code per element of 1, 2, 4 or 8 bytes, with any strides.
//
//   format   f16, bf16   e4m3 .. e2m1, s8, s4, b1   tf32, f32, s32   f64
//   bytes    2           1                          4                8
//
// Element (row, col) of a view is at data + row * row_stride + col * col_stride.
// A format narrower than its bytes uses the lowest bits; the others are ignored on input, and written as 0. For b1
// every non-zero byte counts as 1.
#pragma once

#include <cstdint>

#include "bitmma/formats/matrix.hpp"

namespace bitmma {

/// Bytes per code: 1, 2, 4 or 8.
constexpr int code_bytes(Format format) {
  const int bits = info(format).bits;
  return bits <= 8 ? 1 : bits / 8;
}

/// A matrix in the caller's memory. Strides are in bytes, and may be negative or 0.
struct CodeView {
  const void* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;
};

/// Reads the codes of the view into all of `to`; its elements have code_bytes(to.format()) bytes.
void read_codes(const CodeView& from, Matrix& to);
/// The same, as a new matrix. Throws Error if an extent is negative.
Matrix matrix_of(Format format, int rows, int cols, const CodeView& from);

/// Writes all codes row by row, without gaps: size() * code_bytes(format()) bytes.
void write_codes(const Matrix& from, void* to);

}  // namespace bitmma
