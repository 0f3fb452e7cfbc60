#include "bitmma/arithmetic/accumulator_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "budget.hpp"

namespace bitmma {
namespace {

constexpr FormatSet fp8{Format::e4m3, Format::e5m2};
constexpr FormatSet int8{Format::s8, Format::u8};
constexpr FormatSet f8f6f4{Format::e4m3, Format::e5m2, Format::e2m3, Format::e3m2, Format::e2m1};
// The floors are emin(D) - 7. Where the smallest product and c lie above the floor nothing can show it; the row then
// carries the family's value and says so.
constexpr TargetSet hopper = target_sets::hopper, consumer_blackwell = with_own_rows(target_sets::consumer_blackwell);
constexpr TargetSet volta{Target::sm_70}, turing{Target::sm_75}, ada{Target::sm_89},
    ampere_ada{Target::sm_80, Target::sm_89},
    blackwell_all = with_own_rows(target_sets::tcgen05), with_i8{Target::sm_100a, Target::sm_110a},
    rubin = with_own_rows(target_sets::rubin), but_hopper = ampere_ada | blackwell_all | consumer_blackwell;
constexpr FormatSet integers{Format::s8, Format::u8, Format::s4, Format::u4};

/// mma.sync: products and C fused, `terms` at a time, 0 for all.
constexpr AccumulatorModel fused(TargetSet targets, FormatSet inputs, Format output, int terms, int fraction_bits,
                                 int floor) {
  const bool to_f16 = output == Format::f16;
  return {.targets = targets,
          .family = Family::mma_sync,
          .inputs = inputs,
          .output = output,
          .terms_per_step = terms,
          .fraction_bits = fraction_bits,
          .floor_exponent = floor,
          .rounding = to_f16 ? Rounding::nearest_even : Rounding::toward_zero,
          .output_fraction_bits = info(output).mantissa_bits};
}

/// mma.sync: everything else.
constexpr AccumulatorModel other(TargetSet targets, FormatSet inputs, Format output, Arithmetic arithmetic) {
  return {.targets = targets,
          .family = Family::mma_sync,
          .inputs = inputs,
          .output = output,
          .arithmetic = arithmetic,
          .rounding = Rounding::nearest_even,
          .output_fraction_bits = info(output).mantissa_bits,
          .nan = output == Format::f64 ? NanRule::payload : NanRule::canonical};
}

constexpr AccumulatorModel in_quad_pairs(AccumulatorModel model) {
  model.quad_pairs = true;
  return model;
}

constexpr AccumulatorModel in_byte_pairs(AccumulatorModel model) {
  model.step_order = StepOrder::byte_pairs;
  model.c_last = true;
  return model;
}

constexpr AccumulatorModel with_output_bits(AccumulatorModel model, int bits) {
  model.output_fraction_bits = bits;
  return model;
}

// one row a rule
// clang-format off
constexpr auto models = std::to_array<AccumulatorModel>({
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = {Format::tf32},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23},
    // Floor not observable: no f16 product lies below 2^-28.
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = {Format::f16},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23},
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = {Format::bf16},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23},
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = {Format::f16},
     .output = Format::f16,
     .fraction_bits = 25,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10},
    // "e8m13": 13 fraction bits inside and in the result, so the low 10 bits of D are zero. Floor not observable.
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = fp8,
     .output = Format::f32,
     .fraction_bits = 13,
     .floor_exponent = -133,
     .output_fraction_bits = 13},
    // Any floor up to -19 gives the same bits.
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = fp8,
     .output = Format::f16,
     .fraction_bits = 13,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10},
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = int8,
     .output = Format::s32,
     .arithmetic = Arithmetic::integer},
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = {Format::b1},
     .output = Format::s32,
     .arithmetic = Arithmetic::popcount},

    // Blackwell: no such GPU has been measured here, and the words are a B200's. Unlike Hopper, 8-bit types keep 25
    // fraction bits.
    {.targets = blackwell_all,
     .family = Family::tcgen05,
     .inputs = {Format::tf32},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23},
    {.targets = blackwell_all,
     .family = Family::tcgen05,
     .inputs = {Format::f16, Format::bf16},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23},
    // F and rounding by MMA-Sim (arXiv 2511.10909); the floor is unpublished and follows wgmma by analogy.
    {.targets = blackwell_all,
     .family = Family::tcgen05,
     .inputs = {Format::f16},
     .output = Format::f16,
     .fraction_bits = 25,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10},
    {.targets = blackwell_all,
     .family = Family::tcgen05,
     .inputs = f8f6f4,
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23},
    // MMA-Sim has e2m1 x e4m3 only.
    {.targets = blackwell_all,
     .family = Family::tcgen05,
     .inputs = f8f6f4,
     .output = Format::f16,
     .fraction_bits = 25,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10},
    // No result of kind::ti16 is published. Sums of 16 products of 11 bits fit 32; that D wraps behind them follows from
    // the descriptor, which has no bit to saturate.
    {.targets = rubin,
     .family = Family::tcgen05,
     .inputs = {Format::s1z4m11},
     .output = Format::s32,
     .arithmetic = Arithmetic::integer},
    {.targets = with_i8,
     .family = Family::tcgen05,
     .inputs = int8,
     .output = Format::s32,
     .arithmetic = Arithmetic::integer},
    {.targets = blackwell_all,
     .family = Family::tcgen05,
     .inputs = f8f6f4,
     .output = Format::f32,
     .scaling = Scaling::whole_k,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23},
    // -139 is the exponent of a group, or a c, that is zero. Two published models differ where c's exponent lies
    // strictly between the largest scale exponent and the largest product exponent, with a group more than 23 binades
    // lower.
    {.targets = blackwell_all,
     .family = Family::tcgen05,
     .inputs = {Format::e2m1},
     .output = Format::f32,
     .scaling = Scaling::exact_groups,
     .fraction_bits = 35,
     .floor_exponent = -139,
     .output_fraction_bits = 23},

    // mma.sync block_scale of sm_120a: the three known words of such a GPU decide nothing; tcgen05's rules are taken
    // over.
    {.targets = consumer_blackwell,
     .family = Family::mma_sync,
     .inputs = f8f6f4,
     .output = Format::f32,
     .scaling = Scaling::whole_k,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23},
    {.targets = consumer_blackwell,
     .family = Family::mma_sync,
     .inputs = {Format::e2m1},
     .output = Format::f32,
     .scaling = Scaling::exact_groups,
     .fraction_bits = 35,
     .floor_exponent = -139,
     .output_fraction_bits = 23},

    // mma.sync without scales. A row of fused sums: targets, inputs, D, terms per step, F, floor.
    //
    // Volta and Turing, f16. The fraction bits of m8n8k4 on Turing are mmasim's.
    in_quad_pairs(fused(volta, {Format::f16}, Format::f32, 4, 23, -131)),
    in_quad_pairs(fused(volta, {Format::f16}, Format::f16, 4, 23, -19)),
    in_quad_pairs(fused(turing, {Format::f16}, Format::f32, 4, 23, -131)),
    in_quad_pairs(fused(turing, {Format::f16}, Format::f16, 4, 23, -19)),
    fused(turing, {Format::f16}, Format::f32, 8, 24, -132),
    fused(turing, {Format::f16}, Format::f16, 8, 24, -20),

    // Ampere and Ada: k16 of 16-bit types is two chained k8, k8 of tf32 two chained k4. The published outputs fill one
    // step, so that the chaining itself is a published model's; for fp8 they fill both.
    fused(ampere_ada, {Format::f16}, Format::f32, 8, 24, -132),
    fused(ampere_ada, {Format::f16}, Format::f16, 8, 24, -20),
    fused(ampere_ada, {Format::bf16}, Format::f32, 8, 24, -132),
    fused(ampere_ada, {Format::tf32}, Format::f32, 4, 24, -132),
    with_output_bits(fused(ada, fp8, Format::f32, 16, 13, -133),
                     13),
    fused(ada, fp8, Format::f16, 16, 13, -21),

    // Hopper: the whole K at once.
    fused(hopper, {Format::f16}, Format::f32, 0, 25, -133),
    fused(hopper, {Format::f16}, Format::f16, 0, 25, -21),
    fused(hopper, {Format::bf16}, Format::f32, 0, 25, -133),
    fused(hopper, {Format::tf32}, Format::f32, 0, 25, -133),
    // No fp8 tensor core for mma.sync: ptxas widens to f16, two HMMA, and adds C with FADD or HADD2.
    in_byte_pairs(fused(hopper, fp8, Format::f32, 0, 25, -133)),
    in_byte_pairs(fused(hopper, fp8, Format::f16, 0, 25, -21)),

    // Blackwell of data centres.
    fused(blackwell_all, {Format::f16}, Format::f32, 0, 25, -133),
    fused(blackwell_all, {Format::f16}, Format::f16, 0, 25, -21),
    fused(blackwell_all, {Format::bf16}, Format::f32, 0, 25, -133),
    // The published outputs fill four of eight terms.
    fused(blackwell_all, {Format::tf32}, Format::f32, 0, 25, -133),
    in_byte_pairs(fused(blackwell_all, fp8, Format::f32, 0, 25, -133)),
    in_byte_pairs(fused(blackwell_all, fp8, Format::f16, 0, 25, -21)),

    // Blackwell of consumers.
    fused(consumer_blackwell, {Format::f16}, Format::f32, 0, 25, -133),
    fused(consumer_blackwell, {Format::f16}, Format::f16, 0, 25, -21),
    fused(consumer_blackwell, {Format::bf16}, Format::f32, 0, 25, -133),
    fused(consumer_blackwell, {Format::tf32}, Format::f32, 0, 25, -133),
    fused(consumer_blackwell, f8f6f4, Format::f32, 0, 25, -133),
    fused(consumer_blackwell, f8f6f4, Format::f16, 0, 25, -21),

    // m8n8k4 of f16 where no tensor core has it, f64, integers and bits: one rule for all.
    in_quad_pairs(other(hopper, {Format::f16}, Format::f32, Arithmetic::fma_pairs)),
    in_quad_pairs(other(hopper, {Format::f16}, Format::f16, Arithmetic::fma_pairs)),
    in_quad_pairs(other(but_hopper, {Format::f16}, Format::f32, Arithmetic::fma_pairs)),
    in_quad_pairs(other(but_hopper, {Format::f16}, Format::f16, Arithmetic::fma_pairs)),
    other(hopper, {Format::f64}, Format::f64, Arithmetic::fma_chain),
    other(but_hopper, {Format::f64}, Format::f64, Arithmetic::fma_chain),
    other(hopper, integers, Format::s32, Arithmetic::integer),
    other(but_hopper | turing, integers, Format::s32, Arithmetic::integer),
    other(hopper, {Format::b1}, Format::s32, Arithmetic::popcount),
    other(but_hopper | turing, {Format::b1}, Format::s32, Arithmetic::popcount),
});
// clang-format on

/// A row that does not fit is right but slow. F - 1 must fit too, which hypotheses about the row ask for.
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
        const int step = model.terms_per_step == 0 ? terms : std::min(terms, model.terms_per_step);
        if (!find_budget(model.fraction_bits, a.id, b.id, step) ||
            !find_budget(model.fraction_bits - 1, a.id, b.id, step))
          return false;
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
  const std::string floor = model.floor_exponent == no_floor ? "none" : std::to_string(model.floor_exponent);
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
