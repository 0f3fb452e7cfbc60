// Numbers of the command line are taken exactly, or refused: none is cut to what fits.
#include "run.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/number_rows.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using Catch::Matchers::EndsWith, Catch::Matchers::StartsWith;
using test::f16, test::Outcome, test::run, test::run_line;

namespace {

const std::string w = "golden " + f16 + " $OUT ";

const test::BadRequests bad_requests({
    {w + "--seed -1", illegal_value, "--seed"},
    {w + "--seed 18446744073709551616", illegal_value, "--seed"},
    {w + "--seed ''", illegal_value, "--seed"},
    {w + "--seed 1.5", illegal_value, "--seed"},
    {w + "--seed 010", illegal_value, "--seed"},  // 10 or, as in C, 8
    {w + "--seed 0x", illegal_value, "--seed"},
    {w + "--seed ' 1'", illegal_value, "--seed"},
    {w + "--cases 9223372036854775808", illegal_value, "--cases"},
    {w + "--cases 9223372036854775807", illegal_value, "cases"},
    {w + "--cases -1", illegal_value, "cases"},
    {w + "--cases 0", illegal_value, "cases"},
    {w + "--cases ''", illegal_value, "--cases"},
    {w + "--padding 9223372036854775792", illegal_value, "padding of A"},
    {w + "--padding -16", illegal_value, "padding of A"},
    {w + "--threads 99999999999999999999", illegal_value, "--threads"},
    {w + "--imm-scale-a 18446744073709551617", illegal_value, "--imm-scale-a"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 $OUT --m 4294967424", illegal_value, "--m"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 $OUT --m 99999999999999999999", illegal_value, "--m"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 $OUT --n=-8", illegal_value, "--n"},
    {"golden tcgen05.ld.sync.aligned.16x32bx2.x1.b32 $OUT --half-split-offset 4294967295", illegal_value,
     "half-split offset"},
    {"layout smem --descriptor 0x4000004000010000 --rows 4294967304", illegal_value,
     "Could not convert: --rows = 4294967304"},
    {"layout smem --descriptor 0x4000004000010000 --byte 9223372036854775808", illegal_value, "--byte"},
    {"layout smem --descriptor 0x4000004000010000 --max-lines -1", illegal_value, "lines of the picture"},
    {"layout smem --descriptor 0x4000004000010000 --rows 4096 --cols 4096", too_large, "picture"},
    {"layout smem --descriptor 0x4000004000010000 --rows 4096 --cols 4096 --svg $FOLDER/x", too_large, "picture"},
    {"layout ldst --shape 16x32bx2 --num 4 --split 2147483647 --csv", illegal_value, "--split"},
    {"layout ldst --shape 16x32bx2 --num 4 --split -5", illegal_value, "--split"},
    {"layout scales --rows 4611686018427387904 --blocks 4 --pack $GOLDEN $OUT", illegal_value, "scale matrix"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 64 --a e2m1 --b e2m1 --scale-type tf32", unknown_name, "--scale-type"},
});

}  // namespace

TEST_CASE("numbers that no option can hold are refused by name") { bad_requests.check(); }

TEST_CASE("the largest and the smallest number of an option are taken as they are, in any notation") {
  const test::TemporaryFolder folder;
  for (const std::string seed : {"18446744073709551615", "0xffffffffffffffff", "+18446744073709551615", "0"}) {
    const Outcome outcome = run({"golden", f16, "--cases", "1", "--seed", seed, "-o", folder.path("x")});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK_THAT(outcome.err, ContainsSubstring(seed == "0" ? "seed 0" : "seed 18446744073709551615"));
  }
}

namespace {

const std::string empty_kernel =
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\nret;\n}\n";

}  // namespace

TEST_CASE("options, extents, ranges and arguments read numbers by the same grammar") {
  const test::TemporaryFolder folder;
  const std::string ptx = folder.path("k.ptx");
  test::write_text(ptx, empty_kernel);
  const std::string line = "run " + ptx + " --arg zeros:u8[4] ";
  for (const test::NumberRow& row : test::number_rows) {
    const std::string quoted = "'" + row.text + "'";
    // A small number is accepted by all of them, and a text that is no number by none.
    if (row.value && (*row.value == 0 || *row.value > 2000)) continue;
    for (const std::string& option : {"--shared " + quoted, "--values " + quoted, "--grid " + quoted,
                                      "--grid '1," + row.text + "'", "--trace '0:0' --trace-lines " + quoted}) {
      const Outcome outcome = run_line(line + option);
      INFO(option << "\n" << outcome.err);
      CHECK(outcome.code == (row.value ? 0 : 2));
    }
    if (row.text == "7") CHECK(run_line(line + "--grid 7x1x1").code == 0);
    for (const std::string type : {"u64", "s64"}) {
      const Outcome outcome = run_line("run " + ptx + " --arg '" + type + ":" + row.text + "'");
      INFO(type << ":" << row.text << "\n" << outcome.err);
      CHECK(outcome.code == (row.value || (type == "s64" && row.text == "-1") ? 0 : 2));
    }
    CHECK(run_line("run " + ptx + " --arg 'zeros:u8[" + row.text + "]'").code == (row.value ? 0 : 2));
  }
  for (const std::string& good :
       {line + "--trace 0:0 --trace-lines 1-16777216", "run " + ptx + " --arg zeros:u8[16777216]",
        "run " + ptx + " --arg u64:18446744073709551615", "run " + ptx + " --arg s64:-9223372036854775808"}) {
    const Outcome outcome = run_line(good);
    INFO(good << "\n" << outcome.err);
    CHECK(outcome.code == 0);
  }
  for (const std::string& bad :
       {line + "--values -1", line + "--grid 1,,2", line + "--grid 1,", line + "--grid ,1", line + "--grid 1,1,1,1",
        line + "--grid 2147483648", line + "--trace 0:0 --trace-lines 5-", line + "--trace 0,:0",
        "run " + ptx + " --arg zeros:u8[4,]", "run " + ptx + " --arg u64:18446744073709551616",
        "run " + ptx + " --arg u8:256", "run " + ptx + " --arg s8:-129"}) {
    INFO(bad);
    CHECK(run_line(bad).code == 2);
  }
}

TEST_CASE("a word of eight or sixteen digits is not guessed to be of one base") {
  for (const std::string word : {"12345678", "1234567890123456"}) {
    const Outcome outcome = run_line("layout smem --descriptor " + word);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.violations, refused(illegal_value, "--descriptor"));  // how to write it
  }
}

