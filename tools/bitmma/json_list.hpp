// SPDX-License-Identifier: MIT
// JSON output. Lists of millions of elements are written one by one: as a tree they would take a thousand times the
// memory of the matrix that they describe.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "bitmma/analysis/report.hpp"

namespace bitmma::cli {

/// Writes the same text as to_json of a list, or of an object that ends with one, and a line feed.
class JsonList {
 public:
  explicit JsonList(std::ostream& out);
  /// The list is the object's last member, `name`; the other members come first.
  JsonList(std::ostream& out, const Report& object, std::string_view name);
  void add(const Report& element);
  void end();

 private:
  std::ostream& out_;
  std::string indent_;
  bool in_object_ = false, is_empty_ = true;
};

}  // namespace bitmma::cli
