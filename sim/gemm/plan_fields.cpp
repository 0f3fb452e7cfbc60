// SPDX-License-Identifier: MIT
// What the rows of plan.hpp do: JSON is read and printed by them, values are checked against them, print_plan has its
// phrases and docs/products.md its table from them. Special fields have their functions here.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>

#include "../core/ieee_environment.hpp"
#include "../core/json_reader.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/gemm/plan.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "plan_json.hpp"

namespace bitmma {
namespace {

/// The instruction of plans on CUDA cores.
constexpr std::string_view cuda_core_instruction = "fma.rn.f32";
/// Approximate activations of libraries, which a plan cannot express.
constexpr std::array approximations{std::string_view("gelu"), std::string_view("silu"), std::string_view("swish"),
                                    std::string_view("tanh"), std::string_view("sigmoid")};

template <typename T>
concept HasFields = requires {
  fields_of(static_cast<const T*>(nullptr));
};
template <typename T>
concept HasWords = requires {
  plan_words(T{});
};
template <typename T>
constexpr bool is_optional = false;
template <typename T>
constexpr bool is_optional<std::optional<T>> = true;
template <typename T>
constexpr bool is_list_of_objects = false;
template <HasFields T>
constexpr bool is_list_of_objects<std::vector<T>> = true;

/// Calls visit(row) for the rows of a struct.
template <typename Owner, typename Visit>
void for_each_field(const Visit& visit) {
  static constexpr auto rows = fields_of(static_cast<const Owner*>(nullptr));
  std::apply([&](const auto&... row) { (visit(row), ...); }, rows);
}

template <typename Row>
bool applies_to(const Row& row, const auto& owner) {
  return !row.applies || row.applies(owner);
}

template <typename Value>
std::string_view word_of(Value value) {
  static constexpr auto words = plan_words(Value{});
  const auto place = static_cast<size_t>(value);
  return place < words.size() ? words[place] : "another";
}

/// A value that is not an object, as phrases and pages print it.
template <typename Value>
std::string text_of(const Value& value, const PlanFieldText& text) {
  if constexpr (std::is_same_v<Value, bool>) {
    if (text.yes.empty()) return value ? "true" : "false";
    return std::string(value ? text.yes : text.no);
  } else if constexpr (HasWords<Value>) {
    return std::string(word_of(value));
  } else if constexpr (std::is_same_v<Value, Format>) {
    return std::string(info(value).name);
  } else if constexpr (std::is_same_v<Value, Target>) {
    return std::string(print(value));
  } else if constexpr (std::is_arithmetic_v<Value>) {
    return fmt::format("{}", value);
  } else {
    return "";
  }
}

/// What a field may have, as pages print it.
template <typename Value>
std::string values_of(const PlanFieldText& text) {
  if (!text.values.empty()) return std::string(text.values);
  if constexpr (std::is_same_v<Value, bool>) {
    return text_of(false, text) + ", " + text_of(true, text);
  } else if constexpr (std::is_integral_v<Value>) {
    return text.max >= plan_limits::number ? fmt::format("{} or more", text.min)
                                           : fmt::format("{}..{}", text.min, text.max);
  } else if constexpr (HasWords<Value>) {
    return fmt::format("{}", fmt::join(plan_words(Value{}), ", "));
  } else if constexpr (is_optional<Value>) {
    return values_of<typename Value::value_type>(text);
  } else if constexpr (HasFields<Value>) {
    return "an object";
  } else if constexpr (is_list_of_objects<Value>) {
    return "a list of objects";
  } else {
    return std::is_same_v<Value, float> ? "a number" : "a text";
  }
}

// Reading

void read_special(Promotion& promotion, const std::string& key, const JsonReader& json) {
  const Json per_row({1, 128}), per_block({128, 128});
  const Json& blocks = json.json()[key];
  if (key == "sa" && blocks != per_row) json.refuse(key, "[1, 128]: one scale per row and 128 of K");
  if (key == "sa") return;
  if (blocks != per_row && blocks != per_block)
    json.refuse(key, "[1, 128] or [128, 128]: one scale per column, or per 128 columns, and 128 of K");
  promotion.columns_of_sb = blocks == per_row ? 1 : 128;
}

void read_special(Region& region, const std::string& key, const JsonReader& json) {
  const Json& tiles = json.json()[key];
  const bool is_pair =
      tiles.is_array() && tiles.size() == 2 && tiles[0].is_number_integer() && tiles[1].is_number_integer();
  if (!is_pair) json.refuse(key, "[first, last]");
  region.first_tile = tiles[0].get<int64_t>(), region.last_tile = tiles[1].get<int64_t>();
}

void read_special(EpilogueOp& op, const std::string& key, const JsonReader& json) {
  const Json& kind = json.json()[key];
  if (kind.is_string() && std::ranges::find(approximations, kind.get<std::string>()) != approximations.end())
    json.refuse(key, "an operation with defined bits: each library approximates this one differently");
  static constexpr auto words = plan_words(EpilogueKind{});
  op.kind = static_cast<EpilogueKind>(json.word(key, words));
  if (op.kind == EpilogueKind::beta_c) op.beta = 1;
}

Format format_in(const JsonReader& json, const std::string& key) {
  const std::string name = json.text(key);
  if (const std::optional<Format> format = format_named(name)) return *format;
  throw Error({.field = json.name(key),
               .seen = shortened(name),
               .expected = "the name of a format, as PTX spells it, such as bf16 or e2m1"});
}

struct TypeField {
  const char* key;
  Format ShapeAndTypes::*type;
};
constexpr auto type_fields = std::to_array<TypeField>({{"a", &ShapeAndTypes::a},
                                                       {"b", &ShapeAndTypes::b},
                                                       {"d", &ShapeAndTypes::d},
                                                       {"scale", &ShapeAndTypes::scale_type}});

/// The types of a tcgen05.mma, which its mnemonic does not state, and K if the kind has two.
void read_types(GemmPlan& plan, const std::string& key, const JsonReader& plan_json) {
  TensorCoreChain* const chain = std::get_if<TensorCoreChain>(&plan.chain);
  std::optional<ShapeAndTypes> types = chain ? shape_and_types_of(chain->instruction) : std::nullopt;
  if (!types) {
    throw Error({.code = ViolationCode::no_effect,
                 .field = plan_json.name(key),
                 .seen = "given",
                 .expected = "absent except with tcgen05.mma: other mnemonics contain their types"});
  }
  const JsonReader json = plan_json.object(key);
  for (const TypeField& field : type_fields) {
    if (json.has(field.key)) (*types).*field.type = format_in(json, field.key);
  }
  if (json.has("k")) types->k = static_cast<int>(json.whole("k", 1, plan_limits::number));
  for (const auto& [name, value] : json.json().items()) {
    if (name != "k" && std::ranges::find(type_fields, name, &TypeField::key) == type_fields.end())
      json.refuse(name, "a, b, d, scale or k");
  }
  chain->instruction = with_shape_and_types(chain->instruction, *types);
}

void read_special(GemmPlan& plan, const std::string& key, const JsonReader& json) {
  if (key == "types") return read_types(plan, key, json);
  if (key == "evidence") {
    const JsonReader fields = json.object(key);
    for (const auto& [field, value] : fields.json().items())
      plan.evidence[field] = read_evidence(value, fields.name(field));
    return;
  }
  const Json& instruction = json.json()[key];
  if (!instruction.is_string()) json.refuse(key, "a PTX mnemonic with all qualifiers");
  if (instruction == cuda_core_instruction) plan.chain = CudaCoreChain{};
  else plan.chain = TensorCoreChain{.instruction = parse_instruction(instruction.get<std::string>())};
}

template <typename Owner>
void read_fields(Owner& owner, const JsonReader& json);

template <typename Value>
void read_value(Value& value, const PlanFieldText& text, const JsonReader& json) {
  const std::string key(text.name);
  if constexpr (std::is_same_v<Value, bool>) {
    value = text.yes.empty() ? json.flag(key) : json.word(key, std::array{text.no, text.yes}) == 1;
  } else if constexpr (std::is_integral_v<Value>) {
    value = static_cast<Value>(json.whole(key, text.min, text.max));
  } else if constexpr (std::is_same_v<Value, float>) {
    value = json.real(key);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    value = json.text(key);
  } else if constexpr (std::is_same_v<Value, Format>) {
    value = format_in(json, key);
  } else if constexpr (std::is_same_v<Value, Target>) {
    value = target_from(json.text(key));
  } else if constexpr (HasWords<Value>) {
    static constexpr auto words = plan_words(Value{});
    value = static_cast<Value>(json.word(key, words));
  } else if constexpr (is_optional<Value>) {
    read_value(value.emplace(), text, json);
  } else if constexpr (HasFields<Value>) {
    value = Value{};
    read_fields(value, json.object(key));
  } else if constexpr (is_list_of_objects<Value>) {
    for (const JsonReader& element : json.objects(key)) read_fields(value.emplace_back(), element);
  } else if constexpr (std::is_same_v<Value, std::vector<int64_t>>) {
    const Json& numbers = json.json()[key];
    const bool are_whole = numbers.is_array() &&
                           std::ranges::all_of(numbers, [](const Json& number) { return number.is_number_integer(); });
    if (!are_whole) json.refuse(key, "an array of whole numbers");
    value = numbers.get<Value>();
  } else {
    static_assert(std::is_same_v<Value, std::pair<int, int>>);
    const Json& pair = json.json()[key];
    const bool is_pair =
        pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() && pair[1].is_number_unsigned();
    if (!is_pair) json.refuse(key, std::string(text.values));
    value = {pair[0].get<int>(), pair[1].get<int>()};
  }
}

template <typename Owner, typename Value>
void read_field(const PlanField<Owner, Value>& row, Owner& owner, const JsonReader& json) {
  const std::string key(row.text.name);
  if (!json.has(key)) return;
  if (!applies_to(row, owner)) json.refuse(key, "absent: nothing in this plan uses it");
  read_value(owner.*row.member, row.text, json);
}

template <typename Owner>
void read_field(const SpecialPlanField<Owner>& row, Owner& owner, const JsonReader& json) {
  const std::string key(row.text.name);
  if (json.has(key)) return read_special(owner, key, json);
  if constexpr (std::is_same_v<Owner, EpilogueOp>) json.refuse(key, values_of<EpilogueKind>({}));
  else if (std::is_same_v<Owner, Region>) json.refuse(key, std::string(row.text.values));
}

/// Throws Error for a key that is not one of the rows.
void require_known(const JsonReader& json, const std::vector<std::string_view>& names) {
  for (const auto& [key, value] : json.json().items()) {
    if (std::ranges::find(names, key) != names.end()) continue;
    const std::string near = nearest(key, std::vector<std::string>(names.begin(), names.end()));
    json.refuse(key, near.empty() ? "a field of plans; docs/products.md lists them"
                                  : fmt::format("a field of plans; did you mean {}?", near));
  }
}

template <typename Owner, typename... Rows>
void read_field(const PlanFieldGroup<Owner, Rows...>& group, Owner& owner, const JsonReader& json) {
  const std::string key(group.text.name);
  if (!json.has(key)) return;
  const JsonReader inside = json.object(key);
  std::vector<std::string_view> names;
  const auto read = [&](const auto& row) {
    read_field(row, owner, inside);
    names.push_back(row.text.name);
  };
  std::apply([&](const auto&... row) { (read(row), ...); }, group.rows);
  require_known(inside, names);
}

template <typename Owner, typename Variant, typename Alternative>
void read_field(const PlanAlternative<Owner, Variant, Alternative>& row, Owner& owner, const JsonReader& json) {
  Alternative* const alternative = std::get_if<Alternative>(&(owner.*row.member));
  const auto refuse_if_present = [&](std::string_view name) {
    if (json.has(std::string(name)))
      json.refuse(std::string(name),
                  fmt::format("absent: it is of a plan with {}", std::is_same_v<Alternative, CudaCoreChain>
                                                                     ? cuda_core_instruction
                                                                     : "a tensor-core instruction"));
  };
  if (!row.text.name.empty()) {
    if (alternative && json.has(std::string(row.text.name))) read_value(*alternative, row.text, json);
    if (!alternative) refuse_if_present(row.text.name);
    return;
  }
  for_each_field<Alternative>([&](const auto& field) {
    if (alternative) read_field(field, *alternative, json);
    else refuse_if_present(field.text.name);
  });
}

template <typename Owner>
void add_names(std::vector<std::string_view>& names) {
  for_each_field<Owner>([&](const auto& row) { names.push_back(row.text.name); });
}

template <typename Owner>
void read_fields(Owner& owner, const JsonReader& json) {
  for_each_field<Owner>([&](const auto& row) { read_field(row, owner, json); });
  std::vector<std::string_view> names;
  add_names<Owner>(names);
  if constexpr (std::is_same_v<Owner, GemmPlan>) add_names<TensorCoreChain>(names);
  require_known(json, names);
}

// Printing

/// Nothing if the field has its default.
std::optional<Json> special_json(const Promotion& promotion, std::string_view key) {
  if (key != "sb" || promotion.columns_of_sb == 0) return std::nullopt;
  return Json{promotion.columns_of_sb, 128};
}
std::optional<Json> special_json(const Region& region, std::string_view) {
  return Json{region.first_tile, region.last_tile};
}
std::optional<Json> special_json(const EpilogueOp& op, std::string_view) { return word_of(op.kind); }

/// The types that differ from those of the mnemonic.
std::optional<Json> types_json(const Instruction& instruction) {
  const std::optional<ShapeAndTypes> types = shape_and_types_of(instruction);
  if (!types) return std::nullopt;
  const ShapeAndTypes defaults = *shape_and_types_of(parse_instruction(print(instruction)));
  Json json = Json::object();
  for (const TypeField& field : type_fields) {
    if ((*types).*field.type != defaults.*field.type) json[field.key] = info((*types).*field.type).name;
  }
  if (types->k != 0) json["k"] = types->k;
  return json.empty() ? std::nullopt : std::optional(json);
}

Json evidence_json(const FieldEvidence& evidence, Target target) {
  if (evidence.level == EvidenceLevel::stated && !evidence.seen_on) return evidence.note;
  const EvidenceLevel level = level_on(evidence, target);
  Json json{{"level", print(level)}};
  if (level != evidence.level) json["seen"] = print(evidence.level);
  if (evidence.seen_on) json["seen_on"] = print(*evidence.seen_on);
  if (evidence.only_by_this_name) json["only_by_this_name"] = true;
  if (!evidence.gpus.empty()) json["gpus"] = evidence.gpus;
  if (!evidence.note.empty()) json["note"] = evidence.note;
  json["text"] = print(evidence, target);
  return json;
}

std::optional<Json> special_json(const GemmPlan& plan, std::string_view key) {
  if (key == "instruction") return print_instruction(plan);
  if (key == "types") return plan.tensor_cores() ? types_json(plan.tensor().instruction) : std::nullopt;
  if (plan.evidence.empty()) return std::nullopt;
  Json json = Json::object();
  for (const auto& [field, evidence] : plan.evidence) json[field] = evidence_json(evidence, plan.target);
  return json;
}

template <typename Owner>
Json fields_json(const Owner& owner);

template <typename Value>
Json json_of(const Value& value, const PlanFieldText& text) {
  if constexpr (std::is_same_v<Value, bool>) {
    if (text.yes.empty()) return value;
    return text_of(value, text);
  } else if constexpr (is_optional<Value>) {
    return json_of(*value, text);
  } else if constexpr (HasFields<Value>) {
    return fields_json(value);
  } else if constexpr (is_list_of_objects<Value>) {
    Json list = Json::array();
    for (const auto& element : value) list.push_back(fields_json(element));
    return list;
  } else if constexpr (std::is_same_v<Value, std::pair<int, int>>) {
    return Json{value.first, value.second};
  } else if constexpr (std::is_enum_v<Value>) {
    return text_of(value, text);
  } else {
    return value;
  }
}

template <typename Owner>
const Owner& default_of() {
  static const Owner owner;
  return owner;
}

template <typename Owner, typename Value>
void print_field(const PlanField<Owner, Value>& row, const Owner& owner, Json& json) {
  if (!applies_to(row, owner)) return;
  const Value& value = owner.*row.member;
  if (!row.text.is_always_printed && value == default_of<Owner>().*row.member) return;
  json[std::string(row.text.name)] = json_of(value, row.text);
}
template <typename Owner>
void print_field(const SpecialPlanField<Owner>& row, const Owner& owner, Json& json) {
  if (std::optional<Json> value = special_json(owner, row.text.name))
    json[std::string(row.text.name)] = std::move(*value);
}
template <typename Owner, typename... Rows>
void print_field(const PlanFieldGroup<Owner, Rows...>& group, const Owner& owner, Json& json) {
  Json inside = Json::object();
  std::apply([&](const auto&... row) { (print_field(row, owner, inside), ...); }, group.rows);
  if (!inside.empty()) json[std::string(group.text.name)] = std::move(inside);
}
template <typename Owner, typename Variant, typename Alternative>
void print_field(const PlanAlternative<Owner, Variant, Alternative>& row, const Owner& owner, Json& json) {
  const Alternative* const alternative = std::get_if<Alternative>(&(owner.*row.member));
  if (!alternative) return;
  if (row.text.name.empty())
    for_each_field<Alternative>([&](const auto& field) { print_field(field, *alternative, json); });
  else if (*alternative != Alternative{}) json[std::string(row.text.name)] = fields_json(*alternative);
}

template <typename Owner>
Json fields_json(const Owner& owner) {
  Json json = Json::object();
  for_each_field<Owner>([&](const auto& row) { print_field(row, owner, json); });
  return json;
}

// Checking

/// Where a value is, from the inside out.
struct Path {
  const Path* outside = nullptr;
  std::string_view name = {};
  int index = -1;  // in a list

