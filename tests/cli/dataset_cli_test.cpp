#include <filesystem>

#include "run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::run, test::run_line;

TEST_CASE("list datasets describes what dataset:NAME can be") {
  CHECK_THAT(run_line("list datasets").out,
             ContainsSubstring("dataset:nvjet_fast_e4m3: product\n") && ContainsSubstring("NVIDIA H100"));
  const std::string ptx = run_line("list datasets PTX").out;
  CHECK_THAT(ptx, ContainsSubstring("dataset:cuda_kernels") && !ContainsSubstring("dataset:nvjet_fast_e4m3"));
  CHECK_THAT(run_line("list datasets PTX --json").out, ContainsSubstring("\"name\": \"cuda_kernels\""));
  CHECK_THAT(run_line("list datasets nosuch").violations, test::refused(illegal_value, "words"));
}

TEST_CASE("commands read datasets by their names, and print these") {
  CHECK_THAT(run_line("gemm dataset:nvjet_fast_e4m3 --find").out, ContainsSubstring("128"));
  CHECK(run_line("gemm dataset:nvjet_algo2_e4m3 --plan nvjet-algo2").code == 0);
  CHECK(run_line("verify dataset:wgmma_f16").code == 0);
  CHECK(run_line("explain dataset:wgmma_f16 --row 3 --col 5").code == 0);
  CHECK_THAT(run_line("decode dataset:triton_sm90_f16").out, ContainsSubstring("dataset:triton_sm90_f16:"));
  CHECK_THAT(run_line("run dataset:cuda_kernels --list").out, ContainsSubstring("softmax"));
  CHECK(run_line("operator attention dataset:flash_attention_bf16 --against dataset:flash_attention_bf16").code == 0);
  CHECK_THAT(run_line("verify dataset:nosuch").violations, test::refused(unknown_name, "dataset"));
  CHECK_THAT(run_line("verify dataset:wgmma_f61").violations, test::refused(unknown_name, "dataset"));
}

TEST_CASE("an output in a folder has the name of the dataset's file") {
  const test::TemporaryFolder folder;
  CHECK(run({"simulate", "dataset:wgmma_f16", "-o", folder.path(".")}).code == 0);
  CHECK(std::filesystem::exists(folder.path("wgmma_f16.safetensors")));
}

TEST_CASE("an argument of a kernel can be a tensor of a dataset") {
  const test::Outcome outcome =
      run({"run", "dataset:cuda_kernels", "--entry", "softmax", "--grid", "2", "--block", "128", "--arg",
           "dataset:nvjet_flat_f16:a", "--arg", "empty:f32[2,1000]", "--arg", "u32:1000"});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
}
