// JSON on its way out. Lists of millions of elements are written one by one: a tree of them takes a thousand times the
// memory of the matrix that they tell of.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>

namespace bitmma::cli {

/// `json` in lines, indented by two. Bytes that are not UTF-8, as names of files may have, become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);

/// Writes what json_text of a list would be, or of an object that ends with one, and a line feed.
class JsonList {
 public:
  explicit JsonList(std::ostream& out);
  /// The list is the last member, `name`, of the object; the others come first.
  JsonList(std::ostream& out, const nlohmann::ordered_json& object, std::string_view name);
  void add(const nlohmann::ordered_json& element);
  void end();

 private:
  std::ostream& out_;
  std::string indent_;
  bool in_object_ = false, is_empty_ = true;
};

}  // namespace bitmma::cli