  std::string text() const {
    const std::string own = index < 0 ? std::string(name) : fmt::format("{}[{}]", name, index);
    return outside ? fmt::format("{}.{}", outside->text(), own) : own;
  }
};

template <typename Owner>
void check_fields(const Owner& owner, const Path* path, std::vector<Violation>& violations);

template <typename Value>
void check_value(const Value& value, const Value& by_default, const PlanFieldText& text, const Path& path,
                 std::vector<Violation>& violations) {
  if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>) {
    if (value == by_default || (value >= text.min && value <= text.max)) return;
    violations.push_back({.field = "plan: " + path.text(),
                          .seen = std::to_string(value),
                          .expected = fmt::format("a whole number in {}..{}", text.min, text.max)});
  } else if constexpr (HasWords<Value>) {
    static constexpr auto words = plan_words(Value{});
    if (static_cast<size_t>(value) < words.size()) return;
    violations.push_back({.field = "plan: " + path.text(), .seen = "another", .legal = {words.begin(), words.end()}});
  } else if constexpr (is_optional<Value>) {
    if (value) check_value(*value, *value, text, path, violations);
  } else if constexpr (HasFields<Value>) {
    check_fields(value, &path, violations);
  } else if constexpr (is_list_of_objects<Value>) {
    for (size_t i = 0; i < value.size(); ++i) {
      const Path element{.outside = path.outside, .name = path.name, .index = static_cast<int>(i)};
      check_fields(value[i], &element, violations);
    }
  }
}

template <typename Owner, typename Value>
void check_field(const PlanField<Owner, Value>& row, const Owner& owner, const Path* path,
                 std::vector<Violation>& violations) {
  if (!applies_to(row, owner)) return;
  check_value(owner.*row.member, default_of<Owner>().*row.member, row.text,
              Path{.outside = path, .name = row.text.name}, violations);
}
template <typename Owner>
void check_field(const SpecialPlanField<Owner>&, const Owner&, const Path*, std::vector<Violation>&) {}
template <typename Owner, typename... Rows>
void check_field(const PlanFieldGroup<Owner, Rows...>& group, const Owner& owner, const Path* path,
                 std::vector<Violation>& violations) {
  const Path inside{.outside = path, .name = group.text.name};
  std::apply([&](const auto&... row) { (check_field(row, owner, &inside, violations), ...); }, group.rows);
}
template <typename Owner, typename Variant, typename Alternative>
void check_field(const PlanAlternative<Owner, Variant, Alternative>& row, const Owner& owner, const Path* path,
                 std::vector<Violation>& violations) {
  const Alternative* const alternative = std::get_if<Alternative>(&(owner.*row.member));
  const Path inside{.outside = path, .name = row.text.name};
  if (alternative) check_fields(*alternative, row.text.name.empty() ? path : &inside, violations);
}

template <typename Owner>
void check_fields(const Owner& owner, const Path* path, std::vector<Violation>& violations) {
  for_each_field<Owner>([&](const auto& row) { check_field(row, owner, path, violations); });
}

// Phrases

struct Phrases {
  std::vector<std::string> list = {};
  bool of_family = false;

