// SPDX-License-Identifier: MIT
#include "plan_flags.hpp"

#include <fmt/format.h>

#include "arguments.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

bool is_plan_file(std::string_view plan) { return plan.ends_with(".json"); }

}  // namespace

void ProductPlanFlags::add(Command& command) {
  command.add_input(
      "--plan", plan,
      "the plan: a name of the catalogue, JSON, or a file NAME.json; default: flat; required for float32",
      [](const std::string& value) { return is_plan_file(value) ? std::vector{value} : std::vector<std::string>{}; });
  command.add_option("--kernel", kernel,
                     "use the plan of the kernel with this name; `file` uses the key kernel of the file");
  command.add_option("--split-k", split_count,
                     "number of slices, if the plan does not determine it; default: found from d");
  between(command.get_option("--split-k"), 1, 1 << 20);
  command.add_option("--output-type", output_type,
                     "type of d for named plans; default: the type of d in the file, or f32");
}

std::optional<Format> ProductPlanFlags::output() const {
  if (output_type.empty()) return std::nullopt;
  return require_format("--output-type", output_type, plan_outputs);
}

ProductPlanRequest ProductPlanFlags::request(const TargetFlag& target) const {
  return {.plan = is_plan_file(plan) ? read_whole(plan) : plan.get(),
          .kernel = kernel,
          .output = output(),
          .target = target.asked(),
          .split_count = split_count};
}

void LibraryFlags::add(Command& command) {
  command.add_option("--library", library, "instead of a plan: the kernel that this library takes: cublas-13.1");
  command.add_option("--gpu", gpu, "with --library: H100 or H200");
  command.add_option(
      "--layout", layout,
      "with --library: nt, nn, tn or tt: A and B have contiguous rows (n) or columns (t); default: nn if "
      "the file has b of 16 bits or more, else nt");
  command.add_flag("--allow-tf32", allow_tf32, "with --library: float32 is rounded to tf32, as PyTorch may do");
  command.add_flag("--fast-accum", fast_accumulation, "with --library: use_fast_accum of fp8");
  command.add_flag("--nearest", nearest,
                   "with --library: if the shape was not recorded, take the kernel of the nearest one");
}

ProductLibraryRequest LibraryFlags::request(std::optional<Format> output) const {
  return {.library = library,
          .gpu = gpu,
          .layout = layout,
          .output = output,
          .fast_accumulation = fast_accumulation,
          .allow_tf32 = allow_tf32,
          .nearest = nearest};
}

std::string print_plan_names() {
  std::string names;
  for (const CataloguePlan& row : catalogue()) names += fmt::format("  {:29}{}\n", row.name, row.about);
  return names;
}

std::function<void(const std::vector<Violation>&)> product_warnings_to(const Context& context) {
  return [&context](const std::vector<Violation>& warnings) {
    print_warnings(context, in_flags(warnings, flags_of_products));
  };
}

}  // namespace bitmma::cli
