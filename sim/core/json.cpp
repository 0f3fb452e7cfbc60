// SPDX-License-Identifier: MIT
#include "json.hpp"

#include <optional>
#include <set>
#include <vector>

#include "ieee_environment.hpp"

namespace bitmma {

Json parse_json(std::string_view text, int most_depth, std::string* repeated_key) {
  bool is_deep = false;
  std::vector<std::set<std::string>> keys;  // of the enclosing objects
  std::optional<std::string> repeated;
  const auto observe = [&](int depth, Json::parse_event_t event, Json& parsed) {
    is_deep |= depth > most_depth;
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second && !repeated)
      repeated = parsed.get<std::string>();
    return !is_deep;
  };
  // strtod rounds as the host does.
  Json json = in_ieee_environment([&] { return Json::parse(text, observe, false); });
  if (repeated && repeated_key) *repeated_key = *repeated;
  return is_deep || repeated ? Json(Json::value_t::discarded) : json;
}

std::string json_text(const Json& json, int indent) {
  return in_ieee_environment([&] { return json.dump(indent, ' ', false, Json::error_handler_t::replace); });
}

std::string ascii_json_text(const Json& json) {
  return in_ieee_environment([&] { return json.dump(-1, ' ', true, Json::error_handler_t::replace); });
}

}  // namespace bitmma
