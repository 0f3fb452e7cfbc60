// SPDX-License-Identifier: MIT
// The evidence for the result of one instruction. It is separate from the rule of arithmetic: rows of evidence list
// which instructions of which GPU were measured, published or modelled, and every point that no source settles is a
// named choice of this program.
//
//   mma.sync m16n8k16 f32.f16.f16.f32 on sm_100a   published words: 2,500 outputs of a B200 decide the rule
//   the same on sm_103a                            model choice: no source covers a B300
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/arithmetic/choice.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/state.hpp"

namespace bitmma {

/// Levels of evidence, the strongest first. A guess is never promoted.
enum class Evidence : uint8_t {
  measured,
  published_words,
  measured_by_others,
  consistent_words,
  published_model,
  model_choice
};

/// A level in short and as a sentence, for users and programs.
struct EvidenceInfo {
  Evidence id;
  std::string_view name;
  std::string_view meaning;
};

inline constexpr auto evidence_levels = std::to_array<EvidenceInfo>({
    {.id = Evidence::measured,
     .name = "measured on an NVIDIA H200",
     .meaning = "This project compared the instruction with that GPU; the dumps or the survey's report are in data."},
    {.id = Evidence::published_words,
     .name = "published hardware words",
     .meaning = "Others published result words of a GPU of this target, these types and this K, and the words rule out "
                "one fraction bit more and one fraction bit less."},
    {.id = Evidence::measured_by_others,
     .name = "measured by others",
     .meaning =
         "Others state in public that they measured this rule on a GPU of this target, these types and this K, with "
         "the number of words and of mismatches; the words themselves are not public."},
    {.id = Evidence::consistent_words,
     .name = "consistent with published words",
     .meaning =
         "Published result words of a GPU of this target, these types and this K agree with the rule, but they are "
         "too simple to decide it; a published model gives the rule."},
    {.id = Evidence::published_model,
     .name = "published model",
     .meaning = "A published model of this architecture, or the PTX ISA, gives the rule for these types and this K."},
    {.id = Evidence::model_choice,
     .name = "model choice",
     .meaning = "No source decides the rule; bitmma chose it by analogy."},
});

constexpr const EvidenceInfo& info(Evidence evidence) { return evidence_levels[static_cast<size_t>(evidence)]; }
constexpr std::string_view print(Evidence evidence) { return info(evidence).name; }
/// The same; a level confirmed by a survey names the survey instead of the H200.
std::string print(Evidence evidence, Target target);

/// The choices that can affect results of `instruction`; with `state`, only those about operands that it exposes.
std::vector<Choice> choices_of(const Instruction& instruction, Target target);
std::vector<Choice> choices_of(const Instruction& instruction, Target target, const State& state);

/// Sparse instructions need separate evidence.
enum class EvidenceSparsity : uint8_t { dense, sparse, both };

/// The evidence of one source for one group of instructions. It concerns the sum of one output, so M and N do not
/// matter. For tcgen05.mma it covers cta_group::1 without .ws.
struct EvidenceRow {
  Evidence level = Evidence::model_choice;
  TargetSet chips = {};  // covers every name of their GPUs
  Family family = Family::mma_sync;
  std::optional<MmaKind> kind = std::nullopt;
  FormatSet a = {}, b = {}, d = {}, c = {};  // empty: any; C: like D
  std::array<int, 4> k = {};                 // all 0: any
  EvidenceSparsity sparsity = EvidenceSparsity::dense;
  int scale_count = 0;         // scales of a row of A; 0: any
  FormatSet scale_types = {};  // empty: any
  std::string_view source = {};
};

/// The strongest first.
std::span<const EvidenceRow> evidence_rows();
/// The strongest row that covers the instruction on the target; nullptr if there is none.
const EvidenceRow* find_evidence(const Instruction& instruction, Target target);

/// The level of the strongest source; model_choice if an arithmetic choice can affect results.
Evidence evidence_of(const Instruction& instruction, Target target);
/// A level, with the names of the instructions of a form that have it: "e4m3 x e4m3", ".sp", "4X ue8m0".
struct [[nodiscard]] FormEvidence {
  Evidence level = Evidence::model_choice;
  bool is_plain = true;  // covers dense instructions of cta_group::1 without .ws and .satfinite
  std::vector<std::string> of = {};

  bool operator==(const FormEvidence&) const = default;
};
/// The levels on each target of the form, the strongest first; the level of all other instructions has no names and
/// comes last. Empty for a form that moves data.
std::map<Target, std::vector<FormEvidence>> evidence_of(const Form& form);

/// The source of the level: a GPU, a paper or a data file; for a model choice, that no source settles it.
std::string evidence_source(const Instruction& instruction, Target target);

/// The basis of an instruction's results in one line: the rule and its evidence, or that it only moves bits.
std::string print_arithmetic(const Instruction& instruction, Target target);
/// The evidence in short: "published hardware words", "documented move of bits".
std::string print_evidence(const Instruction& instruction, Target target);
/// True if the instruction writes a redval: the last column of its result.
bool ends_with_redval(const Instruction& instruction);

}  // namespace bitmma
