// SPDX-License-Identifier: MIT
// Reports about computed results: what `simulate` shows of a case, of a tile, and of two GPUs side by side.
//
//   print(describe(vectors, 0, ShownD{.rows = 2, .cols = 2}))
//
//     wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16, case 0 of 4
//     target: sm_90a
//     ...
//     D       col 0  col 1
//     row 0       1   -2.5
//     row 1    0.25      3
//     (2 x 2 of 64 x 8; --rows, --cols and --hex show more)
#pragma once

#include <string_view>

#include "bitmma/analysis/report.hpp"
#include "bitmma/files/compare.hpp"

namespace bitmma {

/// What a report has of D: its codes as data, or the first rows and columns as text.
struct ShownD {
  bool as_codes = false;
  int rows = 8, cols = 8;
  bool as_bits = false;  // codes instead of values in the text; what moves data always has codes
};

/// Case `index` with its computed D: {"file", "instruction", "case", "cases", "target", "arithmetic", "chosen",
/// "warnings"}, "k_loop" for the steps of a K loop, {"m", "n", "k", "a_type", "b_type", "d_type"} for a matrix
/// instruction, and "d" as codes; of a tile with "steps" and without "warnings". Throws Error if the case does not
/// exist.
Report describe(const VectorFile& vectors, int64_t index, const ShownD& shown, int threads = 1);

/// How the recorded D compares: {"recorded": {"outputs", "mismatches", "source"}}. `of` follows the source in the text.
Report describe_recorded(const Comparison& comparison, std::string_view source, std::string_view of = "");

/// `own`, and the report of the same operands on another GPU as "on_target", with the differing outputs as
/// "between_targets".
Report describe_two_targets(Report own, Report other, const Comparison& comparison, Target target, Target other_target);

}  // namespace bitmma
