// SPDX-License-Identifier: MIT
// The commands of bitmma survey, and the flags that say which GPU is asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bitmma/survey/survey.hpp"
#include "commands.hpp"

namespace bitmma::cli {

/// --device and --rehearse.
struct SurveyDeviceFlags {
  Flag<int> ordinal = 0;
  Flag<std::string> rehearse = {};

  void add(Command& command);
  /// Throws Error naming --rehearse when no target has this name.
  std::optional<Target> rehearsed() const;
  SurveyDevice asked(uint64_t seed = 0) const;
};

/// This program again, as `bitmma survey VERB` for the same device; a unit's name, "-o" and a path follow.
std::vector<std::string> command_of_unit(const std::string& verb, const SurveyDeviceFlags& device);

void add_survey_read(Command& survey, Context& context);
/// `survey sealed`, and the command of the processes that it starts.
void add_survey_sealed(Command& survey, Context& context);
void add_survey_seal(Command& survey, Context& context);

}  // namespace bitmma::cli
