#include "bitmma/gemm/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/files/product_file.hpp"
#include "bitmma/gemm/accuracy.hpp"
#include "bitmma/gemm/catalogue.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "json_list.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct GemmFlags {
  Flag<std::string> path, plan, kernel, out, rows, cols, output_type;
  TargetFlag target;
  CpuTargetFlag cpu_target;
  Flag<int> threads = 1, split_count = 0;
  Flag<bool> json = false, find = false, error = false;
};

/// "0..7", "3", "0..3,96,100..127": numbers below `count`.
std::vector<int> numbers_of(std::string_view flag, const std::string& text, int count) {
  std::vector<int> numbers;
  if (text.empty()) {
    numbers.resize(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }
  const auto refuse = [&](const std::string& seen) {
    throw Error({.field = std::string(flag),
                 .seen = shortened(seen),
                 .expected = fmt::format("numbers in 0..{} and ranges of them", count - 1),
                 .fix = "for example 0..7,96"});
  };
  std::istringstream pieces(text);
  for (std::string piece; std::getline(pieces, piece, ',');) {
    const size_t dots = piece.find("..");
    const auto first = parse_word(piece.substr(0, dots));
    const auto last = dots == std::string::npos ? first : parse_word(piece.substr(dots + 2));
    if (!first || !last || *first > *last || *last >= static_cast<uint64_t>(count)) refuse(piece);
    for (uint64_t number = *first; number <= *last; ++number) numbers.push_back(static_cast<int>(number));
  }
  if (numbers.empty()) refuse(text);
  return numbers;
}

/// JSON, or a file of it.
GemmPlan written_plan(const std::string& text) { return parse_plan(text.starts_with("{") ? text : read_whole(text)); }

/// The plans that the flags mean: one, or several where the number of slices is open.
std::vector<GemmPlan> plans_of(const GemmFlags& flags, const ProductFile& product) {
  const Format output = !flags.output_type.empty() ? require_format("--output-type", flags.output_type)
                                                   : product.output().value_or(Format::f32);
  CatalogueOptions options{.target = flags.target.asked() ? flags.target.asked() : product.target,
                           .split_count = flags.split_count,
                           .alpha = product.alpha,
                           .beta = product.beta};
  if (!flags.kernel.empty() && !flags.plan.empty())
    throw Error({.field = "--kernel", .seen = "beside --plan", .expected = "one of the two"});
  if (!flags.kernel.empty()) {
    const std::string* named = product.file.find_metadata("kernel");
    if (flags.kernel == "file" && !named)
      throw Error({.field = "--kernel", .seen = "file", .expected = "a file with the key kernel"});
    const std::string& kernel = flags.kernel == "file" ? *named : *flags.kernel;
    std::vector<GemmPlan> plans = plans_of_kernel(kernel, product.inputs, output, options);
    if (!product.d || !has_no_sign(*product.d)) return plans;
    // Names of xmma and cutlass kernels do not tell relu; a D without signs may have had it.
    options.relu = true;
    for (GemmPlan& plan : plans_of_kernel(kernel, product.inputs, output, options)) {
      if (std::ranges::find(plans, plan) == plans.end()) plans.push_back(std::move(plan));
    }
    return plans;
  }
  if (flags.plan.empty()) return plans_named("flat", product.inputs, output, options);
  if (flags.plan->front() == '{' || flags.plan->ends_with(".json")) return {written_plan(flags.plan)};
  return plans_named(flags.plan, product.inputs, output, options);
}

/// The plan to compute by. Where several are left, the recorded D decides.
GemmPlan plan_of(Context& context, const GemmFlags& flags, const ProductFile& product) {
  const std::vector<GemmPlan> plans = plans_of(flags, product);
  if (plans.size() == 1) return plans.front();
  if (plans.empty() || !product.d) {
    throw Error({.field = "--split-k",
                 .seen = "(missing)",
                 .expected = "the number of slices: no name tells it",
                 .fix = "with a recorded d in the file it is searched"});
  }
  ProgressLine line(context, "slices", 0);
  const PlanSearch found = try_plans(plans, product.inputs, *product.d, {.threads = flags.threads, .max_nearest = 1},
                                     [&](int64_t done, int64_t total) { line.update(done, total); });
  return found.all_bits.empty() ? found.nearest.front().plan : found.all_bits.front();
}

/// Which plans give the D of the file.
void run_find(Context& context, const GemmFlags& flags) {
  const ProductFile product = read_product_file(flags.path);
  if (!product.d) {
    throw Error({.field = *flags.path + ": tensor d",
                 .seen = "(missing)",
                 .expected = "a recorded D, whose plan is asked for"});
  }
  for (const auto& [flag, text] : {std::pair("--plan", &flags.plan), std::pair("--kernel", &flags.kernel),
                                   std::pair("-o", &flags.out), std::pair("--rows", &flags.rows),
                                   std::pair("--cols", &flags.cols), std::pair("--output-type", &flags.output_type)}) {
    if (!text->empty()) throw Error({.field = flag, .seen = "given", .expected = "absent with --find"});
  }
  const Target target = flags.target.asked().value_or(product.target.value_or(Target::sm_90a));
  const PlanSearch found = [&] {
    ProgressLine line(context, "find", 0);
    return find_plans(product.inputs, *product.d,
                      {.target = target, .threads = flags.threads, .alpha = product.alpha, .beta = product.beta},
                      [&](int64_t done, int64_t total) { line.update(done, total); });
  }();
  context.exit_code = found.all_bits.empty() ? exit_differs : exit_same;
  if (flags.json) {
    Json json{{"cpu_target", cpu_target()},
              {"candidates", found.candidates},
              {"outputs", found.outputs},
              {"all_bits", Json::array()},
              {"nearest", Json::array()}};
    for (const GemmPlan& plan : found.all_bits) json["all_bits"].push_back(Json::parse(print_json(plan)));
    for (const NearPlan& near : found.nearest) {
      json["nearest"].push_back(
          {{"plan", Json::parse(print_json(near.plan))}, {"differing", near.differing}, {"pattern", near.pattern}});
    }
    context.out() << json_text(json) << '\n';
    return;
  }
  context.out() << fmt::format("{} tried on {}\n", counted(found.candidates, "plan"), counted(found.outputs, "output"));
  if (found.all_bits.empty()) {
    context.out() << "none gives all bits; the nearest:\n";
    for (const NearPlan& near : found.nearest)
      context.out() << fmt::format("{} differ, {}: {}\n  {}\n", near.differing, near.pattern, print_plan(near.plan),
                                   print_json(near.plan));
    return;
  }
  const auto several = static_cast<int64_t>(found.all_bits.size());
  context.out() << (several == 1 ? std::string("one gives all bits:\n")
                                 : fmt::format("{} give all bits; this D cannot tell them apart. The simplest first:\n",
                                               several));
  constexpr size_t most_shown = 5;
  for (size_t i = 0; i < std::min(found.all_bits.size(), most_shown); ++i) {
    const GemmPlan& plan = found.all_bits[i];
    const int64_t k = product.inputs.a.cols(), added = k_added(plan, k);
    context.out() << fmt::format("{}{}\n  {}\n", print_plan(plan),
                                 added == k ? "" : fmt::format(", as if K ended at {}", added), print_json(plan));
  }
  if (found.all_bits.size() > most_shown)
    context.out() << fmt::format("and {} more: --json\n", found.all_bits.size() - most_shown);
}

std::string evidence_of_sums(const GemmPlan& plan) {
  return plan.cuda_cores() ? "IEEE f32" : print(evidence_of(plan.tensor().instruction, plan.target), plan.target);
}

void run_gemm(Context& context, const GemmFlags& flags) {
  if (!flags.out.empty()) require_tensor_file_name(flags.out);
  flags.cpu_target.use();
  if (flags.find) return run_find(context, flags);
  ProductFile product = read_product_file(flags.path);
  const GemmPlan plan = plan_of(context, flags, product);
  print_warnings(context, as_warnings(unread_by(plan, product.inputs)));
  const int m = product.inputs.a.rows(), n = product.inputs.b.cols();
  if (!flags.rows.empty() || !flags.cols.empty())
    product = part_of(product, numbers_of("--rows", flags.rows, m), numbers_of("--cols", flags.cols, n));
  const Matrix d = [&] {
    ProgressLine progress(context, "gemm", static_cast<int64_t>(product.inputs.a.rows()) * product.inputs.b.cols());
    return gemm(plan, product.inputs, flags.threads, progress.from(0));
  }();
  const int64_t k = product.inputs.a.cols(), added = k_added(plan, k);
  const bool compared = product.d && product.d->format() == d.format();
  const int64_t differ = compared ? count_differing(d, *product.d) : 0;
  std::optional<Accuracy> accuracy;
  if (flags.error) {
    if (!plan.epilogue.empty() || scales_blocks(plan)) {
      throw Error({.field = "--error",
                   .seen = print_plan(plan),
                   .expected = "a plan without epilogue and scales: the exact product has none"});
    }
    accuracy = accuracy_of(product.inputs, d, flags.threads);
  }
  if (compared) context.exit_code = differ == 0 ? exit_same : exit_differs;
  const bool as_json = flags.json;
  if (!flags.out.empty()) {
    context.require_flags_acted();
    write_tensor_file(flags.out, with_d(product, plan, d));
  }
  if (as_json) {
    Json json{{"m", d.rows()},
              {"n", d.cols()},
              {"k", k},
              {"k_added", added},
              {"target", print(plan.target)},
              {"cpu_target", cpu_target()},
              {"plan", Json::parse(print_json(plan))},
              {"evidence_of_instruction", evidence_of_sums(plan)}};
    if (compared) json["differ"] = differ;
    if (accuracy) {
      json["error"] = {{"outputs", accuracy->outputs},   {"not_finite", accuracy->not_finite},
                       {"mean_ulp", accuracy->mean_ulp}, {"max_ulp", accuracy->max_ulp},
                       {"bias_ulp", accuracy->bias_ulp}, {"max_relative_error", accuracy->max_relative_error}};
    }
    context.out() << json_text(json) << '\n';
    return;
  }
  std::vector<std::vector<std::string>> table{
      {"product", fmt::format("{} x {} x {}, D {}", d.rows(), d.cols(), k, info(d.format()).name)},
      {"plan",
       fmt::format("{}{}", print_plan(plan), flags.plan.empty() && flags.kernel.empty() ? " (no plan was given)" : "")},
      {"instruction", plan.cuda_cores() ? "fma.rn.f32" : print(plan.tensor().instruction)},
      {"target", fmt::format("{}; {}", print(plan.target), evidence_of_sums(plan))}};
  std::string evidence;
  for (const auto& [field, how] : plan.evidence) {
    const bool all_alike = std::ranges::all_of(plan.evidence, [&](const auto& one) { return one.second == how; });
    if (all_alike) evidence = how;
    else evidence += fmt::format("{}{}: {}", evidence.empty() ? "" : "; ", field, how);
  }
  if (!evidence.empty()) table.push_back({"evidence", evidence});
  if (added != k) table.push_back({"K added", fmt::format("{} of {}: the rule of the split loses the rest", added, k)});
  if (compared) {
    table.push_back({"recorded d",
                     differ == 0
                         ? fmt::format("all {} the same", counted(static_cast<int64_t>(d.size()), "output"))
                         : fmt::format("{} of {} differ", differ, counted(static_cast<int64_t>(d.size()), "output"))});
  }
  if (accuracy) {
    table.push_back({"error", fmt::format("mean {:.4g} ulp, largest {:.4g}, bias {:+.4g} (below 0: too small)",
                                          accuracy->mean_ulp, accuracy->max_ulp, accuracy->bias_ulp)});
    table.push_back(
        {"relative", fmt::format("largest {:.3g}{}", accuracy->max_relative_error,
                                 accuracy->not_finite == 0 ? ""
                                                           : fmt::format("; {} not finite, left out",
                                                                         counted(accuracy->not_finite, "output")))});
  }
  context.out() << print_table(table);
}

}  // namespace

