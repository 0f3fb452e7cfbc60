// SPDX-License-Identifier: MIT
#include "bitmma/gemm/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <ranges>
#include <span>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/gpu.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "catalogue_data.hpp"
#include "gemm_inside.hpp"
#include "name_pattern.hpp"
#include "plan_json.hpp"

namespace bitmma {
namespace {

/// The unit of a split: a given number, or a rule that derives it from the types and K.
enum class SplitUnit : uint8_t { number, nvjet, cutlass, cutlass_nt };

/// A split whose number of slices is not fixed.
struct OpenSplit {
  bool may_be_one = false;
  SplitUnit unit = SplitUnit::number;
  int number = 0;
  SplitRule rule = SplitRule::ceil;
};

/// Splits the tiles of the last, incomplete wave.
struct SegmentK {
  int tile_m = 0, tile_n = 0, unit = 0;
};

/// A chain in each slice of blocks of `vector` of K, which take turns. The number of slices is not fixed.
struct OpenLanes {
  int vector = 0;
};

/// How the epilogue adds C: fma(alpha, x, beta c); fma(beta, c, alpha x); to D in D's type.
enum class AddC : uint8_t { fma, after_alpha, memory };

/// The differences between a library's plan and one chain over K.
struct Recipe {
  GemmPlan plan = {};  // the chain, without an instruction
  bool f16_accumulators = false;
  std::optional<OpenSplit> split = {};
  std::optional<SegmentK> segment = {};
  std::optional<OpenLanes> lanes = {};
  int neighbours_up_to = 0;  // up to this K a lane has one block of K
  AddC add_c = AddC::fma;
  bool relu = false;
  bool rounds_before_bias = false;

