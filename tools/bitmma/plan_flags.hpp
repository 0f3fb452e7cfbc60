// SPDX-License-Identifier: MIT
// --plan, --kernel, --split-k, --output-type and --target: which plan a product is computed by.
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
  /// True where none is asked for, nor another target, type or split, and the file names the plan of its d: it is
  /// taken.
  bool are_taken_from(const ProductFile& product, const TargetFlag& target) const;
  /// The plan that they mean for this product. Where the number of slices is open, the recorded D decides. Throws Error
  /// for what contradicts the plan, and where nothing tells the number of slices.
  GemmPlan plan_for(Context& context, const ProductFile& product, const TargetFlag& target, int threads) const;
};

}  // namespace bitmma::cli
