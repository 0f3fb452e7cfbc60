#include "support/mutants.hpp"

#include <algorithm>
#include <set>

#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"

namespace bitmma::test {

namespace {
bool truncates(const AccumulatorModel& row) { return row.rounding == Rounding::toward_zero; }

/// Half of the terms that one instruction sums: A has 32 bytes of K, of types that all have the same width.
int half_of_terms(const AccumulatorModel& row) {
  const auto* const input =
      std::ranges::find_if(formats, [&](const FormatInfo& f) { return row.inputs.contains(f.id); });
  return 32 * 8 / input->bits / 2;
}
}  // namespace

const std::vector<Mutant>& mutants() {
  static const std::vector<Mutant> table = {
      {"F-1", [](AccumulatorModel& m) { --m.fraction_bits; }},
      {"F+1", [](AccumulatorModel& m) { ++m.fraction_bits; }},
      {"floor-1",
       [](AccumulatorModel& m) {
         if (m.floor_exponent) --*m.floor_exponent;
       }},
      {"floor+1",
       [](AccumulatorModel& m) {
         if (m.floor_exponent) ++*m.floor_exponent;
       }},
      {"no floor", [](AccumulatorModel& m) { m.floor_exponent.reset(); }},
      {"product normalised", [](AccumulatorModel& m) { m.overrides.product_normalised = true; }},
      {"other rounding",
       [](AccumulatorModel& m) { m.rounding = truncates(m) ? Rounding::nearest_even : Rounding::toward_zero; }},
      {"all mantissa bits kept", [](AccumulatorModel& m) { m.output_fraction_bits = info(m.output).mantissa_bits; }},
      {"two chained halves", [](AccumulatorModel& m) { m.terms_per_step = half_of_terms(m); }},
      {"aligned toward minus infinity", [](AccumulatorModel& m) { m.overrides.align_toward_negative = true; }},
      {"zero keeps sign", [](AccumulatorModel& m) { m.overrides.zero_keeps_sign = true; }},
      {"NaN payload of c passed", [](AccumulatorModel& m) { m.overrides.c_nan_payload_passed = true; }},
      {"f16 through f32", [](AccumulatorModel& m) { m.overrides.f16_through_f32 = true; }},
      {"zero product has an exponent", [](AccumulatorModel& m) { m.overrides.zero_product_has_exponent = true; }},
      {"c truncated after the sum", [](AccumulatorModel& m) { m.overrides.c_after_sum = true; }},
  };
  return table;
}

const std::vector<Mutant>& warp_mutants() {
  static const std::vector<Mutant> table = [] {
    std::vector<Mutant> all = mutants();
    std::erase_if(all, [](const Mutant& mutant) { return mutant.name == "two chained halves"; });
    const auto sums = [](const AccumulatorModel& m) { return m.arithmetic == Arithmetic::fused_sum; };
    const auto add = [&](std::string name, std::function<void(AccumulatorModel&)> change) {
      all.push_back({std::move(name), std::move(change)});
    };
    // What a GPU before Hopper does: the terms of A's first two registers, then the others.
    add("two chained halves", [=](AccumulatorModel& m) {
      if (sums(m)) m.terms_per_step = half_of_terms(m), m.step_order = StepOrder::ascending;
    });
    add("k in pairs", [=](AccumulatorModel& m) {
      if (sums(m)) m.step_order = StepOrder::byte_pairs;
    });
    add("one step", [=](AccumulatorModel& m) {
      if (sums(m)) m.step_order = StepOrder::ascending;
    });
    add("c in the first step", [=](AccumulatorModel& m) { m.c_last = false; });
    add("wgmma's fp8", [=](AccumulatorModel& m) {
      if (!sums(m) || m.step_order != StepOrder::byte_pairs) return;
      m.step_order = StepOrder::ascending, m.c_last = false, m.fraction_bits = 13;
      if (m.output == Format::f32) m.output_fraction_bits = 13;
    });
    add("a tensor core", [=](AccumulatorModel& m) {
      if (m.arithmetic != Arithmetic::fma_pairs) return;
      m.arithmetic = Arithmetic::fused_sum, m.fraction_bits = 23,
      m.floor_exponent = m.output == Format::f16 ? -19 : -131;
      m.output_fraction_bits = info(m.output).mantissa_bits;
      m.rounding = m.output == Format::f16 ? Rounding::nearest_even : Rounding::toward_zero;
    });
    add("one NaN for all", [](AccumulatorModel& m) { m.nan = NanRule::canonical; });
    return all;
  }();
  return table;
}

std::vector<Instruction> warp_instructions(const AccumulatorModel& row, Target target) {
  std::vector<Instruction> instructions;
  for (const Instruction& instruction : all_instructions(Family::mma_sync)) {
    const MmaSync& form = std::get<MmaSync>(instruction);
    if (!targets_of(form).contains(target) || form.kind || form.saturate || form.rounding || form.a_col || form.b_row ||
        form.c != form.d || (form.sparse && !form.ordered_metadata) || &model_for(form, target) != &row)
      continue;
    const auto same_types = std::ranges::find_if(instructions, [&](const Instruction& other) {
      const MmaSync& known = std::get<MmaSync>(other);
      return known.a == form.a && known.b == form.b && known.sparse == form.sparse;
    });
    if (same_types == instructions.end()) instructions.push_back(form);
    else if (std::get<MmaSync>(*same_types).k < form.k) *same_types = form;
  }
  return instructions;
}

namespace {
/// Hypotheses that no input of the row can tell from the hardware's rule, each with its reason.
const std::set<std::pair<std::string, std::string>> invisible = {
    // No product of f16, and none of fp8, lies anywhere near 2^-133, and c brings its own exponent from -126 on.
    {"f16 f32", "floor-1"},
    {"f16 f32", "floor+1"},
    {"f16 f32", "no floor"},
    {"e4m3 f32", "floor-1"},
    {"e4m3 f32", "floor+1"},
    {"e4m3 f32", "no floor"},
    // The lowest bit of an fp8 product is 2^-32, the lowest of c 2^-24: floors up to -19 drop nothing (13 below it).
    {"e4m3 f16", "floor-1"},
    {"e4m3 f16", "floor+1"},
    {"e4m3 f16", "no floor"},
    // They have all 23 mantissa bits already.
    {"tf32 f32", "all mantissa bits kept"},
    {"f16 f32", "all mantissa bits kept"},
    {"bf16 f32", "all mantissa bits kept"},
    {"f16 f16", "all mantissa bits kept"},
    {"e4m3 f16", "all mantissa bits kept"},
    // Only f16 results can be rounded through f32. A sum aligned to 13 fraction bits mostly fits f32 and rounds the
    // same.
    {"tf32 f32", "f16 through f32"},
    {"f16 f32", "f16 through f32"},
    {"bf16 f32", "f16 through f32"},
    {"e4m3 f32", "f16 through f32"},
    {"e4m3 f16", "f16 through f32"},
};

}  // namespace

bool is_visible(const AccumulatorModel& row, const Mutant& mutant) {
  return !invisible.contains({name_of(row), mutant.name});
}

std::string name_of(const AccumulatorModel& row) {
  const std::string_view input = row.quad_pairs                      ? "quad pairs f16"
                                 : row.inputs.contains(Format::f64)  ? "f64"
                                 : row.inputs.contains(Format::e4m3) ? "e4m3"
                                 : row.inputs.contains(Format::tf32) ? "tf32"
                                 : row.inputs.contains(Format::bf16) ? "bf16"
                                                                     : "f16";
  return std::string(input) + " " + std::string(info(row.output).name);
}

}  // namespace bitmma::test