  bool has_open_count() const { return split || segment || lanes; }
};

template <typename Value>
Value word_of(const Json& word, std::initializer_list<std::pair<std::string_view, Value>> words) {
  for (const auto& [text, value] : words) {
    if (word == text) return value;
  }
  throw Error({.field = "catalogue", .seen = json_text(word), .expected = "a word of the catalogue"});
}

OpenSplit read_split(const Json& fields) {
  OpenSplit split{.may_be_one = word_of<bool>(fields["count"], {{"open", false}, {"open, or 1", true}}),
                  .rule = read_plan({{"split_k", {{"rule", fields["rule"]}}}}, {}).split_k.rule};
  if (fields["unit"].is_number()) split.number = fields["unit"];
  else
    split.unit = word_of<SplitUnit>(
        fields["unit"],
        {{"nvjet", SplitUnit::nvjet}, {"cutlass", SplitUnit::cutlass}, {"cutlass nt", SplitUnit::cutlass_nt}});
  return split;
}

Recipe read_recipe(Json fields) {
  Recipe recipe;
  const auto take = [&](const char* key) {
    Json value = fields.value(key, Json());
    fields.erase(key);
    return value;
  };
  if (const Json accumulator = take("accumulator"); !accumulator.is_null())
    recipe.f16_accumulators = word_of<bool>(accumulator, {{"f16", true}});
  if (const Json split = take("split_k"); !split.is_null()) recipe.split = read_split(split);
  if (const Json segment = take("segment_k"); !segment.is_null())
    recipe.segment = {.tile_m = segment["tile_m"], .tile_n = segment["tile_n"], .unit = segment["unit"]};
  if (fields.contains("lanes") && fields["lanes"]["count"] == "open")
    recipe.lanes = {.vector = take("lanes")["vector"]};
  if (fields.contains("lanes") && fields["lanes"].contains("neighbours_up_to")) {
    recipe.neighbours_up_to = fields["lanes"]["neighbours_up_to"];
    fields["lanes"].erase("neighbours_up_to");
  }
  if (const Json c = take("c"); !c.is_null())
    recipe.add_c = word_of<AddC>(c, {{"after alpha", AddC::after_alpha}, {"memory", AddC::memory}});
  if (const Json relu = take("relu"); !relu.is_null()) recipe.relu = relu;
  if (const Json bias = take("bias"); !bias.is_null())
    recipe.rounds_before_bias = word_of<bool>(bias, {{"after rounding", true}});
  recipe.plan = read_plan(fields, {});
  return recipe;
}

/// Evidence of the fields of a plan.
using EvidenceOfFields = std::map<std::string, FieldEvidence>;

/// Evidence of the data, which was seen on this target; a model choice was seen nowhere.
FieldEvidence seen_on(Target target, const Json& json) {
  FieldEvidence evidence = read_evidence(json, "catalogue: evidence");
  evidence.seen_on = target;
  return evidence;
}

/// {"f16 x f16, bf16 x bf16": {"f32, f16": {"level": "measured", "gpus": "H100"}}, "any": {}}
std::vector<PlanTypes> read_types(const Json& json, Target target) {
  const auto words = [](const std::string& text) {
    std::vector<std::string> all;
    for (const auto word : std::views::split(text, std::string_view(", "))) all.emplace_back(word.begin(), word.end());
    return all;
  };
  std::vector<PlanTypes> types;
  for (const auto& [all, ds] : json.items()) {
    for (const std::string& operands : words(all)) {
      if (ds.empty()) types.push_back({.operands = operands});
      for (const auto& [outputs, evidence] : ds.items()) {
        for (const std::string& d : words(outputs))
          types.push_back({.operands = operands, .d = d, .evidence = seen_on(target, evidence)});
      }
    }
  }
  return types;
}

int unit_of(const OpenSplit& split, Format a, int64_t k) {
  const int bits = info(a).bits;
  switch (split.unit) {
    case SplitUnit::number: return split.number;
    case SplitUnit::nvjet: return bits == 8 ? 128 : 64;
    case SplitUnit::cutlass:
    case SplitUnit::cutlass_nt: break;
  }
  const int whole = a == Format::tf32 ? 32 : bits == 64 ? 16 : 64, fine = a == Format::tf32 ? 4 : bits == 64 ? 1 : 8;
  // CUTLASS, gemm_universal.h: whole cache lines only where K is contiguous in A or in B.
  return split.unit == SplitUnit::cutlass && k % whole == 0 ? whole : fine;
}

/// The instruction with f16 accumulators.
Instruction with_f16_accumulators(Target target, const GemmInputs& inputs) {
  const Format a = inputs.a.format(), b = inputs.b.format();
  if (const Instruction instruction = Wgmma{.n = 256, .d = Format::f16, .a = a, .b = b};
      violations_of(instruction, target).empty())
    return instruction;
  if (const std::optional<MmaSync> mma_sync = mma_sync_for(target, Format::f16, a, b)) return *mma_sync;
  throw Error({.field = "accumulator",
               .seen = fmt::format("f16 for {}", info(inputs.a.format()).name),
               .expected = "types that an instruction of the target multiplies into f16"});
}

std::vector<EpilogueOp> epilogue_of(const Recipe& recipe, const GemmInputs& inputs, const CatalogueOptions& options) {
  std::vector<EpilogueOp> ops;
  if (!has_block_scales(inputs) && inputs.scale_a && inputs.scale_b) {
    const bool is_of_tensors = inputs.scale_a->rows() == 1 && inputs.scale_b->cols() == 1;
    if (is_of_tensors) {
      ops.push_back({.kind = EpilogueKind::scale_ab});
    } else {
      ops.push_back({.kind = EpilogueKind::col_scale});
      ops.push_back({.kind = EpilogueKind::row_scale});
    }
  }
  const bool adds_c = inputs.c && options.beta != 0;
  if (adds_c && recipe.add_c == AddC::fma) {
    ops.push_back({.kind = EpilogueKind::alpha_beta, .alpha = options.alpha, .beta = options.beta});
  } else {
    if (options.alpha != 1) ops.push_back({.kind = EpilogueKind::alpha_beta, .alpha = options.alpha, .beta = 0});
    if (adds_c) {
      if (recipe.add_c == AddC::memory) ops.push_back({.kind = EpilogueKind::round});
      ops.push_back({.kind = EpilogueKind::beta_c, .beta = options.beta});
    }
  }
  if (inputs.bias && recipe.rounds_before_bias) ops.push_back({.kind = EpilogueKind::round});
  if (inputs.bias) ops.push_back({.kind = EpilogueKind::bias});
  if (recipe.relu || options.relu) ops.push_back({.kind = EpilogueKind::relu});
  return ops;
}

/// Splits the tiles of the last, incomplete wave and leaves the others whole: one plan for each number of slices.
void cut_last_wave(GemmPlan& plan, const SegmentK& segment, const GemmInputs& inputs, int count) {
  const std::optional<int> multiprocessors = multiprocessors_of(plan.target);
  if (!multiprocessors) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = "target",
                 .seen = std::string(print(plan.target)),
                 .expected = "a target whose GPUs were recorded: the number of multiprocessors decides which tiles are "
                             "cut"});
  }
  const int64_t bm = segment.tile_m, bn = segment.tile_n, m = std::max<int64_t>(inputs.whole_m, inputs.a.rows()),
                n = std::max<int64_t>(inputs.whole_n, inputs.b.cols());
  const int64_t tiles = ((m + bm - 1) / bm) * ((n + bn - 1) / bn), whole = tiles / *multiprocessors * *multiprocessors;
  plan.tile_mn = {segment.tile_m, segment.tile_n};
  plan.raster_n = true;
  if (whole == tiles || count == 1) return;
  plan.regions = {{.first_tile = whole,
                   .last_tile = tiles - 1,
                   .split_k = {.count = count, .unit = segment.unit, .rule = SplitRule::big_last},
                   .reduction = plan.reduction}};
  plan.regions.front().reduction.order = ReductionOrder::pairs_from_end;
  if (plan.output != Format::f32) plan.regions.front().reduction.running = SumType::out;
}

/// The operands' types as plan and kernel names spell them; float32 means f32 input to the library.
std::string operand_types(const GemmInputs& inputs) {
  const auto name = [](Format format) { return info(format == Format::tf32 ? Format::f32 : format).name; };
  return fmt::format("{} x {}", name(inputs.a.format()), name(inputs.b.format()));
}

