// SPDX-License-Identifier: MIT
// The commands of bitmma survey.
#pragma once

#include "commands.hpp"

namespace bitmma::cli {

void add_survey_read(Command& survey, Context& context);

}  // namespace bitmma::cli
