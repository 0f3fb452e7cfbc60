// SPDX-License-Identifier: MIT
// Internal operations on matrices: uninitialised matrices, and Eigen's view of the codes.
#pragma once

#include <Eigen/Core>

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

using EigenCodes = Eigen::Array<uint32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The words as an Eigen array: one column per code, or two if the matrix is wide.
inline Eigen::Map<EigenCodes> view(Matrix& matrix) {
  return {matrix.words().data(), matrix.rows(), matrix.cols() * (matrix.is_wide() ? 2 : 1)};
}
inline Eigen::Map<const EigenCodes> view(const Matrix& matrix) {
  return {matrix.words().data(), matrix.rows(), matrix.cols() * (matrix.is_wide() ? 2 : 1)};
}

}  // namespace bitmma
