// SPDX-License-Identifier: MIT
#include "bitmma/math/cvt.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <unordered_map>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/table.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma {
namespace {

using enum CvtType;
using enum CvtRounding;

constexpr auto types = std::to_array<CvtTypeInfo>({
    {s8, "s8", 8, {}},
    {u8, "u8", 8, {}, false},
    {s16, "s16", 16, {}},
    {u16, "u16", 16, {}, false},
    {s32, "s32", 32, {}},
    {u32, "u32", 32, {}, false},
    {s64, "s64", 64, {}},
    {u64, "u64", 64, {}, false},
    {f16, "f16", 16, Format::f16},
    {bf16, "bf16", 16, Format::bf16},
    {tf32, "tf32", 32, Format::tf32},
    {f32, "f32", 32, Format::f32},
    {f64, "f64", 64, Format::f64},
    {e4m3, "e4m3", 8, Format::e4m3},
    {e5m2, "e5m2", 8, Format::e5m2},
    {e3m2, "e3m2", 8, Format::e3m2},
    {e2m3, "e2m3", 8, Format::e2m3},
    {e2m1, "e2m1", 4, Format::e2m1},
    {ue8m0, "ue8m0", 8, Format::ue8m0, false},
    {ue5m3, "ue5m3", 8, Format::ue5m3, false},
});
static_assert(are_in_enum_order(types));

constexpr std::array<std::string_view, 11> rounding_names{"",    ".rn",  ".rz",  ".rm",  ".rp", ".rna",
                                                          ".rs", ".rni", ".rzi", ".rmi", ".rpi"};

enum class Option : uint8_t { never, may, must };
using enum Option;

using Types = std::vector<CvtType>;
using Roundings = std::vector<CvtRounding>;

/// The forms for each combination of `to`, `from` and `roundings`. A form never has a field that its row leaves out.
struct CvtForm {
  Types to, from;
  int lanes = 1;
  Roundings roundings{none};
  Option ftz = never;
  Option sat = never;  // between integers: only where the target does not hold every value of the source
  Option relu = never, satfinite = never;
  std::vector<int> scales{0};
  TargetSet targets;
  PtxVersion ptx;
  std::string_view source = "PTX ISA 9.7.9.21; ptxas 13.0 and 13.5";
};

const std::vector<CvtForm>& cvt_forms() {
  using enum Target;
  static const Types integers{s8, u8, s16, u16, s32, u32, s64, u64};
  static const Types fp8{e4m3, e5m2}, fp6_fp4{e3m2, e2m3, e2m1}, narrow{e4m3, e5m2, e3m2, e2m3, e2m1};
  static const Roundings directed{rn, rz, rm, rp}, to_integer{rni, rzi, rmi, rpi};
  static const Roundings none_or_directed{none, rn, rz, rm, rp}, none_or_to_integer{none, rni, rzi, rmi, rpi};
  static constexpr TargetSet all = TargetSet::from(sm_70), ampere = TargetSet::from(sm_80),
                             ada = TargetSet::from(sm_89), hopper = TargetSet::from(sm_90);
  // PTX 9.0 renamed sm_101 to sm_110: later forms do not exist for sm_101.
  static constexpr TargetSet blackwell_91 = (target_sets::tcgen05 | target_sets::consumer_blackwell) &
                                            TargetSet{sm_100a, sm_100f, sm_103a, sm_103f, sm_107a, sm_107f,
                                                      sm_110a, sm_110f, sm_120a, sm_120f, sm_121a, sm_121f},
                             blackwell = blackwell_91 | TargetSet{sm_101a, sm_101f};
  static constexpr TargetSet stochastic{sm_100a, sm_103a, sm_107a};
  static constexpr std::string_view ptxas_alone = "ptxas 13.5; PTX ISA 9.4 does not define the result";
  static const std::vector<CvtForm> rows{
      // Each row is a group of forms.
      // clang-format off
      {.to = integers, .from = integers, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = integers, .from = {f16, f64}, .roundings = to_integer, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = integers, .from = {f32}, .roundings = to_integer, .ftz = may, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = integers, .from = {bf16}, .roundings = to_integer, .targets = hopper, .ptx = {7, 8}},
      {.to = {f16, f64}, .from = integers, .roundings = directed, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = {f32}, .from = integers, .roundings = directed, .ftz = may, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = {bf16}, .from = integers, .roundings = directed, .targets = hopper, .ptx = {7, 8}},

      {.to = {f16}, .from = {f64}, .roundings = directed, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = {f16}, .from = {f32}, .roundings = directed, .ftz = may, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = {f32}, .from = {f64}, .roundings = directed, .ftz = may, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = {f64}, .from = {f16}, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = {f32}, .from = {f16}, .ftz = may, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = {f64}, .from = {f32}, .ftz = may, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = {f16}, .from = {f16}, .roundings = none_or_to_integer, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = {f32}, .from = {f32}, .roundings = none_or_to_integer, .ftz = may, .sat = may, .targets = all, .ptx = {6, 0}},
      {.to = {f64}, .from = {f64}, .roundings = none_or_to_integer, .sat = may, .targets = all, .ptx = {6, 0}},

      {.to = {f16}, .from = {f32}, .roundings = {rn, rz}, .satfinite = must, .targets = all, .ptx = {8, 1}},
      {.to = {f16, bf16}, .from = {f32}, .roundings = {rn, rz}, .relu = must, .targets = ampere, .ptx = {7, 0}},
      {.to = {f16, bf16}, .from = {f32}, .roundings = {rn, rz}, .relu = must, .satfinite = must, .targets = ampere, .ptx = {8, 1}},
      {.to = {bf16}, .from = {f32}, .roundings = {rn, rz}, .satfinite = must, .targets = ampere, .ptx = {8, 1}},
      {.to = {bf16}, .from = {f32}, .roundings = directed, .ftz = may, .targets = ampere, .ptx = {7, 1}},
      {.to = {f16, bf16}, .from = {f32}, .lanes = 2, .roundings = {rn, rz}, .relu = may, .targets = ampere, .ptx = {7, 0}},
      {.to = {f16, bf16}, .from = {f32}, .lanes = 2, .roundings = {rn, rz}, .relu = may, .satfinite = must, .targets = ampere, .ptx = {8, 1}},
      {.to = {f32}, .from = {bf16}, .roundings = none_or_directed, .targets = ampere, .ptx = {7, 1}},
      {.to = {f32}, .from = {bf16}, .roundings = none_or_directed, .ftz = must, .targets = hopper, .ptx = {7, 8}},
      {.to = {f16, f64}, .from = {bf16}, .roundings = none_or_directed, .targets = hopper, .ptx = {7, 8}},
      {.to = {bf16}, .from = {f16}, .roundings = none_or_directed, .targets = hopper, .ptx = {7, 8}},
      {.to = {bf16}, .from = {f64}, .roundings = directed, .targets = hopper, .ptx = {7, 8}},
      {.to = {bf16}, .from = {bf16}, .roundings = none_or_to_integer, .targets = hopper, .ptx = {7, 8}},

      {.to = {tf32}, .from = {f32}, .roundings = {rna}, .targets = ampere, .ptx = {7, 0}},
      {.to = {tf32}, .from = {f32}, .roundings = {rna}, .satfinite = must, .targets = ampere, .ptx = {8, 1}},
      {.to = {tf32}, .from = {f32}, .roundings = {rn, rz}, .relu = may, .targets = hopper, .ptx = {7, 8}},
      {.to = {tf32}, .from = {f32}, .roundings = {rn, rz}, .relu = may, .satfinite = must, .targets = TargetSet::from(sm_100), .ptx = {8, 6}},

      {.to = fp8, .from = {f32, f16}, .lanes = 2, .roundings = {rn}, .relu = may, .satfinite = must, .targets = ada, .ptx = {8, 1}},
      {.to = {f16}, .from = fp8, .lanes = 2, .roundings = {rn}, .relu = may, .targets = ada, .ptx = {8, 1}},
      {.to = fp6_fp4, .from = {f32}, .lanes = 2, .roundings = {rn}, .relu = may, .satfinite = must, .targets = blackwell, .ptx = {8, 6}},
      {.to = {f16}, .from = fp6_fp4, .lanes = 2, .roundings = {rn}, .relu = may, .targets = blackwell, .ptx = {8, 6}},
      {.to = {ue8m0}, .from = {f32, bf16}, .lanes = 2, .roundings = {rz, rp}, .satfinite = may, .targets = blackwell, .ptx = {8, 6}},
      {.to = {bf16}, .from = {ue8m0}, .lanes = 2, .roundings = {rn}, .targets = blackwell, .ptx = {8, 6}},
      {.to = fp8, .from = {bf16}, .lanes = 2, .roundings = {rn}, .relu = may, .satfinite = must, .targets = blackwell_91, .ptx = {9, 1}},
      {.to = fp6_fp4, .from = {f16, bf16}, .lanes = 2, .roundings = {rn}, .relu = may, .satfinite = must, .targets = blackwell_91, .ptx = {9, 1}},
      {.to = {bf16}, .from = narrow, .lanes = 2, .roundings = {rn}, .relu = may, .satfinite = may, .scales = {0, 2}, .targets = blackwell_91, .ptx = {9, 2}, .source = ptxas_alone},

      {.to = {f16, bf16}, .from = {f32}, .lanes = 2, .roundings = {rs}, .relu = may, .satfinite = may, .targets = stochastic, .ptx = {8, 7}},
      {.to = narrow, .from = {f32}, .lanes = 4, .roundings = {rs}, .relu = may, .satfinite = must, .targets = stochastic, .ptx = {8, 7}},

      {.to = narrow, .from = {f32, f16, bf16}, .lanes = 2, .roundings = {rz}, .relu = may, .satfinite = must, .scales = {0, 1}, .targets = target_sets::rubin, .ptx = {9, 4}, .source = ptxas_alone},
      {.to = narrow, .from = {f32, f16, bf16}, .lanes = 2, .roundings = {rn}, .relu = may, .satfinite = must, .scales = {1}, .targets = target_sets::rubin, .ptx = {9, 4}, .source = ptxas_alone},
      {.to = {ue5m3}, .from = {f32, f16, bf16}, .lanes = 2, .roundings = {rn, rz}, .satfinite = may, .scales = {0, 1}, .targets = target_sets::rubin, .ptx = {9, 4}, .source = ptxas_alone},
      {.to = {ue5m3}, .from = {f32, f16, bf16}, .lanes = 2, .roundings = {rp}, .satfinite = may, .targets = target_sets::rubin, .ptx = {9, 4}, .source = ptxas_alone},
      {.to = {f16}, .from = {ue5m3}, .lanes = 2, .roundings = {rn}, .targets = target_sets::rubin, .ptx = {9, 4}, .source = ptxas_alone},
      {.to = {bf16}, .from = {ue5m3}, .lanes = 2, .roundings = {rn}, .satfinite = may, .scales = {0, 2}, .targets = target_sets::rubin, .ptx = {9, 4}, .source = ptxas_alone},
      // clang-format on
  };
  return rows;
}

bool is_integer(CvtType type) { return !info(type).format; }

/// True if an integer type holds every value of another: then .sat has no effect, and PTX forbids it.
bool holds_all_of(const CvtTypeInfo& to, const CvtTypeInfo& from) {
  if (to.is_signed == from.is_signed) return to.bits >= from.bits;
  return to.is_signed && to.bits > from.bits;
}

std::vector<bool> choices(Option option) {
  if (option == never) return {false};
  if (option == must) return {true};
  return {false, true};
}

uint64_t key_of(const CvtInstruction& instruction) {
  const int flags = instruction.ftz | instruction.sat << 1 | instruction.relu << 2 | instruction.satfinite << 3;
  uint64_t key = 0;
  for (const int field : {static_cast<int>(instruction.to), static_cast<int>(instruction.from), instruction.lanes,
                          static_cast<int>(instruction.rounding), flags, instruction.scales})
    key = key << 8 | (static_cast<uint64_t>(field) & 0xFF);
  return key;
}

struct Catalogue {
  std::vector<CvtInstruction> instructions;
  std::unordered_map<uint64_t, const CvtForm*> form_of;
  std::map<std::string, CvtInstruction, std::less<>> by_name;

