#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "run.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;
using test::f16, test::run, test::run_line;

namespace {

const test::BadRequests bad_requests({
    {"layout", missing_input, "layout"},
    {"layout --cute (8,8):(8)", wrong_shape, "CuTe layout"},
    {"layout --cute (8,8):(8,1) --element-bits 12", illegal_value, "--element-bits"},
    {"layout --cute GMMA::Layout_K_SW128_Atom<half_t> --element-bits 8", illegal_value, "--element-bits"},
    {"layout --cute ((8,m),(8,8)):((8,64),(1,8))", missing_input, "m of the CuTe layout"},
    {"layout descriptor", missing_argument, "--swizzle, --rows, --cols, --type or --element-bits"},
    {"layout descriptor --cute Layout_K_SW128 --swizzle 128", not_together, "--cute"},
    {"layout descriptor --type f16 --swizzle 256 --rows 8 --cols 64", illegal_value, "--swizzle"},
    {"layout descriptor --type f16 --swizzle 128 --rows 0 --cols 64", illegal_value, "--rows"},
    {"layout descriptor --type f16 --swizzle 128 --rows 60000 --cols 60000", too_large, "--rows, --cols"},
    {"layout descriptor --cute Layout_K_SW128 --target sm_80", illegal_value, "--target, --arch"},
    {"layout descriptor --cute Layout_K_SW128 --start -16", illegal_value, "--start"},
    {"layout descriptor --cute Layout_K_SW128 --instruction-k -1", illegal_value, "--instruction-k"},
    {"layout smem", missing_argument, "--descriptor"},
    {"layout smem --atom 128-atom32 --target sm_90a", illegal_value, "--atom"},
    {"layout smem --descriptor 0x0 --row 1 --col 2 --byte 4", not_together, "--row, --col"},
    {"layout smem --descriptor 0x0 --csv --json", not_together, "--csv"},
    {"layout tmem --row 1 --col 2 --lane 4 --column 1", not_together, "--row, --col"},
    {"layout --cute (8,8):(8,1) --byte 4 --row 1", not_together, "--row, --col"},
    {"layout fragment --instruction " + f16 + " --row 3 --col 1 --thread 5 --register 2", not_together, "--row, --col"},
    {"layout fragment --instruction " + f16 + " --row 3 --col 1 --thread 5 --element d1", not_together, "--row, --col"},
    {"layout fragment --instruction " + f16 + " --register 2", missing_argument, "--thread"},
    {"layout fragment --instruction " + f16 + " --bit 2", missing_argument, "--thread"},
    {"layout fragment --instruction mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 --operand metadata",
     illegal_value, "--operand"},
    {"layout fragment --instruction mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 --operand b --row 9 --col 3",
     illegal_value, "--row"},
    {"layout --cute GMMA::Layout_K_SW182_Atom<half_t>", unknown_name, "CuTe layout"},
    {"layout fragment --instruction " + f16 + " --thread 3 --element d4", illegal_value, "--element"},
    {"layout fragment --instruction " + f16 + " --element d0", illegal_value, "--element"},
    {"layout fragment --instruction " + f16 + " --thread 3 --element a0", illegal_value, "--element"},
    {"layout tmem-plan --instruction " + f16, illegal_value, "--instruction"},
    {"layout tmem-plan --instruction tcgen05.mma.cta_group::1.kind::f16 --n 12", illegal_value, "--n"},
    {"layout tmem-plan --instruction tcgen05.mma.cta_group::1.kind::f16 --ctas 0", illegal_value, "--ctas"},
    {"layout smem --atom 256", illegal_value, "--atom"},
    {"layout smem --atom 128-atom32 --major k", contradiction, "--atom, --major"},
    {"layout smem --tma 256", illegal_value, "--tma"},
    {"layout smem --tma 128 --box 128", illegal_value, "--box"},
    {"layout smem --tma 128 --box x", illegal_value, "--box"},
    {"layout smem --descriptor 0x0 --box 64", unread_argument, "--box 64"},
    {"layout smem --descriptor 0x0 --conflicts ld", illegal_value, "--conflicts"},
    {"layout --cute (8,8):(8,1) --svg $FOLDER/x.png", illegal_value, "--svg"},
    {"layout descriptor --type f16 --element-bits 8 --swizzle 128 --rows 64 --cols 64", contradiction,
     "--type, --element-bits"},
    {"layout metadata --order sm86", unknown_name, "--order"},
    {"layout metadata --cols 24", illegal_value, "--cols"},
    {"layout metadata --order sm90 --tile-k 48 --rows 64 --cols 64", illegal_value, "--tile-k"},
    {"layout metadata --tile-k 64", unread_argument, "--tile-k 64"},
    {"layout metadata --row 3", missing_argument, "--chunk"},
    {"layout tmem --operand metadata --element-bits 8 --selector 1", illegal_value, "--selector"},
    {"layout tmem --selector 1", unread_argument, "--selector 1"},
    {"layout chain " + f16, missing_argument, "second"},
    {"layout chain " + f16 + " mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", contradiction, "instructions"},
    {"layout chain " + f16 + " wgmma.mma_async.sp.sync.aligned.m64n16k32.f32.f16.f16", wrong_instruction,
     "second instruction"},
    {"layout smem --tma 128 --rows 64 --cols 64 --warp ldmatrix", illegal_value, "--warp"},
    {"layout smem --tma 128 --rows 64 --cols 64 --warp ldmatrix.x4 --row 60", illegal_value, "--row, --col"},
    {"layout smem --tma 128 --rows 64 --cols 64 --warp ld.b8", illegal_value, "--warp"},
    {"layout smem --tma 128 --rows 64 --cols 64 --warp ld.b32 --warp-lines 3", illegal_value, "--warp-lines"},
    {"layout algebra", missing_argument, "words"},
    {"layout algebra compos 8:1", unknown_name, "operation"},
    {"layout algebra complement", missing_argument, "layout"},
    {"layout algebra right_inverse 8:1 4", illegal_value, "second operand"},
    {"layout banks --addresses 0,6 --bytes 4", illegal_value, "--addresses"},
    {"layout banks --addresses 0 --bytes 3", illegal_value, "--bytes"},
    {"layout tmem-plan --instruction tcgen05.mma.cta_group::1.kind::f16 --k 0", illegal_value, "--k"},
    {"layout ldst --split 0", no_effect, "--split"},
    {"layout ldst --shape 16x32bx2 --split 0", no_effect, "--split"},
    {"layout descriptor --type f16 --swizzle 128 --rows 64 --cols 64 --instruction-k 0", illegal_value,
     "--instruction-k"},
    {"layout fragment --operand A --instruction " + f16, unknown_name, "--operand"},
    {"layout smem --atom 128 --descriptor 0x0", not_together, "--atom"},
    {"layout smem --atom 128 --element-bits 6", illegal_value, "--element-bits"},
    {"layout scales --rows 0 --image", illegal_value, "--rows, --blocks"},
    {"layout scales --byte -1", illegal_value, "--byte"},
    {"layout fragment --instruction " + f16 + " --operand scale_a", illegal_value, "--operand"},
    {"layout fragment --instruction mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 --operand scale_b", illegal_value,
     "--operand"},
    {"layout fragment --instruction mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 "
     "--operand scale_a --thread-id 2",
     illegal_value, "thread_id_a"},
    {"layout --cute (8,8):(8,1) --descriptor nonsense", illegal_value, "--descriptor"},
    {"layout --cute (8,8):(8,1) --svg $FOLDER/no/such/picture.svg", unusable_file, "$FOLDER/./no/such/picture.svg"},
    {"layout scales --rows 257", illegal_value, "--rows"},
    {"layout scales --blocks 9", illegal_value, "--blocks"},
    {"layout scales --row 3", missing_argument, "--block"},
    {"layout scales --row 200 --block 0", illegal_value, "--row"},
    {"layout scales --id 4", illegal_value, "--id"},
    {"layout scales --address 0x1000a0", illegal_value, "scale_A lane"},
    {"layout scales --pack $GOLDEN $OUT", wrong_shape, "bytes of the row-major matrix"},
    {"layout scales --pack $GOLDEN", missing_argument, "-o"},
    {"layout scales --pack x --unpack y $OUT", not_together, "--pack"},
    {"layout scales --unpack $FOLDER/absent $OUT", not_found, "file"},
    {"layout smem --descriptor zero", illegal_value, "--descriptor"},
    {"layout smem --descriptor -1", illegal_value, "--descriptor"},
    {"layout smem --descriptor 0x0 --element-bits 6", illegal_value, "--element-bits"},
    {"layout smem --descriptor 0x0 --rows 0", illegal_value, "--rows"},
    {"layout smem --descriptor 0x0 --row 3", missing_argument, "--col"},
    {"layout smem --descriptor 0x0 --row 8 --col 0", illegal_value, "--row"},
    {"layout fragment --instruction " + f16 + " --operand b", illegal_value, "--operand"},
    {"layout fragment --instruction " + f16 + " --operand metadata", illegal_value, "--operand"},
    {"layout fragment --instruction " + f16 + " --thread 128 --register 0", illegal_value, "--thread"},
    {"layout fragment --instruction tcgen05.mma.cta_group::1.kind::f16", wrong_instruction, "--instruction"},
    {"layout tmem --m 32", illegal_value, "M"},
    {"layout tmem --address 0x800000", illegal_value, "Tensor Memory address"},
    {"layout tmem --m 128 --address 0x100000", illegal_value, "D lane"},
    {"layout tmem --n 12", illegal_value, "N"},
    {"layout tmem --lane 3", missing_argument, "--column"},
    {"layout tmem --operand a --element-bits 5", illegal_value, "--element-bits, --cols"},
    {"layout ldst --shape 16x32b", unknown_name, "--shape"},
    {"layout ldst --shape 16x256b --num 64", illegal_value, ".num"},
    {"layout fragment --instruction " + f16 + " --row 64 --col 0", illegal_value, "--row"},
    {"layout smem --descriptor 0x0 --target sm_120a", illegal_value, "--target, --arch"},
    {"layout scales --operand b --cta-group 2 --rows 33", illegal_value, "--rows"},
    {"layout fragment --instruction wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --target sm_100a",
     unsupported_target, "--target"},
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
                          ContainsSubstring("0x80  r1 k8-15") && ContainsSubstring("32 of 64 lines: 0x0 to 0xf80"));
  // The MN-major 64B example of PTX: LBO 512, SBO 1024 bytes.
  CHECK_THAT(run_line("layout smem --descriptor 0x8000004000200000 --major mn --rows 64 --cols 16").out,
             ContainsSubstring("Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))"));
}

TEST_CASE("layout says of B that rows are n, takes names of atoms, and warns of extents that no instruction has") {
  const std::string b = "layout fragment --instruction SM80_16x8x16_F32F16F16F32_TN --operand b --row 5 --col 3";
  CHECK(run_line(b).out.starts_with("n,k,thread,register,bit\n5,3,"));
  const auto json = nlohmann::json::parse(run_line(b + " --json").out);
  CHECK((json["n"] == 5 && json["k"] == 3 && json["row"] == 5));
  const std::string tile = "layout descriptor --type f16 --swizzle 128 --cols 64 ";
  CHECK_THAT(run_line(tile + "--rows 63").violations, refused(illegal_value, "rows of an instruction"));
  CHECK_THAT(run_line(tile + "--rows 64 --instruction-k 32").violations, refused(illegal_value, "K of an instruction"));
  CHECK(run_line(tile + "--rows 64 --instruction-k 16").err.empty());
  CHECK_THAT(run_line("layout smem --descriptor 0x4000004000010000 --rows 64 --byte 1184").err,
             ContainsSubstring("64 x 16 elements (--rows, --cols), which end at byte 8191, holds no element"));
  CHECK(run_line("layout smem --descriptor 0x4000004000010000 --rows 64 --cols 64 --byte 1184").code == 0);
  const test::TemporaryFolder folder;
  const std::string path = folder.path("a.svg");
  REQUIRE(run_line("layout smem --descriptor 0x4000004000010000 --rows 64 --row 60 --col 0 --svg " + path).code == 0);
  CHECK_THAT(test::read_text(path), ContainsSubstring("framed: row 60") && !ContainsSubstring("which is not drawn</"));
  REQUIRE(run_line("layout fragment --instruction wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 --row 3 --col 30 "
                   "--svg " +
                   path)
              .code == 0);
  CHECK_THAT(test::read_text(path),
             ContainsSubstring("framed: row 3, col 30 in thread") && ContainsSubstring(">col 31<"));
}

TEST_CASE("layout fragment answers in both directions, and draws") {
  const std::string d = "layout fragment --instruction " + f16 + " ";
  CHECK(run_line(d + "--row 9 --col 3").out == "row,col,thread,register,bit\n9,3,5,3,0\n");
  CHECK(run_line(d + "--thread 5 --register 3").out == "row,col,thread,register,bit\n9,3,5,3,0\n");
  const std::string csv = run_line(d + "--operand a --csv").out;
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 64 * 16 + 1);
  CHECK_THAT(run_line(d + "--operand a --thread 5 --register 2 --bit 20").out, ContainsSubstring("\n1,11,5,2,16\n"));
  CHECK_THAT(run_line(d).out, ContainsSubstring("\n  9  T4:r2"));
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
  for (const char* line :
       {"layout smem --descriptor 0x4000004000010000 --rows 64 --svg ",
        "layout fragment --instruction wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --svg ", "layout tmem --svg ",
        "layout scales --svg ", "layout --cute (8,16):(16,1) --svg ", "layout ldst --shape 16x64b --num 4 --svg ",
        "layout scales --image --svg ", "layout smem --atom 64 --svg ", "layout ldmatrix --trans --svg ",
        "layout tmem-plan --instruction tcgen05.mma.cta_group::1.kind::f16 --svg ",
        "layout fragment --instruction wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 --operand metadata --svg ",
        "layout fragment --instruction mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32."
        "e2m1.e2m1.f32.ue8m0 --operand scale_b --svg "}) {
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
  CHECK_THAT(run_line("layout scales").out, ContainsSubstring("0-127   3  row 96..127 block 0"));
  const std::string halves = run_line("layout scales --operand b --rows 64 --m 128 --cta-group 2").out;
  CHECK_THAT(halves, ContainsSubstring("two by two") && ContainsSubstring("64-127"));
  CHECK(run_line("layout scales --operand b --rows 64 --m 128 --cta-group 2 --row 40 --block 1")
            .out.ends_with("40,1,161,0,133,0,72,0,1\n40,1,161,0,133,1,104,0,1\n"));
}

TEST_CASE("layout scales draws the rows that its cells hold, for every N of the two-by-two case") {
  for (int n = 16; n <= 256; n += 16) {
    INFO(n);
    const std::string line = "layout scales --operand b --m 128 --cta-group 2 --blocks 1 --rows " + std::to_string(n);
    std::map<std::pair<int, int>, std::set<int>> rows;  // by band of lanes and column
    std::istringstream csv(run_line(line + " --csv").out);
    std::string entry;
    for (std::getline(csv, entry); std::getline(csv, entry);) {
      std::vector<int> values;
      std::istringstream fields(entry);
      for (std::string field; std::getline(fields, field, ',');) values.push_back(std::stoi(field));
      REQUIRE(values.size() == 9);
      if (values[5] == 0) rows[{values[6] / 32, values[7]}].insert(values[0]);  // the lines show the first replica
    }
    std::istringstream drawn(run_line(line).out);
    size_t cells = 0;
    for (std::string text; std::getline(drawn, text);) {
      int lane = 0, last_lane = 0, column = 0, first = 0, last = 0;
      if (std::sscanf(text.c_str(), " %d-%d %d row %d..%d", &lane, &last_lane, &column, &first, &last) != 5) continue;
      const std::set<int>& held = rows.at({lane / 32, column});
      CHECK((*held.begin() == first && *held.rbegin() == last));
      ++cells;
    }
    CHECK(cells == rows.size());
  }
}

TEST_CASE(
    "layout descriptor: from a layout to its descriptors, in text and JSON, and exit code 1 where there is none") {
  const std::string cute = "layout descriptor --cute 'Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))' ";
  CHECK_THAT(run_line(cute).out,
             ContainsSubstring("parameters  T 8, m 2, k 2") &&
                 ContainsSubstring("LBO         512 bytes, encoded 32: from 32 rows to the next 32") &&
                 ContainsSubstring("SBO         1024 bytes, encoded 64: from 8 values of k") &&
                 ContainsSubstring("0x8000004000200000"));
  const auto json = nlohmann::json::parse(run_line(cute + "--json").out);
  CHECK(json["descriptor"] == "0x8000004000200000");
  CHECK(json["lbo"]["encoded"] == 32);
  CHECK(json["steps"].size() == 1);
  const test::Outcome none = run_line("layout descriptor --cute (8,16):(16,1)");
  CHECK(none.code == 1);
  CHECK_THAT(none.out, ContainsSubstring("no descriptor means this layout:\n  row 1 = +32 bytes"));
  CHECK(nlohmann::json::parse(run_line("layout descriptor --cute (8,16):(16,1) --json").out)["descriptor"].is_null());
  const test::Outcome over_itself =
      run_line("layout descriptor --cute 'Swizzle<1,4,3> o ((8,2),(4,4)):((8,64),(1,4))' --element-bits 32");
  CHECK(over_itself.code == 0);
  CHECK_THAT(over_itself.violations, refused(contradiction, "layout"));
  const std::string described =
      run_line("layout descriptor --type e4m3 --swizzle 64 --rows 128 --cols 128 --stages 2 --target sm_100a").out;
  CHECK_THAT(described, ContainsSubstring("0x8000402000010200") && ContainsSubstring("512 (+512)"));
  CHECK_THAT(
      run_line("layout descriptor --type bf16 --major mn --swizzle none --rows 64 --cols 16 --lbo 1024 --sbo 128").out,
      ContainsSubstring("LBO         1024 bytes, encoded 64: from 8 values of k to the next 8"));
  CHECK_THAT(run_line("layout descriptor --cute Layout_K_SW128 --max-lines 2").out, ContainsSubstring("... 2 more"));
}

TEST_CASE("layout smem prints atoms, and says per target how sure a wide row is") {
  CHECK_THAT(run_line("layout smem --atom 128 --major mn --element-bits 128").out,
             ContainsSubstring("Layout_MN_SW128, mn-major: atom of 8 x 8 units of 128 bits") &&
                 ContainsSubstring("0x80  r1 k1  r0 k1"));
  CHECK(run_line("layout smem --atom 64 --row 1 --col 9").out == "row,col,byte,bit\n1,9,82,0\n");
  const std::string wide = "layout smem --rows 8 --element-bits 8 ";
  CHECK_THAT(run_line(wide + "--descriptor 0xc000004000800000 --cols 64").out,
             ContainsSubstring("measured on an NVIDIA H200"));
  CHECK_THAT(run_line(wide + "--descriptor 0xc000404000800000 --cols 64 --target sm_100a").out,
             ContainsSubstring("assumption: an H200's wgmma does so; no Blackwell GPU was measured"));
  CHECK_THAT(run_line(wide + "--descriptor 0x4000004000010000 --cols 256").out,
             ContainsSubstring("assumption: no wgmma reads such rows"));
}

TEST_CASE("a picture of a unit in another order than the matrix's says the order") {
  CHECK_THAT(run_line("layout --cute 'Swizzle<3,3,3> o ((8,8),(8,2)):((64,512),(1,8))' --element-bits 8").out,
             ContainsSubstring("r1 k8-15|k0-7"));
  CHECK_THAT(run_line("layout --cute 8:2").out,
             ContainsSubstring("r0-3 k0~") && ContainsSubstring("~ not consecutive"));
}

TEST_CASE("what holds no element is exit code 1, and no heading alone") {
  for (const char* line : {"layout smem --descriptor 0x4000004000010000 --rows 8 --byte 50000",
                           "layout --cute (8,8):(8,1) --byte 128", "layout tmem --m 64 --n 32 --lane 20 --column 0",
                           "layout ldst --shape 16x64b --num 4 --lane 20", "layout scales --rows 100 --byte 511",
                           "layout fragment --instruction "
                           "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 "
                           "--operand scale_a --thread 2"}) {
    const test::Outcome outcome = run_line(line);
    INFO(line);
    CHECK(outcome.code == 1);
    CHECK(outcome.out.empty());
    test::note_message(outcome.err);
    CHECK(run_line(std::string(line) + " --json").out == "[]\n");
  }
}

TEST_CASE("scales of mma.sync answer in both directions, and so does the image of 512 bytes") {
  const std::string scales =
      "layout fragment --instruction "
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --operand ";
  CHECK(run_line(scales + "scale_a --row 9 --col 1").out == "row,scale,thread,register,bit\n9,1,5,0,8\n");
  CHECK(run_line(scales + "scale_a --thread 5 --bit 9").out == "row,scale,thread,register,bit\n9,1,5,0,8\n");
  CHECK(run_line(scales + "scale_a --thread-id 1 --byte-id 2 --row 9 --col 1").out ==
        "row,scale,thread,register,bit\n9,1,7,0,24\n");
  CHECK(run_line(scales + "scale_b --thread 8").out == "col,scale,thread,register,bit\n2,0,8,0,0\n2,1,8,0,8\n");
  CHECK_THAT(run_line(scales + "scale_a").out, ContainsSubstring("\n  9  T5 b0    T5 b8"));
  CHECK(run_line("layout scales --byte 86").out == "row,block,tile,image_byte\n37,2,0,86\n");
  CHECK_THAT(run_line("layout scales --image").out, ContainsSubstring("0x10  R1 b0-3   R33 b0-3"));
}

TEST_CASE("pictures frame the element that is asked for") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("picture.svg");
  for (const std::string line :
       {"layout smem --descriptor 0x4000004000010000 --rows 64 --row 9 --col 3 --svg ",
        "layout smem --atom 64 --byte 3 --svg ",
        "layout fragment --instruction wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --thread 37 --svg ",
        "layout fragment --instruction wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 --row 40 --col 50 --svg ",
        "layout ldst --thread 5 --svg ", "layout scales --row 37 --block 2 --svg ",
        "layout scales --image --row 37 --block 2 --svg ", "layout ldmatrix --thread 5 --register 2 --svg ",
        "layout tmem --row 17 --col 5 --svg "}) {
    INFO(line);
    CHECK(run_line(line + path).code == 0);
    CHECK_THAT(test::read_text(path), ContainsSubstring("class=\"mark\""));
    std::filesystem::remove(path);
  }
  CHECK(run_line("layout smem --descriptor 0x4000004000010000 --rows 64 --cols 64 --svg " + path).code == 0);
  CHECK_THAT(test::read_text(path), ContainsSubstring(">SBO 1024<") && ContainsSubstring("class=\"edge\""));
}

