// Tests of refused requests compare the code and the field of a violation; its sentence goes to tests/messages.txt.
//
//   CHECK_THROWS_MATCHES(encode(mask), Error, refused(ViolationCode::illegal_value, "skip_span"));
//   CHECK_THAT(refusal_of([&] { encode(mask); }), refused(ViolationCode::illegal_value, "skip_span"));
//   CHECK_THAT(run_line("verify absent").violations, refused(ViolationCode::not_found, "file"));
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"
#include "support/messages.hpp"

namespace bitmma::test {

/// The violations of the Error that `body` throws; empty where it throws none.
template <typename Body>
std::vector<Violation> refusal_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.violations();
  }
  return {};
}

/// What is refused, in a table of a test.
struct Refusal {
  ViolationCode code;
  std::string field;
};

/// Matches an Error, or violations, of which one has this code and field. All their messages go to the approved file.
class Refused : public Catch::MatcherBase<Error> {
 public:
  Refused(ViolationCode code, std::string field) : parts_{{code, std::move(field)}} {}

  bool match(const Error& error) const override { return match(error.violations()); }
  bool match(const std::vector<Violation>& violations) const {
    for (const Violation& violation : violations) note_message(print(violation));
    return std::ranges::all_of(parts_, [&](const Refusal& part) {
      return std::ranges::any_of(violations, [&](const Violation& violation) {
        return violation.code == part.code &&
               (violation.field == part.field || approved_form(violation.field) == part.field);
      });
    });
  }
  std::string describe() const override {
    std::string text;
    for (const Refusal& part : parts_)
      text += (text.empty() ? "has " : " and ") + std::string(print(part.code)) + " of \"" + part.field + "\"";
    return text;
  }

  /// Both: of what an Error or violations have.
  Refused operator&&(const Refused& other) const {
    Refused both = *this;
    both.parts_.insert(both.parts_.end(), other.parts_.begin(), other.parts_.end());
    return both;
  }

 private:
  std::vector<Refusal> parts_;
};

/// In `field` stands $FOLDER for a temporary folder, as in the approved file.
inline Refused refused(ViolationCode code, std::string field) { return {code, std::move(field)}; }
inline Refused refused(const Refusal& refusal) { return {refusal.code, refusal.field}; }

}  // namespace bitmma::test

namespace Catch {

template <>
struct StringMaker<bitmma::Violation> {
  static std::string convert(const bitmma::Violation& violation) {
    return std::string(print(violation.code)) + " of \"" + violation.field + "\": " + print(violation);
  }
};

template <>
struct StringMaker<bitmma::Error> {
  static std::string convert(const bitmma::Error& error) { return ::Catch::Detail::stringify(error.violations()); }
};

}  // namespace Catch
