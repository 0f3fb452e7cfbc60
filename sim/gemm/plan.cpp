// SPDX-License-Identifier: MIT
#include "bitmma/gemm/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "gemm_inside.hpp"
#include "plan_json.hpp"

namespace bitmma {
namespace {

template <typename Value>
struct Word {
  Value value;
  std::string_view text;
};
template <typename Value>
Word(Value, std::string_view) -> Word<Value>;  // clang before 17 does not deduce it by itself

constexpr std::array input_roundings{Word{InputRounding::none, "none"}, Word{InputRounding::tf32_rne, "tf32_rne"},
                                     Word{InputRounding::tf32_rna, "tf32_rna"}};
constexpr std::array residues{Word{Residue::last, "last"}, Word{Residue::first, "first"}};
constexpr std::array scales{Word{PromotionScale::none, "none"}, Word{PromotionScale::fma, "fma"},
                            Word{PromotionScale::mul_fma, "mul_fma"}};
constexpr std::array rules{Word{SplitRule::ceil, "ceil"}, Word{SplitRule::nvjet, "nvjet"},
                           Word{SplitRule::floor, "floor"}, Word{SplitRule::big_first, "big_first"},
                           Word{SplitRule::big_last, "big_last"}};
constexpr std::array orders{Word{ReductionOrder::ascending, "ascending"}, Word{ReductionOrder::pairs, "pairs"},
                            Word{ReductionOrder::pairs_from_end, "pairs_from_end"}};
constexpr std::array sum_types{Word{SumType::f32, "f32"}, Word{SumType::out, "out"}};
constexpr std::array starts{Word{false, "first"}, Word{true, "zero"}};
constexpr std::array rasters{Word{false, "m"}, Word{true, "n"}};
constexpr std::array epilogue_kinds{Word{EpilogueKind::alpha_beta, "alpha_beta"},
                                    Word{EpilogueKind::scale_ab, "scale_ab"},
                                    Word{EpilogueKind::row_scale, "row_scale"},
                                    Word{EpilogueKind::col_scale, "col_scale"},
                                    Word{EpilogueKind::bias, "bias"},
                                    Word{EpilogueKind::relu, "relu"},
                                    Word{EpilogueKind::d_scale, "d_scale"},
                                    Word{EpilogueKind::round, "round"},
                                    Word{EpilogueKind::beta_c, "beta_c"}};
constexpr std::array joins{Word{LaneJoin::ascending, "ascending"}, Word{LaneJoin::butterfly, "butterfly"},
                           Word{LaneJoin::neighbours, "neighbours"}};
constexpr std::array roundings{Word{Rounding::nearest_even, "rn"}, Word{Rounding::nearest_away, "rna"},
                               Word{Rounding::toward_zero, "rz"}};
/// The instruction of plans on CUDA cores.
constexpr std::string_view cuda_core_instruction = "fma.rn.f32", a_mnemonic = "a PTX mnemonic with all qualifiers";
/// Approximate activations of libraries, which a plan cannot express.
constexpr std::array approximations{std::string_view("gelu"), std::string_view("silu"), std::string_view("swish"),
                                    std::string_view("tanh"), std::string_view("sigmoid")};

template <typename Words, typename Value>
std::string_view text_of(const Words& words, Value value) {
  return std::ranges::find(words, value, [](const auto& word) { return word.value; })->text;
}

[[noreturn]] void refuse(std::string field, std::string seen, std::string expected, std::string fix = {}) {
  throw Error({.field = "plan: " + std::move(field),
               .seen = shortened(seen),
               .expected = std::move(expected),
               .fix = std::move(fix)});
}

/// A JSON object from which keys are taken one by one; a key left over is an error.
class Object {
 public:
  Object(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
    if (!json.is_object()) refuse(path_, json_text(json), "an object");
  }

  const Json* find(std::string_view key) {
    const auto found = json_.find(std::string(key));
    if (found == json_.end()) return nullptr;
    taken_.push_back(std::string(key));
    return &*found;
  }
  std::string name(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }

