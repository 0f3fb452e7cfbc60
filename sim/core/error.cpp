#include "bitmma/core/error.hpp"

namespace bitmma {

std::string print(const Violation& violation) {
  std::string text = violation.field;
  if (!violation.seen.empty()) text += " = " + violation.seen;
  if (!violation.legal.empty()) text += ": legal is " + violation.legal;
  if (!violation.fix.empty()) text += "; " + violation.fix;
  if (!violation.source.empty()) text += " [" + violation.source + "]";
  return text;
}

Error::Error(Violation violation) : Error(std::vector<Violation>{std::move(violation)}) {}

Error::Error(std::vector<Violation> violations) : violations_(std::move(violations)) {
  for (const Violation& violation : violations_) {
    if (!text_.empty()) text_ += '\n';
    text_ += print(violation);
  }
}

}  // namespace bitmma
