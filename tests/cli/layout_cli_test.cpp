#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::f16, test::run, test::run_line;

namespace {

const test::BadRequests bad_requests({
    {"layout", "subcommand"},
    {"layout --cute (8,8):(8)", "different form"},
    {"layout --cute (8,8):(8,1) --element-bits 12", "--element-bits = 12"},
    {"layout --cute (8,8):(8,1) --descriptor nonsense", "--descriptor = nonsense"},
    {"layout --cute (8,8):(8,1) --svg $FOLDER/no/such/picture.svg", "its folder does not exist"},
    {"layout scales --rows 257", "1..256: what one instruction reads"},
    {"layout scales --blocks 9", "--blocks = 9"},
    {"layout scales --row 3", "both or none"},
    {"layout scales --id 4", "--id = 4"},
    {"layout scales --address 0x1000a0", "scale_A lane = 16: legal is 0"},
    {"layout scales --pack $GOLDEN $OUT", "bytes of the row-major matrix"},
    {"layout scales --pack $GOLDEN", "-o = (missing)"},
    {"layout scales --pack x --unpack y $OUT", "one of them"},
    {"layout scales --unpack $FOLDER/absent $OUT", "No such file"},
    {"layout smem --descriptor zero", "--descriptor = zero"},
    {"layout smem --descriptor -1", "--descriptor"},
    {"layout smem --descriptor 0x0 --element-bits 6", "--element-bits = 6"},
    {"layout smem --descriptor 0x0 --rows 0", "--rows = 0"},
    {"layout smem --descriptor 0x0 --row 3", "both --row and --col"},
    {"layout smem --descriptor 0x0 --row 8 --col 0", "0..7, 0..15"},
    {"layout fragment --instruction " + f16 + " --operand b", "--operand"},
    {"layout fragment --instruction " + f16 + " --operand metadata", "the instruction is not sparse"},
    {"layout fragment --instruction " + f16 + " --thread 128 --register 0", "0..127, 0..3, 0..31"},
    {"layout fragment --instruction tcgen05.mma.cta_group::1.kind::f16", "layout tmem, layout ldst"},
    {"layout tmem --m 32", "M = 32 with cta_group::1: legal is 64 or 128"},
    {"layout tmem --address 0x800000", "lane 128"},
    {"layout tmem --m 128 --address 0x100000", "D lane = 16: legal is 0"},
    {"layout tmem --n 12", "N = 12"},
    {"layout tmem --lane 3", "--lane, --column"},
    {"layout tmem --operand a --element-bits 5", "--element-bits, --cols = 5, 16"},
    {"layout ldst --shape 16x32b", "--shape = 16x32b"},
    {"layout ldst --shape 16x256b --num 64", ".num = x64"},
    {"layout fragment --instruction " + f16 + " --row 64 --col 0", "0..63, 0..7"},
    {"layout smem --descriptor 0x0 --target sm_120a", "no descriptors of shared memory"},
    {"layout scales --operand b --cta-group 2 --rows 33", "--rows = 33: legal is an even number"},
    {"layout fragment --instruction wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --target sm_100a",
     "target = sm_100a"},
});

}  // namespace

TEST_CASE("layout refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("layout smem answers in both directions, as CSV, JSON, CuTe notation and picture") {
  const std::string descriptor = "layout smem --descriptor 0x4000004000010000 --rows 64 --cols 16 ";
  CHECK(run_line(descriptor + "--row 9 --col 8").out == "row,col,byte,bit\n9,8,1152,0\n");
  CHECK(run_line(descriptor + "--byte 1153").out == "row,col,byte,bit\n9,8,1152,0\n");
  const std::string csv = run_line(descriptor + "--csv").out;
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 64 * 16 + 1);
  CHECK_THAT(csv, ContainsSubstring("\n9,8,1152,0\n"));
  CHECK(nlohmann::json::parse(run_line(descriptor + "--json").out)["cute"] ==
        "Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))");
  const std::string picture = run_line(descriptor).out;
  CHECK_THAT(picture, ContainsSubstring("Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))") &&
                          ContainsSubstring("0x80  r1 k8-15") && ContainsSubstring("more lines"));
  // The MN-major 64B example of PTX: LBO 512, SBO 1024 bytes.
  CHECK_THAT(run_line("layout smem --descriptor 0x8000004000200000 --major mn --rows 64 --cols 16").out,
             ContainsSubstring("Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))"));
}

