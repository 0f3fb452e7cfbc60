#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::f16, test::Outcome, test::run;

namespace {

const test::BadRequests bad_requests({
    {"diagnose", missing_argument, "expected"},
    {"diagnose $GOLDEN $OTHER", illegal_value,
     "$SOURCE/data/golden/sm_90a/arith/arith_f16_e4m3_e4m3_sa1_sb1_d0_c2.safetensors: instruction"},
    {"diagnose $FOLDER/absent", not_found, "file"},
});

}  // namespace

TEST_CASE("diagnose refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("diagnose speaks JSON and uses the exit codes") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), wrong = folder.path("wrong.safetensors");
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "2", "-o", right}).code == 0);
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "2", "--scale-d", "0", "-o", wrong}).code == 0);
  const Outcome outcome = run({"diagnose", right, wrong, "--json"});
  CHECK(outcome.code == 1);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["findings"][0]["faults"][0]["id"] == "c.cleared");
  CHECK(json["findings"][0]["explains_all"] == true);
  CHECK(json["target"] == "sm_90a");
  CHECK(run({"diagnose", right}).code == 0);
  CHECK_THAT(run({"diagnose", right}).out,
             ContainsSubstring("nothing is wrong") && ContainsSubstring("target: sm_90a\n"));
  CHECK(nlohmann::json::parse(run({"diagnose", right, "--list", "--json"}).out).size() > 60);
}

TEST_CASE("an instruction descriptor with another N is named, whichever of the two the file of the kernel says") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), kernel = folder.path("kernel.safetensors");
  REQUIRE(run({"golden", "tcgen05.mma.cta_group::1.kind::f16", "--n", "64", "--cases", "2", "-o", right}).code == 0);
  TensorFile file = read_tensor_file(right);
  const Tensor own = *file.find("idesc");
  for (const char* name : {"a", "b", "c", "d", "tmem_after"}) file.erase(name);
  std::vector<uint8_t> words = own.bytes.copy();
  for (size_t i = 0; i < words.size(); i += 4) words[i + 2] = 8;  // N = 32: bits 17-22 are 4
  file.set(Tensor::from_bytes("idesc", "U32", own.shape, std::move(words)));
  write_tensor_file(kernel, file);
  const std::string simulated = folder.path("simulated.safetensors");
  REQUIRE(run({"simulate", kernel, "-o", simulated}).code == 0);
  std::filesystem::rename(simulated, kernel);
  for (const bool says_own : {false, true}) {
    TensorFile of_kernel = read_tensor_file(kernel);
    if (says_own) of_kernel.set(own);
    of_kernel.erase("d");  // a kernel leaves Tensor Memory alone
    write_tensor_file(kernel, of_kernel);
    const Outcome outcome = run({"diagnose", right, kernel, "--json"});
    CHECK(outcome.code == 1);
    const auto json = nlohmann::json::parse(outcome.out);
    CHECK(json["findings"][0]["faults"][0]["id"] == "idesc.n.32");
    CHECK(json["findings"][0]["explains_all"] == true);
  }
  CHECK_THAT(run({"diagnose", right, kernel}).out,
             ContainsSubstring("D was computed with N = 32, the instruction descriptor says N = 64"));
}

TEST_CASE("diagnose finds the D of the next case, whatever number of cases is compared") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), other = folder.path("other.safetensors");
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "6", "-o", right}).code == 0);
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "5", "-o", other}).code == 0);
  const Outcome refused = run({"diagnose", right, other});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.violations, test::refused(illegal_value, "$FOLDER/other.safetensors: cases"));
  for (const char* cases : {"1", "2", "6", "7"}) {
    INFO(cases);
    CHECK(run({"diagnose", right, "--cases", cases}).code == 0);
  }
  CHECK_THAT(run({"diagnose", right, "--cases", "1"}).out, ContainsSubstring("all 3072 outputs of 6 cases are"));
}

TEST_CASE("diagnose refuses what moves data, with where to look instead") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("ld.safetensors");
  REQUIRE(run({"golden", "tcgen05.ld.sync.aligned.16x64b.x4.b32", "-o", path}).code == 0);
  const Outcome outcome = run({"diagnose", path});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.violations, test::refused(illegal_value, "instruction"));
}

TEST_CASE("diagnose --list fits a terminal, and wrong outputs are placed") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), wrong = folder.path("wrong.safetensors");
  REQUIRE(run({"golden", f16, "--distribution", "normal", "-o", right}).code == 0);
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--scale-d", "0", "-o", wrong}).code == 0);
  const std::string list = run({"diagnose", right, "--list"}).out;
  std::istringstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 80);
  }
  CHECK_THAT(list, ContainsSubstring("\na.written.plain ") && ContainsSubstring("\nd.sum_of_cases.4 ") &&
                       ContainsSubstring("look at: "));
  CHECK_THAT(run({"diagnose", right, wrong}).out, ContainsSubstring("\nwhere: everywhere\n"));
  CHECK(nlohmann::json::parse(run({"diagnose", right, wrong, "--json"}).out)["where"][0] == "everywhere");
}

