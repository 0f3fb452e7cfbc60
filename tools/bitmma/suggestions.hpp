// SPDX-License-Identifier: MIT
// What a wrong word on the command line was probably meant to be.
#pragma once

#include <string>
#include <string_view>

#include "bitmma/core/error.hpp"
#include "commands.hpp"

namespace bitmma::cli {

/// The replacement for a word of other programs, or of earlier versions, after `command`; empty if there is none.
std::string other_word_for(const CLI::App& command, const std::string& word);
/// Adds "did you mean ...?" if one of the violation's `legal` values was probably meant, and it has no fix.
Violation with_suggestion(Violation violation);

/// The flag with this name, including dashes; nullptr if the command has none.
const CLI::Option* flag_named(const CLI::App& command, const std::string& name);
/// True for what a number begins with, and for inf, infinity and nan; each after a minus sign, too.
bool is_number(std::string_view text);

}  // namespace bitmma::cli
