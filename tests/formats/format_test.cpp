#include "bitmma/formats/format.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

double value_of(Format format, uint64_t code) {
  const Decoded decoded = decode(format, code);
  const double sign = decoded.negative ? -1 : 1;
  if (decoded.number == NumberClass::nan) return std::numeric_limits<double>::quiet_NaN();
  if (decoded.number == NumberClass::infinity) return sign * std::numeric_limits<double>::infinity();
  return sign * std::ldexp(static_cast<double>(decoded.significand), decoded.exponent - info(format).mantissa_bits);
}

void require_values(Format format, const std::vector<double>& values) {
  for (uint32_t code = 0; code < values.size(); ++code) {
    INFO(info(format).name << " code " << code);
    REQUIRE(value_of(format, code) == values[code]);
    REQUIRE(value_of(format, code | info(format).sign_bit()) == -values[code]);
    REQUIRE(std::signbit(value_of(format, code | info(format).sign_bit())));
  }
}

/// All codes of the formats of up to 16 bits and of tf32, a sample of f32 and f64, and the edges of every exponent.
std::vector<uint64_t> every_code(const FormatInfo& format) {
  std::vector<uint64_t> codes;
  const uint64_t step = format.bits == 64     ? 0x0000'4000'0000'1F3B
                        : format.ignored_bits ? 1u << 13
                        : format.bits == 32   ? 9973
                                              : 1;
  const uint64_t last = low_mask(format.bits);
  for (uint64_t code = 0;; code += step) {
    codes.push_back(code);
    if (last - code < step) break;
  }
  if (format.bits < 32 || format.ignored_bits) return codes;
  for (uint64_t exponent = 0; exponent <= format.exponent_mask(); ++exponent) {
    const uint64_t first = exponent << format.mantissa_bits;
    for (const uint64_t sign : {uint64_t{0}, format.sign_bit()}) {
      for (const uint64_t mantissa : {uint64_t{0}, uint64_t{1}, format.mantissa_mask() - 1, format.mantissa_mask()}) {
        codes.push_back(sign | first | mantissa);
      }
    }
  }
  return codes;
}

}  // namespace

// The whole value tables of the OCP Microscaling specification.
TEST_CASE("every code of e2m1, e3m2 and e2m3 has the published value") {
  require_values(Format::e2m1, {0, 0.5, 1, 1.5, 2, 3, 4, 6});
  require_values(Format::e3m2,
                 {0, .0625, .125, .1875, .25, .3125, .375, .4375, .5, .625, .75, .875, 1,  1.25, 1.5, 1.75,
                  2, 2.5,   3,    3.5,   4,   5,     6,    7,     8,  10,   12,  14,   16, 20,   24,  28});
  require_values(Format::e2m3, {0, .125, .25, .375, .5, .625, .75, .875, 1, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875,
                                2, 2.25, 2.5, 2.75, 3,  3.25, 3.5, 3.75, 4, 4.5,   5,    5.5,   6,   6.5,   7,    7.5});
}

TEST_CASE("every code of e4m3 and e5m2 follows its formula, with its own NaNs and infinities", "[rule:decode]") {
  for (uint32_t code = 0; code < 128; ++code) {
    const uint32_t e4 = code >> 3, m3 = code & 7;
    if (code == 0x7F) CHECK(std::isnan(value_of(Format::e4m3, code)));
    else CHECK(value_of(Format::e4m3, code) == (e4 ? std::ldexp(8 + m3, int(e4) - 10) : std::ldexp(m3, -9)));
    const uint32_t e5 = code >> 2, m2 = code & 3;
    if (e5 == 31) CHECK((m2 ? std::isnan(value_of(Format::e5m2, code)) : std::isinf(value_of(Format::e5m2, code))));
    else CHECK(value_of(Format::e5m2, code) == (e5 ? std::ldexp(4 + m2, int(e5) - 17) : std::ldexp(m2, -16)));
  }
  CHECK(value_of(Format::e4m3, 0x7E) == 448);
  CHECK(value_of(Format::e5m2, 0x7B) == 57344);
}

TEST_CASE("every code of ue8m0 is a power of two but the NaN, and bit 7 of ue4m3 is ignored") {
  for (uint32_t code = 0; code < 255; ++code) CHECK(value_of(Format::ue8m0, code) == std::ldexp(1.0, int(code) - 127));
  CHECK(std::isnan(value_of(Format::ue8m0, 255)));
  for (uint32_t code = 0; code < 128; ++code) {
    const Decoded e4m3 = decode(Format::e4m3, code), ue4m3 = decode(Format::ue4m3, code);
    CHECK(e4m3 == ue4m3);
    CHECK(decode(Format::ue4m3, code | 0x80) == ue4m3);
  }
}

