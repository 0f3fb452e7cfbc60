// SPDX-License-Identifier: MIT
#include "bitmma/acts/gemm_file.hpp"

#include <fmt/format.h>

#include <numeric>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/gemm/catalogue.hpp"

namespace bitmma {
namespace {

constexpr const char* of_file = "file";  // as the name of a kernel: that of the file's key

void warn(const GemmFileEvents& events, Violation warning) {
  warning.severity = Severity::warning;
  if (events.warn) events.warn({std::move(warning)});
}

/// Warns about the key kernel, which is only documentation here. Not called for `--kernel file`, which uses its plan.
void judge_kernel(const ProductFile& product, bool has_plan, bool may_clamp, const GemmFileEvents& events) {
  const std::string* const kernel = product.file.find_metadata("kernel");
  if (!kernel) return;
  Violation about{.field = fmt::format("{}: kernel", product.file.path), .seen = shortened(*kernel)};
  try {
    plans_for({.kernel = *kernel,
               .output = product.output(),
               .options = {.target = product.target, .alpha = product.alpha, .beta = product.beta},
               .may_clamp = may_clamp},
              product.inputs);
    if (has_plan) return;
    about.expected = "a plan: this key only documents the kernel";
    about.fix = "use `kernel` file for the plan of this kernel";
  } catch (const Error& error) {
    // Nothing is known about kernels without a pattern, so they cannot contradict a plan.
    if (has_plan && error.violations().front().code == ViolationCode::unknown_kernel) return;
    about.expected = "a kernel that computes this product";
    about.fix = print(error.violations().front());
  }
  warn(events, std::move(about));
}

void require_d(const ProductFile& product, std::string_view expected) {
  if (product.d) return;
  throw Error({.code = ViolationCode::missing_argument,
               .field = product.file.path + ": tensor d",
               .seen = "missing",
               .expected = std::string(expected)});
}

/// `plans` of the file's key plan: an error names the key.
template <typename Plans>
std::vector<GemmPlan> naming_key(const ProductFile& product, const Plans& plans) {
  try {
    return plans();
  } catch (const Error& error) {
    std::vector<Violation> violations = error.violations();
    for (Violation& violation : violations) {
      violation.field = fmt::format("{}: plan: {}", product.file.path, violation.field);
      violation.fix += fmt::format("{}this plan is from the key plan of the file: use `plan` for another",
                                   violation.fix.empty() ? "" : "; ");
    }
    throw Error(std::move(violations));
  }
}

/// What a request says of a plan, and the library decides.
void require_no_plan_beside_library(const ProductPlanRequest& request) {
  for (const auto& [field, is_set] :
       {std::pair("plan", !request.plan.empty()), std::pair("kernel", !request.kernel.empty()),
        std::pair("split_k", request.split_count != 0), std::pair("target", request.target.has_value())}) {
    if (is_set)
      throw Error({.code = ViolationCode::not_together,
                   .field = field,
                   .seen = "library",
                   .expected = "the library's choice has a kernel, slices and a target"});
  }
}

/// The indices; all of them if there are none.
std::vector<int> indices_or_all(const std::vector<int>& indices, int count) {
  if (!indices.empty()) return indices;
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

bool takes_plan_of_file(const ProductFile& product, const ProductPlanRequest& request) {
  if (request.names_plan() || !product.file.find_metadata("plan")) return false;
  const bool is_other_target = request.target && product.target && *request.target != *product.target,
             is_other_type = request.output && request.output != product.output();
  return !is_other_target && !is_other_type && request.split_count == 0;
}

PlanOfProduct plan_of_product(const ProductFile& product, const ProductPlanRequest& request, int threads,
                              const GemmFileEvents& events) {
  const bool is_of_file = takes_plan_of_file(product, request);
  if (!is_of_file && !request.names_plan() && product.file.find_metadata("plan")) {
    warn(events, {.code = ViolationCode::unread_argument,
                  .field = fmt::format("{}: key plan", product.file.path),
                  .seen = "ignored, because `target`, `output` or `split_k` requests another plan",
                  .fix = "set the plan with `plan`; the default is flat"});
  }
  const bool may_clamp = product.d && has_no_sign(*product.d);
  if (request.kernel != of_file) judge_kernel(product, request.names_plan() || is_of_file, may_clamp, events);
  PlanRequest resolved{.plan = is_of_file ? *product.file.find_metadata("plan") : request.plan,
                       .kernel = request.kernel,
                       .output = request.output,
                       .options = {.target = request.target,
                                   .split_count = request.split_count,
                                   .alpha = product.alpha,
                                   .beta = product.beta},
                       .may_clamp = may_clamp};
  if (request.kernel == of_file) {
    const std::string* const kernel = product.file.find_metadata("kernel");
    if (!kernel)
      throw Error({.code = ViolationCode::missing_input,
                   .field = "kernel",
                   .seen = of_file,
                   .expected = "a file with the key kernel"});
    resolved.kernel = *kernel;
  }
  // A plan as JSON has its own; the file's values stand for what a name leaves open.
  if (!resolved.plan.starts_with('{')) {
    if (!resolved.output) resolved.output = product.output();
    if (!resolved.options.target) resolved.options.target = product.target;
  }
  const auto plans_of_request = [&] { return plans_for(resolved, product.inputs); };
  const std::vector<GemmPlan> plans = is_of_file ? naming_key(product, plans_of_request) : plans_of_request();
  if (plans.size() == 1 || !product.d) return {.plan = only_plan(plans), .is_of_file = is_of_file};
  const PlanSearch search =
      try_plans(plans, product.inputs, *product.d, {.threads = threads, .max_nearest = 1}, events.plans);
  return {.plan = search.all_bits.empty() ? search.nearest.front().plan : search.all_bits.front(),
          .is_of_file = is_of_file};
}

LibraryChoice library_choice_of_product(const ProductFile& product, const ProductLibraryRequest& request,
                                        const GemmFileEvents& events) {
  const auto without_effect = [](const char* field) {
    return Error({.code = ViolationCode::unread_argument, .field = field, .seen = "has no effect here; omit it"});
  };
  LibraryCall call = call_of(product.inputs);
  call.library = request.library, call.gpu = request.gpu;
  call.d = request.output ? request.output : product.output();
  const bool has_rows_of_b = product.file.find("b") && info(call.b).bits > 8;  // fp8 always has columns
  call.layout = !request.layout.empty() ? request.layout : has_rows_of_b ? "nn" : "nt";
  call.fast_accumulation = request.fast_accumulation;
  if (call.a == Format::tf32) call.allow_tf32 = request.allow_tf32;
  else if (request.allow_tf32) throw without_effect("allow_tf32");
  call.nearest = true;
  LibraryChoice choice = library_choice(call);
  if (choice.exact) {
    if (request.nearest) throw without_effect("nearest");
    return choice;
  }
  call.nearest = request.nearest;
  static_cast<void>(library_choice(call));  // refuses the shape unless request.nearest
  warn(events, {.code = ViolationCode::other_inputs,
                .field = "library",
                .seen = fmt::format("M {}, N {}, K {} was not recorded", call.m, call.n, call.k),
                .fix = fmt::format("taken is the kernel for M {}, N {}, K {} on an {}: the library may take another{}",
                                   choice.m, choice.n, choice.k, choice.recorded_on,
                                   choice.drawn > 0 ? fmt::format("; of {} such shapes {} had the predicted kernel",
                                                                  choice.drawn, choice.right)
                                                    : "")});
  return choice;
}

GemmFileReport gemm_file(ProductFile product, const GemmFileRequest& request, const GemmFileEvents& events) {
  ProductResult result{.k = product.inputs.a.cols()};
  if (request.library) {
    require_no_plan_beside_library(request.plan);
    result.choice = library_choice_of_product(product, *request.library, events);
    result.plan = plan_of_choice(*result.choice, product.inputs);
    result.plan_was_given = result.target_was_given = true;
  } else {
    PlanOfProduct chosen = plan_of_product(product, request.plan, request.threads, events);
    result.plan = std::move(chosen.plan);
    result.plan_is_of_file = chosen.is_of_file;
    result.plan_was_given = request.plan.names_plan() || chosen.is_of_file;
    result.target_was_given = result.plan_was_given || request.plan.target || product.target;
  }
  if (request.accuracy && (!result.plan.epilogue.empty() || scales_blocks(result.plan))) {
    throw Error({.field = "accuracy",
                 .seen = print_plan(result.plan),
                 .expected = "a plan without epilogue and scales, which the exact product does not have"});
  }
  if (events.warn) {
    events.warn(as_warnings(unread_by(result.plan, product.inputs)));
    events.warn(warnings_of(result.plan, product.inputs.a.format(), product.inputs.b.format()));
  }
  if (!request.rows.empty() || !request.cols.empty()) {
    product = part_of(product, indices_or_all(request.rows, product.inputs.a.rows()),
                      indices_or_all(request.cols, product.inputs.b.cols()));
  }
  result.recorded = product.d;
  GemmProgress outputs;
  if (events.outputs)
    outputs = [&, size = int64_t{product.inputs.a.rows()} * product.inputs.b.cols()](int64_t done) {
      events.outputs(done, size);
    };
  result.d = gemm(result.plan, product.inputs, request.threads, outputs);
  if (request.accuracy) result.accuracy = accuracy_of(product.inputs, result.d, request.threads);
  return {.product = std::move(product), .result = std::move(result)};
}

TensorFile file_with_d(const GemmFileReport& computed, bool replace_d) {
  const ProductResult& result = computed.result;
  if (result.differing() > 0 && !replace_d)
    throw Error({.field = "d",
                 .seen = fmt::format("recorded, but {} of {} outputs differ", result.differing(), result.d.size()),
                 .expected = "equal to the computed d, or absent",
                 .fix = "`replace_d` replaces it by the computed one"});
  return with_d(computed.product, result.plan, result.d);
}

ProductDiagnosis diagnose_product_file(const ProductFile& product, const ProductPlanRequest& request, int threads,
                                       const GemmFileEvents& events) {
  require_d(product, "the D of the wrong program");
  std::vector<GemmPlan> plans;
  if (request.names_plan() || request.split_count > 0 || takes_plan_of_file(product, request)) {
    ProductPlanRequest of_d = request;
    if (!of_d.output && request.names_plan()) of_d.output = product.d->format();
    plans.push_back(plan_of_product(product, of_d, threads, events).plan);
  } else {
    const Target target = request.target ? *request.target : product.target.value_or(default_target(product.inputs));
    plans = usual_plans(product.inputs, *product.d, target);
  }
  return diagnose_product(plans, product.inputs, *product.d, threads);
}

PlanSearch find_plans_of_file(const ProductFile& product, std::optional<Target> target, FindOptions options,
                              const FindProgress& progress) {
  require_d(product, "a recorded D, for which plans can be found");
  options.target = target ? *target : product.target.value_or(default_target(product.inputs));
  options.alpha = product.alpha, options.beta = product.beta;
  return find_plans(product.inputs, *product.d, options, progress);
}

}  // namespace bitmma
