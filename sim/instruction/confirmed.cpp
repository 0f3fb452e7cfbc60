// SPDX-License-Identifier: MIT
#include "bitmma/instruction/confirmed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>

#include "../core/json.hpp"
#include "bitmma/core/error.hpp"

namespace bitmma {

extern const char* const confirmed_json;  // data/surveys/confirmed.json

namespace {

constexpr std::array families{Family::wgmma, Family::tcgen05, Family::mma_sync, Family::tmem_move};
constexpr std::array<std::string_view, 3> scalings{"none", "whole_k", "exact_groups"};

template <typename Row>
auto key_of(const Row& row) {
  return std::tuple(row.family, row.inputs, row.output, row.scaling, row.quad_pairs);
}

Json json_of(const ConfirmedRule& row) {
  Json inputs = Json::array();
  for (const FormatInfo& format : formats) {
    if (row.inputs.contains(format.id)) inputs.push_back(format.name);
  }
  return {{"target", print(row.target)},
          {"family", print(row.family)},
          {"inputs", std::move(inputs)},
          {"output", info(row.output).name},
          {"scaling", scalings[static_cast<size_t>(row.scaling)]},
          {"quad_pairs", row.quad_pairs},
          {"gpu", row.gpu}};
}

Json json_of(const ConfirmedChoice& row) {
  return {{"target", print(row.target)}, {"choice", info(row.choice).name}, {"gpu", row.gpu}};
}

/// Reads one row of the file. It must have exactly the known keys.
class FactReader {
 public:
  FactReader(const Json& row, std::string where, size_t keys) : row_(row), where_(std::move(where)) {
    if (!row.is_object() || row.size() != keys)
      throw Error({.code = ViolationCode::malformed,
                   .field = where_,
                   .seen = json_text(row),
                   .expected = fmt::format("an object with {} keys", keys)});
  }

  std::string text(const char* key) const { return value(key, Json::value_t::string).get<std::string>(); }
  bool flag(const char* key) const { return value(key, Json::value_t::boolean).get<bool>(); }

  /// The index in `rows` of the row whose name is the value of `key`.
  template <typename Rows, typename Name>
  size_t place_in(const Rows& rows, const char* key, Name name) const {
    return place_of(rows, key, text(key), name);
  }

  FormatSet formats_at(const char* key) const {
    FormatSet set;
    for (const Json& json : value(key, Json::value_t::array))
      set.add(formats[place_of(formats, key, json.is_string() ? json.get<std::string>() : json_text(json),
                               &FormatInfo::name)]
                  .id);
    return set;
  }

 private:
  const Json& value(const char* key, Json::value_t type) const {
    const auto entry = row_.find(key);
    if (entry == row_.end() || entry->type() != type)
      throw Error({.code = ViolationCode::malformed,
                   .field = fmt::format("{}: {}", where_, key),
                   .seen = entry == row_.end() ? "(missing)" : json_text(*entry),
                   .expected = std::string("a value of type ") + Json(type).type_name()});
    return *entry;
  }

  template <typename Rows, typename Name>
  size_t place_of(const Rows& rows, const char* key, const std::string& seen, Name name) const {
    const auto match = std::ranges::find(rows, seen, name);
    if (match != std::ranges::end(rows)) return static_cast<size_t>(match - std::ranges::begin(rows));
    std::vector<std::string> legal;
    for (const auto& row : rows) legal.emplace_back(std::invoke(name, row));
    throw Error({.field = fmt::format("{}: {}", where_, key), .seen = seen, .legal = std::move(legal)});
  }

  const Json& row_;
  std::string where_;
};

ConfirmedRule rule_of(const Json& row, const std::string& where) {
  const FactReader read(row, where, 7);
  return {.target = parse_target(read.text("target")),
          .family = families[read.place_in(families, "family", [](Family family) { return print(family); })],
          .inputs = read.formats_at("inputs"),
          .output = formats[read.place_in(formats, "output", &FormatInfo::name)].id,
          .scaling = static_cast<Scaling>(read.place_in(scalings, "scaling", std::identity{})),
          .quad_pairs = read.flag("quad_pairs"),
          .gpu = read.text("gpu")};
}

ConfirmedChoice choice_of(const Json& row, const std::string& where) {
  const FactReader read(row, where, 3);
  return {.target = parse_target(read.text("target")),
          .choice = choice_table[read.place_in(choice_table, "choice", &ChoiceInfo::name)].id,
          .gpu = read.text("gpu")};
}

template <typename Row>
std::string lines_of(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) text += fmt::format("{}\n    {}", text.empty() ? "" : ",", json_text(json_of(row)));
  return text.empty() ? text : text + "\n  ";
}

template <typename Row>
std::vector<Row> rows_of(const Json& file, const char* key, Row (*read)(const Json&, const std::string&)) {
  std::vector<Row> rows;
  const auto list = file.find(key);
  if (list == file.end() || !list->is_array())
    throw Error({.code = ViolationCode::malformed,
                 .field = key,
                 .seen = list == file.end() ? "(missing)" : json_text(*list),
                 .expected = "a list of rows"});
  for (const Json& row : *list) rows.push_back(read(row, fmt::format("{}[{}]", key, rows.size())));
  return rows;
}

bool add_alike(Target a, Target b) { return info(a).adds_as == info(b).adds_as; }

}  // namespace

void Confirmed::add(const Confirmed& more) {
  for (const ConfirmedRule& row : more.rules) {
    const auto is_there = [&](const ConfirmedRule& rule) {
      return rule.target == row.target && key_of(rule) == key_of(row);
    };
    if (std::ranges::none_of(rules, is_there)) rules.push_back(row);
  }
  for (const ConfirmedChoice& row : more.choices) {
    const auto is_there = [&](const ConfirmedChoice& choice) {
      return choice.target == row.target && choice.choice == row.choice;
    };
    if (std::ranges::none_of(choices, is_there)) choices.push_back(row);
  }
}

const Confirmed& confirmed() {
  static const Confirmed all = parse_confirmed(confirmed_json);
  return all;
}

std::string print(const Confirmed& rows) {
  return fmt::format("{{\n  \"rules\": [{}],\n  \"choices\": [{}]\n}}\n", lines_of(rows.rules), lines_of(rows.choices));
}

Confirmed parse_confirmed(std::string_view json) {
  const Json file = parse_json(json);
  if (!file.is_object())
    throw Error(
        {.code = ViolationCode::malformed, .field = "confirmed", .seen = "no JSON", .expected = "rules and choices"});
  return {.rules = rows_of(file, "rules", rule_of), .choices = rows_of(file, "choices", choice_of)};
}

bool names(const ConfirmedRule& rule, const AccumulatorModel& row) { return key_of(rule) == key_of(row); }

const ConfirmedRule* find_confirmed(const AccumulatorModel& model, Target target) {
  const auto rule = std::ranges::find_if(
      confirmed().rules, [&](const ConfirmedRule& row) { return add_alike(row.target, target) && names(row, model); });
  return rule == confirmed().rules.end() ? nullptr : &*rule;
}

bool is_confirmed(Choice choice, Target target) {
  return std::ranges::any_of(confirmed().choices, [&](const ConfirmedChoice& row) {
    return add_alike(row.target, target) && row.choice == choice;
  });
}

}  // namespace bitmma
