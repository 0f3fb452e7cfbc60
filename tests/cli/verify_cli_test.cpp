#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::f16, test::one_golden, test::Outcome, test::run;

namespace {

const test::BadRequests bad_requests({
    {"verify", missing_argument, "paths"},
    {"verify --frobnicate x", not_found, "flag of bitmma verify"},
    {"verify $FOLDER/absent", not_found, "file"},
    {"verify $FOLDER", illegal_value, "$FOLDER/."},
});

}  // namespace

TEST_CASE("verify refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("verify repeats recorded launches, and tells the first byte of one that differs") {
  const std::string path = test::oracle_path("inductor.safetensors");
  Outcome outcome = run({"verify", path});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("launches 69, ") && ContainsSubstring("differing 0, refused 0"));
  const test::TemporaryFolder folder;
  TensorFile file = read_tensor_file(path);
  std::vector<uint8_t> bytes = file.find("after.0.0") ? file.find("after.0.0")->bytes.copy() : std::vector<uint8_t>{};
  std::string name = "after.0.0";
  for (int j = 1; bytes.empty(); ++j) {
    name = "after.0." + std::to_string(j);
    if (file.find(name)) bytes = file.find(name)->bytes.copy();
  }
  bytes[5] ^= 1;
  const auto size = std::ssize(bytes);
  file.set(Tensor::from_bytes(name, "U8", {size}, std::move(bytes)));
  write_tensor_file(folder.path("other.safetensors"), file);
  outcome = run({"verify", folder.path("other.safetensors")});
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.out, ContainsSubstring("launch 0, ") && ContainsSubstring("first byte 5 of memory") &&
                              ContainsSubstring("differing 1, refused 0"));
  // With cases of instructions in the same call: both are compared.
  outcome = run({"verify", path, std::string(one_golden), "--json"});
  CHECK(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["launches"].size() == 69);
  CHECK(json["mismatches"] == 0);
  CHECK(json["files"] == 1);
  outcome = run({"verify", path, "--instruction", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"});
  CHECK(outcome.code == 2);  // it does not act on launches
}

TEST_CASE("bad vector files: message and exit code of each") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("bad.safetensors");
  const auto edit = [&](const std::function<void(TensorFile&)>& change) {
    TensorFile file = read_tensor_file(one_golden);
    change(file);
    write_tensor_file(path, file);
  };
  const auto reshape = [](TensorFile& file, const char* name, const char* dtype, std::vector<int64_t> shape) {
    int64_t size = dtype_bytes(dtype);
    for (const int64_t extent : shape) size *= extent;
    file.set(Tensor::from_bytes(name, dtype, std::move(shape), std::vector<uint8_t>(static_cast<size_t>(size))));
  };
  struct Row {
    std::function<void(TensorFile&)> change;
    test::Refusal refusal;
  };
  const std::vector<Row> rows = {
      {[](TensorFile& f) { f.set_metadata("format", "bitmma-vectors-9"); },
       {illegal_value, "$FOLDER/bad.safetensors: __metadata__ format"}},
      {[](TensorFile& f) { f.erase_metadata("instruction"); },
       {missing_instruction, "$FOLDER/bad.safetensors: __metadata__ instruction"}},
      {[](TensorFile& f) { f.set_metadata("instruction", "wgmma.mma_async.sync.aligned.m64n9k16.f32.f16.f16"); },
       {illegal_value, "$FOLDER/bad.safetensors: n"}},
      {[](TensorFile& f) { f.set_metadata("instruction", "nonsense"); }, {unknown_name, "instruction"}},
      {[](TensorFile& f) { f.set_metadata("imm_scale_a", "one"); },
       {illegal_value, "$FOLDER/bad.safetensors: __metadata__ imm_scale_a"}},
      {[](TensorFile& f) { f.set_metadata("imm_scale_a", "2"); },
       {illegal_value, "$FOLDER/bad.safetensors: imm_scale_a"}},
      {[](TensorFile& f) { f.set_metadata("imm_trans_b", "1x"); },
       {illegal_value, "$FOLDER/bad.safetensors: __metadata__ imm_trans_b"}},
      {[](TensorFile& f) { f.set_metadata("scale_d", ""); },
       {illegal_value, "$FOLDER/bad.safetensors: __metadata__ scale_d"}},
      {[](TensorFile& f) { f.set_metadata("sparsity_selector", "3"); },
       {no_effect, "$FOLDER/bad.safetensors: sparsity_selector"}},
      {[](TensorFile& f) {
         f.set_metadata("scale_d", "1");
         f.erase("c_regs");
       },
       {missing_input, "$FOLDER/bad.safetensors: tensor c_regs"}},
      {[](TensorFile& f) { f.erase("smem"); }, {missing_input, "$FOLDER/bad.safetensors: tensor smem"}},
      {[](TensorFile& f) { f.erase("a_desc"); }, {missing_input, "$FOLDER/bad.safetensors: tensor a_desc"}},
      {[](TensorFile& f) { f.erase("b_desc"); }, {missing_input, "$FOLDER/bad.safetensors: tensor b_desc"}},
      {[](TensorFile& f) { f.erase("d_regs"); }, {missing_input, "$FOLDER/bad.safetensors: tensor d_regs"}},
      {[](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
       },
       {illegal_value, "$FOLDER/bad.safetensors: tensors"}},
      {[&](TensorFile& f) {
         reshape(f, "a_regs", "U32", {2, 128, 4});
       },
       {illegal_value, "$FOLDER/bad.safetensors: tensors"}},
      {[&](TensorFile& f) { reshape(f, "a_desc", "U32", {2}); },
       {wrong_type, "$FOLDER/bad.safetensors: tensor a_desc dtype"}},
      {[&](TensorFile& f) { reshape(f, "a_desc", "U64", {3}); },
       {wrong_shape, "$FOLDER/bad.safetensors: tensor a_desc shape"}},
      {[&](TensorFile& f) {
         reshape(f, "a_desc", "U64", {2, 1});
       },
       {wrong_shape, "$FOLDER/bad.safetensors: tensor a_desc shape"}},
      {[&](TensorFile& f) { reshape(f, "a_desc", "U64", {}); },
       {wrong_shape, "$FOLDER/bad.safetensors: tensor a_desc shape"}},
      {[&](TensorFile& f) { reshape(f, "smem", "U8", {2}); },
       {wrong_shape, "$FOLDER/bad.safetensors: tensor smem shape"}},
      {[&](TensorFile& f) {
         reshape(f, "smem", "I8", {2, 4096});
       },
       {wrong_type, "$FOLDER/bad.safetensors: tensor smem dtype"}},
      {[&](TensorFile& f) {
         reshape(f, "smem", "U8", {2, 0});
       },
       {wrong_shape, "$FOLDER/bad.safetensors: tensor smem shape"}},
      {[&](TensorFile& f) {
         reshape(f, "smem", "U8", {2, 100});
       },
       {illegal_value, "A element row 0, k 8"}},
      {[&](TensorFile& f) {
         reshape(f, "d_regs", "U32", {2, 128, 5});
       },
       {wrong_shape, "$FOLDER/bad.safetensors: tensor d_regs shape"}},
      {[&](TensorFile& f) {
         reshape(f, "d_regs", "F16", {2, 128, 4});
       },
       {wrong_type, "$FOLDER/bad.safetensors: tensor d_regs dtype"}},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         reshape(f, "a", "F32", {1, 64, 16});
         reshape(f, "b", "F16", {1, 16, 8});
       },
       {wrong_type, "$FOLDER/bad.safetensors: tensor a dtype"}},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         reshape(f, "a", "F16", {1, 64, 16});
       },
       {missing_input, "$FOLDER/bad.safetensors: tensor b"}},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         f.set_metadata("scale_d", "1");
         reshape(f, "a", "F16", {1, 64, 16});
         reshape(f, "b", "F16", {1, 16, 8});
       },
       {missing_input, "$FOLDER/bad.safetensors: tensor c"}},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         reshape(f, "a", "F16", {0, 64, 16});
         reshape(f, "b", "F16", {0, 16, 8});
       },
       {illegal_value, "$FOLDER/bad.safetensors: cases"}},
  };
  for (const Row& row : rows) {
    edit(row.change);
    const Outcome outcome = run({"verify", path});
    INFO(row.refusal.field << "\n" << outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.violations, refused(row.refusal));
  }
}

