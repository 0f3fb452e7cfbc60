// SPDX-License-Identifier: MIT
// The cases of a unit, made from their names when a survey runs and when its report is read.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "bitmma/hardware/campaign.hpp"
#include "bitmma/survey/survey.hpp"
#include "questions.hpp"

namespace bitmma::survey {

/// Of a question.
inline constexpr int question_cases = 3;

/// The state of case `index` of a rule, as laid out by default.
State rule_state(const SurveyUnit& unit, const Operands& operands, uint64_t seed, size_t index);

/// The cases of a question. Throws Error for a question that this version does not have.
std::vector<Asked> asked_of(const SurveyUnit& unit, const Question& question, uint64_t seed);
const Question& question_of(const SurveyUnit& unit);

/// How many rows of D count in a rule's case, and are kept in a report: about 32 outputs. What the rest of D is like,
/// random cases tell.
int rows_kept(const Mma& mma);
/// These rows of a case as a case of its own.
RuleObservation seen_in(const RuleRows& rows, const Operands& operands, const Matrix& d);

/// Words of D as bytes: as many of each code as its format has.
std::vector<uint8_t> bytes_of(const Matrix& d);
/// The inverse. Throws Error when there are too few.
Matrix matrix_of(std::span<const uint8_t> bytes, Format format, int rows, int cols);

/// FNV-1a over 64 bits.
class Hash {
 public:
  void add(std::span<const uint8_t> bytes) {
    for (const uint8_t byte : bytes) value_ = (value_ ^ byte) * 0x100000001B3;
  }
  /// Everything in the state.
  void add(const State& state);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325;
};

/// Of every state before: the writer of a report and its reader must have made the same ones.
uint64_t inputs_hash_of(const CampaignUnit& random);

/// The campaign's unit for the random cases of a survey's unit: a number of its name.
int64_t random_unit_of(const SurveyUnit& unit);

/// The kind of a unit by its name: "rule: ..." is a rule. Nothing if the name has no known beginning.
std::optional<SurveyAsk> ask_named(std::string_view unit);

/// The instruction with its immediates, as a record keeps it.
std::string instruction_text(const SurveyUnit& unit);

}  // namespace bitmma::survey