TEST_CASE("f32 codes are what the host takes them for") {
  for (const uint64_t code : every_code(info(Format::f32))) {
    const auto host = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(code)));
    const double ours = value_of(Format::f32, code);
    REQUIRE((std::isnan(host) ? std::isnan(ours) : std::bit_cast<uint64_t>(host) == std::bit_cast<uint64_t>(ours)));
  }
}

TEST_CASE("f64 codes are what the host takes them for, subnormals, infinities and NaNs included") {
  for (const uint64_t code : every_code(info(Format::f64))) {
    const auto host = std::bit_cast<double>(code);
    const double ours = value_of(Format::f64, code);
    REQUIRE((std::isnan(host) ? std::isnan(ours) : std::bit_cast<uint64_t>(host) == std::bit_cast<uint64_t>(ours)));
  }
}

TEST_CASE("decode takes f64 apart: one, the smallest and largest subnormal, the smallest normal number, the largest") {
  const auto parts = [](uint64_t code) { return decode(Format::f64, code); };
  constexpr uint64_t hidden_bit = uint64_t{1} << 52;
  CHECK(parts(0x3FF0'0000'0000'0000) == Decoded{.significand = hidden_bit, .exponent = 0});
  CHECK(parts(0xC000'0000'0000'0001) == Decoded{.negative = true, .significand = hidden_bit + 1, .exponent = 1});
  CHECK(parts(0) == Decoded{.significand = 0, .exponent = -1022});
  CHECK(parts(1) == Decoded{.significand = 1, .exponent = -1022});  // 2^-1074
  CHECK(parts(0x000F'FFFF'FFFF'FFFF) == Decoded{.significand = hidden_bit - 1, .exponent = -1022});
  CHECK(parts(0x0010'0000'0000'0000) == Decoded{.significand = hidden_bit, .exponent = -1022});
  CHECK(parts(0x7FEF'FFFF'FFFF'FFFF) == Decoded{.significand = 2 * hidden_bit - 1, .exponent = 1023});
  CHECK(parts(0xFFF0'0000'0000'0000) == Decoded{.number = NumberClass::infinity, .negative = true});
  CHECK(parts(0x7FF0'0000'0000'0001) == Decoded{.number = NumberClass::nan});
}

TEST_CASE("bf16 is the upper half of f32, and tf32 drops 13 bits before it tells Inf from NaN", "[rule:decode]") {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const double bf16 = value_of(Format::bf16, code), f32 = value_of(Format::f32, code << 16);
    REQUIRE((std::isnan(f32) ? std::isnan(bf16) : bf16 == f32));
  }
  CHECK(decode(Format::tf32, 0x7F800001).number == NumberClass::infinity);
  CHECK(decode(Format::tf32, 0xFF801FFF).number == NumberClass::infinity);
  CHECK(decode(Format::tf32, 0x7F802000).number == NumberClass::nan);
  CHECK(value_of(Format::tf32, 0x3F801FFF) == 1.0);
  CHECK(value_of(Format::tf32, 0x00002000) == std::ldexp(1.0, -136));
  CHECK(decode(Format::tf32, 0x00001FFF).is_zero());
}

TEST_CASE("encode is the inverse of decode for every number of every format") {
  for (const FormatInfo& format : formats) {
    if (format.kind != NumberKind::floating) continue;
    for (const uint64_t code : every_code(format)) {
      const Decoded value = decode(format, code);
      if (value.number == NumberClass::nan) {
        CHECK(decode(format, encode(format.id, value)).number == NumberClass::nan);
        continue;
      }
      const uint64_t unused = format.id == Format::ue4m3 ? 0x80 : 0;
      INFO(format.name << " " << print_bits(format.id, code));
      REQUIRE(encode(format.id, value) == (code & ~unused));
    }
  }
}

TEST_CASE("encode refuses what no code has") {
  CHECK_THROWS_AS(encode(Format::e2m1, {.number = NumberClass::nan}), Error);
  CHECK_THROWS_AS(encode(Format::e4m3, {.number = NumberClass::infinity}), Error);
  CHECK_THROWS_AS(encode(Format::e4m3, {.significand = 15, .exponent = 8}), Error);  // 480
  CHECK_THROWS_AS(encode(Format::e4m3, {.significand = 1, .exponent = -7}), Error);  // 2^-10
  for (const int exponent : {std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
    CHECK_THROWS_AS(encode(Format::f64, {.significand = 2, .exponent = exponent}), Error);
    CHECK(encode(Format::f64, {.exponent = exponent}) == 0);  // a zero has any exponent
  }
  CHECK_THROWS_AS(encode(Format::f16, {.significand = 0xFFF, .exponent = 0}), Error);  // 12 bits
  CHECK(encode(Format::f16, {.significand = 0x800, .exponent = 0}) == 0x4000);         // 2.0, written denormalised
  CHECK_THROWS_AS(encode(Format::f64, {.significand = (uint64_t{1} << 53) + 1, .exponent = 0}), Error);    // 54 bits
  CHECK_THROWS_AS(encode(Format::f64, {.significand = 1, .exponent = -1023}), Error);                      // 2^-1075
  CHECK_THROWS_AS(encode(Format::f64, {.significand = uint64_t{1} << 52, .exponent = 1024}), Error);       // 2^1024
  CHECK(encode(Format::f64, {.significand = uint64_t{1} << 63, .exponent = 0}) == 0x40A0'0000'0000'0000);  // 2^11
}

TEST_CASE("the table's largest, smallest and special codes are the published ones") {
  struct Row {
    Format format;
    uint64_t max_finite;
    int64_t infinity, nan;
  };
  for (const Row& row :
       {Row{Format::f16, 0x7BFF, 0x7C00, 0x7FFF}, Row{Format::bf16, 0x7F7F, 0x7F80, 0x7FFF},
        Row{Format::tf32, 0x7F7FE000, 0x7F800000, 0x7FFFFFFF}, Row{Format::f32, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF},
        Row{Format::f64, 0x7FEF'FFFF'FFFF'FFFF, 0x7FF0'0000'0000'0000, 0x7FFF'FFFF'FFFF'FFFF},
        Row{Format::e4m3, 0x7E, -1, 0x7F}, Row{Format::e5m2, 0x7B, 0x7C, 0x7F}, Row{Format::e2m3, 0x1F, -1, -1},
        Row{Format::e3m2, 0x1F, -1, -1}, Row{Format::e2m1, 0x7, -1, -1}, Row{Format::ue8m0, 0xFE, -1, 0xFF},
        Row{Format::ue4m3, 0x7E, -1, 0x7F}}) {
    INFO(info(row.format).name);
    CHECK(info(row.format).max_finite() == row.max_finite);
    CHECK(static_cast<int64_t>(info(row.format).infinity().value_or(0)) == (row.infinity < 0 ? 0 : row.infinity));
    CHECK(info(row.format).infinity().has_value() == (row.infinity >= 0));
    CHECK(info(row.format).canonical_nan().has_value() == (row.nan >= 0));
    CHECK(static_cast<int64_t>(info(row.format).canonical_nan().value_or(0)) == (row.nan < 0 ? 0 : row.nan));
  }
}

TEST_CASE("formats are found by the names PTX gives them, and values print as people read them") {
  for (const FormatInfo& format : formats) CHECK(format_named(format.name) == format.id);
  CHECK(format_named("f64") == Format::f64);
  CHECK_FALSE(format_named("f128"));
  CHECK_FALSE(format_named("F16"));
  CHECK(print_value(Format::f16, 0x3C00) == "1");
  CHECK(print_value(Format::f16, 0x8000) == "-0");
  CHECK(print_value(Format::f32, 0xFF800000) == "-inf");
  CHECK(print_value(Format::s8, 0xFF) == "-1");
  CHECK(print_value(Format::u8, 0xFF) == "255");
  CHECK(print_bits(Format::f16, 0x3C) == "0x003c");
  CHECK(print_bits(Format::f32, 1) == "0x00000001");
  CHECK(print_bits(Format::f64, 1) == "0x0000000000000001");
  CHECK(print_value(Format::f64, 0x3FF8'0000'0000'0000) == "1.5");
  CHECK(print_value(Format::f64, 1) == "5e-324");
  CHECK(print_value(Format::u32, 0xFFFFFFFF) == "4294967295");
  CHECK(decode_integer(Format::s32, 0xFFFFFFFF) == -1);
}
