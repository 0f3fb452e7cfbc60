#include "bitmma/core/error.hpp"

#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

/// What a message shows of one value: nobody reads more, and a header of 100 MB may hold it.
constexpr size_t most_bytes = 8000;

/// Values come from files and command lines, messages go to terminals and into JSON.
void make_harmless(Violation& violation) {
  for (std::string* text :
       {&violation.field, &violation.seen, &violation.expected, &violation.fix, &violation.source}) {
    *text = shortened(*text, most_bytes);
  }
}

}  // namespace

std::string print(const Violation& violation) {
  std::string text = violation.field;
  if (!violation.seen.empty()) text += " = " + violation.seen;
  if (!violation.expected.empty()) {
    text += (violation.severity == Severity::error ? ": legal is " : ": expected ") + violation.expected;
  }
  if (!violation.fix.empty()) text += "; " + violation.fix;
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
    make_harmless(violation);
    if (!text_.empty()) text_ += '\n';
    text_ += print(violation);
  }
}

}  // namespace bitmma
