#include <algorithm>
#include <nlohmann/json.hpp>

#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::run_line;

namespace {

const std::string ldmatrix = "layout ldmatrix ", x4 = "ldmatrix.sync.aligned.m8n8.x4.shared.b16";

const test::BadRequests bad_requests({
    {ldmatrix + "--num 3", illegal_value, ".num"},
    {ldmatrix + "--num -1 --csv", illegal_value, ".num"},
    {ldmatrix + "--num 1000000000 --json", illegal_value, ".num"},
    {ldmatrix + "--instruction ldmatrix.sync.aligned.m8n8.x3.shared.b16", illegal_value, "qualifier"},
    {ldmatrix + "--instruction ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8", contradiction,
     "shape, .trans, .num, type"},
    {ldmatrix + "--instruction ldmatrix.sync.aligned.m8n16.x4.shared.b8", contradiction, "shape, .trans, .num, type"},
    {ldmatrix + "--instruction ldmatrix.sync.aligned.m8n8.x2.x4.shared.b16", illegal_value, "qualifier"},
    {ldmatrix + "--instruction ldmatrix.sync.m8n8.x4.shared.b16", missing_input, "qualifier"},
    {ldmatrix + "--instruction ldmatrix..sync.aligned.m8n8.x4.b16", illegal_value, "qualifier"},
    {ldmatrix + "--instruction movmatrix.sync.aligned.m8n8.trans.b16", illegal_value, "--instruction"},
    {ldmatrix + "--instruction " + x4 + " --num 2", not_together, "--instruction"},
    {ldmatrix + "--row 3", missing_argument, "--col"},
    {ldmatrix + "--row 8 --col 0", illegal_value, "--row"},
    {ldmatrix + "--matrix 1", missing_argument, "--row, --col"},
    {ldmatrix + "--num 2 --matrix 2 --row 0 --col 0", illegal_value, "--matrix"},
    {ldmatrix + "--thread 3", missing_argument, "--register"},
    {ldmatrix + "--thread 32 --register 0", illegal_value, "--thread"},
    {ldmatrix + "--thread 1 --register 0 --row 1 --col 1", not_together, "--matrix, --row, --col"},
    {ldmatrix + "--operand a", missing_argument, "--fragment"},
    {ldmatrix + "--fragment " + test::f16, illegal_value, "--fragment"},
    {ldmatrix + "--fragment mma.sync.aligned.m16n8k12.row.col.f32.f16.f16.f32", illegal_value, "shape"},
});

/// What --fragment says as JSON.
nlohmann::json moves_of(const std::string& mnemonic, const std::string& operand) {
  return nlohmann::json::parse(
      run_line(ldmatrix + "--json --fragment " + mnemonic + " --operand " + operand).out)["moves"];
}

}  // namespace

TEST_CASE("layout ldmatrix refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("layout ldmatrix answers in both directions, as CSV, JSON and table, and has help") {
  CHECK(run_line(ldmatrix + "--matrix 2 --row 1 --col 2").out == "matrix,row,col,thread,register,bit\n2,1,2,5,2,0\n");
  CHECK(run_line(ldmatrix + "--thread 5 --register 2 --bit 31").out ==
        "matrix,row,col,thread,register,bit\n2,1,3,5,2,16\n");
  CHECK(run_line(ldmatrix + "--trans --thread 5 --register 2 --bit 31").out ==
        "matrix,row,col,thread,register,bit\n2,3,1,5,2,16\n");
  CHECK(nlohmann::json::parse(run_line(ldmatrix + "--row 1 --col 2 --json").out)["thread"] == 5);
  const std::string csv = run_line(ldmatrix + "--num 2 --csv").out;
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 2 * 64 + 1);
  const auto json = nlohmann::json::parse(run_line(ldmatrix + "--store --num 2 --json").out);
  CHECK(json["targets"] == "sm_90 and later");
  CHECK(json["elements"].size() == 128);
  CHECK(json["addresses"][9] == nlohmann::json{{"matrix", 1}, {"row", 1}, {"thread", 9}});
  CHECK_THAT(
      run_line(ldmatrix + "--num 2").out,
      ContainsSubstring("2 matrices of 8 rows of 16 bytes, 2 registers per thread") &&
          ContainsSubstring("thread 8 * matrix + row supplies the address of a row") &&
          ContainsSubstring("\n       1 7  T28:r1") &&
          ContainsSubstring("the addresses of threads 16-31 are not used; sm_75 requires them to be valid, too"));
  const test::Outcome help = run_line(ldmatrix + "--help");
  CHECK(help.code == 0);
  CHECK_THAT(help.out, ContainsSubstring("Example") && ContainsSubstring("bitmma layout ldmatrix"));
}

