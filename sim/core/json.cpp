#include "json.hpp"

namespace bitmma {

Json parse_json(std::string_view text, int most_depth) {
  bool is_deep = false;
  Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        is_deep |= depth > most_depth;
        return !is_deep;
      },
      false);
  return is_deep ? Json(Json::value_t::discarded) : json;
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string ascii_json_text(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

}  // namespace bitmma
