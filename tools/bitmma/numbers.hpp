// SPDX-License-Identifier: MIT
// Numbers on the command line are accepted exactly or refused. CLI11 alone replaces a number out of range by the
// nearest one, accepts -1 as 2^64 - 1 for unsigned options, and an empty text as 0.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bitmma::cli {

/// A whole number as every option reads it: decimal digits, 1e3, or hexadecimal after 0x; a plus sign may precede it.
/// Nothing for other texts, for numbers of more than 64 bits, and for superfluous leading zeros, which C reads as
/// octal. Words from a debugger, whose base may be a guess, are another grammar: parse_word in flags.hpp.
std::optional<uint64_t> parse_whole(std::string_view text);
/// The same with a minus sign, in -2^63..2^63-1.
std::optional<int64_t> parse_signed(std::string_view text);
/// The parts between the separators, also empty ones: "4,2," has three.
std::vector<std::string> split_list(std::string_view text, std::string_view separators = ",");

/// Adds the check to every numeric option of the command and of its subcommands. Call it once, after all options exist.
/// An Error for a bad number names the option.
void take_numbers_exactly(CLI::App& command);

}  // namespace bitmma::cli
