#include <filesystem>
#include <nlohmann/json.hpp>

#include "bitmma/acts/product_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::run;

namespace {

const std::string product = test::source_path("data/products/nvjet_algo2_e4m3_k1024.safetensors");
const std::string chosen = test::source_path("data/products/nvjet_split3_bf16_k4096.safetensors"),
                  unknown_shape = test::source_path("data/products/lost_tail_bf16_k11528.safetensors");
const std::string promoted =
    R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3", "promotion": {"every": 128}})";

const test::BadRequests bad_requests({
    {"gemm", missing_argument, "file"},
    {"gemm nothing.safetensors", not_found, "file"},
    {"gemm " + product + " --plan nothing", unknown_name, "--plan"},
    {"gemm " + product + " --plan nvjet_algo2", unknown_name, "--plan"},
    {"gemm " + product + " --plan flat --split-k 4", contradiction, "--split-k"},
    {"gemm " + product + " --plan '" + promoted + "' --split-k 4", contradiction, "--split-k"},
    {"gemm " + product + " --plan '" + promoted + "' --target sm_80", unsupported_target, "--target"},
    {"gemm " + product + " --plan '" + promoted + "' --output-type bf16", contradiction, "--output-type"},
    {"gemm " + product + " --kernel nvjet_sm90_tst_64x32_64x16_4x2_h_bz_TNT", contradiction, "a, b"},
    {"gemm " + product + " --kernel nvjet_sm90_qqtst_64x32_64x16_4x2_h_bz_TNT", contradiction, "d"},
    {"gemm " + product + " --find --split-k 3", unread_argument, "--split-k 3"},
    {"gemm " + product + " --find --error", unread_argument, "--error"},
    {"gemm " + product + " --plan flat --timeout 3", unread_argument, "--timeout 3"},
    {"gemm " + product + " --plan flat --replace-d", unread_argument, "--replace-d"},
    {"gemm " + product + " --plan none.json", not_found, "file"},
    {"gemm " + product + " --plan {\"instructoin\":1}", illegal_value, "plan: instructoin"},
    {"gemm " + product + " --rows 0..7", illegal_value, "--rows"},
    {"gemm " + product + " --only-rows 8", malformed, "--only-rows"},
    {"gemm " + product + " --only-cols 5..3", malformed, "--only-cols"},
    {"gemm " + product + " --target sm_70", wrong_type, "types"},
    {"gemm " + product + " --output-type float", unknown_name, "--output-type"},
    {"gemm " + product + " --kernel ampere_sgemm", unknown_kernel, "--kernel"},
    {"gemm " + product + " --kernel nvjet_x --plan flat", contradiction, "--kernel"},
    {"gemm " + product + " --split-k 0", illegal_value, "--split-k"},
    {"gemm " + product + " --find --plan flat", unread_argument, "--plan flat"},
    {"gemm " + product + " --library cublas-13.1", unknown_name, "--gpu"},
    {"gemm " + product + " --library cublas-12 --gpu H100", unknown_name, "--library"},
    {"gemm " + product + " --library cublas-13.1 --gpu H100", unknown_name, "types"},
    {"gemm " + product + " --library cublas-13.1 --gpu H100 --plan flat", not_together, "--plan"},
    {"gemm " + product + " --library cublas-13.1 --gpu H100 --split-k 2", not_together, "--split-k"},
    {"gemm " + product + " --library cublas-13.1 --gpu H100 --target sm_90a", not_together, "--target"},
    {"gemm " + product + " --gpu H100", unread_argument, "--gpu H100"},
    {"gemm --choices 4096 4096 --gpu A100", unknown_name, "--gpu"},
    {"gemm --choices 4097 3 --gpu H200", illegal_value, "--choices"},
    {"gemm --choices 4096 4096 --gpu H100 --plan flat", unread_argument, "--plan flat"},
    {"gemm --choices 4096 4096 --gpu H100 --nearest", no_effect, "--nearest"},
    {"gemm " + product + " --plan bf16x9", unknown_name, "--plan"},
    {"gemm " + chosen + " --library cublas-13.1 --gpu H100 --nearest", unread_argument, "--nearest"},
    {"gemm " + chosen + " --library cublas-13.1 --gpu H100 --allow-tf32", unread_argument, "--allow-tf32"},
    {"gemm " + unknown_shape + " --library cublas-13.1 --gpu H100", illegal_value, "m, n, k"},
});

}  // namespace

