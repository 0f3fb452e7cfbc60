// SPDX-License-Identifier: MIT
// A matrix of raw codes with the format that gives them meaning. Nothing converts them but formats/.
//
//   Matrix a = from_floats(Format::f16, 64, 16, values);   a(3, 5) is the f16 code of values[3 * 16 + 5]
//
// Codes are kept row by row in 32-bit words: one word a code, two (the low one first) for codes of 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bitmma/formats/format.hpp"

namespace bitmma {

/// Leaves new elements as they are: a matrix whose every code is written next needs no zeros first.
template <typename T>
struct UnfilledAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = UnfilledAllocator<U>;
  };
  template <typename U>
  void construct(U* place) noexcept {
    ::new (static_cast<void*>(place)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
  }
};

class Matrix {
 public:
  Matrix() = default;
  /// rows x cols codes, all zero bits. Throws Error when an extent is negative.
  Matrix(Format format, int rows, int cols) : Matrix(format, rows, cols, Unfilled{}) { fill(0); }

  Format format() const { return format_; }
  int rows() const { return rows_; }
  int cols() const { return cols_; }
  /// Codes, rows() * cols().
  std::size_t size() const { return static_cast<std::size_t>(rows_) * static_cast<std::size_t>(cols_); }
  bool is_wide() const { return info(format_).bits > 32; }

  /// The code of element (row, col), of a format of at most 32 bits. Indices are not checked.
  uint32_t& operator()(int row, int col) { return words_[index(row, col)]; }
  const uint32_t& operator()(int row, int col) const { return words_[index(row, col)]; }
  /// The code of element (row, col), of any format.
  uint64_t code(int row, int col) const;
  void set_code(int row, int col, uint64_t code);

  /// All words, row by row: size() of them, or twice as many when is_wide().
  std::span<uint32_t> words() { return words_; }
  std::span<const uint32_t> words() const { return words_; }
  /// The words of one row.
  std::span<uint32_t> row(int row) { return words().subspan(row_words() * at(row), row_words()); }
  std::span<const uint32_t> row(int row) const { return words().subspan(row_words() * at(row), row_words()); }

  /// Every code becomes `code`.
  void fill(uint64_t code);
  /// The same bits, read as another format of the same width, as a program with a wrong type does.
  /// Throws Error when the widths differ.
  Matrix as(Format format) const;

  bool operator==(const Matrix&) const = default;

 private:
  friend struct MatrixAccess;
  struct Unfilled {};
  Matrix(Format format, int rows, int cols, Unfilled);

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::size_t row_words() const { return at(cols_) * (is_wide() ? 2 : 1); }
  std::size_t index(int row, int col) const { return at(row) * at(cols_) + at(col); }

  Format format_ = Format::f32;
  int rows_ = 0, cols_ = 0;
  std::vector<uint32_t, UnfilledAllocator<uint32_t>> words_;
};

/// Element (col, row) of the result is element (row, col).
Matrix transposed(const Matrix& matrix);

/// Rows row .. row + rows - 1 and columns col .. col + cols - 1. Throws Error when they reach outside.
Matrix block_of(const Matrix& matrix, int row, int rows, int col, int cols);

/// Writes `block` over the elements from (row, col) on. Throws Error when it reaches outside or has another format.
void set_block(Matrix& matrix, int row, int col, const Matrix& block);

/// How many codes differ. Throws Error when shapes or formats do.
int64_t count_differing(const Matrix& x, const Matrix& y);

/// rows x cols values, row by row, each rounded once to `format` to nearest even, saturating nowhere: what is too large
/// becomes infinity, or cvt's result if the format has none. Integer formats take whole numbers in their range.
/// Throws Error when the number of values is not rows * cols, or a value has no code.
Matrix from_floats(Format format, int rows, int cols, std::span<const float> values);

/// The values row by row, each rounded once to float, to nearest even: exact for every format of up to 32 bits but s32
/// and u32.
std::vector<float> to_floats(const Matrix& matrix);

}  // namespace bitmma
