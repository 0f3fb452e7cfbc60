#include "bitmma/formats/format.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

double value_of(Format format, uint32_t code) {
  const Decoded decoded = decode(format, code);
  const double sign = decoded.negative ? -1 : 1;
  if (decoded.number == NumberClass::nan) return std::numeric_limits<double>::quiet_NaN();
  if (decoded.number == NumberClass::infinity) return sign * std::numeric_limits<double>::infinity();
  return sign * std::ldexp(decoded.significand, decoded.exponent - info(format).mantissa_bits);
}

void require_values(Format format, const std::vector<double>& values) {
  for (uint32_t code = 0; code < values.size(); ++code) {
    INFO(info(format).name << " code " << code);
    REQUIRE(value_of(format, code) == values[code]);
    REQUIRE(value_of(format, code | info(format).sign_bit()) == -values[code]);
    REQUIRE(std::signbit(value_of(format, code | info(format).sign_bit())));
  }
}

std::vector<uint32_t> every_code(const FormatInfo& format) {
  std::vector<uint32_t> codes;
  const uint64_t step = format.bits == 32 ? (format.ignored_bits ? 1u << 13 : 9973) : 1;
  for (uint64_t code = 0; code < uint64_t{1} << format.bits; code += step) codes.push_back(static_cast<uint32_t>(code));
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

TEST_CASE("every code of e4m3 and e5m2 follows its formula, with its own NaNs and infinities") {
  for (uint32_t code = 0; code < 128; ++code) {
    const uint32_t e4 = code >> 3, m3 = code & 7;
    if (code == 0x7F)
      CHECK(std::isnan(value_of(Format::e4m3, code)));
    else
      CHECK(value_of(Format::e4m3, code) == (e4 ? std::ldexp(8 + m3, int(e4) - 10) : std::ldexp(m3, -9)));
    const uint32_t e5 = code >> 2, m2 = code & 3;
    if (e5 == 31)
      CHECK((m2 ? std::isnan(value_of(Format::e5m2, code)) : std::isinf(value_of(Format::e5m2, code))));
    else
      CHECK(value_of(Format::e5m2, code) == (e5 ? std::ldexp(4 + m2, int(e5) - 17) : std::ldexp(m2, -16)));
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
  for (const uint32_t code : every_code(info(Format::f32))) {
    const auto host = static_cast<double>(std::bit_cast<float>(code));
    const double ours = value_of(Format::f32, code);
    REQUIRE((std::isnan(host) ? std::isnan(ours) : std::bit_cast<uint64_t>(host) == std::bit_cast<uint64_t>(ours)));
  }
}

TEST_CASE("bf16 is the upper half of f32, and tf32 drops 13 bits before it tells Inf from NaN") {
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
    for (uint32_t code : every_code(format)) {
      const Decoded value = decode(format, code);
      if (value.number == NumberClass::nan) {
        CHECK(decode(format, encode(format.id, value)).number == NumberClass::nan);
        continue;
      }
      const uint32_t unused = format.id == Format::ue4m3 ? 0x80 : 0;
      INFO(format.name << " " << print_bits(format.id, code));
      REQUIRE(encode(format.id, value) == (code & ~unused));
    }
  }
}

TEST_CASE("encode refuses what no code has") {
  CHECK_THROWS_AS(encode(Format::e2m1, {.number = NumberClass::nan}), Error);
  CHECK_THROWS_AS(encode(Format::e4m3, {.number = NumberClass::infinity}), Error);
  CHECK_THROWS_AS(encode(Format::e4m3, {.significand = 15, .exponent = 8}), Error);    // 480
  CHECK_THROWS_AS(encode(Format::e4m3, {.significand = 1, .exponent = -7}), Error);    // 2^-10
  CHECK_THROWS_AS(encode(Format::f16, {.significand = 0xFFF, .exponent = 0}), Error);  // 12 bits
  CHECK(encode(Format::f16, {.significand = 0x800, .exponent = 0}) == 0x4000);         // 2.0, written denormalised
}

TEST_CASE("the table's largest, smallest and special codes are the published ones") {
  struct Row {
    Format format;
    uint32_t max_finite;
    int64_t infinity, nan;
  };
  for (const Row& row :
       {Row{Format::f16, 0x7BFF, 0x7C00, 0x7FFF}, Row{Format::bf16, 0x7F7F, 0x7F80, 0x7FFF},
        Row{Format::tf32, 0x7F7FE000, 0x7F800000, 0x7FFFFFFF}, Row{Format::f32, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF},
        Row{Format::e4m3, 0x7E, -1, 0x7F}, Row{Format::e5m2, 0x7B, 0x7C, 0x7F}, Row{Format::e2m3, 0x1F, -1, -1},
        Row{Format::e3m2, 0x1F, -1, -1}, Row{Format::e2m1, 0x7, -1, -1}, Row{Format::ue8m0, 0xFE, -1, 0xFF},
        Row{Format::ue4m3, 0x7E, -1, 0x7F}}) {
    INFO(info(row.format).name);
    CHECK(info(row.format).max_finite() == row.max_finite);
    CHECK(int64_t{info(row.format).infinity().value_or(0)} == (row.infinity < 0 ? 0 : row.infinity));
    CHECK(info(row.format).infinity().has_value() == (row.infinity >= 0));
    CHECK(info(row.format).canonical_nan().has_value() == (row.nan >= 0));
    CHECK(int64_t{info(row.format).canonical_nan().value_or(0)} == (row.nan < 0 ? 0 : row.nan));
  }
}

TEST_CASE("names and printed values") {
  for (const FormatInfo& format : formats) CHECK(format_named(format.name) == format.id);
  CHECK_FALSE(format_named("f64"));
  CHECK(print_value(Format::f16, 0x3C00) == "1");
  CHECK(print_value(Format::f16, 0x8000) == "-0");
  CHECK(print_value(Format::f32, 0xFF800000) == "-inf");
  CHECK(print_value(Format::s8, 0xFF) == "-1");
  CHECK(print_value(Format::u8, 0xFF) == "255");
  CHECK(print_bits(Format::f16, 0x3C) == "0x003c");
  CHECK(print_bits(Format::f32, 1) == "0x00000001");
  CHECK(decode_integer(Format::s32, 0xFFFFFFFF) == -1);
}
