// SPDX-License-Identifier: MIT
// What surveys of real GPUs confirmed (bitmma survey run, docs/survey.md): rules and choices that were only published
// or chosen, and are now measured on these targets. The rows of data/surveys/confirmed.json are compiled in; `bitmma
// survey read --confirmed REPORT` prints the file with the rows that the report adds, for a maintainer to review.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/choice.hpp"

namespace bitmma {

/// A row of arithmetic that all of its survey units confirmed on the target. The columns identify the row.
struct ConfirmedRule {
  Target target = Target::sm_90a;
  Family family = Family::wgmma;
  FormatSet inputs = {};
  Format output = Format::f32;
  Scaling scaling = Scaling::none;
  bool quad_pairs = false;
  std::string gpu = {};  // "NVIDIA B200, driver 580.159.04, 2026-12-01"

  bool operator==(const ConfirmedRule&) const = default;
};

/// A choice of the model that a survey settled in its favour on the target.
struct ConfirmedChoice {
  Target target = Target::sm_90a;
  Choice choice = Choice::one_clamp;
  std::string gpu = {};

  bool operator==(const ConfirmedChoice&) const = default;
};

struct Confirmed {
  std::vector<ConfirmedRule> rules = {};
  std::vector<ConfirmedChoice> choices = {};

  bool empty() const { return rules.empty() && choices.empty(); }
  /// Adds missing rows: one row for each rule or choice of a target; the GPU that confirmed it first stays.
  void add(const Confirmed& more);
  bool operator==(const Confirmed&) const = default;
};

/// The rows of this version.
const Confirmed& confirmed();

/// JSON with one row per line, and back. Throws Error, which names the row and the wrong key.
std::string print(const Confirmed& rows);
Confirmed parse_confirmed(std::string_view json);

/// True if the columns identify the row.
bool names(const ConfirmedRule& rule, const AccumulatorModel& row);
/// The survey that confirmed the row on the target; nullptr if none did.
const ConfirmedRule* find_confirmed(const AccumulatorModel& model, Target target);
bool is_confirmed(Choice choice, Target target);

}  // namespace bitmma
