// SPDX-License-Identifier: MIT
// JSON of surveys and of sealed predictions on its way in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../core/json.hpp"
#include "bitmma/survey/survey.hpp"

namespace bitmma::survey {

/// More levels than any file of these has.
inline constexpr int most_depth = 8;

/// Takes values out of an object, each checked. Errors name the value by `where` and its key.
class JsonReader {
 public:
  /// Throws Error unless `json` is an object. It must outlive this.
  JsonReader(const Json& json, std::string where);

  bool has(const char* key) const { return json_.contains(key); }
  bool is_null(const char* key) const { return has(key) && json_[key].is_null(); }
  /// At most 4096 bytes, or `most`.
  std::string text(const char* key, int64_t most = 4096) const;
  /// 0..most.
  int64_t number(const char* key, int64_t most) const;
  double seconds(const char* key) const;
  /// A text of these characters and then lower-case hexadecimal digits.
  uint64_t hash(const char* key, std::string_view begin, size_t digits) const;
  SurveyEnd end(const char* key) const;
  /// The elements of an array, none without one.
  std::vector<Json> list(const char* key, int64_t most) const;
  std::vector<std::string> texts(const char* key, int64_t most) const;
  JsonReader object(const char* key) const { return {json_[key], where_ + "." + key}; }

  [[noreturn]] void refuse(const std::string& key, std::string expected) const;

 private:
  const Json& json_;
  std::string where_;
};

/// The number of `digits` lower-case hexadecimal digits behind `begin`; nothing for any other text.
std::optional<uint64_t> hash_in(std::string_view text, std::string_view begin, size_t digits);

/// An error about a file: its path precedes every field.
template <typename Read>
auto naming(const std::string& path, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    std::vector<Violation> violations = error.violations();
    for (Violation& violation : violations) violation.field = path + ": " + violation.field;
    throw Error(std::move(violations));
  }
}

}  // namespace bitmma::survey
