#include "bitmma/core/error.hpp"

namespace bitmma {

std::string print(const Violation& violation) {
  std::string text = violation.field;
  if (!violation.seen.empty()) text += " = " + violation.seen;
  if (!violation.expected.empty()) {
    text += (violation.severity == Severity::error ? ": legal is " : ": expected ") + violation.expected;
  }
  if (!violation.fix.empty()) text += "; " + violation.fix;
  if (!violation.source.empty()) text += " [" + violation.source + "]";
  return text;
}

std::vector<Violation> as_warnings(std::vector<Violation> violations) {
  for (Violation& violation : violations) violation.severity = Severity::warning;
  return violations;
}

Error::Error(Violation violation) : Error(std::vector<Violation>{std::move(violation)}) {}

Error::Error(std::vector<Violation> violations) : violations_(std::move(violations)) {
  for (const Violation& violation : violations_) {
    if (!text_.empty()) text_ += '\n';
    text_ += print(violation);
  }
}

}  // namespace bitmma
