// SPDX-License-Identifier: MIT
#include "plan_flags.hpp"

#include <fmt/format.h>

#include "arguments.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/gemm/find.hpp"
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

namespace {

/// The key kernel is only documentation: warns about it unless a flag requests its plan.
void judge_kernel(Context& context, const ProductFile& product, bool has_plan) {
  const std::string* const named = product.file.find_metadata("kernel");
  if (!named) return;
  Violation about{
      .field = fmt::format("{}: kernel", product.file.path), .seen = shortened(*named), .severity = Severity::warning};
  try {
    plans_for({.kernel = *named,
               .output = product.output(),
               .options = {.target = product.target, .alpha = product.alpha, .beta = product.beta},
               .may_clamp = product.d && has_no_sign(*product.d)},
              product.inputs);
    if (has_plan) return;
    about.expected = "a plan: this key only documents the kernel";
    about.fix = "use --kernel file for the plan of this kernel";
  } catch (const Error& error) {
    // Nothing is known about kernels without a pattern, so they cannot contradict a plan.
    if (has_plan && error.violations().front().code == ViolationCode::unknown_kernel) return;
    about.expected = "a kernel that computes this product";
    about.fix = print(error.violations().front());
  }
  print_warnings(context, {about});
}

}  // namespace

bool ProductPlanFlags::are_taken_from(const ProductFile& product, const TargetFlag& target) const {
  if (are_given() || !product.file.find_metadata("plan")) return false;
  const std::optional<Target> asked = target.asked();
  const bool is_other_target = asked && product.target && *asked != *product.target,
             is_other_type =
                 !output_type.empty() && require_format("--output-type", output_type, plan_outputs) != product.output();
  return !is_other_target && !is_other_type && split_count == 0;
}

GemmPlan ProductPlanFlags::plan_for(Context& context, const ProductFile& product, const TargetFlag& target,
                                    int threads) const {
  const bool of_file = are_taken_from(product, target);
  const std::string asked = of_file ? *product.file.find_metadata("plan") : plan.get();
  const bool is_file = !of_file && is_plan_file(asked), is_json = is_file || asked.starts_with("{");
  if (!of_file && !are_given() && product.file.find_metadata("plan")) {
    print_warnings(context, {{.code = ViolationCode::unread_argument,
                              .field = fmt::format("{}: key plan", product.file.path),
                              .seen = "ignored, because --target, --output-type or --split-k requests another plan",
                              .fix = "set the plan with --plan; the default is flat",
                              .severity = Severity::warning}});
  }
  if (kernel != "file") judge_kernel(context, product, are_given() || of_file);
  PlanRequest request{
      .plan = is_file ? read_whole(asked) : asked,
      .kernel = kernel,
      .options = {.target = target.asked(), .split_count = split_count, .alpha = product.alpha, .beta = product.beta},
      .may_clamp = product.d && has_no_sign(*product.d)};
  if (kernel == "file") {
    const std::string* const named = product.file.find_metadata("kernel");
    if (!named) throw Error({.field = "--kernel", .seen = "file", .expected = "a file with the key kernel"});
    request.kernel = *named;
  }
  if (!output_type.empty()) request.output = require_format("--output-type", output_type, plan_outputs);
  // The file's values replace fields that the plan does not give.
  if (!is_json) {
    if (!request.output) request.output = product.output();
    if (!request.options.target) request.options.target = product.target;
  }
  const std::vector<GemmPlan> plans = [&] {
    try {
      return plans_for(request, product.inputs);
    } catch (const Error& error) {
      if (!of_file) throw;
      std::vector<Violation> violations = error.violations();
      for (Violation& violation : violations) {
        violation.field = fmt::format("{}: plan: {}", product.file.path, violation.field);
        violation.fix += fmt::format("{}this plan is from the key plan of the file: use --plan for another",
                                     violation.fix.empty() ? "" : "; ");
      }
      throw Error(std::move(violations));
    }
  }();
  if (plans.size() == 1) return plans.front();
  if (!product.d) {
    throw Error({.code = ViolationCode::missing_argument,
                 .field = "--split-k",
                 .seen = "missing",
                 .expected = "the number of slices, which the name does not determine",
                 .fix = "it is found automatically if the file has a recorded d"});
  }
  ProgressLine line(context, "slices", 0);
  const PlanSearch found = try_plans(plans, product.inputs, *product.d, {.threads = threads, .max_nearest = 1},
                                     [&](int64_t done, int64_t total) { line.update(done, total); });
  return found.all_bits.empty() ? found.nearest.front().plan : found.all_bits.front();
}

void ProductPlanFlags::require_none_beside(std::string_view other, const TargetFlag& target) const {
  for (const auto& [flag, given] :
       {std::pair("--plan", !plan.empty()), std::pair("--kernel", !kernel.empty()),
        std::pair("--split-k", split_count != 0), std::pair("--target", target.asked().has_value())}) {
    if (given)
      throw Error({.code = ViolationCode::not_together,
                   .field = flag,
                   .seen = std::string(other),
                   .expected = "the library's choice has a kernel, slices and a target"});
  }
}

void LibraryFlags::add(Command& command) {
  command.add_option("--library", library, "instead of a plan: the kernel that this library takes: cublas-13.1");
  command.add_option("--gpu", gpu, "with --library: H100 or H200");
  command.add_option(
      "--layout", layout,
      "with --library: nt, nn, tn or tt: A and B have contiguous rows (n) or columns (t); default as the "
      "file has B, b_t is t");
  command.add_flag("--allow-tf32", allow_tf32, "with --library: float32 is rounded to tf32, as PyTorch may do");
  command.add_flag("--fast-accum", fast_accumulation, "with --library: use_fast_accum of fp8");
  command.add_flag("--nearest", nearest, "with --library: for a shape that was not recorded, take the nearest one's");
}

LibraryChoice LibraryFlags::choice_for(Context& context, const ProductFile& product,
                                       const Flag<std::string>& output_type) const {
  LibraryCall call = call_of(product.inputs);
  call.library = library, call.gpu = gpu;
  call.d = output_type.empty() ? product.output() : require_format("--output-type", output_type, plan_outputs);
  const bool has_rows_of_b = product.file.find("b") && info(call.b).bits > 8;  // fp8 always has columns
  call.layout = layout.empty() ? has_rows_of_b ? "nn" : "nt" : layout.get();
  call.fast_accumulation = fast_accumulation;
  if (call.a == Format::tf32) call.allow_tf32 = allow_tf32;
  call.nearest = true;
  LibraryChoice choice = library_choice(call);
  if (!choice.exact) {
    call.nearest = nearest;  // without effect on a recorded shape
    static_cast<void>(library_choice(call));
    const Violation other{.code = ViolationCode::other_inputs,
                          .field = "--library",
                          .seen = fmt::format("M {}, N {}, K {} was not recorded", call.m, call.n, call.k),
                          .fix = fmt::format("taken is the kernel for M {}, N {}, K {}: the library may take another",
                                             choice.m, choice.n, choice.k),
                          .severity = Severity::warning};
    print_warnings(context, {other});
  }
  return choice;
}

}  // namespace bitmma::cli
