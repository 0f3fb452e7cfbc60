// SPDX-License-Identifier: MIT
// Small pieces of PTX text: names, integers, lists, and how a message shows what it found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bitmma::syntax {

std::string_view trimmed(std::string_view text);

/// Text for a message: at most 80 characters, "(nothing)" if empty, '?' for characters that a terminal must not get.
std::string shown(std::string_view text);

/// A register, variable or placeholder: "%r1", "d0", "p".
bool is_name(std::string_view text);

/// A PTX integer constant: "12", "-1", "0x1F", "0b11", "017", "3U". Nothing when it is none or fits no int64_t.
std::optional<int64_t> integer(std::string_view text);

/// The pieces between commas that stand outside of braces and brackets, trimmed; no piece for an empty text. Nothing
/// when a brace or bracket has no partner.
std::optional<std::vector<std::string_view>> split_list(std::string_view text);

}  // namespace bitmma::syntax
