#include <algorithm>
#include <nlohmann/json.hpp>

#include "bitmma/files/vector_file.hpp"
#include "bitmma/instruction/statement.hpp"
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::f16, test::Outcome, test::run;

namespace {

const std::string w = "golden wgmma.mma_async.sync.aligned.", t = "golden tcgen05.mma.", m = "golden mma.sync.aligned.";

const test::BadRequests bad_requests({
    {"golden", missing_argument, "instruction"},
    {"golden " + f16, missing_argument, "--output"},
    {"golden wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 $OUT", unknown_name, "instruction"},
    {"golden m16n8k16 $OUT", malformed, "instruction"},
    {"golden m64n8k16 $OUT", malformed, "instruction"},
    {"golden tcgen05.ld.sync.aligned.16x64b.x4.b32 --distribution ties $OUT", unread_argument, "--distribution ties"},
    {"golden " + f16 + " --layout-b m-major:128 $OUT", illegal_value, "layout"},
    {"golden dp4a.u32 $OUT", unknown_name, "instruction"},
    {"golden mma.sync $OUT", malformed, "qualifier"},
    {m + "m16n8k32.row.col.f32.f16.f16.f32 $OUT", illegal_value, "shape"},
    {m + "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3 $OUT", illegal_value,
     "scale vector and type"},
    {m + "m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue4m3 $OUT", illegal_value,
     "scale vector and type"},
    {m + "m16n8k32.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 $OUT", illegal_value, "shape"},
    {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e4m3.e2m1.f32.ue8m0 $OUT", illegal_value, "atype"},
    {m + "m16n8k64.col.row.kind::mxf4.block_scale.f32.e4m3.e2m1.f32.ue8m0 $OUT", illegal_value, "layout"},
    {m + "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f16.e4m3.e4m3.f16.ue8m0 $OUT", illegal_value, "dtype"},
    {m + "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0 --byte-id-a 4 $OUT", illegal_value,
     "byte_id_a"},
    {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --byte-id-b 1 $OUT", illegal_value,
     "byte_id_b"},
    {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --thread-id-a 2 $OUT", illegal_value,
     "thread_id_a"},
    {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --layout-b mn-major:none $OUT", illegal_value,
     "--layout-b"},
    {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --scale-d 0 $OUT", no_effect, "--scale-d"},
    {"golden mma.sp.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 $OUT", illegal_value,
     ".sp"},
    {"golden wgmma.sync.aligned.m64n8k16.f32.f16.f16 $OUT", malformed, "instruction"},
    {"golden wgmma.mma_async.aligned.m64n8k16.f32.f16.f16 $OUT", malformed, "qualifier"},
    {"golden wgmma.mma_async.sync.m64n8k16.f32.f16.f16 $OUT", malformed, "qualifier"},
    {w + "f32.f16.f16 $OUT", malformed, "shape"},
    {w + "m64n8.f32.f16.f16 $OUT", malformed, "shape"},
    {w + "m64n8k16x.f32.f16.f16 $OUT", malformed, "shape"},
    {w + "m64n99999999999k16.f32.f16.f16 $OUT", malformed, "shape"},
    {w + "m64n8k16.f32.f16 $OUT", malformed, "btype"},
    {w + "m64n8k16.f64.f16.f16 $OUT", malformed, "dtype"},
    {w + "m64n8k16.f32.f16.f16.relu $OUT", malformed, "qualifier"},
    {w + "m32n8k16.f32.f16.f16 $OUT", illegal_value, "m"},
    {w + "m64n12k16.f32.f16.f16 $OUT", illegal_value, "n"},
    {w + "m64n0k16.f32.f16.f16 $OUT", illegal_value, "n"},
    {w + "m64n264k16.f32.f16.f16 $OUT", illegal_value, "n"},
    {w + "m64n2147483647k16.f32.f16.f16 $OUT", illegal_value, "n"},
    {w + "m64n40k32.s32.s8.s8 $OUT", illegal_value, "n"},
    {w + "m64n8k32.f32.f16.f16 $OUT", illegal_value, "k"},
    {"golden wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.f16.f16 $OUT", illegal_value, "k"},
    {"golden wgmma.mma_async.sp.sync.aligned.m64n8k512.s32.b1.b1.and.popc $OUT", illegal_value, ".sp"},
    {w + "m64n8k16.f16.bf16.bf16 $OUT", illegal_value, "types"},
    {w + "m64n8k16.f32.f16.bf16 $OUT", illegal_value, "types"},
    {w + "m64n8k32.s32.s8.e4m3 $OUT", illegal_value, "types"},
    {w + "m64n8k16.f32.e2m1.e2m1 $OUT", illegal_value, "types"},
    {w + "m64n8k256.s32.b1.b1 $OUT", illegal_value, "operation"},
    {w + "m64n8k256.s32.b1.b1.xor.popc $OUT", illegal_value, "operation"},
    {w + "m64n8k16.f32.f16.f16.satfinite $OUT", illegal_value, ".satfinite"},
    {w + "m64n8k256.s32.b1.b1.and.popc.satfinite $OUT", illegal_value, ".satfinite"},
    {"golden " + f16 + " --imm-scale-a 2 $OUT", illegal_value, "--imm-scale-a"},
    {"golden " + f16 + " --imm-scale-b 0 $OUT", illegal_value, "--imm-scale-b"},
    {w + "m64n8k32.s32.s8.s8 --imm-scale-a -1 $OUT", no_effect, "--imm-scale-a"},
    {w + "m64n8k8.f32.tf32.tf32 --layout-b mn-major:128 $OUT", illegal_value, "imm_trans_b"},
    {"golden " + f16 + " --scale-d 2 $OUT", illegal_value, "--scale-d"},
    {"golden " + f16 + " --sparsity-selector 1 $OUT", no_effect, "--sparsity-selector"},
    {"golden wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e4m3 --sparsity-selector 1 $OUT", illegal_value,
     "sparsity_selector"},
    {"golden " + f16 + " --layout-a row-major:128 $OUT", malformed, "layout"},
    {"golden " + f16 + " --a-source registers --layout-a mn-major:128 $OUT", illegal_value, "--layout-a"},
    {"golden " + f16 + " --m 128 $OUT", no_effect, "--m"},
    {"golden " + f16 + " --a e4m3 $OUT", no_effect, "--a"},
    {m + "m16n8k16.row.col.f32.f16.f16.f32 --layout-a k-major:64 $OUT", illegal_value, "--layout-a"},
    {"golden tcgen05.ld.sync.aligned.16x64b.x4.b32 --layout-a k-major:64 $OUT", illegal_value, "--layout-a"},
    {"golden tcgen05.cp.cta_group::1.32x128b.warpx4 --layout-b k-major:64 $OUT", illegal_value, "--layout-b"},
    {"golden " + f16 + " --layout-a k-major:256 $OUT", malformed, "layout"},
    {"golden " + f16 + " --layout-b k-major $OUT", malformed, "layout"},
    {"golden " + f16 + " --layout-b k-major:128@8 $OUT", malformed, "layout"},
    {"golden " + f16 + " --layout-b k-major:128@x $OUT", malformed, "layout"},
    {"golden " + f16 + " --layout-b k-major:128,lbo=8 $OUT", malformed, "layout"},
    {"golden " + f16 + " --layout-b k-major:128,base=8 $OUT", malformed, "layout"},
    {"golden " + f16 + " --layout-b k-major:128,xbo=16 $OUT", malformed, "layout"},
    {"golden " + f16 + " --layout-a k-major:none,lbo=128,sbo=128 $OUT", contradiction, "strides of A"},
    {"golden tcgen05.ld.sync.aligned.16x64b.x4.b32 --format hex $OUT", illegal_value, "instruction"},
    {"golden " + f16 + " --format vhdl $OUT", unknown_name, "--format"},
    {"golden " + f16 + " --padding 8 $OUT", illegal_value, "padding of A"},
    {"golden " + f16 + " --padding -16 $OUT", illegal_value, "padding of A"},
    {"golden " + f16 + " --padding 65536 $OUT", too_large, "image"},
    {"golden " + f16 + " --cases 0 $OUT", illegal_value, "cases"},
    {"golden " + f16 + " --distribution gauss $OUT", unknown_name, "--distribution"},
    // As other libraries spell it.
    {"golden " + f16 + " --distribution gaussian $OUT", unknown_name, "--distribution"},
    {"golden tcgen05.mma.cta_group::1.kind::f8f6f4 --a torch.float8_e4m3fn $OUT", unknown_name, "--a"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --a cutlass::bfloat16_t $OUT", unknown_name, "--a"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --a F16 $OUT", unknown_name, "--a"},
    {"encode idesc --kind nvfp4 --m 128 --n 64", unknown_name, "--kind"},
    {"golden " + f16 + " --a-source global $OUT", unknown_name, "--a-source"},
    {"golden " + f16 + " --threads -1 $OUT", illegal_value, "--threads"},
    {"golden " + f16 + " -o $FOLDER/no/such/out", unusable_file, "$FOLDER/./no/such/out"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 64 --n 12 $OUT", illegal_value, "n"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 256 --n 16 $OUT", illegal_value, "M"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 64 --n 16 --a e4m3 $OUT", illegal_value, "a_type"},
    {"golden tcgen05.mma.cta_group::1.kind::mxf4 --m 128 --n 16 --a e2m1 --b e2m1 $OUT", malformed, ".block_scale"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 64 --n 16 --a e2m1 --b e2m1 $OUT", illegal_value, "m"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 256 --n 16 --a e2m1 --b e2m1 $OUT", illegal_value, "M"},
    {t + "cta_group::1.kind::mxf4.block_scale.scale_vec::4X --m 128 --n 16 --a e2m1 --b e2m1 $OUT", illegal_value,
     "size of the scale vector"},
    {t + "cta_group::1.kind::mxf4nvf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 $OUT", illegal_value,
     "size of the scale vector"},
    {t + "cta_group::1.kind::f16 --m 128 --n 16 --scale-type ue4m3 $OUT", no_effect, "--scale-type"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --scale-type f16 $OUT", unknown_name, "--scale-type"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --scale-type ue4m3 $OUT", illegal_value,
     "scale_type"},
    {t + "cta_group::1.kind::mxf4nvf4.block_scale.block32 --m 128 --n 16 --a e2m1 --b e2m1 --scale-type ue4m3 --target "
         "sm_100a $OUT",
     unsupported_target, "target"},
    {t + "cta_group::1.kind::mxf4nvf4.block_scale.block16 --m 128 --n 16 --a e2m1 --b e2m1 --scale-a-id 2 $OUT",
     illegal_value, "scale_a_id"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --scale-b-id 1 $OUT", illegal_value,
     "scale_b_id"},
    {t + "cta_group::1.kind::mxf8f6f4.block_scale --m 128 --n 16 --a e4m3 --b e4m3 --scale-b-id 4 $OUT", illegal_value,
     "scale_b_id"},
    {t + "sp.cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --k96 $OUT", illegal_value, "K"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --layout-a mn-major:128 $OUT",
     illegal_value, "transpose"},
    {t + "cta_group::1.kind::f16 --m 128 --n 16 --scale-input-d 16 $OUT", illegal_value, "scale_input_d"},
    {t + "cta_group::1.kind::f8f6f4 --m 128 --n 16 --a e4m3 --b e4m3 --scale-input-d 1 $OUT", no_effect,
     "--scale-input-d"},
    {t + "cta_group::1.kind::f16.ashift --m 128 --n 16 $OUT", illegal_value, ".ashift"},
    {t + "cta_group::1.kind::f16.ashift --m 64 --n 16 --a-source tmem $OUT", illegal_value, ".ashift"},
    {t + "cta_group::1.kind::f16.ashift.collector::a::fill --m 128 --n 16 --a-source tmem $OUT", illegal_value,
     "collector"},
    {t + "cta_group::1.kind::f16 --m 128 --n 64 --zero-column-mask 0 $OUT", no_effect, "--zero-column-mask"},
    {t + "cta_group::1.kind::f16 --m 128 --n 64 --max-shift 1 $OUT", no_effect, "--max-shift"},
    {t + "ws.cta_group::1.kind::f16 --m 128 --n 64 --zero-column-mask 0x0800000000000000 --max-shift 0 $OUT",
     illegal_value, "column_shift"},
    {t + "ws.cta_group::1.kind::f16 --m 32 --n 64 --zero-column-mask 0x1100000000000000 --max-shift 3 $OUT",
     illegal_value, "column_shift"},
    {t + "ws.cta_group::1.kind::f16 --m 32 --n 64 --zero-column-mask 0xC000000000000000 $OUT", illegal_value,
     "reserved bits of the zero-column mask"},
    {t + "ws.cta_group::1.kind::f16 --m 32 --n 64 --zero-column-mask x $OUT", illegal_value, "--zero-column-mask"},
    {t + "ws.sp.cta_group::1.kind::f16 --m 32 --n 256 $OUT", illegal_value, "N"},
    {"golden tcgen05.ld.sync.aligned.16x64b.x3.b32 $OUT", illegal_value, ".num"},
    {"golden tcgen05.ld.sync.aligned.16x256b.x64.b32 $OUT", illegal_value, ".num"},
    {"golden tcgen05.ld.sync.aligned.16x32b.x1.b32 $OUT", malformed, "shape"},
    {"golden tcgen05.ld.16x64b.x1.b32 $OUT", malformed, "qualifier"},
    {"golden tcgen05.st.sync.aligned.16x64b.x1.pack::16b.b32 $OUT", malformed, "qualifier"},
    {"golden tcgen05.ld.sync.aligned.16x32bx2.x1.b32 --half-split-offset 0x200000 $OUT", illegal_value,
     "half-split offset"},
    {"golden tcgen05.cp.cta_group::1.32x128b $OUT", malformed, "shape"},
    {"golden tcgen05.cp.cta_group::1.128x128b.warpx4 $OUT", malformed, "shape"},
    {"golden tcgen05.cp.128x128b $OUT", malformed, "qualifier"},
    {"golden tcgen05.cp.cta_group::1.128x128b.b6x16_p32 $OUT", malformed, "qualifier"},
    {"golden tcgen05.shift.cta_group::1.up $OUT", malformed, "qualifier"},
    {"golden tcgen05.shift.cta_group::1.down --cases 0 $OUT", illegal_value, "cases"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 16 --imm-scale-a 2 $OUT", illegal_value, "--imm-scale-a"},
    {"golden tcgen05.mma.cta_group::1.kind::i8 --m 128 --n 16 --d s32 --a s8 --b s8 --imm-scale-b -1 $OUT",
     illegal_value, "negate"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 16 --a-source registers $OUT", illegal_value, "--a-source"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 16 --d f99 $OUT", unknown_name, "--d"},
    {"golden tcgen05.mma.cta_group::1.kind::tf32 --m 128 --n 16 --a tf32 --b tf32 --layout-b mn-major:128 $OUT",
     illegal_value, "B swizzle"},
    {"golden " + f16 + " --a-source tmem $OUT", illegal_value, "--a-source"},
    {"golden " + f16 + " --layout-a k-major:128-atom32 $OUT", unsupported_target, "swizzle"},
    {"golden wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --target sm_100a $OUT", unsupported_target, "target"},
    {"golden wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --target sm_99 $OUT", unknown_name, "--target"},
    {"golden wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --m 64 $OUT", no_effect, "--m"},
    {"golden wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --thread-id-a 1 $OUT", no_effect, "--thread-id-a"},
    {"golden tcgen05.mma.cta_group::1.kind::i8 --target sm_103a $OUT", unsupported_target, "target"},
    {"golden tcgen05.mma.cta_group::1.kind::mxf4.block_scale --k96 --target sm_100a $OUT", unsupported_target,
     "target"},
    {"golden tcgen05.ld.sync.aligned.16x64b.x4.b32 --scale-d 0 $OUT", no_effect, "--scale-d"},
});

}  // namespace

TEST_CASE("golden refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("golden names the target it computes for: the one asked for, or the first that has the instruction") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("golden.safetensors"), kind = "tcgen05.mma.cta_group::1.kind::";
  struct Row {
    std::vector<std::string> arguments;
    Target target;
  };
  const std::vector<Row> rows = {
      {{f16}, Target::sm_90a},
      {{kind + "f16"}, Target::sm_100a},
      {{kind + "f16", "--target", "sm_103a"}, Target::sm_103a},
      {{kind + "mxf4.block_scale", "--k96"}, Target::sm_103a},
      {{"tcgen05.shift.cta_group::1.down"}, Target::sm_100a},
  };
  for (const Row& row : rows) {
    std::vector<std::string> arguments = {"golden", "--cases", "1", "-o", path};
    arguments.insert(arguments.end(), row.arguments.begin(), row.arguments.end());
    const Outcome outcome = run(arguments);
    INFO(row.arguments.front() << "\n" << outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK_THAT(outcome.err, ContainsSubstring(": 1 case of " + row.arguments.front() + ", target " +
                                              std::string(print(row.target)) + ", seed 0"));
    CHECK(read_vector_file(path).target == row.target);
  }
}

TEST_CASE("golden takes shape and types of tcgen05 from the kind where no flag says them") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("golden.safetensors");
  REQUIRE(run({"golden", "tcgen05.mma.cta_group::2.kind::i8", "--cases", "1", "-o", path}).code == 0);
  const Mma mma = mma_of(read_vector_file(path).instruction);
  CHECK(mma.m == 256);
  CHECK(mma.n == 64);
  CHECK(mma.d == Format::s32);
  CHECK(mma.a == Format::s8);
}

TEST_CASE("golden lays out with the strides and the base offset that it is given") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "1", "-o", path, "--layout-a", "k-major:none,lbo=1024,sbo=128", "--layout-b",
               "k-major:128,base=1"})
              .code == 0);
  const std::string shown = run({"simulate", path}).out;
  CHECK_THAT(shown, ContainsSubstring("a_desc 0x0000000800400000") && ContainsSubstring("match the recorded D") &&
                        !ContainsSubstring("warning: tensor"));
}