  void add(const CvtForm& form, const CvtInstruction& instruction) {
    if (instruction.sat && is_integer(instruction.to) && is_integer(instruction.from) &&
        holds_all_of(info(instruction.to), info(instruction.from)))
      return;
    instructions.push_back(instruction);
    form_of.emplace(key_of(instruction), &form);
    by_name.emplace(print(instruction), instruction);
  }
};

void add_form(const CvtForm& form, CvtType to, CvtType from, Catalogue& catalogue) {
  for (const CvtRounding rounding : form.roundings) {
    for (const bool ftz : choices(form.ftz)) {
      for (const bool sat : choices(form.sat)) {
        for (const bool relu : choices(form.relu)) {
          for (const bool satfinite : choices(form.satfinite)) {
            for (const int scales : form.scales) {
              catalogue.add(form, {.to = to,
                                   .from = from,
                                   .lanes = form.lanes,
                                   .rounding = rounding,
                                   .ftz = ftz,
                                   .sat = sat,
                                   .relu = relu,
                                   .satfinite = satfinite,
                                   .scales = scales});
            }
          }
        }
      }
    }
  }
}

const Catalogue& catalogue() {
  static const Catalogue all = [] {
    Catalogue made;
    for (const CvtForm& form : cvt_forms()) {
      for (const CvtType to : form.to) {
        for (const CvtType from : form.from) add_form(form, to, from, made);
      }
    }
    return made;
  }();
  return all;
}

const CvtForm& form_of(const CvtInstruction& instruction) {
  const auto& known = catalogue().form_of;
  if (const auto form = known.find(key_of(instruction)); form != known.end()) return *form->second;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "instruction",
               .seen = print(instruction),
               .expected = "an instruction of cvt_instructions()"});
}

