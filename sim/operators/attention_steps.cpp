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

// The functions that the notes name.

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
constexpr std::string_view with_exp2f = "each operation to nearest even, exp2f@cuda_13",
                           with_ex2 = "each operation to nearest even, ex2.approx.ftz.f32",
                           with_lg2 = "each operation to nearest even, lg2.approx.ftz.f32";

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

// Of several kernels. A query without keys has the sum 0.

constexpr WeightStep weights_by_exp2f{exp2f_all, "2^exponent", "exp2f@cuda_13"};
constexpr WeightStep weights_by_ex2{ex2_all, "2^exponent", "ex2.approx.ftz.f32"};

constexpr ScaleStep scale_twice{[](const Constants& constants, ConstWords scores, Words scaled) {
                                  for (size_t j = 0; j < scores.size(); ++j)
                                    scaled[j] = word(value(scores[j]) * constants.scale * log2_e);
                                },
                                "score * scale * log2(e); -inf where masked"};

constexpr ExponentStep subtract_largest{[](const Constants&, ConstWords scores, float largest, Words exponents) {
                                          for (size_t j = 0; j < scores.size(); ++j)
                                            exponents[j] = word(value(scores[j]) - largest);
                                        },
                                        "scaled score - largest; -inf where masked"};

// FlashAttention-2.

constexpr Scale2Step flash_scale2{[](float scale) { return static_cast<float>(double{scale} * 1.4426950408889634); },
                                  "scale * log2(e)", "in f64, rounded to f32"};

constexpr RescaleStep flash_rescale{[](const Constants& constants, float before, float largest) {
                                      return exp2f_of((before - largest) * constants.scale2);
                                    },
                                    "exp2f((largest before - largest) * scale2)", with_exp2f};

constexpr ExponentStep flash_exponent{
    [](const Constants& constants, ConstWords scores, float largest, Words exponents) {
      const float scale2 = constants.scale2, scaled_largest = largest * scale2;
      for (size_t j = 0; j < scores.size(); ++j) exponents[j] = word(value(scores[j]) * scale2 - scaled_largest);
    },
    "score * scale2 - largest * scale2; -inf where masked"};

constexpr SumStep flash_sum{
    [](LaneSums& sums, ConstWords weights, float rescale) {
      for (size_t lane = 0; lane < 4; ++lane) {
        const float first = std::fma(sums[lane], rescale, value(weights[2 * lane]));
        sums[lane] = lane_sum(weights, lane, first + value(weights[2 * lane + 1]), 1);
      }
    },
    "lane c adds its columns: fma(sum, rescale, p(2c)) + p(2c + 1) + p(2c + 8) + p(2c + 9) + p(2c + 16) + ..."};

constexpr TotalStep flash_total{[](const LaneSums& lanes) { return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]); },
                                "(lane 0 + lane 2) + (lane 1 + lane 3)"};

constexpr LogSumExpStep flash_log_sum_exp{
    [](const Constants& constants, float largest, float sum) {
      if (sum == 0 || std::isnan(sum)) return constants.is_split ? minus_infinity : -minus_infinity;
      return std::fma(largest, constants.scale, fast_logf_of(sum));
    },
    "fma(largest, scale, __logf(sum)); if the sum is 0 or NaN, infinity, and in a split -infinity",
    "to nearest even, __logf@cuda_13"};

constexpr InverseStep flash_inverse{[](float sum) { return sum == 0 || std::isnan(sum) ? 1.0F : 1.0F / sum; },
                                    "1 / sum; 1 if the sum is 0 or NaN", to_nearest};

// The memory-efficient kernel.

constexpr RescaleStep efficient_rescale{
    [](const Constants&, float before, float largest) { return exp2f_of(before - largest); },
    "exp2f(largest before - largest)", with_exp2f};

constexpr SumStep efficient_sum{
    [](LaneSums& sums, ConstWords weights, float rescale) {
      sums[0] *= rescale;
      for (size_t column = 0; column < weights.size(); column += 32) {
        LaneSums lanes;
        for (size_t lane = 0; lane < 4; ++lane) lanes[lane] = lane_sum(weights.subspan(column, 32), lane, 0, 0);
        sums[0] += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
      }
    },
    "sum * rescale, then the 32 columns of one warp after the other: + ((lane 0 + lane 1) + (lane 2 + lane 3))"};

constexpr LogSumExpStep efficient_log_sum_exp{
    [](const Constants&, float largest, float sum) {
      return (largest == minus_infinity ? 0.0F : largest) / log2_e + logf_of(sum == 0 ? 1.0F : sum);
    },
    "largest / log2(e) + logf(sum); 0 without keys", "each operation to nearest even, logf@cuda_13"};

constexpr InverseStep efficient_inverse{[](float sum) { return sum == 0 ? 1.0F : 1.0F / sum; },
                                        "1 / sum; 1 if the sum is 0", to_nearest};

// cuDNN's kernels.

constexpr Scale2Step cudnn_scale2{[](float scale) { return scale * log2_e; }, "scale * log2(e)", to_nearest};

constexpr ScaleStep cudnn_scale{[](const Constants& constants, ConstWords scores, Words scaled) {
                                  for (size_t j = 0; j < scores.size(); ++j)
                                    scaled[j] = word(value(scores[j]) * constants.scale2);
                                },
                                "score * scale2; -inf where masked", to_nearest};

