#include "bitmma/analysis/compare_files.hpp"

#include "support/case_files.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;

TEST_CASE("two files of the same cases are compared, their inputs first") {
  const TensorFile expected = test::golden_file("expected"), same = test::golden_file("actual");
  const ComparedFiles equal = compare_files(expected, same);
  CHECK(equal.are_same());
  CHECK(equal.comparison.outputs == 256);
  CHECK(to_json(*equal.report.find("actual")->find("file")) == "\"actual\"");
  TensorFile wrong = test::with_flipped_bit(same, "d_regs", 4);
  wrong.erase("d");
  const ComparedFiles other_d = compare_files(expected, wrong);
  CHECK_FALSE(other_d.are_same());
  CHECK(other_d.comparison.mismatches == 1);
  CHECK(other_d.inputs.empty());
  TensorFile other = test::with_flipped_bit(same, "a_regs", 0);
  other.erase("a");
  const ComparedFiles other_inputs = compare_files(expected, other);
  CHECK_FALSE(other_inputs.are_same());
  CHECK(other_inputs.inputs == std::vector<InputDifference>{{.name = "A", .cases = 1}});
}

TEST_CASE("a D alone is compared for the inputs of the first file, after the last step of a K loop, too") {
  const TensorFile expected = test::golden_file("expected");
  TensorFile d{.path = "d", .metadata = {}, .tensors = {*expected.find("d")}};
  d.tensors.front().name = "out";
  CHECK(compare_files(expected, d).are_same());
  CHECK(compare_files(expected, test::with_flipped_bit(d, "out", 0)).comparison.mismatches == 1);

  const VectorFile loop =
      as_tiled_file(test::plain_file("loop", "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16", 64, 16, 32));
  const TensorFile steps = unroll_k(loop, {}).file;
  const TensorFile with_d = with_simulated_d(loop, {}, 1);
  const TensorFile whole_d{.path = "d", .metadata = {}, .tensors = {*with_d.find("d")}};
  const ComparedFiles compared = compare_files(steps, whole_d);
  CHECK(compared.are_same());
  CHECK(compared.comparison.cases == 1);
}

TEST_CASE("files that cannot be compared are refused by code and field") {
  const TensorFile expected = test::golden_file("expected");
  const auto refused = [](const TensorFile& first, const TensorFile& second) {
    const auto violation = test::violation_of([&] { (void)compare_files(first, second); });
    REQUIRE(violation);
    return *violation;
  };
  TensorFile no_d = without_results(expected);
  no_d.path = "actual";
  CHECK(refused(expected, no_d).field == "actual: tensor d_regs");
  const TensorFile d{.path = "d", .metadata = {}, .tensors = {*expected.find("d")}};
  CHECK(refused(d, expected).code == ViolationCode::unusable_file);
  CHECK(refused(expected, test::golden_file("actual", test::small_mma, 3)).field == "actual: cases");
  TensorFile half_d = d;
  half_d.tensors.front() = Tensor::from_bytes("d", "F32", {1, 16, 8}, std::vector<uint8_t>(512));
  CHECK(refused(expected, half_d).field.starts_with("d: "));  // the file of D, not that of the inputs
  TensorFile tile = test::plain_file("actual", test::small_mma, 32, 8, 16);
  tile.set(Tensor::from_bytes("c", "F32", {32, 8}, std::vector<uint8_t>(1024)));
  tile.set(Tensor::from_bytes("d", "F32", {32, 8}, std::vector<uint8_t>(1024)));
  CHECK(refused(expected, tile).code == ViolationCode::other_inputs);
}
