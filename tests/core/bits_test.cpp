#include "bitmma/core/bits.hpp"

#include <array>

#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("extract and insert are inverse on every field position") {
  for (int low = 0; low < 64; ++low) {
    for (int width = 1; low + width <= 64; ++width) {
      const BitField field{"field", low, width};
      const uint64_t word = 0x0123456789ABCDEF, value = 0xFEDCBA9876543210 & field.largest();
      CHECK(extract(insert(word, field, value), field) == value);
      CHECK((insert(word, field, value) & ~field.mask()) == (word & ~field.mask()));
    }
  }
}

TEST_CASE("a value that does not fit its field changes no bit outside it") {
  const BitField field{"field", 4, 3};
  CHECK(insert(0, field, ~uint64_t{0}) == 0x70);
  CHECK(insert(~uint64_t{0}, field, 8) == ~uint64_t{0x70});
}

TEST_CASE("the mask of n bits is 2^n - 1, and of 64 bits all ones") {
  for (int width = 0; width < 64; ++width) CHECK(low_mask(width) == (uint64_t{1} << width) - 1);
  CHECK(low_mask(64) == ~uint64_t{0});
}

TEST_CASE("rounding up gives the next multiple, and a multiple itself") {
  CHECK(round_up(0, 16) == 0);
  CHECK(round_up(1, 16) == 16);
  CHECK(round_up(16, 16) == 16);
  CHECK(round_up(17, 16) == 32);
}

TEST_CASE("fields that share a bit, are empty or pass the end of the word are not disjoint") {
  struct Row {
    BitField bits;
  };
  CHECK(disjoint(std::array{Row{{"low", 0, 4}}, Row{{"high", 4, 4}}}, 8));
  CHECK_FALSE(disjoint(std::array{Row{{"low", 0, 5}}, Row{{"high", 4, 4}}}, 8));
  CHECK_FALSE(disjoint(std::array{Row{{"low", 0, 4}}, Row{{"high", 4, 5}}}, 8));
  CHECK_FALSE(disjoint(std::array{Row{{"empty", 0, 0}}}, 8));
  CHECK_FALSE(disjoint(std::array{Row{{"below", -1, 2}}}, 8));
}
