// SPDX-License-Identifier: MIT
// Mistakes on the command line, found before CLI11 looks: the first wrong word, what was probably meant, what is
// missing and what excludes each other. One mistake gives one message, in the words of every other one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bitmma/core/error.hpp"
#include "commands.hpp"

namespace bitmma::cli {

/// Throws Error for the first argument that no command takes: an unknown command or flag, a flag without its value, a
/// word too many. Then for all that is missing, given twice, or excludes each other.
void require_known_arguments(const CLI::App& app, std::span<const std::string> arguments);

/// The option is one of the words. Another one is refused by name.
void one_of(CLI::Option* option, const std::vector<std::string>& words);
/// The option is a number from `least` to `most`.
void between(CLI::Option* option, double least, double most);

/// The violation with "did you mean ...?" where one of its `legal` values was probably meant, and it has no fix itself.
Violation with_suggestion(Violation violation);

}  // namespace bitmma::cli
