#include "json_list.hpp"

namespace bitmma::cli {

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

JsonList::JsonList(std::ostream& out) : out_(out), indent_("  ") { out_ << '['; }

JsonList::JsonList(std::ostream& out, const nlohmann::ordered_json& object, std::string_view name)
    : out_(out), indent_("    "), in_object_(true) {
  std::string head = json_text(object);
  head.resize(head.size() - 2);  // without the line of the closing brace
  out_ << head << ",\n  \"" << name << "\": [";
}

void JsonList::add(const nlohmann::ordered_json& element) {
  out_ << (is_empty_ ? "\n" : ",\n") << indent_;
  is_empty_ = false;
  for (const char c : json_text(element)) {
    out_ << c;
    if (c == '\n') out_ << indent_;
  }
}

void JsonList::end() {
  if (!is_empty_) out_ << '\n' << indent_.substr(2);
  out_ << ']' << (in_object_ ? "\n}\n" : "\n");
}

}  // namespace bitmma::cli
