// SPDX-License-Identifier: MIT
// One operation in the computation of a result.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

struct WordStep {
  static constexpr int constant = -1, first_argument = -2, second_argument = -3, unit_result = -4;
  struct Operand {
    uint32_t word = 0;    // f32, or the 16-bit code that a cvt reads
    int from = constant;  // the step that produces it, or one of the values above

    bool operator==(const Operand&) const = default;
  };
  std::string_view operation = {};  // add, sub, mul, fma, neg, abs, copysign, cvt.rni, .., or the unit's MUFU.EX2
  std::vector<Operand> operands = {};
  uint32_t result = 0;

  bool operator==(const WordStep&) const = default;
};

}  // namespace bitmma
