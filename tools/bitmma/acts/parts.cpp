// SPDX-License-Identifier: MIT
#include "parts.hpp"

#include <fmt/format.h>

#include "bitmma/acts/describe_kernel_instruction.hpp"
#include "bitmma/acts/describe_quantize.hpp"

namespace bitmma::cli {

std::optional<Report> describe_kernel_instruction(std::string_view text, std::optional<Target> target) {
  return bitmma::describe_kernel_instruction(text, target);
}

void require_acts(const std::vector<std::string>&) {}

Report list_recipes(const std::function<bool(std::string_view, const std::set<std::string_view>&)>& is_wanted) {
  std::vector<QuantizeRecipe> wanted;
  for (const QuantizeRecipe& recipe : quantize_recipes()) {
    if (is_wanted(fmt::format("{} {}", recipe.name, recipe.project),
                  {info(recipe.element).name, info(recipe.scale_format).name}))
      wanted.push_back(recipe);
  }
  return describe(wanted);
}

}  // namespace bitmma::cli
