// SPDX-License-Identifier: MIT
// Number formats: one row each. A finite floating-point code s.e.m has the value
//
//   e5m2 0x7B = 0.11110.11 : +1.75 * 2^(30-15) = 57344        value = significand * 2^(exponent - mantissa_bits)
//
// with significand = 2^M + m and exponent = e - bias for e > 0, and significand = m, exponent = 1 - bias for e = 0:
// subnormals are *not* normalised, because the hardware aligns them by that exponent too.
// Sources: IEEE 754-2019; OCP 8-bit Floating Point 1.0; OCP Microscaling Formats 1.0; PTX ISA 5.2.3.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/table.hpp"

namespace bitmma {

enum class Format : uint8_t {
  f16,
  bf16,
  tf32,
  f32,
  f64,
  e4m3,
  e5m2,
  e2m3,
  e3m2,
  e2m1,
  ue8m0,
  ue4m3,
  s8,
  u8,
  s4,
  u4,
  b1,
  s32,
  u32,
  ue5m3,
  s1z4m11,
};

enum class NumberKind : uint8_t { floating, integer, bits };

/// Which codes with the largest exponent are not numbers.
enum class NonFinite : uint8_t {
  ieee,      // m = 0 is infinity, the others NaN
  nan_only,  // only the code with all exponent and mantissa bits set, a NaN
  none,      // every code is a number
};

struct FormatInfo {
  Format id;
  std::string_view name;  // as PTX spells it
  NumberKind kind = NumberKind::floating;
  int bits = 0;          // container: the bits one element takes in memory and registers
  int ignored_bits = 0;  // lowest bits of the container that are always dropped first (tf32)
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  NonFinite non_finite = NonFinite::none;
  bool is_signed = true;
  bool has_zero = true;             // false for ue8m0, whose code 0 is the power 2^-127
  bool is_operand = true;           // can be the type of A and B; false for scales, accumulators and words
  uint64_t zero_bits = 0;           // bits that must be 0: a code with one of them set has no meaning
  std::string_view dtype = {};      // the dtype of such a matrix in NumPy, PyTorch and safetensors
  std::string_view raw_dtype = {};  // dtype of raw codes, for libraries without `dtype`; empty: none

