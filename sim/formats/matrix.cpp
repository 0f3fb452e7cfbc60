// SPDX-License-Identifier: MIT
#include "bitmma/formats/matrix.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>

#include "../core/ieee_environment.hpp"
#include "../core/words.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/interrupt.hpp"
#include "bitmma/formats/round.hpp"
#include "matrix_inside.hpp"

namespace bitmma {
namespace {

void require_inside(const Matrix& matrix, int row, int rows, int col, int cols) {
  const bool inside = row >= 0 && rows >= 0 && col >= 0 && cols >= 0 && int64_t{row} + rows <= matrix.rows() &&
                      int64_t{col} + cols <= matrix.cols();
  if (inside) return;
  throw Error({.code = ViolationCode::wrong_shape,
               .field = "block of a matrix",
               .seen = fmt::format("{} x {} from ({}, {})", rows, cols, row, col),
               .expected = fmt::format("inside {} x {}", matrix.rows(), matrix.cols())});
}

constexpr Format f32 = Format::f32;

/// Converts a float to a code of `format`.
uint64_t code_of(Format format, float value) {
  const FormatInfo& row = info(format);
  if (row.kind == NumberKind::floating) {
    return convert(f32, std::bit_cast<uint32_t>(value), format, Rounding::nearest_even, Overflow::infinity);
  }
  const bool has_magnitude = format == Format::s1z4m11;
  const int64_t low = has_magnitude ? -2047 : row.is_signed ? -(int64_t{1} << (row.bits - 1)) : 0;
  const int64_t high = has_magnitude ? 2047 : row.is_signed ? -low - 1 : (int64_t{1} << row.bits) - 1;
  const bool whole = std::nearbyint(value) == value;  // false for NaN
  if (!whole || static_cast<double>(value) < static_cast<double>(low) ||
      static_cast<double>(value) > static_cast<double>(high)) {
    throw Error({.field = fmt::format("value for {}", row.name),
                 .seen = fmt::format("{}", value),
                 .expected = fmt::format("a whole number in {}..{}", low, high)});
  }
  if (has_magnitude) return static_cast<uint64_t>(std::abs(value)) | (value < 0 ? row.sign_bit() : 0);
  return static_cast<uint64_t>(static_cast<int64_t>(value)) & low_mask(row.bits);
}

float value_of(Format format, uint64_t code) {
  const FormatInfo& row = info(format);
  if (row.kind != NumberKind::floating) return static_cast<float>(decode_integer(format, code));
  if (decode(row, code).number == NumberClass::nan) return std::bit_cast<float>(0x7FFFFFFFu);
  const uint64_t bits = convert(format, code, f32, Rounding::nearest_even, Overflow::infinity);
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

using EigenWords = Eigen::Array<uint32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The words as an Eigen array: one column per code, or two if the matrix is wide.
Eigen::Map<EigenWords> view(Matrix& matrix) {
  return {matrix.words().data(), matrix.rows(), matrix.cols() * (matrix.is_wide() ? 2 : 1)};
}
Eigen::Map<const EigenWords> view(const Matrix& matrix) {
  return {matrix.words().data(), matrix.rows(), matrix.cols() * (matrix.is_wide() ? 2 : 1)};
}

}  // namespace

Matrix::Matrix(Format format, int rows, int cols, Unfilled) : format_(format), rows_(rows), cols_(cols) {
  if (static_cast<std::size_t>(format) >= formats.size()) {
    throw Error({.field = "format of a matrix",
                 .seen = fmt::format("value {} of an enumeration", static_cast<std::size_t>(format)),
                 .expected = fmt::format("one of its {} values", formats.size())});
  }
  if (rows < 0 || cols < 0) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "matrix",
                 .seen = fmt::format("{} x {}", rows, cols),
                 .expected = "extents of 0 or more"});
  }
  const std::size_t words = size() * (is_wide() ? 2 : 1);
  if (words > words_.max_size()) {
    throw Error({.code = ViolationCode::too_large,
                 .field = "matrix",
                 .seen = fmt::format("{} x {} {}", rows, cols, info(format).name),
                 .expected = fmt::format("at most {} words of 32 bits", words_.max_size())});
  }
  words_.resize(words);
}

uint64_t Matrix::code(int row, int col) const {
  const std::size_t i = index(row, col);
  return is_wide() ? words_[2 * i] | uint64_t{words_[2 * i + 1]} << 32 : words_[i];
}

void Matrix::set_code(int row, int col, uint64_t code) {
  const std::size_t i = index(row, col);
  words_[is_wide() ? 2 * i : i] = static_cast<uint32_t>(code);
  if (is_wide()) words_[2 * i + 1] = static_cast<uint32_t>(code >> 32);
}

void Matrix::fill(uint64_t code) {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    words_[i] = static_cast<uint32_t>(is_wide() && i % 2 == 1 ? code >> 32 : code);
  }
}

Matrix Matrix::as(Format format) const {
  if (info(format).bits != info(format_).bits) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = "format",
                 .seen = std::string(info(format).name),
                 .expected = fmt::format("a format of {} bits", info(format_).bits)});
  }
  Matrix result = *this;
  result.format_ = format;
  return result;
}

