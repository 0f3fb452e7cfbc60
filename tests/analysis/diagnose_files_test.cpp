#include "bitmma/analysis/diagnose_files.hpp"

#include <algorithm>
#include <array>

#include "support/case_files.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

constexpr const char* small_wgmma = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16";

/// The file with the D of a program that makes this mistake.
TensorFile with_fault(const TensorFile& file, const std::string& fault) {
  const VectorFile vectors = as_tiled_file(file);
  std::vector<Case> cases;
  for (int64_t index = 0; index < vectors.cases; ++index) cases.push_back(case_at(vectors, index));
  VectorBuilder builder(vectors.instruction, vectors.target);
  for (int64_t index = 0; index < vectors.cases; ++index) {
    Case wrong{.instruction = vectors.instruction, .target = vectors.target};
    wrong.logical.d = faulty_d(cases, index, std::array{fault});
    builder.add(wrong);
  }
  return {.path = "wrong", .metadata = {}, .tensors = {*std::move(builder).finish({}).find("d")}};
}

}  // namespace

TEST_CASE("the mistake of a program is found from its D alone, and nothing is found in a right D") {
  const TensorFile expected = test::golden_file("expected", small_wgmma);
  const DiagnosedFiles right = diagnose_files(expected);
  CHECK(right.are_right());
  CHECK(right.diagnosis.findings.empty());
  const std::vector<Fault> faults = faults_of_file(without_results(expected));
  const auto planted = std::ranges::find(faults, FaultStage::c, &Fault::stage);
  REQUIRE(planted != faults.end());
  const DiagnosedFiles wrong = diagnose_files(expected, with_fault(expected, planted->id));
  CHECK_FALSE(wrong.are_right());
  CHECK(wrong.comparison.mismatches == wrong.diagnosis.wrong);
  REQUIRE_FALSE(wrong.diagnosis.findings.empty());
  CHECK(wrong.diagnosis.findings.front().explains_all);
  CHECK(to_json(*wrong.report.find("outside_d")) == "0");
  // Rows of the list are the faults.
  const Report list = describe(faults);
  const auto& rows = std::get<Report::List>(list.value);
  REQUIRE(rows.size() == faults.size());
  CHECK(to_json(*rows[0].find("id")) == '"' + faults[0].id + '"');
}

TEST_CASE("a tile is diagnosed, and what cannot be is refused by code and field") {
  const TensorFile tile = with_simulated_d(as_tiled_file(test::plain_file("tile", small_wgmma, 128, 16, 32)), {}, 1);
  CHECK(diagnose_files(tile).are_right());
  CHECK(diagnose_files(test::with_flipped_bit(tile, "d", 0)).comparison.mismatches == 1);
  const auto refused = [](const TensorFile& expected, std::optional<TensorFile> actual = {}) {
    const auto violation = test::violation_of([&] { (void)diagnose_files(expected, actual); });
    REQUIRE(violation);
    return *violation;
  };
  const TensorFile expected = test::golden_file("expected", small_wgmma);
  CHECK(refused(without_results(expected)).field == "expected: tensor d_regs");
  CHECK(refused({.path = "d", .metadata = {}, .tensors = {*expected.find("d")}}).code == ViolationCode::unusable_file);
  CHECK(refused(test::golden_file("moves", "tcgen05.ld.sync.aligned.32x32b.x1.b32")).field == "instruction");
  CHECK(refused(expected, tile).code == ViolationCode::other_inputs);
  CHECK(refused(expected, test::golden_file("actual", small_wgmma, 3)).field == "actual: cases");
}
