#include <nlohmann/json.hpp>

#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::f16, test::Outcome, test::run;

namespace {

const test::BadRequests bad_requests({
    {"diagnose", "expected is required"},
    {"diagnose $GOLDEN $OTHER", "both files must be of one instruction"},
    {"diagnose $FOLDER/absent", "No such file"},
});

}  // namespace

TEST_CASE("diagnose refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("diagnose speaks JSON and uses the exit codes") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), wrong = folder.path("wrong.safetensors");
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "2", "-o", right}).code == 0);
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "2", "--scale-d", "0", "-o", wrong}).code == 0);
  const Outcome found = run({"diagnose", right, wrong, "--json"});
  CHECK(found.code == 1);
  const auto json = nlohmann::json::parse(found.out);
  CHECK(json["findings"][0]["faults"][0]["id"] == "c.cleared");
  CHECK(json["findings"][0]["explains_all"] == true);
  CHECK(json["target"] == "sm_90a");
  CHECK(run({"diagnose", right}).code == 0);
  CHECK_THAT(run({"diagnose", right}).out,
             ContainsSubstring("nothing is wrong") && ContainsSubstring("target: sm_90a\n"));
  CHECK(nlohmann::json::parse(run({"diagnose", right, "--list", "--json"}).out).size() > 60);
}

TEST_CASE("diagnose finds the D of the next case, whatever number of cases is compared") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), other = folder.path("other.safetensors");
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "6", "-o", right}).code == 0);
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "5", "-o", other}).code == 0);
  const Outcome refused = run({"diagnose", right, other});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("cases = 5: legal is 6; both files must be of the same cases"));
  for (const char* cases : {"1", "2", "6", "7"}) {
    INFO(cases);
    CHECK(run({"diagnose", right, "--cases", cases}).code == 0);
  }
  CHECK_THAT(run({"diagnose", right, "--cases", "1"}).out, ContainsSubstring("all 512 outputs of 1 case are"));
}

TEST_CASE("diagnose refuses what moves data, with where to look instead") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("ld.safetensors");
  REQUIRE(run({"golden", "tcgen05.ld.sync.aligned.16x64b.x4.b32", "-o", path}).code == 0);
  const Outcome outcome = run({"diagnose", path});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("bitmma verify names the first cell that differs"));
}
