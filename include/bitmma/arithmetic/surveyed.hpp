// What surveys of real GPUs confirmed (bitmma gpu --survey, docs/survey.md): rules and choices that were published or
// chosen, and are measured on these targets now. `bitmma survey --patch REPORT` writes the rows of
// sim/arithmetic/surveyed.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/choice.hpp"

namespace bitmma {

/// A row of arithmetic that every survey unit of it confirmed on the target. The columns name the row.
struct SurveyedRule {
  Target target = Target::sm_90a;
  Family family = Family::wgmma;
  FormatSet inputs = {};
  Format output = Format::f32;
  Scaling scaling = Scaling::none;
  bool quad_pairs = false;
  std::string gpu = {};  // "NVIDIA B200, driver 580.159.04, 2026-12-01"

  bool operator==(const SurveyedRule&) const = default;
};

/// A choice of the model that a survey settled in its favour on the target.
struct SurveyedChoice {
  Target target = Target::sm_90a;
  Choice choice = Choice::one_clamp;
  std::string gpu = {};

  bool operator==(const SurveyedChoice&) const = default;
};

struct Surveyed {
  std::vector<SurveyedRule> rules = {};
  std::vector<SurveyedChoice> choices = {};

  bool empty() const { return rules.empty() && choices.empty(); }
};

/// Everything that this version holds.
const Surveyed& surveyed();

/// True when the columns name the row.
bool names(const SurveyedRule& rule, const AccumulatorModel& row);
/// The survey that confirmed the row on the target, or nullptr.
const SurveyedRule* find_surveyed(const AccumulatorModel& model, Target target);
bool is_surveyed_choice(Choice choice, Target target);

/// The rows as a patch of sim/arithmetic/surveyed.cpp, to be reviewed: for `git apply`. Empty without any.
std::string patch_of(const Surveyed& more);

}  // namespace bitmma
