// SPDX-License-Identifier: MIT
// Help, completions of shells and man pages: all made from the commands and their flags.
#pragma once

#include <memory>
#include <string>

#include "commands.hpp"

namespace bitmma::cli {

/// Help of at most this many columns.
constexpr size_t help_columns = 100;

/// Texts of CLI11, wrapped. Examples go on behind a backslash.
std::shared_ptr<CLI::Formatter> help_formatter();

/// `text` with no line longer than `columns`. Lines without indentation are one paragraph until an empty line; lines
/// that begin with "  bitmma" are commands of a shell.
std::string wrap_help(const std::string& text, size_t columns);

/// bitmma completion SHELL, bitmma manual [COMMAND ...].
void add_completion(Command& app, Context& context);
void add_manual(Command& app, Context& context);

}  // namespace bitmma::cli
