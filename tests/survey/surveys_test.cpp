// The surveys of real GPUs that are kept in data/surveys.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bitmma/core/parallel.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/survey/survey.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/documents.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

/// Every how many-th unit is taken: all are minutes of arithmetic.
const size_t every = test::amount<size_t>(12, 3, 1);

SurveyReport survey_of(const std::string& gpu) {
  return read_survey(read_tensor_file(test::source_path("data/surveys/" + gpu + ".safetensors")));
}

/// A fact of a row made wrong: its name, and the row with it; nothing where the row has no such fact.
struct WrongFact {
  std::string_view fact;
  std::optional<AccumulatorModel> (*change)(AccumulatorModel row);
};
const std::vector<WrongFact>& wrong_facts() {
  using Row = AccumulatorModel;
  using Changed = std::optional<AccumulatorModel>;
  static const std::vector<WrongFact> all{
      {"fraction bits", [](Row row) -> Changed { return row.fraction_bits -= 1, row; }},
      {"fraction bits", [](Row row) -> Changed { return row.fraction_bits += 1, row; }},
      {"floor", [](Row row) -> Changed { return row.floor_exponent = row.floor_exponent.value_or(-133) + 1, row; }},
      {"floor", [](Row row) -> Changed { return row.floor_exponent = row.floor_exponent.value_or(-133) - 1, row; }},
      {"rounding",
       [](Row row) -> Changed {
         row.rounding = row.rounding == Rounding::toward_zero ? Rounding::nearest_even : Rounding::toward_zero;
         return row;
       }},
      {"mantissa bits kept", [](Row row) -> Changed { return row.output_fraction_bits -= 1, row; }},
      {"terms per step",
       [](Row row) -> Changed {
         if (row.step_order == StepOrder::byte_pairs) return std::nullopt;
         return row.terms_per_step = 4, row;
       }},
      {"order of steps",
       [](Row row) -> Changed {
         if (row.step_order != StepOrder::byte_pairs) return std::nullopt;
         return row.step_order = StepOrder::ascending, row.terms_per_step = 8, row;
       }},
      {"c", [](Row row) -> Changed { return row.c_last = !row.c_last, row; }},
      {"exponent of a product", [](Row row) -> Changed { return row.overrides.product_normalised = true, row; }},
      {"zero products", [](Row row) -> Changed { return row.overrides.zero_product_has_exponent = true, row; }},
      {"terms are aligned", [](Row row) -> Changed { return row.overrides.align_toward_negative = true, row; }},
      {"c is truncated", [](Row row) -> Changed { return row.overrides.c_after_sum = true, row; }},
      {"a zero result", [](Row row) -> Changed { return row.overrides.zero_keeps_sign = true, row; }},
      {"NaN of c", [](Row row) -> Changed { return row.overrides.c_nan_payload_passed = true, row; }},
      {"f16 results",
       [](Row row) -> Changed {
         if (row.output != Format::f16) return std::nullopt;
         return row.overrides.f16_through_f32 = true, row;
       }},
  };
  return all;
}

bool is_named(const std::vector<std::string>& details, std::string_view fact) {
  return std::ranges::any_of(
      details, [&](const std::string& detail) { return detail.starts_with(fmt::format("{}: the row", fact)); });
}
/// In the details of a finding without a search.
bool is_open(const std::vector<std::string>& details, std::string_view fact) {
  return std::ranges::any_of(details, [&](const std::string& detail) {
    return detail.starts_with(fmt::format("open according to the report: {} ", fact));
  });
}

}  // namespace

TEST_CASE("surveys of an H100 and an H200 find every rule of Hopper from scratch and answer every question", "[long]") {
  for (const std::string gpu : {"h100", "h200"}) {
    const SurveyReport report = survey_of(gpu);
    CHECK_FALSE(report.is_rehearsal());
    CHECK(report.target == Target::sm_90a);
    CHECK(report.gpu.find(gpu == "h100" ? "H100" : "H200") != std::string::npos);
    CHECK(std::filesystem::file_size(test::source_path("data/surveys/" + gpu + ".safetensors")) < 3'000'000);
    const std::vector<SurveyUnit> units = survey_units(report.target);
    CHECK(report.units == std::ssize(units));
    CHECK(std::ssize(report.records) == std::ssize(units));
    std::vector<SurveyFinding> findings(units.size() / every);
    parallel_for(findings.size(), hardware_threads(),
                 [&](size_t i) { findings[i] = finding_of(report, units[i * every]); });
    int64_t outputs = 0;
    std::map<std::string, int> opened;
    for (const SurveyFinding& finding : findings) {
      INFO(gpu << ": " << finding.unit << ": " << finding.answer);
      CHECK(finding.verdict == SurveyVerdict::confirmed);
      CHECK(finding.mismatches == 0);
      outputs += finding.outputs;
      if (finding.ask == SurveyAsk::rule) CHECK(finding.answer == print_rule(*finding.row));
      for (const std::string& detail : finding.details) ++opened[detail.substr(0, detail.find(' ', 6))];
    }
    CHECK(outputs > 30'000'000 / static_cast<int64_t>(every));
    CHECK(confirmed_by(report, findings).empty());  // it was measured before
  }
}

