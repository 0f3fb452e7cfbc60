#include <filesystem>
#include <nlohmann/json.hpp>

#include "bitmma/files/product_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;
using test::run;

namespace {

const std::string product = test::source_path("data/products/nvjet_algo2_e4m3_k1024.safetensors");
const std::string promoted =
    R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3", "promotion": {"every": 128}})";

const test::BadRequests bad_requests({
    {"gemm", "file is required"},
    {"gemm nothing.safetensors", "nothing.safetensors"},
    {"gemm " + product + " --plan nothing", "plan = nothing: legal is flat, nvjet-algo2"},
    {"gemm " + product + " --plan nvjet_algo2", "plan = nvjet_algo2: legal is nvjet-algo2, the nearest of"},
    {"gemm " + product + " --plan flat --split-k 4", "split_k = 4"},
    {"gemm " + product + " --plan '" + promoted + "' --split-k 4", "split_k = 4"},
    {"gemm " + product + " --plan '" + promoted + "' --target sm_80", "target = sm_80: legal is sm_90a"},
    {"gemm " + product + " --plan '" + promoted + "' --output-type bf16", "output = bf16: legal is f32"},
    {"gemm " + product + " --kernel nvjet_sm90_tst_64x32_64x16_4x2_h_bz_TNT",
     "a, b = e4m3 x e4m3: legal is bf16 x bf16"},
    {"gemm " + product + " --kernel nvjet_sm90_qqtst_64x32_64x16_4x2_h_bz_TNT", "d = f32: legal is bf16"},
    {"gemm " + product + " --find --split-k 3", "--split-k"},
    {"gemm " + product + " --find --error", "--error"},
    {"gemm " + product + " --plan flat --timeout 3", "--timeout"},
    {"gemm " + product + " --plan flat --replace-d", "--replace-d"},
    {"gemm " + test::source_path("data/products/xmma_tf32_k1024.safetensors"), "plan = (missing): legal is sgemm"},
    {"gemm " + product + " --plan none.json", "none.json: no such file"},
    {"gemm " + product + " --plan {\"instructoin\":1}", "plan: instructoin = 1"},
    {"gemm " + product + " --rows 0..7", "--rows = 0..7: legal is how many to show; --only-rows 0..7"},
    {"gemm " + product + " --only-rows 8", "--only-rows = 8: legal is numbers in 0..7"},
    {"gemm " + product + " --only-cols 5..3", "--only-cols = 5..3"},
    {"gemm " + product + " --target sm_70", "e4m3 x e4m3 on sm_70"},
    {"gemm " + product + " --output-type float", "--output-type = float"},
    {"gemm " + product + " --kernel ampere_sgemm", "kernel = ampere_sgemm: legal is a name of cuBLAS's"},
    {"gemm " + product + " --kernel nvjet_x --plan flat", "kernel = given beside a plan"},
    {"gemm " + product + " --split-k 0", "--split-k"},
    {"gemm " + product + " --find --plan flat", "--plan"},
});

}  // namespace

TEST_CASE("gemm refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("gemm compares with the recorded D, and says which plan it took") {
  const test::Outcome flat = run({"gemm", product});
  CHECK(flat.code == 1);
  CHECK_THAT(flat.out, ContainsSubstring("flat (no plan was given)") && ContainsSubstring("of 128 outputs differ") &&
                           ContainsSubstring("sm_90a; measured on"));
  const test::Outcome right = run({"gemm", product, "--plan", promoted});
  CHECK(right.code == 0);
  CHECK_THAT(right.out, ContainsSubstring("promotion every 128") && ContainsSubstring("all 128 outputs the same"));
  const test::Outcome lost =
      run({"gemm", test::source_path("data/products/lost_tail_bf16_k11528.safetensors"), "--plan",
           R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
                                      "split_k": {"count": 9, "unit": 64, "rule": "nvjet"}})"});
  CHECK(lost.code == 0);
  CHECK_THAT(lost.out, ContainsSubstring("11520 of 11528"));
}

TEST_CASE("gemm writes D of a part with the rows and columns it has") {
  const test::TemporaryFolder folder;
  const test::Outcome outcome = run({"gemm", product, "--plan", promoted, "--only-rows", "1..3", "--only-cols", "0,5",
                                     "-o", folder.path("d.safetensors"), "--json"});
  CHECK(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["m"] == 3);
  CHECK(json["n"] == 2);
  CHECK(json["differ"] == 0);
  CHECK(json["target"] == "sm_90a");
  CHECK(json["plan"]["promotion"]["every"] == 128);
}