Matrix transposed(const Matrix& matrix) {
  const int rows = matrix.rows(), cols = matrix.cols();
  Matrix result = unfilled_matrix(matrix.format(), cols, rows);
  if (matrix.is_wide()) {
    for (int row = 0; row < rows; ++row) {
      for (int col = 0; col < cols; ++col) result.set_code(col, row, matrix.code(row, col));
    }
    return result;
  }
  const int whole_rows = rows / 4 * 4, whole_cols = cols / 4 * 4;
  const uint32_t* const from = matrix.words().data();
  uint32_t* const to = result.words().data();
  for (int row = 0; row < whole_rows; row += 4) {
    if (row % 256 == 252) check_interrupt();
    for (int col = 0; col < whole_cols; col += 4) {
      Words words[4];
      for (int i = 0; i < 4; ++i) words[i] = load<Words>(from + int64_t{row + i} * cols + col);
      transpose(words);
      for (int i = 0; i < 4; ++i) store(words[i], to + int64_t{col + i} * rows + row);
    }
  }
  // Eigen transposes the rest, which fills no block of four.
  view(result).rightCols(rows - whole_rows) = view(matrix).bottomRows(rows - whole_rows).transpose();
  view(result).bottomRows(cols - whole_cols) = view(matrix).rightCols(cols - whole_cols).transpose();
  return result;
}

Matrix block_of(const Matrix& matrix, int row, int rows, int col, int cols) {
  require_inside(matrix, row, rows, col, cols);
  Matrix block = unfilled_matrix(matrix.format(), rows, cols);
  if (block.size() == 0) return block;  // an empty matrix has no first element
  const int width = matrix.is_wide() ? 2 : 1;
  view(block) = view(matrix).block(row, width * col, rows, width * cols);
  return block;
}

void set_block(Matrix& matrix, int row, int col, const Matrix& block) {
  require_inside(matrix, row, block.rows(), col, block.cols());
  if (matrix.format() != block.format()) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = "format of a block",
                 .seen = std::string(info(block.format()).name),
                 .expected = std::string(info(matrix.format()).name)});
  }
  if (block.size() == 0) return;
  const int width = matrix.is_wide() ? 2 : 1;
  view(matrix).block(row, width * col, block.rows(), width * block.cols()) = view(block);
}

Matrix picked_rows(const Matrix& matrix, std::span<const int> rows) {
  Matrix picked = unfilled_matrix(matrix.format(), static_cast<int>(rows.size()), matrix.cols());
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::ranges::copy(matrix.row(rows[i]), picked.row(static_cast<int>(i)).begin());
  return picked;
}

Matrix picked_cols(const Matrix& matrix, std::span<const int> cols) {
  Matrix picked = unfilled_matrix(matrix.format(), matrix.rows(), static_cast<int>(cols.size()));
  for (int row = 0; row < matrix.rows(); ++row) {
    const uint32_t* const from = matrix.row(row).data();
    uint32_t* to = picked.row(row).data();
    if (matrix.is_wide()) {
      for (const int col : cols) to = std::copy_n(from + 2 * std::ptrdiff_t{col}, 2, to);
    } else {
      for (const int col : cols) *to++ = from[col];
    }
  }
  return picked;
}

Matrix filled_up(Matrix block, int rows, int cols) {
  if (block.rows() == rows && block.cols() == cols) return block;
  Matrix whole(block.format(), rows, cols);
  set_block(whole, 0, 0, block);
  return whole;
}

int64_t count_differing(const Matrix& x, const Matrix& y) {
  if (x.rows() != y.rows() || x.cols() != y.cols() || x.format() != y.format()) {
    const auto print = [](const Matrix& matrix) {
      return fmt::format("{} x {} {}", matrix.rows(), matrix.cols(), info(matrix.format()).name);
    };
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "matrices that are compared",
                 .seen = print(y),
                 .expected = print(x)});
  }
  int64_t count = 0;
  for (int row = 0; row < x.rows(); ++row) {
    for (int col = 0; col < x.cols(); ++col) count += x.code(row, col) != y.code(row, col);
  }
  return count;
}

Matrix from_floats(Format format, int rows, int cols, std::span<const float> values) {
  return in_ieee_environment([&]() -> Matrix {
    Matrix matrix(format, rows, cols);
    if (values.size() != matrix.size()) {
      throw Error({.code = ViolationCode::wrong_shape,
                   .field = "values",
                   .seen = std::to_string(values.size()),
                   .expected = fmt::format("{} for {} x {}", matrix.size(), rows, cols)});
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int index = static_cast<int>(i);
      matrix.set_code(index / cols, index % cols, code_of(format, values[i]));
    }
    return matrix;
  });
}

std::vector<float> to_floats(const Matrix& matrix) {
  return in_ieee_environment([&]() -> std::vector<float> {
    std::vector<float> values;
    values.reserve(matrix.size());
    for (int row = 0; row < matrix.rows(); ++row) {
      for (int col = 0; col < matrix.cols(); ++col) values.push_back(value_of(matrix.format(), matrix.code(row, col)));
    }
    return values;
  });
}

}  // namespace bitmma
