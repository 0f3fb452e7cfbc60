// A matrix of raw codes with the format that gives them meaning. Nothing converts them but formats/.
#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "bitmma/formats/format.hpp"

namespace bitmma {

struct BitMatrix {
  Format format = Format::f32;
  Eigen::Array<uint32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> bits;

  BitMatrix() = default;
  /// rows x cols codes, all zero bits.
  BitMatrix(Format format_, int rows, int cols) : format(format_), bits(rows, cols) { bits.setZero(); }

  /// The same without the zeros, for who writes every code.
  static BitMatrix unfilled(Format format, int rows, int cols) {
    BitMatrix matrix;
    matrix.format = format;
    matrix.bits.resize(rows, cols);
    return matrix;
  }

  int rows() const { return static_cast<int>(bits.rows()); }
  int cols() const { return static_cast<int>(bits.cols()); }
  uint32_t& operator()(int row, int col) { return bits(row, col); }
  uint32_t operator()(int row, int col) const { return bits(row, col); }

  bool operator==(const BitMatrix& other) const {
    return format == other.format && rows() == other.rows() && cols() == other.cols() && (bits == other.bits).all();
  }
};

/// Element (col, row) of the result is element (row, col).
BitMatrix transposed(const BitMatrix& matrix);

}  // namespace bitmma
