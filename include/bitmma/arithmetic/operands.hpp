// SPDX-License-Identifier: MIT
// What one instruction multiplies: D = A * B + C, as matrices of raw codes.
//
//         L            N           N
//   M  [  A  ]  *  K [ B ]  +  M [ C ]      dense: L = K, and a(m, j) meets row j of B
//                                           sparse: L < K, and a(m, j) meets row selected_k[m * L + j]
//
//   Operands swapped{.a = transposed(b), .b = transposed(a), .swapped = true};      the same product, which gives D^T
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bitmma/formats/matrix.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma {

/// Block scales: codes of ue8m0 or ue4m3. Chunk j of row m of A, L / c stored elements long, counts times a(m, j).
struct BlockScales {
  Matrix a = {};  // M x c
  Matrix b = {};  // c x N

  bool operator==(const BlockScales&) const = default;
};

/// A stored tf32 element that meets a word put together from two 16-bit halves of B, because its metadata nibble is one
/// PTX leaves undefined. Half h of a column of B is bits 16*(h%2) and up of element k = h / 2.
struct MixedTerm {
  uint16_t row = 0, stored = 0;
  uint16_t low_half = 0, high_half = 0;

  bool operator==(const MixedTerm&) const = default;
};

struct Operands {
  Matrix a = {};  // M x L
  Matrix b = {};  // K x N
  /// M x N; nothing: C is not read, even if it holds NaN. Of the output's format; f16 may stand for f32 in quad pairs.
  std::optional<Matrix> c = {};
  std::vector<uint16_t> selected_k = {};  // sparse: the row of B that a(m, j) meets, entry m * L + j; empty: j itself
  std::vector<MixedTerm> mixed = {};      // sparse tf32 with undefined metadata, by row; the halves replace selected_k
  bool negate_a = false;
  bool negate_b = false;
  bool saturate = false;                       // integers: the exact final sum is clamped to int32 once
  std::optional<BlockScales> scales = {};      // models with scaling, and only those
  bool exclusive_or = false;                   // b1: positions that differ count, not those that both have
  Rounding rounding = Rounding::nearest_even;  // f64: of every multiply-add
  int scale_input_d = 0;  // c counts c * 2^-scale_input_d, exactly (model choice: no source says how it rounds)
  /// A and B are exchanged, for products of few columns: a holds B^T (N x K), b holds A^T (K x M), c is N x M, and
  /// multiply_accumulate returns D^T. negate_a and negate_b apply to the matrices in a and b. Dense operands only.
  bool swapped = false;

  bool operator==(const Operands&) const = default;
};

/// The operands of only some outputs: output (i, j) of their product is output (rows[i], cols[j]) of the whole product.
/// Rows are those of `a` and columns those of `b`, also when they are swapped. Throws Error when one lies outside.
Operands block_of(const Operands& operands, std::span<const int> rows, std::span<const int> cols);
/// Rows row .. row + rows - 1 and columns col .. col + cols - 1.
Operands block_of(const Operands& operands, int row, int rows, int col, int cols);

}  // namespace bitmma
