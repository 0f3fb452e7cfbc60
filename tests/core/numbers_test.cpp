#include "bitmma/core/numbers.hpp"

#include <limits>

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"
#include "support/number_rows.hpp"
#include "support/violation.hpp"

using namespace bitmma;

TEST_CASE("whole numbers have one grammar") {
  for (const test::NumberRow& row : test::number_rows) {
    INFO(row.text);
    CHECK(parse_whole(row.text) == row.value);
    const bool is_signed = row.value && *row.value < uint64_t{1} << 63;
    CHECK(parse_signed(row.text).has_value() == (is_signed || row.text == "-1"));
  }
  CHECK(parse_signed("-9223372036854775808") == std::numeric_limits<int64_t>::min());
  CHECK(parse_signed("-9223372036854775809") == std::nullopt);
  CHECK(parse_signed("-0x10") == -16);
  CHECK(parse_signed("-+1") == std::nullopt);
  CHECK(split_list("4,2,") == std::vector<std::string>{"4", "2", ""});
  CHECK(split_list("") == std::vector<std::string>{""});
  CHECK(split_list("1x2,3", ",x") == std::vector<std::string>{"1", "2", "3"});
}

TEST_CASE("integers have a width, decimal numbers the nearest double, and lists commas") {
  CHECK(parse_integer("255", 8, false) == 255);
  CHECK(parse_integer("0xff", 8, false) == 255);
  CHECK(parse_integer("256", 8, false) == std::nullopt);
  CHECK(parse_integer("-1", 8, false) == std::nullopt);
  CHECK(parse_integer("-128", 8, true) == 0x80);
  CHECK(parse_integer("127", 8, true) == 0x7F);
  CHECK(parse_integer("128", 8, true) == std::nullopt);
  CHECK(parse_integer("-129", 8, true) == std::nullopt);
  CHECK(parse_integer("-9223372036854775808", 64, true) == uint64_t{1} << 63);
  CHECK(parse_integer("18446744073709551615", 64, false) == ~uint64_t{0});
  CHECK(parse_integer("010", 32, true) == std::nullopt);
  CHECK(parse_decimal("0.1") == 0.1);
  CHECK(parse_decimal("+2.5e-3") == 2.5e-3);
  CHECK(parse_decimal("-inf") == -std::numeric_limits<double>::infinity());
  for (const char* text : {"", "+", "+-1", "0x10", "1e999", "1,5", "1 ", "one"}) {
    INFO(text);
    CHECK(parse_decimal(text) == std::nullopt);
  }
  CHECK(parse_signed_list("3,-1") == std::vector<int64_t>{3, -1});
  for (const char* text : {"", "3,", "a", "1.5", "1 2"}) {
    INFO(text);
    CHECK(parse_signed_list(text) == std::nullopt);
  }
}

TEST_CASE("extents and indices are lists of whole numbers, and an error names their field") {
  CHECK(parse_extents("grid", "4,2") == std::array<int64_t, 3>{4, 2, 1});
  CHECK(parse_extents("grid", "4x2x3") == std::array<int64_t, 3>{4, 2, 3});
  CHECK(parse_extents("grid", "0x10") == std::array<int64_t, 3>{16, 1, 1});
  CHECK(parse_extents("grid", "+1,1e3") == std::array<int64_t, 3>{1, 1000, 1});
  for (const char* text : {"", "0", "1,,2", "1,", ",1", "1,1,1,1", "2147483648", "-1", "a"}) {
    INFO(text);
    const auto violation = test::violation_of([&] { parse_extents("grid", text); });
    REQUIRE(violation);
    CHECK(violation->field == "grid");
  }
  CHECK(parse_indices("rows", "0..3,6,5", 8) == std::vector<int>{0, 1, 2, 3, 6, 5});
  for (const char* text : {"", "8", "5..3", "0..8", "1,,2", "..3", "a"}) {
    INFO(text);
    const auto violation = test::violation_of([&] { parse_indices("rows", text, 8); });
    REQUIRE(violation);
    CHECK(violation->field == "rows");
  }
}
