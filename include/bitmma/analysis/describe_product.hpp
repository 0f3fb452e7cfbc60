// SPDX-License-Identifier: MIT
// What whole products and searches for plans give, as reports: what `gemm` and `explain` print, and what Python gets as
// dictionaries.
#pragma once

#include <optional>

#include "bitmma/analysis/report.hpp"
#include "bitmma/gemm/accuracy.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/gemm/trace.hpp"

namespace bitmma {

/// A product that was computed, and what it was compared with.
struct ProductResult {
  GemmPlan plan = {};
  int64_t k = 0;
  Matrix d = {};
  std::optional<Matrix> recorded = {};    // D as it was recorded
  std::optional<Accuracy> accuracy = {};  // where it was asked for
  bool plan_was_given = true, plan_is_of_file = false, target_was_given = true;

  /// Outputs that are not those of the recorded D: all of them where its type or shape is another.
  int64_t differing() const;
};

/// {"m", "n", "k", "k_added", "target", "cpu_target", "plan", "evidence_of_instruction"}; "differ", "recorded_d" and
/// "computed_d" (types) where a D was recorded; "error" where the accuracy was asked for. The text has a table, and the
/// first `rows` and `cols` of D.
Report describe(const ProductResult& result, int rows = 4, int cols = 4);

/// {"cpu_target", "candidates", "outputs", "ended", "ambiguous", "families", "all_bits", "nearest"}. Plans are objects.
Report describe(const PlanSearch& search, const GemmInputs& inputs);

/// {"row", "col", "k", "target", "plan", "evidence_of_instruction", "d", "value", "exact", "error", "worst", "steps"};
/// and "curve", {"k", "error"}: K added so far, and the error of all steps so far. The text has at most `most_steps`
/// steps, those that lose most.
Report describe(const ProductTrace& trace, int most_steps = 12);

/// How sure one instruction of the plan is on its target; "IEEE f32" on CUDA cores.
std::string evidence_of_sums(const GemmPlan& plan);

}  // namespace bitmma
