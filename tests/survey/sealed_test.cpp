#include "bitmma/survey/sealed.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "../../sim/core/sha256.hpp"
#include "../../sim/survey/sealed/points.hpp"
#include "bitmma/instruction/execute.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

using namespace bitmma;
using Catch::Contains;

namespace {

constexpr Target sealed_targets[]{Target::sm_90a,  Target::sm_100a, Target::sm_103a,
                                  Target::sm_110a, Target::sm_120a, Target::sm_121a};

SealedFile built_in(Target target) { return read_sealed(sealed_text(target)); }

const SealedPoint& point_of(const SealedFile& file, std::string_view part) {
  const auto found = std::ranges::find_if(
      file.points, [&](const SealedPoint& point) { return point.name.find(part) != std::string::npos; });
  if (found == file.points.end()) throw std::runtime_error("no point is named " + std::string(part));
  return *found;
}

/// A device that follows the model, with another row of arithmetic where there is one.
Executor device_of(const AccumulatorModel* row = nullptr) {
  return [row](const Instruction& instruction, Target target, std::span<const State> cases) {
    std::vector<State> after(cases.begin(), cases.end());
    for (State& state : after) execute(instruction, target, state, row);
    return after;
  };
}

SealedPoint without(SealedPoint point, std::string_view answer) {
  const auto index = std::ranges::find(point.answers, answer) - point.answers.begin();
  point.answers.erase(point.answers.begin() + index);
  for (SealedCase& one : point.cases) one.d.erase(one.d.begin() + index);
  if (point.predicted == answer) point.predicted.reset();
  return point;
}

void check_is_of_this_version(Target target) {
  INFO(print(target));
  const SealedFile file = built_in(target);
  std::vector<std::string> names;
  for (const SealedPoint& point : file.points) {
    INFO(point.name);
    names.push_back(point.name);
    std::vector<uint64_t> numbers;
    for (const SealedCase& one : point.cases) numbers.push_back(one.number);
    CHECK(make_sealed_point(target, point.name, numbers) == point);
  }
  CHECK(names == sealed_point_names(target));
  CHECK(print(file) == sealed_text(target));
  // The documents name the file by what `sha256sum` prints.
  CHECK(file.sha256 == sha256(sealed_text(target)));
  CHECK_THAT(test::read_text(test::source_path("docs/sealed.md")), Contains(file.sha256));
}

}  // namespace

TEST_CASE("the sealed prediction of sm_90a is what this version makes, and docs/sealed.md has its hash", "[long]") {
  check_is_of_this_version(Target::sm_90a);
  CHECK(print(make_sealed(Target::sm_90a, {}, 2)) == sealed_text(Target::sm_90a));
}
TEST_CASE("the sealed prediction of sm_100a is what this version makes, and docs/sealed.md has its hash", "[long]") {
  check_is_of_this_version(Target::sm_100a);
}
TEST_CASE("the sealed prediction of sm_103a is what this version makes, and docs/sealed.md has its hash", "[long]") {
  check_is_of_this_version(Target::sm_103a);
}
TEST_CASE("the sealed prediction of sm_110a is what this version makes, and docs/sealed.md has its hash",
          "[unsanitized]") {
  check_is_of_this_version(Target::sm_110a);
}
TEST_CASE("the sealed predictions of sm_120a and sm_121a are what this version makes, and docs/sealed.md has them",
          "[unsanitized]") {
  check_is_of_this_version(Target::sm_120a);
  check_is_of_this_version(Target::sm_121a);
}

TEST_CASE("every answer of a sealed prediction is named when a GPU gives it, and none when it is not in the file") {
  int64_t answers = 0;
  for (const Target target : sealed_targets) {
    for (const SealedPoint& point : built_in(target).points) {
      INFO(print(target) << ": " << point.name);
      CHECK(point.cases.size() >= 20);
      REQUIRE(point.predicted);
      for (const std::string& answer : point.answers) {
        ++answers;
        const SealedRecord record = record_of_answer(point, answer);
        const SealedFinding finding = finding_of(point, record);
        CHECK(finding.found == answer);
        CHECK(finding.verdict ==
              (answer == *point.predicted ? SealedVerdict::as_predicted : SealedVerdict::other_answer));
        CHECK(finding.deciding >= 3);
        SealedPoint withheld = point;
        withheld.predicted.reset();
        CHECK(finding_of(withheld, record).verdict == SealedVerdict::named);
        CHECK(finding_of(withheld, record).found == answer);
        const SealedFinding unknown = finding_of(without(point, answer), record);
        CHECK(unknown.verdict == SealedVerdict::none_known);
        CHECK(unknown.found == "none of the known answers");
        // One wrong case is enough.
        SealedRecord damaged = record;
        damaged.d.back() ^= 1;
        CHECK(finding_of(point, damaged).verdict == SealedVerdict::none_known);
      }
    }
  }
  CHECK(answers > 1000);
}

