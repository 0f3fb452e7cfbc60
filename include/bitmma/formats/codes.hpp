// SPDX-License-Identifier: MIT
// Codes where other programs keep them: one code an element of 1, 2, 4 or 8 bytes, with any strides.
//
//   format   f16, bf16   e4m3 .. e2m1, s8, s4, b1   tf32, f32, s32   f64
//   bytes    2           1                          4                8
//
// Element (row, col) of a view is at data + row * row_stride + col * col_stride.
// A format of fewer bits than its bytes lies in the lowest ones; the others are ignored, and written as 0. Of b1 every
// byte that is not 0 counts as 1.
#pragma once

#include <cstdint>

#include "bitmma/formats/matrix.hpp"

namespace bitmma {

/// Bytes that hold one code: 1, 2, 4 or 8.
constexpr int code_bytes(Format format) {
  const int bits = info(format).bits;
  return bits <= 8 ? 1 : bits / 8;
}

/// A matrix in memory of the caller. Strides are in bytes, and may be negative or 0.
struct CodeView {
  const void* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;
};

/// Writes the codes of the view over all of `to`, elements of code_bytes(to.format()) bytes.
void read_codes(const CodeView& from, Matrix& to);
/// The same as a new matrix. Throws Error when an extent is negative.
Matrix matrix_of(Format format, int rows, int cols, const CodeView& from);

/// Writes all codes row by row, without gaps: size() * code_bytes(format()) bytes.
void write_codes(const Matrix& from, void* to);

}  // namespace bitmma
