// SPDX-License-Identifier: MIT
// Reports about whole products and plan searches: the text that `gemm` and `explain` print, and the dictionaries that
// Python gets.
#pragma once

#include <optional>

#include "bitmma/analysis/report.hpp"
#include "bitmma/gemm/accuracy.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/gemm/library_choice.hpp"
#include "bitmma/gemm/product_faults.hpp"
#include "bitmma/gemm/trace.hpp"

namespace bitmma {

/// A computed product, and the D with which it is compared.
struct [[nodiscard]] ProductResult {
  GemmPlan plan = {};
  int64_t k = 0;
  Matrix d = {};
  std::optional<Matrix> recorded = {};       // the recorded D
  std::optional<Accuracy> accuracy = {};     // if requested
  std::optional<LibraryChoice> choice = {};  // the call whose kernel has this plan
  bool plan_was_given = true, plan_is_of_file = false, target_was_given = true;

  /// The number of outputs that differ from the recorded D: all of them if its type or shape differs.
  int64_t differing() const;
};

/// {"m", "n", "k", "k_added", "target", "cpu_target", "plan", "evidence_of_instruction"}; with a recorded D also
/// "differ", and the types "recorded_d" and "computed_d"; with accuracy also "error"; with a choice also "kernel",
/// "slices", "choice" and "call". The text has a table, and the first `rows` and `cols` of D.
Report describe(const ProductResult& result, int rows = 4, int cols = 4);

/// {"cpu_target", "candidates", "outputs", "ended", "ambiguous", "families", "all_bits", "nearest"}. Plans are objects.
Report describe(const PlanSearch& search, const GemmInputs& inputs);

/// A list of {"first", "last", "kernel", "slices", "bits", "why"}: ranges of M; equal `bits` are equal plans.
Report describe(const LibraryCall& call, const std::vector<ChoiceRange>& ranges);

/// {"outputs", "wrong", "plan", "tried", "findings", "factor"}; a finding is {"id", "what", "fix", "explains_all",
/// "wrong_explained", "right_broken"}, the factor {"of", "factors", "scale_from"} or null.
Report describe(const ProductDiagnosis& diagnosis);

/// {"row", "col", "k", "target", "plan", "evidence_of_instruction", "d", "value", "exact", "error", "worst", "steps"};
/// and "curve", {"k", "error"}: K added so far, and the error of all steps so far. The text has at most `most_steps`
/// steps, those with the largest losses.
Report describe(const ProductTrace& trace, int most_steps = 12);

/// The evidence for one instruction of the plan on its target; "IEEE f32" on CUDA cores.
std::string evidence_of_sums(const GemmPlan& plan);

}  // namespace bitmma