TEST_CASE("a device with another rule or another answer about places is found to have just that", "[unsanitized]") {
  const SealedFile file = built_in(Target::sm_90a);
  const auto found_of = [&](std::string_view part, const std::function<void(AccumulatorModel&)>& change) {
    const SealedPoint& point = point_of(file, part);
    const auto points = sealed::points_of(Target::sm_90a);
    const auto made = std::ranges::find(points, point.name, &sealed::Point::name);
    AccumulatorModel row = model_for(made->instruction, Target::sm_90a);
    change(row);
    return finding_of(point, ask_sealed_point(point, Target::sm_90a, device_of(&row))).found;
  };
  const auto nothing = [](AccumulatorModel&) {};
  CHECK(found_of("F and alignment: wgmma", nothing) == "F = 25; terms are truncated");
  CHECK(found_of("F and alignment: wgmma", [](AccumulatorModel& row) { row.fraction_bits = 24; }) ==
        "F = 24; terms are truncated");
  CHECK(found_of("F and alignment: wgmma", [](AccumulatorModel& row) { row.overrides.c_after_sum = true; }) ==
        "F = 25; C is added exactly");
  CHECK(found_of("F, floor and rounding: wgmma", [](AccumulatorModel& row) { row.floor_exponent = -20; }) ==
        "F = 25; floor -20; the sum is rounded to the nearest even");
  CHECK(found_of("order of bytes: mma.sync.aligned.m16n8k32.row.col.f32", [](AccumulatorModel& row) {
          row.step_order = StepOrder::ascending;
        }) == "all terms in one sum; C is added last; F = 25");
  CHECK(found_of("F and steps: mma.sync", [](AccumulatorModel& row) { row.terms_per_step = 8; }) ==
        "F = 25; a sum of 8 terms after the other");
  CHECK(found_of("F and steps: mma.sync", [](AccumulatorModel& row) { row.fraction_bits = 20; }) ==
        "none of the known answers");
  // Places, on every target: every word that is written counts.
  for (const Target target : {Target::sm_90a, Target::sm_103a}) {
    const SealedFile other = built_in(target);
    int64_t asked = 0;
    for (const survey::Question& question : survey::questions()) {
      if (!question.targets.contains(target) || question.answers.size() < 2) continue;
      const SealedPoint& point = point_of(other, question.name);
      for (const survey::Answer& answer : question.answers) {
        INFO(print(target) << ": " << question.name << ": " << answer.text);
        SealedPoint few = point;  // the others are as these
        few.cases.resize(2);
        few.inputs = make_sealed_point(target, point.name, {few.cases[0].number, few.cases[1].number}).inputs;
        const Executor device = [&](const Instruction& instruction, Target on, std::span<const State> cases) {
          std::vector<State> after;
          for (const State& state : cases) after.push_back(answer.after({instruction, on, state}));
          return after;
        };
        CHECK(finding_of(few, ask_sealed_point(few, target, device)).found == answer.text);
        ++asked;
      }
    }
    CHECK(asked > 10);
  }
}

TEST_CASE("a sealed prediction of another version is unreadable, and a device that fails gives no answer") {
  const SealedFile file = built_in(Target::sm_90a);
  const SealedPoint& point = point_of(file, "base offset");
  const auto verdict_of = [&](const SealedPoint& one, const Executor& device) {
    return finding_of(one, ask_sealed_point(one, Target::sm_90a, device)).verdict;
  };
  CHECK(verdict_of(point, device_of()) == SealedVerdict::as_predicted);
  SealedPoint other = point;
  other.inputs ^= 1;
  CHECK(verdict_of(other, device_of()) == SealedVerdict::unreadable);
  other = point;
  other.instruction = "wgmma";
  CHECK(verdict_of(other, device_of()) == SealedVerdict::unreadable);
  other = point;
  other.name = "the colour of the board";
  CHECK(verdict_of(other, device_of()) == SealedVerdict::unreadable);
  const Executor failing = [](const Instruction&, Target, std::span<const State>) -> std::vector<State> {
    throw Error({.field = "launch", .seen = "719", .expected = "0"});
  };
  CHECK(verdict_of(point, failing) == SealedVerdict::not_answered);
  const Executor silent = [](const Instruction&, Target, std::span<const State>) { return std::vector<State>(); };
  CHECK(verdict_of(point, silent) == SealedVerdict::not_answered);
}

TEST_CASE("predictions are withheld by name, and a target without points is refused", "[long]") {
  const SealedFile file = make_sealed(Target::sm_90a, "base offset", 2);
  for (const SealedPoint& point : file.points)
    CHECK(point.predicted.has_value() == (point.name.find("base offset") == std::string::npos));
  SealedFile expected = file;
  expected.sha256 = sha256(print(file));
  CHECK(read_sealed(print(file)) == expected);
  CHECK_THROWS_WITH(make_sealed(Target::sm_90a, "no such point"), Contains("withhold = no such point"));
}

