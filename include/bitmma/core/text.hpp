// SPDX-License-Identifier: MIT
// Makes text from outside fit for a message: names of files, values of keys, what a user typed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// `text` as UTF-8 without control characters: an escape character becomes "\x1b", so that no terminal obeys it; bytes
/// that are not UTF-8 become U+FFFD. Line feeds and tabs stay.
std::string printable(std::string_view text);

/// The same, cut to as many whole characters as fit `most` bytes, with "..." at the end if it was cut.
std::string shortened(std::string_view text, std::size_t most = 80);

/// "1 case", "2 cases".
std::string counted(std::int64_t count, std::string_view noun);

/// The candidate that `word` probably means: it differs by a letter that was added, left out, changed or exchanged with
/// its neighbour, in a long word by several. Returns an empty text if no candidate is that near.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace bitmma