/// The same, and whether there are block scales.
std::string types_and_scales(const GemmInputs& inputs) {
  return operand_types(inputs) + (scales_in_instruction(inputs) ? " with block scales" : "");
}

/// The rows for these operands; empty if there are none.
std::vector<PlanTypes> types_for(std::span<const PlanTypes> types, const GemmInputs& inputs) {
  const std::string own = scales_in_instruction(inputs) ? "block scales" : operand_types(inputs);
  for (const std::string_view operands : {std::string_view(own), std::string_view("any")}) {
    std::vector<PlanTypes> rows;
    std::ranges::copy_if(types, std::back_inserter(rows),
                         [&](const PlanTypes& plan_types) { return plan_types.operands == operands; });
    if (!rows.empty()) return rows;
  }
  return {};
}

std::vector<Target> targets_of(std::string_view gpus) {
  constexpr std::string_view later = " and later";
  const bool and_later = gpus.ends_with(later);
  std::vector<Target> legal;
  if (and_later) gpus.remove_suffix(later.size());
  const bool all = gpus.empty();
  const Target first = all ? Target{} : parse_target(gpus);
  for (const TargetInfo& row : targets) {
    if (all || row.chip == first || (and_later && row.chip > first)) legal.push_back(row.id);
  }
  return legal;
}

