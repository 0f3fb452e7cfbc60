// SPDX-License-Identifier: MIT
#include "json_list.hpp"

namespace bitmma::cli {

JsonList::JsonList(std::ostream& out) : out_(out), indent_("  ") { out_ << '['; }

JsonList::JsonList(std::ostream& out, const Report& object, std::string_view name)
    : out_(out), indent_("    "), in_object_(true) {
  std::string head = to_json(object, 2);
  head.resize(head.size() - 2);  // drops the line of the closing brace
  out_ << head << ",\n  \"" << name << "\": [";
}

void JsonList::add(const Report& element) {
  out_ << (is_empty_ ? "\n" : ",\n") << indent_;
  is_empty_ = false;
  for (const char c : to_json(element, 2)) {
    out_ << c;
    if (c == '\n') out_ << indent_;
  }
}

void JsonList::end() {
  if (!is_empty_) out_ << '\n' << indent_.substr(2);
  out_ << ']' << (in_object_ ? "\n}\n" : "\n");
}

}  // namespace bitmma::cli
