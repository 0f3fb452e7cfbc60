#include "bitmma/memory/tma.hpp"

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("what TMA writes is dense rows of a box, with address bits exchanged by the swizzle") {
  const TmaTile tile = checked({.swizzle = Swizzle::b128, .rows = 64, .cols = 128, .start_bytes = 1024});
  CHECK((tile.box_inner == 64 && tile.box_outer == 64));
  const TmaTile plain = checked({.swizzle = Swizzle::none, .rows = 64, .cols = 128});
  for (int64_t row = 0; row < 64; ++row) {
    for (int64_t col = 0; col < 128; ++col) {
      const int64_t linear = 1024 + col / 64 * 8192 + row * 128 + col % 64 * 2;
      REQUIRE(byte_of(tile, row, col) == (linear ^ (linear >> 7 & 7) << 4));
      REQUIRE(byte_of(plain, row, col) == row * 256 + 2 * col);
    }
  }
  const Map map = map_of(tile);
  CHECK(map.place_of({1, 0})[map.axis("byte")] == (1024 + 128 + 16));
}

TEST_CASE("a descriptor reads what TMA wrote exactly where the swizzles agree, also from inside of a row") {
  for (const Major major : {Major::k, Major::mn}) {
    for (const Swizzle of_map : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
      for (const Swizzle of_descriptor : {Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
        const SwizzleInfo& mode = info(of_descriptor);
        const int rows = major == Major::k ? 64 : mode.width_bytes / 2, cols = 16;
        const TmaTile tile{.swizzle = of_map,
                           .major = major,
                           .rows = rows,
                           .cols = major == Major::k ? mode.width_bytes / 2 : cols,
                           .box_inner = of_map == Swizzle::none ? mode.width_bytes / 2 : 0};
        const SmemMatrix matrix{
            .descriptor = {.strides = minimal_strides(major, mode, 16, rows, cols), .swizzle = of_descriptor},
            .major = major,
            .rows = rows,
            .cols = cols};
        INFO(print(major) << " " << info(of_map).name << " " << mode.name);
        const PlaceDifference difference = difference_of(tile, matrix);
        CHECK((difference.elements == 0) == (of_map == of_descriptor));
        CHECK(difference.first.has_value() == (difference.elements != 0));
      }
    }
  }
  SmemMatrix second{.descriptor = {.start_address_bytes = 32, .strides = {16, 1024}, .swizzle = Swizzle::b128},
                    .rows = 64,
                    .cols = 16};
  CHECK(difference_of({.rows = 64, .cols = 64}, second).elements == 0);
  second.descriptor.strides.stride_dim_byte_offset = 512;
  CHECK(difference_of({.rows = 64, .cols = 64}, second).first->row == 8);
}

TEST_CASE("boxes that no tensor map has are refused") {
  CHECK_THROWS_AS(checked({.swizzle = Swizzle::b128, .box_inner = 128}), Error);
  CHECK_THROWS_AS(checked({.swizzle = Swizzle::b128, .box_inner = 32}), Error);
  CHECK_THROWS_AS(checked({.swizzle = Swizzle::none, .cols = 1024, .box_inner = 512}), Error);
  CHECK_THROWS_AS(checked({.swizzle = Swizzle::none, .cols = 4}), Error);
  CHECK_THROWS_AS(checked({.start_bytes = 64}), Error);
  CHECK_THROWS_AS(checked({.element_bits = 6}), Error);
  CHECK_THROWS_AS(checked({.rows = 0}), Error);
}