// ptxas takes qualifiers behind .sync.aligned in any order, and CUTLASS writes the second.
TEST_CASE("layout ldmatrix reads mnemonics in any order, with every spelling of shared memory") {
  const std::string flags = run_line(ldmatrix + "--trans").out;
  for (const char* qualifiers :
       {"m8n8.x4.trans.shared.b16", "x4.trans.m8n8.shared.b16", "m8n8.x4.trans.shared::cta.b16", "m8n8.x4.trans.b16"})
    CHECK(run_line(ldmatrix + "--instruction ldmatrix.sync.aligned." + qualifiers).out == flags);
  CHECK(run_line(ldmatrix + "--instruction stmatrix.sync.aligned.m8n8.x1.shared.b16").out ==
        run_line(ldmatrix + "--num 1 --store").out);
}

TEST_CASE("layout ldmatrix --fragment names the instruction and the block of each matrix, or says that none fits") {
  const std::string f16 = "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16";
  CHECK_THAT(run_line(ldmatrix + "--fragment " + f16).out,
             ContainsSubstring("A of " + f16 + ": m x k, 16 x 16 elements of 16 bits, 4 registers per thread\n") &&
                 ContainsSubstring("in memory m x k, 16 rows of 32 bytes: " + x4 + " (sm_75 and later)\n") &&
                 ContainsSubstring("\n       3       3  8-15  16-31  T24-T31\n"));
  const auto b = moves_of(f16, "b");
  REQUIRE(b.size() == 2);
  CHECK(b[0]["instruction"] == "ldmatrix.sync.aligned.m8n8.x2.shared.b16");
  CHECK(b[0]["matrices"][1] == nlohmann::json{{"matrix", 1}, {"register", 1}, {"row", 0}, {"byte", 16}});
  CHECK(b[1]["instruction"] == "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16");
  CHECK(b[1]["stored_rows"] == 16);
  CHECK(b[1]["matrices"][1] == nlohmann::json{{"matrix", 1}, {"register", 1}, {"row", 8}, {"byte", 0}});
  CHECK(moves_of(f16, "c")[0]["instruction"] == "ldmatrix.sync.aligned.m8n8.x2.shared.b16");
  CHECK(moves_of(f16, "d")[0]["instruction"] == "stmatrix.sync.aligned.m8n8.x2.shared.b16");
  const std::string s8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32";
  CHECK(moves_of(s8, "a").size() == 1);
  CHECK_THAT(run_line(ldmatrix + "--fragment " + s8 + " --operand b").out,
             ContainsSubstring("none, because .trans transposes elements of 16 bits, and these have 8"));
  CHECK(moves_of(s8, "d").empty());
  CHECK_THAT(run_line(ldmatrix + "--fragment " + s8 + " --operand d").out,
             ContainsSubstring("no ldmatrix or stmatrix fits: register 0 of thread 1 begins with row 0, byte 8"));
  CHECK_THAT(run_line(ldmatrix + "--fragment mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64").out,
             ContainsSubstring("have 64 bits, those of ldmatrix 32"));
  CHECK_THAT(run_line(ldmatrix + "--fragment mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32").out,
             ContainsSubstring("no ldmatrix or stmatrix fits: register 0 of thread 1 begins with row 1, byte 0"));
}
