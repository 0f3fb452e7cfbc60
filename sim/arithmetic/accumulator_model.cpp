// SPDX-License-Identifier: MIT
#include "bitmma/arithmetic/accumulator_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "budget.hpp"
#include "steps.hpp"

namespace bitmma {
namespace {

using enum Family;
using enum Format;
using enum Arithmetic;
constexpr Rounding nearest_even = Rounding::nearest_even;

constexpr FormatSet fp8{e4m3, e5m2}, f8f6f4{e4m3, e5m2, e2m3, e3m2, e2m1}, int8{s8, u8}, integers{s8, u8, s4, u4};
constexpr TargetSet hopper = target_sets::hopper, consumer_blackwell = with_own_rows(target_sets::consumer_blackwell),
                    blackwell_all = with_own_rows(target_sets::tcgen05), rubin = with_own_rows(target_sets::rubin);
constexpr TargetSet volta{Target::sm_70}, turing{Target::sm_75}, ada{Target::sm_89},
    ampere_ada{Target::sm_80, Target::sm_89}, with_i8{Target::sm_100a, Target::sm_110a},
    but_hopper = ampere_ada | blackwell_all | consumer_blackwell;

// One rule per row. If a row does not set it, the sum keeps all mantissa bits of D. The floors are emin(D) - 7. If the
// smallest product and c are above the floor, it cannot be observed; the row then has the family's value and a comment.
// clang-format off
constexpr auto rows = std::to_array<AccumulatorModel>({
    {.targets = hopper, .family = wgmma, .inputs = {tf32}, .output = f32, .fraction_bits = 25, .floor_exponent = -133},
    // Floor not observable: no f16 product is below 2^-28.
    {.targets = hopper, .family = wgmma, .inputs = {f16}, .output = f32, .fraction_bits = 25, .floor_exponent = -133},
    {.targets = hopper, .family = wgmma, .inputs = {bf16}, .output = f32, .fraction_bits = 25, .floor_exponent = -133},
    {.targets = hopper, .family = wgmma, .inputs = {f16}, .output = f16, .fraction_bits = 25, .floor_exponent = -21,
     .rounding = nearest_even},
    // "e8m13": 13 fraction bits inside and in the result, so the low 10 bits of D are zero. Floor not observable.
    {.targets = hopper, .family = wgmma, .inputs = fp8, .output = f32, .fraction_bits = 13, .floor_exponent = -133,
     .output_fraction_bits = 13},
    // Any floor up to -19 gives equal bits.
    {.targets = hopper, .family = wgmma, .inputs = fp8, .output = f16, .fraction_bits = 13, .floor_exponent = -21,
     .rounding = nearest_even},
    {.targets = hopper, .family = wgmma, .inputs = int8, .output = s32, .arithmetic = integer},
    {.targets = hopper, .family = wgmma, .inputs = {b1}, .output = s32, .arithmetic = popcount},

    // Blackwell: this project has not measured such a GPU; the words are a B200's. Unlike on Hopper, 8-bit types keep
    // 25 fraction bits.
    {.targets = blackwell_all, .family = tcgen05, .inputs = {tf32}, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    {.targets = blackwell_all, .family = tcgen05, .inputs = {f16, bf16}, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    // F and rounding from MMA-Sim (arXiv 2511.10909); the floor is unpublished and follows wgmma by analogy.
    {.targets = blackwell_all, .family = tcgen05, .inputs = {f16}, .output = f16, .fraction_bits = 25,
     .floor_exponent = -21, .rounding = nearest_even},
    {.targets = blackwell_all, .family = tcgen05, .inputs = f8f6f4, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    // MMA-Sim covers only e2m1 x e4m3.
    {.targets = blackwell_all, .family = tcgen05, .inputs = f8f6f4, .output = f16, .fraction_bits = 25,
     .floor_exponent = -21, .rounding = nearest_even},
    // No result of kind::ti16 is published. Sums of 16 products of 11 bits fit in 32 bits. D wraps beyond them, because
    // the descriptor has no saturation bit.
    {.targets = rubin, .family = tcgen05, .inputs = {s1z4m11}, .output = s32, .arithmetic = integer},
    {.targets = with_i8, .family = tcgen05, .inputs = int8, .output = s32, .arithmetic = integer},
    {.targets = blackwell_all, .family = tcgen05, .inputs = f8f6f4, .output = f32, .scaling = Scaling::whole_k,
     .fraction_bits = 25, .floor_exponent = -133},
    // -139 is the exponent of a group, or a c, that is zero. Two published models differ where c's exponent lies
    // strictly between the largest scale exponent and the largest product exponent, with a group more than 23 binades
    // lower.
    {.targets = blackwell_all, .family = tcgen05, .inputs = {e2m1}, .output = f32, .scaling = Scaling::exact_groups,
     .fraction_bits = 35, .floor_exponent = -139},

    // mma.sync block_scale on sm_120a: the three known words of such a GPU decide nothing, so the rows copy tcgen05's
    // rules.
    {.targets = consumer_blackwell, .family = mma_sync, .inputs = f8f6f4, .output = f32, .scaling = Scaling::whole_k,
     .fraction_bits = 25, .floor_exponent = -133},
    {.targets = consumer_blackwell, .family = mma_sync, .inputs = {e2m1}, .output = f32,
     .scaling = Scaling::exact_groups, .fraction_bits = 35, .floor_exponent = -139},

    // mma.sync without scales.
    //
    // Volta and Turing, f16. The fraction bits of m8n8k4 on Turing are from mmasim.
    {.targets = volta, .family = mma_sync, .inputs = {f16}, .output = f32, .quad_pairs = true, .terms_per_step = 4,
     .fraction_bits = 23, .floor_exponent = -131},
    {.targets = volta, .family = mma_sync, .inputs = {f16}, .output = f16, .quad_pairs = true, .terms_per_step = 4,
     .fraction_bits = 23, .floor_exponent = -19, .rounding = nearest_even},
    {.targets = turing, .family = mma_sync, .inputs = {f16}, .output = f32, .quad_pairs = true, .terms_per_step = 4,
     .fraction_bits = 23, .floor_exponent = -131},
    {.targets = turing, .family = mma_sync, .inputs = {f16}, .output = f16, .quad_pairs = true, .terms_per_step = 4,
     .fraction_bits = 23, .floor_exponent = -19, .rounding = nearest_even},
    {.targets = turing, .family = mma_sync, .inputs = {f16}, .output = f32, .terms_per_step = 8, .fraction_bits = 24,
     .floor_exponent = -132},
    {.targets = turing, .family = mma_sync, .inputs = {f16}, .output = f16, .terms_per_step = 8, .fraction_bits = 24,
     .floor_exponent = -20, .rounding = nearest_even},

    // Ampere and Ada: k16 of 16-bit types is two chained k8, k8 of tf32 two chained k4. The published outputs fill only
    // one step, so the chaining comes from a published model; for fp8 they fill both.
    {.targets = ampere_ada, .family = mma_sync, .inputs = {f16}, .output = f32, .terms_per_step = 8,
     .fraction_bits = 24, .floor_exponent = -132},
    {.targets = ampere_ada, .family = mma_sync, .inputs = {f16}, .output = f16, .terms_per_step = 8,
     .fraction_bits = 24, .floor_exponent = -20, .rounding = nearest_even},
    {.targets = ampere_ada, .family = mma_sync, .inputs = {bf16}, .output = f32, .terms_per_step = 8,
     .fraction_bits = 24, .floor_exponent = -132},
    {.targets = ampere_ada, .family = mma_sync, .inputs = {tf32}, .output = f32, .terms_per_step = 4,
     .fraction_bits = 24, .floor_exponent = -132},
    {.targets = ada, .family = mma_sync, .inputs = fp8, .output = f32, .terms_per_step = 16, .fraction_bits = 13,
     .floor_exponent = -133, .output_fraction_bits = 13},
    {.targets = ada, .family = mma_sync, .inputs = fp8, .output = f16, .terms_per_step = 16, .fraction_bits = 13,
     .floor_exponent = -21, .rounding = nearest_even},

    // Hopper: all of K in one step.
    {.targets = hopper, .family = mma_sync, .inputs = {f16}, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    {.targets = hopper, .family = mma_sync, .inputs = {f16}, .output = f16, .fraction_bits = 25, .floor_exponent = -21,
     .rounding = nearest_even},
    {.targets = hopper, .family = mma_sync, .inputs = {bf16}, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    {.targets = hopper, .family = mma_sync, .inputs = {tf32}, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    // Without an fp8 tensor core for mma.sync, ptxas widens to f16, emits two HMMA, and adds C with FADD or HADD2.
    {.targets = hopper, .family = mma_sync, .inputs = fp8, .output = f32, .step_order = StepOrder::byte_pairs,
     .c_last = true, .fraction_bits = 25, .floor_exponent = -133},
    {.targets = hopper, .family = mma_sync, .inputs = fp8, .output = f16, .step_order = StepOrder::byte_pairs,
     .c_last = true, .fraction_bits = 25, .floor_exponent = -21, .rounding = nearest_even},

    // Data-centre Blackwell.
    {.targets = blackwell_all, .family = mma_sync, .inputs = {f16}, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    {.targets = blackwell_all, .family = mma_sync, .inputs = {f16}, .output = f16, .fraction_bits = 25,
     .floor_exponent = -21, .rounding = nearest_even},
    {.targets = blackwell_all, .family = mma_sync, .inputs = {bf16}, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    // The published outputs fill four of eight terms.
    {.targets = blackwell_all, .family = mma_sync, .inputs = {tf32}, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    {.targets = blackwell_all, .family = mma_sync, .inputs = fp8, .output = f32, .step_order = StepOrder::byte_pairs,
     .c_last = true, .fraction_bits = 25, .floor_exponent = -133},
    {.targets = blackwell_all, .family = mma_sync, .inputs = fp8, .output = f16, .step_order = StepOrder::byte_pairs,
     .c_last = true, .fraction_bits = 25, .floor_exponent = -21, .rounding = nearest_even},

    // Consumer Blackwell.
    {.targets = consumer_blackwell, .family = mma_sync, .inputs = {f16}, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    {.targets = consumer_blackwell, .family = mma_sync, .inputs = {f16}, .output = f16, .fraction_bits = 25,
     .floor_exponent = -21, .rounding = nearest_even},
    {.targets = consumer_blackwell, .family = mma_sync, .inputs = {bf16}, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    {.targets = consumer_blackwell, .family = mma_sync, .inputs = {tf32}, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    {.targets = consumer_blackwell, .family = mma_sync, .inputs = f8f6f4, .output = f32, .fraction_bits = 25,
     .floor_exponent = -133},
    {.targets = consumer_blackwell, .family = mma_sync, .inputs = f8f6f4, .output = f16, .fraction_bits = 25,
     .floor_exponent = -21, .rounding = nearest_even},

    // m8n8k4 of f16 on targets without a tensor core for it, f64, integers and bits: one rule for all of them.
    {.targets = hopper, .family = mma_sync, .inputs = {f16}, .output = f32, .arithmetic = fma_pairs, .quad_pairs = true,
     .rounding = nearest_even},
    {.targets = hopper, .family = mma_sync, .inputs = {f16}, .output = f16, .arithmetic = fma_pairs, .quad_pairs = true,
     .rounding = nearest_even},
    {.targets = but_hopper, .family = mma_sync, .inputs = {f16}, .output = f32, .arithmetic = fma_pairs,
     .quad_pairs = true, .rounding = nearest_even},
    {.targets = but_hopper, .family = mma_sync, .inputs = {f16}, .output = f16, .arithmetic = fma_pairs,
     .quad_pairs = true, .rounding = nearest_even},
    {.targets = hopper, .family = mma_sync, .inputs = {f64}, .output = f64, .arithmetic = fma_chain,
     .rounding = nearest_even, .nan = NanRule::payload},
    {.targets = but_hopper, .family = mma_sync, .inputs = {f64}, .output = f64, .arithmetic = fma_chain,
     .rounding = nearest_even, .nan = NanRule::payload},
    {.targets = hopper, .family = mma_sync, .inputs = integers, .output = s32, .arithmetic = integer,
     .rounding = nearest_even},
    {.targets = but_hopper | turing, .family = mma_sync, .inputs = integers, .output = s32, .arithmetic = integer,
     .rounding = nearest_even},
    {.targets = hopper, .family = mma_sync, .inputs = {b1}, .output = s32, .arithmetic = popcount,
     .rounding = nearest_even},
    {.targets = but_hopper | turing, .family = mma_sync, .inputs = {b1}, .output = s32, .arithmetic = popcount,
     .rounding = nearest_even},
});
// clang-format on

constexpr auto models = [] {
  auto complete = rows;
  for (AccumulatorModel& row : complete) {
    if (row.output_fraction_bits == 0) row.output_fraction_bits = info(row.output).mantissa_bits;
  }
  return complete;
}();

/// A row that does not fit is still correct, but slow. F - 1 must fit too, because hypotheses about the row use it.
consteval bool rows_fit_the_hot_loops() {
  for (const AccumulatorModel& model : models) {
    if (model.arithmetic != Arithmetic::fused_sum) continue;
    if (model.scaling == Scaling::exact_groups) {
      if (model.group_terms != group_size || !groups_fit(model.fraction_bits, most_groups)) return false;
      continue;
    }
    for (const FormatInfo& a : formats) {
      for (const FormatInfo& b : formats) {
        if (!model.inputs.contains(a.id) || !model.inputs.contains(b.id)) continue;
        // 32 bytes of K; types below 8 bits count as bytes.
        const int terms = 256 / std::max(8, std::min(a.bits, b.bits));
        const Format of_a = step_input(model, a.id), of_b = step_input(model, b.id);
        bool fits = true;
        for_each_step(model, terms, [&](const KStep& step) {
          fits = fits && find_budget(model.fraction_bits, of_a, of_b, step.count) &&
                 find_budget(model.fraction_bits - 1, of_a, of_b, step.count);
        });
        if (!fits) return false;
      }
    }
  }
  return true;
}
static_assert(rows_fit_the_hot_loops());

}  // namespace

std::string_view print(Family family) {
  switch (family) {
    case Family::wgmma: return "wgmma";
    case Family::tcgen05: return "tcgen05";
    case Family::mma_sync: return "mma.sync";
    default: return "tcgen05 moves";
  }
}

std::span<const AccumulatorModel> accumulator_models() { return models; }

const AccumulatorModel* find_accumulator_model(Target target, Family family, Format a, Format b, Format d,
                                               Scaling scaling, bool quad_pairs) {
  const Target adds_as = info(target).adds_as;
  for (const AccumulatorModel& model : models) {
    if (model.targets.contains(adds_as) && model.family == family && model.scaling == scaling &&
        model.quad_pairs == quad_pairs && model.output == d && model.inputs.contains(a) && model.inputs.contains(b)) {
      return &model;
    }
  }
  return nullptr;
}

bool is_chained(const AccumulatorModel& model, int terms) {
  return model.step_order == StepOrder::byte_pairs || (model.terms_per_step > 0 && terms > model.terms_per_step);
}

std::string print_rule(const AccumulatorModel& model) {
  if (model.arithmetic == Arithmetic::integer)
    return model.inputs.contains(Format::s1z4m11) ? "exact sum, wrap" : "exact sum, wrap or one clamp";
  if (model.arithmetic == Arithmetic::popcount) return "popcount, exact sum, wrap";
  if (model.arithmetic == Arithmetic::fma_chain) return "c, then IEEE fma k by k";
  if (model.arithmetic == Arithmetic::fma_pairs)
    return model.output == Format::f32 ? "f32 fma of k = 0..3 from zero, then f32 add of c"
                                       : "f32: c + (a0b0 + a1b1), + (a2b2 + a3b3), then f16";
  const std::string floor = model.floor_exponent ? std::to_string(*model.floor_exponent) : "none";
  const std::string scaling =
      model.scaling == Scaling::exact_groups ? fmt::format("exact groups of {}, ", model.group_terms) : "";
  const std::string steps = model.terms_per_step == 0 ? "" : fmt::format("steps of {}, ", model.terms_per_step);
  const std::string_view order =
      model.step_order == StepOrder::byte_pairs ? "as f16, two steps: k % 4 < 2, then the others; " : "";
  return fmt::format("{}{}{}F = {}, {}-{}, floor {}{}", order, steps, scaling, model.fraction_bits,
                     model.rounding == Rounding::toward_zero ? "RZ" : "RNE", model.output_fraction_bits, floor,
                     model.c_last ? fmt::format("; then + c, IEEE {}", info(model.output).name) : "");
}

}  // namespace bitmma
