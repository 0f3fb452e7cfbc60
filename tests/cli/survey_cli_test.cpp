#include <nlohmann/json.hpp>

#include "bitmma/hardware/survey.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

const test::BadRequests bad_requests({
    {"survey", "files"},
    {"survey $GOLDEN", "bitmma-survey-1, a report of bitmma gpu --survey"},
    {"survey $FOLDER/none.safetensors", "none.safetensors"},
});

void write_report(const std::string& path, std::string_view unit) {
  write_tensor_file(path, to_file(run_survey_unit(unit, {.rehearse = Target::sm_90a})));
}

}  // namespace

TEST_CASE("survey refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("survey prints counts, findings, JSON and a patch, and reads on behind a bad file") {
  const test::TemporaryFolder folder;
  const std::string report = folder.path("report.safetensors"), bad = folder.path("bad.safetensors");
  write_report(report, "question: base offset, wgmma");
  test::write_text(bad, "nothing");
  using Catch::Contains;
  const test::Outcome said = test::run({"survey", report});
  CHECK(said.code == 0);
  CHECK_THAT(said.out, Contains("a rehearsal: the model answered for itself") &&
                           Contains("question      5          1        0        0") &&
                           Contains("it moves where the pattern begins") && !Contains("undefined metadata"));
  const auto json = nlohmann::json::parse(test::run({"survey", "--json", report}).out);
  CHECK(json.size() == 1);
  CHECK(json[0]["rehearsal"] == true);
  CHECK(json[0]["findings"].size() == survey_units(Target::sm_90a).size());
  const test::Outcome patch = test::run({"survey", "--patch", report});
  CHECK(patch.out.empty());
  CHECK(patch.err == "a rehearsal is evidence of nothing\n");
  // Records that the target does not have are listed and counted, and contradictions refused by name.
  TensorFile other = read_tensor_file(report);
  other.set_metadata("source", "NVIDIA A100");
  write_tensor_file(bad, other);
  const test::Outcome changed = test::run({"survey", bad});
  CHECK(changed.code == 2);
  CHECK_THAT(changed.err, Contains("driver = none: legal is a version such as 580.159.04") &&
                              Contains("records = 1 of 1 marked as a rehearsal") && Contains("digest = "));
  other = read_tensor_file(report);
  other.set_metadata("target", "sm_75");
  other.erase_metadata("digest");
  write_tensor_file(bad, other);
  const test::Outcome strange = test::run({"survey", bad});
  CHECK(strange.code == 2);
  CHECK_THAT(strange.out, Contains("unreadable  question: base offset, wgmma") && Contains("sm_75 has no such unit") &&
                              Contains("question      1          0        0        0          0           1        0"));
  CHECK_THAT(test::run({"survey", "--patch", bad}).err, Contains("1 record cannot be read"));
  test::write_text(bad, "nothing");
  const test::Outcome both = test::run({"survey", bad, report});
  CHECK(both.code == 2);
  CHECK_THAT(both.err, Contains("bad.safetensors"));
  CHECK_THAT(both.out, Contains("it moves where the pattern begins"));
}