TEST_CASE("cases as text: each output with its operands, the same numbers in every format") {
  const test::TemporaryFolder folder;
  const auto text = [&](const std::string& format) {
    const std::string path = folder.path("x." + format);
    REQUIRE(run({"golden", f16, "--cases", "2", "--seed", "5", "--format", format, "-o", path}).code == 0);
    return test::read_text(path);
  };
  const std::string hex = text("hex"), csv = text("csv"), jsonl = text("jsonl");
  const auto lines = [](const std::string& all) { return std::count(all.begin(), all.end(), '\n'); };
  CHECK(lines(hex) == 1 + 2 * (1 + 512));
  CHECK(lines(csv) == 1 + 2 * 512);
  CHECK(lines(jsonl) == 2 * 512);
  CHECK(hex.starts_with(
      "// " + f16 +
      ", sm_90a: a 16 f16 of 16 bits, b 16 f16 of 16 bits, c f32 of 32 bits, d f32 of 32 bits\n// case 0\n"));
  CHECK(csv.starts_with("case,row,col,a0,a1,"));
  const auto first = nlohmann::json::parse(jsonl.substr(0, jsonl.find('\n')));
  CHECK(first["a"].size() == 16);
  std::string as_hex;
  for (const char* name : {"a", "b"}) {
    for (const auto& code : first[name]) as_hex += code.get<std::string>().substr(2) + " ";
  }
  as_hex += first["c"].get<std::string>().substr(2) + " " + first["d"].get<std::string>().substr(2) + "\n";
  CHECK(hex.find("// case 0\n" + as_hex) != std::string::npos);
  // A C that is not read has no code.
  const std::string without = folder.path("without");
  REQUIRE(run({"golden", f16, "--cases", "1", "--scale-d", "0", "--format", "csv", "-o", without}).code == 0);
  CHECK(test::read_text(without).find(",,0x") != std::string::npos);
  // A file gives the same as the seed.
  const std::string file = folder.path("x.safetensors");
  REQUIRE(run({"golden", f16, "--cases", "2", "--seed", "5", "-o", file}).code == 0);
  CHECK(run({"simulate", file, "--format", "csv"}).out == csv);
}