TEST_CASE("gemm refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("gemm compares with the recorded D, and says which plan it took") {
  const test::Outcome own = run({"gemm", product});
  CHECK(own.code == 0);
  CHECK_THAT(own.out, ContainsSubstring("promotion every 128 (the key plan of the file)") &&
                          ContainsSubstring("all 128 outputs the same"));
  const test::Outcome flat = run({"gemm", product, "--plan", "flat"});
  CHECK(flat.code == 1);
  CHECK_THAT(flat.out, ContainsSubstring("flat\n") && ContainsSubstring("of 128 outputs differ") &&
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
  CHECK_THAT(open.violations, test::refused(missing_argument, "--split-k"));
}

TEST_CASE("gemm --library takes the kernel that the library takes, and says so") {
  const test::Outcome text = run({"gemm", chosen, "--library", "cublas-13.1", "--gpu", "H100"});
  CHECK(text.code == 0);
  CHECK_THAT(text.out,
             ContainsSubstring("kernel       nvjet_sm90_tss_*_splitK + cublasLt::splitKreduce_kernel, 3 slices\n") &&
                 ContainsSubstring("cublas 13.1 on an H100, bf16 to f32, nt: recorded, or the recorded M below and "
                                   "above it take the same\n") &&
                 ContainsSubstring("all 128 outputs the same"));
  const test::Outcome near =
      run({"gemm", unknown_shape, "--library", "cublas-13.1", "--gpu", "H200", "--nearest", "--json"});
  CHECK_THAT(near.violations, test::refused(other_inputs, "--library"));
  const auto json = nlohmann::json::parse(near.out);
  CHECK(json["choice"] == "that of the nearest recorded shape");
  CHECK(json["slices"].get<int>() > 1);
  CHECK(json["kernel"].get<std::string>().starts_with("nvjet_sm90_"));
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
  CHECK_THAT(refused.violations, test::refused(illegal_value, "--error"));
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
  CHECK_THAT(kept.violations, test::refused(illegal_value, "d"));
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
  const auto evidence = json["plan"]["evidence"]["plan"];
  CHECK(evidence["level"] == "model choice");
  CHECK(evidence["seen"] == "measured");
  CHECK(evidence["seen_on"] == "sm_90a");
  CHECK(evidence["gpus"] == "H100, H200");
  CHECK(evidence["text"] == "model choice on sm_80; on sm_90a measured: H100, H200");
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

TEST_CASE("the key plan of a file is taken where no flag asks for another, and refused where it cannot be") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("product.safetensors");
  TensorFile file = read_tensor_file(test::source_path("data/products/xmma_tf32_k1024.safetensors"));
  write_tensor_file(path, file);
  CHECK_THAT(run({"gemm", path}).out, ContainsSubstring("(the key plan of the file)"));
  // Another target, type or split is another plan.
  const std::string flat = folder.path("flat.safetensors");
  TensorFile other = read_tensor_file(product);
  write_tensor_file(flat, other);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--target", "sm_100a"}, std::vector<std::string>{"--output-type", "bf16"}}) {
    const test::Outcome outcome = run({"gemm", flat, more[0], more[1]});
    CHECK_THAT(outcome.violations, test::refused(unread_argument, "$FOLDER/flat.safetensors: key plan"));
    CHECK_THAT(outcome.out, ContainsSubstring("(no plan was given)"));
  }
  CHECK_THAT(run({"gemm", flat, "--target", "sm_90a"}).out, ContainsSubstring("(the key plan of the file)"));
  CHECK_THAT(run({"explain", path}).violations,
             test::refused(missing_instruction, "$FOLDER/product.safetensors: __metadata__ instruction"));
  file.set_metadata("plan", "nonsense");
  write_tensor_file(path, file);
  CHECK_THAT(run({"gemm", path}).violations, test::refused(unknown_name, "$FOLDER/product.safetensors: plan: plan"));
  file.erase_metadata("plan");
  write_tensor_file(path, file);
  const test::Outcome none = run({"gemm", path});
  CHECK(none.code == 2);
  CHECK_THAT(none.violations, test::refused(missing_plan, "--plan"));
}