bool has_packed_source(const CvtInstruction& instruction) { return instruction.lanes == 2 && instruction.from != f32; }

/// A number during its conversion from one type to the other.
struct Value {
  NumberClass number = NumberClass::finite;
  Exact exact;  // only the sign if the number is not finite
};

Value decoded(CvtType type, uint64_t code) {
  const CvtTypeInfo& row = info(type);
  if (!row.format) {
    const uint64_t magnitude_mask = low_mask(row.bits), bits = code & magnitude_mask;
    const bool negative = row.is_signed && (bits >> (row.bits - 1)) != 0;
    return {.exact = {.negative = negative, .magnitude = negative ? (0 - bits) & magnitude_mask : bits}};
  }
  const FormatInfo& format = bitmma::info(*row.format);
  const Decoded value = decode(format, code);
  return {.number = value.number,
          .exact = {.negative = value.negative,
                    .magnitude = value.significand,
                    .exponent = value.exponent - format.mantissa_bits}};
}

constexpr bool is_subnormal_f32(uint64_t code) { return (code & 0x7F800000) == 0 && (code & 0x007FFFFF) != 0; }

Rounding ieee_rounding(CvtRounding rounding) {
  switch (rounding) {
    case rn:
    case rni:
    case none:
      return Rounding::nearest_even;  // none: exact, or from bf16 to f16 and back, where SASS rounds to nearest
    case rna: return Rounding::nearest_away;
    case rm:
    case rmi: return Rounding::toward_negative;
    case rp:
    case rpi: return Rounding::toward_positive;
    default: return Rounding::toward_zero;
  }
}

