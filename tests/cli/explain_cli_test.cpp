#include <nlohmann/json.hpp>

#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::f16, test::Outcome, test::run;

namespace {

const test::BadRequests bad_requests({
    {"explain $GOLDEN --row 64", illegal_value, "--row, --col"},
    {"explain $GOLDEN --case -1", illegal_value, "--case"},
});

}  // namespace

TEST_CASE("explain refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("explain speaks JSON and uses the exit codes") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), wrong = folder.path("wrong.safetensors");
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "2", "-o", right}).code == 0);
  const Outcome explained = run({"explain", right, "--row", "5", "--col", "3", "--json"});
  CHECK(explained.code == 0);
  const auto explanation = nlohmann::json::parse(explained.out);
  CHECK(explanation["terms"].size() == 16);
  CHECK(explanation["d"] == explanation["recorded_d"]);
  CHECK(explanation["terms"][0]["a_place"].contains("byte"));
  CHECK(explanation["target"] == "sm_90a");
  for (const char* key :
       {"instruction", "row", "col", "rule", "evidence", "c", "special", "max_exponent", "max_exponent_by",
        "quantum_exponent", "exact", "exact_value", "error_ulp", "sum", "alternatives"}) {
    INFO(key);
    CHECK(explanation.contains(key));
  }
  for (const char* key :
       {"k", "a", "a_value", "b", "b_value", "a_place", "b_place", "product", "exponent", "kept", "bits_dropped"}) {
    INFO(key);
    CHECK(explanation["terms"][0].contains(key));
  }
  CHECK_THAT(run({"explain", right}).out, ContainsSubstring("target: sm_90a\n"));
  // The D of another adder, recorded in the file itself.
  TensorFile file = read_tensor_file(right);
  std::vector<uint8_t> d = file.find("d_regs")->bytes.copy();
  d[0] ^= 1;
  file.set(Tensor::from_bytes("d_regs", "U32", {2, 128, 4}, d));
  write_tensor_file(wrong, file);
  CHECK(run({"explain", wrong}).code == 1);
}

TEST_CASE("explain refuses what moves data, with where to look instead") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("ld.safetensors");
  REQUIRE(run({"golden", "tcgen05.ld.sync.aligned.16x64b.x4.b32", "-o", path}).code == 0);
  const Outcome outcome = run({"explain", path});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.violations, refused(illegal_value, "instruction"));
}
