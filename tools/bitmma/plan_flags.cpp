#include "plan_flags.hpp"

#include "bitmma/files/file.hpp"
#include "bitmma/gemm/find.hpp"
#include "output.hpp"

namespace bitmma::cli {

void ProductPlanFlags::add(Command& command) {
  command.add_option("--plan", plan,
                     "a name of the catalogue, JSON, or a file NAME.json; default flat, but float32 needs one");
  command.add_option("--kernel", kernel, "the plan of a kernel by its name; `file`: of the key kernel in the file");
  command.add_option("--split-k", split_count, "slices of a split whose count is open; else d decides")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--output-type", output_type, "type of d for plans by name; default that of the file's d, or f32");
}

GemmPlan ProductPlanFlags::plan_for(Context& context, const ProductFile& product, const TargetFlag& target,
                                    int threads) const {
  const bool is_file = plan->ends_with(".json"), is_json = is_file || plan->starts_with("{");
  PlanRequest request{
      .plan = is_file ? read_whole(plan) : plan.get(),
      .kernel = kernel,
      .options = {.target = target.asked(), .split_count = split_count, .alpha = product.alpha, .beta = product.beta},
      .may_clamp = product.d && has_no_sign(*product.d)};
  if (kernel == "file") {
    const std::string* const named = product.file.find_metadata("kernel");
    if (!named) throw Error({.field = "--kernel", .seen = "file", .expected = "a file with the key kernel"});
    request.kernel = *named;
  }
  if (!output_type.empty()) request.output = require_format("--output-type", output_type);
  // What the file says stands in where the plan does not say it itself.
  if (!is_json) {
    if (!request.output) request.output = product.output();
    if (!request.options.target) request.options.target = product.target;
  }
  const std::vector<GemmPlan> plans = plans_for(request, product.inputs);
  if (plans.size() == 1) return plans.front();
  if (!product.d) {
    throw Error({.field = "--split-k",
                 .seen = "(missing)",
                 .expected = "the number of slices: no name tells it",
                 .fix = "with a recorded d in the file it is searched"});
  }
  ProgressLine line(context, "slices", 0);
  const PlanSearch found = try_plans(plans, product.inputs, *product.d, {.threads = threads, .max_nearest = 1},
                                     [&](int64_t done, int64_t total) { line.update(done, total); });
  return found.all_bits.empty() ? found.nearest.front().plan : found.all_bits.front();
}

}  // namespace bitmma::cli
