// SPDX-License-Identifier: MIT
// Reads JSON files without trusting their contents.
//
//   const JsonReader launch(json, "launches[3]");
//   const int64_t module = launch.number("ptx", 15);      Error: launches[3].ptx = -1: expected 0..15
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
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
  /// Throws Error unless `json` is an object. `json` must outlive the reader. A key is named "where.key", and only
  /// "key" or "where key" if `where` is empty or ends in a space.
  JsonReader(const Json& json, std::string where);

  const Json& json() const { return json_; }
  bool has(const std::string& key) const { return json_.contains(key); }
  bool is_null(const std::string& key) const { return has(key) && json_[key].is_null(); }
  std::string name(const std::string& key) const;
  /// Throws Error if the object has any other key.
  void require_keys(std::initializer_list<std::string_view> keys) const;
  /// A text of at most 4096 bytes, or `most`.
  std::string text(const std::string& key, int64_t most = 4096) const;
  bool flag(const std::string& key) const;
  /// A number in 0..most.
  int64_t number(const std::string& key, int64_t most) const;
  /// A whole number in least..most.
  int64_t whole(const std::string& key, int64_t least, int64_t most) const;
  /// A finite number in f32.
  float real(const std::string& key) const;
  /// The place of a text among `words`.
  size_t word(const std::string& key, std::span<const std::string_view> words) const;
  double seconds(const std::string& key) const;
  /// A text that begins with `begin` and continues with `digits` lower-case hexadecimal digits.
  uint64_t hash(const std::string& key, std::string_view begin, size_t digits) const;
  /// The elements of an array; empty if the array is missing.
  std::vector<Json> list(const std::string& key, int64_t most) const;
  std::vector<std::string> texts(const std::string& key, int64_t most) const;
  /// Numbers in 0..most_number.
  std::vector<int64_t> numbers(const std::string& key, int64_t most, int64_t most_number) const;
  JsonReader object(const std::string& key) const { return {json_[key], name(key)}; }
  /// The objects of an array, named "key[0]", "key[1]", ...
  std::vector<JsonReader> objects(const std::string& key) const;

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
