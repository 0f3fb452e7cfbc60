// SPDX-License-Identifier: MIT
// Reads JSON files without trusting their contents.
//
//   const JsonReader launch(json, "launches[3]");
//   const int64_t module = launch.number("ptx", 15);      Error: launches[3].ptx = -1: expected 0..15
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/core/error.hpp"
#include "json.hpp"

namespace bitmma {

/// Takes values out of an object and checks each one. Errors name the value by `where` and its key.
class JsonReader {
 public:
  /// Throws Error unless `json` is an object. `json` must outlive the reader.
  JsonReader(const Json& json, std::string where);

  bool has(const char* key) const { return json_.contains(key); }
  bool is_null(const char* key) const { return has(key) && json_[key].is_null(); }
  /// Throws Error if the object has any other key.
  void require_keys(std::initializer_list<std::string_view> keys) const;
  /// A text of at most 4096 bytes, or `most`.
  std::string text(const char* key, int64_t most = 4096) const;
  bool flag(const char* key) const;
  /// A number in 0..most.
  int64_t number(const char* key, int64_t most) const;
  double seconds(const char* key) const;
  /// A text that begins with `begin` and continues with `digits` lower-case hexadecimal digits.
  uint64_t hash(const char* key, std::string_view begin, size_t digits) const;
  /// The elements of an array; empty if the array is missing.
  std::vector<Json> list(const char* key, int64_t most) const;
  std::vector<std::string> texts(const char* key, int64_t most) const;
  /// Numbers in 0..most_number.
  std::vector<int64_t> numbers(const char* key, int64_t most, int64_t most_number) const;
  JsonReader object(const char* key) const { return {json_[key], where_ + "." + key}; }

  [[noreturn]] void refuse(const std::string& key, std::string expected) const;

 private:
  const Json& json_;
  std::string where_;
};

/// The number that `digits` lower-case hexadecimal digits after `begin` give; nothing for any other text.
std::optional<uint64_t> hash_in(std::string_view text, std::string_view begin, size_t digits);

/// Adds the file's path before every field of an error.
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

}  // namespace bitmma
