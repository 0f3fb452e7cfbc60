#include <atomic>
#include <nlohmann/json.hpp>

#include "../../sim/arithmetic/kernels/kernels.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::f16, test::one_golden, test::Outcome, test::run;

namespace {

/// The table of loops in use, until the scope ends: tests share the process.
struct KernelsInUse {
  const kernels::Kernels& before = kernels::kernels();
  ~KernelsInUse() { kernels::use_kernels(before); }
};

const std::string product = test::source_path("data/products/nvjet_algo2_e4m3_k1024.safetensors");

}  // namespace

TEST_CASE("verify, gemm and bench compute with the loops of --cpu-target", "[long]") {
  // The baseline's loops, and a count of their calls: whoever computes with the table in use is counted.
  static std::atomic<int64_t> calls = 0;
  static const kernels::Kernels& baseline = *kernels::supported_kernels().back();
  kernels::Kernels counting = baseline;
  counting.sum_fused.f32 = [](const kernels::FusedSum& job) { return ++calls, baseline.sum_fused.f32(job); };
  kernels::ChainLoops &wide = counting.chain, &narrow = counting.narrow_chain;
  for (kernels::ChainLoop* const loop :
       {&wide.any, &wide.small, &wide.few_bits, &narrow.any, &narrow.small, &narrow.few_bits})
    loop->sum.f32 = [](const kernels::ChainSum& job) { ++calls, baseline.chain.any.sum.f32(job); };
  const KernelsInUse restored;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"verify", one_golden, "--json"},
        {"gemm", product, "--json"},
        {"gemm", product, "--find", "--json"},
        {"bench", "wgmma f16 -> f32 m64n8k16", "--seconds", "0.001", "--json"}}) {
    INFO(command[0]);
    kernels::use_kernels(counting);
    calls = 0;
    const Outcome counted = run(command);
    CHECK(counted.code <= 1);
    CHECK(calls > 0);
    auto expected = nlohmann::json::parse(counted.out);
    for (const std::string_view target : cpu_targets()) {
      INFO(target);
      kernels::use_kernels(counting);
      calls = 0;
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--cpu-target", std::string(target)});
      const Outcome outcome = run(words);
      CHECK(outcome.code == counted.code);
      CHECK(calls == 0);
      CHECK(cpu_target() == target);
      const auto json = nlohmann::json::parse(outcome.out);
      CHECK(json["cpu_target"] == target);
      if (command[0] == "bench") continue;
      expected["cpu_target"] = target;
      CHECK(json == expected);
    }
  }
}

TEST_CASE("an unknown --cpu-target is refused by name, before any file is read") {
  const std::string_view before = cpu_target();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"verify", "none"}, {"gemm", "none"}, {"gemm", "none", "--find"}, {"bench"}}) {
    for (const char* name : {"x86-64-v9", "AVX2", "Baseline"}) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--cpu-target", name});
      const Outcome bad = run(words);
      INFO(command[0] << " " << name);
      CHECK(bad.code == 2);
      CHECK_THAT(bad.violations, refused(unknown_name, "--cpu-target"));
      CHECK(cpu_target() == before);
    }
  }
}

TEST_CASE(
    "bench measures the cases that have the words, on the instruction set asked for, and refuses what is not there",
    "[long]") {
  const std::string best(cpu_target());
  const Outcome text = run({"bench", "mma.sync", "mxf4", "--seconds", "0.001", "--threads", "2"});
  CHECK(text.code == 0);
  CHECK_THAT(text.err, ContainsSubstring("bench: ") && ContainsSubstring(" case, about 1 s"));
  CHECK_THAT(text.out, ContainsSubstring("mma.sync mxf4nvf4 e2m1 -> f32 m16n8k64") &&
                           ContainsSubstring("2 threads 1e9 terms/s") && !ContainsSubstring("wgmma") &&
                           ContainsSubstring("Hot loops for " + best));
  const auto json = nlohmann::json::parse(
      run({"bench", "wgmma f16 -> f16 m64n8k16", "--seconds", "0.001", "--cpu-target", "baseline", "--json"}).out);
  use_cpu_target(best);
  CHECK(json["cpu_target"] == "baseline");
  REQUIRE(json["results"].size() == 1);
  CHECK(json["results"][0]["terms"] == 64 * 8 * 16);
  CHECK(json["results"][0]["seconds"] > 0);
  CHECK(json["results"][0]["target"] == "sm_90a");
  for (const auto& [arguments, refusal] : std::vector<std::pair<std::vector<std::string>, test::Refusal>>{
           {{"bench", "("}, {illegal_value, "words"}},
           {{"bench", "wgmma", "f64"}, {illegal_value, "words"}},
           {{"bench", "--seconds", "0"}, {illegal_value, "--seconds"}}}) {
    const Outcome bad = run(arguments);
    CHECK(bad.code == 2);
    CHECK_THAT(bad.violations, refused(refusal));
  }
}
