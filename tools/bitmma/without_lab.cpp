// SPDX-License-Identifier: MIT
// In place of the folder lab, where component lab is not built.
#include "bitmma/core/error.hpp"
#include "commands.hpp"

namespace bitmma::cli {

void add_survey(Command&, Context&) {}

void require_lab(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "survey") return;
  throw Error({.field = "bitmma survey",
               .seen = "not in this program",
               .expected = "a program with the laboratory",
               .fix = "in a checkout of bitmma, tools/survey-gpu builds it and surveys the GPU"});
}

}  // namespace bitmma::cli