  template <typename Owner>
  void add_fields(const Owner& owner) {
    for_each_field<Owner>([&](const auto& row) { add(row, owner); });
  }

  void add_value(const Promotion& promotion) {
    list.push_back(fmt::format(
        "promotion every {}{}", promotion.every,
        promotion.scale == PromotionScale::none ? "" : fmt::format(" with scales ({})", word_of(promotion.scale))));
  }
  void add_value(const SplitK& split) {
    if (!split.cuts.empty()) list.push_back(fmt::format("K cut into {}", split.cuts.size() - 1));
    else if (split.count > 1 && of_family) list.push_back(fmt::format("split-K {}", word_of(split.rule)));
    else if (split.count > 1)
      list.push_back(fmt::format("split-K {} ({}, unit {})", split.count, word_of(split.rule), split.unit));
  }
  void add_value(const Reduction& reduction) { add_fields(reduction); }
  void add_value(const CudaCoreChain& lanes) {
    list.emplace_back("CUDA cores");
    if (lanes.count > 1) list.push_back(fmt::format("{} lanes joined {}", lanes.count, word_of(lanes.join)));
    add_fields(lanes);
  }
  void add_value(const TensorCoreChain& chain) {
    if (mma_of(chain.instruction).d == Format::f16) list.emplace_back("f16 accumulators");
    add_fields(chain);
  }