TEST_CASE("layout tmem-plan gives columns, addresses and allocations, and exit code 1 where they do not fit") {
  const std::string plan =
      "layout tmem-plan --instruction tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X --n 128 ";
  CHECK_THAT(run_line(plan + "--k-blocks 4 --ctas 2").out,
             ContainsSubstring("tcgen05.alloc of 256 columns for 160; 2 CTAs of them on an SM") &&
                 ContainsSubstring("0x00000180") &&
                 ContainsSubstring("assumption: PTX does not document which columns"));
  CHECK(run_line(plan + "--ctas 3").code == 1);
  const auto json = nlohmann::json::parse(
      run_line("layout tmem-plan --instruction tcgen05.mma.cta_group::1.kind::f16 --n 256 --accumulators 2 --json")
          .out);
  CHECK(json["allocation"] == 512);
  CHECK(json["pieces"][1]["address"] == "0x00000100");
  const test::Outcome large =
      run_line("layout tmem-plan --instruction tcgen05.mma.cta_group::1.kind::f16 --n 256 --accumulators 3");
  CHECK(large.code == 1);
  CHECK_THAT(large.out, ContainsSubstring("does not fit: 768 of 512 columns"));
}

TEST_CASE("PTX's own words: elements d0 and up, M-major, 128B, interleaved, and tiles that are read K step by K step") {
  CHECK(run_line("layout fragment --instruction " + f16 + " --thread 5 --element d3").out ==
        "row,col,thread,register,bit\n9,3,5,3,0\n");
  CHECK(run_line("layout fragment --instruction " + f16 + " --operand a --thread 5 --element a5").out ==
        "row,col,thread,register,bit\n1,11,5,2,16\n");
  CHECK(nlohmann::json::parse(
            run_line("layout fragment --instruction " + f16 + " --operand a --row 1 --col 11 --json").out)["element"] ==
        5);
  CHECK(run_line("layout smem --atom 128B --major m").out == run_line("layout smem --atom 128 --major mn").out);
  CHECK(run_line("layout smem --atom interleave").out == run_line("layout smem --atom none").out);
  const test::Outcome wide = run_line(
      "layout --cute 'Swizzle<1,4,3> o ((8,2),(4,4)):((8,64),(1,4))' --descriptor 0xc000001000010000 --element-bits "
      "32");
  CHECK(wide.code == 0);
  CHECK_THAT(wide.out, ContainsSubstring("32 bytes of K at a time") && ContainsSubstring("row 0, k 8 and row 1, k 0"));
  CHECK(
      run_line("layout --cute 'Swizzle<1,4,3> o ((8,2),(4,4)):((8,64),(1,4))' --descriptor 0xc000401000010000 --target "
               "sm_100a --element-bits 32")
          .code == 0);
  CHECK(run_line("layout --cute 'Swizzle<3,4,3> o ((8,8),(64,1)):((64,512),(1,0))' --descriptor 0x8000004000010000")
            .code == 1);
}

