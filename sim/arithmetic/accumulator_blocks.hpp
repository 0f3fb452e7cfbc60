// SPDX-License-Identifier: MIT
// C and D where an instruction keeps them: products read and write them in blocks of rows, which stay in the L1 cache,
// instead of whole matrices.
//
//   64 x 256, blocks of 16 rows:   read C 0..15 | sum | write D 0..15 | read C 16..31 | ...
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "../formats/matrix_inside.hpp"
#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/operands.hpp"
#include "kernels/kernels.hpp"

namespace bitmma {

/// Codes of rows [row, row + rows), `stride` apart. `row` and `rows` are multiples of block_rows.
struct AccumulatorBlocks {
  std::function<void(int row, int rows, uint32_t* codes, int stride)> read = {};  // empty: there is no C
  std::function<void(int row, int rows, const uint32_t* codes, int stride)> write;

  /// C and D as 32-bit words that a loop can read and write itself: rows, or if `is_fragment` the registers of the
  /// threads of a D fragment (core/pairs.hpp). Rows, or threads, are `stride` words apart.
  struct InPlace {
    uint32_t* words;
    int stride;
    bool is_fragment;
  };
  std::optional<InPlace> in_place = {};
};
inline constexpr int block_rows = 16;

/// The same as multiply_accumulate, with C and D where `blocks` reads and writes them. `operands` have no C and agree
/// with the model (require_agreement).
void multiply_accumulate(const AccumulatorModel& model, Operands operands, const AccumulatorBlocks& blocks);

// The same for some arithmetics (product.hpp, chain.hpp). They return false, and write nothing, if the product needs
// whole matrices.
bool fused_product(const AccumulatorModel& model, const Operands& operands, const AccumulatorBlocks& blocks);
bool step_by_chain(const AccumulatorModel& model, const Operands& operands, const AccumulatorBlocks& blocks);
void integer_product(const Operands& operands, const AccumulatorBlocks& blocks);

/// A block whose codes of C become those of D. Rows are padded to whole vectors.
struct AccumulatorBlock {
  int row, rows;
  uint32_t* codes;
  int stride;
  bool has_c;

  const uint32_t* c() const { return has_c ? codes : nullptr; }
};

/// Calls sum(block) for every block. Where it returns true, its D is not used: at the end, the block becomes
/// redo(its operands).
template <typename Sum, typename Redo>
void sum_by_blocks(const AccumulatorBlocks& blocks, Format output, const Operands& operands, const Sum& sum,
                   const Redo& redo) {
  constexpr int most_codes = 4096;  // a third of a small L1 cache
  const int all = operands.a.rows(), cols = operands.b.cols(),
            stride = kernels::round_up(cols, kernels::decoded_numbers),
            most_rows = std::max(1, most_codes / stride / block_rows) * block_rows;
  thread_local kernels::Array<uint32_t> codes;
  codes.resize(static_cast<size_t>(most_rows) * static_cast<size_t>(stride));
  std::vector<std::pair<int, int>> to_redo;  // first row, rows
  for (int row = 0; row < all; row += most_rows) {
    const int rows = std::min(most_rows, all - row);
    const bool has_c = static_cast<bool>(blocks.read);
    if (has_c) {
      blocks.read(row, rows, codes.data(), stride);
      // The loops read whole vectors, in which a NaN of an earlier product would count.
      for (int i = 0; i < rows && cols < stride; ++i)
        std::fill_n(codes.data() + static_cast<size_t>(i) * static_cast<size_t>(stride) + cols, stride - cols, 0);
    }
    if (sum(AccumulatorBlock{.row = row, .rows = rows, .codes = codes.data(), .stride = stride, .has_c = has_c}))
      to_redo.emplace_back(row, rows);
    else blocks.write(row, rows, codes.data(), stride);
  }
  for (const auto& [row, rows] : to_redo) {
    Operands block = block_of(operands, row, rows, 0, cols);
    if (blocks.read) {
      block.c = unfilled_matrix(output, rows, cols);
      blocks.read(row, rows, block.c->words().data(), cols);
    }
    blocks.write(row, rows, redo(block).words().data(), cols);
  }
}

}  // namespace bitmma
