// SPDX-License-Identifier: MIT
// JSON inside the library. Reading and printing compile long: every file calls these functions instead.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace bitmma {

using Json = nlohmann::ordered_json;

/// The tree of a text, or a discarded value if the text is no JSON, nests deeper than `most_depth` (functions that walk
/// a tree call themselves for every level, and the stack is finite) or has a key twice, which goes to `repeated_key`:
/// one of the two values would be ignored.
Json parse_json(std::string_view text, int most_depth = 64, std::string* repeated_key = nullptr);

/// In one line or, with `indent` spaces, in several. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const Json& json, int indent = -1);
/// In one line; characters outside ASCII are escaped.
std::string ascii_json_text(const Json& json);

}  // namespace bitmma
