#include "bitmma/arithmetic/accumulator_model.hpp"

#include <fmt/format.h>

namespace bitmma {
namespace {

constexpr FormatSet fp8{Format::e4m3, Format::e5m2};
constexpr FormatSet int8{Format::s8, Format::u8};
constexpr FormatSet f8f6f4{Format::e4m3, Format::e5m2, Format::e2m3, Format::e3m2, Format::e2m1};
constexpr std::string_view b200 = "NVIDIA B200 words of sf-tensor/tcgen05, data/b200";
constexpr std::string_view h200 = "NVIDIA H200, data/golden/sm_90a";

// The floors are emin(D) - 7. Where the smallest product and c lie above the floor nothing can show it; the row then
// carries the family's value and says so.
constexpr auto models = std::to_array<AccumulatorModel>({
    {.family = Family::wgmma,
     .inputs = {Format::tf32},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::measured_h200,
     .source = h200},
    // Floor not observable: no f16 product lies below 2^-28.
    {.family = Family::wgmma,
     .inputs = {Format::f16},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::measured_h200,
     .source = h200},
    {.family = Family::wgmma,
     .inputs = {Format::bf16},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::measured_h200,
     .source = h200},
    {.family = Family::wgmma,
     .inputs = {Format::f16},
     .output = Format::f16,
     .fraction_bits = 25,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10,
     .evidence = Evidence::measured_h200,
     .source = h200},
    // "e8m13": 13 fraction bits inside and in the result, so the low 10 bits of D are zero. Floor not observable.
    {.family = Family::wgmma,
     .inputs = fp8,
     .output = Format::f32,
     .fraction_bits = 13,
     .floor_exponent = -133,
     .output_fraction_bits = 13,
     .evidence = Evidence::measured_h200,
     .source = h200},
    // Any floor up to -19 gives the same bits.
    {.family = Family::wgmma,
     .inputs = fp8,
     .output = Format::f16,
     .fraction_bits = 13,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10,
     .evidence = Evidence::measured_h200,
     .source = h200},
    {.family = Family::wgmma,
     .inputs = int8,
     .output = Format::s32,
     .arithmetic = Arithmetic::integer,
     .evidence = Evidence::measured_h200,
     .source = h200},
    {.family = Family::wgmma,
     .inputs = {Format::b1},
     .output = Format::s32,
     .arithmetic = Arithmetic::popcount,
     .evidence = Evidence::measured_h200,
     .source = h200},

    // Blackwell: no such GPU has been measured here. Unlike Hopper, 8-bit types keep 25 fraction bits.
    {.family = Family::tcgen05,
     .inputs = {Format::tf32},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::published_words,
     .source = b200},
    {.family = Family::tcgen05,
     .inputs = {Format::f16, Format::bf16},
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::published_words,
     .source = b200},
    // F and rounding by MMA-Sim (arXiv 2511.10909); the floor by analogy with wgmma, which nobody has published.
    {.family = Family::tcgen05,
     .inputs = {Format::f16},
     .output = Format::f16,
     .fraction_bits = 25,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10,
     .evidence = Evidence::model_choice,
     .source = "F and rounding: MMA-Sim, arXiv 2511.10909; floor: as wgmma"},
    {.family = Family::tcgen05,
     .inputs = f8f6f4,
     .output = Format::f32,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::published_words,
     .source = b200},
    // MMA-Sim has e2m1 x e4m3 only.
    {.family = Family::tcgen05,
     .inputs = f8f6f4,
     .output = Format::f16,
     .fraction_bits = 25,
     .floor_exponent = -21,
     .rounding = Rounding::nearest_even,
     .output_fraction_bits = 10,
     .evidence = Evidence::model_choice,
     .source = "F and rounding: MMA-Sim, arXiv 2511.10909, for e2m1 x e4m3; the rest by analogy"},
    {.family = Family::tcgen05,
     .inputs = int8,
     .output = Format::s32,
     .arithmetic = Arithmetic::integer,
     .evidence = Evidence::published_words,
     .source = b200},
    {.family = Family::tcgen05,
     .inputs = f8f6f4,
     .output = Format::f32,
     .scaling = Scaling::whole_k,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::published_words,
     .source = b200},
    // -139 is the exponent of a group, or a c, that is zero. Two published models differ where c's exponent lies
    // strictly between the largest scale exponent and the largest product exponent, with a group more than 23 binades
    // lower.
    {.family = Family::tcgen05,
     .inputs = {Format::e2m1},
     .output = Format::f32,
     .scaling = Scaling::groups_of_16,
     .fraction_bits = 35,
     .floor_exponent = -139,
     .output_fraction_bits = 23,
     .evidence = Evidence::published_words,
     .source = b200},

    // mma.sync block_scale of sm_120a: no result of such a GPU is known here; tcgen05's rules are taken over.
    {.family = Family::mma_sync,
     .inputs = f8f6f4,
     .output = Format::f32,
     .scaling = Scaling::whole_k,
     .fraction_bits = 25,
     .floor_exponent = -133,
     .output_fraction_bits = 23,
     .evidence = Evidence::model_choice,
     .source = "as tcgen05.mma"},
    {.family = Family::mma_sync,
     .inputs = {Format::e2m1},
     .output = Format::f32,
     .scaling = Scaling::groups_of_16,
     .fraction_bits = 35,
     .floor_exponent = -139,
     .output_fraction_bits = 23,
     .evidence = Evidence::model_choice,
     .source = "as tcgen05.mma"},
});

/// The bit budget of the hot loop in kernels.cpp: all products of an instruction and C, aligned, fit 32 bits beside the
/// sign, and half of the products 31, one off a term; a doubled product comes from two significands that fit 16 bits
/// with their signs. A row that does not is right but slow.
consteval bool rows_fit_the_hot_loop() {
  for (const AccumulatorModel& model : models) {
    if (model.arithmetic != Arithmetic::fused_sum || model.scaling == Scaling::groups_of_16) continue;
    for (const FormatInfo& format : formats) {
      if (!model.inputs.contains(format.id)) continue;
      // 32 bytes of K; types below 8 bits count as bytes. The others of the row have no more bits than the widest.
      const int64_t terms = 256 / (format.bits < 8 ? 8 : format.bits),
                    significand = (int64_t{2} << format.mantissa_bits) - 1;
      const int product_shift = model.fraction_bits - 2 * format.mantissa_bits;
      if (product_shift < 1) return false;  // F would drop bits before alignment; one less must stay possible too
      const int64_t product = significand * significand << product_shift;
      if (terms * product + (int64_t{2} << model.fraction_bits) > 0xFFFF'FFFF ||
          (terms + 1) / 2 * product + terms > 0x7FFF'FFFF)
        return false;
      if (model.fraction_bits + 3 > 14 + 15) return false;
    }
  }
  return true;
}
static_assert(rows_fit_the_hot_loop());

}  // namespace

std::string_view print(Family family) {
  return family == Family::wgmma ? "wgmma" : family == Family::tcgen05 ? "tcgen05" : "mma.sync";
}

std::string_view print(Evidence evidence) {
  switch (evidence) {
    case Evidence::measured_h200:
      return "measured on an NVIDIA H200";
    case Evidence::published_words:
      return "published hardware words";
    case Evidence::published_model:
      return "published model";
    default:
      return "model choice";
  }
}

std::span<const AccumulatorModel> accumulator_models() { return models; }

const AccumulatorModel* find_accumulator_model(Family family, Format a, Format b, Format d, Scaling scaling) {
  for (const AccumulatorModel& model : models) {
    if (model.family == family && model.scaling == scaling && model.output == d && model.inputs.contains(a) &&
        model.inputs.contains(b)) {
      return &model;
    }
  }
  return nullptr;
}

std::string print_rule(const AccumulatorModel& model) {
  if (model.arithmetic == Arithmetic::integer) return "exact sum, wrap or one clamp";
  if (model.arithmetic == Arithmetic::popcount) return "popcount(a and b), exact sum, wrap";
  const std::string floor = model.floor_exponent == no_floor ? "none" : std::to_string(model.floor_exponent);
  const std::string_view scaling = model.scaling == Scaling::groups_of_16 ? "exact groups of 16, " : "";
  return fmt::format("{}F = {}, {}-{}, floor {}", scaling, model.fraction_bits,
                     model.rounding == Rounding::toward_zero ? "RZ" : "RNE", model.output_fraction_bits, floor);
}

}  // namespace bitmma
