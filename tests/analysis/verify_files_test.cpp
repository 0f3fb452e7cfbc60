#include "bitmma/analysis/verify_files.hpp"

#include "bitmma/files/tensor_file.hpp"
#include "support/case_files.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("files are verified together; those that cannot be read are reported beside the others") {
  const test::TemporaryFolder folder;
  const TensorFile good = test::golden_file("");
  TensorFile wrong = test::with_flipped_bit(good, "d_regs", 4);
  wrong.erase("d");
  write_tensor_file(folder.path("good.safetensors"), good);
  write_tensor_file(folder.path("wrong.safetensors"), wrong);
  write_tensor_file(folder.path("no_d.safetensors"), without_results(good));
  write_tensor_file(folder.path("contradicts.safetensors"), test::with_flipped_bit(good, "a", 0));
  std::vector<std::string> paths;
  for (const char* name : {"good", "absent", "wrong", "no_d", "contradicts"})
    paths.push_back(folder.path(name + std::string(".safetensors")));
  FilesToVerify files = read_files_to_verify(paths);
  CHECK(files.files.size() == 3);
  CHECK(files.cases() == 6);
  REQUIRE(files.unreadable.size() == 2);
  CHECK(files.unreadable[1].field == folder.path("no_d.safetensors") + ": tensor d_regs");
  int64_t done = 0;
  const VerifiedFiles verified = verify_files(files, {.threads = 2}, [&](int64_t cases) { done = cases; });
  CHECK(verified.files == 2);
  CHECK(done == 4);
  CHECK(verified.total.cases == 4);
  CHECK(verified.total.outputs == 512);
  CHECK(verified.total.mismatches == 1);
  REQUIRE(files.unreadable.size() == 3);
  CHECK(files.unreadable[2].code == ViolationCode::contradiction);
  CHECK(to_json(*verified.report.find("mismatches")) == "1");
  const auto& results = std::get<Report::List>(verified.report.find("results")->value);
  REQUIRE(results.size() == 2);
  CHECK(to_json(*results[0].find("mismatches")) == "0");
  CHECK(to_json(*results[1].find("source")) == to_json(Report(*good.find_metadata("source"))));
}

TEST_CASE("tiles are verified as other cases are, and files of other kinds are left to their reader") {
  const test::TemporaryFolder folder;
  const VectorFile tile =
      as_tiled_file(test::plain_file("", "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16", 128, 16, 48));
  write_tensor_file(folder.path("tile.safetensors"), with_simulated_d(tile, {}, 1));
  FilesToVerify files = read_files_to_verify({folder.path("tile.safetensors")});
  const VerifiedFiles verified = verify_files(files);
  CHECK(verified.total.mismatches == 0);
  CHECK(verified.total.outputs == 128 * 16);
  CHECK(to_json(*std::get<Report::List>(verified.report.find("results")->value)[0].find("steps")) == "3");
  int kept = 0;
  const auto keep = [&](TensorFile) -> std::optional<VectorFile> { return ++kept, std::nullopt; };
  CHECK(read_files_to_verify({folder.path("tile.safetensors")}, keep).files.empty());
  CHECK(kept == 1);
}
