// SPDX-License-Identifier: MIT
// Host floats are single IEEE operations here: nothing is contracted (CMakeLists.txt), and steps are called through
// their pointers, inside an IeeeEnvironment.
#include "attention_steps.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "../core/ieee_environment.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/c_function.hpp"
#include "row_lanes.hpp"

namespace bitmma::operators {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity(), log2_e = 1.44269504F, ln_2 = 0.693147182F;

// The functions of the notes' names.

void exp2f_all(std::span<uint32_t> words) {
  static const CFunction& exp2f = parse_c_function("exp2f@cuda_13");
  compute(exp2f, words, {}, words);
}
void ex2_all(std::span<uint32_t> words) {
  static const MathInstruction ex2 = parse_math_instruction("ex2.approx.ftz.f32");
  compute(ex2, words, {}, {}, words);
}
float exp2f_of(float x) {
  static const CFunction& exp2f = parse_c_function("exp2f@cuda_13");
  return value(compute(exp2f, word(x)));
}
float ex2(float x) {
  static const MathInstruction ex2 = parse_math_instruction("ex2.approx.ftz.f32");
  return value(static_cast<uint32_t>(compute(ex2, word(x))));
}
float lg2(float x) {
  static const MathInstruction lg2 = parse_math_instruction("lg2.approx.ftz.f32");
  return value(static_cast<uint32_t>(compute(lg2, word(x))));
}
float rcp(float x) {
  static const MathInstruction rcp = parse_math_instruction("rcp.approx.ftz.f32");
  return value(static_cast<uint32_t>(compute(rcp, word(x))));
}
float logf_of(float x) {
  static const CFunction& logf = parse_c_function("logf@cuda_13");
  return value(compute(logf, word(x)));
}
/// CUDA's __logf: lg2.approx * ln 2.
float fast_logf_of(float x) {
  static const CFunction& logf = parse_c_function("__logf@cuda_13");
  return value(compute(logf, word(x)));
}
constexpr std::string_view exp2f = "exp2f@cuda_13", with_exp2f = "each operation to nearest even, exp2f@cuda_13",
                           ex2_name = "ex2.approx.ftz.f32",
                           with_ex2 = "each operation to nearest even, ex2.approx.ftz.f32",
                           with_lg2 = "each operation to nearest even, lg2.approx.ftz.f32";

// Steps that several kernels have.

using Constants = AttentionConstants;
using Words = std::span<uint32_t>;
using ConstWords = std::span<const uint32_t>;

/// What a lane adds of a row: lane c has columns 8 j + 2 c and 8 j + 2 c + 1. It begins with its pair number `first`.
float lane_sum(ConstWords weights, size_t lane, float sum, size_t first) {
  for (size_t j = 8 * first + 2 * lane; j < weights.size(); j += 8) {
    sum += value(weights[j]);
    sum += value(weights[j + 1]);
  }
  return sum;
}

constexpr AttentionStep<void(const Constants&, ConstWords, Words)> scale_twice = {
    .compute =
        [](const Constants& constants, ConstWords scores, Words scaled) {
          for (size_t j = 0; j < scores.size(); ++j) scaled[j] = word(value(scores[j]) * constants.scale * log2_e);
        },
    .operation = "score * scale * log2(e); -inf where masked"};

constexpr AttentionStep<void(const Constants&, ConstWords, float, Words)> subtract_largest = {
    .compute =
        [](const Constants&, ConstWords scores, float largest, Words exponents) {
          for (size_t j = 0; j < scores.size(); ++j) exponents[j] = word(value(scores[j]) - largest);
        },
    .operation = "scaled score - largest; -inf where masked"};

/// The steps after the exponents of cuDNN's kernels.
constexpr AttentionStep<float(const Constants&, float, float)> rescale_by_ex2 = {
    .compute = [](const Constants&, float before, float largest) { return ex2(before - largest); },
    .operation = "ex2.approx.ftz.f32(largest before - largest)",
    .rounding = with_ex2};
constexpr AttentionStep<void(LaneSums&, ConstWords, float)> sum_tile_in_lanes = {
    .compute =
        [](LaneSums& sums, ConstWords weights, float rescale) {
          for (size_t lane = 0; lane < 4; ++lane)
            sums[lane] = std::fma(sums[lane], rescale, lane_sum(weights, lane, 0, 0));
        },
    .operation = "lane c: fma(sum, rescale, p(2c) + p(2c + 1) + p(2c + 8) + p(2c + 9) + p(2c + 16) + ...)"};
constexpr AttentionStep<float(const LaneSums&)> total_of_neighbours = {
    .compute = [](const LaneSums& lanes) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); },
    .operation = "(lane 0 + lane 1) + (lane 2 + lane 3)"};