/// Rounds to a multiple of 1. The result keeps the sign of `value`, even if it is 0.
Exact integral(const Exact& value, Rounding rounding) {
  if (value.exponent >= 0) return value;
  // The last bit of the integer and the bits below it decide. Their value is less than 2; this rounds its half to e2m1,
  // whose first codes, 0 to 2, are the multiples of 1/2.
  const int drop = -value.exponent;
  const uint64_t kept = drop > 63 ? 0 : value.magnitude >> drop;
  const Exact half{
      .negative = value.negative, .magnitude = value.magnitude & low_mask(drop + 1), .exponent = value.exponent - 1};
  const uint64_t low = round_to(Format::e2m1, half, rounding) & 7;
  return {.negative = value.negative, .magnitude = (kept & ~uint64_t{1}) + low};
}

/// The code of an integer; if the type does not hold it, the nearest value that the type holds.
uint64_t saturated(const CvtTypeInfo& type, const Exact& value) {
  const uint64_t limit =
      value.negative ? (type.is_signed ? uint64_t{1} << (type.bits - 1) : 0) : low_mask(type.bits - type.is_signed);
  const int exponent = value.magnitude == 0 ? 0 : value.exponent;
  const bool fits = exponent <= std::countl_zero(value.magnitude);
  const uint64_t magnitude = fits ? std::min(value.magnitude << exponent, limit) : limit;
  return (value.negative ? 0 - magnitude : magnitude) & low_mask(type.bits);
}

uint64_t integer_code(const CvtInstruction& instruction, const Value& value) {
  const CvtTypeInfo& to = info(instruction.to);
  if (value.number == NumberClass::nan)
    return instruction.from == f64 || to.bits == 64 ? uint64_t{1} << (to.bits - 1) : 0;
  if (value.number == NumberClass::infinity)
    return saturated(to, {.negative = value.exact.negative, .magnitude = 1, .exponent = 64});
  return saturated(to, integral(value.exact, ieee_rounding(instruction.rounding)));
}

/// The random bits of one lane: their lowest bit in the word, and their number.
struct RandomField {
  int low_bit, width;
};
RandomField random_field(CvtType to, int lane) {
  if (to == f16) return {lane == 0 ? 16 : 0, 13};
  if (to == bf16) return {lane == 0 ? 16 : 0, 16};
  // The order is a, b, e, f. It follows from ptxas, which makes e2m1x4 in two steps, each with one byte of either half.
  if (to == e2m1) return {std::array{24, 8, 16, 0}[static_cast<size_t>(lane)], 8};
  return {lane < 2 ? 16 : 0, 16};
}

/// Adds the random bits to the uppermost of the bits that `format` drops; truncation then keeps the carry.
Exact with_random_bits(const FormatInfo& format, const Exact& value, uint64_t random, int width) {
  if (value.magnitude == 0) return value;
  const int leading = 63 - std::countl_zero(value.magnitude) + value.exponent;
  const int last_random_bit = std::max(leading, format.min_exponent()) - format.mantissa_bits - width;
  const int drop = last_random_bit - value.exponent;
  const uint64_t kept = drop > 63 ? 0 : drop >= 0 ? value.magnitude >> drop : value.magnitude << -drop;
  return {.negative = value.negative, .magnitude = kept + random, .exponent = last_random_bit};
}

