#include "bitmma/gemm/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>

#include "../core/json.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/gemm/find.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "catalogue_data.hpp"
#include "gemm_inside.hpp"

namespace bitmma {
namespace {

constexpr int most_counts = 160;  // cuBLAS cuts into at most a slice a multiprocessor, and some

bool has_open_count(const Json& fields) {
  return fields.contains("segment_k") ||
         (fields.contains("split_k") && fields["split_k"].is_object() && fields["split_k"]["count"].is_string());
}

/// Units that depend on the types and on K.
int64_t unit_of(const std::string& word, Format a, int64_t k) {
  const int bits = info(a).bits;
  if (word == "nvjet") return bits == 8 ? 128 : 64;
  if (word == "cutlass") {
    const int64_t whole = a == Format::tf32 ? 32 : bits == 64 ? 16 : 64, fine = a == Format::tf32 ? 4 : 8;
    return k % whole == 0 ? whole : bits == 64 ? 1 : fine;
  }
  return std::strtoll(word.c_str(), nullptr, 10);
}

/// The instruction with f16 accumulators.
Instruction with_f16_accumulators(Target target, const GemmInputs& inputs) {
  for (const Instruction& one :
       {Instruction(Wgmma{.n = 256, .d = Format::f16, .a = inputs.a.format(), .b = inputs.b.format()}),
        Instruction(MmaSync{.d = Format::f16, .a = inputs.a.format(), .b = inputs.b.format()})}) {
    if (violations_of(one, target).empty()) return one;
  }
  throw Error({.field = "accumulator",
               .seen = fmt::format("f16 for {}", info(inputs.a.format()).name),
               .expected = "types that an instruction of the target multiplies into f16"});
}

std::vector<EpilogueOp> epilogue_of(const Json& fields, const GemmInputs& inputs, const CatalogueOptions& options) {
  std::vector<EpilogueOp> ops;
  if (!has_block_scales(inputs) && inputs.scale_a && inputs.scale_b) {
    const bool one_each = inputs.scale_a->rows() == 1 && inputs.scale_b->cols() == 1;
    if (one_each) {
      ops.push_back({.kind = EpilogueKind::scale_ab});
    } else {
      ops.push_back({.kind = EpilogueKind::col_scale});
      ops.push_back({.kind = EpilogueKind::row_scale});
    }
  }
  const std::string how = fields.value("c", "fma");
  if (inputs.c && options.beta != 0 && how == "fma") {
    ops.push_back({.kind = EpilogueKind::alpha_beta, .alpha = options.alpha, .beta = options.beta});
  } else {
    if (options.alpha != 1) ops.push_back({.kind = EpilogueKind::alpha_beta, .alpha = options.alpha, .beta = 0});
    if (inputs.c && options.beta != 0) {
      if (how == "memory") ops.push_back({.kind = EpilogueKind::round});
      ops.push_back({.kind = EpilogueKind::beta_c, .beta = options.beta});
    }
  }
  if (inputs.bias) ops.push_back({.kind = EpilogueKind::bias});
  if (fields.value("relu", false) || options.relu) ops.push_back({.kind = EpilogueKind::relu});
  return ops;
}

/// The tiles of the last, incomplete wave are cut, the others are not. One plan a number of slices.
void cut_last_wave(GemmPlan& plan, const Json& segment, const GemmInputs& inputs, int count) {
  constexpr int64_t multiprocessors = 132;  // of an H100 SXM and an H200
  const auto number = [&](const char* key) { return std::stoll(segment[key].get<std::string>()); };
  const int64_t bm = number("tile_m"), bn = number("tile_n"), m = std::max<int64_t>(inputs.whole_m, inputs.a.rows()),
                n = std::max<int64_t>(inputs.whole_n, inputs.b.cols());
  const int64_t tiles = ((m + bm - 1) / bm) * ((n + bn - 1) / bn), whole = tiles / multiprocessors * multiprocessors;
  plan.tile_mn = {static_cast<int>(bm), static_cast<int>(bn)};
  plan.raster_n = true;
  if (whole == tiles || count == 1) return;
  plan.regions = {{.first_tile = whole,
                   .last_tile = tiles - 1,
                   .split_k = {.count = count, .unit = static_cast<int>(number("unit")), .rule = SplitRule::big_last},
                   .reduction = plan.reduction}};
  plan.regions.front().reduction.order = ReductionOrder::pairs_from_end;
  if (plan.output != Format::f32) plan.regions.front().reduction.running = SumType::out;
}

/// Field -> how it is known.
using EvidenceOfFields = std::map<std::string, std::string>;

void require_finite(const CatalogueOptions& options) {
  for (const auto& [name, value] : {std::pair("alpha", options.alpha), std::pair("beta", options.beta)}) {
    if (!std::isfinite(value))
      throw Error({.field = name, .seen = fmt::format("{}", value), .expected = "a number that f32 has"});
  }
}

std::vector<GemmPlan> plans_of(const std::string& name, Json fields, EvidenceOfFields evidence, Target target,
                               const GemmInputs& inputs, Format output, const CatalogueOptions& options) {
  require_finite(options);
  if (fields.contains("split_k") && fields["split_k"].is_null()) fields.erase("split_k");
  const Format a = inputs.a.format();
  const int64_t k = inputs.a.cols();
  Json json{{"name", name}, {"target", print(target)}};
  const bool on_cuda_cores = fields.contains("instruction");
  GemmPlan chain = flat_plan(target, inputs, output);
  if (fields.value("accumulator", "") == "f16") chain.tensor().instruction = with_f16_accumulators(target, inputs);
  json["instruction"] = on_cuda_cores ? fields["instruction"] : Json(print(chain.tensor().instruction));
  const Format accumulator = mma_of(chain.tensor().instruction).d;
  const bool is_float = accumulator != Format::s32 && accumulator != Format::f64;  // s32 is exact, f64 chains or splits
  for (const char* key : {"k_step", "k_tile", "residue", "sliced_k", "promotion", "reduction", "lanes"}) {
    if (fields.contains(key) && is_float) json[key] = fields[key];
  }
  if (json.contains("k_tile") && json["k_tile"].is_string())
    json["k_tile"] = std::stoll(json["k_tile"].get<std::string>());
  if (json.contains("k_step") && json["k_step"] >= mma_of(chain.tensor().instruction).k) json.erase("k_step");
  if (fields.contains("input_rounding") && a == Format::tf32) json["input_rounding"] = fields["input_rounding"];
  if (json.contains("promotion") && fields.contains("sb")) json["promotion"]["sb"] = {fields["sb"], 128};
  json["output"] = {{"type", info(chain.output).name}};
  GemmPlan plan = parse_plan(json_text(json));
  if (!on_cuda_cores)
    plan.tensor().instruction = chain.tensor().instruction;  // a mnemonic of tcgen05 does not say its types
  if (!inputs.c) evidence.erase("c");
  plan.evidence = std::move(evidence);
  if (is_float) plan.epilogue = epilogue_of(fields, inputs, options);
  // One slice has nothing to reduce.
  const auto unsplit = [&] {
    GemmPlan one = plan;
    one.reduction = {};
    return one;
  };
  if (!is_float) plan.reduction = {};
  const bool split = fields.contains("split_k") && accumulator != Format::s32,
             segment = fields.contains("segment_k") && is_float;
  if (!split && !segment) return {plan};
  std::vector<int> counts;
  const bool is_open = has_open_count(fields);
  if (!is_open) counts = {fields["split_k"]["count"].get<int>()};
  else if (options.split_count > 0) counts = {options.split_count};
  else
    for (int count = segment || fields["split_k"]["count"] == "open, or 1" ? 1 : 2; count <= most_counts; ++count)
      counts.push_back(count);
  std::vector<GemmPlan> plans;
  std::vector<std::vector<std::pair<int64_t, int64_t>>> known;
  for (const int count : counts) {
    GemmPlan one = count == 1 ? unsplit() : plan;
    if (segment) {
      if (count > 16) break;
      cut_last_wave(one, fields["segment_k"], inputs, count);
      plans.push_back(one);
      continue;
    }
    const Json& rule = fields["split_k"];
    Json with_split = json;
    with_split["split_k"] = {
        {"count", count}, {"unit", unit_of(rule["unit"].get<std::string>(), a, k)}, {"rule", rule["rule"]}};
    one.split_k = parse_plan(json_text(with_split)).split_k;
    auto slices = slices_of(one.split_k, k);
    if (is_open && count > 1 && options.split_count == 0 &&
        (slices.size() < 2 || std::ranges::find(known, slices) != known.end()))
      continue;
    known.push_back(std::move(slices));
    plans.push_back(one);
  }
  if (plans.empty()) plans.push_back(unsplit());  // K is too short to be cut
  return plans;
}

/// The patterns, compiled once.
const std::vector<std::regex>& compiled_patterns() {
  static const std::vector<std::regex> compiled = [] {
    std::vector<std::regex> all;
    for (const KernelPattern& row : kernel_patterns()) all.emplace_back(row.pattern);
    return all;
  }();
  return compiled;
}

/// The GPU of a kernel: what was asked for, else what its name says, else Hopper. Kernels named after older ones run on
/// newer ones, too, as cutlass_80 does on Hopper; those of sm90 and later run there alone. Throws Error where the two
/// differ.
Target target_of_kernel(const std::string& name, std::optional<Target> asked) {
  static const std::regex own("sm_?(9[0-9]|1[0-9][0-9])");
  std::smatch match;
  if (!std::regex_search(name, match, own)) return asked.value_or(Target::sm_90a);
  const std::optional<Target> named = target_named("sm_" + match[1].str() + "a");
  if (!named) return asked.value_or(Target::sm_90a);
  if (!asked) return *named;
  if (info(*asked).chip != info(*named).chip) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = "kernel",
                 .seen = fmt::format("{} on {}", shortened(name), print(*asked)),
                 .expected = fmt::format("a kernel of {}: this one is of {}", print(*asked), print(*named)),
                 .fix = "leave the target out, or name that of the kernel"});
  }
  return *asked;
}

}  // namespace

