#include "bitmma/formats/round.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "support/amount.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

Exact exact_of(const FormatInfo& format, uint64_t code) {
  const Decoded value = decode(format, code);
  return {
      .negative = value.negative, .magnitude = value.significand, .exponent = value.exponent - format.mantissa_bits};
}

/// Non-negative finite codes with a finite successor: all of the small formats, a sample and the edges of the large.
std::vector<uint64_t> codes_with_successor(const FormatInfo& format) {
  std::vector<uint64_t> codes;
  const uint64_t unit = uint64_t{1} << format.ignored_bits;
  const uint64_t count = format.max_finite() / unit;
  const uint64_t step = format.bits == 64
                            ? test::amount(0x0010'0000'0000'0F2B, 0x0001'0000'0000'0F2B, 0x0001'0000'0000'0F2B)
                        : format.bits == 32 && !format.ignored_bits ? test::amount(960017, 60013, 60013)
                        : format.bits > 8                           ? test::amount(37, 1, 1)
                                                                    : 1;
  for (uint64_t i = 0; i < count; i += step) codes.push_back(i * unit);
  for (uint64_t exponent = 0; exponent < format.exponent_mask(); ++exponent) {
    for (const int around : {-2, -1, 0, 1}) {
      const int64_t i = static_cast<int64_t>(exponent << format.mantissa_bits) + around;
      if (i >= 0 && static_cast<uint64_t>(i) < count) codes.push_back(static_cast<uint64_t>(i) * unit);
    }
  }
  return codes;
}

/// A point between a code and its successor: `eighths` of the way, exactly.
Exact between(const FormatInfo& format, uint64_t code, uint64_t eighths) {
  const Exact low = exact_of(format, code);
  const Exact high = exact_of(format, code + (uint64_t{1} << format.ignored_bits));
  const uint64_t low_units = low.magnitude, high_units = high.magnitude << (high.exponent - low.exponent);
  return {.magnitude = low_units * 8 + (high_units - low_units) * eighths, .exponent = low.exponent - 3};
}

}  // namespace

TEST_CASE("a code rounds to itself in every mode") {
  for (const FormatInfo& format : formats) {
    if (format.kind != NumberKind::floating) continue;
    for (const uint64_t code : codes_with_successor(format)) {
      for (const Rounding mode : {Rounding::toward_zero, Rounding::nearest_even, Rounding::nearest_away,
                                  Rounding::toward_positive, Rounding::toward_negative}) {
        REQUIRE(round_to(format.id, exact_of(format, code), mode) == code);
      }
    }
  }
}

TEST_CASE("midpoints and their neighbours go where each mode says, in every format", "[rule:rounding]") {
  for (const FormatInfo& format : formats) {
    if (format.kind != NumberKind::floating) continue;
    const uint64_t unit = uint64_t{1} << format.ignored_bits;
    for (const uint64_t code : codes_with_successor(format)) {
      const uint64_t next = code + unit;
      const bool odd = format.has_zero ? (code / unit) & 1 : false;
      INFO(format.name << " after " << print_bits(format.id, code));
      for (const uint64_t eighths : {1u, 3u, 4u, 5u, 7u}) {
        const Exact point = between(format, code, eighths);
        REQUIRE(round_to(format.id, point, Rounding::toward_zero) == code);
        REQUIRE(round_to(format.id, point, Rounding::toward_negative) == code);
        REQUIRE(round_to(format.id, point, Rounding::toward_positive) == next);
        REQUIRE(round_to(format.id, point, Rounding::nearest_away) == (eighths < 4 ? code : next));
        if (format.has_zero) {
          REQUIRE(round_to(format.id, point, Rounding::nearest_even) ==
                  (eighths < 4 || (eighths == 4 && !odd) ? code : next));
        }
        if (!format.is_signed) continue;
        const Exact mirrored{.negative = true, .magnitude = point.magnitude, .exponent = point.exponent};
        const uint64_t sign = format.sign_bit();
        REQUIRE(round_to(format.id, mirrored, Rounding::toward_zero) == (sign | code));
        REQUIRE(round_to(format.id, mirrored, Rounding::toward_negative) == (sign | next));
        REQUIRE(round_to(format.id, mirrored, Rounding::toward_positive) == (sign | code));
      }
    }
  }
}

