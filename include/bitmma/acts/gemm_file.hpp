// SPDX-License-Identifier: MIT
// A product of a file: which plan it gets, its D, and the plans that give a recorded D.
//
//   const ProductFile product = read_product_file("product.safetensors");
//   const GemmFileReport computed = gemm_file(product, {.plan = {.kernel = "file"}});
//   print(describe(computed.result));
//
// The plan is, in this order: that of the library's choice; the one that the request names; the file's key plan, unless
// the request asks for another target, type or number of slices; one chain over K.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/acts/describe_product.hpp"
#include "bitmma/acts/product_file.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/gemm/library_choice.hpp"

namespace bitmma {

/// At most one of plan and kernel. What is empty comes from the file, then from the plan.
struct ProductPlanRequest {
  std::string plan = {};    // a name of the catalogue, or a plan as JSON ("{...}")
  std::string kernel = {};  // the name of a kernel; "file": the file's key kernel
  std::optional<Format> output = {};
  std::optional<Target> target = {};
  int split_count = 0;  // the number of slices of K; 0: the plan's, or found from the recorded D

  bool names_plan() const { return !plan.empty() || !kernel.empty(); }
};

/// The kernel that a library takes for the product. Throws Error if the file has what no recorded call has.
struct ProductLibraryRequest {
  std::string library = {}, gpu = {};
  std::string layout = {};  // nt, nn, tn or tt; empty: as the file has B
  std::optional<Format> output = {};
  bool fast_accumulation = false;
  bool allow_tf32 = false;  // float32 is rounded to tf32; refused for other types
  bool nearest = false;     // the kernel of the nearest shape; refused for a shape that was recorded
};

/// Callbacks that an act calls while it works. Each may be empty.
struct GemmFileEvents {
  std::function<void(const std::vector<Violation>&)> warn = {};
  FindProgress plans = {};    // tried, to find the number of slices
  FindProgress outputs = {};  // of D: done, and all
};

struct [[nodiscard]] PlanOfProduct {
  GemmPlan plan = {};
  bool is_of_file = false;
};

/// The plan of the file's key plan, if the request names none and asks for nothing else.
bool takes_plan_of_file(const ProductFile& product, const ProductPlanRequest& request);

/// Throws Error for contradictions between the request, the file and the plan (fields plan, kernel, output, split_k),
/// and if nothing determines the number of slices.
PlanOfProduct plan_of_product(const ProductFile& product, const ProductPlanRequest& request, int threads = 1,
                              const GemmFileEvents& events = {});

/// Throws Error for a library, GPU, layout or types without recordings (fields library, gpu, layout, nearest). Warns of
/// a shape that was not recorded.
LibraryChoice library_choice_of_product(const ProductFile& product, const ProductLibraryRequest& request,
                                        const GemmFileEvents& events = {});

struct GemmFileRequest {
  ProductPlanRequest plan = {};
  std::optional<ProductLibraryRequest> library = {};  // instead of a plan
  std::vector<int> rows = {}, cols = {};              // only these, by their indices in the file; empty: all
  bool accuracy = false;                              // how far D is from the exact product
  int threads = 1;                                    // 0: all cores
};

struct [[nodiscard]] GemmFileReport {
  ProductFile product = {};  // or the part of it that was computed
  ProductResult result = {};
};

/// Computes D. Throws Error as above, and for the accuracy of a plan with an epilogue or scales of blocks, which the
/// exact product does not have (field accuracy).
GemmFileReport gemm_file(ProductFile product, const GemmFileRequest& request, const GemmFileEvents& events = {});

/// The product with the computed D. A recorded D that differs is evidence: throws Error unless `replace_d` asks to
/// replace it (field d).
TensorFile file_with_d(const GemmFileReport& computed, bool replace_d = false);

/// The plans that give the file's D. Throws Error if it has none. Without `target` the file's own, or the default.
PlanSearch find_plans_of_file(const ProductFile& product, std::optional<Target> target, FindOptions options,
                              const FindProgress& progress = {});

}  // namespace bitmma