uint64_t floating_code(const CvtInstruction& instruction, const Value& value, const FormatInfo& format,
                       RandomField field, uint32_t random_bits) {
  const bool negative = value.exact.negative && format.is_signed;
  const uint64_t sign = negative ? format.sign_bit() : 0;
  if (value.number == NumberClass::nan && instruction.to == tf32) return 0x7FFFE000;  // measured, H100
  if (value.number == NumberClass::nan) return format.canonical_nan().value_or(format.max_finite());
  if (value.number == NumberClass::infinity) {
    if (instruction.satfinite) return sign | format.max_finite();
    return sign | format.infinity().value_or(format.canonical_nan().value_or(format.max_finite()));
  }
  if (instruction.rounding == rs) {
    const uint64_t random = random_bits >> field.low_bit & low_mask(field.width);
    return round_to(format, with_random_bits(format, value.exact, random, field.width), Rounding::toward_zero,
                    format.mantissa_bits, instruction.satfinite ? Overflow::saturate : Overflow::infinity);
  }
  const Rounding rounding = ieee_rounding(instruction.rounding);
  // Rounding modes that round a magnitude down stop at the largest finite one.
  const bool down = rounding == Rounding::toward_zero || (rounding == Rounding::toward_positive && negative) ||
                    (rounding == Rounding::toward_negative && !negative);
  return round_to(format, value.exact, rounding, format.mantissa_bits,
                  instruction.satfinite || down ? Overflow::saturate : Overflow::infinity);
}

/// cvt.rna.tf32.f32, which ptxas builds from integer instructions on every target: a NaN keeps its upper bits, which
/// may be those of infinity, and .satfinite subtracts one from a code that is not finite.
uint64_t tf32_nearest_away(uint64_t word, bool satfinite) {
  constexpr uint64_t infinity = 0x7F800000, magnitude = 0x7FFFFFFF, one = 0x2000;
  const uint64_t half_added = (word & magnitude) >= infinity ? word : word + one / 2;
  const uint64_t kept = half_added & ~(one - 1) & 0xFFFFFFFF;
  return satfinite && (kept & magnitude) >= infinity ? kept - one : kept;
}

/// Conversions from and to f64 keep a NaN's sign and the upper bits of its payload, and quiet it (measured, H100).
uint64_t quiet_nan(const FormatInfo& from, uint64_t code, const FormatInfo& to) {
  const uint64_t payload = code & from.mantissa_mask(), quiet = uint64_t{1} << (to.mantissa_bits - 1);
  const int dropped = from.mantissa_bits - to.mantissa_bits;
  const uint64_t sign = (code & from.sign_bit()) != 0 ? to.sign_bit() : 0;
  return sign | *to.infinity() | quiet | (dropped > 0 ? payload >> dropped : payload << -dropped);
}

/// .ftz has no effect on a conversion to f16: directed rounding of a subnormal number gives 2^-24 (measured, H100).
uint64_t flushed_source(const CvtInstruction& instruction, uint64_t code) {
  return instruction.ftz && instruction.from == f32 && instruction.to != f16 && is_subnormal_f32(code)
             ? code & 0x80000000
             : code;
}

/// The conversion divides a result of a narrow type by its scale, and multiplies a narrow source by its scale.
int scale_exponent(const CvtInstruction& instruction, int scale) {
  const int exponent = decode(Format::ue8m0, static_cast<uint64_t>(scale)).exponent;
  return instruction.scales == 1 ? -exponent : exponent;
}

Value scaled(const CvtInstruction& instruction, Value value, int scale) {
  if (instruction.scales == 0) return value;
  if (decode(Format::ue8m0, static_cast<uint64_t>(scale)).number == NumberClass::nan) value.number = NumberClass::nan;
  value.exact.exponent += scale_exponent(instruction, scale);
  return value;
}

/// `word` without its last `bits`, rounded to nearest even.
constexpr uint64_t without_last(uint64_t word, int bits) {
  return (word + (low_mask(bits) >> 1) + (word >> bits & 1)) >> bits;
}

