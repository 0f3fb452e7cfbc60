// SPDX-License-Identifier: MIT
// From bits to the plan: which order of additions along K produces a recorded D.
//
//   const PlanSearch found = find_plans(inputs, d, {.target = Target::sm_90a});
//   found.all_bits.front()                  the simplest plan that gives every bit
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

struct FindOptions {
  Target target = Target::sm_90a;  // searched in full; other targets only with a plain chain
  int threads = 1;
  int max_nearest = 3;
  float alpha = 1, beta = 1;  // of the call, if C was added or the product was scaled
  double timeout_s = 0;       // time limit in seconds; 0: none
  int64_t max_plans = 0;      // limit of plans to try; 0: none
  /// Called before every plan, by one thread at a time; returning true ends the search.
  std::function<bool()> stop = {};
};

/// Sets of plans to try, one after another, until a plan matches all bits.
enum class SearchStage : uint8_t {
  usual,       // plans that libraries are known to use
  combined,    // every stepping with every split; K cut in two; K that ends early
  cuda_cores,  // fma chains over lanes
};
inline constexpr std::array search_stages{SearchStage::usual, SearchStage::combined, SearchStage::cuda_cores};

/// A plan that misses some bits.
struct NearPlan {
  GemmPlan plan = {};
  int64_t differing = 0;
  int64_t outputs = 0;       // that were compared: all, or a sample of D after an early end
  std::string pattern = {};  // where: "all in columns 96..127"

  bool operator==(const NearPlan&) const = default;
};

/// Plans that differ only in the number of slices, and in tiles.
struct PlanFamily {
  std::string name = {};                       // print_family
  int64_t plans = 0;                           // number of its plans that match all bits
  int64_t first = 0;                           // index of the first of them in all_bits
  std::optional<FieldEvidence> evidence = {};  // from the catalogue; nothing: no library is known to use the family

  bool operator==(const PlanFamily&) const = default;
};

/// Why a search ended.
enum class SearchEnd : uint8_t { complete, timeout, max_plans, stopped };

struct [[nodiscard]] PlanSearch {
  /// The plans that match all bits: those with measured evidence first, then published ones, then others; the simplest
  /// first within each group. Several if D cannot distinguish them.
  std::vector<GemmPlan> all_bits = {};
  std::vector<PlanFamily> families = {};  // the families of all_bits, in the same order
  std::vector<NearPlan> nearest = {};     // only if no plan matches all bits
  int64_t candidates = 0;                 // number of plans tried
  int64_t outputs = 0;                    // outputs of D, all of which were compared
  SearchEnd end = SearchEnd::complete;    // only after `complete` are all other plans excluded
  /// After an early end: the plans of the last stage that were not tried, and the stages after it.
  int64_t untried = 0;
  std::vector<SearchStage> untried_stages = {};

  /// True if D cannot distinguish the plans.
  bool ambiguous() const { return all_bits.size() > 1; }

  bool operator==(const PlanSearch&) const = default;
};

/// True if no output has its sign set: the product may end with relu.
bool has_no_sign(const Matrix& d);

/// The plans of the stages, one line for each range.
std::string print_search();

/// The plans of a stage, simplest first: the ranges that print_search lists. Scales and bias in the inputs become the
/// epilogue; relu is tried if no output is negative.
std::vector<GemmPlan> candidate_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options,
                                      SearchStage stage);

/// Called with the number of plans tried, and the number of plans in all stages started so far.
using FindProgress = std::function<void(int64_t, int64_t)>;

/// The same for given plans: which of them match all bits. A plan that does not fit the inputs misses everything.
PlanSearch try_plans(std::span<const GemmPlan> plans, const GemmInputs& inputs, const Matrix& d,
                     const FindOptions& options = {}, const FindProgress& progress = {});

/// Throws Error if D is not M x N, or if no instruction of the target multiplies these types.
PlanSearch find_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options = {},
                      const FindProgress& progress = {});

}  // namespace bitmma
