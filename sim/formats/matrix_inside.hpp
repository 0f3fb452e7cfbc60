// SPDX-License-Identifier: MIT
// Internal operations on matrices.
#pragma once

#include <span>

#include "bitmma/formats/matrix.hpp"

namespace bitmma {

struct MatrixAccess {
  static Matrix unfilled(Format format, int rows, int cols) { return Matrix(format, rows, cols, Matrix::Unfilled{}); }
};

/// Makes an uninitialised matrix; the caller must write every code.
inline Matrix unfilled_matrix(Format format, int rows, int cols) { return MatrixAccess::unfilled(format, rows, cols); }

/// Row i is row rows[i]; column j is column cols[j]. These functions do not check the indices.
Matrix picked_rows(const Matrix& matrix, std::span<const int> rows);
Matrix picked_cols(const Matrix& matrix, std::span<const int> cols);

/// The block, extended with zeros after its last row and column.
Matrix filled_up(Matrix block, int rows, int cols);

}  // namespace bitmma
