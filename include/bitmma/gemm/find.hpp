// From bits to the plan: which way of adding up K gives a recorded D.
//
//   const PlanSearch found = find_plans(inputs, d, {.target = Target::sm_90a});
//   found.all_bits.front()                  the simplest plan that gives every bit
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

struct FindOptions {
  Target target = Target::sm_90a;  // tried first and in every way; others only with a plain chain
  int threads = 1;
  int max_nearest = 3;
};

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

/// The plans that are tried, simplest first: the ranges that `bitmma gemm --help` lists. Scales and bias that
/// the inputs have are taken as the epilogue; relu is tried where no output is negative.
std::vector<GemmPlan> candidate_plans(const GemmInputs& inputs, const Matrix& d, Target target);

/// Throws Error when D is not M x N, or no instruction of the target multiplies these types.
PlanSearch find_plans(const GemmInputs& inputs, const Matrix& d, const FindOptions& options = {},
                      const GemmProgress& progress = {});

}  // namespace bitmma
