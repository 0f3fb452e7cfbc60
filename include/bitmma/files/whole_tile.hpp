// SPDX-License-Identifier: MIT
// A whole tile as in a kernel: A and B with all of K, M and N of several instructions, and one D after all steps.
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

struct [[nodiscard]] WholeTile {
  TensorFile file = {};
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  int64_t first_case = 0;  // for a part of a file: index of its case 0 in the whole file
  /// Without a state: logical a, b, c and scales of the whole tile, and d if recorded.
  std::vector<Case> cases = {};

  /// Instructions along K.
  int64_t steps() const;
  /// Value of the key source, made safe for messages; "unknown" if the file does not name the origin of D.
  std::string source() const;
  bool has_recorded_d() const;
};

/// The tiles of a file whose plain matrices span several instructions, or whose images and descriptors are the steps of
/// a K loop with one d after all of them. Nothing for other files. Throws Error as as_vector_file does, and if extents
/// are not multiples of the instruction's.
std::optional<WholeTile> whole_tile(const TensorFile& file, const VectorFileDefaults& defaults = {});

/// A case whose matrices span several instructions, without a file; nothing for other cases. Throws Error if the
/// extents are not multiples of the instruction's.
std::optional<WholeTile> whole_tile(const Case& this_case);

/// The instruction that computes D at (row, col) in step `step`, with its parts of the matrices. A step after the first
/// starts from `before`, the block's D after the previous step. Throws Error if the case, row or column does not exist.
Case instruction_at(const WholeTile& tile, int64_t index, int row, int col, int64_t step, const Matrix* before);

/// D of case `index`, instruction by instruction; C of each is D of the previous one. The threads share the blocks of
/// D. Throws Error if the case does not exist.
Matrix computed_d(const WholeTile& tile, int64_t index, int threads = 1);

/// The file with the computed d, and this program as its source.
TensorFile with_simulated_d(const WholeTile& tile, int threads = 1);

/// The matrices of the cases as a file, with `metadata` in addition to the keys that describe the instruction. Throws
/// Error if shapes differ between cases.
TensorFile file_of_cases(const WholeTile& tile, std::vector<std::pair<std::string, std::string>> metadata);

/// Cases first .. first + count - 1. Throws Error if they do not exist, or if count is 0.
WholeTile cases_of(const WholeTile& tile, int64_t first, int64_t count);

/// Like the functions for vector files (compare.hpp).
void require_recorded(const WholeTile& tile);
Comparison verify(const WholeTile& tile, int threads = 1, const Progress& progress = {});
Comparison compare(const WholeTile& expected, const WholeTile& actual);
std::vector<InputDifference> different_inputs(const WholeTile& expected, const WholeTile& actual);

}  // namespace bitmma
