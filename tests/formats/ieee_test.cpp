// Integer IEEE arithmetic against the host's, which is IEEE too: fma and sqrt of <cmath> are correctly rounded.
#include "bitmma/formats/ieee.hpp"

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>

#include "bitmma/core/random.hpp"
#include "support/amount.hpp"
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

enum class Operation { fma, mul, div, sqrt };

// The results are made while the mode is set: volatile keeps the compiler from moving the operation away.
template <typename Float, typename Code>
uint64_t host(Operation operation, uint64_t a, uint64_t b, uint64_t c) {
  const auto value = [](uint64_t code) { return std::bit_cast<Float>(static_cast<Code>(code)); };
  volatile Float x = value(a), y = value(b), z = value(c);
  volatile Float result = 0;
  switch (operation) {
    case Operation::fma: result = std::fma(x, y, z); break;
    case Operation::mul: result = x * y; break;
    case Operation::div: result = x / y; break;
    case Operation::sqrt: result = std::sqrt(x); break;
  }
  return std::bit_cast<Code>(static_cast<Float>(result));
}

uint64_t of_host(Format format, Operation operation, uint64_t a, uint64_t b, uint64_t c) {
  return format == Format::f64 ? host<double, uint64_t>(operation, a, b, c) : host<float, uint32_t>(operation, a, b, c);
}

}  // namespace

TEST_CASE("fma, add, mul, div and sqrt of integers are those of IEEE 754, in every mode", "[rule:ieee]") {
  const struct {
    Rounding rounding;
    int host;
  } modes[]{{Rounding::nearest_even, FE_TONEAREST},
            {Rounding::toward_zero, FE_TOWARDZERO},
            {Rounding::toward_positive, FE_UPWARD},
            {Rounding::toward_negative, FE_DOWNWARD}};
  const int draws = test::amount(5'000, 200'000, 200'000);
  RandomStream random(11, 0);
  for (const Format format : {Format::f32, Format::f64}) {
    const FormatInfo& row = info(format);
    for (int i = 0; i < draws; ++i) {
      const uint64_t a = draw(row, random), b = draw(row, random);
      // Now and then c is what the product rounds to, with the other sign: all but the last bits cancel.
      uint64_t c = draw(row, random);
      if (random.one_in(3)) c = ieee_fma(format, a, b, 0) ^ row.sign_bit();
      if (is_nan(format, c)) c = 0;
      for (const auto& [rounding, mode] : modes) {
        std::fesetround(mode);
        const uint64_t one = uint64_t(row.bias) << row.mantissa_bits;
        const std::array expected{of_host(format, Operation::fma, a, b, c), of_host(format, Operation::fma, a, one, c),
                                  of_host(format, Operation::mul, a, b, 0), of_host(format, Operation::div, a, b, 0),
                                  of_host(format, Operation::sqrt, a, 0, 0)};
        std::fesetround(FE_TONEAREST);
        const std::array actual{ieee_fma(format, a, b, c, rounding), ieee_add(format, a, c, rounding),
                                ieee_mul(format, a, b, rounding), ieee_div(format, a, b, rounding),
                                ieee_sqrt(format, a, rounding)};
        for (size_t k = 0; k < actual.size(); ++k) {
          INFO(row.name << " operation " << k << " of " << std::hex << a << " " << b << " " << c << " mode " << mode);
          REQUIRE((is_nan(format, expected[k]) ? *row.canonical_nan() : expected[k]) == actual[k]);
        }
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
