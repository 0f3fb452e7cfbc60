// SPDX-License-Identifier: MIT
// The commands of bitmma survey, and the flags that select the GPU.
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
  /// Throws Error, which names --rehearse, if no target has this name.
  std::optional<Target> rehearsed() const;
  SurveyDevice asked(uint64_t seed = 0) const;
};

/// The command line of this program as `bitmma survey VERB` for the same device; a unit's name, "-o" and a path follow.
std::vector<std::string> command_of_unit(const std::string& verb, const SurveyDeviceFlags& device);

void add_survey_read(Command& survey, Context& context);
/// `survey sealed`, and the command for the processes that it starts.
void add_survey_sealed(Command& survey, Context& context);
void add_survey_seal(Command& survey, Context& context);

}  // namespace bitmma::cli