TEST_CASE("lists of elements are written as they come, and are the JSON of a whole list") {
  const std::string smem = "layout smem --descriptor 0x4000004000010000 --json --rows ";
  // As nlohmann's dump(2) of the whole has it.
  const Outcome two = run_line(smem + "1 --cols 2");
  CHECK(two.code == 0);
  CHECK_THAT(two.out,
             EndsWith("  \"start_address\": 0,\n"
                      "  \"warnings\": [],\n"
                      "  \"elements\": [\n"
                      "    {\n      \"row\": 0,\n      \"col\": 0,\n      \"byte\": 0,\n      \"bit\": 0\n    },\n"
                      "    {\n      \"row\": 0,\n      \"col\": 1,\n      \"byte\": 2,\n      \"bit\": 0\n    }\n"
                      "  ]\n}\n"));
  CHECK(run_line("layout smem --descriptor 0x4000004000010000 --json --byte 100000").out == "[]\n");
  CHECK_THAT(run_line("layout ldst --num 1 --json --thread 0").out,
             StartsWith("[\n  {\n    \"thread\": 0,\n") && EndsWith("    \"column\": 0\n  }\n]\n"));
  // A million elements; under sanitizers as many as reach as far in shared memory.
  const int rows = test::amount(2048, 1024, 1024), cols = test::amount(8, 1024, 1024);
  const Outcome many = run_line(smem + std::to_string(rows) + " --cols " + std::to_string(cols));
  CHECK(many.code == 0);
  CHECK(std::count(many.out.begin(), many.out.end(), '{') ==
        rows * cols + 2);  // and a warning: beyond the 227 KB of an SM
  CHECK_THAT(many.out, EndsWith("\n    }\n  ]\n}\n"));
}
