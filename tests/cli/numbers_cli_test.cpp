// Numbers of the command line are taken exactly, or refused: none is cut to what fits.
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using Catch::Matchers::EndsWith, Catch::Matchers::StartsWith;
using test::f16, test::Outcome, test::run, test::run_line;

namespace {

const std::string w = "golden " + f16 + " $OUT ";

const test::BadRequests bad_requests({
    {w + "--seed -1", "must be a whole number, 0..2^64-1"},
    {w + "--seed 18446744073709551616", "must be a whole number, 0..2^64-1"},
    {w + "--seed ''", "--seed = \"\": must be a value"},
    {w + "--seed 1.5", "must be a whole number, 0..2^64-1"},
    {w + "--seed 0x", "must be a whole number, 0..2^64-1"},
    {w + "--seed ' 1'", "must be a whole number, 0..2^64-1"},
    {w + "--cases 9223372036854775808", "must be a whole number, -2^63..2^63-1"},
    {w + "--cases 9223372036854775807", "cases = 9223372036854775807"},
    {w + "--cases -1", "cases = -1"},
    {w + "--cases 0", "cases = 0"},
    {w + "--cases ''", "--cases = \"\": must be a value"},
    {w + "--padding 9223372036854775792", "padding of A = 9223372036854775792"},
    {w + "--padding -16", "padding of A = -16"},
    {w + "--threads 99999999999999999999", "must be 1 to 4096"},
    {w + "--imm-scale-a 18446744073709551617", "--imm-scale-a = 18446744073709551617: must be 1 or -1"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 $OUT --m 4294967424", "--m"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 $OUT --m 99999999999999999999", "must be a whole number, 0..2^63-1"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 $OUT --n=-8", "must be a whole number, 0..2^63-1"},
    {"golden tcgen05.ld.sync.aligned.16x32bx2.x1.b32 $OUT --half-split-offset 4294967295",
     "half-split offset = 0xffffffff"},
    {"layout smem --descriptor 0x4000004000010000 --rows 4294967304", "--rows"},
    {"layout smem --descriptor 0x4000004000010000 --byte 9223372036854775808", "must be a whole number"},
    {"layout smem --descriptor 0x4000004000010000 --max-lines -1", "lines of the picture = -1"},
    {"layout smem --descriptor 0x4000004000010000 --rows 4096 --cols 4096", "picture = 4096 x 4096"},
    {"layout smem --descriptor 0x4000004000010000 --rows 4096 --cols 4096 --svg $FOLDER/x", "picture = 4096 x 4096"},
    {"layout ldst --shape 16x32bx2 --num 4 --split 2147483647 --csv", "split = 2147483647"},
    {"layout ldst --shape 16x32bx2 --num 4 --split -5", "split = -5"},
    {"layout scales --rows 4611686018427387904 --blocks 4 --pack $GOLDEN $OUT", "scale matrix"},
    {"encode idesc --kind mxf4nvf4 --m 128 --n 64 --a e2m1 --b e2m1 --scale-type tf32",
     "--scale-type = tf32: must be ue8m0, ue4m3 or ue5m3"},
});

}  // namespace

TEST_CASE("numbers that no option can hold are refused by name") { bad_requests.check(); }

TEST_CASE("the largest and the smallest number of an option are taken as they are, in any notation") {
  const test::TemporaryFolder folder;
  for (const std::string seed : {"18446744073709551615", "0xffffffffffffffff", "01777777777777777777777", "0"}) {
    const Outcome outcome = run({"golden", f16, "--cases", "1", "--seed", seed, "-o", folder.path("x")});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK_THAT(outcome.err, ContainsSubstring(seed == "0" ? "seed 0" : "seed 18446744073709551615"));
  }
}

TEST_CASE("lists of elements are written as they come, and are the JSON of a whole list", "[unsanitized]") {
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
  // A million elements.
  const Outcome many = run_line(smem + "1024 --cols 1024");
  CHECK(many.code == 0);
  CHECK(std::count(many.out.begin(), many.out.end(), '{') ==
        1024 * 1024 + 2);  // and a warning: beyond the 227 KB of an SM
  CHECK_THAT(many.out, EndsWith("\n    }\n  ]\n}\n"));
}