TEST_CASE("the survey of an H100 does not read as one of another target, of no driver, or as a rehearsal") {
  TensorFile file = read_tensor_file(test::source_path("data/surveys/h100.safetensors"));
  const auto refusal_with = [&](std::string_view key, std::string_view value) {
    TensorFile changed = file;
    changed.set_metadata(key, std::string(value));
    try {
      static_cast<void>(read_survey(changed));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refusal_with("driver", "none"), Catch::Contains("driver = none: must be a version"));
  CHECK_THAT(refusal_with("cuda", ""), Catch::Contains("cuda = (missing)"));
  CHECK_THAT(refusal_with("source", rehearsal_gpu), Catch::Contains("driver = 580.159.04: must be none"));
  // No unit of sm_70 is one of Hopper: every record is told.
  file.set_metadata("target", "sm_70");
  const SurveyReport report = read_survey(file);
  const std::vector<SurveyFinding> findings = findings_of(report, false, 1);
  CHECK(std::ranges::count(findings, SurveyVerdict::unreadable, &SurveyFinding::verdict) == std::ssize(report.records));
}

TEST_CASE(
    "a row with one wrong fact is refuted by the surveys of both GPUs, and the fact is named or was said to be open",
    "[daily]") {
  // One unit of every row: the one of the largest K.
  for (const std::string gpu : {"h100", "h200"}) {
    SurveyReport report = survey_of(gpu);
    for (SurveyRecord& record : report.records) record.random_cases = 0;  // the cases of the search must tell
    std::map<const AccumulatorModel*, SurveyUnit> of_row;
    for (const SurveyUnit& unit : survey_units(report.target)) {
      if (unit.ask != SurveyAsk::rule) continue;
      const AccumulatorModel* row = &model_for(unit.instruction, unit.target);
      if (row->arithmetic != Arithmetic::fused_sum) continue;
      const auto [known, is_new] = of_row.try_emplace(row, unit);
      if (!is_new && mma_of(unit.instruction).k > mma_of(known->second.instruction).k) known->second = unit;
    }
    CHECK(of_row.size() >= 12);
    struct Job {
      const AccumulatorModel* row;
      const SurveyUnit* unit;
      const WrongFact* wrong;
      SurveyFinding right = {}, of_wrong_row = {};
    };
    std::vector<Job> jobs;
    for (const auto& [row, unit] : of_row) {
      for (const WrongFact& wrong : wrong_facts()) {
        if (wrong.change(*row)) jobs.push_back({row, &unit, &wrong});
      }
    }
    if (every > 1) {
      std::vector<Job> some;
      for (size_t i = 0; i < jobs.size(); i += every) some.push_back(jobs[i]);
      jobs = std::move(some);
    }
    parallel_for(jobs.size(), hardware_threads(), [&](size_t i) {
      const AccumulatorModel changed = *jobs[i].wrong->change(*jobs[i].row);
      jobs[i].right = finding_of(report, *jobs[i].unit, false);
      jobs[i].of_wrong_row = finding_of(report, *jobs[i].unit, true, &changed);
    });
    int named = 0, open = 0;
    for (const Job& job : jobs) {
      INFO(gpu << ": " << job.unit->name << ", wrong: " << job.wrong->fact << "; "
               << fmt::format("{}", fmt::join(job.of_wrong_row.details, "; ")));
      const bool told = job.of_wrong_row.verdict == SurveyVerdict::refuted;
      if (told) {
        CHECK(is_named(job.of_wrong_row.details, job.wrong->fact));
        ++named;
      } else {
        CHECK(is_open(job.right.details, job.wrong->fact));
        ++open;
      }
    }
    CHECK(named > 120 / static_cast<int>(every) - 3);
    CHECK(open < named);
  }
}

TEST_CASE("the site's table of the H100's campaign of wgmma is what the campaign printed") {
  const auto campaign =
      nlohmann::json::parse(test::read_text(test::source_path("data/evidence/wgmma_campaign_h100.json")));
  std::string text =
      "| instruction | cases | outputs | special, subnormal, ties | mismatches |\n|---|---|---|---|---|\n";
  for (const auto& row : campaign["rows"]) {
    CHECK(row["mismatches"] == 0);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", row["instruction"].get<std::string>(),
                        row["cases"].get<int64_t>(), row["outputs"].get<int64_t>(), row["hard_outputs"].get<int64_t>(),
                        row["mismatches"].get<int64_t>());
  }
  CHECK(campaign["rows"].size() == 34);
  CHECK(campaign["seed"] == 777);
  CHECK(campaign["rows"].back()["outputs"] == 1'994'857'472);
  test::check_table("wgmma_campaign_h100", text);
}