/// A fast path for frequent conversions: integers to f32, and normal numbers between f32 and 16 bits. Returns nothing
/// for all other conversions, which need converted().
std::optional<uint64_t> quickly_converted(const CvtInstruction& instruction, uint64_t code) {
  constexpr int narrower = 127 - 15;  // biases of f32 and f16
  if (instruction.ftz || instruction.sat || instruction.relu || instruction.satfinite || instruction.scales > 0)
    return std::nullopt;
  if (instruction.to == f32 && instruction.from == f16 && instruction.rounding == none) {
    const uint64_t exponent = code >> 10 & 0x1F;
    if (exponent == 0 || exponent == 0x1F) return std::nullopt;
    return (code & 0x8000) << 16 | ((code & 0x7FFF) + (uint64_t{narrower} << 10)) << 13;
  }
  if (instruction.rounding != rn) return std::nullopt;
  if (instruction.to == f32 && (instruction.from == s32 || instruction.from == u32)) {
    const bool negative = instruction.from == s32 && (code >> 31 & 1) != 0;
    const uint64_t magnitude = negative ? (uint64_t{1} << 32) - code : code;
    if (magnitude == 0) return 0;
    const int top = std::bit_width(magnitude) - 1;
    const uint64_t mantissa = top <= 23 ? magnitude << (23 - top) : without_last(magnitude, top - 23);
    return uint64_t{negative} << 31 |
           (mantissa + (static_cast<uint64_t>(126 + top) << 23));  // its first bit is one more
  }
  const uint64_t exponent = code >> 23 & 0xFF;
  if (instruction.from != f32 || exponent == 0xFF) return std::nullopt;
  if (instruction.to == bf16) return without_last(code, 16);
  if (instruction.to != f16 || exponent <= narrower || exponent > narrower + 0x1E) return std::nullopt;
  return (code >> 16 & 0x8000) | (without_last(code & 0x7FFFFFFF, 13) - (uint64_t{narrower} << 10));
}

/// Converts one lane.
uint64_t converted(const CvtInstruction& instruction, uint64_t code, RandomField field, uint32_t random_bits,
                   int scale) {
  const CvtTypeInfo& to = info(instruction.to);
  code &= low_mask(info(instruction.from).bits);
  if (const auto quick = quickly_converted(instruction, code)) return *quick;
  // ptxas turns these conversions into moves, which keep a NaN unchanged.
  const bool plain = !instruction.ftz && !instruction.sat;
  if (instruction.to == instruction.from && instruction.rounding == none && plain &&
      (instruction.to == f32 || instruction.to == f64))
    return code;
  if (instruction.to == f32 && instruction.from == bf16 && plain) return code << 16;
  if (instruction.to == tf32 && instruction.rounding == rna) return tf32_nearest_away(code, instruction.satfinite);
  code = flushed_source(instruction, code);

  Value value = scaled(instruction, decoded(instruction.from, code), scale);
  if (!to.format) {
    if (!is_integer(instruction.from)) return integer_code(instruction, value);
    const uint64_t wrapped = value.exact.negative ? 0 - value.exact.magnitude : value.exact.magnitude;
    return instruction.sat ? saturated(to, value.exact) : wrapped & low_mask(to.bits);
  }
  const FormatInfo& format = bitmma::info(*to.format);
  const bool to_integer = instruction.rounding >= rni;
  if (to_integer && value.number == NumberClass::finite)
    value.exact = integral(value.exact, ieee_rounding(instruction.rounding));
  const bool nan = value.number == NumberClass::nan;
  uint64_t result = floating_code(instruction, value, format, field, random_bits);
  if (nan && (instruction.from == f64 || instruction.to == f64)) {
    const FormatInfo& from = bitmma::info(*info(instruction.from).format);
    // A flushing f32 instruction comes first, and gives the canonical NaN.
    result = quiet_nan(from, instruction.ftz && instruction.to == f64 ? *from.canonical_nan() : code, format);
  }
  const bool flushes = instruction.ftz && instruction.to == f32 && value.number == NumberClass::finite;
  if (flushes && is_tiny(format, value.exact, ieee_rounding(instruction.rounding))) result &= format.sign_bit();
  const bool negative = (result & format.sign_bit()) != 0;
  if (instruction.sat) {
    const uint64_t largest = static_cast<uint64_t>(format.bias) << format.mantissa_bits;  // 1
    return nan || negative ? 0 : std::min(result, largest);
  }
  return instruction.relu && negative && !nan ? 0 : result;
}

int scale_of_lane(const CvtInstruction& instruction, const CvtOperands& operands, int lane) {
  return instruction.scales == 2 && lane == 0 ? operands.scale >> 8 : operands.scale & 0xFF;
}

/// True for equal numbers; zeros of either sign are equal.
bool are_equal(const Exact& x, const Exact& y) {
  if (x.magnitude == 0 || y.magnitude == 0) return x.magnitude == y.magnitude;
  const int shift_x = std::countr_zero(x.magnitude), shift_y = std::countr_zero(y.magnitude);
  return x.negative == y.negative && x.exponent + shift_x == y.exponent + shift_y &&
         x.magnitude >> shift_x == y.magnitude >> shift_y;
}