TEST_CASE("rounding to f32 is the host's, from 64-bit integers of every magnitude") {
  uint64_t x = 88172645463325252;
  for (int i = 0; i < 200000; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    const uint64_t magnitude = x >> (i % 60) | 1;
    const float host = static_cast<float>(magnitude);  // nearest even
    REQUIRE(round_to(Format::f32, {.magnitude = magnitude}, Rounding::nearest_even) == std::bit_cast<uint32_t>(host));
  }
}

TEST_CASE("rounding to f64 is the host's, from 64-bit integers of every magnitude") {
  uint64_t x = 88172645463325252;
  for (int i = 0; i < 200000; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    const uint64_t magnitude = x >> (i % 60) | 1;
    const auto host = static_cast<double>(magnitude);  // nearest even
    REQUIRE(round_to(Format::f64, {.magnitude = magnitude}, Rounding::nearest_even) == std::bit_cast<uint64_t>(host));
  }
  // 2^64 - 1 has eleven bits more than f64 keeps: all modes but truncation carry into 2^64.
  const Exact all{.magnitude = ~uint64_t{0}};
  CHECK(round_to(Format::f64, all, Rounding::toward_zero) == 0x43EF'FFFF'FFFF'FFFF);
  CHECK(round_to(Format::f64, all, Rounding::toward_negative) == 0x43EF'FFFF'FFFF'FFFF);
  CHECK(round_to(Format::f64, all, Rounding::nearest_even) == 0x43F0'0000'0000'0000);
  CHECK(round_to(Format::f64, all, Rounding::nearest_away) == 0x43F0'0000'0000'0000);
  CHECK(round_to(Format::f64, all, Rounding::toward_positive) == 0x43F0'0000'0000'0000);
}

TEST_CASE("f64 overflows from 2^1024 on, to nearest at the tie below it, and has subnormals down to 2^-1074") {
  const Exact just_below{.magnitude = ~uint64_t{0}, .exponent = 960};  // 2^1024 - 2^960
  CHECK(round_to(Format::f64, just_below, Rounding::toward_zero) == 0x7FEF'FFFF'FFFF'FFFF);
  CHECK(round_to(Format::f64, just_below, Rounding::nearest_even) == 0x7FF0'0000'0000'0000);
  CHECK(round_to(Format::f64, just_below, Rounding::nearest_even, Overflow::saturate) == 0x7FEF'FFFF'FFFF'FFFF);
  const uint64_t tie = (uint64_t{1} << 54) - 1;  // the largest finite number and half its last bit
  CHECK(round_to(Format::f64, {.magnitude = tie, .exponent = 970}, Rounding::nearest_even) == 0x7FF0'0000'0000'0000);
  CHECK(round_to(Format::f64, {.magnitude = 2 * tie - 1, .exponent = 969}, Rounding::nearest_even) ==
        0x7FEF'FFFF'FFFF'FFFF);
  CHECK(round_to(Format::f64, {.negative = true, .magnitude = 1, .exponent = 1024}, Rounding::toward_zero) ==
        0xFFF0'0000'0000'0000);
  CHECK(round_to(Format::f64, {.magnitude = ~uint64_t{0}, .exponent = 100000}, Rounding::toward_zero) ==
        0x7FF0'0000'0000'0000);
  CHECK(round_to(Format::f64, {.magnitude = 1, .exponent = -1074}, Rounding::toward_zero) == 1);
  CHECK(round_to(Format::f64, {.magnitude = 3, .exponent = -1075}, Rounding::nearest_even) == 2);
  CHECK(round_to(Format::f64, {.magnitude = 1, .exponent = -1075}, Rounding::nearest_even) == 0);
  CHECK(round_to(Format::f64, {.magnitude = 1, .exponent = -1075}, Rounding::nearest_away) == 1);
  CHECK(round_to(Format::f64, {.negative = true, .magnitude = 1, .exponent = -5000}, Rounding::toward_negative) ==
        0x8000'0000'0000'0001);
  // The largest subnormal number and half a last bit round up into the smallest normal one.
  CHECK(round_to(Format::f64, {.magnitude = (uint64_t{1} << 53) - 1, .exponent = -1075}, Rounding::nearest_even) ==
        0x0010'0000'0000'0000);
}

TEST_CASE("every f32 number has its f64 code, and f64 numbers become f32 as on the host") {
  uint64_t x = 88172645463325252;
  for (int i = 0; i < 200000; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    const auto f32 =
        static_cast<uint32_t>(i % 2 ? x : x >> 40);  // odd: any; even: f32's subnormals and smallest numbers
    const float value = std::bit_cast<float>(f32);
    if (std::isnan(value)) continue;
    const uint64_t f64 = convert(Format::f32, f32, Format::f64, Rounding::toward_zero, Overflow::infinity);
    REQUIRE(f64 == std::bit_cast<uint64_t>(static_cast<double>(value)));
    REQUIRE(convert(Format::f64, f64, Format::f32, Rounding::toward_zero, Overflow::infinity) == f32);
    const uint64_t near = f64 ^ (x & 0x3FFF'FFFF);  // between f32 numbers
    if (std::isnan(std::bit_cast<double>(near))) continue;
    const auto host = static_cast<float>(std::bit_cast<double>(near));
    REQUIRE(convert(Format::f64, near, Format::f32, Rounding::nearest_even, Overflow::infinity) ==
            std::bit_cast<uint32_t>(host));
  }
  CHECK(convert(Format::f64, 0xFFF8'0000'0000'1234, Format::f32, Rounding::nearest_even, Overflow::infinity) ==
        0x7FFFFFFF);
  CHECK(convert(Format::f32, 0x7F800001, Format::f64, Rounding::nearest_even, Overflow::infinity) ==
        0x7FFF'FFFF'FFFF'FFFF);
}

TEST_CASE("overflow: truncation keeps the largest finite value up to the next power of two, nearest goes at the tie") {
  const Exact just_below{.magnitude = (uint64_t{1} << 40) - 1, .exponent = 88};  // just below 2^128
  CHECK(round_to(Format::f32, just_below, Rounding::toward_zero) == 0x7F7FFFFF);
  CHECK(round_to(Format::f32, just_below, Rounding::nearest_even) == 0x7F800000);
  CHECK(round_to(Format::f32, {.magnitude = 1, .exponent = 128}, Rounding::toward_zero) == 0x7F800000);
  CHECK(round_to(Format::f32, {.negative = true, .magnitude = 1, .exponent = 300}, Rounding::toward_zero) ==
        0xFF800000);
  CHECK(round_to(Format::f32, {.magnitude = 1, .exponent = 128}, Rounding::toward_zero, Overflow::saturate) ==
        0x7F7FFFFF);
  CHECK(round_to(Format::f16, {.magnitude = 65519}, Rounding::nearest_even) == 0x7BFF);
  CHECK(round_to(Format::f16, {.magnitude = 65520}, Rounding::nearest_even) == 0x7C00);
  CHECK(round_to(Format::f32, {.magnitude = 1, .exponent = 100000}, Rounding::toward_zero) == 0x7F800000);
}

TEST_CASE("underflow: subnormals are produced, and far below them only the directed modes see anything") {
  CHECK(round_to(Format::f32, {.magnitude = 3, .exponent = -150}, Rounding::nearest_even) == 2);
  CHECK(round_to(Format::f32, {.magnitude = 1, .exponent = -150}, Rounding::nearest_even) == 0);
  CHECK(round_to(Format::f32, {.magnitude = 3, .exponent = -151}, Rounding::nearest_even) == 1);
  CHECK(round_to(Format::f32, {.magnitude = ~uint64_t{0}, .exponent = -5000}, Rounding::nearest_even) == 0);
  CHECK(round_to(Format::f32, {.magnitude = ~uint64_t{0}, .exponent = -5000}, Rounding::toward_positive) == 1);
  CHECK(round_to(Format::f32, {.negative = true, .magnitude = 1, .exponent = -5000}, Rounding::toward_zero) ==
        0x80000000);
}

TEST_CASE("thirteen of 23 fraction bits leave the low ten of f32 zero", "[rule:rounding][rule:fp8-13-bits]") {
  CHECK(round_to(info(Format::f32), {.magnitude = 0xFFFFFF, .exponent = -23}, Rounding::toward_zero, 13) == 0x3FFFFC00);
  CHECK(round_to(info(Format::f32), {.magnitude = (1 << 13) + 1, .exponent = -13}, Rounding::toward_zero, 13) ==
        0x3F800400);
}

// PTX ISA 9.7.9.21 and the host conversions of CUDA 13.0.
TEST_CASE("conversions to the narrow formats give the documented codes") {
  const auto f32 = [](float value) { return std::bit_cast<uint32_t>(value); };
  const auto to = [&](Format format, float value, Overflow overflow = Overflow::saturate) {
    return convert(Format::f32, f32(value), format, Rounding::nearest_even, overflow);
  };
  const float infinity = INFINITY;
  struct Row {
    Format format;
    uint64_t large, minus_large, nan, minus_zero;
  };
  for (const Row& row : {Row{Format::e4m3, 0x7E, 0xFE, 0x7F, 0x80}, Row{Format::e5m2, 0x7B, 0xFB, 0x7F, 0x80},
                         Row{Format::e2m3, 0x1F, 0x3F, 0x1F, 0x20}, Row{Format::e3m2, 0x1F, 0x3F, 0x1F, 0x20},
                         Row{Format::e2m1, 0x7, 0xF, 0x7, 0x8}}) {
    INFO(info(row.format).name);
    CHECK(to(row.format, infinity) == row.large);
    CHECK(to(row.format, 1e30f) == row.large);
    CHECK(to(row.format, -infinity) == row.minus_large);
    CHECK(to(row.format, NAN) == row.nan);
    CHECK(to(row.format, -NAN) == row.nan);
    CHECK(to(row.format, 0.0f) == 0);
    CHECK(to(row.format, -0.0f) == row.minus_zero);
  }
  const std::vector<std::pair<float, uint64_t>> e2m1_ties{{0.25f, 0}, {0.75f, 2}, {2.5f, 4}, {3.5f, 6}, {5, 6}, {7, 7}};
  for (const auto& [value, code] : e2m1_ties) CHECK(to(Format::e2m1, value) == code);
  CHECK(to(Format::e4m3, 0x1p-10f) == 0);
  CHECK(to(Format::e4m3, 0x1.000002p-10f) == 1);
  CHECK(to(Format::e3m2, 30) == 0x1F);
  CHECK(to(Format::e2m3, 7.75f) == 0x1F);
  // Without saturation, as the host functions do it.
  CHECK(to(Format::e4m3, 464, Overflow::infinity) == 0x7E);
  CHECK(to(Format::e4m3, 465, Overflow::infinity) == 0x7F);
  CHECK(to(Format::e4m3, -465, Overflow::infinity) == 0xFF);
  CHECK(to(Format::e5m2, 61439, Overflow::infinity) == 0x7B);
  CHECK(to(Format::e5m2, 61440, Overflow::infinity) == 0x7C);
  // ue8m0: the sign is ignored.
  const auto ue8m0 = [&](float value, Rounding mode, Overflow overflow) {
    return convert(Format::f32, f32(value), Format::ue8m0, mode, overflow);
  };
  CHECK(ue8m0(0, Rounding::toward_zero, Overflow::saturate) == 0x00);
  CHECK(ue8m0(1e-44f, Rounding::toward_positive, Overflow::saturate) == 0x00);
  CHECK(ue8m0(1.5f, Rounding::toward_zero, Overflow::saturate) == 0x7F);
  CHECK(ue8m0(1.5f, Rounding::toward_positive, Overflow::saturate) == 0x80);
  CHECK(ue8m0(-1, Rounding::toward_positive, Overflow::saturate) == 0x7F);
  CHECK(ue8m0(3e38f, Rounding::toward_positive, Overflow::saturate) == 0xFE);
  CHECK(ue8m0(infinity, Rounding::toward_zero, Overflow::saturate) == 0xFE);
  CHECK(ue8m0(infinity, Rounding::toward_zero, Overflow::infinity) == 0xFF);
  CHECK(ue8m0(NAN, Rounding::toward_zero, Overflow::saturate) == 0xFF);
  // tf32: cvt.rna rounds ties away.
  CHECK(convert(Format::f32, 0x3F801000, Format::tf32, Rounding::nearest_away, Overflow::infinity) == 0x3F802000);
  CHECK(convert(Format::f32, 0x3F800FFF, Format::tf32, Rounding::nearest_away, Overflow::infinity) == 0x3F800000);
}

TEST_CASE("exponents beyond every format round as the smallest and the largest do") {
  constexpr int least = std::numeric_limits<int>::min(), most = std::numeric_limits<int>::max();
  for (const uint64_t magnitude : {uint64_t{1}, ~uint64_t{0}}) {
    const auto rounded = [&](int exponent, Rounding rounding) {
      return round_to(Format::f32, {.negative = false, .magnitude = magnitude, .exponent = exponent}, rounding);
    };
    for (const Rounding rounding : {Rounding::nearest_even, Rounding::toward_zero, Rounding::toward_positive}) {
      CHECK(rounded(least, rounding) == rounded(-1000, rounding));
      CHECK(rounded(most, rounding) == rounded(1000, rounding));
    }
  }
}