TEST_CASE("a kernel's name gives the plan, and the number of slices comes from the flag or from D") {
  const std::string split = test::source_path("data/products/nvjet_split3_bf16_k4096.safetensors"),
                    kernel = "nvjet_sm90_tss_64x32_64x16_4x2_h_bz_splitK_TNT";
  const test::Outcome searched = run({"gemm", split, "--kernel", kernel});
  CHECK(searched.code == 0);
  CHECK_THAT(searched.out, ContainsSubstring("split-K 3 (nvjet, unit 64)") && ContainsSubstring("outputs the same"));
  CHECK(run({"gemm", split, "--kernel", "file"}).code == 0);
  CHECK(run({"gemm", split, "--kernel", kernel, "--split-k", "3"}).code == 0);
  CHECK(run({"gemm", split, "--kernel", kernel, "--split-k", "4"}).code == 1);
  CHECK(run({"gemm", split, "--plan", "nvjet-splitK"}).code == 0);
  // Without D nothing tells it.
  const test::TemporaryFolder folder;
  ProductFile bare = read_product_file(split);
  std::erase_if(bare.file.tensors, [](const Tensor& tensor) { return tensor.name == "d"; });
  write_tensor_file(folder.path("bare.safetensors"), bare.file);
  const test::Outcome open = run({"gemm", folder.path("bare.safetensors"), "--kernel", kernel});
  CHECK(open.code == 2);
  CHECK_THAT(open.err, ContainsSubstring("--split-k = (missing)"));
}

TEST_CASE("gemm --error says how far D is from the exact product, for plans without scales") {
  const test::Outcome outcome = run({"gemm", product, "--plan", promoted, "--error", "--json"});
  CHECK(outcome.code == 0);
  const auto error = nlohmann::json::parse(outcome.out)["error"];
  CHECK(error["outputs"] == 128);
  CHECK(error["not_finite"] == 0);
  CHECK(error["mean_ulp"].get<double>() > 100);  // 13 fraction bits of 23
  CHECK(error["mean_ulp"].get<double>() <= error["max_ulp"].get<double>());
  const test::Outcome refused = run({"gemm", product, "--error", "--plan",
                                     R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3",
                                         "epilogue": [{"op": "relu"}]})"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("a plan without epilogue and scales"));
}

TEST_CASE("a recorded D of another type differs, in text, JSON and exit code") {
  const test::Outcome text = run({"gemm", product, "--output-type", "bf16"});
  CHECK(text.code == 1);
  CHECK_THAT(text.out, ContainsSubstring("differs: recorded d is 8 x 16 f32, computed 8 x 16 bf16"));
  const test::Outcome json = run({"gemm", product, "--output-type", "bf16", "--json"});
  CHECK(json.code == 1);
  const auto tree = nlohmann::json::parse(json.out);
  CHECK(tree["differ"] == 128);
  CHECK(tree["recorded_d"] == "f32");
  CHECK(tree["computed_d"] == "bf16");
}

TEST_CASE("gemm -o keeps a recorded D that differs unless it is told to replace it, and names the file it wrote") {
  const test::TemporaryFolder folder;
  const std::string out = folder.path("d.safetensors");
  const test::Outcome kept = run({"gemm", product, "--plan", "flat", "-o", out});
  CHECK(kept.code == 2);
  CHECK_THAT(kept.err, ContainsSubstring("--replace-d"));
  CHECK_FALSE(std::filesystem::exists(out));
  const test::Outcome replaced = run({"gemm", product, "--plan", "flat", "-o", out, "--replace-d"});
  CHECK(replaced.code == 1);
  CHECK_THAT(replaced.out, ContainsSubstring("wrote " + out));
  CHECK(run({"gemm", out, "--plan", "flat"}).code == 0);
}

TEST_CASE("evidence is of the target that is computed") {
  const std::string f16 = test::source_path("data/products/nvjet_flat_f16_k1024.safetensors");
  const test::Outcome other = run({"gemm", f16, "--target", "sm_80"});
  CHECK_THAT(other.out, ContainsSubstring("model choice on sm_80; on sm_90a measured: H100, H200"));
  const auto json = nlohmann::json::parse(run({"gemm", f16, "--target", "sm_80", "--json"}).out);
  CHECK(json["plan"]["evidence"]["plan"] == "model choice on sm_80; on sm_90a measured: H100, H200");
}

TEST_CASE("gemm --find ends after --timeout, and says so") {
  const test::Outcome ended = run({"gemm", product, "--find", "--timeout", "0.000001", "--json"});
  CHECK(ended.code == 1);
  CHECK(nlohmann::json::parse(ended.out)["ended"] == "timeout");
}

TEST_CASE("explain shows an output of a product step by step") {
  const test::Outcome text = run({"explain", product, "--plan", "nvjet-algo2", "--row", "3", "--col", "5"});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, ContainsSubstring("(3, 5) of D") && ContainsSubstring("promotion"));
  const auto json = nlohmann::json::parse(
      run({"explain", product, "--plan", "nvjet-algo2", "--row", "3", "--col", "5", "--json"}).out);
  CHECK(json["curve"]["k"].back() == 1024);
  CHECK(json["steps"].size() == 32 + 8);
  CHECK(run({"explain", product, "--plan", "nvjet-algo2", "--row", "8"}).code == 2);
  CHECK(run({"explain", product, "--plan", "flat", "--row", "3", "--col", "5"}).code == 1);
}
