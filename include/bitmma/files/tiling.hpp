// SPDX-License-Identifier: MIT
// Cases that several instructions compute, as a kernel's tile: A and B with all of K, M and N of several instructions,
// and one D after all steps. One instruction is the tiling 1 x 1 x 1.
//
//   a [64, 256]   b [256, 128]   d [64, 128]   of wgmma...m64n64k16: {.m = 1, .n = 2, .k = 16}
#pragma once

#include <cstdint>

#include "bitmma/instruction/case.hpp"

namespace bitmma {

/// Instructions along M, N and K of one case. Each block of D begins with its part of C; C of each further step along K
/// is D of the step before.
struct [[nodiscard]] Tiling {
  int m = 1, n = 1, k = 1;

  bool is_one_instruction() const { return m == 1 && n == 1 && k == 1; }
  bool operator==(const Tiling&) const = default;
};

/// The tiling of a case of plain matrices; 1 x 1 x 1 for a case with a state. Throws Error (field tile) if the extents
/// are not multiples of the instruction's.
Tiling tiling_of(const Case& whole);

/// The instruction that computes D at (row, col) in step `step`, with its parts of the matrices; `whole` itself if it
/// is one instruction. A step after the first starts from `d_before`, the block's D after the previous step. Throws
/// Error (fields row, col, step) for places that D does not have.
Case instruction_at(const Case& whole, int row, int col, int step, const Matrix* d_before = nullptr);

/// D of a case of any tiling, instruction by instruction; the threads share its blocks. `model` replaces the hardware's
/// row.
Matrix computed_tile(const Case& whole, int threads = 1, const AccumulatorModel* model = nullptr);

}  // namespace bitmma
