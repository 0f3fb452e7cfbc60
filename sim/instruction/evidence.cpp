// SPDX-License-Identifier: MIT
#include "bitmma/instruction/evidence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "bitmma/instruction/confirmed.hpp"
#include "bitmma/instruction/execute.hpp"
#include "family.hpp"

namespace bitmma {
namespace {

static_assert(are_in_enum_order(evidence_levels));

std::vector<Choice> choices_in(const Instruction& instruction, Target target, const State* state) {
  std::vector<Choice> choices = family::dispatch(
      [&](const auto& alternative) { return family::choices(alternative, target, state); }, instruction);
  std::erase_if(choices, [&](Choice choice) { return is_confirmed(choice, target); });
  return choices;
}

bool has_arithmetic_choice(const Instruction& instruction, Target target) {
  return std::ranges::any_of(choices_of(instruction, target), is_arithmetic);
}

bool speaks_of(const EvidenceRow& row, const Instruction& instruction, Target target) {
  const auto is_chip = [&](const TargetInfo& target_info) {
    return row.chips.contains(target_info.id) && target_info.chip == info(target).chip;
  };
  if (std::ranges::none_of(targets, is_chip)) return false;
  const auto allows = [](const FormatSet& set, Format format) { return set == FormatSet{} || set.contains(format); };
  const Mma mma = mma_of(instruction);
  const int k = mma.products == 1 ? mma.k : mma.a_cols();
  return std::tuple(row.family, row.kind) == std::tuple(mma.family, mma.kind) && allows(row.a, mma.a) &&
         allows(row.b, mma.b) && allows(row.d, mma.d) &&
         (row.c == FormatSet{} ? mma.c == mma.d || row.d == FormatSet{} : row.c.contains(mma.c)) &&
         (row.k == std::array<int, 4>{} || std::ranges::find(row.k, k) != row.k.end()) &&
         (row.sparsity == EvidenceSparsity::both || (row.sparsity == EvidenceSparsity::sparse) == mma.sparse) &&
         (row.scale_count == 0 || row.scale_count == mma.scale_count) && allows(row.scale_types, mma.scale_type) &&
         mma.cta_group == 1 && !mma.weight_stationary;
}

/// An instruction of a form, with the properties that evidence distinguishes.
struct Variant {
  Evidence level = Evidence::model_choice;
  bool is_plain = true;  // dense, cta_group::1, without .ws and .satfinite
  std::vector<std::string> tags;
};

bool is_plain(const Mma& mma) { return !mma.sparse && !mma.weight_stationary && mma.cta_group == 1 && !mma.saturate; }

std::vector<std::string> tags_of(const Mma& mma) {
  std::vector<std::string> tags{fmt::format("{} x {}", info(mma.a).name, info(mma.b).name)};
  if (mma.scale_count > 0) tags.push_back(fmt::format("{}X {}", mma.scale_count, info(mma.scale_type).name));
  if (mma.sparse) tags.emplace_back(".sp");
  if (mma.weight_stationary) tags.emplace_back(".ws");
  if (mma.cta_group == 2) tags.emplace_back("cta_group::2");
  if (mma.saturate) tags.emplace_back(".satfinite");
  return tags;
}

/// The mnemonic with every type that its instruction descriptor can encode, legal or not.
std::vector<Instruction> with_all_types(const Form& form, const Instruction& mnemonic) {
  const std::optional<ShapeAndTypes> fields = shape_and_types_of(mnemonic);
  if (!fields) return {mnemonic};
  FormatSet scales{fields->scale_type};
  if (!form.scales.empty()) scales = {Format::ue8m0, Format::ue4m3, Format::ue5m3};
  std::vector<Instruction> all;
  for (const FormatInfo& a : formats) {
    for (const FormatInfo& b : formats) {
      for (const FormatInfo& scale : formats) {
        if (!form.a.contains(a.id) || !form.b.contains(b.id) || !scales.contains(scale.id)) continue;
        ShapeAndTypes changed = *fields;
        changed.a = a.id, changed.b = b.id, changed.scale_type = scale.id;
        all.push_back(with_shape_and_types(mnemonic, changed));
      }
    }
  }
  return all;
}

/// Every variant of the form on each target that has it. Plain variants come first, and among them those with the most
/// common level.
std::map<Target, std::vector<Variant>> variants_of(const Form& form) {
  std::map<Target, std::vector<Variant>> variants;
  std::map<std::vector<std::string>, TargetSet> known;  // mnemonics that differ only in hints are one variant
  for (const Instruction& mnemonic : instructions_of(form)) {
    TargetSet& seen = known[tags_of(mma_of(mnemonic))];
    const TargetSet legal = targets_of(mnemonic);
    if ((legal & seen) == legal) continue;
    for (const Instruction& instruction : with_all_types(form, mnemonic)) {
      if (!violations_of(instruction, legal.first()).empty()) continue;
      const Mma mma = mma_of(instruction);
      const TargetSet having = targets_of(instruction);
      for (const TargetInfo& target : targets) {
        if (!having.contains(target.id) || seen.contains(target.id)) continue;
        variants[target.id].push_back(
            {.level = evidence_of(instruction, target.id), .is_plain = is_plain(mma), .tags = tags_of(mma)});
      }
    }
    seen = seen | legal;
  }
  for (auto& [target, on_target] : variants) {
    std::map<Evidence, int> count;
    for (const Variant& variant : on_target) count[variant.level] += variant.is_plain;
    std::ranges::stable_sort(
        on_target, {}, [&](const Variant& candidate) { return candidate.is_plain ? -count[candidate.level] : 1; });
  }
  return variants;
}

/// Groups the variants by level, with the names of those at each level.
std::vector<FormEvidence> named_levels(std::vector<Variant> variants) {
  const Evidence others = variants.front().level;
  const bool others_are_plain = variants.front().is_plain;
  std::vector<FormEvidence> rows;
  const auto name = [&](const Variant& variant, std::string text) {
    const auto same = [&](const FormEvidence& row) {
      return row.level == variant.level && row.is_plain == variant.is_plain;
    };
    const auto known = std::ranges::find_if(rows, same);
    FormEvidence& named =
        known != rows.end() ? *known : rows.emplace_back(FormEvidence{variant.level, variant.is_plain, {}});
    if (std::ranges::find(named.of, text) == named.of.end()) named.of.push_back(std::move(text));
  };
  // A tag names all variants that have it, if they have the same level; the most common tags come first.
  std::map<std::string, std::ptrdiff_t> uses;
  for (const Variant& variant : variants) {
    for (const std::string& tag : variant.tags) ++uses[tag];
  }
  std::vector<std::pair<std::ptrdiff_t, std::string>> tags;
  for (const auto& [tag, count] : uses) tags.emplace_back(-count, tag);
  std::ranges::sort(tags);
  for (const auto& [count, tag] : tags) {
    const auto has_tag = [&tag](const Variant& variant) {
      return std::ranges::find(variant.tags, tag) != variant.tags.end();
    };
    const auto first = std::ranges::find_if(variants, has_tag);
    if (first == variants.end() || first->level == others) continue;
    const Variant example = *first;
    const auto differs = [&](const Variant& variant) {
      return has_tag(variant) && (variant.level != example.level || variant.is_plain != example.is_plain);
    };
    if (std::ranges::any_of(variants, differs)) continue;
    name(example, tag);
    std::erase_if(variants, has_tag);
  }
  for (const Variant& variant : variants) {
    if (variant.level != others) name(variant, fmt::format("{}", fmt::join(variant.tags, " ")));
  }
  std::ranges::stable_sort(rows, {}, &FormEvidence::level);
  rows.push_back({.level = others, .is_plain = others_are_plain});
  return rows;
}

}  // namespace

std::string print(Evidence evidence, Target target) {
  // The H200 measurements are this project's own; owners of other GPUs contributed surveys.
  if (evidence == Evidence::measured && info(target).chip != Target::sm_90) return "measured in a survey, data/surveys";
  return std::string(print(evidence));
}

std::vector<Choice> choices_of(const Instruction& instruction, Target target) {
  return choices_in(instruction, target, nullptr);
}

std::vector<Choice> choices_of(const Instruction& instruction, Target target, const State& state) {
  return choices_in(instruction, target, &state);
}

const EvidenceRow* find_evidence(const Instruction& instruction, Target target) {
  if (!is_mma(instruction)) return nullptr;
  const auto row = std::ranges::find_if(
      evidence_rows(), [&](const EvidenceRow& evidence_row) { return speaks_of(evidence_row, instruction, target); });
  return row == evidence_rows().end() ? nullptr : &*row;
}

Evidence evidence_of(const Instruction& instruction, Target target) {
  if (has_arithmetic_choice(instruction, target)) return Evidence::model_choice;
  if (find_confirmed(model_for(instruction, target), target)) return Evidence::measured;
  const EvidenceRow* const row = find_evidence(instruction, target);
  return row ? row->level : Evidence::model_choice;
}

std::map<Target, std::vector<FormEvidence>> evidence_of(const Form& form) {
  std::map<Target, std::vector<FormEvidence>> levels;
  if (!is_mma(instructions_of(form).front())) return levels;
  for (auto& [target, variants] : variants_of(form)) levels[target] = named_levels(std::move(variants));
  return levels;
}

std::string evidence_source(const Instruction& instruction, Target target) {
  if (evidence_of(instruction, target) == Evidence::model_choice) return "no source documents it";
  if (const ConfirmedRule* const row = find_confirmed(model_for(instruction, target), target)) return row->gpu;
  return std::string(find_evidence(instruction, target)->source);
}

bool ends_with_redval(const Instruction& instruction) {
  const FieldRules rules = fields_of(instruction);
  return std::ranges::find(rules, Field::redval, &FieldRule::field) != rules.end();
}

std::string print_arithmetic(const Instruction& instruction, Target target) {
  if (is_mma(instruction)) {
    return fmt::format("{}; {}", print_rule(model_for(instruction, target)),
                       print(evidence_of(instruction, target), target));
  }
  const bool is_documented = choices_of(instruction, target).empty();
  return fmt::format("{}; {}", ends_with_redval(instruction) ? "moves and compares bits" : "moves bits",
                     is_documented ? "as PTX documents it" : "model choice");
}

std::string print_evidence(const Instruction& instruction, Target target) {
  const bool decides = std::ranges::any_of(choices_of(instruction, target), is_arithmetic);
  return is_mma(instruction) || decides ? print(evidence_of(instruction, target), target) : "documented move of bits";
}

}  // namespace bitmma
