#include "bitmma/arithmetic/accumulator_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "budget.hpp"

namespace bitmma {
namespace {

constexpr FormatSet fp8{Format::e4m3, Format::e5m2};
constexpr FormatSet int8{Format::s8, Format::u8};
constexpr FormatSet f8f6f4{Format::e4m3, Format::e5m2, Format::e2m3, Format::e3m2, Format::e2m1};
constexpr std::string_view b200 = "NVIDIA B200 words of sf-tensor/tcgen05, data/b200";
constexpr std::string_view h200 = "NVIDIA H200, data/golden/sm_90a";

// The floors are emin(D) - 7. Where the smallest product and c lie above the floor nothing can show it; the row then
// carries the family's value and says so.
constexpr TargetSet hopper{Target::sm_90a}, blackwell{Target::sm_100a, Target::sm_103a}, b200_only{Target::sm_100a},
    consumer_blackwell{Target::sm_120a};

// one row a rule
// clang-format off
constexpr auto models = std::to_array<AccumulatorModel>({
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = {Format::tf32},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::measured_h200,
     .proven_on = hopper,
     .source = h200},
    // Floor not observable: no f16 product lies below 2^-28.
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = {Format::f16},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::measured_h200,
     .proven_on = hopper,
     .source = h200},
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = {Format::bf16},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::measured_h200,
     .proven_on = hopper,
     .source = h200},
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = {Format::f16},
     .output = Format::f16,
     .fraction_bits = 25,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10,
     .evidence = Evidence::measured_h200,
     .proven_on = hopper,
     .source = h200},
    // "e8m13": 13 fraction bits inside and in the result, so the low 10 bits of D are zero. Floor not observable.
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = fp8,
     .output = Format::f32,
     .fraction_bits = 13,
     .floor_exponent = -133,
     .output_fraction_bits = 13,
     .evidence = Evidence::measured_h200,
     .proven_on = hopper,
     .source = h200},
    // Any floor up to -19 gives the same bits.
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = fp8,
     .output = Format::f16,
     .fraction_bits = 13,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10,
     .evidence = Evidence::measured_h200,
     .proven_on = hopper,
     .source = h200},
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = int8,
     .output = Format::s32,
     .arithmetic = Arithmetic::integer,
     .evidence = Evidence::measured_h200,
     .proven_on = hopper,
     .source = h200},
    {.targets = hopper,
     .family = Family::wgmma,
     .inputs = {Format::b1},
     .output = Format::s32,
     .arithmetic = Arithmetic::popcount,
     .evidence = Evidence::measured_h200,
     .proven_on = hopper,
     .source = h200},

    // Blackwell: no such GPU has been measured here, and the words are a B200's. Unlike Hopper, 8-bit types keep 25
    // fraction bits.
    {.targets = blackwell,
     .family = Family::tcgen05,
     .inputs = {Format::tf32},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::published_words,
     .proven_on = b200_only,
     .source = b200},
    {.targets = blackwell,
     .family = Family::tcgen05,
     .inputs = {Format::f16, Format::bf16},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::published_words,
     .proven_on = b200_only,
     .source = b200},
    // F and rounding by MMA-Sim (arXiv 2511.10909); the floor by analogy with wgmma, which nobody has published.
    {.targets = blackwell,
     .family = Family::tcgen05,
     .inputs = {Format::f16},
     .output = Format::f16,
     .fraction_bits = 25,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10,
     .evidence = Evidence::model_choice,
     .source = "F and rounding: MMA-Sim, arXiv 2511.10909; floor: as wgmma"},
    {.targets = blackwell,
     .family = Family::tcgen05,
     .inputs = f8f6f4,
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::published_words,
     .proven_on = b200_only,
     .source = b200},
    // MMA-Sim has e2m1 x e4m3 only.
    {.targets = blackwell,
     .family = Family::tcgen05,
     .inputs = f8f6f4,
     .output = Format::f16,
     .fraction_bits = 25,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10,
     .evidence = Evidence::model_choice,
     .source = "F and rounding: MMA-Sim, arXiv 2511.10909, for e2m1 x e4m3; the rest by analogy"},
    {.targets = b200_only,
     .family = Family::tcgen05,
     .inputs = int8,
     .output = Format::s32,
     .arithmetic = Arithmetic::integer,
     .evidence = Evidence::published_words,
     .proven_on = b200_only,
     .source = b200},
    {.targets = blackwell,
     .family = Family::tcgen05,
     .inputs = f8f6f4,
     .output = Format::f32,
     .scaling = Scaling::whole_k,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::published_words,
     .proven_on = b200_only,
     .source = b200},
    // -139 is the exponent of a group, or a c, that is zero. Two published models differ where c's exponent lies
    // strictly between the largest scale exponent and the largest product exponent, with a group more than 23 binades
    // lower.
    {.targets = blackwell,
     .family = Family::tcgen05,
     .inputs = {Format::e2m1},
     .output = Format::f32,
     .scaling = Scaling::groups_of_16,
     .fraction_bits = 35,
     .floor_exponent = -139,
     .output_fraction_bits = 23,
     .evidence = Evidence::published_words,
     .proven_on = b200_only,
     .source = b200},

    // mma.sync block_scale of sm_120a: no result of such a GPU is known here; tcgen05's rules are taken over.
    {.targets = consumer_blackwell,
     .family = Family::mma_sync,
     .inputs = f8f6f4,
     .output = Format::f32,
     .scaling = Scaling::whole_k,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::model_choice,
     .source = "as tcgen05.mma"},
    {.targets = consumer_blackwell,
     .family = Family::mma_sync,
     .inputs = {Format::e2m1},
     .output = Format::f32,
     .scaling = Scaling::groups_of_16,
     .fraction_bits = 35,
     .floor_exponent = -139,
     .output_fraction_bits = 23,
     .evidence = Evidence::model_choice,
     .source = "as tcgen05.mma"},
});
// clang-format on

