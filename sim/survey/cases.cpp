// SPDX-License-Identifier: MIT
#include "cases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma::survey {
namespace {

uint64_t hash_of(std::string_view text) {
  Hash hash;
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  hash.add(bytes);
  return hash.value();
}

}  // namespace

State rule_state(const SurveyUnit& unit, const Operands& operands, uint64_t seed, size_t index) {
  const Mma mma = mma_of(unit.instruction);
  return place_operands(unit.instruction, {.a = {.major = mma.a_major}, .b = {.major = mma.b_major}}, operands,
                        filler_stream(seed, index));
}

const Question& question_of(const SurveyUnit& unit) {
  static const std::vector<Question> all = questions();
  const auto question = std::ranges::find(all, unit.question, &Question::name);
  if (question != all.end()) return *question;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "question",
               .seen = unit.question,
               .expected = "a distribution of this version"});
}

std::vector<Trial> trials_of(const SurveyUnit& unit, const Question& question, uint64_t seed) {
  std::vector<Trial> all;
  for (int i = 0; i < question_cases; ++i) {
    RandomStream random(seed ^ hash_of(unit.name), static_cast<uint64_t>(i));
    all.push_back(question.ask(question, unit.target, random));
  }
  return all;
}

int rows_kept(const Mma& mma) {
  constexpr int outputs = 32;
  return std::clamp(outputs / mma.n, 1, mma.m);
}

RuleObservation seen_in(const RuleRows& rows, const Operands& operands, const Matrix& d) {
  RuleObservation seen{.operands = block_of(operands, rows.first, rows.count, 0, d.cols()),
                       .d = Matrix(d.format(), rows.count, d.cols())};
  for (int row = 0; row < rows.count; ++row) {
    for (int col = 0; col < d.cols(); ++col) seen.d.set_code(row, col, d.code(rows.first + row, col));
  }
  return seen;
}

std::vector<uint8_t> bytes_of(const Matrix& d) {
  const int bits = std::max(8, info(d.format()).bits);
  std::vector<uint8_t> bytes;
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) {
      const uint64_t code = d.code(row, col);
      for (int bit = 0; bit < bits; bit += 8) bytes.push_back(static_cast<uint8_t>(code >> bit));
    }
  }
  return bytes;
}

Matrix matrix_of(std::span<const uint8_t> bytes, Format format, int rows, int cols) {
  const size_t width = static_cast<size_t>(std::max(8, info(format).bits)) / 8;
  Matrix d(format, rows, cols);
  if (bytes.size() < d.size() * width)
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "results",
                 .seen = fmt::format("{} bytes", bytes.size()),
                 .expected = "all of D"});
  size_t at = 0;
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      uint64_t code = 0;
      for (size_t byte = 0; byte < width; ++byte) code |= uint64_t{bytes[at++]} << 8 * byte;
      d.set_code(row, col, code);
    }
  }
  return d;
}

void Hash::add(const State& state) {
  for (const Buffer& buffer : state.buffers()) {
    std::vector<uint8_t> bytes{static_cast<uint8_t>(buffer.field())};
    const auto add_number = [&](uint64_t number, int bits) {
      for (int bit = 0; bit < bits; bit += 8) bytes.push_back(static_cast<uint8_t>(number >> bit));
    };
    add_number(buffer.number(), 64);
    for (const uint32_t word : buffer.words()) add_number(word, 32);
    add(bytes);
    add(buffer.bytes());
  }
}

uint64_t inputs_hash_of(const CampaignUnit& random) {
  Hash inputs;
  for (const CampaignCase& campaign_case : random.cases) inputs.add(campaign_case.state);
  return inputs.value();
}

int64_t random_unit_of(const SurveyUnit& unit) {
  return static_cast<int64_t>(hash_of(unit.name) % static_cast<uint64_t>(campaign_units));
}

std::optional<SurveyAsk> ask_named(std::string_view unit) {
  for (const SurveyAsk ask : {SurveyAsk::rule, SurveyAsk::question, SurveyAsk::bits}) {
    if (unit.starts_with(fmt::format("{}: ", print(ask)))) return ask;
  }
  return std::nullopt;
}

std::string instruction_text(const SurveyUnit& unit) {
  std::string text = print(unit.instruction);
  for (const ImmediateInfo& immediate : immediates_of(unit.instruction))
    text += fmt::format(" {}={}", immediate.name, immediate_of(unit.instruction, immediate.name));
  return text;
}

}  // namespace bitmma::survey