  int64_t number(std::string_view key, int64_t default_value, int64_t least, int64_t most = int64_t{1} << 40) {
    const Json* value = find(key);
    if (!value) return default_value;
    const bool fits =
        value->is_number_integer() && (!value->is_number_unsigned() || value->get<uint64_t>() < (uint64_t{1} << 62));
    const int64_t number = fits ? value->get<int64_t>() : least - 1;
    if (number < least || number > most)
      refuse(name(key), json_text(*value), fmt::format("a whole number in {}..{}", least, most));
    return number;
  }
  float real(std::string_view key, float default_value) {
    const Json* value = find(key);
    if (!value) return default_value;
    const auto number = in_ieee_environment([&]() -> std::optional<float> {
      if (!value->is_number() || !std::isfinite(value->get<float>())) return std::nullopt;
      return value->get<float>();
    });
    if (!number) refuse(name(key), json_text(*value), "a number that f32 represents");
    return *number;
  }
  bool flag(std::string_view key, bool default_value) {
    const Json* value = find(key);
    if (!value) return default_value;
    if (!value->is_boolean()) refuse(name(key), json_text(*value), "true or false");
    return value->get<bool>();
  }
  std::string text(std::string_view key, std::string default_value) {
    const Json* value = find(key);
    if (!value) return default_value;
    if (!value->is_string()) refuse(name(key), json_text(*value), "a string");
    return value->get<std::string>();
  }
  template <typename Words, typename Value>
  Value word(std::string_view key, const Words& words, Value default_value) {
    const Json* value = find(key);
    if (!value) return default_value;
    const std::string seen = value->is_string() ? value->get<std::string>() : json_text(*value);
    const auto found = std::ranges::find(words, seen, [](const auto& one) { return one.text; });
    if (found != words.end()) return found->value;
    std::string legal;
    for (const auto& one : words) legal += fmt::format("{}{}", legal.empty() ? "" : ", ", one.text);
    refuse(name(key), seen, legal);
  }
  /// Throws Error unless every key was taken.
  void done() const {
    for (const auto& [key, value] : json_.items()) {
      if (std::ranges::find(taken_, key) != taken_.end()) continue;
      refuse(name(key), json_text(value), "a field of plans", "docs/plans.md lists them");
    }
  }

