#include <nlohmann/json.hpp>

#include "bitmma/files/tensor_file.hpp"
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::f16, test::Outcome, test::run;

namespace {

const test::BadRequests bad_requests({
    {"compare one", missing_argument, "actual"},
    {"compare $GOLDEN $OTHER", illegal_value,
     "$SOURCE/data/golden/sm_90a/arith/arith_f16_e4m3_e4m3_sa1_sb1_d0_c2.safetensors: instruction"},
});

}  // namespace

TEST_CASE("compare refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("golden, simulate, compare: same is 0, one flipped bit is 1 and is shown") {
  const test::TemporaryFolder folder;
  const std::string golden = folder.path("golden.safetensors"), out = folder.path("out.safetensors"),
                    bad = folder.path("bad.safetensors");
  CHECK(run({"golden", f16, "--cases", "3", "--seed", "4", "--distribution", "wide", "-o", golden}).code == 0);
  CHECK(run({"simulate", golden, "-o", out}).code == 0);
  const Outcome same = run({"compare", golden, out});
  CHECK(same.code == 0);
  CHECK_THAT(same.out, ContainsSubstring("same: 1536 outputs of 3 cases"));
  TensorFile file = read_tensor_file(out);
  std::vector<uint8_t> d = file.find("d_regs")->bytes.copy();
  d[(2 * 128 * 4 + 4) * 4] ^= 1;  // case 2, thread 1, register 0
  file.set(Tensor::from_bytes("d_regs", "U32", {3, 128, 4}, d));
  write_tensor_file(bad, file);
  const Outcome differ = run({"compare", golden, bad});
  CHECK(differ.code == 1);
  CHECK_THAT(differ.out, ContainsSubstring("differ: 1 of 1536 outputs in 1 of 3 cases") &&
                             ContainsSubstring("case 2, row 0, col 2 (thread 1, register 0, bit 0): expected 0x"));
  CHECK(run({"verify", bad}).code == 1);
  CHECK(run({"simulate", bad}).code == 1);
  const auto json = nlohmann::json::parse(run({"compare", "--json", golden, bad}).out);
  CHECK(json["mismatches"] == 1);
  CHECK(json["first_mismatch"]["thread"] == 1);
  CHECK(json["expected"]["target"] == "sm_90a");
}

TEST_CASE("compare counts one case as one, and names the target") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("golden.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "1", "-o", path}).code == 0);
  CHECK_THAT(run({"compare", path, path}).out,
             ContainsSubstring("same: 512 outputs of 1 case (") && ContainsSubstring("), target sm_90a\n"));
}