std::span<const CataloguePlan> catalogue() {
  static const std::vector<CataloguePlan> rows = [] {
    std::vector<CataloguePlan> read;
    for (const Json& row : parse_json(plans_json)) {
      read.push_back({.name = row["name"],
                      .about = row["about"],
                      .evidence = row["evidence"],
                      .source = row["source"],
                      .fields = json_text(row["fields"]),
                      .target = parse_target(row.value("target", "sm_90a")),
                      .open_count = has_open_count(row["fields"])});
    }
    return read;
  }();
  return rows;
}

std::span<const KernelPattern> kernel_patterns() {
  static const std::vector<KernelPattern> rows = [] {
    std::vector<KernelPattern> read;
    for (const Json& row : parse_json(kernels_json)) {
      read.push_back({.pattern = row["pattern"],
                      .about = row["about"],
                      .evidence = row["evidence"],
                      .fields = json_text(row["fields"])});
    }
    return read;
  }();
  return rows;
}

std::vector<GemmPlan> plans_named(std::string_view name, const GemmInputs& inputs, Format output,
                                  const CatalogueOptions& options) {
  const auto found = std::ranges::find(catalogue(), name, &CataloguePlan::name);
  if (found == catalogue().end()) {
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "plan",
                 .seen = shortened(name),
                 .legal = row_names(catalogue())});
  }
  return plans_of(found->name, parse_json(found->fields), {{"plan", found->evidence}},
                  options.target.value_or(found->target), inputs, output, options);
}

