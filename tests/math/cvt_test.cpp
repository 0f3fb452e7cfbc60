#include "bitmma/math/cvt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/formats/ieee.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/ptxas.hpp"

using namespace bitmma;

namespace {

using enum CvtType;
using enum CvtRounding;

// ---- A judge that shares no code with cvt.cpp: numbers are long doubles, which hold every code and every midpoint
// exactly, and the result is looked up between two codes of a list of all codes.

static_assert(std::numeric_limits<long double>::digits >= 64);

enum class Special { ieee, one_nan, none };

struct Shape {
  int exponent_bits, mantissa_bits, bias;
  Special special;
  bool is_signed = true;
  int unused_bits = 0;

  int sign_position() const { return exponent_bits + mantissa_bits + unused_bits; }
};

const Shape& shape_of(CvtType type) {
  static const std::map<CvtType, Shape> shapes{
      {f16, {5, 10, 15, Special::ieee}},
      {bf16, {8, 7, 127, Special::ieee}},
      {tf32, {8, 10, 127, Special::ieee, true, 13}},
      {f32, {8, 23, 127, Special::ieee}},
      {f64, {11, 52, 1023, Special::ieee}},
      {e4m3, {4, 3, 7, Special::one_nan}},
      {e5m2, {5, 2, 15, Special::ieee}},
      {e3m2, {3, 2, 3, Special::none}},
      {e2m3, {2, 3, 1, Special::none}},
      {e2m1, {2, 1, 1, Special::none}},
      {ue8m0, {8, 0, 127, Special::one_nan, false}},
      {ue5m3, {5, 3, 15, Special::one_nan, false}},
  };
  return shapes.at(type);
}

bool is_integer(CvtType type) { return type <= u64; }

struct Number {
  bool nan = false, negative = false;
  long double magnitude = 0;
};

Number number_of(CvtType type, uint64_t code) {
  if (is_integer(type)) {
    const int bits = info(type).bits;
    code = bits == 64 ? code : code & ((uint64_t{1} << bits) - 1);
    const bool negative = info(type).is_signed && (code >> (bits - 1) & 1) != 0;
    const long double value = static_cast<long double>(code);
    return {false, negative, negative ? std::ldexp(1.0L, bits) - value : value};
  }
  const Shape& shape = shape_of(type);
  const uint64_t bits = code >> shape.unused_bits;
  const uint64_t mantissa = bits & ((uint64_t{1} << shape.mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> shape.mantissa_bits & ((uint64_t{1} << shape.exponent_bits) - 1));
  const bool negative = shape.is_signed && (code >> shape.sign_position() & 1) != 0;
  const bool last = exponent == (1 << shape.exponent_bits) - 1;
  const bool all_ones = mantissa == (uint64_t{1} << shape.mantissa_bits) - 1;
  if (last && shape.special == Special::ieee)
    return {mantissa != 0, negative, std::numeric_limits<long double>::infinity()};
  if (last && all_ones && shape.special == Special::one_nan) return {true, negative, 0};
  const long double fraction = std::ldexp(static_cast<long double>(mantissa), -shape.mantissa_bits);
  if (type == ue8m0) return {false, false, std::ldexp(1.0L, exponent - 127)};
  if (exponent == 0) return {false, negative, std::ldexp(fraction, 1 - shape.bias)};
  return {false, negative, std::ldexp(1 + fraction, exponent - shape.bias)};
}

/// All finite magnitudes of a type in order: the place is the code without its unused bits.
const std::vector<long double>& magnitudes_of(CvtType type) {
  static std::map<CvtType, std::vector<long double>> lists;
  std::vector<long double>& list = lists[type];
  if (!list.empty()) return list;
  const Shape& shape = shape_of(type);
  for (uint64_t code = 0; code < uint64_t{1} << (shape.exponent_bits + shape.mantissa_bits); ++code) {
    const Number number = number_of(type, code << shape.unused_bits);
    if (!number.nan && std::isfinite(number.magnitude)) list.push_back(number.magnitude);
  }
  return list;
}

bool rounds_up(CvtRounding rounding, bool negative, bool odd, long double low, long double x, long double high,
               int random_width, uint32_t random) {
  if (x == low) return false;
  const long double middle = (low + high) / 2;
  switch (rounding) {
    case rz:
    case rzi: return false;
    case rm:
    case rmi: return negative;
    case rp:
    case rpi: return !negative;
    case rna: return x >= middle;
    case rs: {
      const long double place = std::floor(std::ldexp((x - low) / (high - low), random_width));
      return place + static_cast<long double>(random) >= std::ldexp(1.0L, random_width);
    }
    default: return x > middle || (x == middle && odd);
  }
}

template <typename Host, typename Word>
uint64_t host_rounded(long double magnitude, bool negative, CvtRounding rounding) {
  const int mode = rounding == rz   ? FE_TOWARDZERO
                   : rounding == rm ? FE_DOWNWARD
                   : rounding == rp ? FE_UPWARD
                                    : FE_TONEAREST;
  const volatile long double value = negative ? -magnitude : magnitude;
  std::fesetround(mode);
  volatile Host rounded = static_cast<Host>(value);
  std::fesetround(FE_TONEAREST);
  const Host result = rounded;
  Word word = 0;
  std::memcpy(&word, &result, sizeof word);
  return word;
}

/// The lane that the ISA's words give. `random` and `scale` are those of the lane.
uint64_t judged(const CvtInstruction& instruction, uint64_t code, uint32_t random, int random_width, int scale) {
  Number x = number_of(instruction.from, code);
  if (instruction.ftz && instruction.from == f32 && instruction.to != f16 && x.magnitude < 0x1p-126L) x.magnitude = 0;
  if (instruction.scales != 0) {
    if (scale == 0xFF) x.nan = true;
    x.magnitude = std::ldexp(x.magnitude, instruction.scales == 1 ? 127 - scale : scale - 127);
  }
  const long double exact_magnitude = x.magnitude;
  if (instruction.rounding >= rni && std::isfinite(x.magnitude)) {
    const long double low = std::floor(x.magnitude);
    x.magnitude = low + rounds_up(instruction.rounding, x.negative, std::fmod(low, 2.0L) != 0, low, exact_magnitude,
                                  low + 1, 0, 0);
  }
  const int bits = info(instruction.to).bits;
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (is_integer(instruction.to)) {
    const bool wraps = is_integer(instruction.from) && !instruction.sat;
    if (wraps) {
      const auto magnitude = static_cast<uint64_t>(x.magnitude);
      return (x.negative ? 0 - magnitude : magnitude) & mask;
    }
    if (x.nan) return instruction.from == f64 || bits == 64 ? uint64_t{1} << (bits - 1) : 0;
    const bool has_sign = info(instruction.to).is_signed;
    const long double most =
        x.negative ? (has_sign ? std::ldexp(1.0L, bits - 1) : 0) : std::ldexp(1.0L, bits - has_sign) - 1;
    const auto magnitude = static_cast<uint64_t>(std::min(x.magnitude, most));
    return (x.negative ? 0 - magnitude : magnitude) & mask;
  }
  const Shape& shape = shape_of(instruction.to);
  const uint64_t sign = uint64_t{x.negative && shape.is_signed} << shape.sign_position();
  const uint64_t ones = (uint64_t{1} << (shape.exponent_bits + shape.mantissa_bits)) - 1;
  if (x.nan) {
    if (instruction.sat) return 0;
    if (instruction.from == f64 || instruction.to == f64) {
      const Shape& source = shape_of(instruction.from);
      const bool canonical = instruction.ftz && instruction.to == f64;
      const uint64_t payload = code << (63 - source.mantissa_bits) << 1;  // from bit 63 down
      const uint64_t quiet = uint64_t{1} << (shape.mantissa_bits - 1);
      const uint64_t fraction = canonical ? 0x7FFFFFull << 29 : payload >> (64 - shape.mantissa_bits);
      const uint64_t exponent = ones >> shape.mantissa_bits << shape.mantissa_bits;
      return (canonical ? 0 : sign) | exponent | quiet | fraction;
    }
    return ones << shape.unused_bits;
  }
  if (instruction.sat && (x.negative || x.magnitude == 0)) return 0;
  if (instruction.relu && x.negative) return 0;
  uint64_t result = 0;
  if (instruction.to == f32 || instruction.to == f64) {
    result = instruction.to == f32 ? host_rounded<float, uint32_t>(x.magnitude, x.negative, instruction.rounding)
                                   : host_rounded<double, uint64_t>(x.magnitude, x.negative, instruction.rounding);
    // .ftz asks how large the result would be if exponents went on below 2^-126.
    if (instruction.ftz && instruction.to == f32 &&
        (host_rounded<float, uint32_t>(std::ldexp(x.magnitude, 64), x.negative, instruction.rounding) & 0x7FFFFFFF) <
            0x20800000) {
      result &= 0x80000000;
    }
    if (instruction.sat)
      return std::min(result, instruction.to == f32 ? uint64_t{0x3F800000} : uint64_t{0x3FF0000000000000});
    return result;
  }
  const std::vector<long double>& list = magnitudes_of(instruction.to);
  const uint64_t largest = list.size() - 1;
  const uint64_t too_large = instruction.satfinite || shape.special == Special::none ? largest : largest + 1;
  // One more code beyond the largest finite one, as far from it as the last is.
  const long double beyond = instruction.to == ue8m0 ? std::ldexp(1.0L, 128) : 2 * list[largest] - list[largest - 1];
  if (x.magnitude >= beyond) {
    const bool stops = std::isfinite(x.magnitude) &&
                       (instruction.rounding == rz || (instruction.rounding == rm && sign == 0 && !x.negative) ||
                        (instruction.rounding == rp && sign != 0));
    result = stops ? largest : too_large;
  } else {
    const auto above = std::upper_bound(list.begin(), list.end(), x.magnitude);
    const uint64_t low = above == list.begin() ? 0 : static_cast<uint64_t>(above - list.begin()) - 1;
    if (x.magnitude <= list[0]) {
      result = 0;  // also of ue8m0, whose smallest code stands for everything below it
    } else {
      const long double high = low == largest ? beyond : list[low + 1];
      const bool negative = x.negative && shape.is_signed;
      const bool up =
          rounds_up(instruction.rounding, negative, (low & 1) != 0, list[low], x.magnitude, high, random_width, random);
      result = low + up;
      if (result > largest) result = too_large;
    }
  }
  result = sign | result << shape.unused_bits;
  if (instruction.sat) result = std::min(result, static_cast<uint64_t>(shape.bias) << shape.mantissa_bits);
  return result;
}

/// Codes of a wide type around `value`: itself, where it is one, and the codes beside it.
void add_around(CvtType type, long double value, std::vector<uint64_t>& codes) {
  const auto around = [&](uint64_t code) {
    for (const int step : {-1, 0, 1}) codes.push_back(code + static_cast<uint64_t>(step));
  };
  if (type == f32) around(host_rounded<float, uint32_t>(value, false, rz));
  else if (type == f64) around(host_rounded<double, uint64_t>(value, false, rz));
  else if (value < std::ldexp(1.0L, 64)) around(static_cast<uint64_t>(value));
}

/// Every code of a type of 16 bits or fewer. Of the wide ones those where the result changes, and random ones.
std::vector<uint64_t> codes_for(CvtType from, CvtType to) {
  std::vector<uint64_t> codes;
  const int bits = info(from).bits;
  if (bits <= 16) {
    for (uint64_t code = 0; code < uint64_t{1} << bits; ++code) codes.push_back(code);
    return codes;
  }
  std::vector<long double> places{0};
  for (int power = -160; power <= 130; ++power) {
    for (const long double factor : {1.0L, 1.25L, 1.5L, 1.75L, 2 - 0x1p-12L, 2 - 0x1p-9L, 2 - 0x1p-24L})
      places.push_back(std::ldexp(factor, power));
  }
  if (!is_integer(to) && to != f32 && to != f64) {
    const std::vector<long double>& list = magnitudes_of(to);
    const size_t step = list.size() > 70000 ? 29 : 1;
    for (size_t i = 0; i + 1 < list.size(); i += step) {
      places.push_back(list[i]);
      places.push_back((list[i] + list[i + 1]) / 2);
    }
    places.push_back(list.back());
    places.push_back(list.back() + (list.back() - list[list.size() - 2]) / 2);
    places.push_back(2 * list.back() - list[list.size() - 2]);
  } else {
    for (int i = 0; i < 1100; ++i) places.push_back(static_cast<long double>(i) / 4);
    for (const int i : {127, 128, 255, 256, 32767, 32768, 65535, 65536}) {
      for (const long double part : {-0.75L, -0.5L, -0.25L, 0.25L, 0.5L, 0.75L})
        places.push_back(static_cast<long double>(i) + part);
    }
  }
  for (const long double place : places) add_around(from, place, codes);
  RandomStream random(31, static_cast<uint64_t>(from));
  for (int i = 0; i < 3000; ++i) {
    const uint64_t word = static_cast<uint64_t>(random.word()) << 32 | random.word();
    codes.push_back(word >> (is_integer(from) ? i % 64 : 0));
  }
  const size_t positive = codes.size();
  for (size_t i = 0; i < positive; ++i)
    codes.push_back(is_integer(from) ? 0 - codes[i] : codes[i] ^ uint64_t{1} << (bits - 1));
  if (!is_integer(from)) {
    const uint64_t infinity = from == f32 ? 0x7F800000 : 0x7FF0000000000000;
    for (const uint64_t code : {infinity - 1, infinity, infinity + 1, infinity | infinity >> 1}) {
      codes.push_back(code);
      codes.push_back(code | uint64_t{1} << (bits - 1));
    }
  }
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  for (uint64_t& code : codes) code &= mask;
  return codes;
}

/// What ptxas makes without a conversion, whose NaN are bits.
bool keeps_nan(const CvtInstruction& instruction) {
  const bool plain = !instruction.ftz && !instruction.sat && instruction.rounding < rni;
  return (plain && instruction.to == instruction.from && (instruction.to == f32 || instruction.to == f64)) ||
         (instruction.to == f32 && instruction.from == bf16 && plain) ||
         (instruction.to == tf32 && instruction.rounding == rna);
}

uint64_t of(std::string_view ptx, const CvtOperands& operands) { return compute(parse_cvt(ptx), operands); }

}  // namespace

TEST_CASE("every cvt gives the code between two codes that its rounding asks for", "[rule:cvt][long]") {
  const auto every = test::amount<size_t>(15, 1, 1);
  std::map<std::pair<CvtType, CvtType>, std::vector<uint64_t>> lists;
  RandomStream random(30, 0);
  int64_t compared = 0;
  for (const CvtInstruction& instruction : cvt_instructions()) {
    std::vector<uint64_t>& codes = lists[{instruction.from, instruction.to}];
    if (codes.empty()) codes = codes_for(instruction.from, instruction.to);
    const int from_bits = info(instruction.from).bits, to_bits = info(instruction.to).bits;
    const bool packed = instruction.lanes == 2 && instruction.from != f32;
    int64_t differing = 0;
    std::string first;
    for (size_t i = 0; i < codes.size(); i += every) {
      std::array<uint64_t, 4> lane{};
      for (size_t j = 0; j < 4; ++j) lane[j] = codes[(i + j * 977) % codes.size()];
      CvtOperands operands{.a = lane[0], .b = lane[1], .e = lane[2], .f = lane[3], .random_bits = random.word()};
      if (packed) operands = {.a = lane[0] << from_bits | lane[1]};
      if (instruction.scales != 0) {
        // Scales near 1, and sometimes any.
        const auto near = [&](uint32_t word) { return word % 8 == 0 ? word >> 8 & 0xFF : 123 + (word >> 8) % 9; };
        operands.scale = static_cast<uint16_t>(near(random.word()) << 8 | near(random.word()));
      }
      const uint64_t result = compute(instruction, operands);
      uint64_t expected = 0;
      bool known = true;
      for (int j = 0; j < instruction.lanes; ++j) {
        const uint32_t bits = operands.random_bits, upper = bits >> 16, lower = bits & 0xFFFF;
        // Of each destination: the random bits of a, b, e and f. Source: PTX ISA 9.7.9.21.
        const std::array<uint32_t, 4> of_lane =
            instruction.to == f16    ? std::array<uint32_t, 4>{upper & 0x1FFF, lower & 0x1FFF}
            : instruction.to == bf16 ? std::array<uint32_t, 4>{upper, lower}
            : instruction.to == e2m1 ? std::array<uint32_t, 4>{upper >> 8, lower >> 8, upper & 0xFF, lower & 0xFF}
                                     : std::array<uint32_t, 4>{upper, upper, lower, lower};
        const int width = instruction.to == f16 ? 13 : instruction.to == e2m1 ? 8 : 16;
        const int scale = instruction.scales == 2 && j == 0 ? operands.scale >> 8 : operands.scale & 0xFF;
        const auto k = static_cast<size_t>(j);
        known &= !(keeps_nan(instruction) && number_of(instruction.from, lane[k]).nan);
        if (known)
          expected |= judged(instruction, lane[k], of_lane[k], width, scale) << (to_bits * (instruction.lanes - 1 - j));
      }
      if (!known) continue;
      ++compared;
      if (result != expected && differing++ == 0)
        first = fmt::format("{:x} {:x} {:x} {:x} random {:x} scale {:x}: {:x}, not {:x}", lane[0], lane[1], lane[2],
                            lane[3], operands.random_bits, operands.scale, result, expected);
    }
    INFO(print(instruction) << ": " << first);
    CHECK(differing == 0);
  }
  CHECK(compared > static_cast<int64_t>(40'000'000 / every));
}

TEST_CASE("what ptxas makes of integer instructions keeps the bits of NaN", "[rule:cvt]") {
  CHECK(of("cvt.f32.f32", {.a = 0xFF800001}) == 0xFF800001);
  CHECK(of("cvt.ftz.f32.f32", {.a = 0xFF800001}) == 0x7FFFFFFF);
  CHECK(of("cvt.f64.f64", {.a = 0xFFF0000000000001}) == 0xFFF0000000000001);
  CHECK(of("cvt.f16.f16", {.a = 0xFC01}) == 0x7FFF);
  CHECK(of("cvt.f32.bf16", {.a = 0xFF81}) == 0xFF810000);
  CHECK(of("cvt.ftz.f32.bf16", {.a = 0xFF81}) == 0x7FFFFFFF);
  CHECK(of("cvt.rna.tf32.f32", {.a = 0x7F800001}) == 0x7F800000);
  CHECK(of("cvt.rna.tf32.f32", {.a = 0xFFFFFFFF}) == 0xFFFFE000);
  CHECK(of("cvt.rna.satfinite.tf32.f32", {.a = 0x7F800000}) == 0x7F7FE000);
  CHECK(of("cvt.rna.satfinite.tf32.f32", {.a = 0x7FFFFFFF}) == 0x7FFFC000);
  CHECK(of("cvt.rna.satfinite.tf32.f32", {.a = 0xFF7FFFFF}) == 0xFF7FE000);
}

TEST_CASE("cvt gives the codes of CUDA's headers and of PTX's examples", "[rule:cvt]") {
  CHECK(of("cvt.rn.satfinite.e4m3x2.f32", {.a = 0x43E40000, .b = 0x3F800000}) == 0x7E38);
  CHECK(of("cvt.rn.satfinite.e4m3x2.f32", {.a = 0xFF800000, .b = 0xFFC00000}) == 0xFE7F);
  CHECK(of("cvt.rn.satfinite.relu.e5m2x2.f16x2", {.a = 0xBC007C00}) == 0x007B);
  CHECK(of("cvt.rn.satfinite.e2m3x2.f32", {.a = 0xFF800000, .b = 0x7FC00000}) == 0x3F1F);
  CHECK(of("cvt.rn.satfinite.e2m1x2.f32", {.a = 0x40A00000, .b = 0xBF400000}) == 0x6A);
  CHECK(of("cvt.rz.ue8m0x2.f32", {.a = 0xBFC00000, .b = 0}) == 0x7F00);
  CHECK(of("cvt.rp.ue8m0x2.f32", {.a = 0x3FC00000, .b = 0x7F800000}) == 0x80FF);
  CHECK(of("cvt.rp.satfinite.ue8m0x2.f32", {.a = 0x7F61B1E6, .b = 0x7FC00000}) == 0xFEFF);
  CHECK(of("cvt.rn.bf16x2.ue8m0x2", {.a = 0x00FF}) == 0x00407FFF);
  // ue5m3: __nv_fp8_ue5m3 of CUDA 13.5.
  CHECK(of("cvt.rn.ue5m3x2.f32", {.a = 0x47E80000, .b = 0x47E80001}) == 0xFEFF);
  CHECK(of("cvt.rz.ue5m3x2.f32", {.a = 0x7F7FFFFF, .b = 0x7F800000}) == 0xFEFF);
  CHECK(of("cvt.rp.ue5m3x2.f32", {.a = 0x47E00001, .b = 0xBF800000}) == 0xFF78);
  CHECK(of("cvt.rn.f16x2.ue5m3x2", {.a = 0xF8F7}) == 0x7C007B80);
  CHECK(of("cvt.rzi.u8.f32", {.a = 0xBF800000}) == 0);
  CHECK(of("cvt.rni.s8.f64", {.a = 0x7FF8000000000000}) == 0x80);
  CHECK(of("cvt.rni.u64.f32", {.a = 0x7FC00000}) == 0x8000000000000000);
  CHECK(of("cvt.u8.s32", {.a = 0xFFFFFF80}) == 0x80);
  CHECK(of("cvt.sat.u8.s32", {.a = 0xFFFFFF80}) == 0);
}

TEST_CASE("stochastic rounding keeps the carry of the random bits", "[rule:cvt]") {
  // 1 + 2^-11 lies halfway between two codes of f16: random bits from 2^12 on carry.
  CHECK(of("cvt.rs.f16x2.f32", {.a = 0x3F801000, .b = 0x3F801000, .random_bits = 0x10000FFF}) == 0x3C013C00);
  CHECK(of("cvt.rs.f16x2.f32", {.a = 0x3F800000, .b = 0xBF801FFF, .random_bits = 0xFFFF0001}) == 0x3C00BC01);
  CHECK(of("cvt.rs.f16x2.f32", {.a = 0x477FFFFF, .b = 0x477FFFFF, .random_bits = 0x00010000}) == 0x7C007BFF);
  // 5 lies halfway between 4 and 6; each of four lanes has a byte.
  const CvtOperands fives{
      .a = 0x40A00000, .b = 0x40A00000, .e = 0x40A00000, .f = 0x40A00000, .random_bits = 0x80007F00};
  CHECK(of("cvt.rs.satfinite.e2m1x4.f32", fives) == 0x7666);
}

TEST_CASE("every cvt is read back from its name, and others are refused", "[rule:cvt]") {
  std::set<std::string> names;
  for (const CvtInstruction& instruction : cvt_instructions()) {
    INFO(print(instruction));
    CHECK(names.insert(print(instruction)).second);
    CHECK(parse_cvt(print(instruction)) == instruction);
    CHECK(!targets_of(instruction).empty());
    CHECK(source_of(instruction) != "");
    CHECK(result_bits(instruction) <= 64);
  }
  CHECK(parse_cvt("cvt.rn.satfinite.relu.e4m3x2.f32") == parse_cvt("cvt.rn.relu.satfinite.e4m3x2.f32"));
  CHECK(cvt_statement(parse_cvt("cvt.rs.satfinite.e2m1x4.f32")) ==
        "cvt.rs.satfinite.e2m1x4.f32 %d, {%a, %b, %e, %f}, %random_bits;");
  CHECK(operands_of(parse_cvt("cvt.rn.scaled::n2::ue8m0.bf16x2.e2m1x2")) ==
        std::vector<CvtOperand>{{"a", 8}, {"scale", 16}});
  for (const std::string_view name :
       {"", "cvt", "cvt.f32", "cvt.f16.f32", "cvt.rn.e4m3x2.f32", "cvt.rn.f32.f32", "cvt.sat.s32.s16", "cvt.rn.s32.f32",
        "cvt.rn.relu.relu.f16.f32", "cvt.rs.satfinite.e4m3x2.f32", "cvt.rni.sat.s8.bf16", "cvt.rn.f16.f32 ",
        "f16.f32"}) {
    INFO(name);
    CHECK_THROWS_AS(parse_cvt(name), Error);
  }
  const CvtInstruction impossible{.to = e4m3, .from = f32};
  CHECK_THROWS_AS(compute(impossible, CvtOperands{}), Error);
  CHECK_THROWS_AS(targets_of(impossible), Error);
}

TEST_CASE("a batch of conversions gives what single ones give", "[rule:cvt]") {
  RandomStream random(30, 1);
  std::vector<CvtOperands> operands(100);
  for (CvtOperands& cvt_operands : operands)
    cvt_operands = {random.word(), random.word(), random.word(),
                    random.word(), random.word(), static_cast<uint16_t>(random.word())};
  std::vector<uint64_t> results(operands.size());
  for (const CvtInstruction& instruction : cvt_instructions()) {
    compute(instruction, operands, results);
    int64_t differing = 0;
    for (size_t i = 0; i < operands.size(); ++i) differing += results[i] != compute(instruction, operands[i]);
    INFO(print(instruction));
    CHECK(differing == 0);
  }
  CHECK_THROWS_AS(compute(cvt_instructions().front(), operands, std::span(results).first(3)), Error);
}

TEST_CASE("ptxas and the table of cvt agree on every target that ptxas knows, both ways", "[rule:cvt][daily]") {
  if (!test::require_ptxas("the agreement of cvt")) return;
  const PtxVersion known = test::ptxas_isa();
  // Every type, lane count and modifier with every other, but for those that no row comes near.
  std::vector<CvtInstruction> all;
  for (int to = 0; to <= static_cast<int>(ue5m3); ++to) {
    for (int from = 0; from <= static_cast<int>(ue5m3); ++from) {
      for (const int lanes : {1, 2, 4}) {
        for (int rounding = 0; rounding <= static_cast<int>(rpi); ++rounding) {
          for (unsigned flags = 0; flags < 16; ++flags) {
            for (const int scales : {0, 1, 2}) {
              if (scales != 0 && (lanes != 2 || rounding > static_cast<int>(rs) || (flags & 3) != 0)) continue;
              if (lanes == 4 && (from != static_cast<int>(f32) || (flags & 3) != 0)) continue;
              if (lanes == 1 && flags > 3 && rounding > static_cast<int>(rs)) continue;
              all.push_back({.to = static_cast<CvtType>(to),
                             .from = static_cast<CvtType>(from),
                             .lanes = lanes,
                             .rounding = static_cast<CvtRounding>(rounding),
                             .ftz = (flags & 1) != 0,
                             .sat = (flags & 2) != 0,
                             .relu = (flags & 4) != 0,
                             .satfinite = (flags & 8) != 0,
                             .scales = scales});
            }
          }
        }
      }
    }
  }
  std::map<std::string, const CvtInstruction*> legal;
  for (const CvtInstruction& instruction : cvt_instructions()) legal.emplace(print(instruction), &instruction);

  std::string declarations;
  for (const int bits : {8, 16, 32, 64})
    declarations += fmt::format(".reg .b{0} %d{0}, %a{0}, %b{0}, %e{0}, %f{0}, %scale{0}, %random_bits{0};\n", bits);
  // The statement of a form with registers of the widths that it would have, were it one.
  const auto statement_of = [](const CvtInstruction& instruction) {
    const bool packed = instruction.lanes == 2 && instruction.from != f32;
    const int least = instruction.from == bf16 || instruction.to == bf16 ? 8 : 16;
    const int from_bits = packed ? 2 * info(instruction.from).bits : std::max(info(instruction.from).bits, least);
    const int to_bits = instruction.lanes == 1 ? std::max(info(instruction.to).bits, least)
                                               : info(instruction.to).bits * instruction.lanes;
    if (from_bits > 64 || to_bits > 64) return std::string();
    std::string text = fmt::format("{} %d{}, ", print(instruction), to_bits);
    if (instruction.lanes == 4) text += fmt::format("{{%a{0}, %b{0}, %e{0}, %f{0}}}", from_bits);
    else text += fmt::format("%a{}", from_bits);
    if (instruction.lanes == 2 && !packed) text += fmt::format(", %b{}", from_bits);
    if (instruction.rounding == rs) text += ", %random_bits32";
    if (instruction.scales != 0) text += fmt::format(", %scale{}", 8 * instruction.scales);
    return text + ";";
  };
  std::vector<std::string> names, statements;
  for (const CvtInstruction& instruction : all) {
    const std::string text = statement_of(instruction);
    if (text.empty()) continue;
    names.push_back(print(instruction));
    statements.push_back(text);
  }
  std::vector<Target> wanted;
  for (const TargetInfo& row : targets) wanted.push_back(row.id);
  int64_t agreed = 0;
  std::string disagreed;
  for (const Target target : test::known_to_ptxas(wanted)) {
    const std::vector<char> taken = test::ptxas_takes_statements(declarations, statements, target, known);
    for (size_t i = 0; i < names.size(); ++i) {
      const auto row = legal.find(names[i]);
      const bool expected =
          row != legal.end() && targets_of(*row->second).contains(target) && ptx_version_of(*row->second) <= known;
      // ptxas 13.0 takes e2m1x2 of f16x2, which PTX 9.1 brought.
      const bool early = known < PtxVersion{9, 1} && names[i].ends_with(".satfinite.e2m1x2.f16x2");
      if (early || expected == (taken[i] != 0)) agreed += expected;
      else disagreed += fmt::format("{} on {}: ptxas {} it\n", names[i], print(target), taken[i] ? "takes" : "refuses");
    }
  }
  CHECK(disagreed == "");
  CHECK(agreed > 10000);
}

TEST_CASE("cvt of NaN, and of results near the smallest normal number, gives an H100's words", "[rule:cvt]") {
  struct Case {
    const char* name;
    uint64_t a, result;
  };
  const std::vector<Case> cases{
      {"cvt.rn.ftz.f32.f64", 0xb80ffffff0159ab0, 0x80800000},
      {"cvt.rn.ftz.f32.f64", 0xb80fffffeff93dad, 0x80000000},
      {"cvt.rn.ftz.f32.f64", 0x380ffffff00029a4, 0x800000},
      {"cvt.rn.ftz.f32.f64", 0x380fffffefeeea3f, 0x0},
      {"cvt.rp.ftz.f32.f64", 0xb80ffffffffffff8, 0x80000000},
      {"cvt.rp.ftz.f32.f64", 0x380fffffe01dfafd, 0x800000},
      {"cvt.rp.ftz.f32.f64", 0x380fffffdff334a9, 0x0},
      {"cvt.rm.ftz.f32.f64", 0xb80fffffe036a860, 0x80800000},
      {"cvt.rm.ftz.f32.f64", 0xb80fffffdfffc81a, 0x80000000},
      {"cvt.rm.ftz.f32.f64", 0x380ffffffffffff8, 0x0},
      // To and from f64, a NaN keeps its sign and upper payload and becomes quiet.
      {"cvt.rn.f16.f64", 0x7ffb5820ff800000, 0x7ed6},
      {"cvt.rm.f16.f64", 0x7ff757a080800001, 0x7fd5},
      {"cvt.rp.f16.f64", 0xfffe2533801b5154, 0xff89},
      {"cvt.rn.f32.f64", 0x7ff2352600800003, 0x7fd1a930},
      {"cvt.rm.f32.f64", 0xfff46cf5001b2569, 0xffe367a8},
      {"cvt.rn.bf16.f64", 0xfff537acc8a0135a, 0xffe9},
      {"cvt.f64.f16", 0x7c01, 0x7ff8040000000000},
      {"cvt.f64.bf16", 0x7f81, 0x7ff8200000000000},
      {"cvt.rni.f64.f64", 0x7ff82b79b572e2d3, 0x7ff82b79b572e2d3},
      // What flushes f32 before gives the canonical NaN.
      {"cvt.ftz.f64.f32", 0x7fb44815, 0x7fffffffe0000000},
      {"cvt.rn.tf32.f32", 0x7f9dbf60, 0x7fffe000},
      {"cvt.rz.relu.tf32.f32", 0x7ffb0c99, 0x7fffe000},
      // Where f16 is made, .ftz does nothing.
      {"cvt.rm.ftz.f16.f32", 0x80217d6f, 0x8001},
      {"cvt.rp.ftz.f16.f32", 0x0040d9d2, 0x0001},
  };
  for (const Case& this_case : cases) {
    INFO(this_case.name << std::hex << " " << this_case.a);
    CHECK(compute(parse_cvt(this_case.name), {.a = this_case.a}) == this_case.result);
  }
}

TEST_CASE("the lanes of a conversion make its result, and lie between the codes that are shown", "[rule:cvt]") {
  RandomStream random(11, 0);
  for (const CvtInstruction& instruction : cvt_instructions()) {
    INFO(print(instruction));
    const std::vector<CvtOperand> wanted = operands_of(instruction);
    for (int i = 0; i < 20; ++i) {
      std::vector<uint64_t> words;
      for (const CvtOperand& operand : wanted)
        words.push_back((uint64_t{random.word()} << 32 | random.word()) & low_mask(operand.bits));
      std::vector<std::span<const uint64_t>> spans;
      for (const uint64_t& word : words) spans.emplace_back(&word, 1);
      uint64_t result = 0, packed = 0;
      compute(instruction, std::span(std::as_const(spans)), std::span(&result, 1));
      const std::vector<CvtLane> lanes = lanes_of(instruction, words);
      REQUIRE(std::ssize(lanes) == instruction.lanes);
      for (const CvtLane& lane : lanes) {
        packed = lanes.size() == 1 ? lane.result : packed << info(instruction.to).bits | lane.result;
        if (!instruction.sat && !instruction.relu) REQUIRE(lane.result == lane.rounded);
        const bool has_rounding = instruction.rounding != CvtRounding::none && info(instruction.to).format.has_value();
        // Stochastic rounding may keep a carry beyond the next code of a subnormal number; rna of tf32 is integer code.
        if (!has_rounding || !lane.is_number || instruction.rounding == CvtRounding::rs ||
            instruction.rounding == CvtRounding::rna)
          continue;
        REQUIRE((lane.rounded == lane.below || lane.rounded == lane.above));
        if (lane.is_exact) REQUIRE(lane.below == lane.above);
      }
      REQUIRE(packed == result);
    }
    CHECK_THROWS_AS(lanes_of(instruction, {}), Error);
  }
}

TEST_CASE("the conversions that have a short way give what the conversion of formats gives") {
  RandomStream random(23, 0);
  std::vector<uint32_t> words{0, 1, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800000, 0xFF800001, 0x33000000, 0x33000001};
  for (uint32_t i = 0; i < 1024; ++i) {
    // Ties of 16 bits, the edges of f16's range, and integers around powers of two.
    words.push_back(0x38000000 + (i << 12) + 0x800);
    words.push_back(0x477FE000 + (i << 4));
    words.push_back(0x38800000 - 512 + i);
    words.push_back((uint32_t{1} << (i % 32)) + i / 32 - 16);
  }
  for (int i = 0; i < 200'000; ++i) words.push_back(static_cast<uint32_t>(random.word()));
  const CvtInstruction to_f16 = parse_cvt("cvt.rn.f16.f32"), to_bf16 = parse_cvt("cvt.rn.bf16.f32"),
                       from_f16 = parse_cvt("cvt.f32.f16"), from_s32 = parse_cvt("cvt.rn.f32.s32"),
                       from_u32 = parse_cvt("cvt.rn.f32.u32");
  const auto of = [](const CvtInstruction& instruction, uint32_t word) {
    return compute(instruction, CvtOperands{.a = word});
  };
  const auto rounded = [](double number) { return std::bit_cast<uint32_t>(static_cast<float>(number)); };
  for (const uint32_t word : words) {
    INFO(fmt::format("{:#x}", word));
    if ((word & 0x7FFFFFFF) <= 0x7F800000) {
      REQUIRE(of(to_f16, word) == convert(Format::f32, word, Format::f16, Rounding::nearest_even, Overflow::infinity));
      REQUIRE(of(to_bf16, word) ==
              convert(Format::f32, word, Format::bf16, Rounding::nearest_even, Overflow::infinity));
    }
    const uint32_t half = word & 0xFFFF;
    if ((half & 0x7FFF) <= 0x7C00)
      REQUIRE(of(from_f16, half) ==
              convert(Format::f16, half, Format::f32, Rounding::nearest_even, Overflow::infinity));
    REQUIRE(of(from_s32, word) == rounded(static_cast<int32_t>(word)));
    REQUIRE(of(from_u32, word) == rounded(word));
  }
}