constexpr AttentionStep<float(float)> inverse_by_rcp = {.compute = [](float sum) { return sum == 0 ? 1.0F : rcp(sum); },
                                                        .operation = "1 / sum; 1 if the sum is 0",
                                                        .rounding = "rcp.approx.ftz.f32"};

// A query without keys has the sum 0.
constexpr auto rows = std::to_array<AttentionSteps>({
    {.kernel = AttentionKernel::flash_2,
     .name = "flash",
     .title = "FlashAttention-2: flash_fwd_kernel",
     .title_of_split = "FlashAttention-2: flash_fwd_splitkv_kernel and its combination",
     .family = Family::mma_sync,
     .instruction = "mma.sync.m16n8k16",
     .k = 16,
     .takes_last_keys_first = true,
     .ends_at_last_key = true,
     .scale2 = {.compute = [](float scale) { return static_cast<float>(double{scale} * 1.4426950408889634); },
                .operation = "scale * log2(e)",
                .rounding = "in f64, rounded to f32"},
     .rescale = {.compute = [](const Constants& constants, float before,
                               float largest) { return exp2f_of((before - largest) * constants.scale2); },
                 .operation = "exp2f((largest before - largest) * scale2)",
                 .rounding = with_exp2f},
     .exponent = {.compute =
                      [](const Constants& constants, ConstWords scores, float largest, Words exponents) {
                        const float scale2 = constants.scale2, scaled_largest = largest * scale2;
                        for (size_t j = 0; j < scores.size(); ++j)
                          exponents[j] = word(value(scores[j]) * scale2 - scaled_largest);
                      },
                  .operation = "score * scale2 - largest * scale2; -inf where masked"},
     .weights = {.compute = exp2f_all, .operation = "2^exponent", .rounding = exp2f},
     .sum = {.compute =
                 [](LaneSums& sums, ConstWords weights, float rescale) {
                   for (size_t lane = 0; lane < 4; ++lane) {
                     const float first = std::fma(sums[lane], rescale, value(weights[2 * lane]));
                     sums[lane] = lane_sum(weights, lane, first + value(weights[2 * lane + 1]), 1);
                   }
                 },
             .operation = "lane c: fma(sum, rescale, p(2c)) + p(2c + 1) + p(2c + 8) + p(2c + 9) + p(2c + 16) + ..."},
     .total = {.compute = [](const LaneSums& lanes) { return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]); },
               .operation = "(lane 0 + lane 2) + (lane 1 + lane 3)"},
     .log_sum_exp = {.compute =
                         [](const Constants& constants, float largest, float sum) {
                           if (sum == 0 || std::isnan(sum))
                             return constants.is_split ? minus_infinity : -minus_infinity;
                           return std::fma(largest, constants.scale, fast_logf_of(sum));
                         },
                     .operation = "fma(largest, scale, __logf(sum)); if the sum is 0 or NaN inf, and -inf in a split",
                     .rounding = "to nearest even, __logf@cuda_13"},
     .inverse = {.compute = [](float sum) { return sum == 0 || std::isnan(sum) ? 1.0F : 1.0F / sum; },
                 .operation = "1 / sum; 1 if the sum is 0 or NaN",
                 .rounding = to_nearest}},
    {.kernel = AttentionKernel::memory_efficient,
     .name = "efficient",
     .title = "memory-efficient: fmha_cutlassF",
     .family = Family::mma_sync,
     .instruction = "mma.sync.m16n8k8",
     .k = 8,
     .scale = scale_twice,
     .rescale = {.compute = [](const Constants&, float before, float largest) { return exp2f_of(before - largest); },
                 .operation = "exp2f(largest before - largest)",
                 .rounding = with_exp2f},
     .exponent = subtract_largest,
     .weights = {.compute = exp2f_all, .operation = "2^exponent", .rounding = exp2f},
     // Each warp adds up its 32 columns, and the row's one sum takes the warps one after the other.
     .sum = {.compute =
                 [](LaneSums& sums, ConstWords weights, float rescale) {
                   sums[0] *= rescale;
                   for (size_t column = 0; column < weights.size(); column += 32) {
                     LaneSums lanes;
                     for (size_t lane = 0; lane < 4; ++lane)
                       lanes[lane] = lane_sum(weights.subspan(column, 32), lane, 0, 0);
                     sums[0] += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
                   }
                 },
             .operation = "sum * rescale, then for every 32 keys + ((lane 0 + lane 1) + (lane 2 + lane 3))"},
     .log_sum_exp = {.compute =
                         [](const Constants&, float largest, float sum) {
                           return (largest == minus_infinity ? 0.0F : largest) / log2_e +
                                  logf_of(sum == 0 ? 1.0F : sum);
                         },
                     .operation = "largest / log2(e) + logf(sum); 0 without keys",
                     .rounding = "each operation to nearest even, logf@cuda_13"},
     .inverse = {.compute = [](float sum) { return sum == 0 ? 1.0F : 1.0F / sum; },
                 .operation = "1 / sum; 1 if the sum is 0",
                 .rounding = to_nearest}},
    {.kernel = AttentionKernel::cudnn,
     .name = "cudnn",
     .title = "cuDNN: sdpa_sm90_flash_fprop_wgmma_f16_knob_7",
     .family = Family::wgmma,
     .instruction = "wgmma.m64k16",
     .k = 16,
     .scale2 = {.compute = [](float scale) { return scale * log2_e; },
                .operation = "scale * log2(e)",
                .rounding = to_nearest},
     .scale = {.compute =
                   [](const Constants& constants, ConstWords scores, Words scaled) {
                     for (size_t j = 0; j < scores.size(); ++j) scaled[j] = word(value(scores[j]) * constants.scale2);
                   },
               .operation = "score * scale2; -inf where masked",
               .rounding = to_nearest},
     .rescale = rescale_by_ex2,
     .exponent = subtract_largest,
     .weights = {.compute = ex2_all, .operation = "2^exponent", .rounding = ex2_name},
     .sum = sum_tile_in_lanes,
     .total = total_of_neighbours,
     .log_sum_exp = {.compute = [](const Constants&, float largest,
                                   float sum) { return std::fma(largest, ln_2, lg2(sum) * ln_2); },
                     .operation = "fma(largest, ln 2, lg2.approx.ftz.f32(sum) * ln 2)",
                     .rounding = with_lg2},
     .inverse = inverse_by_rcp},
    {.kernel = AttentionKernel::cudnn_sm80,
     .name = "cudnn_sm80",
     .title = "cuDNN: sdpa_sm80_flash_fprop_wmma_f16_knob_3",
     .family = Family::mma_sync,
     .instruction = "mma.sync.m16n8k16",
     .k = 16,
     .scale = scale_twice,
     .rescale = rescale_by_ex2,
     .exponent = subtract_largest,
     .weights = {.compute = ex2_all, .operation = "2^exponent", .rounding = ex2_name},
     .sum = sum_tile_in_lanes,
     .total = total_of_neighbours,
     .log_sum_exp = {.compute = [](const Constants&, float largest,
                                   float sum) { return std::fma(lg2(sum), ln_2, largest * ln_2); },
                     .operation = "fma(lg2.approx.ftz.f32(sum), ln 2, largest * ln 2)",
                     .rounding = with_lg2},
     .inverse = inverse_by_rcp},
});

}  // namespace

const AttentionSteps& attention_steps_of(AttentionKernel kernel) {
  return *std::ranges::find(rows, kernel, &AttentionSteps::kernel);
}

const AttentionSteps* find_attention_steps(std::string_view name) {
  const auto row = std::ranges::find(rows, name, &AttentionSteps::name);
  return row == rows.end() ? nullptr : &*row;
}

std::string attention_kernel_names() {
  std::vector<std::string_view> names;
  for (const AttentionSteps& steps : rows) names.push_back(steps.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

BITMMA_IN_ENVIRONMENT AttentionConstants constants_of(const AttentionPlan& plan) {
  const auto& scale2 = attention_steps_of(plan.kernel).scale2;
  return {.scale = plan.scale, .scale2 = scale2.compute ? scale2.compute(plan.scale) : 0, .is_split = plan.splits > 1};
}

std::string_view title_of(const AttentionPlan& plan) {
  const AttentionSteps& steps = attention_steps_of(plan.kernel);
  return plan.splits > 1 ? steps.title_of_split : steps.title;
}

}  // namespace bitmma::operators