std::vector<GemmPlan> plans_of_kernel(std::string_view kernel, const GemmInputs& inputs, Format output,
                                      const CatalogueOptions& options) {
  constexpr size_t most_characters = 4000;  // regular expressions recurse
  const std::string text(kernel.substr(0, most_characters));
  Json fields = Json::object();
  EvidenceOfFields evidence;
  bool known = false;
  for (size_t i = 0; i < kernel_patterns().size(); ++i) {
    const KernelPattern& row = kernel_patterns()[i];
    std::smatch match;
    if (!std::regex_search(text, match, compiled_patterns()[i])) continue;
    known = true;
    const Json added = parse_json(row.fields);
    for (const auto& [key, value] : added.items()) {
      Json filled = value;
      const auto fill = [&](Json& one) {
        if (!one.is_string()) return;
        const auto text_of = one.get<std::string>();
        if (text_of.starts_with('$')) one = match[static_cast<size_t>(std::stoi(text_of.substr(1)))].str();
      };
      if (filled.is_object()) {
        for (auto& [inner, one] : filled.items()) fill(one);
      } else {
        fill(filled);
      }
      fields[key] = filled;
      evidence[key] = row.evidence;
    }
    if (added.empty()) evidence["chain"] = row.evidence;
  }
  if (!known) {
    throw Error({.code = ViolationCode::unknown_kernel,
                 .field = "kernel",
                 .seen = shortened(text),
                 .expected =
                     "a name of cuBLAS's nvjet, cutlass, xmma or gemv kernels that a pattern of docs/products.md "
                     "matches",
                 .fix = "a search (find_plans) looks for the plan in the bits"});
  }
  return plans_of("", std::move(fields), std::move(evidence), target_of_kernel(text, options.target), inputs, output,
                  options);
}

}  // namespace bitmma
