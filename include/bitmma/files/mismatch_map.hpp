// SPDX-License-Identifier: MIT
// Where outputs differ, as a pattern: rows, columns, threads, and a small map as text. A layout mistake shows as a
// pattern long before its cause is known.
//
//   only rows 8..15 of every 16; only registers 2..3 of every 4
//   ....########........########
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// How often each output of the compared cases differs. Empty if nothing differs, or if the shapes of D differ between
/// cases.
struct [[nodiscard]] MismatchMap {
  int rows = 0, cols = 0;
  std::vector<int64_t> counts = {};  // by row, then column
  int64_t cases = 0;                 // cases with a difference

  bool empty() const { return counts.empty(); }
  int64_t count(int row, int col) const {
    return counts[static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(col)];
  }
  MismatchMap& operator+=(const MismatchMap& other);
};

/// The number of mismatches in each row, and in each column.
std::vector<int64_t> counts_by_row(const MismatchMap& map);
std::vector<int64_t> counts_by_col(const MismatchMap& map);

/// "only rows 8..15 of every 16", "only columns 3, 17", "only warps 2..3", "only registers 1 of every 2": statements
/// that hold for all mismatches, shortest first. "everywhere" if no description fits. Empty for an empty map.
std::vector<std::string> patterns_of(const MismatchMap& map, const Instruction& instruction);
/// False if all outputs differ, or if no row, column, warp or register stands out.
bool has_pattern(const MismatchMap& map, const Instruction& instruction);

/// The map as at most 16 lines of at most 64 characters. A character covers a block of rows and columns in all
/// differing cases: '.' nothing differs, '+' something, '#' everything.
struct [[nodiscard]] DrawnMap {
  int rows_per_line = 1, cols_per_character = 1;
  std::vector<std::string> lines = {};
};
DrawnMap draw(const MismatchMap& map);

}  // namespace bitmma