TEST_CASE("layout algebra, banks, swizzles, TMA and whole matrices of scales answer as text, CSV and JSON") {
  CHECK_THAT(run_line("layout algebra composition (6,2):(8,2) (4,3):(3,1)").out,
             Catch::Matchers::StartsWith("((2,2),3):((24,2),8)\n"));
  CHECK(run_line("layout algebra coalesce (2,3):(1,4) --csv").out == "index,offset\n0,0\n1,1\n2,4\n3,5\n4,8\n5,9\n");
  CHECK(nlohmann::json::parse(run_line("layout algebra left_inverse 4:2 --json").out)["result"] == "(2,4):(0,1)");
  const auto conflicts = run_line("layout banks --bytes 16 --addresses 0,128,256,384 --json");
  CHECK((conflicts.code == 1 && nlohmann::json::parse(conflicts.out)["wavefronts"] == 4));
  CHECK(nlohmann::json::parse(run_line("layout swizzles --json").out).size() == 80);
  const std::string tile = " --descriptor 0x4000004000010000 --rows 64 --cols 64";
  CHECK(run_line("layout smem --tma 128" + tile).code == 0);
  const auto plain = run_line("layout smem --tma none --box 64 --json" + tile);
  CHECK(plain.code == 1);
  const nlohmann::json answer = nlohmann::json::parse(plain.out);
  CHECK(
      (answer["first"]["row"] == 1 && answer["first"]["tma_byte"] == 128 && answer["first"]["descriptor_byte"] == 144));
  CHECK(run_line("layout smem --tma 128 --rows 64 --cols 64 --row 1 --col 0").out == "row,col,byte,bit\n1,0,144,0\n");
  CHECK(run_line("layout smem --conflicts ldmatrix" + tile).code == 0);
  CHECK(run_line("layout smem --tma none --rows 64 --cols 64 --conflicts stmatrix").code == 1);
  CHECK_THAT(run_line("layout smem --descriptor 0x4000004000013fc0 --rows 8 --cols 16").violations,
             refused(illegal_value, "start_address"));
  CHECK_THAT(run_line("layout smem --descriptor 0x08100010").violations, refused(illegal_value, "word"));
  CHECK(run_line("layout scales --rows 4096 --blocks 256 --row 300 --block 9").out ==
        "row,block,tile,image_byte\n300,9,130,66757\n");
}

