// SPDX-License-Identifier: MIT
// The plan that computes a product: --plan, --kernel, --split-k, --output-type and --target, or --library with --gpu.
#pragma once

#include <string>
#include <vector>

#include "bitmma/acts/product_file.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "bitmma/gemm/library_choice.hpp"
#include "flags.hpp"

namespace bitmma::cli {

struct ProductPlanFlags {
  Flag<std::string> plan, kernel, output_type;
  Flag<int> split_count = 0;

  void add(Command& command);
  bool are_given() const { return !plan.empty() || !kernel.empty(); }
  /// Throws Error if a flag requests a plan, a number of slices or a target: `other` says them.
  void require_none_beside(std::string_view other, const TargetFlag& target) const;
  /// True if no flag requests a plan, target, type or split, and the file names the plan of its d, which is then
  /// used.
  bool are_taken_from(const ProductFile& product, const TargetFlag& target) const;
  /// The plan that the flags select for this product. If the number of slices is unknown, the recorded D decides.
  /// Throws Error for contradictions with the plan, and if nothing determines the number of slices.
  GemmPlan plan_for(Context& context, const ProductFile& product, const TargetFlag& target, int threads) const;
};

/// The kernel that a library takes for the product.
struct LibraryFlags {
  Flag<std::string> library, gpu, layout;
  Flag<bool> allow_tf32 = false, fast_accumulation = false, nearest = false;

  void add(Command& command);
  bool are_given() const { return !library.empty(); }
  /// D has the requested type, else that of the file, else PyTorch's. Warns about a shape that was not recorded.
  LibraryChoice choice_for(Context& context, const ProductFile& product, const Flag<std::string>& output_type) const;
};

}  // namespace bitmma::cli
