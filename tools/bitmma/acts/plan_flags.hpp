// SPDX-License-Identifier: MIT
// The plan that computes a product: --plan, --kernel, --split-k, --output-type and --target, or --library with --gpu.
#pragma once

#include <array>
#include <string>

#include "bitmma/acts/gemm_file.hpp"
#include "flags.hpp"

namespace bitmma::cli {

struct ProductPlanFlags {
  Flag<std::string> plan, kernel, output_type;
  Flag<int> split_count = 0;

  void add(Command& command);
  bool are_given() const { return !plan.empty() || !kernel.empty(); }
  std::optional<Format> output() const;
  /// Reads the file that --plan names.
  ProductPlanRequest request(const TargetFlag& target) const;
};

/// The kernel that a library takes for the product.
struct LibraryFlags {
  Flag<std::string> library, gpu, layout;
  Flag<bool> allow_tf32 = false, fast_accumulation = false, nearest = false;

  void add(Command& command);
  bool are_given() const { return !library.empty(); }
  ProductLibraryRequest request(std::optional<Format> output) const;
};

/// The flags of the fields that gemm_file and plan_of_product refuse.
inline constexpr auto flags_of_products = std::to_array<FlagOfField>({{"plan", "--plan"},
                                                                      {"kernel", "--kernel"},
                                                                      {"split_k", "--split-k"},
                                                                      {"output", "--output-type"},
                                                                      {"target", "--target"},
                                                                      {"library", "--library"},
                                                                      {"gpu", "--gpu"},
                                                                      {"layout", "--layout"},
                                                                      {"allow_tf32", "--allow-tf32"},
                                                                      {"nearest", "--nearest"},
                                                                      {"accuracy", "--error"},
                                                                      {"replace_d", "--replace-d"},
                                                                      {"row, col", "--row, --col"}});

/// The named plans, a line each, for help.
std::string print_plan_names();

/// Prints warnings of an act on products, with the flags of its fields.
std::function<void(const std::vector<Violation>&)> product_warnings_to(const Context& context);

}  // namespace bitmma::cli