uint64_t compute_known(const CvtInstruction& instruction, const CvtOperands& operands) {
  const int from_bits = info(instruction.from).bits, to_bits = info(instruction.to).bits;
  std::array<uint64_t, 4> codes{operands.a, operands.b, operands.e, operands.f};
  if (has_packed_source(instruction)) codes = {operands.a >> from_bits, operands.a};
  uint64_t result = 0;
  for (int lane = 0; lane < instruction.lanes; ++lane) {
    const uint64_t code = converted(instruction, codes[static_cast<size_t>(lane)], random_field(instruction.to, lane),
                                    operands.random_bits, scale_of_lane(instruction, operands, lane));
    result |= code << (to_bits * (instruction.lanes - 1 - lane));
  }
  return result;
}

void set_operand(CvtOperands& operands, std::string_view name, uint64_t word) {
  if (name == "a") operands.a = word;
  else if (name == "b") operands.b = word;
  else if (name == "e") operands.e = word;
  else if (name == "f") operands.f = word;
  else if (name == "scale") operands.scale = static_cast<uint16_t>(word);
  else operands.random_bits = static_cast<uint32_t>(word);
}

/// The operands of the form. Throws Error unless there are `count` of them.
std::vector<CvtOperand> require_count(const CvtInstruction& instruction, size_t count) {
  std::vector<CvtOperand> wanted = operands_of(instruction);
  if (count == wanted.size()) return wanted;
  std::vector<std::string_view> names;
  for (const CvtOperand& operand : wanted) names.push_back(operand.name);
  throw Error({.code = ViolationCode::wrong_shape,
               .field = fmt::format("operands of {}", print(instruction)),
               .seen = std::to_string(count),
               .expected = fmt::format("{}: {}", wanted.size(), fmt::join(names, ", "))});
}

std::string type_name(CvtType type, int lanes) {
  return fmt::format(".{}{}", info(type).name, lanes == 1 ? "" : fmt::format("x{}", lanes));
}

}  // namespace

const CvtTypeInfo& info(CvtType type) { return types[static_cast<size_t>(type)]; }

const std::vector<CvtInstruction>& cvt_instructions() { return catalogue().instructions; }

std::string print(const CvtInstruction& instruction) {
  return fmt::format("cvt{}{}{}{}{}{}{}{}", rounding_names[static_cast<size_t>(instruction.rounding)],
                     instruction.ftz ? ".ftz" : "", instruction.sat ? ".sat" : "", instruction.relu ? ".relu" : "",
                     instruction.satfinite ? ".satfinite" : "",
                     instruction.scales == 0 ? "" : fmt::format(".scaled::n{}::ue8m0", instruction.scales),
                     type_name(instruction.to, instruction.lanes),
                     type_name(instruction.from, has_packed_source(instruction) ? 2 : 1));
}

CvtInstruction parse_cvt(std::string_view ptx) {
  const auto& names = catalogue().by_name;
  // The modifiers that are flags, in the order of print().
  constexpr std::array<std::string_view, 4> flags{".ftz", ".sat", ".relu", ".satfinite"};
  std::array<std::string, 4> seen;
  std::string before, after;
  for (size_t begin = 0; begin < ptx.size();) {
    const size_t end = std::min(ptx.find('.', begin + 1), ptx.size());
    const std::string_view part = ptx.substr(begin, end - begin);
    const auto flag = std::ranges::find(flags, part);
    if (flag != flags.end() && after.empty()) seen[static_cast<size_t>(flag - flags.begin())] += part;
    else if (before.empty() || std::ranges::find(rounding_names, part) != rounding_names.end()) before += part;
    else after += part;
    begin = end;
  }
  const std::string ordered = before + seen[0] + seen[1] + seen[2] + seen[3] + after;
  if (const auto entry = names.find(ordered); entry != names.end()) return entry->second;
  static const std::vector<std::string> all = [&names] {
    std::vector<std::string> candidates;
    for (const auto& [name, instruction] : names) candidates.push_back(name);
    return candidates;
  }();
  const std::string near = nearest(ptx, all);
  throw Error({.code = ViolationCode::unknown_name,
               .field = "instruction",
               .seen = shortened(printable(ptx)),
               .expected = "a form of cvt_instructions()",
               .fix = near.empty() ? "" : fmt::format("did you mean {}?", near),
               .source = "PTX ISA 9.7.9.21"});
}

TargetSet targets_of(const CvtInstruction& instruction) { return form_of(instruction).targets; }
PtxVersion ptx_version_of(const CvtInstruction& instruction) { return form_of(instruction).ptx; }
std::string_view source_of(const CvtInstruction& instruction) { return form_of(instruction).source; }

std::vector<CvtOperand> operands_of(const CvtInstruction& instruction) {
  form_of(instruction);
  const int from_bits = info(instruction.from).bits;
  std::vector<CvtOperand> operands;
  if (has_packed_source(instruction)) operands = {{"a", 2 * from_bits}};
  else {
    constexpr std::array<std::string_view, 4> names{"a", "b", "e", "f"};
    for (int lane = 0; lane < instruction.lanes; ++lane)
      operands.push_back({names[static_cast<size_t>(lane)], std::max(from_bits, instruction.to == bf16 ? 8 : 16)});
  }
  if (instruction.rounding == rs) operands.push_back({"random_bits", 32});
  if (instruction.scales != 0) operands.push_back({"scale", 8 * instruction.scales});
  return operands;
}

