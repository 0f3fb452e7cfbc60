// SPDX-License-Identifier: MIT
// A whole tile as a kernel has it: A and B with all of K, M and N of several instructions, and one D at the end.
//
//   a [64, 256]   b [256, 128]   d [64, 128]   instruction wgmma...m64n64k16: two columns of tiles, 16 steps of K
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/files/compare.hpp"
#include "bitmma/files/vector_file.hpp"

namespace bitmma {

struct WholeTile {
  TensorFile file = {};
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  int64_t first_case = 0;  // of a part of a file: which case of the whole its case 0 is
  /// Without a state: logical a, b, c and scales of the whole tile, and d where it is recorded.
  std::vector<Case> cases = {};

  /// Instructions along K.
  int64_t steps() const;
  /// Value of the key source, fit for a message; "unknown" where the file does not say who computed D.
  std::string source() const;
  bool has_recorded_d() const;
};

/// The tiles of a file whose plain matrices are those of several instructions, or whose images and descriptors are the
/// steps of a loop over K with one d after all of them. Nothing for other files. Throws Error as as_vector_file does,
/// and where extents are no multiples of the instruction's.
std::optional<WholeTile> whole_tile(const TensorFile& file, const VectorFileDefaults& defaults = {});

/// A case of matrices that several instructions compute, without a file; nothing for other cases. Throws Error where
/// the extents are no multiples of the instruction's.
std::optional<WholeTile> whole_tile(const Case& one);

/// The instruction that computes D at (row, col) in step `step`, with its parts of the matrices. Steps after the first
/// begin with `before`, the block's D of the step before. Throws Error for a case, row or column that is not there.
Case instruction_at(const WholeTile& tile, int64_t index, int row, int col, int64_t step, const Matrix* before);

/// D of case `index`, instruction by instruction; C of each is D of the one before. Blocks of D are shared out among
/// the threads. Throws Error when there is no such case.
Matrix computed_d(const WholeTile& tile, int64_t index, int threads = 1);

/// The file with d as the tile computes it, and this program as who computed it.
TensorFile with_simulated_d(const WholeTile& tile, int threads = 1);

/// The matrices of the cases as a file, and `metadata` beside the keys that describe the instruction. Throws Error
/// where the cases are of several shapes.
TensorFile file_of_cases(const WholeTile& tile, std::vector<std::pair<std::string, std::string>> metadata);

/// Cases first .. first + count - 1. Throws Error where there are no such cases, or none are asked for.
WholeTile cases_of(const WholeTile& tile, int64_t first, int64_t count);

/// As those of vector files (compare.hpp).
void require_recorded(const WholeTile& tile);
Comparison verify(const WholeTile& tile, int threads = 1, const Progress& progress = {});
Comparison compare(const WholeTile& expected, const WholeTile& actual);
std::vector<InputDifference> different_inputs(const WholeTile& expected, const WholeTile& actual);

}  // namespace bitmma
