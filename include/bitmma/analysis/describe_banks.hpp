// SPDX-License-Identifier: MIT
// Reports about bank conflicts, and about the swizzles that instructions read.
#pragma once

#include <string_view>

#include "bitmma/analysis/picture.hpp"
#include "bitmma/analysis/report.hpp"
#include "bitmma/memory/bank_conflicts.hpp"

namespace bitmma {

/// {"wavefronts", "without_conflicts", "words_by_bank"}.
Report describe(const BankUse& use);

struct [[nodiscard]] ConflictReport {
  bool is_free = false;  // of conflicts
  Report report = {};
};
/// Every 8 rows of 16 bytes of a map of shared memory, as `access` ("ldmatrix", "stmatrix") moves them: {"access",
/// "matrices", "wavefronts", "without_conflicts", "worst"}. A matrix has "row", "col" and "wavefronts". Throws Error if
/// elements do not fill such matrices.
ConflictReport describe_conflicts(const Map& map, std::string_view access);

/// The bytes and banks of one access of a warp, with a line for every wavefront and the threads by bank: {"access",
/// "bytes", "threads", "requests", "wavefronts", "lines"}. A thread has "thread", "row", "col" and "byte", a line
/// "request" and "threads", 32 of them, -1 for an idle bank.
struct [[nodiscard]] WarpReport {
  bool is_free = false;  // of conflicts
  Report report = {};
  Picture picture = {};
};
WarpReport describe_warp(const WarpAccess& access, std::string_view move);

/// A list of {"instruction", "target", "element_bits", "major", "swizzle", "accepted", "reasons"} for every swizzle;
/// the text is a table with a column for each.
Report describe_swizzle_uses();

}  // namespace bitmma
