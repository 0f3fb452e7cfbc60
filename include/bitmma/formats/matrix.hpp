// SPDX-License-Identifier: MIT
// A matrix of raw codes with their format. Only formats/ converts them.
//
//   Matrix a = from_floats(Format::f16, 64, 16, values);   a(3, 5) is the f16 code of values[3 * 16 + 5]
//
// Codes are stored row by row in 32-bit words: one word per code, or two (the low one first) for 64-bit codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bitmma/formats/format.hpp"

namespace bitmma {

/// An allocator that leaves new elements uninitialised, for matrices whose every code is written next.
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

class [[nodiscard]] Matrix {
 public:
  Matrix() = default;
  /// rows x cols codes, all bits zero. Throws Error if an extent is negative.
  Matrix(Format format, int rows, int cols) : Matrix(format, rows, cols, Unfilled{}) { fill(0); }

  Format format() const { return format_; }
  int rows() const { return rows_; }
  int cols() const { return cols_; }
  /// Number of codes, rows() * cols().
  std::size_t size() const { return static_cast<std::size_t>(rows_) * static_cast<std::size_t>(cols_); }
  bool is_wide() const { return info(format_).bits > 32; }

  /// The code of element (row, col), for formats of at most 32 bits. Indices are not checked.
  uint32_t& operator()(int row, int col) { return words_[index(row, col)]; }
  const uint32_t& operator()(int row, int col) const { return words_[index(row, col)]; }
  /// The code of element (row, col), for any format.
  uint64_t code(int row, int col) const;
  void set_code(int row, int col, uint64_t code);

  /// All words, row by row: size() of them, or twice as many when is_wide().
  std::span<uint32_t> words() { return words_; }
  std::span<const uint32_t> words() const { return words_; }
  /// The words of one row.
  std::span<uint32_t> row(int row) { return words().subspan(row_words() * at(row), row_words()); }
  std::span<const uint32_t> row(int row) const { return words().subspan(row_words() * at(row), row_words()); }

  /// Sets every code to `code`.
  void fill(uint64_t code);
  /// The same bits read as another format of the same width, as in a program with a wrong type. Throws Error if the
  /// widths differ.
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

/// Rows row .. row + rows - 1 and columns col .. col + cols - 1. Throws Error if they are out of range.
Matrix block_of(const Matrix& matrix, int row, int rows, int col, int cols);

/// Writes `block` at (row, col). Throws Error if it does not fit or has another format.
void set_block(Matrix& matrix, int row, int col, const Matrix& block);

/// The number of codes that differ. Throws Error if shapes or formats differ.
int64_t count_differing(const Matrix& x, const Matrix& y);

/// rows x cols values, row by row, each rounded once to `format` to nearest even, without saturation: a value that is
/// too large becomes infinity, or the result of cvt if the format has no infinity. Integer formats take integers in
/// their range. Throws Error if the number of values is not rows * cols, or if a value has no code.
Matrix from_floats(Format format, int rows, int cols, std::span<const float> values);

/// The values row by row, each rounded once to float, to nearest even: exact for every format of up to 32 bits except
/// s32 and u32.
std::vector<float> to_floats(const Matrix& matrix);

}  // namespace bitmma
