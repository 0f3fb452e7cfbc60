// What libraries add between instructions, on the host's own floats, against IEEE arithmetic in integers. The compiler
// and the processor could both spoil it: by contraction into an fma, and by flushing subnormals.
#include "gemm/f32.hpp"

#include "bitmma/core/random.hpp"
#include "bitmma/formats/ieee.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("f32 between instructions is IEEE: one rounding, no contraction, one NaN", "[rule:ieee]") {
  RandomStream random(21, 0);
  for (int i = 0; i < 100'000; ++i) {
    const uint32_t x = random.word(), y = random.one_in(4) ? x ^ 0x80000000 ^ (random.word() & 7) : random.word(),
                   z = random.word();
    REQUIRE(f32::add(x, y) == ieee_add(Format::f32, x, y));
    REQUIRE(f32::fma(x, y, z) == ieee_fma(Format::f32, x, y, z));
    // x * y alone, then + z: a contraction would round once.
    const auto product = static_cast<uint32_t>(ieee_fma(Format::f32, x, y, (x ^ y) & 0x80000000));
    REQUIRE(f32::multiply(x, y) == product);
    REQUIRE(f32::add(f32::multiply(x, y), z) == ieee_add(Format::f32, product, z));
  }
  CHECK(f32::flushed(0x80000001) == 0x80000000);
  CHECK(f32::flushed(0x00800000) == 0x00800000);
  CHECK(f32::relu(0xBF800000) == 0);
  CHECK(f32::relu(0x7FFFFFFF) == 0);
}
