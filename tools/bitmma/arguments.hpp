// What CLI11 says too late, or not at all, of mistakes on the command line: the first wrong word, what was probably
// meant, and the usage of the command. One mistake gives one message.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bitmma/core/error.hpp"
#include "commands.hpp"

namespace bitmma::cli {

/// Throws Error for the first argument that no command takes: an unknown command or flag, a flag without its value, a
/// word too many. CLI11 alone would first name whatever else is missing.
void require_known_arguments(const CLI::App& app, std::span<const std::string> arguments);

/// What CLI11 refuses, in the words of every other message, and the usage of the command where something is missing.
std::string print_parse_error(const CLI::App& app, const CLI::ParseError& error);

/// The violation with "did you mean ...?" where one of its `legal` values was probably meant.
Violation with_suggestion(Violation violation);

}  // namespace bitmma::cli