/// Throws Error if the library does not compute this product for these operands on this target.
void require_fits(const CataloguePlan& row, const GemmInputs& inputs, std::optional<Target> target) {
  std::vector<Violation> violations;
  if (types_for(row.types, inputs).empty()) {
    Violation violation{.code = ViolationCode::contradiction,
                        .field = "types",
                        .seen = types_and_scales(inputs),
                        .fix = fmt::format("{} is {}", row.name, row.about)};
    for (const PlanTypes& types : row.types) {
      if (std::ranges::find(violation.legal, types.operands) == violation.legal.end())
        violation.legal.push_back(types.operands);
    }
    violations.push_back(std::move(violation));
  }
  if (const std::vector<Target> all = targets_of(row.gpus); target && std::ranges::find(all, *target) == all.end()) {
    Violation violation{.code = ViolationCode::contradiction,
                        .field = "target",
                        .seen = std::string(print(*target)),
                        .fix = fmt::format("{} is {}: no other GPU computes it", row.name, row.about)};
    for (const Target legal : all) violation.legal.emplace_back(print(legal));
    violations.push_back(std::move(violation));
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

/// The evidence that the library computes this D from these operands.
FieldEvidence evidence_of(const CataloguePlan& row, const GemmInputs& inputs, Format d) {
  std::string other_ds;
  for (const PlanTypes& types : types_for(row.types, inputs)) {
    const bool is_this_d = types.d == "any" || types.d == info(d).name;
    if (is_this_d && (row.most_k == 0 || inputs.a.cols() <= row.most_k)) return types.evidence;
    if (is_this_d) return {.note = fmt::format("K above {} was not measured", row.most_k)};
    if (!types.d.empty()) other_ds += fmt::format("{}{}", other_ds.empty() ? "" : ", ", types.d);
  }
  const std::string operands = types_and_scales(inputs);
  if (other_ds.empty()) return {.note = fmt::format("{} was not measured", operands)};
  return {.note = fmt::format("D {} of {} was not measured, only {}", info(d).name, operands, other_ds)};
}

void require_finite(const CatalogueOptions& options) {
  for (const auto& [name, value] : {std::pair("alpha", options.alpha), std::pair("beta", options.beta)}) {
    if (!std::isfinite(value))
      throw Error({.field = name, .seen = fmt::format("{}", value), .expected = "a number that f32 represents"});
  }
}

[[noreturn]] void refuse_count(int count, std::string expected) {
  throw Error({.code = ViolationCode::contradiction,
               .field = "split_k",
               .seen = std::to_string(count),
               .expected = std::move(expected)});
}

/// The chain of a recipe with an instruction of the target.
GemmPlan chain_of(const Recipe& recipe, Target target, const GemmInputs& inputs, Format output) {
  if (!recipe.plan.tensor_cores()) {
    GemmPlan plan = recipe.plan;
    plan.target = target, plan.output = output;
    return plan;
  }
  GemmPlan flat = flat_plan(target, inputs, output);
  Instruction& instruction = flat.tensor().instruction;
  if (recipe.f16_accumulators) instruction = with_f16_accumulators(target, inputs);
  const Mma mma = step_of(instruction);
  GemmPlan plan = recipe.plan;
  plan.target = target, plan.output = flat.output;
  if (mma.d == Format::s32 || mma.d == Format::f64) plan.chain = TensorCoreChain{}, plan.reduction = {};
  TensorCoreChain& chain = plan.tensor();
  chain.instruction = instruction;
  if (chain.k_step >= mma.k) chain.k_step = 0;
  if (inputs.a.format() != Format::tf32) chain.input_rounding = InputRounding::none;
  return plan;
}

std::vector<GemmPlan> plans_of(const Recipe& recipe, std::string_view name, EvidenceOfFields evidence, Target target,
                               const GemmInputs& inputs, std::optional<Format> output,
                               const CatalogueOptions& options) {
  require_finite(options);
  const Format a = inputs.a.format();
  const int64_t k = inputs.a.cols();
  GemmPlan plan = chain_of(recipe, target, inputs, output.value_or(a == Format::f64 ? Format::f64 : Format::f32));
  const bool exact = info(a).kind == NumberKind::integer, is_float = !exact && a != Format::f64;
  plan.name = name;
  if (recipe.neighbours_up_to > 0 && k <= recipe.neighbours_up_to) {
    auto& chain = std::get<CudaCoreChain>(plan.chain);
    if (k % chain.count != 0) {
      throw Error({.code = ViolationCode::contradiction,
                   .field = "k",
                   .seen = std::to_string(k),
                   .expected = fmt::format("a multiple of {}, or more than {}: how this kernel shares another K among "
                                           "its lanes was not measured",
                                           chain.count, recipe.neighbours_up_to)});
    }
    chain.vector = static_cast<int>(std::max<int64_t>(1, k / chain.count));
  }
  require_legal(plan);
  if (!inputs.c) evidence.erase("c");
  if (!inputs.bias) evidence.erase("bias");
  plan.evidence = std::move(evidence);
  if (is_float) plan.epilogue = epilogue_of(recipe, inputs, options);
  // A single slice needs no reduction.
  const auto unsplit = [&] {
    GemmPlan gemm_plan = plan;
    gemm_plan.reduction = {};
    return gemm_plan;
  };
  const bool segment = recipe.segment && is_float, split = recipe.split && !exact && !segment;
  if (!split && !segment && !recipe.lanes) {
    if (options.split_count > 1) refuse_count(options.split_count, "absent: this plan does not cut K");
    return {plan};
  }
  constexpr int most_counts = 160;  // cuBLAS uses at most one slice per multiprocessor, or a few more
  const bool is_open = options.split_count == 0;
  const int least = segment || (split && recipe.split->may_be_one) ? 1 : 2, largest = segment ? 16 : most_counts;
  std::vector<GemmPlan> plans;
  std::vector<std::vector<std::pair<int64_t, int64_t>>> known;
  for (int count = is_open ? least : options.split_count; count <= (is_open ? largest : options.split_count); ++count) {
    GemmPlan gemm_plan = count == 1 ? unsplit() : plan;
    if (segment) {
      if (count <= largest)
        cut_last_wave(gemm_plan, *recipe.segment, inputs, count), plans.push_back(std::move(gemm_plan));
      continue;
    }
    if (recipe.lanes) {
      gemm_plan.chain = CudaCoreChain{.count = count, .vector = recipe.lanes->vector};
      if (!is_open || (count - 1) * recipe.lanes->vector < k) plans.push_back(std::move(gemm_plan));
      continue;
    }
    gemm_plan.split_k = {.count = count, .unit = unit_of(*recipe.split, a, k), .rule = recipe.split->rule};
    auto slices = slices_of(gemm_plan.split_k, k);
    if (is_open && count > 1 && (slices.size() < 2 || std::ranges::find(known, slices) != known.end())) continue;
    known.push_back(std::move(slices));
    plans.push_back(std::move(gemm_plan));
  }
  if (!plans.empty()) return plans;
  if (!is_open) refuse_count(options.split_count, fmt::format("1..{}: the tiles of the last wave", largest));
  return {unsplit()};  // K is too short to split
}

/// The rows of data/plans, parsed and compiled once.
struct Catalogue {
  struct Kernel {
    NamePattern pattern;
    Json fields;
  };
  std::vector<CataloguePlan> plans = {};
  std::vector<Recipe> recipes = {};  // of the plans
  std::vector<KernelPattern> patterns = {};
  std::vector<Kernel> kernels = {};  // of the name patterns
  std::vector<TypePattern> types = {};
  std::vector<NamePattern> type_names = {};  // of the type patterns

  Catalogue() {
    for (const Json& row : parse_json(plans_json)) {
      const Target target = parse_target(row.value("target", "sm_90a"));
      recipes.push_back(read_recipe(row["fields"]));
      plans.push_back({.name = row["name"],
                       .about = row["about"],
                       .source = row["source"],
                       .evidence = seen_on(target, row["evidence"]),
                       .fields = json_text(row["fields"]),
                       .gpus = row.value("gpus", ""),
                       .types = read_types(row["types"], target),
                       .most_k = row.value("most_k", 0),
                       .target = target,
                       .open_count = recipes.back().has_open_count()});
    }
    for (const Json& row : parse_json(kernels_json)) {
      patterns.push_back({.pattern = row["pattern"],
                          .unless = row.value("unless", ""),
                          .about = row["about"],
                          .evidence = seen_on(Target::sm_90a, row["evidence"]),
                          .fields = json_text(row["fields"])});
      kernels.push_back({NamePattern(patterns.back().pattern), row["fields"]});
    }
    for (const Json& row : parse_json(types_json)) {
      types.push_back({.pattern = row["pattern"],
                       .about = row["about"],
                       .evidence = seen_on(Target::sm_90a, row["evidence"]),
                       .a = row.value("a", ""),
                       .b = row.value("b", ""),
                       .d = row.value("d", "")});
      type_names.emplace_back(types.back().pattern);
    }
  }

  static const Catalogue& get() {
    static const Catalogue catalogue;
    return catalogue;
  }
};

constexpr size_t most_characters = 4000;  // in a name

/// The value of a field or type: the text itself, or the matched group to which "$1" refers.
std::string filled(const std::string& text, std::span<const std::string> match) {
  return text.starts_with('$') ? match[static_cast<size_t>(std::stoi(text.substr(1)))] : text;
}

/// The same for a tree of fields; a group of digits becomes a number.
Json filled(const Json& fields, std::span<const std::string> match) {
  Json all = fields;
  if (all.is_object()) {
    for (auto& [key, value] : all.items()) value = filled(value, match);
  } else if (all.is_string() && all.get<std::string>().starts_with('$')) {
    const std::string digits = filled(all.get<std::string>(), match);
    int number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || end != digits.data() + digits.size() || number < 1)
      throw Error({.code = ViolationCode::unknown_kernel, .field = "kernel", .seen = digits, .expected = "1..2^31-1"});
    all = number;
  }
  return all;
}

/// A type as kernel names spell it: a letter in nvjet names, a word of CUDA C++ or CUTLASS (which uses PTX's words).
Format type_word(const std::string& word) {
  static constexpr std::array<std::pair<std::string_view, Format>, 15> words{{{"h", Format::f16},
                                                                              {"t", Format::bf16},
                                                                              {"s", Format::f32},
                                                                              {"q", Format::e4m3},
                                                                              {"r", Format::e5m2},
                                                                              {"o", Format::e2m1},
                                                                              {"__half", Format::f16},
                                                                              {"half", Format::f16},
                                                                              {"fp16", Format::f16},
                                                                              {"__nv_bfloat16", Format::bf16},
                                                                              {"float", Format::f32},
                                                                              {"double", Format::f64},
                                                                              {"i8", Format::s8},
                                                                              {"i32", Format::s32},
                                                                              {"int", Format::s32}}};
  const auto row = std::ranges::find(words, word, &std::pair<std::string_view, Format>::first);
  if (row != words.end()) return row->second;
  if (const std::optional<Format> format = format_named(word)) return *format;
  throw Error({.code = ViolationCode::unknown_kernel,
               .field = "kernel",
               .seen = shortened(word),
               .expected = "a type that occurs in the names of recorded kernels"});
}

/// Throws Error if operands or D have types other than those in the name.
void require_types(std::string_view kernel, const KernelTypes& types, const GemmInputs& inputs,
                   std::optional<Format> output) {
  const auto data = [](Format format) { return format == Format::f32 ? Format::tf32 : format; };
  const auto name = [](Format format) { return format == Format::tf32 ? info(Format::f32).name : info(format).name; };
  const Format a = inputs.a.format(), b = inputs.b.format();
  const bool in_order = a == data(types.a) && b == data(types.b),
             exchanged = a == data(types.b) && b == data(types.a);  // cuBLAS is column-major
  std::vector<Violation> violations;
  if (!in_order && !exchanged) {
    violations.push_back({.code = ViolationCode::contradiction,
                          .field = "a, b",
                          .seen = fmt::format("{} x {}", name(a), name(b)),
                          .expected = fmt::format("{} x {}, the types in the kernel's name: {}", name(types.a),
                                                  name(types.b), shortened(kernel)),
                          .fix = "use operands of these types, or the name of a kernel for your types"});
  }
  if (output && *output != types.d) {
    violations.push_back(
        {.code = ViolationCode::contradiction,
         .field = "d",
         .seen = std::string(name(*output)),
         .expected = fmt::format("{}, the type in the kernel's name: {}", name(types.d), shortened(kernel)),
         .fix = "omit the type of D, or name a kernel with that type of D"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

/// Kernels for GPUs before Hopper, and the oldest GPU that runs them.
struct OlderKernels {
  std::string_view begin;
  Target oldest;
  bool is_default;  // false: cuBLAS also takes them on Hopper, where they were measured
};
constexpr auto older_kernels = std::to_array<OlderKernels>({
    {"volta_", Target::sm_70, true},
    {"turing_", Target::sm_75, true},
    {"ampere_", Target::sm_80, true},
    {"sm86_xmma_", Target::sm_86, true},
    {"sm80_xmma_", Target::sm_80, false},
    {"cutlass_70_", Target::sm_70, true},
    {"cutlass_75_", Target::sm_75, false},
    {"cutlass_80_", Target::sm_80, false},
});

/// The GPU of a kernel: the requested one, else the one in its name, else Hopper. A kernel named after an older GPU
/// also runs on newer ones, as cutlass_80 does on Hopper; kernels of sm90 and later run only on their own GPU. Throws
/// Error if request and name conflict.
Target target_of_kernel(const std::string& name, std::optional<Target> requested) {
  const auto refuse = [&](Target oldest, std::string expected) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = "kernel",
                 .seen = fmt::format("{} on {}", shortened(name), print(*requested)),
                 .expected = fmt::format("a kernel for {}: this one is for {}{}", print(*requested), print(oldest),
                                         std::move(expected)),
                 .fix = "omit the target, or name the kernel's target"});
  };
  for (const OlderKernels& row : older_kernels) {
    if (name.find(row.begin) == std::string::npos) continue;
    if (requested && info(*requested).chip < info(row.oldest).chip) refuse(row.oldest, " and later");
    return requested.value_or(row.is_default ? row.oldest : Target::sm_90a);
  }
  static const NamePattern own("sm_?(9[0-9]|1[0-9][0-9])");
  const std::vector<std::string> match = own.match(name);
  if (match.empty()) return requested.value_or(Target::sm_90a);
  const std::optional<Target> named = target_named("sm_" + match[1] + "a");
  if (!named) return requested.value_or(Target::sm_90a);
  if (!requested) return *named;
  if (info(*requested).chip != info(*named).chip) refuse(*named, "");
  return *requested;
}

/// `target` if it can multiply the types of the inputs, else another target that can.
Target target_or_default(Target target, const GemmInputs& inputs) {
  return multiplies(target, inputs) ? target : default_target(inputs);
}

/// True if the chain adds like the same GPU's chain under `other`: fp8 mma.sync and fp8 wgmma do not add alike.
bool adds_alike(const GemmPlan& plan, Target other, const GemmInputs& inputs) {
  if (plan.target == other || plan.cuda_cores() || !multiplies(other, inputs)) return true;
  const Instruction& instruction = plan.tensor().instruction;
  if (mma_of(instruction).d == Format::f16) return true;  // the recipe requests it
  AccumulatorModel model = model_for(flat_plan(other, inputs, plan.output).tensor().instruction, other);
  const AccumulatorModel& own = model_for(instruction, plan.target);
  model.targets = own.targets, model.family = own.family, model.inputs = own.inputs;
  return model == own;
}

/// Lists the library's plan names, the nearest to `name` first.
Violation unknown_plan(std::string_view name) {
  std::vector<std::string> names = row_names(catalogue());
  // docs/products.md, "Not supported", has the reasons.
  constexpr auto split_operands = std::to_array<std::string_view>({"bf16x9", "bf16x6", "bf16x3", "tf32x3"});
  if (std::ranges::find(split_operands, name) != split_operands.end()) {
    return {.code = ViolationCode::unknown_name,
            .field = "plan",
            .seen = std::string(name),
            .expected =
                "a plan whose additions are known: how cuBLAS splits float32 into bf16 is published, the "
                "order in which it adds the products is not",
            .source = "docs/products.md, Not supported"};
  }
  Violation violation{.code = ViolationCode::unknown_name, .field = "plan", .seen = shortened(name)};
  if (const std::string near = nearest(name, names); !near.empty()) {
    std::ranges::rotate(names, std::ranges::find(names, near));
    violation.expected = fmt::format("one of the {} known names", names.size());
    violation.fix = fmt::format("did you mean {}? bitmma.catalogue() and bitmma gemm --help list them", near);
  } else {
    violation.fix = "docs/products.md lists the plans that each library uses";
  }
  violation.legal = std::move(names);
  return violation;
}

/// Throws Error for parts of the request that have no effect on a complete plan.
void require_no_more(const GemmPlan& plan, const PlanRequest& request) {
  std::vector<Violation> violations;
  const auto refuse = [&](std::string field, std::string seen, std::string expected, std::string fix) {
    violations.push_back({.code = ViolationCode::contradiction,
                          .field = std::move(field),
                          .seen = std::move(seen),
                          .expected = std::move(expected),
                          .fix = std::move(fix)});
  };
  const CatalogueOptions& options = request.options;
  if (options.target && *options.target != plan.target)
    refuse("target", std::string(print(*options.target)), fmt::format("{}, the target of the plan", print(plan.target)),
           "change \"target\" in the plan");
  if (request.output && *request.output != plan.output)
    refuse("output", std::string(info(*request.output).name),
           fmt::format("{}, the output type of the plan", info(plan.output).name),
           R"(change "output": {"type": ...} in the plan)");
  if (options.split_count != 0 && options.split_count != std::max(1, plan.split_k.count))
    refuse("split_k", std::to_string(options.split_count), "absent: the plan determines how K is cut",
           R"(change "split_k": {"count": ...} in the plan)");
  const bool has_alpha = std::ranges::any_of(plan.epilogue, [&](const EpilogueOp& op) {
    return op.kind == EpilogueKind::alpha_beta && op.alpha == options.alpha;
  });
  if (options.alpha != 1 && !has_alpha)
    refuse("alpha", fmt::format("{}", options.alpha), "1: the plan has no such factor",
           "add alpha_beta to its epilogue");
  const bool has_beta = std::ranges::any_of(plan.epilogue, [&](const EpilogueOp& op) {
    const bool takes_c = op.kind == EpilogueKind::alpha_beta || op.kind == EpilogueKind::beta_c;
    return takes_c && op.beta == options.beta;
  });
  if (options.beta != 1 && options.beta != 0 && !has_beta)
    refuse("beta", fmt::format("{}", options.beta), "1: the plan has no such factor",
           "add alpha_beta or beta_c to its epilogue");
  if (options.relu) refuse("relu", "given", "absent: it is a part of the plan", "add relu to its epilogue");
  if (!violations.empty()) throw Error(std::move(violations));
}

/// Reads a plan from JSON; absent fields default to one chain on the requested target.
GemmPlan written_plan(const PlanRequest& request, const GemmInputs& inputs) {
  Json json = parse_plan_json(request.plan);
  if (!json.is_object()) return parse_plan(request.plan);  // always throws, with the right error
  if (!json.contains("target") && request.options.target) json["target"] = print(*request.options.target);
  GemmPlan base;
  if (!json.contains("instruction")) {
    const Target target = json.contains("target") && json["target"].is_string()
                              ? target_from(json["target"].get<std::string>())
                              : default_target(inputs);
    base = flat_plan(target, inputs, inputs.a.format() == Format::f64 ? Format::f64 : Format::f32);
  }
  GemmPlan plan = read_plan(json, base);
  require_legal(plan);
  return plan;
}

}  // namespace

std::span<const CataloguePlan> catalogue() { return Catalogue::get().plans; }
std::span<const KernelPattern> kernel_patterns() { return Catalogue::get().patterns; }
std::span<const TypePattern> type_patterns() { return Catalogue::get().types; }

std::optional<KernelTypes> types_of_kernel(std::string_view kernel) {
  const std::string text(kernel.substr(0, most_characters));
  std::optional<Format> a, b, d;
  const Catalogue& all = Catalogue::get();
  for (size_t i = 0; i < all.types.size(); ++i) {
    const std::vector<std::string> match = all.type_names[i].match(text);
    if (match.empty()) continue;
    const TypePattern& row = all.types[i];
    const auto read = [&](const std::string& word, std::optional<Format>& type) {
      if (!word.empty()) type = type_word(filled(word, match));
    };
    read(row.a, a), read(row.b, b), read(row.d, d);
  }
  return a && b && d ? std::optional(KernelTypes{.a = *a, .b = *b, .d = *d}) : std::nullopt;
}

std::vector<GemmPlan> plans_named(std::string_view name, const GemmInputs& inputs, std::optional<Format> output,
                                  const CatalogueOptions& options) {
  return in_ieee_environment([&]() -> std::vector<GemmPlan> {
    const auto row = std::ranges::find(catalogue(), name, &CataloguePlan::name);
    if (row == catalogue().end()) throw Error(unknown_plan(name));
    require_both_scales(inputs);
    require_fits(*row, inputs, options.target);
    const Recipe& recipe = Catalogue::get().recipes[static_cast<size_t>(row - catalogue().begin())];
    const bool on_cuda_cores = recipe.plan.cuda_cores();
    const Target target = options.target  ? *options.target
                          : on_cuda_cores ? row->target
                                          : target_or_default(row->target, inputs);
    std::vector<GemmPlan> plans = plans_of(recipe, row->name, {}, target, inputs, output, options);
    for (GemmPlan& plan : plans) {
      FieldEvidence evidence = evidence_of(*row, inputs, plan.output);
      const bool is_same_gpu = evidence.seen_on && info(*evidence.seen_on).chip == info(target).chip;
      evidence.only_by_this_name = is_same_gpu && !adds_alike(plan, *evidence.seen_on, inputs);
      plan.evidence = {{"plan", std::move(evidence)}};
    }
    return plans;
  });
}

namespace {

std::vector<GemmPlan> plans_of_kernel_in_environment(std::string_view kernel, const GemmInputs& inputs,
                                                     std::optional<Format> output, const CatalogueOptions& options) {
  const std::string text(kernel.substr(0, most_characters));
  const Catalogue& all = Catalogue::get();
  Json fields = Json::object();
  EvidenceOfFields evidence;
  bool known = false;
  for (size_t i = 0; i < all.kernels.size(); ++i) {
    const std::vector<std::string> match = all.kernels[i].pattern.match(text);
    const std::string& unless = all.patterns[i].unless;
    if (match.empty() || (!unless.empty() && text.find(unless, text.rfind(match[0])) != std::string::npos)) continue;
    known = true;
    for (const auto& [key, value] : all.kernels[i].fields.items()) {
      fields[key] = filled(value, match);
      evidence[key] = all.patterns[i].evidence;
    }
    if (all.kernels[i].fields.empty()) evidence["chain"] = all.patterns[i].evidence;
  }
  const std::optional<KernelTypes> types = known ? types_of_kernel(text) : std::nullopt;
  if (!types) {
    throw Error({.code = ViolationCode::unknown_kernel,
                 .field = "kernel",
                 .seen = shortened(text),
                 .expected = known ? "a name whose types a pattern of docs/products.md reads"
                                   : "a name of cuBLAS's nvjet, cutlass, xmma, gemv, ampere, turing or volta kernels "
                                     "that a pattern of docs/products.md matches",
                 .fix = "a search (find_plans) finds the plan from the bits of a recorded D"});
  }
  require_types(text, *types, inputs, output);
  const Target target = target_of_kernel(text, options.target);
  return plans_of(read_recipe(std::move(fields)), "", std::move(evidence), target, inputs, types->d, options);
}

}  // namespace

std::vector<GemmPlan> plans_of_kernel(std::string_view kernel, const GemmInputs& inputs, std::optional<Format> output,
                                      const CatalogueOptions& options) {
  return in_ieee_environment([&] { return plans_of_kernel_in_environment(kernel, inputs, output, options); });
}

namespace {

std::vector<GemmPlan> requested_plans(const PlanRequest& request, const GemmInputs& inputs) {
  if (!request.plan.empty() + !request.kernel.empty() + request.value.has_value() > 1) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = "kernel",
                 .seen = "given together with a plan",
                 .expected = "a plan or the name of a kernel"});
  }
  if (!request.kernel.empty()) {
    std::vector<GemmPlan> plans = plans_of_kernel(request.kernel, inputs, request.output, request.options);
    if (!request.may_clamp) return plans;
    CatalogueOptions clamped = request.options;
    clamped.relu = true;
    for (GemmPlan& plan : plans_of_kernel(request.kernel, inputs, request.output, clamped)) {
      if (std::ranges::find(plans, plan) == plans.end()) plans.push_back(std::move(plan));
    }
    return plans;
  }
  const bool is_json = request.plan.find_first_not_of(" \t\r\n") != std::string::npos &&
                       request.plan[request.plan.find_first_not_of(" \t\r\n")] == '{';
  if (request.value || is_json) {
    GemmPlan plan = request.value ? *request.value : written_plan(request, inputs);
    require_no_more(plan, request);
    return {std::move(plan)};
  }
  const bool is_float32 = inputs.a.format() == Format::tf32 || inputs.b.format() == Format::tf32;
  if (request.plan.empty() && is_float32) {
    throw Error({.code = ViolationCode::missing_plan,
                 .field = "plan",
                 .seen = "(missing)",
                 .expected =
                     "sgemm (f32 on CUDA cores), xmma-tf32 (rounded to tf32 first, ties to even, as in cuBLAS 13), "
                     "xmma-tf32-rna (ties away from zero, as in cuBLAS 11) or flat (low bits dropped, as in the tf32 "
                     "instruction): libraries multiply float32 in all four ways, with different bits",
                 .legal = {"sgemm", "xmma-tf32", "xmma-tf32-rna", "flat"}});
  }
  const std::string_view name = request.plan.empty() ? std::string_view("flat") : request.plan;
  std::vector<GemmPlan> plans = plans_named(name, inputs, request.output, request.options);
  if (request.output && !plans.empty() && plans.front().output != *request.output)
    require_no_more(plans.front(), {.output = request.output});
  return plans;
}

}  // namespace

