// What libraries do: plans by name, and from the name of a kernel. The facts are data/plans, built into the library.
//
//   plans_of_kernel("nvjet_sm90_tst_64x32_64x16_4x2_h_bz_splitK_TNT", inputs, Format::bf16)     split-K 2, 3, 4, ..
//   plans_named("nvjet-algo2", inputs, Format::bf16)                                           one plan
//
// Types, scales, bias and C come from the inputs. Names of kernels do not tell the number of slices: where it is open
// and not given, there is a plan for every number.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

struct CataloguePlan {
  std::string name = {}, about = {}, evidence = {}, source = {};
  std::string fields = {};         // JSON: what differs from one chain
  Target target = Target::sm_90a;  // where it was seen
  bool open_count = false;         // the number of slices is not known

  bool operator==(const CataloguePlan&) const = default;
};

/// A part of kernel names, and what it adds to the plan. A later row goes before an earlier one.
struct KernelPattern {
  std::string pattern = {};  // ECMAScript regular expression, searched for in all names of a call, joined by " + "
  std::string about = {}, evidence = {};
  std::string fields = {};  // JSON

  bool operator==(const KernelPattern&) const = default;
};

std::span<const CataloguePlan> catalogue();
std::span<const KernelPattern> kernel_patterns();

struct CatalogueOptions {
  std::optional<Target> target = {};  // nothing: that of the catalogue's row
  int split_count = 0;                // the number of slices; 0: open
  float alpha = 1, beta = 1;          // of the call; they act where C is there or alpha is not 1
  bool relu = false;                  // at the end: most names do not tell it
};

/// Throws Error, which lists the names, for one that the catalogue lacks.
std::vector<GemmPlan> plans_named(std::string_view name, const GemmInputs& inputs, Format output,
                                  const CatalogueOptions& options = {});

/// `kernel` is a name as a profiler prints it, or several of one call. A name with sm90 or later says the target, where
/// none is asked for. Throws Error when no pattern knows it, or it is a kernel of another target.
std::vector<GemmPlan> plans_of_kernel(std::string_view kernel, const GemmInputs& inputs, Format output,
                                      const CatalogueOptions& options = {});

}  // namespace bitmma
