#include "bitmma/formats/bit_matrix.hpp"

#include "../core/words.hpp"

namespace bitmma {

BitMatrix transposed(const BitMatrix& matrix) {
  const int rows = matrix.rows(), cols = matrix.cols();
  BitMatrix result = BitMatrix::unfilled(matrix.format, cols, rows);
  const int whole_rows = rows / 4 * 4, whole_cols = cols / 4 * 4;
  for (int row = 0; row < whole_rows; row += 4) {
    for (int col = 0; col < whole_cols; col += 4) {
      Words words[4];
      for (int i = 0; i < 4; ++i) words[i] = load<Words>(&matrix.bits(row + i, col));
      transpose(words);
      for (int i = 0; i < 4; ++i) store(words[i], &result.bits(col + i, row));
    }
  }
  // Eigen takes what no block of four holds.
  result.bits.rightCols(rows - whole_rows) = matrix.bits.bottomRows(rows - whole_rows).transpose();
  result.bits.bottomRows(cols - whole_cols) = matrix.bits.rightCols(cols - whole_cols).transpose();
  return result;
}

}  // namespace bitmma
