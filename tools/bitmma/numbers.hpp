// SPDX-License-Identifier: MIT
// Numbers on the command line are accepted exactly or refused. CLI11 alone replaces a number out of range by the
// nearest one, accepts -1 as 2^64 - 1 for unsigned options, and an empty text as 0. The grammar is that of
// bitmma/core/numbers.hpp; words from a debugger, whose base may be a guess, are another: parse_word in flags.hpp.
#pragma once

#include <CLI/CLI.hpp>

#include "bitmma/core/numbers.hpp"

namespace bitmma::cli {

/// Adds the check to every numeric option of the command and of its subcommands. Call it once, after all options exist.
/// An Error for a bad number names the option.
void take_numbers_exactly(CLI::App& command);

}  // namespace bitmma::cli
