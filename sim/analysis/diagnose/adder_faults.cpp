// SPDX-License-Identifier: MIT
// Faults that add by another rule.
#include <algorithm>
#include <array>

#include "fault_rows.hpp"

namespace bitmma::faults {
namespace {

struct AdderRow {
  std::string_view id;
  std::string_view (*what)(const AccumulatorModel&);  // empty if the row does not apply to the model
  void (*change)(AccumulatorModel&);
};

constexpr auto adder_rows = std::to_array<AdderRow>({
    {.id = "adder.rounding",
     .what = [](const AccumulatorModel& m) -> std::string_view {
       return m.rounding == Rounding::toward_zero ? "rounds to nearest even instead of truncating"
                                                  : "truncates instead of rounding to nearest even";
     },
     .change =
         [](AccumulatorModel& m) {
           m.rounding = m.rounding == Rounding::toward_zero ? Rounding::nearest_even : Rounding::toward_zero;
         }},
    {.id = "adder.mantissa",
     .what = [](const AccumulatorModel& m) -> std::string_view {
       return m.output_fraction_bits != info(m.output).mantissa_bits ? "keeps all mantissa bits of the result" : "";
     },
     .change = [](AccumulatorModel& m) { m.output_fraction_bits = info(m.output).mantissa_bits; }},
    {.id = "adder.mantissa_13",
     .what = [](const AccumulatorModel& m) -> std::string_view {
       return m.output == Format::f32 && m.output_fraction_bits == 23
                  ? "keeps 13 mantissa bits of the result, as fp8 on Hopper"
                  : "";
     },
     .change = [](AccumulatorModel& m) { m.output_fraction_bits = 13; }},
});

/// Ids of other GPUs' rows: the family, followed by the target if the family has several rows.
std::string id_of(const WhatIf& what_if, std::span<const WhatIf> all) {
  if (what_if.kind == WhatIf::Kind::fma_chain) return "adder.fma_chain";
  if (what_if.kind == WhatIf::Kind::correctly_rounded) return "adder.correctly_rounded";
  const AccumulatorModel& model = what_if.model;
  const auto of_family = std::ranges::count_if(all, [&](const WhatIf& other) {
    return other.kind == WhatIf::Kind::model && other.model.family == model.family;
  });
  return fmt::format("adder.row.{}{}", print(model.family),
                     of_family > 1 ? fmt::format(".{}", print(model.targets.first())) : "");
}

void add_variant(Rows& rows, std::string id, std::string_view what, std::function<void(AccumulatorModel&)> change) {
  add(rows, std::move(id), FaultStage::arithmetic, fmt::format("another adder: {}", what),
      "a model or GPU with other internal precision",
      [change = std::move(change)](const Subject&, Parts& parts) { return change(parts.adder.model), true; });
}

void add_fraction_bits(Rows& rows, const Subject& s) {
  const AccumulatorModel& model = s.model();
  const int mantissa_bits = info(s.mma().a).mantissa_bits;
  for (const int step : {-1, 1, -2, 2, -12, -3}) {
    const int fraction_bits = model.fraction_bits + step;
    const bool products_fit = fraction_bits >= 2 * 10 || model.scaling == Scaling::exact_groups || mantissa_bits != 10;
    if (!products_fit || (step == -12 && mantissa_bits > 3)) continue;
    add_variant(rows, fmt::format("adder.f.{}", fraction_bits),
                fmt::format("{} fraction bits instead of {}", fraction_bits, model.fraction_bits),
                [step](AccumulatorModel& m) { m.fraction_bits += step; });
  }
}

}  // namespace

void add_adder_faults(Rows& rows, const Subject& s) {
  const AccumulatorModel& model = s.model();
  const std::vector<WhatIf> all = what_ifs(model, s.mma().a, s.mma().b);
  for (const WhatIf& what_if : all) {
    // A rule that adds identically explains nothing.
    if (what_if.kind == WhatIf::Kind::model && print_rule(what_if.model) == print_rule(model)) continue;
    add(rows, id_of(what_if, all), FaultStage::arithmetic, "another adder: " + what_if.name,
        "check what computed D: perhaps a GPU of another generation, or a CPU reference",
        [what_if](const Subject&, Parts& parts) { return parts.adder = what_if, true; });
  }
  if (model.output == Format::s32) {
    add(rows, "adder.saturate", FaultStage::arithmetic,
        s.mma().saturate ? "results wrap instead of saturating" : "results saturate instead of wrapping",
        ".satfinite, or bit 3 of the instruction descriptor", [](const Subject&, Parts& parts) {
          parts.operands.saturate = !parts.operands.saturate;
          return true;
        });
    return;
  }
  if (model.arithmetic != Arithmetic::fused_sum) return;
  add_fraction_bits(rows, s);
  for (const AdderRow& row : adder_rows) {
    if (const std::string_view what = row.what(model); !what.empty()) {
      add_variant(rows, std::string(row.id), what, row.change);
    }
  }
}

}  // namespace bitmma::faults
