// SPDX-License-Identifier: MIT
// --plan, --kernel, --split-k, --output-type and --target: the plan that computes a product.
#pragma once

#include <string>
#include <vector>

#include "bitmma/files/product_file.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "flags.hpp"

namespace bitmma::cli {

struct ProductPlanFlags {
  Flag<std::string> plan, kernel, output_type;
  Flag<int> split_count = 0;

  void add(Command& command);
  bool are_given() const { return !plan.empty() || !kernel.empty(); }
  /// True if no flag requests a plan, target, type or split, and the file names the plan of its d, which is then
  /// used.
  bool are_taken_from(const ProductFile& product, const TargetFlag& target) const;
  /// The plan that the flags select for this product. If the number of slices is unknown, the recorded D decides.
  /// Throws Error for contradictions with the plan, and if nothing determines the number of slices.
  GemmPlan plan_for(Context& context, const ProductFile& product, const TargetFlag& target, int threads) const;
};

}  // namespace bitmma::cli