TEST_CASE("what is not nothing does not read as 0.0 %, nor what is not all as 100.0 %") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), wrong = folder.path("wrong.safetensors");
  REQUIRE(run({"golden", "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", "--cases", "1", "-o", right}).code == 0);
  const auto verdict = [&](size_t first, size_t last) {
    TensorFile file = read_tensor_file(right);
    Tensor d = *file.find("d_regs");
    std::vector<uint8_t> bytes = d.bytes.copy();
    for (size_t reg = first; reg < last; ++reg) bytes[reg * 4] ^= 1;
    d.bytes = TensorBytes(std::move(bytes));
    file.set(d);
    write_tensor_file(wrong, file);
    return run({"diagnose", right, wrong, "--no-pairs"}).out;
  };
  CHECK_THAT(verdict(7, 8), ContainsSubstring("\n1 of 4096 outputs of 1 case is wrong (0.02 %)\n"));
  CHECK_THAT(verdict(1, 4096), ContainsSubstring("\n4095 of 4096 outputs of 1 case are wrong (99.98 %)\n"));
  CHECK_THAT(verdict(0, 4096), ContainsSubstring("\n4096 of 4096 outputs of 1 case are wrong (100.0 %)\n"));
}

TEST_CASE("diagnose knows the mark of a swizzle that one side lacks") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), wrong = folder.path("wrong.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "1", "-o", right}).code == 0);
  TensorFile file = read_tensor_file(right);
  std::vector<uint8_t> d = file.find("d_regs")->bytes.copy();
  for (size_t reg = 0; reg < d.size() / 4; ++reg) {
    const bool first_of_8_rows = reg / 4 % 32 < 4;
    if (!first_of_8_rows) d[reg * 4] ^= 1;  // of bits that were read elsewhere nothing is known
  }
  file.set(Tensor::from_bytes("d_regs", "U32", {1, 128, 4}, d));
  write_tensor_file(wrong, file);
  CHECK_THAT(run({"diagnose", right, wrong, "--no-pairs"}).out,
             ContainsSubstring("448 of 512 outputs of 1 case are wrong (87.5 %)\nwhere: only rows 1..7 of every 8") &&
                 ContainsSubstring("compare the swizzle of the TMA map with that of the descriptor"));
}

TEST_CASE("the D of a wrong program that golden or simulate writes is explained by diagnose") {
  const test::TemporaryFolder folder;
  const std::string mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", right = folder.path("right.safetensors"),
                    wrong = folder.path("wrong.safetensors"), by_golden = folder.path("by_golden.safetensors");
  REQUIRE(run({"golden", mma, "-o", right}).code == 0);
  CHECK(run({"simulate", right, "--fault", "a.register_1_is_2", "-o", wrong}).code == 0);
  CHECK(run({"golden", mma, "--fault", "a.register_1_is_2", "-o", by_golden}).code == 0);
  CHECK(read_tensor_file(by_golden).find("d_regs")->bytes == read_tensor_file(wrong).find("d_regs")->bytes);
  const auto json = nlohmann::json::parse(run({"diagnose", right, wrong, "--json"}).out);
  CHECK(json["findings"].size() == 1);
  CHECK(json["findings"][0]["faults"][0]["id"] == "a.register_1_is_2");
  CHECK_THAT(run({"simulate", right, "--fault", "a.zero"}).violations, test::refused(missing_argument, "-o"));
  CHECK_THAT(run({"simulate", right, "--fault", "a.nothing", "-o", wrong}).violations,
             test::refused(unknown_name, "--fault"));
  CHECK_THAT(run({"simulate", right, "--set", "a[99,0]=1", "-o", wrong}).violations,
             test::refused(wrong_shape, "--set"));
}

TEST_CASE("diagnose takes whole products, with the D of another file") {
  const test::TemporaryFolder folder;
  const std::string product = test::source_path("data/products/nvjet_split2_bf16_k2568.safetensors"),
                    wrong = folder.path("wrong.safetensors");
  CHECK(run({"diagnose", product}).code == 0);
  TensorFile file = read_tensor_file(product);
  Tensor d = *file.find("d");
  std::vector<uint8_t> bytes = d.bytes.copy();
  const auto row_bytes = static_cast<int64_t>(bytes.size()) / d.shape[0];
  std::rotate(bytes.begin(), bytes.begin() + row_bytes, bytes.end());  // row r has what row r + 1 should have
  TensorFile alone;
  alone.set(Tensor::from_bytes("d", d.dtype, d.shape, std::move(bytes)));
  write_tensor_file(wrong, alone);
  const Outcome outcome = run({"diagnose", product, wrong, "--json"});
  CHECK(outcome.code == 1);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["findings"][0]["explains_all"] == true);
  CHECK(json["findings"][0]["id"] == "a.row.+1");
  CHECK(run({"diagnose", product, "--list"}).out.find("k.stale.128.1 ") != std::string::npos);
}