  constexpr int min_exponent() const { return has_zero ? 1 - bias : -bias; }
  constexpr uint64_t exponent_mask() const { return (uint64_t{1} << exponent_bits) - 1; }
  constexpr uint64_t mantissa_mask() const { return (uint64_t{1} << mantissa_bits) - 1; }
  constexpr uint64_t sign_bit() const { return is_signed ? uint64_t{1} << (bits - 1) : 0; }
  /// Code of the largest finite magnitude, with a clear sign and zero ignored bits.
  constexpr uint64_t max_finite() const {
    const uint64_t all = (uint64_t{1} << (exponent_bits + mantissa_bits)) - 1;
    const uint64_t code = non_finite == NonFinite::ieee       ? all - mantissa_mask() - 1
                          : non_finite == NonFinite::nan_only ? all - 1
                                                              : all;
    return code << ignored_bits;
  }
  /// Code of infinity; nothing if the format has none.
  constexpr std::optional<uint64_t> infinity() const {
    if (non_finite != NonFinite::ieee) return std::nullopt;
    return exponent_mask() << (mantissa_bits + ignored_bits);
  }
  /// The NaN that tensor cores and cvt produce: all exponent and mantissa bits set, sign clear.
  constexpr std::optional<uint64_t> canonical_nan() const {
    if (non_finite == NonFinite::none) return std::nullopt;
    return bits == 32 ? 0x7FFFFFFFu : (uint64_t{1} << (exponent_bits + mantissa_bits)) - 1;
  }
};

// one row a format
// clang-format off
inline constexpr auto formats = std::to_array<FormatInfo>({
    {.id = Format::f16,
     .name = "f16",
     .bits = 16,
     .exponent_bits = 5,
     .mantissa_bits = 10,
     .bias = 15,
     .non_finite = NonFinite::ieee,
     .dtype = "F16",
     .raw_dtype = "U16"},
    {.id = Format::bf16,
     .name = "bf16",
     .bits = 16,
     .exponent_bits = 8,
     .mantissa_bits = 7,
     .bias = 127,
     .non_finite = NonFinite::ieee,
     .dtype = "BF16",
     .raw_dtype = "U16"},
    // An f32 word; dropping its low 13 bits comes before the test for Inf and NaN: 0x7F800001 is Inf. Measured, H200.
    {.id = Format::tf32,
     .name = "tf32",
     .bits = 32,
     .ignored_bits = 13,
     .exponent_bits = 8,
     .mantissa_bits = 10,
     .bias = 127,
     .non_finite = NonFinite::ieee,
     .dtype = "F32",
     .raw_dtype = "U32"},
    {.id = Format::f32,
     .name = "f32",
     .bits = 32,
     .exponent_bits = 8,
     .mantissa_bits = 23,
     .bias = 127,
     .non_finite = NonFinite::ieee,
     .dtype = "F32",
     .raw_dtype = "U32"},
    // f64 instructions pass NaN payloads and have another default NaN; see NanRule in arithmetic/accumulator_model.hpp.
    {.id = Format::f64,
     .name = "f64",
     .bits = 64,
     .exponent_bits = 11,
     .mantissa_bits = 52,
     .bias = 1023,
     .non_finite = NonFinite::ieee,
     .dtype = "F64",
     .raw_dtype = "U64"},
    {.id = Format::e4m3,
     .name = "e4m3",
     .bits = 8,
     .exponent_bits = 4,
     .mantissa_bits = 3,
     .bias = 7,
     .non_finite = NonFinite::nan_only,
     .dtype = "F8_E4M3",
     .raw_dtype = "U8"},
    {.id = Format::e5m2,
     .name = "e5m2",
     .bits = 8,
     .exponent_bits = 5,
     .mantissa_bits = 2,
     .bias = 15,
     .non_finite = NonFinite::ieee,
     .dtype = "F8_E5M2",
     .raw_dtype = "U8"},
    {.id = Format::e2m3, .name = "e2m3", .bits = 6, .exponent_bits = 2, .mantissa_bits = 3, .bias = 1, .dtype = "U8"},
    {.id = Format::e3m2, .name = "e3m2", .bits = 6, .exponent_bits = 3, .mantissa_bits = 2, .bias = 3, .dtype = "U8"},
    {.id = Format::e2m1, .name = "e2m1", .bits = 4, .exponent_bits = 2, .mantissa_bits = 1, .bias = 1, .dtype = "U8"},
    {.id = Format::ue8m0,
     .name = "ue8m0",
     .bits = 8,
     .exponent_bits = 8,
     .bias = 127,
     .non_finite = NonFinite::nan_only,
     .is_signed = false,
     .has_zero = false,
     .is_operand = false,
     .dtype = "U8"},
    // Seven bits in a byte; bit 7 is ignored (B200 words), so 0x7F and 0xFF are both NaN.
    {.id = Format::ue4m3,
     .name = "ue4m3",
     .bits = 8,
     .exponent_bits = 4,
     .mantissa_bits = 3,
     .bias = 7,
     .non_finite = NonFinite::nan_only,
     .is_signed = false,
     .is_operand = false,
     .dtype = "U8"},
    {.id = Format::s8, .name = "s8", .kind = NumberKind::integer, .bits = 8, .dtype = "I8"},
    {.id = Format::u8, .name = "u8", .kind = NumberKind::integer, .bits = 8, .is_signed = false, .dtype = "U8"},
    // 4-bit codes: one per byte in files, two per byte in registers.
    {.id = Format::s4, .name = "s4", .kind = NumberKind::integer, .bits = 4, .dtype = "U8", .raw_dtype = "I8"},
    {.id = Format::u4, .name = "u4", .kind = NumberKind::integer, .bits = 4, .is_signed = false, .dtype = "U8"},
    {.id = Format::b1,
     .name = "b1",
     .kind = NumberKind::bits,
     .bits = 1,
     .is_signed = false,
     .dtype = "U8",
     .raw_dtype = "BOOL"},
    {.id = Format::s32, .name = "s32", .kind = NumberKind::integer, .bits = 32, .is_operand = false, .dtype = "I32"},
    // Words that instructions move without computing on them.
    {.id = Format::u32,
     .name = "u32",
     .kind = NumberKind::integer,
     .bits = 32,
     .is_signed = false,
     .is_operand = false,
     .dtype = "U32"},
    // Scales of sm_107. Source: __nv_fp8_ue5m3 of CUDA 13.5: no infinity, and 0xFF is the only NaN.
    {.id = Format::ue5m3,
     .name = "ue5m3",
     .bits = 8,
     .exponent_bits = 5,
     .mantissa_bits = 3,
     .bias = 15,
     .non_finite = NonFinite::nan_only,
     .is_signed = false,
     .is_operand = false,
     .dtype = "U8"},
    // The type of kind::ti16: a sign, four zeros and an 11-bit magnitude. PTX ISA 9.4 gives the name and the range
    // -2^11 + 1 .. 2^11 - 1, which imply sign and magnitude.
    {.id = Format::s1z4m11,
     .name = "s1z4m11",
     .kind = NumberKind::integer,
     .bits = 16,
     .zero_bits = 0x7800,
     .dtype = "U16"},
});
// clang-format on

constexpr const FormatInfo& info(Format format) { return formats[static_cast<size_t>(format)]; }

static_assert(are_in_enum_order(formats));

/// Bits of a code; 0 for a cast number that is not a format, which legality checks refuse.
constexpr int bits_of(Format format) { return static_cast<size_t>(format) < formats.size() ? info(format).bits : 0; }

/// The format with this PTX name, or nothing.
std::optional<Format> format_named(std::string_view name);

/// A set of formats, as a value that tables can hold.
class FormatSet {
 public:
  constexpr FormatSet() = default;
  constexpr FormatSet(std::initializer_list<Format> members) {
    for (const Format member : members) add(member);
  }
  constexpr void add(Format format) { mask_ |= 1u << static_cast<int>(format); }
  constexpr bool contains(Format format) const { return mask_ >> static_cast<int>(format) & 1; }
  constexpr bool intersects(const FormatSet& other) const { return (mask_ & other.mask_) != 0; }
  bool operator==(const FormatSet&) const = default;

