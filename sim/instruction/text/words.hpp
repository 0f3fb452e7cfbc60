// SPDX-License-Identifier: MIT
// Small pieces of PTX text: names, integers, lists, and their form in messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bitmma::syntax {

std::string_view trimmed(std::string_view text);

/// Text for a message: at most 80 characters, "(nothing)" if empty, '?' for characters that are unsafe for a terminal.
std::string shown(std::string_view text);

/// A register, variable or placeholder: "%r1", "d0", "p".
bool is_name(std::string_view text);

/// A PTX integer constant: "12", "-1", "0x1F", "0b11", "017", "3U". Nothing for other text, or if it exceeds int64_t.
std::optional<int64_t> integer(std::string_view text);

/// The pieces between commas outside braces and brackets, trimmed; none for an empty text. Nothing if a brace or
/// bracket is unmatched.
std::optional<std::vector<std::string_view>> split_list(std::string_view text);

}  // namespace bitmma::syntax
