// SPDX-License-Identifier: MIT
// Compares plain matrices with the operands that the instruction reads from the state in the same file.
#pragma once

#include <string_view>
#include <vector>

#include "bitmma/instruction/case.hpp"

namespace bitmma {

/// A plain matrix with other codes than the state.
struct DifferentCopy {
  std::string_view name = {};  // a, b, c, sfa, sfb
  Format format = Format::f32;
  int64_t codes = 0, of = 0;  // number of codes that differ, and of all codes
  int row = 0, col = 0;       // the first code that differs
  uint64_t plain = 0, read = 0;

  /// "0x38be".
  std::string print(uint64_t code) const;
};

/// The differing matrices of a case; empty without a state.
std::vector<DifferentCopy> different_copies(const Case& this_case);

}  // namespace bitmma
