#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::f16, test::one_golden, test::Outcome, test::run;

namespace {

const test::BadRequests bad_requests({
    {"verify", "paths: missing"},
    {"verify --frobnicate x", "--frobnicate"},
    {"verify $FOLDER/absent", "no such file"},
    {"verify $FOLDER", "a folder without vector files"},
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
    std::string message;
  };
  const std::vector<Row> rows = {
      {[](TensorFile& f) { f.set_metadata("format", "bitmma-vectors-9"); }, "__metadata__ format = bitmma-vectors-9"},
      {[](TensorFile& f) { f.erase_metadata("instruction"); }, "pass --instruction"},
      {[](TensorFile& f) { f.set_metadata("instruction", "wgmma.mma_async.sync.aligned.m64n9k16.f32.f16.f16"); },
       "n = 9"},
      {[](TensorFile& f) { f.set_metadata("instruction", "nonsense"); }, "instruction = nonsense"},
      {[](TensorFile& f) { f.set_metadata("imm_scale_a", "one"); }, "__metadata__ imm_scale_a = one"},
      {[](TensorFile& f) { f.set_metadata("imm_scale_a", "2"); }, "imm_scale_a = 2"},
      {[](TensorFile& f) { f.set_metadata("imm_trans_b", "1x"); }, "__metadata__ imm_trans_b = 1x"},
      {[](TensorFile& f) { f.set_metadata("scale_d", ""); }, "__metadata__ scale_d"},
      {[](TensorFile& f) { f.set_metadata("sparsity_selector", "3"); }, "sparsity_selector = 3"},
      {[](TensorFile& f) {
         f.set_metadata("scale_d", "1");
         f.erase("c_regs");
       },
       "tensor c_regs = (missing)"},
      {[](TensorFile& f) { f.erase("smem"); }, "tensor smem = (missing)"},
      {[](TensorFile& f) { f.erase("a_desc"); }, "tensor a_desc = (missing)"},
      {[](TensorFile& f) { f.erase("b_desc"); }, "tensor b_desc = (missing)"},
      {[](TensorFile& f) { f.erase("d_regs"); }, "a recorded D to compare with"},
      {[](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
       },
       "or plain matrices a, b, c"},
      {[&](TensorFile& f) {
         reshape(f, "a_regs", "U32", {2, 128, 4});
       },
       "both a_regs and a_desc"},
      {[&](TensorFile& f) { reshape(f, "a_desc", "U32", {2}); }, "tensor a_desc dtype = U32: must be U64"},
      {[&](TensorFile& f) { reshape(f, "a_desc", "U64", {3}); }, "tensor a_desc shape = [3]"},
      {[&](TensorFile& f) {
         reshape(f, "a_desc", "U64", {2, 1});
       },
       "tensor a_desc shape = [2, 1]"},
      {[&](TensorFile& f) { reshape(f, "a_desc", "U64", {}); }, "tensor a_desc shape = []"},
      {[&](TensorFile& f) { reshape(f, "smem", "U8", {2}); }, "tensor smem shape = [2]: must be [2, ...]"},
      {[&](TensorFile& f) {
         reshape(f, "smem", "I8", {2, 4096});
       },
       "tensor smem dtype = I8"},
      {[&](TensorFile& f) {
         reshape(f, "smem", "U8", {2, 0});
       },
       "tensor smem shape = [2, 0]: must be [2, ...]"},
      {[&](TensorFile& f) {
         reshape(f, "smem", "U8", {2, 100});
       },
       "shared-memory image of 100 bytes"},
      {[&](TensorFile& f) {
         reshape(f, "d_regs", "U32", {2, 128, 5});
       },
       "tensor d_regs shape = [2, 128, 5]: must be [2, 128, 4]"},
      {[&](TensorFile& f) {
         reshape(f, "d_regs", "F16", {2, 128, 4});
       },
       "tensor d_regs dtype = F16"},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         reshape(f, "a", "F32", {1, 64, 16});
         reshape(f, "b", "F16", {1, 16, 8});
       },
       "tensor a dtype = F32: must be F16"},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         reshape(f, "a", "F16", {1, 64, 16});
       },
       "tensor b = (missing)"},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         f.set_metadata("scale_d", "1");
         reshape(f, "a", "F16", {1, 64, 16});
         reshape(f, "b", "F16", {1, 16, 8});
       },
       "without C, save scale_d = 0"},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         reshape(f, "a", "F16", {0, 64, 16});
         reshape(f, "b", "F16", {0, 16, 8});
       },
       "an empty file proves nothing"},
  };
  for (const Row& row : rows) {
    edit(row.change);
    const Outcome outcome = run({"verify", path});
    INFO(row.message << "\n" << outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, ContainsSubstring(row.message));
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
    std::string message;
  };
  const auto replace = [](TensorFile& file, const char* name, const char* dtype, std::vector<int64_t> shape,
                          uint8_t fill = 0) {
    int64_t size = dtype_bytes(dtype);
    for (const int64_t extent : shape) size *= extent;
    file.set(Tensor::from_bytes(name, dtype, std::move(shape), std::vector<uint8_t>(static_cast<size_t>(size), fill)));
  };
  const std::vector<Row> rows = {
      {[](TensorFile& f) { f.erase("idesc"); }, "tensor idesc = (missing)"},
      {[&](TensorFile& f) { replace(f, "idesc", "U32", {2}); }, "m = 0"},
      {[&](TensorFile& f) { replace(f, "idesc", "U64", {2}); }, "tensor idesc = U64 [2]"},
      {[&](TensorFile& f) { replace(f, "idesc", "U32", {2}, 0xFF); }, "reserved bits"},
      {[](TensorFile& f) { f.erase("tmem"); }, "tensor tmem = (missing)"},
      {[](TensorFile& f) { f.erase("d_tmem"); }, "tensor d_tmem = (missing)"},
      {[](TensorFile& f) { f.erase("enable_input_d"); }, "tensor enable_input_d = (missing)"},
      {[&](TensorFile& f) {
         replace(f, "tmem", "U32", {2, 1, 128, 32});
       },
       "tensor tmem shape = [2, 1, 128, 32]: must be [2, 2, 128, ...]"},
      {[&](TensorFile& f) {
         replace(f, "tmem", "U32", {2, 2, 128, 8});
       },
       "inside the 8 given columns"},
      {[&](TensorFile& f) {
         replace(f, "smem", "U8", {2, 4096});
       },
       "tensor smem shape = [2, 4096]: must be [2, 2, ...]"},
      {[&](TensorFile& f) {
         replace(f, "smem", "U8", {2, 2, 64});
       },
       "image of 64 bytes"},
      {[&](TensorFile& f) { replace(f, "d_tmem", "U32", {2}, 0x7F); }, "Tensor Memory address = 0x7f7f7f7f"},
      {[&](TensorFile& f) {
         replace(f, "disable_output_lane", "U32", {2, 4});
       },
       "tensor disable_output_lane shape"},
      {[&](TensorFile& f) { replace(f, "scale_input_d", "U8", {2}, 1); }, "only kind::f16 and kind::tf32"},
      {[&](TensorFile& f) { replace(f, "zero_column_mask", "U64", {2}, 1); }, "absent or 0 without .ws"},
      {[&](TensorFile& f) { replace(f, "a_tmem", "U32", {2}); }, "both a_tmem and a_desc"},
      {[](TensorFile& f) { f.erase("tmem_after"), f.erase("d"); }, "tensor tmem_after = (missing)"},
      {[](TensorFile& f) { f.set_metadata("instruction", "tcgen05.mma.cta_group::2.kind::mxf4"); }, "kind::mxf4"},
  };
  for (const Row& row : rows) {
    TensorFile file = read_tensor_file(golden);
    row.change(file);
    write_tensor_file(bad, file);
    const Outcome outcome = run({"verify", bad});
    INFO(row.message << "\n" << outcome.err);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(row.message));
  }
}

TEST_CASE("verify names a file that cannot be read, and verifies the others") {
  const test::TemporaryFolder folder;
  REQUIRE(run({"golden", test::f16, "--cases", "1", "-o", folder.path("a.safetensors")}).code == 0);
  std::filesystem::create_symlink("nowhere", folder.path("b.safetensors"));
  const Outcome outcome = run({"verify", folder.path(".")});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("error: ") && ContainsSubstring("b.safetensors: no such file"));
  CHECK_THAT(outcome.out, ContainsSubstring("files 1, cases 1, outputs 512, mismatches 0"));
}

TEST_CASE("simulate of a folder names a link to nothing, and shows the other files") {
  const test::TemporaryFolder folder;
  REQUIRE(run({"golden", test::f16, "--cases", "1", "-o", folder.path("b.safetensors")}).code == 0);
  std::filesystem::create_symlink("nowhere", folder.path("a.safetensors"));
  const Outcome outcome = run({"simulate", folder.path(".")});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("a.safetensors: no such file"));
  CHECK_THAT(outcome.out, ContainsSubstring("match the recorded D"));
  // What is named is there before anything is shown.
  CHECK(run({"simulate", folder.path("b.safetensors"), folder.path("a.safetensors")}).out.empty());
}
