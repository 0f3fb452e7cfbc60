#include <filesystem>
#include <nlohmann/json.hpp>

#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::f16, test::one_golden, test::Outcome, test::run;

namespace {

const test::BadRequests bad_requests({
    {"simulate", "files is required"},
    {"simulate $GOLDEN --case 2", "--case = 2: legal is 0..1"},
    {"simulate $GOLDEN $GOLDEN -o $FOLDER/f", "an existing folder"},
    {"simulate $GOLDEN -o $FOLDER/no/such/out", "its folder does not exist"},
    {"simulate $GOLDEN --target sm_100a", "target = sm_100a: legal is sm_90a"},
});

}  // namespace

TEST_CASE("simulate refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("simulate shows D, the rule and its evidence, and whether the recorded D agrees") {
  const Outcome outcome = run({"simulate", one_golden, "--rows", "2", "--cols", "3", "--hex"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("F = 25, RZ-23") && ContainsSubstring("measured on an NVIDIA H200") &&
                              ContainsSubstring("row 1  0x") &&
                              ContainsSubstring("all 1024 outputs of 2 cases match the recorded D (NVIDIA H200)"));
}

TEST_CASE("simulate writes several files into a folder") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("out"));
  const std::vector<std::string> files = test::golden_files();
  CHECK(run({"simulate", files[0], files[1], "-o", folder.path("out")}).code == 0);
  CHECK(run({"verify", folder.path("out")}).code == 0);
}

TEST_CASE("simulate names the target, and refuses another one than the file says") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("golden.safetensors"), out = folder.path("out.safetensors");
  REQUIRE(
      run({"golden", "tcgen05.mma.cta_group::1.kind::f16", "--target", "sm_103a", "--cases", "1", "-o", path}).code ==
      0);
  const Outcome shown = run({"simulate", path});
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out, ContainsSubstring(", case 0 of 1\ntarget: sm_103a\n") &&
                            ContainsSubstring("arithmetic: F = 25, RZ-23, floor -133; model choice") &&
                            ContainsSubstring("of 1 case match the recorded D"));
  CHECK_THAT(run({"simulate", path, "-o", out}).err,
             ContainsSubstring("1 case, D by ") && ContainsSubstring(" on sm_103a"));
  CHECK(run({"simulate", path, "--target", "sm_103a"}).code == 0);
  const Outcome refused = run({"simulate", path, "--target", "sm_100a"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("--target sm_100a asks for another target than the file is of"));
  // A file that does not say its target is of the one asked for.
  TensorFile file = read_tensor_file(path);
  file.erase_metadata("target");
  write_tensor_file(path, file);
  CHECK_THAT(run({"simulate", path}).out, ContainsSubstring("target: sm_100a\n"));
  CHECK_THAT(run({"simulate", path, "--target", "sm_103a"}).out, ContainsSubstring("target: sm_103a\n"));
}

TEST_CASE("simulate --lint speaks JSON and uses the exit codes") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), wrong = folder.path("wrong.safetensors");
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "2", "-o", right}).code == 0);
  CHECK(run({"simulate", right, "--lint"}).code == 0);
  CHECK_THAT(run({"simulate", right, "--lint"}).out, ContainsSubstring("nothing suspicious in 2 cases"));
  CHECK(nlohmann::json::parse(run({"simulate", right, "--lint", "--json"}).out).empty());
  REQUIRE(run({"golden", f16, "--distribution", "special", "-o", wrong}).code == 0);
  CHECK(run({"simulate", wrong, "--lint"}).code == 1);
  const auto found = nlohmann::json::parse(run({"simulate", wrong, "--lint", "--json"}).out);
  CHECK(found.size() >= 2);
  for (const char* key : {"file", "target", "cases", "field", "seen", "legal", "fix", "source"}) {
    CHECK(found[0].contains(key));
  }
  CHECK(found[0]["severity"] == "warning");
}
