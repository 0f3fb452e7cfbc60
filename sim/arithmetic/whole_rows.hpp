// SPDX-License-Identifier: MIT
// Matrices for the hot loops: in rows of whole vectors, for any N.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "../formats/matrix_inside.hpp"
#include "kernels/kernels.hpp"

namespace bitmma {

/// What a loop reads of a decoded operand, whose arrays have these names.
template <typename Decoded>
kernels::Numbers numbers_of(const Decoded& decoded) {
  return {.pair = decoded.pair.data(),
          .exponent = decoded.exponent.data(),
          .narrow_exponent = decoded.narrow_exponent.data(),
          .negative = decoded.negative.data(),
          .stride = decoded.stride};
}

/// Codes in rows of whole vectors: the matrix itself if it has such rows, otherwise a copy. Rows are padded with zeros.
class WholeRows {
 public:
  /// No matrix: codes() is nullptr.
  WholeRows() = default;
  WholeRows(const Matrix& matrix, int multiple)
      : stride_(kernels::round_up(matrix.cols(), multiple)), codes_(matrix.words().data()) {
    if (stride_ == matrix.cols()) return;
    copy_.assign(static_cast<size_t>(matrix.rows()) * stride_, 0);
    for (int row = 0; row < matrix.rows(); ++row)
      std::ranges::copy(matrix.row(row), copy_.data() + static_cast<size_t>(row) * stride_);
    codes_ = copy_.data();
  }
  const uint32_t* codes() const { return codes_; }
  int stride() const { return stride_; }

 private:
  int stride_ = 0;
  const uint32_t* codes_ = nullptr;
  kernels::Array<uint32_t> copy_;
};

/// C and D of a product.
class Accumulator {
 public:
  Accumulator(Format format, int rows, int cols, const std::optional<Matrix>& c, int multiple)
      : cols_(cols),
        d_(unfilled_matrix(format, rows, kernels::round_up(cols, multiple))),
        c_(c ? WholeRows(*c, multiple) : WholeRows()) {}
  /// nullptr without C; rows are stride() apart, like those of D.
  const uint32_t* c() const { return c_.codes(); }
  uint32_t* d() { return d_.words().data(); }
  int stride() const { return d_.cols(); }
  /// D without the padding columns.
  Matrix take_d() { return cols_ == d_.cols() ? std::move(d_) : block_of(d_, 0, d_.rows(), 0, cols_); }

 private:
  int cols_;
  Matrix d_;
  WholeRows c_;
};

}  // namespace bitmma