void add_gemm(Command& app, Context& context) {
  Command* command = app.add_command("gemm", "a whole matrix product as a library adds it up, bit for bit");
  const auto flags = std::make_shared<GemmFlags>();
  command->add_option("file", flags->path, "safetensors with a [M, K] and b [K, N] or b_t [N, K]; see docs/products.md")
      ->required();
  command->add_option("--plan", flags->plan, "a name of the catalogue, JSON, or a file NAME.json; default flat");
  command->add_option("--kernel", flags->kernel,
                      "the plan of a kernel by its name; `file`: of the key kernel in the file");
  command->add_option("--split-k", flags->split_count, "slices of a split whose count is open; else d decides")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("-o,--output", flags->out, "file to write: the product with d");
  flags->target.add(*command, "the GPU by its PTX name, for flat; default that of the file, or sm_90a");
  command->add_option("--output-type", flags->output_type, "type of d for flat; default that of the file's d, or f32");
  command->add_option("--rows", flags->rows, "only these rows of d: 0..7,96");
  command->add_option("--cols", flags->cols, "only these columns of d");
  command->add_flag("--error", flags->error, "how far is d from the exact product, in ulp?");
  command->add_flag("--find", flags->find, "which plans give the d of the file?");
  command->add_flag("--json", flags->json, "the result as JSON");
  add_threads(*command, flags->threads);
  flags->cpu_target.add(*command);
  std::string names;
  for (const CataloguePlan& row : catalogue()) names += fmt::format("  {:29}{}\n", row.name, row.about);
  command->footer(
      "Examples:\n"
      "  bitmma gemm product.safetensors -o with_d.safetensors\n"
      "  bitmma gemm recorded.safetensors --find\n"
      "  bitmma gemm recorded.safetensors --cpu-target baseline\n"
      "  bitmma gemm recorded.safetensors --kernel nvjet_sm90_tst_64x32_64x16_4x2_h_bz_splitK_TNT --split-k 3\n"
      "  bitmma gemm product.safetensors --plan nvjet-algo2 --rows 0..7 --cols 0..15 --error\n"
      "  bitmma gemm product.safetensors --plan '{\"instruction\": "
      "\"wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3\",\n"
      "    \"promotion\": {\"every\": 128}, \"output\": {\"type\": \"bf16\"}}'\n"
      "\n"
      "Plans of --plan (docs/products.md):\n" +
      names +
      "\n"
      "--find tries, until plans give all bits:\n"
      "  1. One chain, tf32 inputs as they are, rounded to nearest even or away; f16 accumulators where D is f16;\n"
      "     promotion every 32, 64, 128, 256, 512 (8-bit types); the leftover of tiles of 16, 32, 64, 128, 256 first,\n"
      "     with whole and half instructions (k_step); sliced-K 2 and 4, tiles of 32, 64, 128; split-K by nvjet's "
      "rule\n"
      "     into 2..64 (unit 64, of 8-bit types 128), with promotion too; by ceil into 2..160 (unit 4, 8, 32, 64, "
      "128),\n"
      "     with the leftover first too; by floor, big_first, big_last into 2..16 (unit 32, 64, 128); partial and\n"
      "     running sums in f32 or D's type; 2..8 slices joined in pairs from either end; D rounded rz or rna, or\n"
      "     saturated; relu; bias, C and scales that the file has, in the orders of kernels; promotion every 128 with\n"
      "     scales of blocks, fma or mul_fma; one chain of sm_70, 75, 80, 89, 90a, 100a and 120a.\n"
      "  2. Every way of stepping, slicing and promoting (any type) with every split: nvjet into 2..64 (unit 32, 64,\n"
      "     128), ceil into 2..64 (unit 4, 8, 16, 32, 64, 128, 256), floor, big_first, big_last into 2..16, pairs of\n"
      "     2..16; K cut in two at every multiple of the instruction's K, and K that ends there (stepped and sliced\n"
      "     only where there are at most 512 of them).\n"
      "  3. CUDA cores: fma chains in 1..512 lanes, vectors of 1..16, chunks of 1..32, three joins, or split.\n"
      "Where the file has a d of the same type it is compared. Exit code 1 when outputs differ, or no plan was found; "
      "2\n"
      "when something is wrong.");
  command->callback([flags, &context] { run_gemm(context, *flags); });
}

}  // namespace bitmma::cli