TEST_CASE("verify prints files, cases, outputs and mismatches, and how sure the arithmetic is") {
  const Outcome outcome = run({"verify", test::source_path("data/golden/sm_90a")});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("mismatches 0\n"));
  CHECK_THAT(outcome.out, ContainsSubstring("measured on an NVIDIA H200"));
  CHECK_THAT(outcome.out,
             ContainsSubstring("instruction") && ContainsSubstring("target  ") && ContainsSubstring("sm_90a"));
  CHECK(outcome.err.empty());
  const Outcome json = run({"verify", "--json", one_golden});
  const auto parsed = nlohmann::json::parse(json.out);
  CHECK(parsed["files"] == 1);
  CHECK(parsed["outputs"] == 1024);
  CHECK(parsed["mismatches"] == 0);
  CHECK(parsed["results"][0]["source"] == "NVIDIA H200");
  CHECK(parsed["results"][0]["target"] == "sm_90a");
}

TEST_CASE("tcgen05: golden, simulate, verify, compare, and bad files get their message") {
  const test::TemporaryFolder folder;
  const std::string golden = folder.path("golden.safetensors"), out = folder.path("out.safetensors"),
                    bad = folder.path("bad.safetensors");
  CHECK(run({"golden", "tcgen05.mma.cta_group::2.kind::f8f6f4", "--m", "128", "--n", "32", "--a", "e2m1", "--b", "e4m3",
             "--cases", "2", "-o", golden})
            .code == 0);
  CHECK(run({"simulate", golden, "-o", out}).code == 0);
  CHECK(run({"compare", golden, out}).code == 0);
  CHECK_THAT(run({"simulate", golden}).out, ContainsSubstring("M = 128, N = 32, K = 32; D f32, A e2m1, B e4m3") &&
                                                ContainsSubstring("model choice"));  // of cta_group::2
  CHECK_THAT(run({"verify", golden}).out, ContainsSubstring("tcgen05.mma.cta_group::2.kind::f8f6f4 f32.e2m1.e4m3"));
  CHECK_THAT(run({"decode", "tcgen05.mma.ws.cta_group::1.kind::i8"}).out, ContainsSubstring("weight-stationary"));
  struct Row {
    std::function<void(TensorFile&)> change;
    test::Refusal refusal;
  };
  const auto replace = [](TensorFile& file, const char* name, const char* dtype, std::vector<int64_t> shape,
                          uint8_t fill = 0) {
    int64_t size = dtype_bytes(dtype);
    for (const int64_t extent : shape) size *= extent;
    file.set(Tensor::from_bytes(name, dtype, std::move(shape), std::vector<uint8_t>(static_cast<size_t>(size), fill)));
  };
  const std::vector<Row> rows = {
      {[](TensorFile& f) { f.erase("idesc"); }, {missing_input, "$FOLDER/bad.safetensors: tensor idesc"}},
      {[&](TensorFile& f) { replace(f, "idesc", "U32", {2}); }, {illegal_value, "$FOLDER/bad.safetensors: m"}},
      {[&](TensorFile& f) { replace(f, "idesc", "U64", {2}); }, {wrong_type, "$FOLDER/bad.safetensors: tensor idesc"}},
      {[&](TensorFile& f) { replace(f, "idesc", "U32", {2}, 0xFF); },
       {illegal_value, "$FOLDER/bad.safetensors: reserved bits"}},
      {[](TensorFile& f) { f.erase("tmem"); }, {missing_input, "$FOLDER/bad.safetensors: tensor tmem"}},
      {[](TensorFile& f) { f.erase("d_tmem"); }, {missing_input, "$FOLDER/bad.safetensors: tensor d_tmem"}},
      {[](TensorFile& f) { f.erase("enable_input_d"); },
       {missing_input, "$FOLDER/bad.safetensors: tensor enable_input_d"}},
      {[&](TensorFile& f) {
         replace(f, "tmem", "U32", {2, 1, 128, 32});
       },
       {wrong_shape, "$FOLDER/bad.safetensors: tensor tmem shape"}},
      {[&](TensorFile& f) {
         replace(f, "tmem", "U32", {2, 2, 128, 8});
       },
       {illegal_value, "D columns"}},
      {[&](TensorFile& f) {
         replace(f, "smem", "U8", {2, 4096});
       },
       {wrong_shape, "$FOLDER/bad.safetensors: tensor smem shape"}},
      {[&](TensorFile& f) {
         replace(f, "smem", "U8", {2, 2, 64});
       },
       {illegal_value, "A element row 1, k 0"}},
      {[&](TensorFile& f) { replace(f, "d_tmem", "U32", {2}, 0x7F); }, {illegal_value, "Tensor Memory address"}},
      {[&](TensorFile& f) {
         replace(f, "disable_output_lane", "U32", {2, 4});
       },
       {wrong_shape, "$FOLDER/bad.safetensors: tensor disable_output_lane shape"}},
      {[&](TensorFile& f) { replace(f, "scale_input_d", "U8", {2}, 1); },
       {illegal_value, "$FOLDER/bad.safetensors: scale_input_d"}},
      {[&](TensorFile& f) { replace(f, "zero_column_mask", "U64", {2}, 1); }, {illegal_value, "zero_column_mask"}},
      {[&](TensorFile& f) { replace(f, "a_tmem", "U32", {2}); }, {illegal_value, "$FOLDER/bad.safetensors: tensors"}},
      {[](TensorFile& f) { f.erase("tmem_after"), f.erase("d"); },
       {missing_input, "$FOLDER/bad.safetensors: tensor tmem_after"}},
      {[](TensorFile& f) { f.set_metadata("instruction", "tcgen05.mma.cta_group::2.kind::mxf4"); },
       {malformed, ".block_scale"}},
  };
  for (const Row& row : rows) {
    TensorFile file = read_tensor_file(golden);
    row.change(file);
    write_tensor_file(bad, file);
    const Outcome outcome = run({"verify", bad});
    INFO(row.refusal.field << "\n" << outcome.err);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.violations, refused(row.refusal));
  }
}

TEST_CASE("verify names a file that cannot be read, and verifies the others") {
  const test::TemporaryFolder folder;
  REQUIRE(run({"golden", test::f16, "--cases", "1", "-o", folder.path("a.safetensors")}).code == 0);
  std::filesystem::create_symlink("nowhere", folder.path("b.safetensors"));
  const Outcome outcome = run({"verify", folder.path(".")});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.violations, refused(not_found, "file"));
  CHECK_THAT(outcome.out, ContainsSubstring("files 1, cases 1, outputs 512, mismatches 0"));
}

TEST_CASE("simulate of a folder names a link to nothing, and shows the other files") {
  const test::TemporaryFolder folder;
  REQUIRE(run({"golden", test::f16, "--cases", "1", "-o", folder.path("b.safetensors")}).code == 0);
  std::filesystem::create_symlink("nowhere", folder.path("a.safetensors"));
  const Outcome outcome = run({"simulate", folder.path(".")});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.violations, refused(not_found, "file"));
  CHECK_THAT(outcome.out, ContainsSubstring("match the recorded D"));
  // What is named is there before anything is shown.
  CHECK(run({"simulate", folder.path("b.safetensors"), folder.path("a.safetensors")}).out.empty());
}
