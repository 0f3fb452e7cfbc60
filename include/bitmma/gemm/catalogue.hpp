// SPDX-License-Identifier: MIT
// What libraries compute: plans by name, and by the name of a kernel. The facts of data/plans are compiled in.
//
//   plans_for({.kernel = "nvjet_sm90_tst_64x32_64x16_4x2_h_bz_splitK_TNT"}, inputs)     split-K 2, 3, 4, ..; D bf16
//   plans_for({.plan = "nvjet-algo2", .output = Format::bf16}, inputs)                 one plan
//
// Types, scales, bias and C come from the inputs. Kernel names do not contain the number of slices: if it is unknown
// and not given, there is one plan for every number.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

/// Types of operands and D for which a plan was observed.
struct PlanTypes {
  std::string operands = {};  // "e4m3 x e4m3"; "block scales": any with them; "any": all that the target multiplies
  std::string d = {};         // "bf16"; "any"; empty: the library takes these operands, and no D of them was seen
  FieldEvidence evidence = {};

  bool operator==(const PlanTypes&) const = default;
};

struct CataloguePlan {
  std::string name = {}, about = {}, source = {};
  FieldEvidence evidence = {};        // the strongest; `types` has that for each D
  std::string fields = {};            // JSON: the differences from one chain
  std::string gpus = {};              // "sm_90", "sm_90 and later"; empty: all
  std::vector<PlanTypes> types = {};  // other operand types are refused
  int64_t most_k = 0;                 // the largest observed K; 0: no limit
  Target target = Target::sm_90a;     // the GPU of the recorded calls
  bool open_count = false;            // the number of slices is unknown

  bool operator==(const CataloguePlan&) const = default;
};

/// A pattern of kernel names, and the fields that it adds to the plan. Later rows override earlier ones.
struct KernelPattern {
  // An extended regular expression of POSIX, searched for in all names of a call, joined by " + "
  std::string pattern = {};
  std::string unless = {};  // text in those names without which alone the row holds; empty: always
  std::string about = {};
  FieldEvidence evidence = {};
  std::string fields = {};  // JSON

  bool operator==(const KernelPattern&) const = default;
};

/// A pattern in kernel names with its types: each is a format, or "$1" for the group of the pattern that names it.
/// Empty: the pattern does not determine this type. Later rows have priority.
struct TypePattern {
  std::string pattern = {}, about = {};
  FieldEvidence evidence = {};
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

/// The types in the name of a kernel; nothing if it does not contain all three.
std::optional<KernelTypes> types_of_kernel(std::string_view kernel);

struct CatalogueOptions {
  std::optional<Target> target = {};  // nothing: the catalogue row's, or default_target if that cannot compute this
  int split_count = 0;                // the number of slices; 0: unknown
  float alpha = 1, beta = 1;          // of the call; they have an effect if there is a C or alpha is not 1
  bool relu = false;                  // relu at the end; most kernel names do not show it
};

/// Without `output`, D is f32; for f64 operands f64, for integers s32. The evidence of the plans is for these types on
/// this target; anything not observed is a model choice. Throws Error, which lists what is legal, for a name that the
/// catalogue lacks, for operands or targets that the library does not compute this way, and for a number of slices into
/// which the plan does not split K.
std::vector<GemmPlan> plans_named(std::string_view name, const GemmInputs& inputs, std::optional<Format> output = {},
                                  const CatalogueOptions& options = {});

/// `kernel` is one kernel name from a profiler, or several names of one call. If no target is requested, a name with
/// a GPU determines it: sm90 or later, sm86, ampere, turing, volta. D has the type in the name. Throws Error if no
/// pattern matches the name, if its types are not those of the inputs or of `output`, or if the kernel is for another
/// target.
std::vector<GemmPlan> plans_of_kernel(std::string_view kernel, const GemmInputs& inputs,
                                      std::optional<Format> output = {}, const CatalogueOptions& options = {});

/// The caller's request: at most one of plan, kernel and value.
struct PlanRequest {
  std::string plan = {};               // a name of the catalogue, or a plan as JSON ("{...}")
  std::string kernel = {};             // the name of a kernel
  std::optional<GemmPlan> value = {};  // a plan
  std::optional<Format> output = {};   // the type of D
  CatalogueOptions options = {};
  /// Return plans with and without a final relu: names of xmma and cutlass kernels do not show whether there is one.
  bool may_clamp = false;
};

/// The plans that the request describes: one, or several if the number of slices is unknown. An empty request gives one
/// chain over K, except for float32 operands, whose product libraries compute in three ways. JSON without "instruction"
/// gets the instruction of one chain. Throws Error for anything that contradicts the plan or has no effect on it.
std::vector<GemmPlan> plans_for(const PlanRequest& request, const GemmInputs& inputs);

/// The plan of a call without a recorded D: the only one of plans_for, or the one without slices if the kernel's name
/// leaves open whether K is cut. Throws Error (field split_k) if the number of slices must be known.
GemmPlan only_plan(std::vector<GemmPlan> plans);

/// The plan on another target, where its evidence becomes a model choice.
GemmPlan on_target(GemmPlan plan, Target target);

/// sm_90a. With block scales, which sm_90a lacks: sm_100a, or sm_120a if only that has an instruction for them.
Target default_target(const GemmInputs& inputs);

}  // namespace bitmma
