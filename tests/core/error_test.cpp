#include "bitmma/core/error.hpp"

#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("an error prints field, value, what is legal, what to do and the source, one violation a line") {
  const Error error(
      {{.field = "n", .seen = "12", .expected = "8..256 in steps of 8", .fix = "use n = 16", .source = "PTX"},
       {.field = "m", .seen = "63", .expected = "64"}});
  CHECK(std::string(error.what()) == "n = 12: must be 8..256 in steps of 8; use n = 16 [PTX]\nm = 63: must be 64");
  CHECK(error.violations().size() == 2);
}

TEST_CASE("a warning says what was expected, not what is legal, and is otherwise the same line") {
  const std::vector<Violation> violations{
      {.field = "start_address", .seen = "0x80", .expected = "0x0", .fix = "move it", .source = "PTX"}};
  CHECK(violations[0].severity == Severity::error);
  const std::vector<Violation> advice = as_warnings(violations);
  REQUIRE(advice.size() == 1);
  CHECK(advice[0].severity == Severity::warning);
  CHECK(print(advice[0]) == "start_address = 0x80: expected 0x0; move it [PTX]");
  CHECK(print(violations[0]) == "start_address = 0x80: must be 0x0; move it [PTX]");
}

TEST_CASE("a violation reads as its code says: no quantity is equal to anything") {
  CHECK(print(Violation{.code = ViolationCode::not_found, .field = "file", .seen = "x.safetensors"}) ==
        "x.safetensors: no such file");
  CHECK(print(Violation{.code = ViolationCode::unknown_key,
                        .field = "key of a vector file",
                        .seen = "x.npz: arch",
                        .legal = {"target", "instruction"},
                        .fix = "did you mean target?"}) ==
        "x.npz: arch: no such key of a vector file; did you mean target? (available: target or instruction)");
  CHECK(
      print(Violation{.code = ViolationCode::not_together, .field = "--json", .seen = "-o", .fix = "leave one out"}) ==
      "--json and -o: cannot be combined; leave one out");
  CHECK(print(Violation{.code = ViolationCode::unread_argument, .field = "--padding 16", .seen = "changes nothing"}) ==
        "--padding 16: changes nothing");
  CHECK(print(Violation{.code = ViolationCode::missing_argument,
                        .field = "--output",
                        .seen = "missing",
                        .expected = "file to write"}) == "--output: missing; expected file to write");
  CHECK(print(Violation{.code = ViolationCode::no_effect, .field = "m", .seen = "64", .expected = "absent"}) ==
        "m = 64: must be absent");
  CHECK(print(Violation{
            .code = ViolationCode::unusable_file, .field = "x.pt", .seen = "a checkpoint", .expected = "y"}) ==
        "x.pt: a checkpoint; expected y");
}

TEST_CASE("parts that a violation does not have leave no punctuation behind") {
  CHECK(print(Violation{.field = "file"}) == "file");
  CHECK(print(Violation{.field = "file", .seen = "empty"}) == "file = empty");
  CHECK(print(Violation{.field = "file", .fix = "write one"}) == "file; write one");
}

TEST_CASE("where legal values stand for a sentence, an error says them as one") {
  const Violation listed{.field = "swizzle", .seen = "8", .legal = {"none", "32", "64"}};
  CHECK(print(listed) == "swizzle = 8: must be none, 32 or 64");
  CHECK(Error(listed).violations()[0].expected == "none, 32 or 64");
  CHECK(Error(listed).violations()[0].legal == listed.legal);
  CHECK(expected_of({.expected = "a power of two", .legal = {"1", "2"}}) == "a power of two");
}
