// SPDX-License-Identifier: MIT
// The units of a survey, derived from the table of forms: a new row there adds its units.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "../instruction/family.hpp"
#include "bitmma/hardware/ptx_kernel.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/survey/survey.hpp"
#include "questions.hpp"

namespace bitmma {
namespace {

constexpr int variations = 3;  // settings of the properties that a mnemonic leaves open

/// A mnemonic without its N: one rule covers every N.
std::string without_n(const Instruction& instruction) {
  std::string text = print(instruction);
  const std::string shape = fmt::format("n{}k", mma_of(instruction).n);
  if (const size_t at = text.find(shape); at != std::string::npos) text.replace(at, shape.size(), "nk");
  return text;
}

/// The mnemonic, and the properties that only the instruction descriptor states.
std::string full_name(const Instruction& instruction) {
  const std::optional<ShapeAndTypes> shape = shape_and_types_of(instruction);
  if (!shape) return print(instruction);
  const Mma mma = mma_of(instruction);
  std::string text = fmt::format("{} m{}n{}k{} {}.{}.{}", print(instruction), mma.m, mma.n, mma.k, info(mma.d).name,
                                 info(mma.a).name, info(mma.b).name);
  if (mma.scale_count > 0) text += fmt::format(" {}", info(mma.scale_type).name);
  if (mma.a_source == OperandSource::tmem) text += ", A in Tensor Memory";
  if (mma.a_major == Major::mn) text += ", A MN-major";
  if (mma.b_major == Major::mn) text += ", B MN-major";
  return text;
}

class Units {
 public:
  explicit Units(Target target) : target_(target) {}

  void add(SurveyAsk ask, const Instruction& instruction, const std::string& question = {}) {
    if (!violations_of(instruction, target_).empty()) return;
    const std::string name = fmt::format("{}: {}", print(ask), question.empty() ? full_name(instruction) : question);
    if (names_.insert(name).second) units_.push_back({name, ask, instruction, target_, question});
  }

  /// Adds one unit for each rule: the smallest shape of every pair of types.
  void add_rules(const Form& form, const Instruction& mnemonic) {
    if (!shape_and_types_of(mnemonic)) {
      if (groups_.insert(without_n(mnemonic)).second) add(SurveyAsk::rule, mnemonic);
      return;
    }
    const Mma mma = mma_of(mnemonic);
    if (mma.cta_group != 1) return;
    bool is_first = true;
    for (const FormatInfo& a : formats) {
      for (const FormatInfo& b : formats) {
        if (!form.a.contains(a.id) || !form.b.contains(b.id)) continue;
        for (const Format scale_type : scale_types(form, mnemonic)) {
          // Sparsity, or another number or type of scales, does not change behaviour that depends on the types.
          if (!is_first && (mma.sparse || scale_type != mma.scale_type)) continue;
          if (add_smallest(form, mnemonic, a.id, b.id, scale_type)) is_first = false;
        }
      }
    }
  }

  /// Adds random cases for the properties that the mnemonic leaves open.
  void add_bits(const Instruction& mnemonic) {
    if (!is_mma(mnemonic)) return add(SurveyAsk::bits, mnemonic);
    const bool is_hint = is_mma(mnemonic) && mma_of(mnemonic).names_collector;  // a hint that changes no result
    for (int i = 0; i < (is_hint ? 1 : variations); ++i) {
      RandomStream random(0x737572766579, static_cast<uint64_t>(i));
      add(SurveyAsk::bits,
          family::dispatch([&](const auto& alternative) { return family::vary(alternative, target_, i, random); },
                           mnemonic));
    }
  }

  std::vector<SurveyUnit> take() {
    std::ranges::stable_sort(units_, {}, &SurveyUnit::ask);
    return std::move(units_);
  }

 private:
  static std::vector<Format> scale_types(const Form& form, const Instruction& mnemonic) {
    const ScaleVec written = family::dispatch(
        [](const auto& alternative) {
          if constexpr (requires { alternative.scale_vec; }) return alternative.scale_vec;
          else return ScaleVec::unwritten;
        },
        mnemonic);
    std::vector<Format> types;
    for (const FormatInfo& format : formats) {
      const bool is_legal = std::ranges::any_of(form.scales, [&](const LegalScales& row) {
        return (row.scale_vec == ScaleVec::unwritten || row.scale_vec == written) && row.types.contains(format.id);
      });
      if (is_legal) types.push_back(format.id);
    }
    if (types.empty()) types.push_back(mma_of(mnemonic).scale_type);
    return types;
  }

  bool add_smallest(const Form& form, const Instruction& mnemonic, Format a, Format b, Format scale_type) {
    const Mma mma = mma_of(mnemonic);
    for (const int m : {64, 32, 128}) {
      for (const LegalShape& shape : form.shapes) {
        const Instruction instruction = with_shape_and_types(
            mnemonic, {.m = m, .n = shape.n.first, .k = mma.k, .d = form.d, .a = a, .b = b, .scale_type = scale_type});
        if (!violations_of(instruction, target_).empty()) continue;
        add(SurveyAsk::rule, instruction);
        return true;
      }
    }
    return false;
  }

  Target target_;
  std::set<std::string> names_, groups_;
  std::vector<SurveyUnit> units_;
};

/// For mnemonics that differ only in N, the largest is used for bits.
std::vector<Instruction> largest_of(const std::vector<Instruction>& mnemonics) {
  std::map<std::string, Instruction> largest;
  for (const Instruction& instruction : mnemonics)
    largest.insert_or_assign(is_mma(instruction) ? without_n(instruction) : print(instruction), instruction);
  std::vector<Instruction> instructions;
  for (const auto& [name, chosen] : largest) instructions.push_back(chosen);
  return instructions;
}

}  // namespace

std::string_view print(SurveyAsk ask) {
  return ask == SurveyAsk::rule ? "rule" : ask == SurveyAsk::question ? "question" : "bits";
}

std::vector<SurveyUnit> survey_units(Target target) {
  Units units(target);
  bool with_collectors = true;  // collectors of one kind suffice
  for (const Form& form : forms()) {
    if (!form.targets.contains(target)) continue;
    const std::vector<Instruction> mnemonics = instructions_of(form);
    std::vector<Instruction> asked_for_bits;
    bool has_collectors = false;
    for (const Instruction& mnemonic : mnemonics) {
      const std::optional<Mma> mma = is_mma(mnemonic) ? std::optional(mma_of(mnemonic)) : std::nullopt;
      const bool is_hint = mma && mma->names_collector;
      has_collectors |= is_hint;
      if (mma && !is_hint && !mma->repeats_last_rows) units.add_rules(form, mnemonic);
      if (!is_hint || (with_collectors && !reads_kept_operand(mnemonic))) asked_for_bits.push_back(mnemonic);
    }
    with_collectors &= !has_collectors;
    // An instruction with all operands in registers has no layouts to vary, so random cases of the rule suffice.
    const bool has_places =
        !is_mma(mnemonics.front()) || mma_of(mnemonics.front()).b_source != OperandSource::registers;
    if (!has_places) continue;
    for (const Instruction& mnemonic : largest_of(asked_for_bits)) units.add_bits(mnemonic);
  }
  for (const survey::Question& question : survey::questions()) {
    if (question.targets.contains(target) || question.targets.contains(info(target).adds_as))
      units.add(SurveyAsk::question, question.instruction, std::string(question.name));
  }
  return units.take();
}

}  // namespace bitmma
