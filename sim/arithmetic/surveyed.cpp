#include "bitmma/arithmetic/surveyed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace bitmma {
namespace {

// Rows of reports that were reviewed and are kept in data/surveys.
// clang-format off
constexpr int line_before_rules = __LINE__ + 1;
const std::vector<SurveyedRule> rules{  // target, family, A and B, D, scaling, quad pairs, GPU
};

constexpr int line_before_choices = __LINE__ + 1;
const std::vector<SurveyedChoice> choices{  // target, the choice, GPU
};
// clang-format on

constexpr std::string_view line_of_rules =
    "const std::vector<SurveyedRule> rules{  // target, family, A and B, D, scaling, quad pairs, GPU";
constexpr std::string_view line_of_choices = "const std::vector<SurveyedChoice> choices{  // target, the choice, GPU";

/// C++ spells enumerators as the table of formats has them.
std::string code_of(const SurveyedRule& row) {
  constexpr std::string_view families[]{"wgmma", "tcgen05", "mma_sync", "tmem_move"};
  constexpr std::string_view scalings[]{"none", "whole_k", "exact_groups"};
  std::vector<std::string> inputs;
  for (const FormatInfo& format : formats) {
    if (row.inputs.contains(format.id)) inputs.push_back(fmt::format("Format::{}", format.name));
  }
  return fmt::format("    {{Target::{}, Family::{}, {{{}}}, Format::{}, Scaling::{}, {}, \"{}\"}},", print(row.target),
                     families[static_cast<size_t>(row.family)], fmt::join(inputs, ", "), info(row.output).name,
                     scalings[static_cast<size_t>(row.scaling)], row.quad_pairs, row.gpu);
}

std::string code_of(const SurveyedChoice& row) {
  return fmt::format("    {{Target::{}, Choice::{}, \"{}\"}},", print(row.target), info(row.choice).name, row.gpu);
}

/// Lines that are put in between `line`, whose number in the file is `number`, and what stands there.
template <typename Row>
std::string hunk(const std::vector<Row>& rows, const std::vector<Row>& there, int number, std::string_view line,
                 int lines_before) {
  if (rows.empty()) return {};
  std::string text = fmt::format("@@ -{},2 +{},{} @@\n {}\n", number, number + lines_before, rows.size() + 2, line);
  for (const Row& row : rows) text += fmt::format("+{}\n", code_of(row));
  return text + fmt::format(" {}\n", there.empty() ? "};" : code_of(there.front()));
}

}  // namespace

const Surveyed& surveyed() {
  static const Surveyed all{rules, choices};
  return all;
}

bool names(const SurveyedRule& rule, const AccumulatorModel& row) {
  const auto key_of = [](const auto& one) {
    return std::tuple(one.family, one.inputs, one.output, one.scaling, one.quad_pairs);
  };
  return key_of(rule) == key_of(row);
}

const SurveyedRule* find_surveyed(const AccumulatorModel& model, Target target) {
  const auto found = std::ranges::find_if(surveyed().rules, [&](const SurveyedRule& row) {
    return info(row.target).adds_as == info(target).adds_as && names(row, model);
  });
  return found == surveyed().rules.end() ? nullptr : &*found;
}

bool is_surveyed_choice(Choice choice, Target target) {
  return std::ranges::any_of(surveyed().choices, [&](const SurveyedChoice& row) {
    return info(row.target).adds_as == info(target).adds_as && row.choice == choice;
  });
}

std::string patch_of(const Surveyed& more) {
  if (more.empty()) return {};
  constexpr std::string_view path = "sim/arithmetic/surveyed.cpp";
  return fmt::format(
      "--- a/{0}\n+++ b/{0}\n{1}{2}", path, hunk(more.rules, rules, line_before_rules, line_of_rules, 0),
      hunk(more.choices, choices, line_before_choices, line_of_choices, static_cast<int>(more.rules.size())));
}

}  // namespace bitmma
