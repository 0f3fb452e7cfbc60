// SPDX-License-Identifier: MIT
// A word of 64 bits as people paste it from debuggers, logs and sources.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

struct PastedWord {
  uint64_t value = 0;
  bool is_negative = false;  // a signed number; `value` is its two's complement
  bool is_guess = false;     // the same digits could be meant otherwise
  std::string how = {};      // how it was converted, for the user who pasted it; empty for 0x... and plain decimal
};

/// 0x4000004000010000, also with ULL, u or l behind it and _ or ' between digits; decimal, octal with a leading 0,
/// binary with 0b; -9223372036854775808..-1; hexadecimal without 0x where it has a hexadecimal letter, or 8 or 16
/// digits. Nothing for anything else.
std::optional<PastedWord> read_word(std::string_view text);

}  // namespace bitmma
