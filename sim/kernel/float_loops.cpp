// SPDX-License-Identifier: MIT
#include "float_loops.hpp"

#include <bit>

#include "../math/f32.hpp"
#include "lanes.hpp"

namespace bitmma::kernel {
namespace {

using math::Flush;
using math::pick;

// --- quotients

constexpr uint32_t magnitude_of(uint32_t word) { return word & 0x7FFFFFFF; }
constexpr uint32_t power_of_two(int exponent) { return static_cast<uint32_t>(exponent + 127) << 23; }

/// The factor for both operands of a division. Without .ftz it brings a subnormal divisor into the range of the unit;
/// .full also scales a large one.
template <bool full, bool ftz>
BITMMA_INLINE uint32_t quotient_scale(uint32_t b) {
  const uint32_t magnitude = magnitude_of(b);
  const bool is_huge = full && magnitude > power_of_two(126) && magnitude <= math::infinity_f32,
             is_tiny = !ftz && magnitude < power_of_two(-126);
  return pick(is_huge, power_of_two(-2), pick(is_tiny, power_of_two(24), math::one_f32));
}

/// A product to nearest even; a NaN is 0x7FFFFFFF.
template <bool ftz>
BITMMA_INLINE uint32_t product(uint32_t a, uint32_t b) {
  using F = math::F32<ftz ? Flush::all : Flush::none>;
  return math::canonical((F::of(a) * F::of(b)).word());
}
/// The same unless b is 1, which leaves `a` as it is.
template <bool ftz>
BITMMA_INLINE uint32_t scaled(uint32_t a, uint32_t scale) {
  return pick(scale == math::one_f32, a, product<ftz>(a, scale));
}

template <bool full, bool ftz>
BITMMA_INLINE uint32_t quotient(uint32_t a, uint32_t b) {
  const uint32_t scale = quotient_scale<full, ftz>(b);
  return product<ftz>(math::mufu_rcp(scaled<ftz>(b, scale)), scaled<ftz>(a, scale));
}

template <bool full, bool ftz>
BITMMA_INLINE void run_quotient_factors(Warp& warp, const Op& op, Mask mask) {
  const auto *a = warp.lanes_of<const uint32_t>(op.a), *b = warp.lanes_of<const uint32_t>(op.b);
  uint32_t reciprocals[lanes], dividends[lanes];
  for (int lane = 0; lane < lanes; ++lane) {
    const uint32_t scale = quotient_scale<full, ftz>(b[lane]);
    reciprocals[lane] = math::mufu_rcp(scaled<ftz>(b[lane], scale));
    dividends[lane] = scaled<ftz>(a[lane], scale);
  }
  set_lanes(warp.lanes_of<uint32_t>(op.d), mask, reciprocals);
  set_lanes(warp.lanes_of<uint32_t>(op.d2), mask, dividends);
}

// --- conversions

/// A word without its last `bits`, rounded to nearest even.
constexpr uint32_t without_last(uint32_t word, int bits) {
  return (word + ((1u << (bits - 1)) - 1) + (word >> bits & 1)) >> bits;
}

constexpr uint32_t nan_of_16_bits = 0x7FFF;

BITMMA_INLINE uint32_t f16_of_f32(uint32_t a) {
  constexpr uint32_t infinity = 0x7C00, first_normal = power_of_two(-14);
  constexpr uint32_t bias_change = (127 - 15) << 10;
  const uint32_t magnitude = magnitude_of(a), normal = without_last(magnitude, 13) - bias_change;
  // A sum with 1/2 rounds at 2^-24, the last place of subnormal f16 numbers.
  const uint32_t half = std::bit_cast<uint32_t>(0.5F);
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - half;
  const uint32_t number = pick(magnitude < first_normal, subnormal, normal < infinity ? normal : infinity);
  return pick(magnitude > math::infinity_f32, nan_of_16_bits, (a >> 16 & 0x8000) | number);
}
BITMMA_INLINE uint32_t bf16_of_f32(uint32_t a) {
  return pick(magnitude_of(a) > math::infinity_f32, nan_of_16_bits, without_last(a, 16));
}
BITMMA_INLINE uint32_t f16x2_of_f32(uint32_t a, uint32_t b) { return f16_of_f32(a) << 16 | f16_of_f32(b); }
BITMMA_INLINE uint32_t bf16x2_of_f32(uint32_t a, uint32_t b) { return bf16_of_f32(a) << 16 | bf16_of_f32(b); }

BITMMA_INLINE uint32_t f32_of_f16(uint32_t a) {
  constexpr uint32_t infinity = 0x7C00, first_normal = 0x0400;
  const uint32_t sign = (a & 0x8000) << 16, magnitude = a & 0x7FFF;
  const uint32_t normal = (magnitude << 13) + ((127u - 15) << 23);
  const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F);
  const uint32_t number =
      pick(magnitude < first_normal, subnormal, pick(magnitude == infinity, math::infinity_f32, normal));
  return pick(magnitude > infinity, math::nan_f32, sign | number);
}
BITMMA_INLINE uint32_t f32_of_bf16(uint32_t a) { return a << 16; }

BITMMA_INLINE uint32_t f32_of_s32(uint32_t a) {
  return std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(a)));
}
BITMMA_INLINE uint32_t f32_of_u32(uint32_t a) { return std::bit_cast<uint32_t>(static_cast<float>(a)); }

