// SPDX-License-Identifier: MIT
// What libraries do: plans by name, and from the name of a kernel. The facts are data/plans, built into the library.
//
//   plans_for({.kernel = "nvjet_sm90_tst_64x32_64x16_4x2_h_bz_splitK_TNT"}, inputs)     split-K 2, 3, 4, ..; D bf16
//   plans_for({.plan = "nvjet-algo2", .output = Format::bf16}, inputs)                 one plan
//
// Types, scales, bias and C come from the inputs. Names of kernels do not tell the number of slices: where it is open
// and not given, there is a plan for every number.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

/// Operands and a type of D that a plan was seen with.
struct PlanTypes {
  std::string operands = {};  // "e4m3 x e4m3"; "block scales": any with them; "any": all that the target multiplies
  std::string d = {};         // "bf16"; "any"; empty: the library takes these operands, and no D of them was seen
  std::string evidence = {};  // empty: a model choice

  bool operator==(const PlanTypes&) const = default;
};

struct CataloguePlan {
  std::string name = {}, about = {}, evidence = {}, source = {};  // the strongest evidence; `types` has that of each D
  std::string fields = {};                                        // JSON: what differs from one chain
  std::string gpus = {};                                          // "sm_90", "sm_90 and later"; empty: all
  std::vector<PlanTypes> types = {};                              // other operands are refused
  int64_t most_k = 0;                                             // of what was seen; 0: no limit
  Target target = Target::sm_90a;                                 // the GPU of the recorded calls
  bool open_count = false;                                        // the number of slices is not known

  bool operator==(const CataloguePlan&) const = default;
};

/// A pattern of kernel names, and the fields that it adds to the plan. Later rows override earlier ones.
struct KernelPattern {
  std::string pattern = {};  // ECMAScript regular expression, searched for in all names of a call, joined by " + "
  std::string about = {}, evidence = {};
  std::string fields = {};  // JSON

  bool operator==(const KernelPattern&) const = default;
};

/// A part of kernel names, and the types that it names: a format, or the group of the pattern ("$1") that names it.
/// Empty: this part does not tell. A later row goes before an earlier one.
struct TypePattern {
  std::string pattern = {}, about = {}, evidence = {};
  std::string a = {}, b = {}, d = {};

  bool operator==(const TypePattern&) const = default;
};

std::span<const CataloguePlan> catalogue();
std::span<const KernelPattern> kernel_patterns();
std::span<const TypePattern> type_patterns();

struct KernelTypes {
  Format a = Format::f16, b = Format::f16, d = Format::f32;  // f32: the inputs are float32

  bool operator==(const KernelTypes&) const = default;
};

/// The types that the name of a kernel contains; nothing if it does not contain all three.
std::optional<KernelTypes> types_of_kernel(std::string_view kernel);

struct CatalogueOptions {
  std::optional<Target> target = {};  // nothing: that of the catalogue's row, or default_target where it cannot
  int split_count = 0;                // the number of slices; 0: open
  float alpha = 1, beta = 1;          // of the call; they act where C is there or alpha is not 1
  bool relu = false;                  // at the end: most names do not tell it
};

/// Without `output` D is f32, of f64 f64, of integers s32. The evidence of the plans is that of these types on this
/// target; what was not seen is a model choice. Throws Error, which lists what is legal, for a name that the catalogue
/// lacks, operands and targets that the library does not compute so, and for a number of slices where the plan does not
/// cut K into as many.
std::vector<GemmPlan> plans_named(std::string_view name, const GemmInputs& inputs, std::optional<Format> output = {},
                                  const CatalogueOptions& options = {});

/// `kernel` is a name as a profiler prints it, or several of one call. A name with sm90 or later says the target, where
/// none is asked for. D has the type that the name tells. Throws Error when no pattern knows the name, its types are
/// not those of the inputs or of `output`, or it is a kernel of another target.
std::vector<GemmPlan> plans_of_kernel(std::string_view kernel, const GemmInputs& inputs,
                                      std::optional<Format> output = {}, const CatalogueOptions& options = {});

/// The caller's choice: at most one of plan, kernel and value.
struct PlanRequest {
  std::string plan = {};               // a name of the catalogue, or a plan as JSON ("{...}")
  std::string kernel = {};             // the name of a kernel
  std::optional<GemmPlan> value = {};  // a plan
  std::optional<Format> output = {};   // the type of D
  CatalogueOptions options = {};
  /// Plans of a kernel with and without relu at the end: names of xmma and cutlass kernels do not tell it.
  bool may_clamp = false;
};

/// The plans that the request describes: one, or several if the number of slices is open. Nothing asked for is one
/// chain over K, but of float32 operands, whose product libraries compute in three ways. JSON without "instruction" has
/// that of one chain. Throws Error for what contradicts the plan or would have no effect on it.
std::vector<GemmPlan> plans_for(const PlanRequest& request, const GemmInputs& inputs);

/// The plan on another target, where evidence becomes a choice of the model.
GemmPlan on_target(GemmPlan plan, Target target);

/// sm_90a; with block scales, which it does not have, sm_100a, or sm_120a where that alone has an instruction for them.
Target default_target(const GemmInputs& inputs);

}  // namespace bitmma
