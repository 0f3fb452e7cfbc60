// SPDX-License-Identifier: MIT
// JSON inside the library. The JSON header compiles slowly: every file calls these functions instead.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace bitmma {

using Json = nlohmann::ordered_json;

/// Parses a text. Returns a discarded value if the text is not JSON, nests deeper than `most_depth` (functions that
/// walk a tree are recursive, and the stack is finite) or repeats a key. A repeated key goes to `repeated_key`: a
/// reader would ignore one of the two values.
Json parse_json(std::string_view text, int most_depth = 64, std::string* repeated_key = nullptr);

/// Prints one line or, with `indent` spaces, several lines. Bytes that are not UTF-8 become U+FFFD; control characters
/// are escaped, so that terminals do not interpret them.
std::string json_text(const Json& json, int indent = -1);
/// Prints one line; escapes characters outside ASCII.
std::string ascii_json_text(const Json& json);

}  // namespace bitmma
