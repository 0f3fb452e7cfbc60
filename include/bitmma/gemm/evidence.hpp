// SPDX-License-Identifier: MIT
// How a field of a plan is known: a level, where it was seen, and a note. Sentences are made from these values.
//
//   {.level = EvidenceLevel::measured, .seen_on = Target::sm_90a, .gpus = "H100, H200"}
//   print(evidence, Target::sm_90a)   measured: H100, H200
//   print(evidence, Target::sm_80)    model choice on sm_80; on sm_90a measured: H100, H200
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bitmma/core/table.hpp"
#include "bitmma/core/target.hpp"

namespace bitmma {

/// The strongest first. `stated` is a text of the plan's author, which bitmma repeats and does not judge.
enum class EvidenceLevel : uint8_t { measured, published, model_choice, stated };

struct EvidenceLevelInfo {
  EvidenceLevel id;
  std::string_view name;
};
inline constexpr auto plan_evidence_levels = std::to_array<EvidenceLevelInfo>({
    {EvidenceLevel::measured, "measured"},
    {EvidenceLevel::published, "published"},
    {EvidenceLevel::model_choice, "model choice"},
    {EvidenceLevel::stated, "stated"},
});
static_assert(are_in_enum_order(plan_evidence_levels));
constexpr std::string_view print(EvidenceLevel level) { return plan_evidence_levels[static_cast<size_t>(level)].name; }

struct FieldEvidence {
  EvidenceLevel level = EvidenceLevel::model_choice;  // on `seen_on`
  std::optional<Target> seen_on = {};                 // nothing: the level holds on all targets
  bool only_by_this_name = false;  // the GPU's other PTX names add otherwise, as fp8 does in mma.sync and wgmma
  std::string gpus = {};           // of a measurement: "H100, H200"
  std::string note = {};           // "3 calls with f32 D"; of `stated` the whole text

  bool operator==(const FieldEvidence&) const = default;
};

/// The level on this target: evidence from another GPU is only a model choice.
EvidenceLevel level_on(const FieldEvidence& evidence, Target target);

/// As a sentence, for where it was seen and for a target.
std::string print(const FieldEvidence& evidence);
std::string print(const FieldEvidence& evidence, Target target);

}  // namespace bitmma
