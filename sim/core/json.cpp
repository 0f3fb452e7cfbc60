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

namespace {

/// JSON allows DEL and the C1 controls, U+0080..U+009F, inside texts, but terminals obey them.
std::string with_escaped_controls(const std::string& json) {
  std::string escaped;
  for (size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = static_cast<unsigned char>(i + 1 < json.size() ? json[i + 1] : 0);
    const bool is_c1 = byte == 0xC2 && next >= 0x80 && next < 0xA0;
    if (byte != 0x7F && !is_c1) {
      escaped += json[i];
      continue;
    }
    constexpr std::string_view digits = "0123456789abcdef";
    const unsigned code = is_c1 ? next : byte;
    escaped += {'\\', 'u', '0', '0', digits[code / 16], digits[code % 16]};
    i += is_c1;
  }
  return escaped;
}

}  // namespace

std::string json_text(const Json& json, int indent) {
  std::string text = in_ieee_environment([&] { return json.dump(indent, ' ', false, Json::error_handler_t::replace); });
  const bool has_control = text.find_first_of("\x7F\xC2") != std::string::npos;
  return has_control ? with_escaped_controls(text) : text;
}

std::string ascii_json_text(const Json& json) {
  return in_ieee_environment([&] { return json.dump(-1, ' ', true, Json::error_handler_t::replace); });
}

}  // namespace bitmma
