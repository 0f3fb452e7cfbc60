#include "bitmma/acts/describe_operator.hpp"

#include <fmt/format.h>

#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("the report of an operator's output has every step, its text the first and the last parts") {
  OperatorTrace trace{.name = "attention", .output = {0, 3, 5}, .plan = {{"kernel", "flash"}}};
  for (int part = 0; part < 9; ++part) {
    trace.steps.push_back({.part = fmt::format("keys {}", part),
                           .what = "sums",
                           .operation = "a + b",
                           .rounding = "to nearest even",
                           .words = {0x3F800000, 0x40000000, 0x40400000, 0x40800000, 0x40A00000}});
  }
  trace.steps.push_back({.part = "end",
                         .what = "output",
                         .operation = "as f16",
                         .rounding = "exact",
                         .format = Format::f16,
                         .words = {0x3E00}});
  const Report report = describe(trace, 4);
  CHECK(to_json(*report.find("output")) == "[0,3,5]");
  CHECK(to_json(*report.find("plan")) == R"({"kernel":"flash"})");
  CHECK(to_json(*report.find("word")) == R"("0x3e00")");
  CHECK(to_json(*report.find("value")) == R"("1.5")");
  const auto& steps = std::get<Report::List>(report.find("steps")->value);
  REQUIRE(steps.size() == 10);
  CHECK(
      to_json(steps[0]) ==
      R"({"part":"keys 0","step":"sums","operation":"a + b","rounding":"to nearest even","type":"f32",)"
      R"("words":["0x3f800000","0x40000000","0x40400000","0x40800000","0x40a00000"],"values":["1","2","3","4","5"]})");
  const std::string text = print(report);
  CHECK_THAT(text, ContainsSubstring("(0, 3, 5) of attention, f16 0x3e00 = 1.5"));
  CHECK_THAT(text, ContainsSubstring("5: 1, 2, ..., 5"));
  CHECK_THAT(text,
             ContainsSubstring("keys 1\n") && ContainsSubstring("6 more parts") && !ContainsSubstring("keys 2\n"));
  CHECK_THAT(text, ContainsSubstring("keys 8\n") && ContainsSubstring("end\n"));
  CHECK_THAT(print(describe(trace, 10)), !ContainsSubstring("more part"));
}
