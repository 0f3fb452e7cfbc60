#include "bitmma/analysis/simulate_file.hpp"

#include <filesystem>

#include "support/case_files.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/violation.hpp"

using namespace bitmma;

namespace {

constexpr const char* small_wgmma = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16";

/// The codes of the warnings of an act.
struct Warnings {
  std::vector<ViolationCode> codes = {};
  FileEvents events = {.warn = [this](const std::vector<Violation>& warnings) {
    for (const Violation& warning : warnings) codes.push_back(warning.code);
  }};
};

}  // namespace

TEST_CASE("cases are shown with their D, and a recorded D is compared") {
  const TensorFile file = test::golden_file("file");
  const SimulationReport same = describe(simulate_file(file), {.index = 1, .d = {.as_codes = true}});
  CHECK(to_json(*same.report.find("case")) == "1");
  REQUIRE(same.recorded);
  CHECK(same.recorded->mismatches == 0);
  CHECK(to_json(*same.report.find("recorded")->find("outputs")) == "256");
  TensorFile wrong = test::with_flipped_bit(file, "d_regs", 4);
  wrong.erase("d");
  CHECK(describe(simulate_file(wrong)).recorded->mismatches == 1);
  CHECK_FALSE(describe(simulate_file(without_results(file))).recorded);
  const auto refused = test::violation_of([&] { (void)describe(simulate_file(file), {.index = 2}); });
  REQUIRE(refused);
  CHECK(refused->field == "case");
  const auto contradicts = test::violation_of([&] { (void)simulate_file(test::with_flipped_bit(file, "a", 0)); });
  REQUIRE(contradicts);
  CHECK(contradicts->code == ViolationCode::contradiction);
}

TEST_CASE("plain matrices are one instruction, a K loop or a tile") {
  const SimulatedFile single = simulate_file(test::plain_file("file", small_wgmma, 64, 16, 16));
  CHECK_FALSE(single.loops);
  CHECK_FALSE(single.file.has_state);
  CHECK(layouts_used(single, true).b);
  CHECK_FALSE(layouts_used(single, false).b);  // no image is made

  const SimulatedFile loop = simulate_file(test::plain_file("file", small_wgmma, 64, 16, 48));
  REQUIRE(loop.loops);
  CHECK(loop.file.cases == 3);
  CHECK(layouts_used(loop, false).a);
  const SimulationReport last = describe(loop);
  CHECK(to_json(*last.report.find("case")) == "2");
  CHECK(to_json(*last.report.find("k_loop")) == "3");

  const SimulatedFile tile = simulate_file(test::plain_file("file", small_wgmma, 128, 16, 48));
  CHECK_FALSE(tile.loops);
  CHECK(tile.file.tiling == Tiling{.m = 2, .n = 1, .k = 3});
  CHECK_FALSE(layouts_used(tile, true).a);
  CHECK(to_json(*describe(tile).report.find("m")) == "128");
  CHECK(recorded_d(case_at(loop.file, 2)) == computed_tile(case_at(*loop.loops, 0)));
}

TEST_CASE("with another target, the operands are computed on both GPUs") {
  const TensorFile file = test::golden_file("file");  // of sm_90a
  const SimulatedFile both = simulate_file(file, {.file = {.target = Target::sm_80}});
  REQUIRE(both.on_target);
  CHECK(both.on_target->target == Target::sm_80);
  CHECK_FALSE(both.on_target->has_recorded_d());
  CHECK(both.file.has_recorded_d());
  const Report report = describe(both).report;
  CHECK(to_json(*report.find("on_target")->find("target")) == "\"sm_80\"");
  CHECK(to_json(*report.find("between_targets")->find("mismatches")) ==
        std::to_string(compare_computed(both.file, *both.on_target).mismatches));
  CHECK_FALSE(simulate_file(file, {.file = {.target = Target::sm_90a}}).on_target);
}

TEST_CASE("results for another initial state are left out with a warning") {
  const test::TemporaryFolder folder;
  write_tensor_file(folder.path("before.safetensors"), test::golden_file("", small_wgmma));
  Warnings warnings;
  const SimulatedFile simulated = simulate_file(test::golden_file("file", small_wgmma),
                                                {.after = folder.path("before.safetensors")}, warnings.events);
  CHECK(warnings.codes == std::vector{ViolationCode::unread_argument, ViolationCode::unread_argument});  // d, d_regs
  CHECK_FALSE(compare_recorded(simulated));
}

TEST_CASE("a result is written unless a recorded D would be lost") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("out.safetensors");
  const TensorFile file = test::golden_file("file");
  TensorFile wrong = test::with_flipped_bit(file, "d_regs", 4);
  wrong.erase("d");
  const SimulatedFile differs = simulate_file(wrong), same = simulate_file(file);
  const WrittenSimulation kept = write_simulation(differs, {.path = path});
  CHECK_FALSE(kept.is_written);
  CHECK(kept.recorded->mismatches == 1);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(write_simulation(same, {.path = path}).is_written);
  CHECK(verify(read_vector_file(path)).mismatches == 0);
  CHECK(write_simulation(differs, {.path = path, .replaces_d = true}).is_written);  // the program's own file
  CHECK(verify(read_vector_file(path)).mismatches == 0);
  TensorFile of_gpu = file;
  of_gpu.set_metadata("source", "an H100");
  write_tensor_file(path, of_gpu);
  const auto refused = test::violation_of([&] { (void)write_simulation(same, {.path = path}); });
  REQUIRE(refused);
  CHECK(refused->code == ViolationCode::would_replace);
  CHECK(write_simulation(same, {.path = path, .replaces_d = true}).is_written);
}

TEST_CASE("lint adds what is suspicious to a list, and says whether anything is") {
  Report list = Report::list();
  CHECK_FALSE(lint_file(test::golden_file("file"), {}, list));
  CHECK(std::get<Report::List>(list.value).empty());
  TensorFile nans = without_results(test::golden_file("file"));
  nans.erase("a");
  const Tensor a = *nans.find("a_regs");
  nans.set(Tensor::from_bytes("a_regs", a.dtype, a.shape, std::vector<uint8_t>(a.bytes.size(), 0xFF)));
  CHECK(lint_file(nans, {.target = Target::sm_80}, list));
  const Report& row = std::get<Report::List>(list.value).front();
  CHECK(to_json(*row.find("target")) == "\"sm_80\"");
  CHECK(to_json(*row.find("cases")) == "2");
}
