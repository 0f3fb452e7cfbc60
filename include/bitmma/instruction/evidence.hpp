// How sure the result of one instruction is: the evidence of its accumulator row on the target, and every point where
// nobody has published what the hardware does and this program had to choose.
#pragma once

#include <string_view>
#include <vector>

#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/state.hpp"

namespace bitmma {

/// A point that no source settles.
struct Choice {
  std::string_view what;
  bool is_arithmetic = false;  // it decides values, not places

  bool operator==(const Choice&) const = default;
};

/// The choices that can show in results of `instruction`; of those about operands, what `state` shows.
std::vector<Choice> choices_of(const Instruction& instruction, Target target);
std::vector<Choice> choices_of(const Instruction& instruction, Target target, const State& state);

/// The evidence of the accumulator row, or model_choice when an arithmetic choice can show.
Evidence evidence_of(const Instruction& instruction, Target target);

}  // namespace bitmma
