// SPDX-License-Identifier: MIT
// Open points about places and bits that no source settles, or where hardware contradicts the documents. Each is a case
// whose outcome identifies the answer: the model's behaviour, or an alternative.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/arithmetic/choice.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/state.hpp"

namespace bitmma::survey {

/// The instruction, its target and the state before it.
struct Trial {
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;
  State before = {};
};

/// One possible behaviour of the hardware. The first answer of a question is the model's behaviour.
struct Answer {
  std::string_view text = {};                // "the upper half is kept"
  std::function<State(const Trial&)> after;  // the state after the instruction, if this answer is right
};

struct Question;
/// Draws a case of the question on the target.
using Ask = std::function<Trial(const Question&, Target, RandomStream&)>;

struct Question {
  std::string_view name = {};         // "upper half of f16 cells": unique
  std::optional<Choice> choice = {};  // the choice that it settles; empty if hardware has settled it
  Instruction instruction = Wgmma{};
  TargetSet targets = {};
  Ask ask;
  std::vector<Answer> answers = {};
};

/// Every question, built on each call: cache the result.
std::vector<Question> questions();
/// The subset about pairs of CTAs, .ws and scales beyond a cell.
std::vector<Question> questions_of_places();

/// The words of every field that the instruction writes, as bytes, one field after another. For a matrix instruction in
/// Tensor Memory this is the whole memory: cells that must not change are compared too.
std::vector<uint8_t> written_bytes(const Instruction& instruction, const State& after);

}  // namespace bitmma::survey