int result_bits(const CvtInstruction& instruction) {
  form_of(instruction);
  return info(instruction.to).bits * instruction.lanes;
}

std::string cvt_statement(const CvtInstruction& instruction) {
  std::string text = print(instruction) + " %d, ";
  const std::vector<CvtOperand> operands = operands_of(instruction);
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool first_of_four = instruction.lanes == 4 && i == 0, last_of_four = instruction.lanes == 4 && i == 3;
    text += fmt::format("{}{}%{}{}", i == 0 ? "" : ", ", first_of_four ? "{" : "", operands[i].name,
                        last_of_four ? "}" : "");
  }
  return text + ";";
}

uint64_t compute(const CvtInstruction& instruction, const CvtOperands& operands) {
  form_of(instruction);
  return compute_known(instruction, operands);
}

std::vector<CvtLane> lanes_of(const CvtInstruction& instruction, std::span<const uint64_t> words) {
  const std::vector<CvtOperand> wanted = require_count(instruction, words.size());
  CvtOperands operands;
  for (size_t k = 0; k < wanted.size(); ++k) set_operand(operands, wanted[k].name, words[k]);
  const CvtTypeInfo &from = info(instruction.from), &to = info(instruction.to);
  const bool is_packed = has_packed_source(instruction), to_integer = !to.format || instruction.rounding >= rni;
  const std::array<uint64_t, 4> codes = is_packed ? std::array<uint64_t, 4>{operands.a >> from.bits, operands.a}
                                                  : std::array{operands.a, operands.b, operands.e, operands.f};
  CvtInstruction plain = instruction, down = instruction, up = instruction;
  for (CvtInstruction* cvt : {&plain, &down, &up}) cvt->sat = cvt->relu = false;
  down.rounding = to_integer ? rmi : rm;
  up.rounding = to_integer ? rpi : rp;
  std::vector<CvtLane> lanes;
  for (int i = 0; i < instruction.lanes; ++i) {
    const RandomField field = random_field(instruction.to, i);
    const int scale = scale_of_lane(instruction, operands, i);
    const uint64_t code = codes[static_cast<size_t>(i)] & low_mask(from.bits);
    const Value value = scaled(instruction, decoded(instruction.from, flushed_source(instruction, code)), scale);
    const auto with = [&](const CvtInstruction& changed) {
      return converted(changed, code, field, operands.random_bits, scale);
    };
    CvtLane lane{.operand = is_packed || i == 0 ? "a" : std::array{"a", "b", "e", "f"}[static_cast<size_t>(i)],
                 .source = code,
                 .is_number = value.number == NumberClass::finite,
                 .rounded = with(plain),
                 .result = with(instruction)};
    if (instruction.scales != 0) lane.scale_exponent = scale_exponent(instruction, scale);
    if (instruction.rounding == rs) {
      lane.random_width = field.width;
      lane.random_bits = static_cast<uint32_t>(operands.random_bits >> field.low_bit & low_mask(field.width));
    }
    lane.below = with(down);
    lane.above = with(up);
    const Value below = decoded(instruction.to, lane.below);
    lane.is_exact = lane.is_number && below.number == NumberClass::finite && are_equal(below.exact, value.exact);
    lanes.push_back(lane);
  }
  return lanes;
}

void compute(const CvtInstruction& instruction, std::span<const CvtOperands> operands, std::span<uint64_t> results) {
  form_of(instruction);
  if (operands.size() != results.size()) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "operands",
                 .seen = fmt::format("{} for {} results", operands.size(), results.size()),
                 .expected = "as many operands as results"});
  }
  for (size_t i = 0; i < results.size(); ++i) results[i] = compute_known(instruction, operands[i]);
}

void compute(const CvtInstruction& instruction, std::span<const std::span<const uint64_t>> operands,
             std::span<uint64_t> results) {
  const std::vector<CvtOperand> wanted = require_count(instruction, operands.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (operands[i].size() == results.size()) continue;
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = fmt::format("operand {} of {}", wanted[i].name, print(instruction)),
                 .seen = counted(std::ssize(operands[i]), "word"),
                 .expected = counted(std::ssize(results), "word")});
  }
  for (size_t i = 0; i < results.size(); ++i) {
    CvtOperands words;
    for (size_t k = 0; k < wanted.size(); ++k) set_operand(words, wanted[k].name, operands[k][i]);
    results[i] = compute_known(instruction, words);
  }
}

}  // namespace bitmma
