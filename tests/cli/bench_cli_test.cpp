#include <nlohmann/json.hpp>

#include "bitmma/arithmetic/cpu_target.hpp"
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::f16, test::Outcome, test::run;

TEST_CASE("bench measures what the filter names, on the instruction set asked for, and refuses what is not there") {
  const std::string best(cpu_target());
  const Outcome text = run({"bench", "mma.sync mxf4", "--seconds", "0.001", "--threads", "2"});
  CHECK(text.code == 0);
  CHECK_THAT(text.err, ContainsSubstring("bench: ") && ContainsSubstring(" case, about 1 s"));
  CHECK_THAT(text.out, ContainsSubstring("mma.sync mxf4nvf4 e2m1 -> f32 m16n8k64") &&
                           ContainsSubstring("2 threads 1e9 terms/s") && !ContainsSubstring("wgmma") &&
                           ContainsSubstring("Hot loops for " + best));
  const auto json = nlohmann::json::parse(
      run({"bench", "^wgmma f16 -> f16 m64n8k16$", "--seconds", "0.001", "--cpu-target", "baseline", "--json"}).out);
  use_cpu_target(best);
  CHECK(json["cpu_target"] == "baseline");
  REQUIRE(json["results"].size() == 1);
  CHECK(json["results"][0]["terms"] == 64 * 8 * 16);
  CHECK(json["results"][0]["seconds"] > 0);
  CHECK(json["results"][0]["target"] == "sm_90a");
  for (const auto& [arguments, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"bench", "("}, "a regular expression"},
           {{"bench", "wgmma f64"}, "that names a case"},
           {{"bench", "--cpu-target", "x86-64-v9"}, "baseline"},
           {{"bench", "--seconds", "0"}, "--seconds"}}) {
    const Outcome bad = run(arguments);
    CHECK(bad.code == 2);
    CHECK_THAT(bad.err, ContainsSubstring(message));
  }
}
