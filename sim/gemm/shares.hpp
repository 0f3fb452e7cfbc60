// SPDX-License-Identifier: MIT
// How threads share the outputs of a product.
#pragma once

#include <algorithm>
#include <cstdint>

namespace bitmma {

/// Rows and columns of the blocks that threads take one by one: they fill the vectors, and their sums and a part of K
/// of their operands fit in the cache. A block decodes its operands, so that larger ones decode less.
constexpr int most_block_rows = 256, most_block_cols = 512, least_block_rows = 128;

class Shares {
 public:
  struct Share {
    int row = 0, rows = 0, col = 0, cols = 0;
  };

  Shares(int m, int n, int k, int threads) : m_(m), n_(n) {
    while (threads > 1 && rows_ > least_block_rows && blocks() < int64_t{4} * threads)
      (cols_ > rows_ ? cols_ : rows_) /= 2;
    // As many blocks as there are threads are cut in four and come last: then threads of different speed end together.
    constexpr int64_t worth_threads = 1 << 22;  // products, which take longer than the start of a few threads
    if (threads > 1 && k > 0 && int64_t{m} * n >= (worth_threads + k - 1) / k)
      whole_ = std::max(blocks() - threads, int64_t{0});
    else whole_ = blocks();
  }
  /// Each output by itself.
  static Shares of_single_outputs(int m, int n) { return {m, n}; }

  int64_t count() const { return whole_ + 4 * (blocks() - whole_); }

  /// Has no outputs where a part of a block at the edge is outside the product.
  Share operator[](int64_t index) const {
    if (index < whole_) return share(index, 0, rows_, 0, cols_);
    const int64_t part = index - whole_, rows = rows_ / 2, cols = cols_ / 2;
    return share(whole_ + part / 4, static_cast<int>(part % 4 / 2 * rows), static_cast<int>(rows),
                 static_cast<int>(part % 2 * cols), static_cast<int>(cols));
  }

 private:
  Shares(int m, int n) : m_(m), n_(n), rows_(1), cols_(1), whole_(blocks()) {}
  int64_t across() const { return (n_ + cols_ - 1) / cols_; }
  int64_t blocks() const { return across() * ((m_ + rows_ - 1) / rows_); }
  Share share(int64_t block, int row, int rows, int col, int cols) const {
    row += static_cast<int>(block / across()) * rows_, col += static_cast<int>(block % across()) * cols_;
    return {.row = row, .rows = std::min(rows, m_ - row), .col = col, .cols = std::min(cols, n_ - col)};
  }

  int m_, n_, rows_ = most_block_rows, cols_ = most_block_cols;
  int64_t whole_ = 0;  // blocks that are not cut
};

}  // namespace bitmma
