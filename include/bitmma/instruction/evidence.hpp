// How sure the result of one instruction is: the evidence of its accumulator row, and every point where nobody has
// published what the hardware does and this program had to choose.
#pragma once

#include <string_view>
#include <vector>

#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/tmem_move.hpp"

namespace bitmma {

/// A point that no source settles.
struct Choice {
  std::string_view what;
  bool is_arithmetic = false;  // it decides values, not places
};

/// The choices that can show in results of `instruction`.
std::vector<Choice> choices_of(const Instruction& instruction);
std::vector<Choice> choices_of(const TmemMove& move);

/// The evidence of the accumulator row, or model_choice when an arithmetic choice can show.
Evidence evidence_of(const Instruction& instruction);

}  // namespace bitmma
