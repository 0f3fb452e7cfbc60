#include "bitmma/descriptor/zero_column_mask.hpp"

#include <limits>
#include <string>

#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

/// The mask of columns first .. first + count - 1, column `first` leftmost; 1 for a zeroed column.
std::string text_of(const ZeroColumnMask& mask, int m, int n, int first, int count) {
  const std::vector<bool> zeroed = zeroed_columns(mask, m, n);
  std::string text;
  for (int i = first; i < first + count; ++i) text += zeroed[static_cast<size_t>(i)] ? '1' : '0';
  return text;
}

}  // namespace

TEST_CASE("the zero-column masks of the examples of PTX, lowest column first", "[rule:zero-column-mask]") {
  const ZeroColumnMask m128{.non_zero_mask = true, .skip_span = 2, .use_span = 3};
  CHECK(text_of(m128, 128, 256, 0, 14) == "00001110000111");
  const ZeroColumnMask m64{.first_span = {1, 0, 0, 0}, .non_zero_mask = true, .skip_span = 2, .use_span = 3};
  CHECK(text_of(m64, 64, 64, 0, 10) == "1110000111");
  CHECK(text_of(m64, 64, 64, 32, 10) == "0000111000");
  const ZeroColumnMask m32{
      .start_count = {0, 1, 2, 1}, .first_span = {1, 1, 0, 0}, .non_zero_mask = true, .skip_span = 2, .use_span = 3};
  CHECK(text_of(m32, 32, 64, 0, 8) == "11100001");
  CHECK(text_of(m32, 32, 64, 16, 8) == "11000011");
  CHECK(text_of(m32, 32, 64, 32, 8) == "00111000");
  CHECK(text_of(m32, 32, 64, 48, 8) == "00011100");
  CHECK(text_of({.skip_span = 2, .use_span = 3}, 128, 64, 0, 64) ==
        std::string(64, '0'));  // non-zero mask 0: every column is used
}

TEST_CASE("zero-column masks decode and encode back, and reserved bits and values that do not fit are refused") {
  const ZeroColumnMask mask{.start_count = {1, 2, 3, 255},
                            .first_span = {1, 0, 1, 0},
                            .non_zero_mask = true,
                            .skip_span = 7,
                            .use_span = 255,
                            .column_shift = 32};
  const uint64_t word = encode(mask);
  CHECK(word == 0x20FF0785FF030201);
  CHECK(decode_zero_column_mask(word) == mask);
  CHECK_THROWS_MATCHES(decode_zero_column_mask(word | uint64_t{1} << 36), Error,
                       refused(illegal_value, "reserved bits of the zero-column mask"));
  CHECK_THROWS_MATCHES(decode_zero_column_mask(word | uint64_t{1} << 63), Error,
                       refused(illegal_value, "reserved bits of the zero-column mask"));
  CHECK_THROWS_MATCHES(encode(ZeroColumnMask{.skip_span = 256}), Error, refused(illegal_value, "skip_span"));
  CHECK_THROWS_MATCHES(encode(ZeroColumnMask{.first_span = {0, 0, 0, 2}, .column_shift = 64}), Error,
                       refused(illegal_value, "first_span_3") && refused(illegal_value, "column_shift"));
}

TEST_CASE("a mask has columns only for an N that its sub-masks divide, and for values that fit its fields") {
  const ZeroColumnMask mask{.non_zero_mask = true, .use_span = 3};
  for (const int n : {-8, 0, 257, std::numeric_limits<int>::max()}) {
    CHECK_THROWS_MATCHES(zeroed_columns(mask, 128, n), Error, refused(illegal_value, "n"));
  }
  CHECK_THROWS_MATCHES(zeroed_columns(mask, 32, 6), Error, refused(illegal_value, "n"));
  CHECK_THROWS_MATCHES(zeroed_columns({.non_zero_mask = true, .skip_span = -1, .use_span = -1}, 128, 64), Error,
                       refused(illegal_value, "skip_span") && refused(illegal_value, "use_span"));
  CHECK(zeroed_columns(mask, 128, 256).size() == 256);
}