TEST_CASE("a plan that gemm -o wrote is the one that gemm takes again, for a part too") {
  const test::TemporaryFolder folder;
  const std::string input = folder.path("input.safetensors"), transposed = folder.path("transposed.safetensors"),
                    whole = folder.path("whole.safetensors"), part = folder.path("part.safetensors"),
                    smaller = folder.path("smaller.safetensors");
  TensorFile file = read_tensor_file(product);
  for (const char* name : {"d", "rows", "cols"}) file.erase(name);
  for (const char* key : {"plan", "kernel", "m", "n"}) file.erase_metadata(key);
  write_tensor_file(input, file);
  // The same with B as [N, K].
  const Tensor b = file.find("b") ? *file.find("b") : *file.find("b_t");
  const auto rows = static_cast<size_t>(b.shape[0]), cols = static_cast<size_t>(b.shape[1]);
  const std::vector<uint8_t> bytes = b.bytes.copy();
  std::vector<uint8_t> turned(bytes.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j) turned[j * rows + i] = bytes[i * cols + j];
  file.erase(b.name);
  file.set(Tensor::from_bytes(b.name == "b" ? "b_t" : "b", b.dtype, {b.shape[1], b.shape[0]}, std::move(turned)));
  write_tensor_file(transposed, file);
  for (const std::string& from : {input, transposed}) {
    REQUIRE(run({"gemm", from, "--plan", promoted, "-o", whole}).code == 0);
    const auto again = nlohmann::json::parse(run({"gemm", whole, "--json"}).out);
    CHECK(again["differ"] == 0);
    CHECK(again["plan"]["promotion"]["every"] == 128);
    REQUIRE(run({"gemm", whole, "--only-rows", "1..3", "--only-cols", "5,0", "-o", part}).code == 0);
    const test::Outcome read = run({"gemm", part, "--json"});
    CHECK(read.code == 0);
    const auto json = nlohmann::json::parse(read.out);
    CHECK(json["m"] == 3);
    CHECK(json["n"] == 2);
    CHECK(json["differ"] == 0);
    CHECK(run({"gemm", part, "--find"}).code == 0);
    REQUIRE(run({"gemm", part, "--only-rows", "2", "-o", smaller}).code == 0);
    CHECK(run({"gemm", smaller}).code == 0);
    CHECK(read_tensor_file(smaller).find("rows")->bytes.copy() == std::vector<uint8_t>{3, 0, 0, 0});
  }
}