TEST_CASE("files that are no sealed predictions are refused, and name what is wrong") {
  const std::string text(sealed_text(Target::sm_90a));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return other;
  };
  CHECK_THROWS_WITH(read_sealed(""), Contains("format = "));
  CHECK_THROWS_WITH(read_sealed(std::string(100'000, '[')), Contains("format = "));
  CHECK_THROWS_WITH(read_sealed(text.substr(0, text.size() / 2)), Contains("format = "));
  CHECK_THROWS_WITH(read_sealed(changed("\"sm_90a\"", "\"sm_91\"")), Contains("target = sm_91"));
  CHECK_THROWS_WITH(read_sealed(changed("\"points\"", "\"point\"")), Contains("file.points = (missing)"));
  CHECK_THROWS_WITH(read_sealed(changed("\"predicted\": \"", "\"predicted\": \"not ")),
                    Contains("points[0].predicted") && Contains("one of the answers, or null"));
  CHECK_THROWS_WITH(read_sealed(changed("\"inputs\": \"", "\"inputs\": \"x")), Contains("points[0].inputs"));
  CHECK_THROWS_WITH(read_sealed(changed("\"case\": 0", "\"case\": -1")), Contains("points[0].cases.case = -1"));
  CHECK_THROWS_WITH(read_sealed(changed("\"answers\": \"a", "\"answers\": \"9")), Contains("points[0].cases.answers"));
  CHECK_THROWS_WITH(read_sealed(changed("\"answers\": \"a", "\"answers\": \"aa")), Contains("letters"));
}

TEST_CASE("bitmma survey sealed: a rehearsal, a blind file, a GPU that answers nonsense, one that crashes, none",
          "[unsanitized]") {
  using test::run_program;
  const test::TemporaryFolder folder;
  const test::Finished rehearsed =
      run_program({"survey", "sealed", "--rehearse", "sm_90a", "-o", folder.path("answers.safetensors")});
  CHECK(rehearsed.code == 0);
  CHECK_THAT(rehearsed.out,
             Contains("22 as predicted") && Contains("proves nothing") && Contains(built_in(Target::sm_90a).sha256));
  const SealedAnswers answers = read_sealed_answers(read_tensor_file(folder.path("answers.safetensors")));
  CHECK(answers.records.size() == built_in(Target::sm_90a).points.size());

  SealedFile blind = built_in(Target::sm_90a);
  for (SealedPoint& point : blind.points) point.predicted.reset();
  test::write_text(folder.path("blind.json"), print(blind));
  const test::Finished named =
      run_program({"survey", "sealed", folder.path("blind.json"), "--rehearse", "sm_90a", "--json"});
  CHECK(named.code == 0);
  CHECK_THAT(named.out, Contains("\"verdict\": \"named\"") && !Contains("as predicted"));

  const test::ProcessOptions fake{.environment = {{"LD_LIBRARY_PATH", BITMMA_FAKE_CUDA}}};
  const test::Finished nonsense = run_program({"survey", "sealed"}, fake);
  CHECK(nonsense.code == 1);
  CHECK_THAT(nonsense.out, Contains("22 none known"));
  const test::Finished crashed =
      run_program({"survey", "sealed"},
                  {.environment = {{"LD_LIBRARY_PATH", BITMMA_FAKE_CUDA}, {"FAKE_CUDA_SIGNAL", "cuLaunchKernel:1:9"}}});
  CHECK(crashed.code == 2);
  CHECK_THAT(crashed.out, Contains("22 no answer") && Contains("signal 9"));
  const test::Finished without_gpu = run_program({"survey", "sealed"});
  CHECK(without_gpu.code == 2);
  const test::Finished of_another =
      run_program({"survey", "sealed", test::source_path("data/sealed/sm_100a.json"), "--rehearse", "sm_90a"});
  CHECK(of_another.code == 2);
  CHECK_THAT(of_another.err, Contains("sm_100a"));
}

TEST_CASE("an H100 named the right answer where the file withheld the prediction") {
  const auto report = nlohmann::json::parse(test::read_text(test::source_path("data/evidence/sealed_h100.json")));
  CHECK(report["gpu"] == "NVIDIA H100 80GB HBM3");
  int named = 0, predicted = 0;
  for (const auto& point : report["points"]) {
    INFO(point.dump());
    const bool is_named = point["verdict"] == "named";
    (is_named ? named : predicted) += 1;
    CHECK((is_named || point["verdict"] == "as predicted"));
    // What the model says of the withheld points: that of the H200.
    if (is_named) CHECK(point["found"] == "F = 25; floor -21; the sum is rounded to the nearest even");
    CHECK(point["predicted"].is_null() == is_named);
  }
  CHECK((named == 2 && predicted == 20));
}
