// Reports of surveys, which come from anybody: a true one with pieces of its JSON, keys and results changed. What is
// read is written and reads the same; findings of it end, and never say that a changed result is the model's.
#include "bitmma/instruction/execute.hpp"
#include "bitmma/survey/survey.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {
namespace {

std::vector<State> answer(const Instruction& instruction, Target target, std::span<const State> cases) {
  std::vector<State> after(cases.begin(), cases.end());
  for (State& state : after) execute(instruction, target, state);
  return after;
}

const std::vector<SurveyUnit>& units() {
  static const std::vector<SurveyUnit> some = [] {
    std::vector<SurveyUnit> list;
    for (const SurveyUnit& unit : survey_units(Target::sm_90a)) {
      if (unit.name == "rule: mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32" ||
          unit.name == "question: undefined metadata, mma.sp")
        list.push_back(unit);
    }
    return list;
  }();
  return some;
}

const TensorFile& true_report() {
  static const TensorFile file = [] {
    SurveyReport report{.gpu = "g", .driver = "1.2", .cuda = "13.0", .date = "2026-11-23", .version = "v"};
    for (const SurveyUnit& unit : units())
      report.records.push_back(survey_unit(unit, 0, answer, {.most_result_bytes = 1000, .random_outputs = 1000}));
    return to_file(report);
  }();
  return file;
}

constexpr std::string_view pieces[] = {"0",
                                       "-1",
                                       "18446744073709551616",
                                       "1e9",
                                       "null",
                                       "[]",
                                       "{}",
                                       "\"\"",
                                       "\"0x\"",
                                       "[[0,0,0]]",
                                       "\"answered\"",
                                       "\"timed out\"",
                                       "99999999999",
                                       "\"first_mismatch\":3,",
                                       "\"random\":{}",
                                       ","};

/// The text with some pieces exchanged.
std::string changed(Bytes& in, std::string text) {
  for (int changes = between(in, 0, 4); changes > 0 && !text.empty(); --changes) {
    const auto at = in.ConsumeIntegralInRange<std::size_t>(0, text.size() - 1);
    const auto length = in.ConsumeIntegralInRange<std::size_t>(0, std::min<std::size_t>(12, text.size() - at));
    text.replace(at, length, in.ConsumeBool() ? std::string(pick(in, pieces)) : in.ConsumeRandomLengthString(12));
  }
  return text;
}

}  // namespace
}  // namespace bitmma::fuzz

void fuzz_one(bitmma::fuzz::Bytes& in) {
  using namespace bitmma;
  using namespace bitmma::fuzz;
  TensorFile file = true_report();
  file.path = "report";
  if (in.ConsumeBool()) file.erase_metadata("digest");  // with it, no change gets any further
  for (auto& [key, value] : file.metadata) {
    if (key == "records" ? in.ConsumeBool() : one_in(in, 8)) value = changed(in, value);
  }
  if (one_in(in, 3)) {
    std::vector<uint8_t> results = file.find("results")->bytes.copy();
    for (int changes = between(in, 0, 3); changes > 0 && !results.empty(); --changes)
      results[in.ConsumeIntegralInRange<std::size_t>(0, results.size() - 1)] ^= number<uint8_t>(in);
    if (one_in(in, 6)) results.resize(in.ConsumeIntegralInRange<std::size_t>(1, results.size()));
    const auto size = static_cast<int64_t>(results.size());
    file.set(Tensor::from_bytes("results", one_in(in, 20) ? "U16" : "U8", {size}, std::move(results)));
  }
  SurveyReport report;
  if (!accepts([&] { report = read_survey(file); })) return;
  const TensorFile again = to_file(report);
  require(to_file(read_survey(again)).metadata == again.metadata, "a report reads as it was written");
  for (const SurveyUnit& unit : units()) {
    const SurveyRecord* record = report.find(unit.name);
    if (record && record->random_outputs > 5000) continue;  // right, but slow
    const SurveyFinding finding = finding_of(report, unit, in.ConsumeBool());
    require(finding.verdict != SurveyVerdict::confirmed || finding.mismatches == 0, "confirmed means equal bits");
  }
}