TEST_CASE("an odd scale id at K = 96 is warned about in words of its own mnemonic") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  for (const auto& [id, warned] : {std::pair("1", true), {"2", false}}) {
    const auto made = run({"golden", "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::2X", "--k", "96",
                           "--scale-a-id", id, "--cases", "1", "-o", path});
    REQUIRE(made.code == 0);
    for (const std::string& err : {made.err, run({"simulate", path}).err}) {
      CHECK((err.find("scale_a_id, scale_b_id = 1, 0") != std::string::npos) == warned);
      CHECK(err.find("4X or .block16") == std::string::npos);
    }
    const auto findings = nlohmann::json::parse(run({"simulate", path, "--lint", "--json"}).out);
    CHECK(std::ranges::any_of(findings, [](const auto& finding) { return finding["code"] == "odd_scale_id"; }) ==
          warned);
  }
}

TEST_CASE("B has A's type where --b does not say another, as the help states") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("types.safetensors");
  for (const auto& [kind, type] : {std::pair("f16", "bf16"), std::pair("f8f6f4", "e5m2"), std::pair("i8", "u8")}) {
    INFO(kind);
    REQUIRE(run({"golden", fmt::format("tcgen05.mma.cta_group::1.kind::{}", kind), "--m", "128", "--n", "16", "--a",
                 type, "--cases", "1", "-o", path})
                .code == 0);
    const Mma mma = mma_of(read_vector_file(path).instruction);
    CHECK(info(mma.a).name == type);
    CHECK(mma.b == mma.a);
    const std::vector<std::string> idesc{"encode", "idesc", "--kind", kind, "--m", "128", "--n", "16", "--a", type};
    std::vector<std::string> both = idesc;
    both.insert(both.end(), {"--b", type});
    CHECK(run(idesc).out == run(both).out);
  }
}