 private:
  uint32_t mask_ = 0;
};

inline constexpr FormatSet all_formats = [] {
  FormatSet set;
  for (const FormatInfo& row : formats) set.add(row.id);
  return set;
}();

/// The rows of a set, in the order of `formats`.
std::vector<FormatInfo> rows_of(const FormatSet& set);

enum class NumberClass : uint8_t { finite, infinity, nan };

/// A decoded floating-point code. `significand` and `exponent` are meaningful only if `number` is finite.
struct [[nodiscard]] Decoded {
  NumberClass number = NumberClass::finite;
  bool negative = false;
  uint64_t significand = 0;  // at most mantissa_bits + 1 bits; 0 for a zero
  int exponent = 0;          // value = +-significand * 2^(exponent - mantissa_bits); a zero has min_exponent()

  bool is_zero() const { return number == NumberClass::finite && significand == 0; }
  bool operator==(const Decoded&) const = default;
};

/// Decodes a floating-point code. Bits above the container are ignored. `format` must be of kind floating.
constexpr Decoded decode(const FormatInfo& format, uint64_t bits) {
  const uint64_t code = bits >> format.ignored_bits;
  const uint64_t mantissa = code & format.mantissa_mask();
  const uint64_t field = (code >> format.mantissa_bits) & format.exponent_mask();
  const bool negative = (bits & format.sign_bit()) != 0;
  if (field == format.exponent_mask()) {
    if (format.non_finite == NonFinite::ieee) {
      return {.number = mantissa == 0 ? NumberClass::infinity : NumberClass::nan, .negative = negative};
    }
    if (format.non_finite == NonFinite::nan_only && mantissa == format.mantissa_mask()) {
      return {.number = NumberClass::nan, .negative = negative};
    }
  }
  const bool hidden_bit = field != 0 || !format.has_zero;
  return {.negative = negative,
          .significand = mantissa | (hidden_bit ? uint64_t{1} << format.mantissa_bits : 0),
          .exponent = (hidden_bit ? static_cast<int>(field) : 1) - format.bias};
}
constexpr Decoded decode(Format format, uint64_t bits) { return decode(info(format), bits); }

/// The code that `decode` maps to `value`; a NaN gives the canonical one. The inverse of decode, except for NaN
/// payloads and ignored bits. Throws Error if no code has exactly this value.
uint64_t encode(Format format, const Decoded& value);

/// The value of an integer or bit code: s8, u8, s4, u4, b1, s32, u32, s1z4m11.
constexpr int64_t decode_integer(Format format, uint64_t bits) {
  switch (format) {
    case Format::s8: return static_cast<int8_t>(bits);
    case Format::u8: return static_cast<uint8_t>(bits);
    case Format::s4: return static_cast<int64_t>((bits & 0xF) ^ 8) - 8;
    case Format::u4: return static_cast<int64_t>(bits & 0xF);
    case Format::b1: return static_cast<int64_t>(bits & 1);
    case Format::u32: return static_cast<uint32_t>(bits);
    case Format::s1z4m11:
      return (bits & 0x8000) != 0 ? -static_cast<int64_t>(bits & 0x7FF) : static_cast<int64_t>(bits & 0x7FF);
    default: return static_cast<int32_t>(bits);
  }
}

/// The exact value as text: "-1.75", "2^-133 * 3", "nan (0x7fc00001)", "inf".
std::string print_value(Format format, uint64_t bits);

/// The bits in hex, as wide as the container: "0x3c00".
std::string print_bits(Format format, uint64_t bits);

}  // namespace bitmma
