// SPDX-License-Identifier: MIT
// The cases of a unit, generated from their names both when a survey runs and when its report is read.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "bitmma/hardware/campaign.hpp"
#include "bitmma/survey/survey.hpp"
#include "questions.hpp"

namespace bitmma::survey {

/// Number of cases of a question.
inline constexpr int question_cases = 3;

/// The state of case `index` of a rule, with the default layout.
State rule_state(const SurveyUnit& unit, const Operands& operands, uint64_t seed, size_t index);

/// The cases of a question. Throws Error for a question that this version does not have.
std::vector<Trial> trials_of(const SurveyUnit& unit, const Question& question, uint64_t seed);
const Question& question_of(const SurveyUnit& unit);

/// The number of rows of D that a rule's case compares and a report keeps: about 32 outputs. Random cases cover the
/// rest of D.
int rows_kept(const Mma& mma);
/// Extracts these rows of a case as a separate case.
RuleObservation seen_in(const RuleRows& rows, const Operands& operands, const Matrix& d);

/// The words of D as bytes, as many per code as the format has.
std::vector<uint8_t> bytes_of(const Matrix& d);
/// The inverse. Throws Error if there are too few bytes.
Matrix matrix_of(std::span<const uint8_t> bytes, Format format, int rows, int cols);

/// 64-bit FNV-1a.
class Hash {
 public:
  void add(std::span<const uint8_t> bytes) {
    for (const uint8_t byte : bytes) value_ = (value_ ^ byte) * 0x100000001B3;
  }
  /// Adds every field of the state.
  void add(const State& state);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325;
};

/// Hash of every initial state: the writer and the reader of a report must generate the same states.
uint64_t inputs_hash_of(const CampaignUnit& random);

/// The campaign unit for the random cases of a survey unit: a number derived from its name.
int64_t random_unit_of(const SurveyUnit& unit);

/// The kind of a unit by its name: "rule: ..." is a rule. Nothing if the name has no known beginning.
std::optional<SurveyAsk> ask_named(std::string_view unit);

/// The instruction with its immediates, as a record keeps it.
std::string instruction_text(const SurveyUnit& unit);

}  // namespace bitmma::survey
