// SPDX-License-Identifier: MIT
// The commands of bitmma survey.
#pragma once

#include "commands.hpp"

namespace bitmma::cli {

void add_survey_read(Command& survey, Context& context);
/// Runs one unit, in the process that a survey started for it.
void add_survey_unit(Command& survey);

}  // namespace bitmma::cli
