// SPDX-License-Identifier: MIT
// Compares plain matrices with the operands that the instruction reads from a state in the same file.
#pragma once

#include <string_view>
#include <vector>

#include "bitmma/instruction/case.hpp"

namespace bitmma {

/// A matrix beside a state that has other codes than the state.
struct DifferentCopy {
  std::string_view name = {};  // a, b, c, sfa, sfb
  Format format = Format::f32;
  int64_t codes = 0, of = 0;  // how many differ
  int row = 0, col = 0;       // the first of them
  uint64_t said = 0, read = 0;

  /// "0x38be".
  std::string print(uint64_t code) const;
};

/// Those of a case; empty without a state.
std::vector<DifferentCopy> different_copies(const Case& one);

}  // namespace bitmma
