// SPDX-License-Identifier: MIT
#include "bitmma/core/error.hpp"

#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

/// Longer values are truncated in messages: the header of a file may hold 100 MB.
constexpr size_t most_bytes = 8000;

/// Values come from files and command lines; messages go to terminals and into JSON.
void make_harmless(Violation& violation) {
  for (std::string* text :
       {&violation.field, &violation.seen, &violation.expected, &violation.fix, &violation.source}) {
    *text = shortened(*text, most_bytes);
  }
}

}  // namespace

std::string alternatives(const std::vector<std::string>& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : i + 1 < values.size() ? ", " : " or ") + values[i];
  }
  return text;
}

std::string expected_of(const Violation& violation) {
  return violation.expected.empty() ? alternatives(violation.legal) : violation.expected;
}

std::string print(const Violation& violation) {
  const std::string &field = violation.field, &seen = violation.seen, expected = expected_of(violation);
  const std::string fix = violation.fix.empty() ? "" : "; " + violation.fix;
  const auto before = [&](std::string_view words) { return expected.empty() ? "" : std::string(words) + expected; };
  std::string text;
  switch (info(violation.code).form) {
    case MessageForm::wrong_value:
      text = (seen.empty() ? field : field + " = " + seen) +
             before(violation.severity == Severity::error ? ": must be " : ": expected ") + fix;
      break;
    case MessageForm::no_such: {  // the list of names may be long: the suggestion precedes it
      const size_t kind = field.rfind(": ") == std::string::npos ? 0 : field.rfind(": ") + 2;  // after FILE:
      text = field.substr(0, kind) + seen + ": no such " + field.substr(kind) + fix + before(" (available: ") +
             (expected.empty() ? "" : ")");
      break;
    }
    case MessageForm::not_together: text = field + " and " + seen + ": cannot be combined" + before(": ") + fix; break;
    case MessageForm::statement: text = field + ": " + seen + before("; expected ") + fix; break;
  }
  if (!violation.source.empty()) text += " [" + violation.source + "]";
  return printable(text);
}

std::vector<Violation> as_warnings(std::vector<Violation> violations) {
  for (Violation& violation : violations) violation.severity = Severity::warning;
  return violations;
}

Error::Error(Violation violation) : Error(std::vector<Violation>{std::move(violation)}) {}

Error::Error(std::vector<Violation> violations) : violations_(std::move(violations)) {
  for (Violation& violation : violations_) {
    violation.expected = expected_of(violation);
    make_harmless(violation);
    if (!text_.empty()) text_ += '\n';
    text_ += print(violation);
  }
}

}  // namespace bitmma