TEST_CASE("compare and verify say where outputs differ, and compare that the targets do") {
  const test::TemporaryFolder folder;
  const std::string golden = folder.path("golden.safetensors"), bad = folder.path("bad.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "2", "-o", golden}).code == 0);
  TensorFile file = read_tensor_file(golden);
  std::vector<uint8_t> d = file.find("d_regs")->bytes.copy();
  for (size_t reg = 2; reg < d.size() / 4; reg += 4) d[reg * 4] ^= 1;  // rows r + 8, even columns
  file.set(Tensor::from_bytes("d_regs", "U32", {2, 128, 4}, d));
  write_tensor_file(bad, file);
  const std::string where =
      "where: only rows 8..15 of every 16; only columns 0 of every 2; only register 2\n"
      "map: 4 rows a line, 1 column a character; . same, + some differ, # all differ\n"
      "  ........\n  ........\n  #.#.#.#.\n";
  for (const Outcome& outcome : {run({"compare", golden, bad}), run({"verify", bad})}) {
    CHECK(outcome.code == 1);
    CHECK_THAT(outcome.out, ContainsSubstring(where));
  }
  const auto compared = nlohmann::json::parse(run({"compare", "--json", golden, bad}).out);
  CHECK(compared["where"][0] == "only rows 8..15 of every 16");
  CHECK(compared["mismatches_by_row"][8] == 8);
  CHECK(compared["mismatches_by_col"][1] == 0);
  CHECK(compared["map"]["lines"][2] == "#.#.#.#.");
  CHECK(nlohmann::json::parse(run({"verify", "--json", bad}).out)["results"][0]["where"].size() == 3);
  // Two GPUs.
  const std::string ampere = folder.path("sm_80.safetensors"), hopper = folder.path("sm_90.safetensors"),
                    mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
  for (const auto& [target, path] : {std::pair("sm_80", ampere), std::pair("sm_90", hopper)}) {
    REQUIRE(run({"golden", mma, "--target", target, "--distribution", "ties", "-o", path}).code == 0);
  }
  CHECK_THAT(run({"compare", ampere, hopper}).out,
             ContainsSubstring("targets sm_80 and sm_90") &&
                 ContainsSubstring("the targets differ, so D may differ: sm_80 has steps of 8, F = 24") &&
                 ContainsSubstring("; sm_90 has F = 25"));
}

TEST_CASE("compare looks at the inputs first") {
  const test::TemporaryFolder folder;
  const std::string x = folder.path("x.safetensors"), y = folder.path("y.safetensors");
  REQUIRE(run({"golden", test::f16, "--distribution", "normal", "--cases", "2", "--seed", "1", "-o", x}).code == 0);
  REQUIRE(run({"golden", test::f16, "--distribution", "normal", "--cases", "2", "--seed", "2", "-o", y}).code == 0);
  const Outcome other = run({"compare", x, y});
  CHECK(other.code == 1);
  CHECK_THAT(other.out, ContainsSubstring("inputs differ: A in 2 of 2 cases, B in 2 of 2 cases, C in 2 of 2 cases"));
  CHECK_THAT(run({"diagnose", x, y, "--no-pairs"}).out, ContainsSubstring("inputs differ: A in 2 of 2 cases"));
  CHECK(nlohmann::json::parse(run({"compare", x, y, "--json"}).out)["different_inputs"].size() == 3);
}

TEST_CASE("Tensor Memory outside D, and a logical d beside it, are compared") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), wrong = folder.path("wrong.safetensors");
  REQUIRE(run({"golden", "tcgen05.mma.cta_group::1.kind::f16", "--n", "16", "--cases", "1", "-o", right}).code == 0);
  const TensorFile file = read_tensor_file(right);
  const Tensor& after = *file.find("tmem_after");
  std::vector<uint8_t> cells = after.bytes.copy();
  cells.back() ^= 1;  // the last column, where D is not
  TensorFile changed = file;
  changed.set(Tensor::from_bytes("tmem_after", after.dtype, after.shape, cells));
  write_tensor_file(wrong, changed);
  const Outcome verified = run({"verify", wrong});
  CHECK(verified.code == 1);
  CHECK_THAT(verified.out,
             ContainsSubstring("outside D") && ContainsSubstring("1 cell of Tensor Memory outside D is not"));
  CHECK(run({"compare", right, wrong}).code == 1);
  for (const std::vector<std::string>& files : {std::vector{wrong}, {right, wrong}}) {
    std::vector<std::string> arguments = {"diagnose"};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const Outcome diagnosed = run(arguments);
    CHECK(diagnosed.code == 1);
    CHECK_THAT(diagnosed.out,
               !ContainsSubstring("nothing is wrong") && ContainsSubstring("1 cell of Tensor Memory outside D is not"));
  }
  CHECK(run({"diagnose", right}).code == 0);
  // The state agrees, the matrix beside it does not.
  changed = file;
  std::vector<uint8_t> d = file.find("d")->bytes.copy();
  d.front() ^= 1;
  changed.set(Tensor::from_bytes("d", file.find("d")->dtype, file.find("d")->shape, d));
  write_tensor_file(wrong, changed);
  CHECK(run({"compare", right, wrong}).code == 1);
  CHECK(run({"verify", wrong}).code == 1);
}
