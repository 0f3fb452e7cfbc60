// SPDX-License-Identifier: MIT
// JSON on its way out. Lists of millions of elements are written one by one: a tree of them takes a thousand times the
// memory of the matrix that they tell of.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "bitmma/analysis/report.hpp"

namespace bitmma::cli {

/// Writes what to_json of a list would be, or of an object that ends with one, and a line feed.
class JsonList {
 public:
  explicit JsonList(std::ostream& out);
  /// The list is the last member, `name`, of the object; the others come first.
  JsonList(std::ostream& out, const Report& object, std::string_view name);
  void add(const Report& element);
  void end();

 private:
  std::ostream& out_;
  std::string indent_;
  bool in_object_ = false, is_empty_ = true;
};

}  // namespace bitmma::cli