/// cvt.rzi.s32.f32: NaN gives 0, and numbers beyond the type its nearest.
BITMMA_INLINE uint32_t s32_of_f32(uint32_t a) {
  constexpr uint32_t first_beyond = power_of_two(31);
  const uint32_t magnitude = magnitude_of(a);
  const bool is_beyond = magnitude >= first_beyond;
  const float inside = std::bit_cast<float>(pick(is_beyond, 0, a));
  const uint32_t nearest = pick((a >> 31) != 0, 0x80000000, 0x7FFFFFFF);
  const auto number = static_cast<uint32_t>(static_cast<int32_t>(inside));
  return pick(magnitude > math::infinity_f32, 0, pick(is_beyond, nearest, number));
}

struct CvtLoop {
  CvtInstruction instruction = {};
  RunAtLevels run = {};
};
using enum CvtType;
constexpr CvtRounding rn = CvtRounding::rn, rzi = CvtRounding::rzi, none = CvtRounding::none;
constexpr auto cvt_loops = std::to_array<CvtLoop>({
    {{.to = f16, .from = f32, .rounding = rn}, map<f16_of_f32>},
    {{.to = bf16, .from = f32, .rounding = rn}, map<bf16_of_f32>},
    {{.to = f16, .from = f32, .lanes = 2, .rounding = rn}, map<f16x2_of_f32>},
    {{.to = bf16, .from = f32, .lanes = 2, .rounding = rn}, map<bf16x2_of_f32>},
    {{.to = f32, .from = f16, .rounding = none}, map<f32_of_f16>},
    {{.to = f32, .from = bf16, .rounding = none}, map<f32_of_bf16>},
    {{.to = f32, .from = s32, .rounding = rn}, map<f32_of_s32>},
    {{.to = f32, .from = u32, .rounding = rn}, map<f32_of_u32>},
    {{.to = s32, .from = f32, .rounding = rzi}, map<s32_of_f32>},
});

bool divides_f32(const MathInstruction& instruction) {
  return instruction.operation == MathOperation::div && instruction.format == Format::f32 && !instruction.x2 &&
         instruction.accuracy != MathAccuracy::rounded && !instruction.sat && !instruction.relu;
}

}  // namespace

Run quotient_run(const MathInstruction& instruction) {
  if (!divides_f32(instruction)) return nullptr;
  const bool ftz = instruction.ftz;
  if (instruction.accuracy == MathAccuracy::full) return ftz ? map<quotient<true, true>> : map<quotient<true, false>>;
  return ftz ? map<quotient<false, true>> : map<quotient<false, false>>;
}

Run quotient_factors_run(const MathInstruction& instruction) {
  const bool ftz = instruction.ftz;
  if (instruction.accuracy == MathAccuracy::full)
    return ftz ? at_levels<run_quotient_factors<true, true>> : at_levels<run_quotient_factors<true, false>>;
  return ftz ? at_levels<run_quotient_factors<false, true>> : at_levels<run_quotient_factors<false, false>>;
}

Run cvt_run(const CvtInstruction& instruction) {
  for (const CvtLoop& row : cvt_loops) {
    if (row.instruction == instruction) return row.run;
  }
  return nullptr;
}

}  // namespace bitmma::kernel