  template <typename Owner, typename Value>
  void add(const PlanField<Owner, Value>& row, const Owner& owner) {
    const Value& value = owner.*row.member;
    if (!applies_to(row, owner) || value == default_of<Owner>().*row.member) return;
    if constexpr (std::is_same_v<Value, std::vector<EpilogueOp>>) {
      for (const EpilogueOp& op : value) list.emplace_back(word_of(op.kind));
    } else if constexpr (is_optional<Value>) {
      if constexpr (HasFields<typename Value::value_type>) add_value(*value);
    } else if constexpr (HasFields<Value>) {
      add_value(value);
    } else if (!row.text.phrase.empty() && !(row.text.is_of_call && of_family)) {
      list.push_back(fmt::format(fmt::runtime(row.text.phrase), text_of(value, row.text)));
    }
  }
  template <typename Owner>
  void add(const SpecialPlanField<Owner>&, const Owner&) {}
  template <typename Owner, typename... Rows>
  void add(const PlanFieldGroup<Owner, Rows...>& group, const Owner& owner) {
    std::apply([&](const auto&... row) { (add(row, owner), ...); }, group.rows);
  }
  template <typename Owner, typename Variant, typename Alternative>
  void add(const PlanAlternative<Owner, Variant, Alternative>& row, const Owner& owner) {
    if (const Alternative* const alternative = std::get_if<Alternative>(&(owner.*row.member))) add_value(*alternative);
  }
};

std::string phrases_of(const GemmPlan& plan, bool of_family) {
  return in_ieee_environment([&] {
    Phrases phrases{.of_family = of_family};
    phrases.add_fields(plan);
    if (phrases.list.empty()) phrases.list.emplace_back("flat");
    return fmt::format("{}", fmt::join(phrases.list, ", "));
  });
}

// Pages

template <typename Value>
std::string default_text(const Value& by_default, const PlanFieldText& text) {
  if (!text.by_default.empty()) return std::string(text.by_default);
  if constexpr (is_optional<Value>) return "none";
  else return text_of(by_default, text);
}

struct Pages {
  std::vector<PlanFieldInfo> rows = {};

