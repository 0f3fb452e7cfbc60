// SPDX-License-Identifier: MIT
// The operands of one instruction, D = A * B + C, as matrices of raw codes.
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

/// Block scales: codes of ue8m0 or ue4m3. Scale j of row m of A applies to elements j * L / c .. (j + 1) * L / c - 1.
struct BlockScales {
  Matrix a = {};  // M x c
  Matrix b = {};  // c x N

  bool operator==(const BlockScales&) const = default;
};

/// A stored tf32 element whose metadata nibble PTX leaves undefined: it multiplies a word made of two 16-bit halves of
/// B. Half h of a column of B is bits 16*(h%2) and up of element k = h / 2.
struct MixedTerm {
  uint16_t row = 0, stored = 0;
  uint16_t low_half = 0, high_half = 0;

  bool operator==(const MixedTerm&) const = default;
};

struct Operands {
  Matrix a = {};  // M x L
  Matrix b = {};  // K x N
  /// M x N. Nothing: C is not read, even if it holds NaN. In the output's format; f16 may stand for f32 in quad pairs.
  std::optional<Matrix> c = {};
  std::vector<uint16_t> selected_k = {};  // sparse: the row of B that a(m, j) multiplies, entry m * L + j; empty: row j
  std::vector<MixedTerm> mixed = {};      // sparse tf32 with undefined metadata, by row; the halves replace selected_k
  bool negate_a = false;
  bool negate_b = false;
  bool saturate = false;                       // integers: clamp the exact final sum to int32 once
  std::optional<BlockScales> scales = {};      // only for models with scaling, which require them
  bool exclusive_or = false;                   // b1: counts positions that differ instead of those where both are set
  Rounding rounding = Rounding::nearest_even;  // f64: rounding of every multiply-add
  int scale_input_d = 0;  // c * 2^-scale_input_d is added, exactly (model choice: no source specifies rounding)
  /// A and B are exchanged, for products of few columns: a holds B^T (N x K), b holds A^T (K x M), c is N x M, and
  /// multiply_accumulate returns D^T. negate_a and negate_b apply to the matrices in a and b. Dense operands only.
  bool swapped = false;

  bool operator==(const Operands&) const = default;
};

/// The operands of a subset of outputs: output (i, j) of their product is output (rows[i], cols[j]) of the whole one.
/// Rows index `a` and columns index `b`, also if they are swapped. Throws Error if an index is out of range.
Operands block_of(const Operands& operands, std::span<const int> rows, std::span<const int> cols);
/// Rows row .. row + rows - 1 and columns col .. col + cols - 1.
Operands block_of(const Operands& operands, int row, int rows, int col, int cols);

}  // namespace bitmma