std::vector<GemmPlan> plans_for(const PlanRequest& request, const GemmInputs& inputs) {
  return in_ieee_environment([&] { return requested_plans(request, inputs); });
}

GemmPlan only_plan(std::vector<GemmPlan> plans) {
  GemmPlan first = std::move(plans.front());
  if (plans.size() == 1) return first;
  const bool has_regions = std::ranges::any_of(plans, [](const GemmPlan& plan) { return !plan.regions.empty(); });
  if (first.split_k.count == 1 && first.tensor_cores() && !has_regions) {
    first.evidence["split_k"] = {.note = "one slice: the name does not say whether K is cut"};
    return first;
  }
  throw Error({.code = ViolationCode::missing_argument,
               .field = "split_k",
               .seen = "missing",
               .expected = "the number of slices, which the name does not determine",
               .fix = "a search in the bits of a recorded D finds it: find_plans(a, b, d), or a file with d"});
}

GemmPlan on_target(GemmPlan plan, Target target) {
  for (auto& [field, evidence] : plan.evidence) {
    if (!evidence.seen_on && evidence.level != EvidenceLevel::model_choice) evidence.seen_on = plan.target;
  }
  plan.target = target;
  return plan;
}

Target default_target(const GemmInputs& inputs) {
  for (const Target target : {Target::sm_90a, Target::sm_100a, Target::sm_120a}) {
    if (multiplies(target, inputs)) return target;
    if (!scales_in_instruction(inputs))
      break;  // the scales imply a GPU that has them; other types may have lost their scales
  }
  return Target::sm_90a;
}

}  // namespace bitmma
