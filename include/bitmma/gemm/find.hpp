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

struct PlanSearch {
  std::vector<GemmPlan> all_bits = {};  // simplest first; several when D cannot tell them apart
  std::vector<NearPlan> nearest = {};   // when there are none
  int64_t candidates = 0;               // plans that were tried
  int64_t outputs = 0;                  // of D, all compared

  bool operator==(const PlanSearch&) const = default;
};

/// True when no output has a sign: relu may have been there.
bool has_no_sign(const Matrix& d);

/// The plans of a stage, simplest first: the ranges that `bitmma gemm --help` lists. Scales and bias that the inputs
/// have are taken as the epilogue; relu is tried where no output is negative.
std::vector<GemmPlan> candidate_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options,
                                      SearchStage stage);

/// Called with the number of plans that were tried, of so many in all stages begun.
using FindProgress = std::function<void(int64_t, int64_t)>;

/// The same for plans that are given: which of them give all bits. Plans that the inputs do not fit miss everything.
PlanSearch try_plans(std::span<const GemmPlan> plans, const GemmInputs& inputs, const Matrix& d,
                     const FindOptions& options = {}, const FindProgress& progress = {});

/// Throws Error when D is not M x N, or no instruction of the target multiplies these types.
PlanSearch find_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options = {},
                      const FindProgress& progress = {});

}  // namespace bitmma
