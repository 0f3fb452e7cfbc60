// SPDX-License-Identifier: MIT
#include "json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bitmma/core/text.hpp"
#include "ieee_environment.hpp"

namespace bitmma {
namespace {

/// The value as text; for lists and objects, which may be deep, only the kind.
std::string seen_of(const Json& json) {
  if (json.is_structured()) return json.is_array() ? "a list" : "an object";
  return shortened(printable(ascii_json_text(json)));
}

}  // namespace

std::optional<uint64_t> hash_in(std::string_view text, std::string_view begin, size_t digits) {
  if (text.size() != begin.size() + digits || !text.starts_with(begin)) return std::nullopt;
  uint64_t value = 0;
  for (const char letter : text.substr(begin.size())) {
    const auto digit = std::string_view("0123456789abcdef").find(letter);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value << 4 | digit;
  }
  return value;
}

JsonReader::JsonReader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
  if (!json.is_object()) refuse("", "an object");
}

void JsonReader::require_keys(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : json_.items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    throw Error({.code = ViolationCode::unknown_name,
                 .field = where_,
                 .seen = shortened(printable(key)),
                 .legal = {keys.begin(), keys.end()}});
  }
}

bool JsonReader::flag(const std::string& key) const {
  if (!has(key) || !json_[key].is_boolean()) refuse(key, "true or false");
  return json_[key].get<bool>();
}

std::string JsonReader::text(const std::string& key, int64_t most) const {
  if (!has(key) || !json_[key].is_string()) refuse(key, "a text");
  std::string value = json_[key].get<std::string>();
  if (static_cast<int64_t>(value.size()) > most) refuse(key, fmt::format("at most {} letters", most));
  return value;
}

int64_t JsonReader::number(const std::string& key, int64_t most) const {
  // The JSON parser makes non-negative numbers unsigned.
  if (!has(key) || !json_[key].is_number_unsigned() || json_[key].get<uint64_t>() > static_cast<uint64_t>(most))
    refuse(key, fmt::format("0..{}", most));
  return json_[key].get<int64_t>();
}

int64_t JsonReader::whole(const std::string& key, int64_t least, int64_t most) const {
  const auto refuse_this = [&] { refuse(key, fmt::format("a whole number in {}..{}", least, most)); };
  if (!has(key) || !json_[key].is_number_integer()) refuse_this();
  const Json& value = json_[key];
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::max<int64_t>(most, 0)))
    refuse_this();
  if (value.get<int64_t>() < least || value.get<int64_t>() > most) refuse_this();
  return value.get<int64_t>();
}

float JsonReader::real(const std::string& key) const {
  return in_ieee_environment([&]() -> float {
    if (!has(key) || !json_[key].is_number() || !std::isfinite(json_[key].get<float>()))
      refuse(key, "a number that f32 represents");
    return json_[key].get<float>();
  });
}

size_t JsonReader::word(const std::string& key, std::span<const std::string_view> words) const {
  if (!has(key) || !json_[key].is_string()) refuse(key, alternatives({words.begin(), words.end()}));
  const auto text = json_[key].get<std::string>();
  const auto place = std::ranges::find(words, text);
  if (place != words.end()) return static_cast<size_t>(place - words.begin());
  throw Error({.field = name(key), .seen = shortened(printable(text)), .legal = {words.begin(), words.end()}});
}

double JsonReader::seconds(const std::string& key) const {
  return in_ieee_environment([&]() -> double {
    if (!has(key) || !json_[key].is_number() || json_[key].get<double>() < 0) refuse(key, "seconds, 0 or more");
    return json_[key].get<double>();
  });
}

uint64_t JsonReader::hash(const std::string& key, std::string_view begin, size_t digits) const {
  const std::optional<uint64_t> value = hash_in(text(key), begin, digits);
  if (!value) refuse(key, fmt::format("{}{}{} hexadecimal digits", begin, begin.empty() ? "" : " and ", digits));
  return *value;
}

std::vector<Json> JsonReader::list(const std::string& key, int64_t most) const {
  if (!has(key)) return {};
  if (!json_[key].is_array() || static_cast<int64_t>(json_[key].size()) > most)
    refuse(key, fmt::format("a list of at most {}", most));
  return json_[key].get<std::vector<Json>>();
}

std::vector<JsonReader> JsonReader::objects(const std::string& key) const {
  if (!has(key) || !json_[key].is_array()) refuse(key, "an array of objects");
  std::vector<JsonReader> objects;
  for (const Json& element : json_[key])
    objects.emplace_back(element, fmt::format("{}[{}]", name(key), objects.size()));
  return objects;
}

std::vector<std::string> JsonReader::texts(const std::string& key, int64_t most) const {
  std::vector<std::string> texts;
  for (const Json& json : list(key, most)) {
    if (!json.is_string()) refuse(key, "texts");
    texts.push_back(json.get<std::string>());
  }
  return texts;
}

std::vector<int64_t> JsonReader::numbers(const std::string& key, int64_t most, int64_t most_number) const {
  std::vector<int64_t> numbers;
  for (const Json& json : list(key, most)) {
    if (!json.is_number_unsigned() || json.get<uint64_t>() > static_cast<uint64_t>(most_number))
      refuse(key, fmt::format("numbers of 0..{}", most_number));
    numbers.push_back(json.get<int64_t>());
  }
  return numbers;
}

std::string JsonReader::name(const std::string& key) const {
  if (key.empty()) return where_.substr(0, where_.find_last_not_of(": ") + 1);
  return where_.empty() || where_.back() == ' ' ? where_ + key : where_ + "." + key;
}

void JsonReader::refuse(const std::string& key, std::string expected) const {
  throw Error({.code = key.empty() || has(key) ? ViolationCode::illegal_value : ViolationCode::missing_input,
               .field = name(key),
               .seen = key.empty() ? seen_of(json_)
                       : has(key)  ? seen_of(json_[key])
                                   : "(missing)",
               .expected = std::move(expected)});
}

}  // namespace bitmma
