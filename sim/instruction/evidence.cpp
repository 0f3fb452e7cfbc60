#include "bitmma/instruction/evidence.hpp"

#include <algorithm>

#include "bitmma/arithmetic/surveyed.hpp"
#include "bitmma/instruction/execute.hpp"
#include "family.hpp"

namespace bitmma {
namespace {

std::vector<Choice> choices_in(const Instruction& instruction, Target target, const State* state) {
  std::vector<Choice> choices =
      family::dispatch([&](const auto& one) { return family::choices(one, target, state); }, instruction);
  std::erase_if(choices, [&](const Choice& one) { return is_surveyed_choice(one.what, target); });
  return choices;
}

}  // namespace

std::vector<Choice> choices_of(const Instruction& instruction, Target target) {
  return choices_in(instruction, target, nullptr);
}

std::vector<Choice> choices_of(const Instruction& instruction, Target target, const State& state) {
  return choices_in(instruction, target, &state);
}

Evidence evidence_of(const Instruction& instruction, Target target) {
  const std::vector<Choice> choices = choices_of(instruction, target);
  if (std::ranges::any_of(choices, &Choice::is_arithmetic)) return Evidence::model_choice;
  return evidence_of(model_for(instruction, target), target, mma_of(instruction).stored_k());
}

}  // namespace bitmma