TEST_CASE("layout fragment answers in both directions, and draws") {
  const std::string d = "layout fragment --instruction " + f16 + " ";
  CHECK(run_line(d + "--row 9 --col 3").out == "row,col,thread,register,bit\n9,3,5,3,0\n");
  CHECK(run_line(d + "--thread 5 --register 3").out == "row,col,thread,register,bit\n9,3,5,3,0\n");
  const std::string csv = run_line(d + "--operand a --csv").out;
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 64 * 16 + 1);
  CHECK_THAT(run_line(d + "--operand a --thread 5 --register 2 --bit 20").out, ContainsSubstring("\n1,11,5,2,16\n"));
  CHECK_THAT(run_line(d).out, ContainsSubstring("row 9   T4:r2"));
  const std::string sparse =
      "layout fragment --instruction wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 --operand metadata ";
  CHECK(run_line(sparse + "--row 3 --col 1").out == "row,col,thread,register,bit\n3,1,12,0,2\n");
  CHECK(run_line(sparse + "--thread 12 --bit 3").out == "row,col,thread,register,bit\n3,1,12,0,2\n");
}

TEST_CASE("instruction descriptors, Tensor Memory and ld/st maps answer in both directions") {
  CHECK(run_line("encode idesc --kind f16 --m 128 --n 64").out == "0x08100010\n");
  CHECK_THAT(run_line("decode 0x08100010 --kind f16").out,
             ContainsSubstring("M = 128, N = 64; D f32, A f16, B f16; A K-major, B K-major"));
  CHECK(nlohmann::json::parse(run_line("decode 0x08100010 --kind f16 --json").out)["fields"]["n"] == 8);
  CHECK(run_line("layout tmem --m 64 --n 32 --row 17 --col 5").out == "row,col,cta,lane,column,bit\n17,5,0,33,5,0\n");
  CHECK(run_line("layout tmem --m 64 --n 32 --lane 33 --column 5").out ==
        "row,col,cta,lane,column,bit\n17,5,0,33,5,0\n");
  CHECK(run_line("layout tmem --m 128 --n 64 --cta-group 2 --row 70 --col 40").out ==
        "row,col,cta,lane,column,bit\n70,40,1,70,8,0\n");
  const std::string a = run_line("layout tmem --operand a --m 64 --ws --csv").out;
  CHECK(std::count(a.begin(), a.end(), '\n') == 64 * 16 * 2 + 1);
  CHECK_THAT(run_line("layout tmem --m 64 --n 32").out, ContainsSubstring("layout F") && ContainsSubstring("32-47"));
  CHECK(run_line("layout ldst --shape 16x64b --num 4 --thread 5 --register 3").out ==
        "thread,register,half,lane,column\n5,3,0,9,6\n5,3,1,9,6\n");
  CHECK(run_line("layout ldst --shape 16x64b --num 4 --lane 9 --column 6").out ==
        "thread,register,half,lane,column\n5,3,0,9,6\n5,3,1,9,6\n");
  CHECK_THAT(run_line("layout ldst --shape 16x64b --num 4 --pack --thread 5 --register 3").out,
             ContainsSubstring("5,3,0,9,12\n5,3,1,9,13\n"));
  CHECK_THAT(run_line("layout ldst --shape 32x32b --num 2").out, ContainsSubstring("T31:r1"));
}

TEST_CASE("layout --cute speaks JSON and uses the exit codes, and every map draws") {
  const test::TemporaryFolder folder;
  const std::string cute = "Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))";
  CHECK(run({"layout", "--cute", cute, "--descriptor", "0x4000004000010000"}).code == 0);
  CHECK(run({"layout", "--cute", cute, "--descriptor", "0x8000004000010000"}).code == 1);
  CHECK(nlohmann::json::parse(
            run({"layout", "--cute", cute, "--descriptor", "0x8000004000010000", "--json"}).out)["first"]["row"] == 1);
  for (const char* line : {"layout smem --descriptor 0x4000004000010000 --rows 64 --svg ",
                           "layout fragment --instruction wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --svg ",
                           "layout tmem --svg ", "layout scales --svg ", "layout --cute (8,16):(16,1) --svg "}) {
    const std::string path = folder.path("picture.svg");
    CHECK(run_line(line + path).code == 0);
    CHECK_THAT(test::read_text(path), ContainsSubstring("</svg>"));
    std::filesystem::remove(path);
  }
}

TEST_CASE("layout scales puts the halves of B in different lanes where two CTAs share M = 128") {
  CHECK(run_line("layout scales --row 37 --block 2")
            .out.starts_with(
                "row,block,row_major_byte,tile,image_byte,replica,lane,column,byte\n37,2,150,0,86,0,5,1,2\n"));
  const std::string halves = run_line("layout scales --operand b --rows 64 --m 128 --cta-group 2").out;
  CHECK_THAT(halves, ContainsSubstring("two by two") && ContainsSubstring("64-95"));
  CHECK(run_line("layout scales --operand b --rows 64 --m 128 --cta-group 2 --row 40 --block 1")
            .out.ends_with("40,1,161,0,133,0,72,0,1\n40,1,161,0,133,1,104,0,1\n"));
}
