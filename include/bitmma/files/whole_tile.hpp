// SPDX-License-Identifier: MIT
// A whole tile as a kernel has it: A and B with all of K, M and N of several instructions, and one D at the end.
//
//   a [64, 256]   b [256, 128]   d [64, 128]   instruction wgmma...m64n64k16: two columns of tiles, 16 steps of K
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bitmma/files/compare.hpp"
#include "bitmma/files/vector_file.hpp"

namespace bitmma {

struct WholeTile {
  std::string path = {}, source = {};  // of the file; "unknown" where it does not say who computed D
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  /// Without a state: logical a, b, c and scales of the whole tile, and d where it is recorded.
  std::vector<Case> cases = {};

  /// Instructions along K.
  int64_t steps() const;
};

/// The tiles of a file whose plain matrices are those of several instructions, or whose images and descriptors are the
/// steps of a loop over K with one d after all of them. Nothing for other files. Throws Error as as_vector_file does,
/// and where extents are no multiples of the instruction's.
std::optional<WholeTile> whole_tile(const TensorFile& file, const VectorFileDefaults& defaults = {});

/// The instruction that computes D at (row, col) in step `step`, with its parts of the matrices. Steps after the first
/// begin with `before`, the block's D of the step before. Throws Error for a case, row or column that is not there.
Case instruction_at(const WholeTile& tile, int64_t index, int row, int col, int64_t step, const Matrix* before);

/// D of case `index`, instruction by instruction; C of each is D of the one before.
Matrix computed_d(const WholeTile& tile, int64_t index);

/// As those of vector files (compare.hpp).
void require_recorded(const WholeTile& tile);
Comparison verify(const WholeTile& tile, int threads = 1);
Comparison compare(const WholeTile& expected, const WholeTile& actual);
std::vector<InputDifference> different_inputs(const WholeTile& expected, const WholeTile& actual);

}  // namespace bitmma
