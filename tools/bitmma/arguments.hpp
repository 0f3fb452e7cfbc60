// SPDX-License-Identifier: MIT
// Finds mistakes on the command line before CLI11: the first wrong word, a suggestion, missing arguments and mutually
// exclusive flags. One mistake gives one message, in the form of all messages.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "commands.hpp"

namespace bitmma::cli {

/// Throws Error for the first argument that no command accepts: an unknown command or flag, a flag without its value, a
/// superfluous word. Then for everything that is missing, repeated, or mutually exclusive.
void require_known_arguments(const CLI::App& app, std::span<const std::string> arguments);

/// Restricts the option to these words. The error for any other word names it.
void one_of(CLI::Option* option, const std::vector<std::string>& words, bool are_in_help = true);
/// Restricts the option to numbers from `least` to `most`.
void between(CLI::Option* option, double least, double most);

}  // namespace bitmma::cli
