// SPDX-License-Identifier: MIT
// Numbers on the command line are taken exactly or refused. CLI11 by itself takes what does not fit for the nearest
// number that does, -1 for 2^64 - 1 where nothing is negative, and nothing for 0.
#pragma once

#include <CLI/CLI.hpp>

namespace bitmma::cli {

/// Adds the check to every option of the command and of those below it that takes a number. Called once, when all are
/// there. Others are refused by an Error that names the option.
void take_numbers_exactly(CLI::App& command);

}  // namespace bitmma::cli
