// SPDX-License-Identifier: MIT
// One operation on the way to a result, for those who ask how it is made.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

struct WordStep {
  static constexpr int constant = -1, first_argument = -2, second_argument = -3, unit_result = -4;
  struct Operand {
    uint32_t word = 0;    // f32, or a code of 16 bits of what cvt reads
    int from = constant;  // the step of which it is the result, or one of the numbers above

    bool operator==(const Operand&) const = default;
  };
  std::string_view operation = {};  // add, sub, mul, fma, neg, abs, copysign, cvt.rni, .., MUFU.EX2 of the special unit
  std::vector<Operand> operands = {};
  uint32_t result = 0;

  bool operator==(const WordStep&) const = default;
};

}  // namespace bitmma
