// SPDX-License-Identifier: MIT
#include "bitmma/gemm/evidence.hpp"

#include <fmt/format.h>

namespace bitmma {
namespace {

bool holds_on(const FieldEvidence& evidence, Target target) {
  if (!evidence.seen_on || *evidence.seen_on == target || evidence.level == EvidenceLevel::model_choice) return true;
  return !evidence.only_by_this_name && info(*evidence.seen_on).chip == info(target).chip;
}

}  // namespace

EvidenceLevel level_on(const FieldEvidence& evidence, Target target) {
  return holds_on(evidence, target) ? evidence.level : EvidenceLevel::model_choice;
}

std::string print(const FieldEvidence& evidence) {
  std::string details = evidence.gpus;
  if (!evidence.note.empty()) details += (details.empty() ? "" : ", ") + evidence.note;
  if (evidence.level == EvidenceLevel::stated) return details;
  return fmt::format("{}{}{}", print(evidence.level), details.empty() ? "" : ": ", details);
}

std::string print(const FieldEvidence& evidence, Target target) {
  if (holds_on(evidence, target)) return print(evidence);
  return fmt::format("{} on {}; on {} {}", print(EvidenceLevel::model_choice), print(target), print(*evidence.seen_on),
                     print(evidence));
}

}  // namespace bitmma
