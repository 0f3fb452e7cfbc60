#include <nlohmann/json.hpp>

#include "bitmma/survey/survey.hpp"
#include "cli/page.hpp"
#include "cli/run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

const test::BadRequests bad_requests({
    {"survey", missing_argument, "command of bitmma survey"},
    {"survey read", missing_argument, "files"},
    {"survey read $GOLDEN", malformed, "$SOURCE/data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors: format"},
    {"survey read $FOLDER/none.safetensors", not_found, "file"},
    {"survey read --confirmed --quick $GOLDEN", not_together, "--quick"},
    {"survey run", missing_argument, "--output"},
    {"survey run --rehearse sm_91 -o r.safetensors", unknown_name, "--rehearse"},
    {"survey run --rehearse sm_90a -o r.safetensors --seconds -1", illegal_value, "--seconds"},
    {"survey run --rehearse sm_90a -o r.safetensors --unit-seconds 0", illegal_value, "--unit-seconds"},
    {"survey run --rehearse sm_90a -o r.safetensors --jobs 0", illegal_value, "--jobs"},
    {"survey run --rehearse sm_90a -o r.safetensors --family wgmma", not_found, "flag of bitmma survey run"},
    // The spellings of earlier versions are answered with the new ones.
    {"survey $GOLDEN", not_found, "command of bitmma survey"},
    {"survey --patch $GOLDEN", not_found, "flag of bitmma survey"},
});

void write_report(const std::string& path, std::string_view unit) {
  write_tensor_file(path, to_file(run_survey_unit(unit, {.rehearse = Target::sm_90a})));
}

}  // namespace

TEST_CASE("survey refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("a report of a survey tells how far it is, and what no unit answered is counted") {
  SurveyReport report{.gpu = "a GPU", .driver = "580.1", .cuda = "13.0", .date = "2026-11-23", .seed = 7, .units = 9};
  report.records = {{.unit = "one", .random_mismatches = 3}, {.unit = "two", .end = SurveyEnd::timed_out}};
  const Report description = describe(report);
  const auto json = nlohmann::json::parse(to_json(description));
  CHECK((json["units"] == 9 && json["asked"] == 2 && json["answered"] == 1 && json["mismatches"] == 3));
  CHECK((json["rehearsal"] == false && json["seed"] == 7));
  CHECK_THAT(print(description), Catch::Contains("2 of 9 units asked, 1 answered, 3 outputs of random cases differ"));
}

TEST_CASE("GPUs of one target that answer differently are told") {
  const auto survey_of = [](std::string gpu, std::string answer) {
    return ReadSurvey{.path = gpu,
                      .report = {.gpu = gpu, .records = {{.unit = "question: q"}}},
                      .findings = {{.unit = "question: q",
                                    .ask = SurveyAsk::question,
                                    .verdict = SurveyVerdict::confirmed,
                                    .answer = std::move(answer)}}};
  };
  const std::string differ = print(describe(std::vector{survey_of("A", "yes"), survey_of("B", "no")}));
  CHECK_THAT(differ, Catch::Contains("GPUs differ: question: q") && Catch::Contains("A: yes"));
  CHECK_THAT(print(describe(std::vector{survey_of("A", "yes"), survey_of("B", "yes")})),
             !Catch::Contains("GPUs differ"));
}

TEST_CASE("survey prints counts, findings, JSON and confirmed rows, and reads on behind a bad file") {
  const test::TemporaryFolder folder;
  const std::string report = folder.path("report.safetensors"), bad = folder.path("bad.safetensors");
  write_report(report, "question: base offset, wgmma");
  test::write_text(bad, "nothing");
  using Catch::Contains;
  const test::Outcome outcome = test::run({"survey", "read", report});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Contains("a rehearsal: the model answered in place of a GPU") &&
                              Contains("question      5          1        0        0") &&
                              Contains("it moves where the pattern begins") && !Contains("undefined metadata"));
  const auto json = nlohmann::json::parse(test::run({"survey", "read", "--json", report}).out);
  CHECK(json.size() == 1);
  CHECK(json[0]["rehearsal"] == true);
  CHECK(json[0]["findings"].size() == survey_units(Target::sm_90a).size());
  CHECK(json[0]["findings"][0].contains("evidence_before"));
  CHECK(test::run({"survey", "read", "--json", "--all", report}).code == 2);  // --all is of the text
  const test::Outcome confirmed_rows = test::run({"survey", "read", "--confirmed", report});
  CHECK(confirmed_rows.out == print(confirmed()));
  CHECK(confirmed_rows.err == "a rehearsal proves nothing\n");
  // Records that the target does not have are listed and counted, and contradictions refused by name.
  TensorFile other = read_tensor_file(report);
  other.set_metadata("source", "NVIDIA A100");
  write_tensor_file(bad, other);
  const test::Outcome changed = test::run({"survey", "read", bad});
  CHECK(changed.code == 2);
  CHECK_THAT(changed.violations, refused(malformed, "$FOLDER/bad.safetensors: driver") &&
                                     refused(malformed, "$FOLDER/bad.safetensors: records") &&
                                     refused(malformed, "$FOLDER/bad.safetensors: digest"));
  other = read_tensor_file(report);
  other.set_metadata("target", "sm_75");
  other.erase_metadata("digest");
  write_tensor_file(bad, other);
  const test::Outcome strange = test::run({"survey", "read", bad});
  CHECK(strange.code == 2);
  CHECK_THAT(strange.out, Contains("unreadable  question: base offset, wgmma") && Contains("sm_75 has no such unit") &&
                              Contains("question      1          0        0        0          0           1        0"));
  test::note_message(test::run({"survey", "read", "--confirmed", bad}).err);
  test::write_text(bad, "nothing");
  const test::Outcome both = test::run({"survey", "read", bad, report});
  CHECK(both.code == 2);
  test::note_message(both.err);
  CHECK_THAT(both.out, Contains("it moves where the pattern begins"));
}

TEST_CASE("every command in docs/survey.md prints what stands there", "[long]") {
  CHECK(test::check_page(test::source_path("docs/survey.md")) > 0);
}