  template <typename Owner>
  void add_fields(const std::string& before) {
    for_each_field<Owner>([&](const auto& row) { add(row, before); });
  }
  PlanFieldInfo& add_row(const PlanFieldText& text, const std::string& before) {
    return rows.emplace_back(PlanFieldInfo{.name = before + std::string(text.name),
                                           .values = std::string(text.values),
                                           .by_default = std::string(text.by_default),
                                           .meaning = std::string(text.meaning),
                                           .evidence = std::string(text.evidence)});
  }
  template <typename Value>
  void add_inside(const std::string& name) {
    if constexpr (is_optional<Value> || is_list_of_objects<Value>) add_inside<typename Value::value_type>(name);
    else if constexpr (HasFields<Value>) add_fields<Value>(name + ".");
  }

  template <typename Owner, typename Value>
  void add(const PlanField<Owner, Value>& row, const std::string& before) {
    PlanFieldInfo& page_row = add_row(row.text, before);
    page_row.values = values_of<Value>(row.text);
    page_row.by_default = default_text(default_of<Owner>().*row.member, row.text);
    if (!std::is_same_v<Owner, Region>) add_inside<Value>(std::string(page_row.name));  // a region's are the plan's
  }
  template <typename Owner>
  void add(const SpecialPlanField<Owner>& row, const std::string& before) {
    PlanFieldInfo& page_row = add_row(row.text, before);
    if (std::is_same_v<Owner, EpilogueOp>) page_row.values = values_of<EpilogueKind>({});
  }
  template <typename Owner, typename... Rows>
  void add(const PlanFieldGroup<Owner, Rows...>& group, const std::string& before) {
    add_row(group.text, before).values = "an object";
    const std::string inside = before + std::string(group.text.name) + ".";
    std::apply([&](const auto&... row) { (add(row, inside), ...); }, group.rows);
  }
  template <typename Owner, typename Variant, typename Alternative>
  void add(const PlanAlternative<Owner, Variant, Alternative>& row, const std::string& before) {
    if (row.text.name.empty()) return add_fields<Alternative>(before);
    add_row(row.text, before).values = "an object";
    add_fields<Alternative>(before + std::string(row.text.name) + ".");
  }
};

}  // namespace

