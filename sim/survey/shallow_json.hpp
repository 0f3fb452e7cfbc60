// JSON of files that come from anybody.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace bitmma::survey {

/// The JSON of a text; a discarded value if the text is no JSON, null if it nests deeper than `most_depth`: a deep one
/// would overflow the stack of its reader.
inline nlohmann::ordered_json parse_shallow(std::string_view text, int most_depth) {
  using Json = nlohmann::ordered_json;
  bool is_deep = false;
  const Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        is_deep |= depth > most_depth;
        return !is_deep;
      },
      false);
  return is_deep ? Json() : json;
}

}  // namespace bitmma::survey
