// SPDX-License-Identifier: MIT
// The evidence for a word function on a target: the GPU and number of arguments of a comparison, or the basis of the
// result if there was none.
//
//   evidence_of(parse_math_instruction("ex2.approx.f32"), Target::sm_90a)    measured: all 2^32 words of an H100 and ..
//   evidence_of(parse_math_instruction("ex2.approx.f32"), Target::sm_100a)   assumed: as on sm_90a ..
//   evidence_of(parse_cvt("cvt.rn.f16.f32"), Target::sm_100a)                documented: PTX ISA 9.7.9.21 ..
//
// Comparisons are read from the tables of data/math, which are compiled in: no function has stronger evidence.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "bitmma/core/table.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/math/cvt.hpp"
#include "bitmma/math/math_instruction.hpp"

namespace bitmma {

/// The strongest first.
enum class WordEvidence : uint8_t { measured, sampled, documented, compiled, assumed };

struct WordEvidenceInfo {
  WordEvidence id = WordEvidence::assumed;
  std::string_view name = {};
  std::string_view meaning = {};
};
inline constexpr auto word_evidence_levels = std::to_array<WordEvidenceInfo>({
    {WordEvidence::measured, "measured", "compared with a GPU of the target for all arguments"},
    {WordEvidence::sampled, "sampled", "compared with a GPU of the target for random arguments"},
    {WordEvidence::documented, "documented", "the PTX ISA or IEEE 754 defines the result; not compared with a GPU"},
    {WordEvidence::compiled, "compiled",
     "derived from the instructions that a compiler emits; not compared with a GPU"},
    {WordEvidence::assumed, "assumed", "assumed to be as on another target; no source covers this one"},
});
static_assert(are_in_enum_order(word_evidence_levels));

/// "measured".
constexpr std::string_view print(WordEvidence level) {
  return word_evidence_levels[static_cast<std::size_t>(level)].name;
}

struct [[nodiscard]] EvidenceOfWords {
  WordEvidence level = WordEvidence::assumed;
  std::string source = {};  // "all 2^32 words of an H100 and an H200"

  bool operator==(const EvidenceOfWords&) const = default;
};

/// Each throws Error if the target lacks the instruction.
EvidenceOfWords evidence_of(const MathInstruction& instruction, Target target);
EvidenceOfWords evidence_of(const CvtInstruction& instruction, Target target);

}  // namespace bitmma