FieldEvidence read_evidence(const Json& json, const std::string& where) {
  if (json.is_string()) return {.level = EvidenceLevel::stated, .note = json.get<std::string>()};
  const JsonReader reader(json, where);
  static const std::vector<std::string> names = row_names(plan_evidence_levels);
  const std::vector<std::string_view> levels(names.begin(), names.end());
  const bool is_lowered = reader.has("seen");
  FieldEvidence evidence{.level = static_cast<EvidenceLevel>(reader.word(is_lowered ? "seen" : "level", levels))};
  if (reader.has("seen_on")) evidence.seen_on = target_from(reader.text("seen_on"));
  if (reader.has("only_by_this_name")) evidence.only_by_this_name = reader.flag("only_by_this_name");
  if (reader.has("gpus")) evidence.gpus = reader.text("gpus");
  if (reader.has("note")) evidence.note = reader.text("note");
  reader.require_keys({"level", "seen", "seen_on", "only_by_this_name", "gpus", "note", "text"});
  return evidence;
}

GemmPlan read_plan(const Json& json, const GemmPlan& base) {
  GemmPlan plan{.target = base.target, .chain = base.chain, .output = base.output};
  read_fields(plan, JsonReader(json, "plan: "));
  return plan;
}

Json plan_json(const GemmPlan& plan) {
  return in_ieee_environment([&] { return fields_json(plan); });
}

std::string print_json(const GemmPlan& plan) { return json_text(plan_json(plan)); }

std::vector<Violation> values_out_of_range(const GemmPlan& plan) {
  std::vector<Violation> violations;
  check_fields(plan, nullptr, violations);
  return violations;
}

std::string_view print(EpilogueKind kind) { return word_of(kind); }

std::string print_plan(const GemmPlan& plan) { return phrases_of(plan, false); }

std::string print_family(const GemmPlan& plan) { return phrases_of(plan, true); }

std::string print_instruction(const GemmPlan& plan) {
  return plan.cuda_cores() ? std::string(cuda_core_instruction) : print(plan.tensor().instruction);
}

std::vector<PlanFieldInfo> plan_fields() {
  Pages pages;
  pages.add_fields<GemmPlan>("");
  return std::move(pages.rows);
}

}  // namespace bitmma
