#include "bitmma/core/text.hpp"

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("text of messages is UTF-8 without control characters") {
  CHECK(printable("") == "");
  CHECK(printable("m = 64, \xC3\xA4, \xE2\x82\xAC, \xF0\x9F\x98\x80") ==
        "m = 64, \xC3\xA4, \xE2\x82\xAC, \xF0\x9F\x98\x80");
  CHECK(printable("\x1b[31mred\x1b[0m") == "\\x1b[31mred\\x1b[0m");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\x7f\r\b") == "\\x7f\\x0d\\x08");
  CHECK(printable("two\nlines\tand a tab") == "two\nlines\tand a tab");
  // A terminal may take U+009B for the beginning of an escape sequence.
  CHECK(printable("\xC2\x9B\x33\x31m") == "\\x9b31m");
  CHECK(printable("\xC2\xA0") == "\xC2\xA0");
}

TEST_CASE("every byte that is no part of a character becomes U+FFFD") {
  const std::string unknown = "\xEF\xBF\xBD";
  CHECK(printable("\xff") == unknown);
  CHECK(printable("a\x80z") == "a" + unknown + "z");
  CHECK(printable("\xC3") == unknown);                                            // cut off
  CHECK(printable("\xC0\xAF") == unknown + unknown);                              // overlong
  CHECK(printable("\xE0\x80\xAF") == unknown + unknown + unknown);                // overlong
  CHECK(printable("\xED\xA0\x80") == unknown + unknown + unknown);                // a surrogate
  CHECK(printable("\xF4\x90\x80\x80") == unknown + unknown + unknown + unknown);  // above U+10FFFF
  CHECK(printable("\xE2\x82"
                  "a") == unknown + unknown + "a");
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text{static_cast<char>(first), static_cast<char>(second)};
      CHECK(printable(printable(text)) == printable(text));
    }
  }
}

TEST_CASE("long text is cut between characters, and says so") {
  CHECK(shortened("12345", 5) == "12345");
  CHECK(shortened("123456", 5) == "12345...");
  CHECK(shortened("1234\xE2\x82\xAC", 5) == "1234...");
  CHECK(shortened("12\xE2\x82\xAC", 5) == "12\xE2\x82\xAC");
  CHECK(shortened("123\x1b[0m", 5) == "123...");
  CHECK(shortened(std::string(1000, 'x')).size() == 83);
  CHECK(shortened("", 0) == "");
  CHECK(shortened("x", 0) == "...");
}

TEST_CASE("an error shows nothing that a terminal obeys, whatever it tells of") {
  const Error error({.field = "\x1b]0;title\x07",
                     .seen = std::string(1 << 20, '\xff'),
                     .expected = "\x1b[2J",
                     .fix = "\r",
                     .source = std::string(1, '\0')});
  for (const std::string& text : {std::string(error.what()), print(error.violations().front())}) {
    CHECK(text.size() < 20'000);
    CHECK(text.find_first_of(std::string("\x1b\x07\r\0\xff", 5)) == std::string::npos);
    CHECK(text == printable(text));
  }
  CHECK(print(Violation{.field = "file \x1b[31m"}) == "file \\x1b[31m");
}

TEST_CASE("what was probably meant is near for the length of the word, and no other name of the same kind") {
  const std::vector<std::string> keys{"scale_d", "b_type", "target", "instruction", "imm_trans_a"};
  CHECK(nearest("targt", keys) == "target");
  CHECK(nearest("TARGET", keys) == "target");
  CHECK(nearest("instrucion", keys) == "instruction");
  CHECK(nearest("instr", keys) == "instruction");  // begun
  CHECK(nearest("scale-d", keys) == "scale_d");
  // Other operands are no slips.
  CHECK(nearest("scale_a", keys) == "");
  CHECK(nearest("a_type", keys) == "");
  CHECK(nearest("imm_trans_b", keys) == "");
  CHECK(nearest("b_t", keys) == "");
  const std::vector<std::string> flags{"--row", "--col", "--rows", "--target", "--lbo", "--sbo"};
  CHECK(nearest("--clo", flags) == "--col");
  CHECK(nearest("--rwo", flags) == "--row");
  CHECK(nearest("--abc", flags) == "");
  CHECK(nearest("-t", flags) == "--target");
  const std::vector<std::string> commands{"list", "gpu", "verify", "compare", "bench"};
  CHECK(nearest("verfiy", commands) == "verify");
  CHECK(nearest("nosuch", commands) == "");
  CHECK(nearest("cat", commands) == "");
}