TEST_CASE("keys of a product that do nothing, or say something else than its tensors, are refused") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("product.safetensors");
  const auto refused = [&](const char* key, const char* value, bool has_c = false) {
    TensorFile file{.path = {}, .metadata = {{key, value}}, .tensors = {}};
    file.set(Tensor::from_bytes("a", "F16", {4, 16}, std::vector<uint8_t>(128)));
    file.set(Tensor::from_bytes("b", "F16", {16, 8}, std::vector<uint8_t>(256)));
    if (has_c) file.set(Tensor::from_bytes("c", "F32", {4, 8}, std::vector<uint8_t>(128)));
    write_tensor_file(path, file);
    const test::Outcome outcome = run({"gemm", path});
    if (outcome.code != 0) CHECK(outcome.violations.at(0).field.starts_with(path + ": "));
    return outcome.code == 2;
  };
  for (const auto& [key, value] : {std::pair("beta", "2"),
                                   {"batch", "1"},
                                   {"generator", "philox4x32-10/triangle"},
                                   {"m", "5"},
                                   {"n", "9"},
                                   {"k", "15"},
                                   {"sf_type", "ue8m0"},
                                   {"plan", "nothing"},
                                   {"a_type", "bf16"}}) {
    INFO(key);
    CHECK(refused(key, value));
  }
  for (const auto& [key, value] : {std::pair("beta", "0"),
                                   {"alpha", "2"},
                                   {"m", "4"},
                                   {"n", "8"},
                                   {"k", "16"},
                                   {"plan", "flat"},
                                   {"a_type", "f16"},
                                   {"seed", "3"}}) {
    INFO(key);
    CHECK_FALSE(refused(key, value));
  }
  CHECK_FALSE(refused("beta", "2", true));
  // A plan that is written out has factors of its own.
  const std::string written = R"({"instruction": "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"})";
  CHECK_THAT(run({"gemm", path, "--plan", written}).violations, test::refused(contradiction, "beta"));
}

TEST_CASE("the key kernel is judged, and its plan offered where none is asked for") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("product.safetensors");
  TensorFile file = read_tensor_file(product);
  CHECK(run({"gemm", product}).err.empty());
  file.erase_metadata("plan");
  write_tensor_file(path, file);
  CHECK_THAT(run({"gemm", path}).violations, test::refused(illegal_value, "$FOLDER/product.safetensors: kernel"));
  CHECK(run({"gemm", path, "--plan", "flat"}).err.empty());
  const auto warns = [&](const char* kernel, const std::vector<std::string>& more) {
    file.set_metadata("kernel", kernel);
    write_tensor_file(path, file);
    std::vector<std::string> line{"gemm", path};
    line.insert(line.end(), more.begin(), more.end());
    return run(line).err.find("warning: " + path + ": kernel = " + kernel) != std::string::npos;
  };
  CHECK(warns("nvjet_sm90_tst_64x32_64x16_4x2_h_bz_TNT", {}));
  CHECK(warns("nvjet_sm90_tst_64x32_64x16_4x2_h_bz_TNT", {"--plan", "flat"}));
  CHECK(warns("nonsense", {}));
  CHECK_FALSE(warns("triton product_kernel", {"--plan", "flat"}));  // no pattern tells what it computes
}

TEST_CASE("scales of a product are no registers of instructions") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("product.safetensors");
  TensorFile file{.path = {}, .metadata = {}, .tensors = {}};
  file.set(Tensor::from_bytes("a", "F8_E4M3", {4, 32}, std::vector<uint8_t>(128)));
  file.set(Tensor::from_bytes("b", "F8_E4M3", {32, 8}, std::vector<uint8_t>(256)));
  for (const char* name : {"scale_a", "scale_b"}) file.set(Tensor::from_bytes(name, "F32", {1, 1}, {0, 0, 0x80, 0x3F}));
  write_tensor_file(path, file);
  CHECK(run({"gemm", path, "--plan", "flat"}).code == 0);
}

TEST_CASE("gemm -o forgets where the D that it replaces came from") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("product.safetensors");
  REQUIRE(run({"gemm", product, "--plan", "flat", "-o", path, "--replace-d"}).code == 1);
  const TensorFile file = read_tensor_file(path);
  for (const char* key : {"gpu", "driver", "date", "kernel", "library", "call"}) CHECK_FALSE(file.find_metadata(key));
  CHECK(file.find_metadata("source")->starts_with("bitmma "));
  CHECK(run({"gemm", path}).code == 0);
}

TEST_CASE("the kernels of a library are shown by M, and where bits change") {
  const auto json = nlohmann::json::parse(run({"gemm", "--choices", "4096", "4096", "--gpu", "H100", "--json"}).out);
  REQUIRE(json.size() == 2);
  CHECK(json[0]["last"] == 16);
  CHECK(json[0]["slices"] == 2);
  CHECK(json[0]["bits"] != json[1]["bits"]);
}
