// SPDX-License-Identifier: MIT
// From bits to the plan: which way of adding up K gives a recorded D.
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
  Target target = Target::sm_90a;  // tried first and in every way; others only with a plain chain
  int threads = 1;
  int max_nearest = 3;
  float alpha = 1, beta = 1;  // of the call, where C was added or the product was scaled
  double timeout_s = 0;       // seconds; 0: as long as it takes
  int64_t max_plans = 0;      // that are tried; 0: all
  /// Asked before every plan, by one thread at a time: true ends the search.
  std::function<bool()> stop = {};
};

/// Which plans are tried, one set after the other until a plan gives all bits.
enum class SearchStage : uint8_t {
  usual,       // what libraries are known to do
  combined,    // every way of stepping with every split; cuts in two; K that ends early
  cuda_cores,  // fma chains in lanes
};
inline constexpr std::array search_stages{SearchStage::usual, SearchStage::combined, SearchStage::cuda_cores};

/// A plan that misses some bits.
struct NearPlan {
  GemmPlan plan = {};
  int64_t differing = 0;
  std::string pattern = {};  // where: "all in columns 96..127"

  bool operator==(const NearPlan&) const = default;
};

/// Plans that differ only in the number of slices and in tiles.
struct PlanFamily {
  std::string name = {};      // print_family
  int64_t plans = 0;          // that give all bits
  int64_t first = 0;          // of them, in all_bits
  std::string evidence = {};  // of the catalogue; empty: the family was tried, and no library is known to have it

  bool operator==(const PlanFamily&) const = default;
};

/// Why a search ended.
enum class SearchEnd : uint8_t { complete, timeout, max_plans, stopped };

struct PlanSearch {
  /// Those that the catalogue knows from measurements first, then published ones, then others; the simplest first among
  /// them. Several when D cannot tell them apart.
  std::vector<GemmPlan> all_bits = {};
  std::vector<PlanFamily> families = {};  // of all_bits, in its order
  std::vector<NearPlan> nearest = {};     // when there are none
  int64_t candidates = 0;                 // plans that were tried
  int64_t outputs = 0;                    // of D, all compared
  SearchEnd end = SearchEnd::complete;    // of complete ones alone: plans that are not there do not give the bits

  /// True when D cannot tell the plans apart.
  bool ambiguous() const { return all_bits.size() > 1; }

  bool operator==(const PlanSearch&) const = default;
};

/// True when no output has a sign: relu may have been there.
bool has_no_sign(const Matrix& d);

/// The plans that the stages try, one line for each range.
std::string print_search();

/// The plans of a stage, simplest first: the ranges that print_search lists. Scales and bias that the inputs
/// have are taken as the epilogue; relu is tried where no output is negative.
std::vector<GemmPlan> candidate_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options,
                                      SearchStage stage);

/// Called with the number of plans tried and the number of plans in all stages begun.
using FindProgress = std::function<void(int64_t, int64_t)>;

/// The same for plans that are given: which of them give all bits. Plans that the inputs do not fit miss everything.
PlanSearch try_plans(std::span<const GemmPlan> plans, const GemmInputs& inputs, const Matrix& d,
                     const FindOptions& options = {}, const FindProgress& progress = {});

/// Throws Error when D is not M x N, or no instruction of the target multiplies these types.
PlanSearch find_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options = {},
                      const FindProgress& progress = {});

}  // namespace bitmma