 private:
  const Json& json_;
  std::string path_;
  std::vector<std::string> taken_;
};

constexpr int most_int = 1 << 30;

SplitK read_split(const Json& json, const std::string& path) {
  Object object(json, path);
  SplitK split;
  if (const Json* cuts = object.find("cuts")) {
    if (!cuts->is_array()) refuse(object.name("cuts"), json_text(*cuts), "an array of whole numbers");
    for (const Json& cut : *cuts) {
      if (!cut.is_number_integer()) refuse(object.name("cuts"), json_text(cut), "whole numbers");
      split.cuts.push_back(cut.get<int64_t>());
    }
  } else {
    split.count = static_cast<int>(object.number("count", 1, 1, most_int));
    split.unit = static_cast<int>(object.number("unit", split.unit, 1, most_int));
    split.rule = object.word("rule", rules, split.rule);
  }
  object.done();
  return split;
}

Reduction read_reduction(const Json& json, const std::string& path) {
  Object object(json, path);
  Reduction reduction;
  reduction.order = object.word("order", orders, reduction.order);
  reduction.partial = object.word("partial", sum_types, reduction.partial);
  reduction.running = object.word("running", sum_types, reduction.running);
  reduction.start_at_zero = object.word("start", starts, false);
  reduction.flush = object.flag("ftz", false);
  reduction.serial = object.flag("serial", false);
  object.done();
  return reduction;
}

Region read_region(const Json& json, const std::string& path) {
  Object object(json, path);
  Region region;
  const Json* tiles = object.find("tiles");
  const bool is_pair = tiles && tiles->is_array() && tiles->size() == 2 && (*tiles)[0].is_number_integer() &&
                       (*tiles)[1].is_number_integer();
  if (!is_pair) refuse(object.name("tiles"), tiles ? json_text(*tiles) : "(missing)", "[first, last]");
  region.first_tile = (*tiles)[0].get<int64_t>(), region.last_tile = (*tiles)[1].get<int64_t>();
  if (const Json* split = object.find("split_k")) region.split_k = read_split(*split, object.name("split_k"));
  if (const Json* sums = object.find("reduction")) region.reduction = read_reduction(*sums, object.name("reduction"));
  object.done();
  return region;
}

EpilogueOp read_op(const Json& json, const std::string& path) {
  Object object(json, path);
  const std::string op = object.text("op", "");
  if (std::ranges::find(approximations, op) != approximations.end())
    refuse(object.name("op"), op, "an operation with defined bits", "each library approximates it differently");
  EpilogueOp read{.kind = object.word("op", epilogue_kinds, EpilogueKind::relu)};
  if (op.empty())
    refuse(object.name("op"), "(missing)",
           "alpha_beta, scale_ab, row_scale, col_scale, bias, relu, d_scale, round, beta_c");
  if (read.kind == EpilogueKind::alpha_beta) read.alpha = object.real("alpha", 1), read.beta = object.real("beta", 0);
  if (read.kind == EpilogueKind::beta_c) read.beta = object.real("beta", 1);
  if (read.kind == EpilogueKind::d_scale) read.alpha = object.real("scale", 1);
  object.done();
  return read;
}

Format read_format(Object& object, std::string_view key, Format default_value) {
  const std::string name = object.text(key, std::string(info(default_value).name));
  const std::optional<Format> format = format_named(name);
  if (!format) refuse(object.name(key), name, "the name of a format, as PTX spells it");
  return *format;
}

Json split_json(const SplitK& split) {
  if (!split.cuts.empty()) return {{"cuts", split.cuts}};
  return {{"count", split.count}, {"unit", split.unit}, {"rule", text_of(rules, split.rule)}};
}

Json reduction_json(const Reduction& reduction) {
  Json json = Json::object();
  if (reduction.order != ReductionOrder::ascending) json["order"] = text_of(orders, reduction.order);
  if (reduction.partial != SumType::f32) json["partial"] = text_of(sum_types, reduction.partial);
  if (reduction.running != SumType::f32) json["running"] = text_of(sum_types, reduction.running);
  if (reduction.start_at_zero) json["start"] = "zero";
  if (reduction.flush) json["ftz"] = true;
  if (reduction.serial) json["serial"] = true;
  return json;
}

Json op_json(const EpilogueOp& op) {
  return in_ieee_environment([&]() -> Json {
    Json json{{"op", text_of(epilogue_kinds, op.kind)}};
    if (op.kind == EpilogueKind::alpha_beta) json["alpha"] = op.alpha, json["beta"] = op.beta;
    if (op.kind == EpilogueKind::beta_c) json["beta"] = op.beta;
    if (op.kind == EpilogueKind::d_scale) json["scale"] = op.alpha;
    return json;
  });
}

bool are_cuts(const std::vector<int64_t>& cuts) {
  return cuts.empty() || (cuts.size() >= 2 && cuts.front() == 0 && std::ranges::is_sorted(cuts));
}

/// Checks common to plans with and without tensor cores.
void require_float_output(const GemmPlan& plan, std::vector<Violation>& found) {
  const FormatInfo& row = info(plan.output);
  if (plan_outputs.contains(row.id) && row.kind == NumberKind::floating) return;
  std::vector<FormatInfo> legal = rows_of(plan_outputs);
  std::erase_if(legal, [](const FormatInfo& format) { return format.kind != NumberKind::floating; });
  found.push_back({.field = "plan: output", .seen = std::string(row.name), .legal = row_names(legal)});
}

void require_tail(const GemmPlan& plan, auto require) {
  require(are_cuts(plan.split_k.cuts), "split_k.cuts", fmt::format("{} numbers", plan.split_k.cuts.size()),
          "0, then ascending numbers");
  for (const Region& region : plan.regions) {
    require(region.first_tile >= 0 && region.first_tile <= region.last_tile, "regions.tiles",
            fmt::format("[{}, {}]", region.first_tile, region.last_tile), "0 <= first <= last");
    require(are_cuts(region.split_k.cuts), "regions.split_k.cuts",
            fmt::format("{} numbers", region.split_k.cuts.size()), "0, then ascending numbers");
  }
  require(plan.tile_mn.first > 0 && plan.tile_mn.second > 0, "tile_mn",
          fmt::format("[{}, {}]", plan.tile_mn.first, plan.tile_mn.second), "positive extents");
  const bool no_relu_inside = std::ranges::none_of(plan.epilogue, [](const EpilogueOp& op) {
    return op.kind == EpilogueKind::round || op.kind == EpilogueKind::beta_c;
  });
  require(!plan.reduction.serial || (no_relu_inside && plan.reduction.order == ReductionOrder::ascending),
          "reduction.serial", "true", "false with round, beta_c or pairs");
  const bool legal_rounding =
      std::ranges::any_of(roundings, [&](const auto& rounding) { return rounding.value == plan.rounding; });
  require(legal_rounding, "output.rounding", "another", "rn, rna or rz");
}

/// Sets the types of a tcgen05.mma, which its mnemonic does not state, and K if the kind has two.
Instruction with_types(const GemmPlan& plan, Object types) {
  const TensorCoreChain* const tensor = plan.tensor_cores();
  std::optional<ShapeAndTypes> one = tensor ? shape_and_types_of(tensor->instruction) : std::nullopt;
  if (!one) refuse("types", "given", "absent except with tcgen05.mma: other mnemonics contain their types");
  const auto read = [&](const char* key, Format& format) {
    const std::string name = types.text(key, std::string(info(format).name));
    const auto found = format_named(name);
    if (!found) refuse(types.name(key), name, "a number format, such as bf16 or e2m1");
    format = *found;
  };
  read("a", one->a), read("b", one->b), read("d", one->d), read("scale", one->scale_type);
  one->k = static_cast<int>(types.number("k", 0, 1, most_int));
  types.done();
  return with_shape_and_types(tensor->instruction, *one);
}

/// The types that differ from the default; an empty object if none does.
Json types_json(const Instruction& instruction) {
  Json json = Json::object();
  const std::optional<ShapeAndTypes> one = shape_and_types_of(instruction);
  if (!one) return json;
  const ShapeAndTypes defaults = *shape_and_types_of(parse_instruction(print(instruction)));
  const auto write = [&](const char* key, Format format, Format by_default) {
    if (format != by_default) json[key] = info(format).name;
  };
  write("a", one->a, defaults.a), write("b", one->b, defaults.b), write("d", one->d, defaults.d);
  write("scale", one->scale_type, defaults.scale_type);
  if (one->k != 0) json["k"] = one->k;
  return json;
}

/// Reads the fields of a chain on tensor cores.
void read_tensor_fields(Object& object, TensorCoreChain& chain) {
  chain.k_step = static_cast<int>(object.number("k_step", 0, 1, most_int));
  chain.input_rounding = object.word("input_rounding", input_roundings, chain.input_rounding);
  chain.k_tile = object.number("k_tile", 0, 1);
  chain.residue = object.word("residue", residues, chain.residue);
  chain.sliced_k = static_cast<int>(object.number("sliced_k", 1, 1, 1024));
  if (const Json* promotion = object.find("promotion")) {
    Object inside(*promotion, "promotion");
    Promotion read;
    read.every = static_cast<int>(inside.number("every", read.every, 1, most_int));
    read.scale = inside.word("scale", scales, read.scale);
    read.restart_at_tile = inside.flag("restart_at_tile", false);
    const Json per_row({1, 128}), per_block({128, 128});
    if (const Json* sa = inside.find("sa"); sa && *sa != per_row)
      refuse("promotion.sa", json_text(*sa), "[1, 128]: one scale per row and 128 of K");
    if (const Json* sb = inside.find("sb")) {
      if (*sb != per_row && *sb != per_block)
        refuse("promotion.sb", json_text(*sb),
               "[1, 128] or [128, 128]: one scale per column, or per 128 columns, and 128 of K");
      read.columns_of_sb = *sb == per_row ? 1 : 128;
    }
    inside.done();
    chain.promotion = read;
  }
  const std::string start = object.text("start", "nothing");
  if (start != "nothing" && start != "c") refuse("start", start, "nothing or c");
  chain.start_with_c = start == "c";
}

CudaCoreChain read_lanes(const Json& json) {
  Object object(json, "lanes");
  CudaCoreChain read;
  read.count = static_cast<int>(object.number("count", 1, 1, 1024));
  read.vector = static_cast<int>(object.number("vector", 1, 1, 1024));
  read.chunk = static_cast<int>(object.number("chunk", 0, 0, most_int));
  read.join = object.word("join", joins, LaneJoin::ascending);
  object.done();
  return read;
}

/// In a plan on CUDA cores, tensor-core fields may only state their defaults.
void refuse_tensor_fields(Object& object) {
  TensorCoreChain chain;
  read_tensor_fields(object, chain);
  if (chain == TensorCoreChain{}) return;
  refuse("instruction", std::string(cuda_core_instruction),
         "a tensor-core instruction with k_step, k_tile, sliced_k, promotion, residue, input_rounding or start");
}

}  // namespace

GemmPlan read_plan(const Json& json, const GemmPlan& base) {
  Object object(json, "");
  GemmPlan plan{.target = base.target, .chain = base.chain, .output = base.output};
  plan.name = object.text("name", "");
  if (object.find("target")) plan.target = target_from(object.text("target", ""));
  if (const Json* const instruction = object.find("instruction")) {
    if (!instruction->is_string()) refuse("instruction", json_text(*instruction), std::string(a_mnemonic));
    if (*instruction == cuda_core_instruction) plan.chain = CudaCoreChain{};
    else plan.chain = TensorCoreChain{.instruction = parse_instruction(instruction->get<std::string>())};
  }
  if (CudaCoreChain* const lanes = std::get_if<CudaCoreChain>(&plan.chain)) {
    if (const Json* given = object.find("lanes")) *lanes = read_lanes(*given);
  }
  if (const Json* types = object.find("types")) plan.tensor().instruction = with_types(plan, Object(*types, "types"));
  if (const Json* evidence = object.find("evidence")) {
    if (!evidence->is_object()) refuse("evidence", json_text(*evidence), "an object that maps a field to its evidence");
    for (const auto& [field, value] : evidence->items()) {
      if (!value.is_string()) refuse("evidence." + field, json_text(value), "a string");
      plan.evidence[field] = value.get<std::string>();
    }
  }
  if (TensorCoreChain* const chain = std::get_if<TensorCoreChain>(&plan.chain)) read_tensor_fields(object, *chain);
  else refuse_tensor_fields(object);
  if (const Json* split = object.find("split_k")) plan.split_k = read_split(*split, "split_k");
  if (const Json* reduction = object.find("reduction")) plan.reduction = read_reduction(*reduction, "reduction");
  if (const Json* regions = object.find("regions")) {
    if (!regions->is_array()) refuse("regions", json_text(*regions), "an array");
    for (size_t i = 0; i < regions->size(); ++i)
      plan.regions.push_back(read_region((*regions)[i], fmt::format("regions[{}]", i)));
  }
  if (const Json* tile = object.find("tile_mn")) {
    const bool is_pair =
        tile->is_array() && tile->size() == 2 && (*tile)[0].is_number_unsigned() && (*tile)[1].is_number_unsigned();
    if (!is_pair) refuse("tile_mn", json_text(*tile), "[rows, columns]");
    plan.tile_mn = {(*tile)[0].get<int>(), (*tile)[1].get<int>()};
  }
  plan.raster_n = object.word("raster", rasters, false);
  if (const Json* epilogue = object.find("epilogue")) {
    if (!epilogue->is_array()) refuse("epilogue", json_text(*epilogue), "an array");
    for (size_t i = 0; i < epilogue->size(); ++i)
      plan.epilogue.push_back(read_op((*epilogue)[i], fmt::format("epilogue[{}]", i)));
  }
  if (const Json* output = object.find("output")) {
    Object inside(*output, "output");
    plan.output = read_format(inside, "type", plan.output);
    plan.rounding = inside.word("rounding", roundings, plan.rounding);
    if (inside.find("saturate")) plan.saturate = inside.flag("saturate", false);
    inside.done();
  }
  object.done();
  return plan;
}

GemmPlan parse_plan(std::string_view text) {
  const Json json = parse_plan_json(text);
  if (json.is_object() && !json.contains("instruction")) refuse("instruction", "(missing)", std::string(a_mnemonic));
  GemmPlan plan = read_plan(json, {});
  require_legal(plan);
  return plan;
}

Json parse_plan_json(std::string_view text) {
  std::string repeated;
  Json json = parse_json(text, 64, &repeated);
  if (!repeated.empty()) refuse(shortened(printable(repeated)), "given twice", "unique keys");
  if (json.is_discarded()) refuse("JSON", shortened(printable(text)), "one JSON object, nested less than 64 deep");
  return json;
}

void require_legal(const GemmPlan& plan) {
  std::vector<Violation> violations = violations_of(plan);
  if (!violations.empty()) throw Error(std::move(violations));
}

namespace {

Json lanes_json(const CudaCoreChain& lanes) {
  Json json{{"count", lanes.count}};
  if (lanes.vector != 1) json["vector"] = lanes.vector;
  if (lanes.chunk != 0) json["chunk"] = lanes.chunk;
  if (lanes.join != LaneJoin::ascending) json["join"] = text_of(joins, lanes.join);
  return json;
}

void write_tensor_fields(Json& json, const TensorCoreChain& chain) {
  const TensorCoreChain defaults;
  json["instruction"] = print(chain.instruction);
  if (Json types = types_json(chain.instruction); !types.empty()) json["types"] = std::move(types);
  if (chain.k_step != 0) json["k_step"] = chain.k_step;
  if (chain.input_rounding != defaults.input_rounding)
    json["input_rounding"] = text_of(input_roundings, chain.input_rounding);
  if (chain.k_tile != 0) json["k_tile"] = chain.k_tile;
  if (chain.residue != defaults.residue) json["residue"] = text_of(residues, chain.residue);
  if (chain.sliced_k != 1) json["sliced_k"] = chain.sliced_k;
  if (chain.promotion) {
    Json promotion{{"every", chain.promotion->every}};
    if (chain.promotion->scale != PromotionScale::none) promotion["scale"] = text_of(scales, chain.promotion->scale);
    if (chain.promotion->restart_at_tile) promotion["restart_at_tile"] = true;
    if (chain.promotion->columns_of_sb != 0) promotion["sb"] = {chain.promotion->columns_of_sb, 128};
    json["promotion"] = promotion;
  }
}

}  // namespace

std::string print_json(const GemmPlan& plan) {
  const GemmPlan defaults;
  Json json = Json::object();
  if (!plan.name.empty()) json["name"] = plan.name;
  json["target"] = print(plan.target);
  if (const CudaCoreChain* const lanes = plan.cuda_cores()) {
    json["instruction"] = cuda_core_instruction;
    if (*lanes != CudaCoreChain{}) json["lanes"] = lanes_json(*lanes);
  } else {
    write_tensor_fields(json, plan.tensor());
  }
  if (plan.split_k != defaults.split_k) json["split_k"] = split_json(plan.split_k);
  if (plan.reduction != defaults.reduction) json["reduction"] = reduction_json(plan.reduction);
  if (!plan.regions.empty()) {
    json["tile_mn"] = {plan.tile_mn.first, plan.tile_mn.second};
    json["raster"] = text_of(rasters, plan.raster_n);
    for (const Region& region : plan.regions) {
      Json one{{"tiles", {region.first_tile, region.last_tile}}, {"split_k", split_json(region.split_k)}};
      if (region.reduction != Reduction{}) one["reduction"] = reduction_json(region.reduction);
      json["regions"].push_back(std::move(one));
    }
  }
  if (plan.tensor_cores() && plan.tensor().start_with_c) json["start"] = "c";
  for (const EpilogueOp& op : plan.epilogue) json["epilogue"].push_back(op_json(op));
  json["output"] = {{"type", info(plan.output).name}};
  if (plan.rounding != defaults.rounding) json["output"]["rounding"] = text_of(roundings, plan.rounding);
  if (plan.saturate) json["output"]["saturate"] = *plan.saturate;
  if (!plan.evidence.empty()) json["evidence"] = plan.evidence;
  return json_text(json);
}

namespace {

void add_words(std::vector<std::string>& words, const CudaCoreChain& lanes) {
  words.emplace_back("CUDA cores");
  if (lanes.count > 1) words.push_back(fmt::format("{} lanes joined {}", lanes.count, text_of(joins, lanes.join)));
  if (lanes.vector > 1) words.push_back(fmt::format("vectors of {}", lanes.vector));
  if (lanes.chunk > 0) words.push_back(fmt::format("chunks of {}", lanes.chunk));
}

void add_words(std::vector<std::string>& words, const TensorCoreChain& chain, bool of_family) {
  if (mma_of(chain.instruction).d == Format::f16) words.emplace_back("f16 accumulators");
  if (chain.input_rounding != InputRounding::none)
    words.push_back(fmt::format("inputs {}", text_of(input_roundings, chain.input_rounding)));
  if (chain.k_step != 0) words.push_back(fmt::format("steps of {}", chain.k_step));
  const std::string tile = of_family ? "" : fmt::format(", tile {}", chain.k_tile);
  if (chain.residue == Residue::first) words.push_back("residue first" + tile);
  if (chain.sliced_k > 1) words.push_back(fmt::format("sliced-K {}{}", chain.sliced_k, tile));
  if (chain.promotion) {
    words.push_back(fmt::format("promotion every {}{}", chain.promotion->every,
                                chain.promotion->scale == PromotionScale::none
                                    ? ""
                                    : fmt::format(" with scales ({})", text_of(scales, chain.promotion->scale))));
  }
}

}  // namespace

namespace {

/// The words of a plan; those of its family omit the numbers that vary from call to call.
std::string words_of(const GemmPlan& plan, bool of_family) {
  std::vector<std::string> words;
  if (const CudaCoreChain* const lanes = plan.cuda_cores()) add_words(words, *lanes);
  else add_words(words, plan.tensor(), of_family);
  if (!plan.split_k.cuts.empty()) {
    words.push_back(fmt::format("K cut into {}", plan.split_k.cuts.size() - 1));
  } else if (plan.split_k.count > 1 && of_family) {
    words.push_back(fmt::format("split-K {}", text_of(rules, plan.split_k.rule)));
  } else if (plan.split_k.count > 1) {
    words.push_back(fmt::format("split-K {} ({}, unit {})", plan.split_k.count, text_of(rules, plan.split_k.rule),
                                plan.split_k.unit));
  }
  if (plan.reduction.order == ReductionOrder::pairs) words.emplace_back("joined in pairs");
  if (plan.reduction.order == ReductionOrder::pairs_from_end) words.emplace_back("joined in pairs from the end");
  if (plan.reduction.partial == SumType::out) words.emplace_back("partial sums in D's type");
  if (plan.reduction.running == SumType::out) words.emplace_back("running sum in D's type");
  if (!plan.regions.empty()) words.emplace_back("stream-K");
  if (plan.reduction.serial) words.emplace_back("serial");
  if (plan.tensor_cores() && plan.tensor().start_with_c) words.emplace_back("starts from C");
  for (const EpilogueOp& op : plan.epilogue) words.emplace_back(text_of(epilogue_kinds, op.kind));
  if (plan.rounding != Rounding::nearest_even)
    words.push_back(fmt::format("rounded {}", text_of(roundings, plan.rounding)));
  if (words.empty()) words.emplace_back("flat");
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

std::string_view print(EpilogueKind kind) { return text_of(epilogue_kinds, kind); }

std::string print_plan(const GemmPlan& plan) { return words_of(plan, false); }

std::string print_family(const GemmPlan& plan) { return words_of(plan, true); }

std::string print_instruction(const GemmPlan& plan) {
  return plan.cuda_cores() ? std::string(cuda_core_instruction) : print(plan.tensor().instruction);
}

std::vector<Violation> violations_of(const GemmPlan& plan) {
  std::vector<Violation> found;
  const auto require = [&](bool holds, std::string_view field, std::string seen, std::string expected) {
    if (holds) return;
    found.push_back(
        {.field = fmt::format("plan: {}", field), .seen = std::move(seen), .expected = std::move(expected)});
  };
  if (const CudaCoreChain* const lanes = plan.cuda_cores()) {
    require(lanes->count > 0 && lanes->vector > 0 && lanes->chunk >= 0, "lanes",
            fmt::format("{}, {}, {}", lanes->count, lanes->vector, lanes->chunk), "positive counts");
    require(lanes->join == LaneJoin::ascending || std::has_single_bit(static_cast<unsigned>(lanes->count)),
            "lanes.count", std::to_string(lanes->count), "a power of two with joins that halve");
    require_float_output(plan, found);
    require_tail(plan, require);
    return found;
  }
  const TensorCoreChain& chain = plan.tensor();
  if (!is_mma(chain.instruction)) {
    require(false, "instruction", print(chain.instruction), "a matrix instruction");
    return found;
  }
  for (Violation& violation : violations_of(chain.instruction, plan.target)) found.push_back(std::move(violation));
  if (!found.empty()) return found;
  const Mma mma = step_of(chain.instruction);
  require(!mma.sparse, "instruction", print(chain.instruction), "dense");
  require(chain.k_step <= mma.k, "k_step", std::to_string(chain.k_step),
          fmt::format("at most K of the instruction, {}", mma.k));
  require(mma.scaling == Scaling::none || chain.k_step == 0, "k_step", std::to_string(chain.k_step),
          "absent with block scales");
  const bool needs_tile =
      chain.residue == Residue::first || chain.sliced_k > 1 || (chain.promotion && chain.promotion->restart_at_tile);
  require(!needs_tile || chain.k_tile > 0, "k_tile", "(missing)",
          "given if residue is first, or with sliced_k or restart_at_tile");
  require(chain.sliced_k == 1 || chain.k_tile % chain.sliced_k == 0, "k_tile", std::to_string(chain.k_tile),
          fmt::format("a multiple of sliced_k, {}", chain.sliced_k));
  require(chain.sliced_k == 1 || !chain.promotion, "promotion", "given", "absent: it cannot be combined with sliced_k");
  require(chain.input_rounding == InputRounding::none || mma.a == Format::tf32, "input_rounding",
          std::string(text_of(input_roundings, chain.input_rounding)), "absent except for tf32");
  const bool is_integer = mma.d == Format::s32;
  require(!is_integer || (plan.output == Format::s32 && plan.epilogue.empty() && !chain.promotion), "output",
          std::string(info(plan.output).name), "s32 without epilogue or promotion: integers are exact");
  require(!chain.start_with_c || !chain.promotion, "start", "c",
          "absent with promotion, whose accumulators begin from zero");
  require(mma.d != Format::f64 || (plan.epilogue.empty() && !chain.promotion && chain.sliced_k == 1 &&
                                   plan.reduction == Reduction{} && plan.regions.empty()),
          "output", "f64 with an epilogue, promotion, sliced_k, regions or another reduction",
          "f64 in one chain or in slices that are added in f64, ascending");
  const std::string output(info(plan.output).name);
  if (!is_integer) require_float_output(plan, found);
  require((mma.d == Format::f64) == (plan.output == Format::f64), "output", output, "f64 only with f64 instructions");
  require_tail(plan, require);
  return found;
}

bool scales_blocks(const GemmPlan& plan) {
  const TensorCoreChain* const chain = plan.tensor_cores();
  return chain && chain->promotion && chain->promotion->scale != PromotionScale::none;
}

Mma step_of(const Instruction& instruction) {
  Mma mma = mma_of(instruction);
  mma.m /= mma.products, mma.k /= mma.products, mma.products = 1;
  return mma;
}

bool multiplies(const GemmPlan& plan, Format a, Format b) {
  if (const TensorCoreChain* const chain = plan.tensor_cores()) {
    const Mma mma = mma_of(chain->instruction);
    return a == mma.a && b == mma.b;
  }
  const auto widens = [](Format format) {
    return format == Format::tf32 || format == Format::f32 || format == Format::f16 || format == Format::bf16;
  };
  return widens(a) && widens(b);
}

std::vector<std::pair<int64_t, int64_t>> slices_of(const SplitK& split, int64_t k) {
  // K of a product is an int, so sums and products of split rules fit in 64 bits.
  constexpr int64_t most = std::numeric_limits<int>::max();
  if (k < 0 || k > most) throw Error({.field = "K", .seen = std::to_string(k), .expected = fmt::format("0..{}", most)});
  if (split.cuts.empty() && (split.count < 1 || split.unit < 1)) {
    throw Error({.field = "split_k",
                 .seen = fmt::format("count {}, unit {}", split.count, split.unit),
                 .expected = "both 1 or more"});
  }
  std::vector<std::pair<int64_t, int64_t>> slices;
  const auto add = [&](int64_t first, int64_t last) {
    first = std::clamp<int64_t>(first, 0, k), last = std::clamp<int64_t>(last, 0, k);
    if (first < last) slices.emplace_back(first, last);
  };
  if (!split.cuts.empty()) {
    for (size_t i = 0; i + 1 < split.cuts.size(); ++i) add(split.cuts[i], split.cuts[i + 1]);
    return slices;
  }
  const int64_t s = split.count, g = split.unit, tiles = (k + g - 1) / g;
  switch (split.rule) {
    case SplitRule::ceil:
    case SplitRule::nvjet: {
      const int64_t c = split.rule == SplitRule::ceil ? ceil_div(tiles, s) * g : ceil_div(k / s, g) * g;
      for (int64_t j = 0; j < s && c > 0 && j * c < k; ++j) add(j * c, (j + 1) * c);
      break;
    }
    case SplitRule::floor: {
      const int64_t c = k / g / s * g;
      if (c == 0) add(0, k);  // the last slice takes all of it
      for (int64_t j = 0; j < s && c > 0; ++j) add(j * c, j == s - 1 ? k : (j + 1) * c);
      break;
    }
    case SplitRule::big_first:
    case SplitRule::big_last: {
      int64_t first = 0;
      // If there are fewer tiles than slices, the first slices of big_last are empty.
      const int64_t empty = split.rule == SplitRule::big_last ? std::max<int64_t>(0, s - tiles) : 0;
      for (int64_t j = empty; j < s && first < k; ++j) {
        const bool is_big = split.rule == SplitRule::big_first ? j < tiles % s : j >= s - tiles % s;
        const int64_t last = first + (tiles / s + (is_big ? 1 : 0)) * g;
        add(first, last);
        first = last;
      }
      break;
    }
  }
  return slices;
}

int64_t k_added(const GemmPlan& plan, int64_t k) {
  int64_t added = 0;
  for (const auto& [first, last] : slices_of(plan.split_k, k)) added += last - first;
  return added;
}

}  // namespace bitmma