constexpr RescaleStep cudnn_rescale{[](const Constants&, float before, float largest) { return ex2(before - largest); },
                                    "ex2.approx.ftz.f32(largest before - largest)", with_ex2};

constexpr SumStep cudnn_sum{
    [](LaneSums& sums, ConstWords weights, float rescale) {
      for (size_t lane = 0; lane < 4; ++lane) sums[lane] = std::fma(sums[lane], rescale, lane_sum(weights, lane, 0, 0));
    },
    "lane c adds its columns: fma(sum, rescale, p(2c) + p(2c + 1) + p(2c + 8) + p(2c + 9) + p(2c + 16) + ...)"};

constexpr TotalStep cudnn_total{[](const LaneSums& lanes) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); },
                                "(lane 0 + lane 1) + (lane 2 + lane 3)"};

constexpr LogSumExpStep cudnn_log_sum_exp{
    [](const Constants&, float largest, float sum) { return std::fma(largest, ln_2, lg2(sum) * ln_2); },
    "fma(largest, ln 2, lg2.approx.ftz.f32(sum) * ln 2)", with_lg2};

constexpr LogSumExpStep cudnn_sm80_log_sum_exp{
    [](const Constants&, float largest, float sum) { return std::fma(lg2(sum), ln_2, largest * ln_2); },
    "fma(lg2.approx.ftz.f32(sum), ln 2, largest * ln 2)", with_lg2};

constexpr InverseStep cudnn_inverse{[](float sum) { return sum == 0 ? 1.0F : rcp(sum); }, "1 / sum; 1 if the sum is 0",
                                    "rcp.approx.ftz.f32"};

constexpr auto all_kernels = std::to_array<AttentionSteps>({
    {.kernel = AttentionKernel::flash_2,
     .name = "flash",
     .title = "FlashAttention-2: flash_fwd_kernel",
     .title_of_split = "FlashAttention-2: flash_fwd_splitkv_kernel and its combination",
     .family = Family::mma_sync,
     .instruction = "mma.sync.m16n8k16",
     .k = 16,
     .takes_last_keys_first = true,
     .ends_at_last_key = true,
     .scale2 = flash_scale2,
     .rescale = flash_rescale,
     .exponent = flash_exponent,
     .weights = weights_by_exp2f,
     .sum = flash_sum,
     .total = flash_total,
     .log_sum_exp = flash_log_sum_exp,
     .inverse = flash_inverse},
    {.kernel = AttentionKernel::memory_efficient,
     .name = "efficient",
     .title = "memory-efficient: fmha_cutlassF",
     .family = Family::mma_sync,
     .instruction = "mma.sync.m16n8k8",
     .k = 8,
     .scale = scale_twice,
     .rescale = efficient_rescale,
     .exponent = subtract_largest,
     .weights = weights_by_exp2f,
     .sum = efficient_sum,
     .log_sum_exp = efficient_log_sum_exp,
     .inverse = efficient_inverse},
    {.kernel = AttentionKernel::cudnn,
     .name = "cudnn",
     .title = "cuDNN: sdpa_sm90_flash_fprop_wgmma_f16_knob_7",
     .family = Family::wgmma,
     .instruction = "wgmma.m64k16",
     .k = 16,
     .scale2 = cudnn_scale2,
     .scale = cudnn_scale,
     .rescale = cudnn_rescale,
     .exponent = subtract_largest,
     .weights = weights_by_ex2,
     .sum = cudnn_sum,
     .total = cudnn_total,
     .log_sum_exp = cudnn_log_sum_exp,
     .inverse = cudnn_inverse},
    {.kernel = AttentionKernel::cudnn_sm80,
     .name = "cudnn_sm80",
     .title = "cuDNN: sdpa_sm80_flash_fprop_wmma_f16_knob_3",
     .family = Family::mma_sync,
     .instruction = "mma.sync.m16n8k16",
     .k = 16,
     .scale = scale_twice,
     .rescale = cudnn_rescale,
     .exponent = subtract_largest,
     .weights = weights_by_ex2,
     .sum = cudnn_sum,
     .total = cudnn_total,
     .log_sum_exp = cudnn_sm80_log_sum_exp,
     .inverse = cudnn_inverse},
});

}  // namespace

const AttentionSteps& attention_steps_of(AttentionKernel kernel) {
  return *std::ranges::find(all_kernels, kernel, &AttentionSteps::kernel);
}

const AttentionSteps* find_attention_steps(std::string_view name) {
  const auto row = std::ranges::find(all_kernels, name, &AttentionSteps::name);
  return row == all_kernels.end() ? nullptr : &*row;
}

std::string attention_kernel_names() {
  std::vector<std::string_view> names;
  for (const AttentionSteps& steps : all_kernels) names.push_back(steps.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

BITMMA_IN_ENVIRONMENT AttentionConstants constants_of(const AttentionPlan& plan) {
  const auto& scale2 = attention_steps_of(plan.kernel).scale2;
  return {.scale = plan.scale, .scale2 = scale2.compute ? scale2.compute(plan.scale) : 0, .is_split = plan.splits > 1};
}

std::string_view title_of(const AttentionPlan& plan) {
  const AttentionSteps& steps = attention_steps_of(plan.kernel);
  return plan.splits > 1 && !steps.title_of_split.empty() ? steps.title_of_split : steps.title;
}

}  // namespace bitmma::operators
