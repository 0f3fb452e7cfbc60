// SPDX-License-Identifier: MIT
// Makes external text safe for messages: file names, values of keys, user input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// `text` as UTF-8 without control characters: an escape character becomes "\x1b", so that terminals do not interpret
/// it; bytes that are not UTF-8 become U+FFFD. Line feeds and tabs stay.
std::string printable(std::string_view text);

/// The same, cut to at most `most` bytes of whole characters; "..." marks a cut.
std::string shortened(std::string_view text, std::size_t most = 80);

/// "1 case", "2 cases".
std::string counted(std::int64_t count, std::string_view noun);

/// The candidate that `word` probably means: it differs by one inserted, missing, changed or transposed letter; by
/// several in a long word. Returns an empty text if no candidate is that close.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace bitmma
