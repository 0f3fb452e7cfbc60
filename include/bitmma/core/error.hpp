// Errors. One type for every bad request: it carries all violations found, not only the first.
//
//   n = 12: legal is 8..256 in steps of 8; use n = 16 and zero the extra columns of B [PTX ISA 9.7.15.2]
//   ^field ^seen    ^legal                 ^fix                                       ^source
#pragma once

#include <exception>
#include <string>
#include <vector>

namespace bitmma {

struct Violation {
  std::string field;   // what was looked at, in PTX's or the file's own words
  std::string seen;    // the value found there
  std::string legal;   // what would have been legal
  std::string fix;     // what to do; may be empty
  std::string source;  // where the rule is written; may be empty

  bool operator==(const Violation&) const = default;
};

/// One line: "field = seen: legal is ...; fix [source]".
std::string print(const Violation& violation);

/// A request that cannot be carried out. Nothing has been written when it is thrown.
class Error : public std::exception {
 public:
  explicit Error(Violation violation);
  explicit Error(std::vector<Violation> violations);

  const std::vector<Violation>& violations() const { return violations_; }
  /// All violations, one a line.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::vector<Violation> violations_;
  std::string text_;
};

}  // namespace bitmma
