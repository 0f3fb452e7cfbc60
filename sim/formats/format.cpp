// SPDX-License-Identifier: MIT
#include "bitmma/formats/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma {

std::optional<Format> format_named(std::string_view name) {
  for (const FormatInfo& row : formats) {
    if (row.name == name) return row.id;
  }
  return std::nullopt;
}

uint64_t encode(Format format, const Decoded& value) {
  const FormatInfo& row = info(format);
  const uint64_t sign = value.negative ? row.sign_bit() : 0;
  const auto refuse = [&](std::string_view what) {
    throw Error({.field = fmt::format("value for {}", row.name),
                 .seen = fmt::format("{}{} * 2^{}", value.negative ? "-" : "", value.significand,
                                     int64_t{value.exponent} - row.mantissa_bits),
                 .expected = std::string(what),
                 .fix = "round it with round_to first"});
  };
  if (value.number == NumberClass::infinity) {
    if (!row.infinity()) refuse("a finite number: the format has no infinity");
    return sign | *row.infinity();
  }
  if (value.number == NumberClass::nan) {
    if (!row.canonical_nan()) refuse("a number: the format has no NaN");
    return sign | *row.canonical_nan();
  }
  // Far beyond the exponents of every format and the 64 bits of a significand; no sum below overflows.
  constexpr int beyond = 1 << 20;
  if (value.significand != 0 && (value.exponent < -beyond || value.exponent > beyond)) {
    refuse("a value that the format represents exactly");
  }
  const int exponent = value.significand == 0 ? 0 : value.exponent;
  const uint64_t code = round_to(
      format, {.negative = value.negative, .magnitude = value.significand, .exponent = exponent - row.mantissa_bits},
      Rounding::toward_zero, Overflow::saturate);
  const Decoded back = decode(row, code);
  const auto normalised = [](uint64_t significand, int power) {
    const int shift = significand == 0 ? 0 : std::countr_zero(significand);
    return std::pair(significand >> shift, significand == 0 ? 0 : power + shift);
  };
  if (normalised(back.significand, back.exponent) != normalised(value.significand, exponent) ||
      back.negative != value.negative || back.number != NumberClass::finite) {
    refuse("a value that the format represents exactly");
  }
  return code;
}

uint64_t convert(Format from, uint64_t bits, Format to, Rounding rounding, Overflow overflow) {
  const FormatInfo& source = info(from);
  const FormatInfo& target = info(to);
  const Decoded value = decode(source, bits);
  const uint64_t sign = value.negative ? target.sign_bit() : 0;
  if (value.number == NumberClass::nan) {
    // cvt gives the NaN without its sign; CUDA's host conversions without saturation keep the sign.
    const bool keep_sign = overflow == Overflow::infinity && target.bits == 8 && target.is_signed;
    if (target.canonical_nan()) return (keep_sign ? sign : 0) | *target.canonical_nan();
    return target.max_finite();
  }
  if (value.number == NumberClass::infinity) {
    if (overflow == Overflow::infinity && target.infinity()) return sign | *target.infinity();
    if (overflow == Overflow::infinity && target.canonical_nan()) return sign | *target.canonical_nan();
    return sign | target.max_finite();
  }
  return round_to(
      to,
      {.negative = value.negative, .magnitude = value.significand, .exponent = value.exponent - source.mantissa_bits},
      rounding, overflow);
}

std::vector<FormatInfo> rows_of(const FormatSet& set) {
  std::vector<FormatInfo> rows;
  std::ranges::copy_if(formats, std::back_inserter(rows), [&](const FormatInfo& row) { return set.contains(row.id); });
  return rows;
}

std::string print_bits(Format format, uint64_t bits) {
  return fmt::format("{:#0{}x}", bits, 2 + (info(format).bits + 3) / 4);
}

std::string print_value(Format format, uint64_t bits) {
  const FormatInfo& row = info(format);
  if (row.kind != NumberKind::floating) return fmt::format("{}", decode_integer(format, bits));
  const Decoded value = decode(row, bits);
  const char* sign = value.negative ? "-" : "";
  if (value.number == NumberClass::nan) return fmt::format("{}nan", sign);
  if (value.number == NumberClass::infinity) return fmt::format("{}inf", sign);
  // Every code of every format is exact in a double, and fmt prints the shortest digits that read back.
  return in_ieee_environment([&] {
    return fmt::format("{}{}", sign,
                       std::ldexp(static_cast<double>(value.significand), value.exponent - row.mantissa_bits));
  });
}

}  // namespace bitmma