/// A row that does not fit is right but slow. F - 1 must fit too, which hypotheses about the row ask for.
consteval bool rows_fit_the_hot_loops() {
  for (const AccumulatorModel& model : models) {
    if (model.arithmetic != Arithmetic::fused_sum) continue;
    if (model.scaling == Scaling::groups_of_16) {
      if (!groups_fit(model.fraction_bits, most_groups)) return false;
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

std::string_view print(Evidence evidence) {
  switch (evidence) {
    case Evidence::measured_h200: return "measured on an NVIDIA H200";
    case Evidence::published_words: return "published hardware words";
    case Evidence::published_model: return "published model";
    default: return "model choice";
  }
}

std::span<const AccumulatorModel> accumulator_models() { return models; }

const AccumulatorModel* find_accumulator_model(Target target, Family family, Format a, Format b, Format d,
                                               Scaling scaling) {
  const Target adds_as = info(target).adds_as;
  for (const AccumulatorModel& model : models) {
    if (model.targets.contains(adds_as) && model.family == family && model.scaling == scaling && model.output == d &&
        model.inputs.contains(a) && model.inputs.contains(b)) {
      return &model;
    }
  }
  return nullptr;
}

Evidence evidence_of(const AccumulatorModel& model, Target target) {
  return model.proven_on.contains(info(target).adds_as) ? model.evidence : Evidence::model_choice;
}

std::string print_rule(const AccumulatorModel& model) {
  if (model.arithmetic == Arithmetic::integer) return "exact sum, wrap or one clamp";
  if (model.arithmetic == Arithmetic::popcount) return "popcount(a and b), exact sum, wrap";
  const std::string floor = model.floor_exponent == no_floor ? "none" : std::to_string(model.floor_exponent);
  const std::string_view scaling = model.scaling == Scaling::groups_of_16 ? "exact groups of 16, " : "";
  const std::string steps = model.terms_per_step == 0 ? "" : fmt::format("steps of {}, ", model.terms_per_step);
  return fmt::format("{}{}F = {}, {}-{}, floor {}", steps, scaling, model.fraction_bits,
                     model.rounding == Rounding::toward_zero ? "RZ" : "RNE", model.output_fraction_bits, floor);
}

}  // namespace bitmma
