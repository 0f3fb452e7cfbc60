// SPDX-License-Identifier: MIT
// Help, shell completions and man pages, all generated from the commands and their flags.
#pragma once

#include <memory>
#include <string>

#include "commands.hpp"

namespace bitmma::cli {

/// Maximum number of columns.
constexpr size_t help_columns = 100;

/// CLI11's texts, wrapped. Examples continue after a backslash.
std::shared_ptr<CLI::Formatter> help_formatter();

/// `text` with no line longer than `columns`. Unindented lines up to an empty line form a paragraph; lines that begin
/// with "  bitmma" are shell commands.
std::string wrap_help(const std::string& text, size_t columns);

/// bitmma completion SHELL.
void add_completion(Command& app, Context& context);

}  // namespace bitmma::cli
