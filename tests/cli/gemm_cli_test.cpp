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
    {"gemm " + product + " --plan none.json", "none.json: no such file"},
    {"gemm " + product + " --plan {}", "plan: instruction = (missing)"},
    {"gemm " + product + " --rows 8", "--rows = 8: legal is numbers in 0..7"},
    {"gemm " + product + " --cols 5..3", "--cols = 5..3"},
    {"gemm " + product + " --target sm_70", "e4m3 x e4m3 on sm_70"},
    {"gemm " + product + " --output-type float", "--output-type = float"},
    {"gemm " + product + " --kernel ampere_sgemm", "kernel = ampere_sgemm: legal is a name of cuBLAS's"},
    {"gemm " + product + " --kernel nvjet_x --plan flat", "--kernel = beside --plan"},
    {"gemm " + product + " --split-k 0", "--split-k"},
    {"gemm " + product + " --find --plan flat", "--plan = given: legal is absent with --find"},
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
  const test::Outcome outcome = run({"gemm", product, "--plan", promoted, "--rows", "1..3", "--cols", "0,5", "-o",
                                     folder.path("d.safetensors"), "--json"});
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