TEST_CASE("layout metadata answers in both directions and says whether an order is one-to-one") {
  CHECK(run_line("layout metadata --order sm90 --rows 64 --cols 128 --row 9 --chunk 5").out ==
        "row,chunk,k,byte,bit\n9,5,20,146,4\n");
  CHECK(run_line("layout metadata --order sm90 --rows 64 --cols 128 --byte 146").out ==
        "row,chunk,k,byte,bit\n9,4,16,146,0\n9,5,20,146,4\n");
  CHECK(run_line("layout metadata --check --rows 64").code == 0);
  const auto clash = run_line("layout metadata --check --rows 48 --json");
  CHECK(clash.code == 1);
  CHECK(nlohmann::json::parse(clash.out)["one_to_one"] == false);
  CHECK(run_line("layout tmem --operand metadata --selector 1 --row 17 --col 5").out ==
        "row,chunk,k,cta,lane,column,bit\n17,5,20,0,25,1,4\n");
}

TEST_CASE("layout smem --warp counts the bytes and wavefronts of one access") {
  const auto answer = [](const std::string& flags) {
    const auto ran = run_line("layout smem --rows 64 --cols 64 --json " + flags);
    const auto json = nlohmann::json::parse(ran.out);
    return std::array<int, 4>{json["bytes"].get<int>(), json["requests"].get<int>(), json["wavefronts"].get<int>(),
                              ran.code};
  };
  using Answer = std::array<int, 4>;
  CHECK(answer("--tma 128 --warp ldmatrix.x4 --row 16 --col 32") == Answer{512, 4, 4, 0});
  CHECK(answer("--tma none --box 64 --warp ldmatrix.x4") == Answer{512, 4, 32, 1});
  CHECK(answer("--tma 128 --major mn --warp ldmatrix.x2") == Answer{256, 2, 2, 0});
  CHECK(answer("--tma 128 --warp ld.b128") == Answer{512, 4, 4, 0});
  CHECK(answer("--tma 128 --warp ld.b32 --warp-lines 32") == Answer{128, 1, 4, 1});
  const auto text = run_line("layout smem --rows 64 --cols 64 --tma 128 --warp ld.b32 --warp-lines 32").out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 120);
}

TEST_CASE("layout chain says what agrees, and exits with 1 if the order of k changes") {
  const std::string fp8 = "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 ";
  CHECK(run_line("layout chain " + f16 + " " + f16).code == 0);
  const auto changed = run_line("layout chain --json " + fp8 + fp8);
  CHECK(changed.code == 1);
  CHECK(nlohmann::json::parse(changed.out)["cute"] == "(2,2,4,2):(1,8,2,16)");
  const std::string tcgen05 = "tcgen05.mma.cta_group::1.kind::f16 ";
  CHECK(run_line("layout chain " + tcgen05 + tcgen05 + "--m 64 --n 128").code == 0);
  const std::string stationary = "tcgen05.mma.ws.cta_group::1.kind::f16 ";
  const auto parts = run_line("layout chain --json " + stationary + stationary + "--m 64 --n 64");
  CHECK(parts.code == 1);
  CHECK(nlohmann::json::parse(parts.out)["exchanged"] == 64 * 64);
}
