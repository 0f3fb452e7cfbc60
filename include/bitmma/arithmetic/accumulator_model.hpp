// SPDX-License-Identifier: MIT
// What the tensor cores compute, one row per instruction group. These are *measured* facts; instruction/evidence.hpp
// has their sources for each GPU. The *documented* legal forms are in instruction/form.hpp,
// and the two are never mixed.
//
//   wgmma f16 -> f32:  e_max = max over non-zero products and c of their exponents, and the floor
//                      every product and c truncated toward zero to a multiple of 2^(e_max - 25), added exactly,
//                      the sum truncated once to f32
//   mxf4nvf4:          groups of 16 products summed exactly, T = sum * significands of both scales, its exponent that
//                      of the scales; every T and c truncated to a multiple of 2^(e_max - 35), added, truncated once
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bitmma/core/target.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma {

/// The families of instructions. The last one computes nothing: it moves data to, from and within Tensor Memory.
enum class Family : uint8_t { wgmma, tcgen05, mma_sync, tmem_move };

std::string_view print(Family family);

enum class Arithmetic : uint8_t {
  fused_sum,  // one aligned sum of all products and c, rounded once
  integer,    // exact sum, then wrap modulo 2^32 or one clamp
  popcount,   // number of positions where both bits are set, or differ, added like integers
  fma_chain,  // c, then one IEEE fused multiply-add for each k, in the instruction's rounding mode
  fma_pairs,  // IEEE operations that replace m8n8k4 f16 on GPUs without a tensor core for it: sim/arithmetic/fma.hpp
};

/// Which terms a step of K takes, if a row has several steps.
enum class StepOrder : uint8_t {
  ascending,   // terms_per_step consecutive k, ascending
  byte_pairs,  // two steps: k % 4 = 0 and 1, then 2 and 3; fp8 is first widened to f16 and keeps f16's exponents
};

/// Which NaN a sum returns.
enum class NanRule : uint8_t {
  canonical,  // one word, without a payload
  payload,    // fma of f64: the NaN of b, else of c, else of a, made quiet; 0xFFF8000000000000 if none is NaN
};

/// How block scales enter a fused sum.
enum class Scaling : uint8_t {
  none,
  whole_k,       // mxf8f6f4: one scale for all of K, or for 32 of it; its exponent is part of every product's
  exact_groups,  // mxf4, mxf4nvf4: products are summed exactly, 16 per group, times both scales; the exponents align
};

/// Hypotheses that were tested and refuted. No row for real hardware sets any of them. A row that does computes the
/// result of a wrong model: for tests that must detect the difference, and to explain results of other emulators.
struct Overrides {
  bool product_normalised = false;  // a product >= 2 raises its alignment exponent
  bool zero_product_has_exponent = false;
  bool align_toward_negative = false;  // terms rounded toward minus infinity instead of toward zero
  bool c_after_sum = false;            // c is added exactly before the sum is truncated, instead of being aligned
  bool zero_keeps_sign = false;        // a zero result keeps the sign of the rounded sum, or of all-negative zeros
  bool c_nan_payload_passed = false;
  bool f16_through_f32 = false;  // an f16 result is truncated to f32 first

  bool operator==(const Overrides&) const = default;
};

struct [[nodiscard]] AccumulatorModel {
  TargetSet targets = {};  // that add by this row; other targets add like one of them (core/target.hpp)
  Family family = Family::wgmma;
  FormatSet inputs = {};  // A and B may be any two of these
  Format output = Format::f32;
  Arithmetic arithmetic = Arithmetic::fused_sum;
  Scaling scaling = Scaling::none;
  int group_terms = 16;     // for exact_groups: products per group, which has one scale of A and one of B
  bool quad_pairs = false;  // m8n8k4 of f16, which has separate rows
  int terms_per_step = 0;   // terms of K that are fused; D of a step is C of the next. 0: all terms of the instruction
  StepOrder step_order = StepOrder::ascending;
  bool c_last = false;    // steps start from zero, and one IEEE addition in D's format adds C to their result
  int fraction_bits = 0;  // F: terms are multiples of 2^(e_max - F)
  std::optional<int> floor_exponent = {};  // e_max is at least this
  Rounding rounding = Rounding::toward_zero;
  int output_fraction_bits = 0;  // mantissa bits of the output that are kept
  NanRule nan = NanRule::canonical;
  Overrides overrides = {};

  bool operator==(const AccumulatorModel&) const = default;
};

/// Every row, hardware as measured.
std::span<const AccumulatorModel> accumulator_models();

/// The row for these types on `target`; nullptr if no instruction of the family has them there.
const AccumulatorModel* find_accumulator_model(Target target, Family family, Format a, Format b, Format d,
                                               Scaling scaling = Scaling::none, bool quad_pairs = false);

/// True if the row splits `terms` terms into several steps.
bool is_chained(const AccumulatorModel& model, int terms);

/// "F = 25, RZ-23, floor -133": the rule in short. Steps of K are named if there are several.
std::string print_rule(const AccumulatorModel& model);

}  // namespace bitmma
