#include <algorithm>
#include <nlohmann/json.hpp>

#include "bitmma/files/vector_file.hpp"
#include "bitmma/instruction/statement.hpp"
#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::f16, test::Outcome, test::run;

namespace {

const std::string w = "golden wgmma.mma_async.sync.aligned.", t = "golden tcgen05.mma.", m = "golden mma.sync.aligned.";

const test::BadRequests bad_requests({
    {"golden", "instruction: missing; expected PTX mnemonic"},
    {"golden " + f16, "--output: missing"},
    {"golden wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 $OUT", "instruction = wmma: must be mma.sync"},
    {"golden m16n8k16 $OUT", "a whole mnemonic: this is a shape of mma.sync"},
    {"golden m64n8k16 $OUT", "a whole mnemonic: this is a shape of wgmma"},
    {"golden tcgen05.ld.sync.aligned.16x64b.x4.b32 --distribution ties $OUT",
     "--distribution ties: has no effect here"},
    {"golden " + f16 + " --layout-b m-major:128 $OUT", "layout = m-major:128: must be k-major or n-major"},
    {"golden dp4a.u32 $OUT", "begins with wgmma.mma_async, tcgen05.mma or mma.sync"},
    {"golden mma.sync $OUT", ".aligned here"},
    {m + "m16n8k32.row.col.f32.f16.f16.f32 $OUT", "shape = m16n8k32: must be m8n8k4, m16n8k8, m16n8k16"},
    {m + "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3 $OUT",
     "must be .scale_vec::2X with ue8m0, .scale_vec::4X with ue4m3"},
    {m + "m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue4m3 $OUT", "(none) with ue4m3"},
    {m + "m16n8k32.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 $OUT", "shape = m16n8k32: must be m16n8k64"},
    {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e4m3.e2m1.f32.ue8m0 $OUT", "atype = e4m3: must be e2m1"},
    {m + "m16n8k64.col.row.kind::mxf4.block_scale.f32.e4m3.e2m1.f32.ue8m0 $OUT", "layout = .col.row: must be .row.col"},
    {m + "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f16.e4m3.e4m3.f16.ue8m0 $OUT", "dtype = f16: must be f32"},
    {m + "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0 --byte-id-a 4 $OUT",
     "byte_id_a = 4: must be 0..3"},
    {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --byte-id-b 1 $OUT",
     "byte_id_b = 1: must be 0 or 2"},
    {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --thread-id-a 2 $OUT",
     "thread_id_a = 2: must be 0..1"},
    {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --layout-b mn-major:none $OUT",
     "--layout-b = mn-major:none: must be absent; A and B are in registers"},
    {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --scale-d 0 $OUT",
     "--scale-d = 0: must be absent"},
    {"golden mma.sp.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 $OUT",
     ".sp = .sp: must be .sp::ordered_metadata"},
    {"golden wgmma.sync.aligned.m64n8k16.f32.f16.f16 $OUT", ".mma_async after wgmma"},
    {"golden wgmma.mma_async.aligned.m64n8k16.f32.f16.f16 $OUT", ".sync here"},
    {"golden wgmma.mma_async.sync.m64n8k16.f32.f16.f16 $OUT", ".aligned here"},
    {w + "f32.f16.f16 $OUT", "shape = f32"},
    {w + "m64n8.f32.f16.f16 $OUT", "shape = m64n8"},
    {w + "m64n8k16x.f32.f16.f16 $OUT", "shape = m64n8k16x"},
    {w + "m64n99999999999k16.f32.f16.f16 $OUT", "shape = "},
    {w + "m64n8k16.f32.f16 $OUT", "btype = (nothing)"},
    {w + "m64n8k16.f64.f16.f16 $OUT", "dtype = f64"},
    {w + "m64n8k16.f32.f16.f16.relu $OUT", "qualifier = relu"},
    {w + "m32n8k16.f32.f16.f16 $OUT", "m = 32: must be 64"},
    {w + "m64n12k16.f32.f16.f16 $OUT", "use n = 16 and zero the extra columns of B"},
    {w + "m64n0k16.f32.f16.f16 $OUT", "n = 0: must be 8..256 in steps of 8"},
    {w + "m64n264k16.f32.f16.f16 $OUT", "split the tile"},
    {w + "m64n2147483647k16.f32.f16.f16 $OUT", "n = 2147483647"},
    {w + "m64n40k32.s32.s8.s8 $OUT", "use n = 48"},
    {w + "m64n8k32.f32.f16.f16 $OUT", "k = 32: must be 16"},
    {"golden wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.f16.f16 $OUT", "k = 16: must be 32"},
    {"golden wgmma.mma_async.sp.sync.aligned.m64n8k512.s32.b1.b1.and.popc $OUT", "no sparse form for .b1"},
    {w + "m64n8k16.f16.bf16.bf16 $OUT", "types = .f16.bf16.bf16: must be .f32.bf16.bf16"},
    {w + "m64n8k16.f32.f16.bf16 $OUT", "types = .f32.f16.bf16"},
    {w + "m64n8k32.s32.s8.e4m3 $OUT", "types = .s32.s8.e4m3"},
    {w + "m64n8k16.f32.e2m1.e2m1 $OUT", "types = .f32.e2m1.e2m1"},
    {w + "m64n8k256.s32.b1.b1 $OUT", "operation = (none): must be .and.popc"},
    {w + "m64n8k256.s32.b1.b1.xor.popc $OUT", "operation = .xor.popc"},
    {w + "m64n8k16.f32.f16.f16.satfinite $OUT", ".satfinite = present"},
    {w + "m64n8k256.s32.b1.b1.and.popc.satfinite $OUT", ".satfinite = present"},
    {"golden " + f16 + " --imm-scale-a 2 $OUT", "--imm-scale-a = 2: must be 1 or -1"},
    {"golden " + f16 + " --imm-scale-b 0 $OUT", "--imm-scale-b = 0"},
    {w + "m64n8k32.s32.s8.s8 --imm-scale-a -1 $OUT", "--imm-scale-a = -1: must be absent"},
    {w + "m64n8k8.f32.tf32.tf32 --layout-b mn-major:128 $OUT", "these types are K-major only"},
    {"golden " + f16 + " --scale-d 2 $OUT", "--scale-d = 2: must be 0, 1, false or true"},
    {"golden " + f16 + " --sparsity-selector 1 $OUT", "--sparsity-selector = 1: must be absent"},
    {"golden wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e4m3 --sparsity-selector 1 $OUT", "0 for 8-bit types"},
    {"golden " + f16 + " --layout-a row-major:128 $OUT", "layout = row-major:128"},
    {"golden " + f16 + " --a-source registers --layout-a mn-major:128 $OUT",
     "--layout-a = mn-major:128: must be absent; A is in registers"},
    {"golden " + f16 + " --m 128 $OUT", "--m = 128: must be absent"},
    {"golden " + f16 + " --a e4m3 $OUT", "--a = e4m3: must be absent"},
    {m + "m16n8k16.row.col.f32.f16.f16.f32 --layout-a k-major:64 $OUT", "A and B are in registers"},
    {"golden tcgen05.ld.sync.aligned.16x64b.x4.b32 --layout-a k-major:64 $OUT", "reads no shared memory"},
    {"golden tcgen05.cp.cta_group::1.32x128b.warpx4 --layout-b k-major:64 $OUT",
     "only one source, whose place --layout-a sets"},
    {"golden " + f16 + " --layout-a k-major:256 $OUT", "layout = k-major:256"},
    {"golden " + f16 + " --layout-b k-major $OUT", "layout = k-major"},
    {"golden " + f16 + " --layout-b k-major:128@8 $OUT", "layout = k-major:128@8"},
    {"golden " + f16 + " --layout-b k-major:128@x $OUT", "layout = k-major:128@x"},
    {"golden " + f16 + " --layout-b k-major:128,lbo=8 $OUT", "layout = k-major:128,lbo=8"},
    {"golden " + f16 + " --layout-b k-major:128,base=8 $OUT", "layout = k-major:128,base=8"},
    {"golden " + f16 + " --layout-b k-major:128,xbo=16 $OUT", "layout = k-major:128,xbo=16"},
    {"golden " + f16 + " --layout-a k-major:none,lbo=128,sbo=128 $OUT",
     "strides of A = LBO 128, SBO 128: (0, 8) and (8, 0) both in byte 128: must be strides for which no elements "
     "overlap"},
    {"golden tcgen05.ld.sync.aligned.16x64b.x4.b32 --format hex $OUT",
     "instructions that move data compute no outputs"},
    {"golden " + f16 + " --format vhdl $OUT", "--format = vhdl: must be hex, csv or jsonl"},
    {"golden " + f16 + " --padding 8 $OUT", "padding of A = 8"},
    {"golden " + f16 + " --padding -16 $OUT", "padding of A = -16"},
    {"golden " + f16 + " --padding 65536 $OUT", "the reach of a descriptor"},
    {"golden " + f16 + " --cases 0 $OUT", "cases = 0: must be at least 1"},
    {"golden " + f16 + " --distribution gauss $OUT", "--distribution = gauss"},
    // As other libraries spell it.
    {"golden " + f16 + " --distribution gaussian $OUT", "did you mean normal?"},
    {"golden tcgen05.mma.cta_group::1.kind::f8f6f4 --a torch.float8_e4m3fn $OUT", "did you mean e4m3?"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --a cutlass::bfloat16_t $OUT", "did you mean bf16?"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --a F16 $OUT", "did you mean f16?"},
    {"encode idesc --kind nvfp4 --m 128 --n 64", "did you mean mxf4nvf4?"},
    {"golden " + f16 + " --a-source global $OUT", "global"},
    {"golden " + f16 + " --threads -1 $OUT", "--threads"},
    {"golden " + f16 + " -o $FOLDER/no/such/out", "its folder does not exist"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 64 --n 12 $OUT", "n = 12"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 256 --n 16 $OUT", "M = 256: must be 64 or 128 with cta_group::1"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 64 --n 16 --a e4m3 $OUT", "a_type = e4m3: must be f16 0, bf16 1"},
    {"golden tcgen05.mma.cta_group::1.kind::mxf4 --m 128 --n 16 --a e2m1 --b e2m1 $OUT",
     "kind::mxf4 always has scales"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 64 --n 16 --a e2m1 --b e2m1 $OUT", "m = 64: must be 128 or 256"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 256 --n 16 --a e2m1 --b e2m1 $OUT",
     "M = 256: must be 128 with cta_group::1 and block scales"},
    {t + "cta_group::1.kind::mxf4.block_scale.scale_vec::4X --m 128 --n 16 --a e2m1 --b e2m1 $OUT",
     "must be .scale_vec::2X, .block32 or nothing"},
    {t + "cta_group::1.kind::mxf4nvf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 $OUT", "it must be written"},
    {t + "cta_group::1.kind::f16 --m 128 --n 16 --scale-type ue4m3 $OUT", "--scale-type = ue4m3: must be absent"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --scale-type f16 $OUT",
     "--scale-type = f16: must be ue8m0, ue4m3 or ue5m3"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --scale-type ue4m3 $OUT",
     "scale_type = ue4m3: must be ue8m0 (1)"},
    {t + "cta_group::1.kind::mxf4nvf4.block_scale.block32 --m 128 --n 16 --a e2m1 --b e2m1 --scale-type ue4m3 --target "
         "sm_100a $OUT",
     "a scale of ue4m3 for every 32 exists only there"},
    {t + "cta_group::1.kind::mxf4nvf4.block_scale.block16 --m 128 --n 16 --a e2m1 --b e2m1 --scale-a-id 2 $OUT",
     "scale_a_id = 2: must be 0 with four scales"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --scale-b-id 1 $OUT",
     "scale_b_id = 1: must be 0 or 2"},
    {t + "cta_group::1.kind::mxf8f6f4.block_scale --m 128 --n 16 --a e4m3 --b e4m3 --scale-b-id 4 $OUT",
     "scale_b_id = 4: must be 0..3"},
    {t + "sp.cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --k96 $OUT",
     "K = 96: must be 128 or 192"},
    {t + "cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --layout-a mn-major:128 $OUT",
     "transpose = 1"},
    {t + "cta_group::1.kind::f16 --m 128 --n 16 --scale-input-d 16 $OUT", "scale_input_d = 16: must be 0..15"},
    {t + "cta_group::1.kind::f8f6f4 --m 128 --n 16 --a e4m3 --b e4m3 --scale-input-d 1 $OUT",
     "kind::f8f6f4 has none (kind::f16 and tf32: adds to D"},
    {t + "cta_group::1.kind::f16.ashift --m 128 --n 16 $OUT",
     ".ashift = present: must be absent unless A is in Tensor Memory"},
    {t + "cta_group::1.kind::f16.ashift --m 64 --n 16 --a-source tmem $OUT", "M = 128 or 256"},
    {t + "cta_group::1.kind::f16.ashift.collector::a::fill --m 128 --n 16 --a-source tmem $OUT",
     "lastuse, discard or none with .ashift"},
    {t + "cta_group::1.kind::f16 --m 128 --n 64 --zero-column-mask 0 $OUT", "absent without .ws"},
    {t + "cta_group::1.kind::f16 --m 128 --n 64 --max-shift 1 $OUT", "has none (.ws: code of the largest shift of B"},
    {t + "ws.cta_group::1.kind::f16 --m 128 --n 64 --zero-column-mask 0x0800000000000000 --max-shift 0 $OUT",
     "column_shift = 8: must be 0..0"},
    {t + "ws.cta_group::1.kind::f16 --m 32 --n 64 --zero-column-mask 0x1100000000000000 --max-shift 3 $OUT",
     "column_shift = 17: must be 0..16"},
    {t + "ws.cta_group::1.kind::f16 --m 32 --n 64 --zero-column-mask 0xC000000000000000 $OUT",
     "reserved bits of the zero-column mask"},
    {t + "ws.cta_group::1.kind::f16 --m 32 --n 64 --zero-column-mask x $OUT", "encode mask"},
    {t + "ws.sp.cta_group::1.kind::f16 --m 32 --n 256 $OUT", "N = 256: must be 64 or 128"},
    {"golden tcgen05.ld.sync.aligned.16x64b.x3.b32 $OUT", ".num = x3: must be a power of two"},
    {"golden tcgen05.ld.sync.aligned.16x256b.x64.b32 $OUT", "x1..x32 for 16x256b"},
    {"golden tcgen05.ld.sync.aligned.16x32b.x1.b32 $OUT", "shape = 16x32b"},
    {"golden tcgen05.ld.16x64b.x1.b32 $OUT", ".sync.aligned after the name"},
    {"golden tcgen05.st.sync.aligned.16x64b.x1.pack::16b.b32 $OUT", "{.unpack::16b}.b32 at the end"},
    {"golden tcgen05.ld.sync.aligned.16x32bx2.x1.b32 --half-split-offset 0x200000 $OUT",
     "half-split offset = 0x200000: must be lanes of the same warp"},
    {"golden tcgen05.cp.cta_group::1.32x128b $OUT", "32x128b.warpx4"},
    {"golden tcgen05.cp.cta_group::1.128x128b.warpx4 $OUT", "shape = .128x128b.warpx4"},
    {"golden tcgen05.cp.128x128b $OUT", "it is mandatory"},
    {"golden tcgen05.cp.cta_group::1.128x128b.b6x16_p32 $OUT", "nothing, .b8x16.b4x16_p64"},
    {"golden tcgen05.shift.cta_group::1.up $OUT", ".cta_group::1.down or"},
    {"golden tcgen05.shift.cta_group::1.down --cases 0 $OUT", "cases = 0"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 16 --imm-scale-a 2 $OUT",
     "--imm-scale-a = 2: must be 1 or -1"},
    {"golden tcgen05.mma.cta_group::1.kind::i8 --m 128 --n 16 --d s32 --a s8 --b s8 --imm-scale-b -1 $OUT",
     "negate = 1"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 16 --a-source registers $OUT",
     "smem or tmem for tcgen05.mma"},
    {"golden tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 16 --d f99 $OUT", "--d = f99"},
    {"golden tcgen05.mma.cta_group::1.kind::tf32 --m 128 --n 16 --a tf32 --b tf32 --layout-b mn-major:128 $OUT",
     "128-atom32 (code 1)"},
    {"golden " + f16 + " --a-source tmem $OUT", "smem or registers for wgmma"},
    {"golden " + f16 + " --layout-a k-major:128-atom32 $OUT", "exists only on sm_100a"},
    {"golden wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --target sm_100a $OUT",
     "target = sm_100a: must be sm_90a"},
    {"golden wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --target sm_99 $OUT", "--target = sm_99: must be sm_70"},
    {"golden wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --m 64 $OUT", "--m = 64: must be absent"},
    {"golden wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --thread-id-a 1 $OUT", "has none"},
    {"golden tcgen05.mma.cta_group::1.kind::i8 --target sm_103a $OUT", "target = sm_103a: must be sm_100a"},
    {"golden tcgen05.mma.cta_group::1.kind::mxf4.block_scale --k96 --target sm_100a $OUT",
     "target = sm_100a: must be sm_103a"},
    {"golden tcgen05.ld.sync.aligned.16x64b.x4.b32 --scale-d 0 $OUT", "--scale-d = 0: must be absent"},
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
