// SPDX-License-Identifier: MIT
// A 64-bit word as pasted from a debugger, a log or source code.
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
  bool is_guess = false;     // the digits have another possible reading
  std::string how = {};      // the conversion, explained to the user; empty for 0x... and plain decimal
};

/// Accepts 0x4000004000010000, also with suffix ULL, u or l and separators _ or '; decimal, octal with a leading 0,
/// binary with 0b; -9223372036854775808..-1; hexadecimal without 0x if it has a hexadecimal letter, or 8 or 16 digits.
/// Returns nothing for any other text.
std::optional<PastedWord> read_word(std::string_view text);

}  // namespace bitmma
