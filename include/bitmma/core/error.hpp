// Errors and warnings. One type for every bad request: it carries all violations found, not only the first.
//
//   n = 12: legal is 8..256 in steps of 8; use n = 16 and zero the extra columns of B [PTX ISA 9.7.15.2]
//   ^field ^seen    ^expected               ^fix                                     ^source
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace bitmma {

/// An error stops the request. A warning is advice about something legal that rarely means what was wanted.
enum class Severity : uint8_t { error, warning };

struct Violation {
  std::string field = {};     // what was looked at, in PTX's or the file's own words
  std::string seen = {};      // the value found there
  std::string expected = {};  // what is legal; of a warning, what is usual
  std::string fix = {};       // what to do; may be empty
  std::string source = {};    // where the rule is written; may be empty
  Severity severity = Severity::error;

  bool operator==(const Violation&) const = default;
};

/// One line: "field = seen: legal is ...; fix [source]", or of a warning "field = seen: expected ...; fix [source]".
std::string print(const Violation& violation);

/// The same as advice: every one becomes a warning.
std::vector<Violation> as_warnings(std::vector<Violation> violations);

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
