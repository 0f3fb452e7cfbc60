// Numbers on the command line are taken exactly or refused. CLI11 by itself takes what does not fit for the nearest
// number that does, -1 for 2^64 - 1 where nothing is negative, and nothing for 0.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bitmma::cli {

/// Adds the check to every option of the command and of those below it that takes a whole number. Called once, when all
/// are there.
void take_numbers_exactly(CLI::App& command);

/// A word of 64 bits as people paste it from debuggers, logs and sources.
struct PastedWord {
  uint64_t value = 0;
  bool is_negative = false;  // a signed number; `value` is its two's complement
  bool is_guess = false;     // the same digits could be meant otherwise
  std::string how = {};      // what was done to read it, for the user who pasted it; empty for 0x... and plain decimal
};

/// 0x4000004000010000, also with ULL, u or l behind it and _ or ' between digits; decimal, octal with a leading 0,
/// binary with 0b; -9223372036854775808..-1; hexadecimal without 0x where it has a hexadecimal letter, or 8 or 16
/// digits. Nothing for anything else.
std::optional<PastedWord> read_word(std::string_view text);

}  // namespace bitmma::cli
