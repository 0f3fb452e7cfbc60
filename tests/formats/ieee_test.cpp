// Integer IEEE arithmetic against the host's, which is IEEE too: fma of <cmath> is correctly rounded.
#include "bitmma/formats/ieee.hpp"

#include <bit>
#include <cfenv>
#include <cmath>

#include "bitmma/core/random.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

/// Bit patterns whose sums and products meet: random ones, near ones, zeros, extremes.
uint64_t draw(const FormatInfo& format, RandomStream& random) {
  const uint64_t word = uint64_t{random.word()} << 32 | random.word();
  const uint64_t all = low_mask(format.bits), sign = word & format.sign_bit();
  switch (random.below(8)) {
    case 0: return sign;
    case 1: return sign | *format.infinity();
    case 2: return sign | (word & format.mantissa_mask());  // subnormal, or a zero
    case 3: return sign | format.max_finite();
    case 4: return word & all;
    default: {
      const auto exponent = static_cast<uint64_t>(format.bias + random.between(-40, 40));
      return sign | exponent << format.mantissa_bits | (random.one_in(3) ? 0 : word & format.mantissa_mask());
    }
  }
}

bool is_nan(Format format, uint64_t code) { return decode(format, code).number == NumberClass::nan; }

// The results are made while the mode is set: volatile keeps the compiler from moving the operation away.
uint64_t host_fma(Format format, uint64_t a, uint64_t b, uint64_t c) {
  if (format == Format::f64) {
    volatile double x = std::bit_cast<double>(a), y = std::bit_cast<double>(b), z = std::bit_cast<double>(c);
    volatile double result = std::fma(x, y, z);
    return std::bit_cast<uint64_t>(static_cast<double>(result));
  }
  const auto as_float = [](uint64_t code) { return std::bit_cast<float>(static_cast<uint32_t>(code)); };
  volatile float x = as_float(a), y = as_float(b), z = as_float(c);
  volatile float result = std::fma(x, y, z);
  return std::bit_cast<uint32_t>(static_cast<float>(result));
}

}  // namespace

TEST_CASE("fma and add of integers are those of IEEE 754, in every mode", "[rule:ieee]") {
  const struct {
    Rounding rounding;
    int host;
  } modes[]{{Rounding::nearest_even, FE_TONEAREST},
            {Rounding::toward_zero, FE_TOWARDZERO},
            {Rounding::toward_positive, FE_UPWARD},
            {Rounding::toward_negative, FE_DOWNWARD}};
  RandomStream random(11, 0);
  for (const Format format : {Format::f32, Format::f64}) {
    const FormatInfo& row = info(format);
    for (int i = 0; i < 200'000; ++i) {
      const uint64_t a = draw(row, random), b = draw(row, random);
      // Now and then c is what the product rounds to, with the other sign: all but the last bits cancel.
      uint64_t c = draw(row, random);
      if (random.one_in(3)) c = ieee_fma(format, a, b, 0) ^ row.sign_bit();
      if (is_nan(format, c)) c = 0;
      for (const auto& [rounding, host] : modes) {
        std::fesetround(host);
        const uint64_t expected = host_fma(format, a, b, c),
                       sum = host_fma(format, a, uint64_t(row.bias) << row.mantissa_bits, c);
        std::fesetround(FE_TONEAREST);
        const uint64_t actual = ieee_fma(format, a, b, c, rounding), added = ieee_add(format, a, c, rounding);
        INFO(row.name << " " << std::hex << a << " * " << b << " + " << c << " mode " << host);
        REQUIRE((is_nan(format, expected) ? *row.canonical_nan() : expected) == actual);
        REQUIRE((is_nan(format, sum) ? *row.canonical_nan() : sum) == added);
      }
    }
  }
}

TEST_CASE("f16 adds round once, subnormals stay", "[rule:ieee]") {
  CHECK(ieee_add(Format::f16, 0x3C00, 0x1000) == 0x3C00);  // 1 + 2^-11: a tie, to even
  CHECK(ieee_add(Format::f16, 0x3C01, 0x1000) == 0x3C02);
  CHECK(ieee_add(Format::f16, 0x0001, 0x0001) == 0x0002);
  CHECK(ieee_add(Format::f16, 0x7BFF, 0x7BFF) == 0x7C00);
  CHECK(ieee_add(Format::f16, 0x7BFF, 0x7BFF, Rounding::toward_zero) == 0x7BFF);
  CHECK(ieee_add(Format::f16, 0x8000, 0x0000) == 0x0000);
  CHECK(ieee_add(Format::f16, 0x8000, 0x8000) == 0x8000);
  CHECK(ieee_add(Format::f16, 0x7C00, 0xFC00) == 0x7FFF);
}
