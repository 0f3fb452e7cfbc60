#include "cli.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/mma_sync.hpp"
#include "bitmma/instruction/tcgen05.hpp"
#include "bitmma/instruction/tmem_move.hpp"
#include "bitmma/io/tensor_file.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

struct Outcome {
  int code = 0;
  std::string out, err;
};

Outcome run(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const int code = cli::run(arguments, {.out = out, .err = err});
  return {code, out.str(), err.str()};
}

Outcome run_line(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> arguments;
  for (std::string word; stream >> word;) arguments.push_back(word);
  return run(arguments);
}

const std::string f16 = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16";
const std::string one_golden = test::source_path("data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors");

}  // namespace

TEST_CASE("bad requests: message and exit code of each") {
  const test::TemporaryFolder folder;
  const std::string out = " -o " + folder.path("out");
  const std::string w = "golden wgmma.mma_async.sync.aligned.", t = "golden tcgen05.mma.",
                    m = "golden mma.sync.aligned.";
  struct Row {
    std::string line, message;
  };
  const std::vector<Row> rows = {
      {"", "subcommand"},
      {"frobnicate", "frobnicate"},
      {"verify", "paths is required"},
      {"verify --frobnicate x", "--frobnicate"},
      {"simulate", "files is required"},
      {"compare one", "actual is required"},
      {"golden", "instruction is required"},
      {"golden " + f16, "--output is required"},
      {"layout", "subcommand"},
      {"encode", "subcommand"},
      {"golden dp4a.u32" + out, "begins with wgmma.mma_async, tcgen05.mma or mma.sync"},
      {"golden mma.sync" + out, ".aligned here"},
      {m + "m16n8k16.row.col.f32.f16.f16.f32" + out, "only the block-scaled mma.sync is simulated"},
      {m + "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0" + out,
       "legal is .scale_vec::2X with ue8m0, .scale_vec::4X with ue4m3"},
      {m + "m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue4m3" + out, "(none) with ue4m3"},
      {m + "m16n8k32.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0" + out,
       "shape = m16n8k32: legal is m16n8k64"},
      {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e4m3.e2m1.f32.ue8m0" + out, "atype = e4m3: legal is e2m1"},
      {m + "m16n8k64.col.row.kind::mxf4.block_scale.f32.e4m3.e2m1.f32.ue8m0" + out, "A row-major, B column-major"},
      {m + "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f16.e4m3.e4m3.f16.ue8m0" + out, "dtype = f16: legal is f32"},
      {m + "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0 --byte-id-a 4" + out,
       "byte_id_a = 4: legal is 0..3"},
      {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --byte-id-b 1" + out,
       "byte_id_b = 1: legal is 0 or 2"},
      {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --thread-id-a 2" + out,
       "thread_id_a = 2: legal is 0..1"},
      {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --layout-b mn-major:none" + out,
       ".row.col only"},
      {m + "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 --scale-d 0" + out, "C is always read"},
      {"golden mma.sp.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0" + out,
       "qualifier"},
      {"golden wgmma.sync.aligned.m64n8k16.f32.f16.f16" + out, ".mma_async after wgmma"},
      {"golden wgmma.mma_async.aligned.m64n8k16.f32.f16.f16" + out, ".sync here"},
      {"golden wgmma.mma_async.sync.m64n8k16.f32.f16.f16" + out, ".aligned here"},
      {w + "f32.f16.f16" + out, "shape = f32"},
      {w + "m64n8.f32.f16.f16" + out, "shape = m64n8"},
      {w + "m64n8k16x.f32.f16.f16" + out, "shape = m64n8k16x"},
      {w + "m64n99999999999k16.f32.f16.f16" + out, "shape = "},
      {w + "m64n8k16.f32.f16" + out, "btype = (nothing)"},
      {w + "m64n8k16.f64.f16.f16" + out, "dtype = f64"},
      {w + "m64n8k16.f32.f16.f16.relu" + out, "qualifier = relu"},
      {w + "m32n8k16.f32.f16.f16" + out, "m = 32: legal is 64"},
      {w + "m64n12k16.f32.f16.f16" + out, "use n = 16 and zero the extra columns of B"},
      {w + "m64n0k16.f32.f16.f16" + out, "n = 0: legal is 8..256 in steps of 8"},
      {w + "m64n264k16.f32.f16.f16" + out, "split the tile"},
      {w + "m64n2147483647k16.f32.f16.f16" + out, "n = 2147483647"},
      {w + "m64n40k32.s32.s8.s8" + out, "use n = 48"},
      {w + "m64n8k32.f32.f16.f16" + out, "k = 32: legal is 16"},
      {"golden wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.f16.f16" + out, "k = 16: legal is 32"},
      {"golden wgmma.mma_async.sp.sync.aligned.m64n8k512.s32.b1.b1.and.popc" + out, "no sparse form for .b1"},
      {w + "m64n8k16.f16.bf16.bf16" + out, "types = .f16.bf16.bf16: legal is .f32.bf16.bf16"},
      {w + "m64n8k16.f32.f16.bf16" + out, "types = .f32.f16.bf16"},
      {w + "m64n8k32.s32.s8.e4m3" + out, "types = .s32.s8.e4m3"},
      {w + "m64n8k16.f32.e2m1.e2m1" + out, "types = .f32.e2m1.e2m1"},
      {w + "m64n8k256.s32.b1.b1" + out, "operation = (none): legal is .and.popc"},
      {w + "m64n8k256.s32.b1.b1.xor.popc" + out, "operation = .xor.popc"},
      {w + "m64n8k16.f32.f16.f16.satfinite" + out, ".satfinite = present"},
      {w + "m64n8k256.s32.b1.b1.and.popc.satfinite" + out, ".satfinite = present"},
      {"golden " + f16 + " --imm-scale-a 2" + out, "imm_scale_a = 2: legal is 1 or -1"},
      {"golden " + f16 + " --imm-scale-b 0" + out, "imm_scale_b = 0"},
      {w + "m64n8k32.s32.s8.s8 --imm-scale-a -1" + out, "these types have no such immediate"},
      {w + "m64n8k8.f32.tf32.tf32 --layout-b mn-major:128" + out, "these types are K-major only"},
      {"golden " + f16 + " --scale-d 2" + out, "scale_d = 2"},
      {"golden " + f16 + " --sparsity-selector 1" + out, "sparsity_selector = 1: legal is 0 without .sp"},
      {"golden wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e4m3 --sparsity-selector 1" + out,
       "0 for 8-bit types"},
      {"golden " + f16 + " --layout-a row-major:128" + out, "layout = row-major:128"},
      {"golden " + f16 + " --layout-a k-major:256" + out, "layout = k-major:256"},
      {"golden " + f16 + " --layout-b k-major" + out, "layout = k-major"},
      {"golden " + f16 + " --layout-b k-major:128@8" + out, "layout = k-major:128@8"},
      {"golden " + f16 + " --layout-b k-major:128@x" + out, "layout = k-major:128@x"},
      {"diagnose", "expected is required"},
      {"diagnose " + one_golden + " " + test::golden_files().front(), "both files must be of one instruction"},
      {"diagnose " + folder.path("absent"), "No such file"},
      {"explain " + one_golden + " --row 64", "64, 0: legal is 0..63"},
      {"explain " + one_golden + " --case -1", "--case = -1: legal is 0..1"},
      {"layout --cute (8,8):(8)", "different form"},
      {"layout --cute (8,8):(8,1) --element-bits 12", "--element-bits = 12"},
      {"layout --cute (8,8):(8,1) --descriptor nonsense", "--descriptor = nonsense"},
      {"layout --cute (8,8):(8,1) --svg " + folder.path("no/such/picture.svg"), "its folder does not exist"},
      {"layout scales --rows 257", "1..256: what one instruction reads"},
      {"layout scales --blocks 9", "--blocks = 9"},
      {"layout scales --row 3", "both or none"},
      {"layout scales --id 4", "--id = 4"},
      {"layout scales --address 0x1000a0", "scale_A lane = 16: legal is 0"},
      {"layout scales --pack " + one_golden + out, "bytes of the row-major matrix"},
      {"layout scales --pack " + one_golden, "-o = (missing)"},
      {"layout scales --pack x --unpack y" + out, "one of them"},
      {"layout scales --unpack " + folder.path("absent") + out, "No such file"},
      {"golden " + f16 + " --padding 8" + out, "padding of A = 8"},
      {"golden " + f16 + " --padding -16" + out, "padding of A = -16"},
      {"golden " + f16 + " --padding 65536" + out, "the reach of a descriptor"},
      {"golden " + f16 + " --cases 0" + out, "cases = 0: legal is at least 1"},
      {"golden " + f16 + " --distribution gauss" + out, "--distribution = gauss"},
      {"golden " + f16 + " --a-source global" + out, "global"},
      {"golden " + f16 + " --threads 0" + out, "--threads"},
      {"golden " + f16 + " -o " + folder.path("no/such/out"), "its folder does not exist"},
      {"verify " + folder.path("absent"), "No such file"},
      {"verify " + folder.path("."), "a folder without vector files"},
      {"simulate " + one_golden + " --case 2", "--case = 2: legal is 0..1"},
      {"simulate " + one_golden + " " + one_golden + " -o " + folder.path("f"), "an existing folder"},
      {"simulate " + one_golden + " -o " + folder.path("no/such/out"), "its folder does not exist"},
      {"compare " + one_golden + " " + test::golden_files().front(), "compare files of one instruction"},
      {"decode 0xZZ", "descriptor = 0xZZ"},
      {"decode 0x10000000000000000", "a 64-bit number"},
      {"decode 0x6000000000000000 --arch sm_100a", "swizzle of descriptor 0x6000000000000000 = 3"},
      {"decode 0x0 --arch sm_80", "--arch = sm_80"},
      {"decode 0x0 --major m", "--major"},
      {"decode wgmma.mma_async.sync.aligned.m64n9k16.f32.f16.f16", "n = 9"},
      {"encode descriptor --start 8", "start_address = 8"},
      {"encode descriptor --lbo 262144", "leading_dim_byte_offset = 262144"},
      {"encode descriptor --base-offset 8", "base_offset = 8"},
      {"encode descriptor --swizzle 256", "--swizzle = 256"},
      {"encode descriptor --swizzle 128-atom32", "exists on sm_100a only"},
      {"encode instruction --n 8 --d f33", "--d = f33"},
      {"encode instruction --n 8 --a s8", "types = .f32.s8.f16"},
      {"layout smem --descriptor zero", "--descriptor = zero"},
      {"layout smem --descriptor -1", "--descriptor"},
      {"layout smem --descriptor 0x0 --element-bits 6", "--element-bits = 6"},
      {"layout smem --descriptor 0x0 --rows 0", "--rows = 0"},
      {"layout smem --descriptor 0x0 --row 3", "both --row and --col"},
      {"layout smem --descriptor 0x0 --row 8 --col 0", "0..7, 0..15"},
      {"layout fragment --instruction " + f16 + " --operand b", "--operand"},
      {"layout fragment --instruction " + f16 + " --operand metadata", "the instruction is not sparse"},
      {"layout fragment --instruction " + f16 + " --thread 128 --register 0", "0..127, 0..3, 0..31"},
      {"golden tcgen05.mma.cta_group::1.kind::f16 --m 64 --n 12" + out, "n = 12"},
      {"golden tcgen05.mma.cta_group::1.kind::f16 --m 256 --n 16" + out,
       "M = 256: legal is 64 or 128 with cta_group::1"},
      {"golden tcgen05.mma.cta_group::1.kind::f16 --m 64 --n 16 --a e4m3" + out,
       "a_type = e4m3: legal is f16 0, bf16 1"},
      {"golden tcgen05.mma.cta_group::1.kind::mxf4 --m 128 --n 16 --a e2m1 --b e2m1" + out,
       "kind::mxf4 always has scales"},
      {t + "cta_group::1.kind::mxf4.block_scale --m 64 --n 16 --a e2m1 --b e2m1" + out, "m = 64: legal is 128 or 256"},
      {t + "cta_group::1.kind::mxf4.block_scale --m 256 --n 16 --a e2m1 --b e2m1" + out,
       "M = 256: legal is 128 with cta_group::1 and block scales"},
      {t + "cta_group::1.kind::mxf4.block_scale.scale_vec::4X --m 128 --n 16 --a e2m1 --b e2m1" + out,
       "legal is .scale_vec::2X, .block32 or nothing"},
      {t + "cta_group::1.kind::mxf4nvf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1" + out, "it must be written"},
      {t + "cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --scale-type ue4m3" + out,
       "scale_type = ue4m3: legal is ue8m0 (1)"},
      {t + "cta_group::1.kind::mxf4nvf4.block_scale.block32 --m 128 --n 16 --a e2m1 --b e2m1 --scale-type ue4m3" + out,
       "scale type = ue4m3: legal is ue8m0; ue4m3 goes with mxf4nvf4"},
      {t + "cta_group::1.kind::mxf4nvf4.block_scale.block16 --m 128 --n 16 --a e2m1 --b e2m1 --scale-a-id 2" + out,
       "scale_a_id = 2: legal is 0 with four scales"},
      {t + "cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --scale-b-id 1" + out,
       "scale_b_id = 1: legal is 0 or 2"},
      {t + "cta_group::1.kind::mxf8f6f4.block_scale --m 128 --n 16 --a e4m3 --b e4m3 --scale-b-id 4" + out,
       "scale_b_id = 4: legal is 0..3"},
      {t + "sp.cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --k96" + out,
       "k_96 = 1 with sparse"},
      {t + "cta_group::1.kind::mxf4.block_scale --m 128 --n 16 --a e2m1 --b e2m1 --layout-a mn-major:128" + out,
       "transpose = 1"},
      {t + "cta_group::1.kind::f16 --m 128 --n 16 --scale-input-d 16" + out, "scale_input_d = 16: legal is 0..15"},
      {t + "cta_group::1.kind::f8f6f4 --m 128 --n 16 --a e4m3 --b e4m3 --scale-input-d 1" + out,
       "only kind::f16 and kind::tf32"},
      {t + "cta_group::1.kind::f16.ashift --m 128 --n 16" + out,
       ".ashift = present: legal is absent unless A is in Tensor Memory"},
      {t + "cta_group::1.kind::f16.ashift --m 64 --n 16 --a-source tmem" + out, "M = 128 or 256"},
      {t + "cta_group::1.kind::f16.ashift.collector::a::fill --m 128 --n 16 --a-source tmem" + out,
       "lastuse, discard or none with .ashift"},
      {t + "cta_group::1.kind::f16 --m 128 --n 64 --zero-column-mask 0" + out, "absent without .ws"},
      {t + "cta_group::1.kind::f16 --m 128 --n 64 --max-shift 1" + out, "0 without .ws"},
      {t + "ws.cta_group::1.kind::f16 --m 128 --n 64 --zero-column-mask 0x0800000000000000 --max-shift 0" + out,
       "column_shift = 8: legal is 0..0"},
      {t + "ws.cta_group::1.kind::f16 --m 32 --n 64 --zero-column-mask 0x1100000000000000 --max-shift 3" + out,
       "column_shift = 17: legal is 0..16"},
      {t + "ws.cta_group::1.kind::f16 --m 32 --n 64 --zero-column-mask 0xC000000000000000" + out,
       "reserved bits of the zero-column mask"},
      {t + "ws.cta_group::1.kind::f16 --m 32 --n 64 --zero-column-mask x" + out, "encode mask"},
      {t + "ws.sp.cta_group::1.kind::f16 --m 32 --n 256" + out, "N = 256: legal is 64 or 128"},
      {"golden tcgen05.ld.sync.aligned.16x64b.x3.b32" + out, ".num = x3: legal is a power of two"},
      {"golden tcgen05.ld.sync.aligned.16x256b.x64.b32" + out, "x1..x32 for 16x256b"},
      {"golden tcgen05.ld.sync.aligned.16x32b.x1.b32" + out, "shape = 16x32b"},
      {"golden tcgen05.ld.16x64b.x1.b32" + out, ".sync.aligned after the name"},
      {"golden tcgen05.st.sync.aligned.16x64b.x1.pack::16b.b32" + out, "{.unpack::16b}.b32 at the end"},
      {"golden tcgen05.ld.sync.aligned.16x32bx2.x1.b32 --half-split-offset 0x200000" + out,
       "half-split offset = 0x200000: legal is lanes of the same warp"},
      {"golden tcgen05.cp.cta_group::1.32x128b" + out, "32x128b.warpx4"},
      {"golden tcgen05.cp.cta_group::1.128x128b.warpx4" + out, "shape = .128x128b.warpx4"},
      {"golden tcgen05.cp.128x128b" + out, "it is mandatory"},
      {"golden tcgen05.cp.cta_group::1.128x128b.b6x16_p32" + out, "nothing, .b8x16.b4x16_p64"},
      {"golden tcgen05.shift.cta_group::1.up" + out, ".cta_group::1.down or"},
      {"golden tcgen05.shift.cta_group::1.down --cases 0" + out, "cases = 0"},
      {"golden tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 16 --imm-scale-a 2" + out,
       "--imm-scale-a = 2: legal is 1, or -1"},
      {"golden tcgen05.mma.cta_group::1.kind::i8 --m 128 --n 16 --d s32 --a s8 --b s8 --imm-scale-b -1" + out,
       "negate = 1"},
      {"golden tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 16 --a-source registers" + out,
       "smem or tmem for tcgen05.mma"},
      {"golden tcgen05.mma.cta_group::1.kind::f16 --m 128 --n 16 --d f99" + out, "--d = f99"},
      {"golden tcgen05.mma.cta_group::1.kind::tf32 --m 128 --n 16 --a tf32 --b tf32 --layout-b mn-major:128" + out,
       "128-atom32 (code 1)"},
      {"golden " + f16 + " --a-source tmem" + out, "smem or registers for wgmma"},
      {"golden " + f16 + " --layout-a k-major:128-atom32" + out, "exists on sm_100a only"},
      {"ptx tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::use", "a mnemonic of bitmma list --mnemonics"},
      {"layout fragment --instruction tcgen05.mma.cta_group::1.kind::f16", "layout tmem, layout ldst"},
      {"decode 0x08100010 --kind f17", "--kind = f17"},
      {"decode 0x108100010 --kind f16", "a 32-bit number"},
      {"decode 0x08100050 --kind f16", "reserved bits = 0x00000040"},
      {"encode mask --use 256", "use_span = 256: legal is 0..255"},
      {"decode 0x0 --zero-column-mask --m 16", "--m, --n = 16, 256"},
      {"decode 0x1000000000 --zero-column-mask", "reserved bits of the zero-column mask"},
      {"encode idesc --kind f16 --m 128 --n 12", "n = 12: legal is 8..256 in steps of 8"},
      {"encode idesc --kind mxf4 --m 64 --n 8 --a e2m1 --b e2m1", "m = 64: legal is 128 or 256"},
      {"encode idesc --kind f16 --m 128 --n 8 --d f99", "--d = f99"},
      {"layout tmem --m 32", "M = 32 with cta_group::1: legal is 64 or 128"},
      {"layout tmem --address 0x800000", "lane 128"},
      {"layout tmem --m 128 --address 0x100000", "D lane = 16: legal is 0"},
      {"layout tmem --n 12", "N = 12"},
      {"layout tmem --lane 3", "--lane, --column"},
      {"layout tmem --operand a --element-bits 5", "--element-bits, --cols = 5, 16"},
      {"layout ldst --shape 16x32b", "--shape = 16x32b"},
      {"layout ldst --shape 16x256b --num 64", ".num = x64"},
      {"layout fragment --instruction " + f16 + " --row 64 --col 0", "0..63, 0..7"},
  };
  CHECK(rows.size() >= 60);
  for (const Row& row : rows) {
    const Outcome outcome = run_line(row.line);
    INFO(row.line << "\n" << outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, ContainsSubstring(row.message));
    CHECK_FALSE(std::filesystem::exists(folder.path("out")));
  }
}

TEST_CASE("bad vector files: message and exit code of each") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("bad.safetensors");
  const auto edit = [&](const std::function<void(TensorFile&)>& change) {
    TensorFile file = read_tensor_file(one_golden);
    change(file);
    write_tensor_file(path, file);
  };
  const auto reshape = [](TensorFile& file, const char* name, const char* dtype, std::vector<int64_t> shape) {
    int64_t size = dtype_bytes(dtype);
    for (const int64_t extent : shape) size *= extent;
    file.set(Tensor::from_bytes(name, dtype, std::move(shape), std::vector<uint8_t>(static_cast<size_t>(size))));
  };
  struct Row {
    std::function<void(TensorFile&)> change;
    std::string message;
  };
  const std::vector<Row> rows = {
      {[](TensorFile& f) { f.erase_metadata("format"); }, "__metadata__ format = (missing)"},
      {[](TensorFile& f) { f.set_metadata("format", "bitmma-vectors-9"); }, "__metadata__ format = bitmma-vectors-9"},
      {[](TensorFile& f) { f.erase_metadata("instruction"); }, "give --instruction"},
      {[](TensorFile& f) { f.set_metadata("instruction", "wgmma.mma_async.sync.aligned.m64n9k16.f32.f16.f16"); },
       "n = 9"},
      {[](TensorFile& f) { f.set_metadata("instruction", "nonsense"); }, "instruction = nonsense"},
      {[](TensorFile& f) { f.set_metadata("imm_scale_a", "one"); }, "__metadata__ imm_scale_a = one"},
      {[](TensorFile& f) { f.set_metadata("imm_scale_a", "2"); }, "imm_scale_a = 2"},
      {[](TensorFile& f) { f.set_metadata("imm_trans_b", "1x"); }, "__metadata__ imm_trans_b = 1x"},
      {[](TensorFile& f) { f.set_metadata("scale_d", ""); }, "__metadata__ scale_d"},
      {[](TensorFile& f) { f.set_metadata("sparsity_selector", "3"); }, "sparsity_selector = 3"},
      {[](TensorFile& f) {
         f.set_metadata("scale_d", "1");
         f.erase("c_regs");
       },
       "tensor c_regs = (missing)"},
      {[](TensorFile& f) { f.erase("smem"); }, "tensor smem = (missing)"},
      {[](TensorFile& f) { f.erase("a_desc"); }, "tensor a_desc = (missing)"},
      {[](TensorFile& f) { f.erase("b_desc"); }, "tensor b_desc = (missing)"},
      {[](TensorFile& f) { f.erase("d_regs"); }, "a recorded D to compare with"},
      {[](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
       },
       "neither images nor logical matrices"},
      {[&](TensorFile& f) {
         reshape(f, "a_regs", "U32", {2, 128, 4});
       },
       "both a_regs and a_desc"},
      {[&](TensorFile& f) { reshape(f, "a_desc", "U32", {2}); }, "tensor a_desc dtype = U32: legal is U64"},
      {[&](TensorFile& f) { reshape(f, "a_desc", "U64", {3}); }, "tensor a_desc shape = [3]"},
      {[&](TensorFile& f) {
         reshape(f, "a_desc", "U64", {2, 1});
       },
       "tensor a_desc shape = [2, 1]"},
      {[&](TensorFile& f) { reshape(f, "a_desc", "U64", {}); }, "tensor a_desc shape = []"},
      {[&](TensorFile& f) { reshape(f, "smem", "U8", {2}); }, "tensor smem shape = [2]: legal is [2, ...]"},
      {[&](TensorFile& f) {
         reshape(f, "smem", "I8", {2, 4096});
       },
       "tensor smem dtype = I8"},
      {[&](TensorFile& f) {
         reshape(f, "smem", "U8", {2, 0});
       },
       "A element row 0, k 0"},
      {[&](TensorFile& f) {
         reshape(f, "smem", "U8", {2, 100});
       },
       "shared-memory image of 100 bytes"},
      {[&](TensorFile& f) {
         reshape(f, "d_regs", "U32", {2, 128, 5});
       },
       "tensor d_regs shape = [2, 128, 5]: legal is [2, 128, 4]"},
      {[&](TensorFile& f) {
         reshape(f, "d_regs", "F32", {2, 128, 4});
       },
       "tensor d_regs dtype = F32"},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         reshape(f, "a", "F32", {1, 64, 16});
         reshape(f, "b", "F16", {1, 16, 8});
       },
       "tensor a dtype = F32: legal is F16"},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         reshape(f, "a", "F16", {1, 64, 16});
       },
       "tensor b = (missing)"},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         f.set_metadata("scale_d", "1");
         reshape(f, "a", "F16", {1, 64, 16});
         reshape(f, "b", "F16", {1, 16, 8});
       },
       "without C, save scale_d = 0"},
      {[&](TensorFile& f) {
         for (const char* name : {"smem", "a_desc", "b_desc", "c_regs", "d_regs"}) f.erase(name);
         reshape(f, "a", "F16", {0, 64, 16});
         reshape(f, "b", "F16", {0, 16, 8});
       },
       "an empty file proves nothing"},
  };
  for (const Row& row : rows) {
    edit(row.change);
    const Outcome outcome = run({"verify", path});
    INFO(row.message << "\n" << outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, ContainsSubstring(row.message));
  }
}

TEST_CASE("verify prints files, cases, outputs and mismatches, and how sure the arithmetic is") {
  const Outcome outcome = run({"verify", test::source_path("data/golden/sm_90a")});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("mismatches 0\n"));
  CHECK_THAT(outcome.out, ContainsSubstring("measured on an NVIDIA H200"));
  CHECK(outcome.err.empty());
  const Outcome json = run({"verify", "--json", one_golden});
  const auto parsed = nlohmann::json::parse(json.out);
  CHECK(parsed["files"] == 1);
  CHECK(parsed["outputs"] == 1024);
  CHECK(parsed["mismatches"] == 0);
  CHECK(parsed["results"][0]["source"] == "NVIDIA H200");
}

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
  std::vector<uint8_t> d(file.find("d_regs")->bytes.begin(), file.find("d_regs")->bytes.end());
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
}

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

TEST_CASE("decode takes descriptors and mnemonics, encode is its inverse") {
  const Outcome text = run({"decode", "0x4000004000010080", "--major", "k"});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, ContainsSubstring("start_address") && ContainsSubstring("2048") &&
                           ContainsSubstring("128: Swizzle<3,4,3>"));
  const auto json = nlohmann::json::parse(run({"decode", "--json", "0x4000004000010080"}).out);
  CHECK(json["fields"]["start_address"] == 2048);
  CHECK(json["fields"]["stride_dim_byte_offset"] == 1024);
  CHECK(json["swizzle_mode"] == "128");
  CHECK(json["warnings"].empty());
  CHECK(run_line("encode descriptor --start 2048 --lbo 16 --sbo 1024 --swizzle 128").out == "0x4000004000010080\n");
  CHECK(run_line("encode descriptor --arch sm_100a --start 0x800 --lbo 16 --sbo 1024 --swizzle 128").out ==
        "0x4000404000010080\n");
  CHECK_THAT(run({"decode", "0x4040004000010080"}).out, ContainsSubstring("warning: reserved bits"));
  CHECK(run_line("encode instruction --n 128 --d f16 --a e4m3 --b e5m2 --sp").out ==
        "wgmma.mma_async.sp.sync.aligned.m64n128k64.f16.e4m3.e5m2\n");
  CHECK_THAT(run({"decode", f16}).out, ContainsSubstring("64 x 8 f32, 4 registers a thread"));
  CHECK(nlohmann::json::parse(run({"decode", "--json", f16}).out)["evidence"] == "measured on an NVIDIA H200");
}

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

TEST_CASE("every command in README runs, in order, in an empty folder") {
  const test::TemporaryFolder folder;
  std::istringstream readme(test::read_text(test::source_path("README.md")));
  std::string line;
  int commands = 0;
  bool in_block = false;
  while (std::getline(readme, line)) {
    if (line.starts_with("```")) in_block = !in_block;
    if (!in_block || !line.starts_with("bitmma ")) continue;
    line = line.substr(7, line.find(" #") == std::string::npos ? std::string::npos : line.find(" #") - 7);
    if (line.starts_with("gpu ")) continue;  // needs one; `bitmma gpu` has its own tests
    std::istringstream words(line);
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) {
      if (word.ends_with(".safetensors") || word.ends_with(".ptx") || word.ends_with(".svg")) word = folder.path(word);
      if (word.starts_with("data/")) word = test::source_path(word);
      arguments.push_back(word);
    }
    const Outcome outcome = run(arguments);
    INFO(line << "\n" << outcome.err);
    CHECK(outcome.code == 0);
    CHECK_FALSE((outcome.out.empty() && outcome.err.empty() && arguments[0] != "ptx"));
    ++commands;
  }
  CHECK(commands >= 14);
}

TEST_CASE("bench measures what the filter names, on the instruction set asked for, and refuses what is not there") {
  const std::string best(cpu_target());
  const Outcome text = run({"bench", "mma.sync mxf4", "--seconds", "0.001", "--threads", "2"});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, ContainsSubstring("mma.sync mxf4nvf4 e2m1 -> f32 m16n8k64") &&
                           ContainsSubstring("2 threads 1e9 terms/s") && !ContainsSubstring("wgmma") &&
                           ContainsSubstring("Hot loops for " + best));
  const auto json = nlohmann::json::parse(
      run({"bench", "^wgmma f16 -> f16 m64n8k16$", "--seconds", "0.001", "--cpu-target", "baseline", "--json"}).out);
  use_cpu_target(best);
  CHECK(json["cpu_target"] == "baseline");
  REQUIRE(json["results"].size() == 1);
  CHECK(json["results"][0]["terms"] == 64 * 8 * 16);
  CHECK(json["results"][0]["seconds"] > 0);
  for (const auto& [arguments, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"bench", "("}, "a regular expression"},
           {{"bench", "wgmma f64"}, "that names a case"},
           {{"bench", "--cpu-target", "x86-64-v9"}, "baseline"},
           {{"bench", "--seconds", "0"}, "--seconds"}}) {
    const Outcome bad = run(arguments);
    CHECK(bad.code == 2);
    CHECK_THAT(bad.err, ContainsSubstring(message));
  }
}

TEST_CASE("tcgen05: golden, simulate, verify, compare; bad files get their message") {
  const test::TemporaryFolder folder;
  const std::string golden = folder.path("golden.safetensors"), out = folder.path("out.safetensors"),
                    bad = folder.path("bad.safetensors");
  CHECK(run({"golden", "tcgen05.mma.cta_group::2.kind::f8f6f4", "--m", "128", "--n", "32", "--a", "e2m1", "--b", "e4m3",
             "--cases", "2", "-o", golden})
            .code == 0);
  CHECK(run({"simulate", golden, "-o", out}).code == 0);
  CHECK(run({"compare", golden, out}).code == 0);
  CHECK_THAT(run({"simulate", golden}).out, ContainsSubstring("M = 128, N = 32, K = 32; D f32, A e2m1, B e4m3") &&
                                                ContainsSubstring("published hardware words"));
  CHECK_THAT(run({"verify", golden}).out, ContainsSubstring("tcgen05.mma.cta_group::2.kind::f8f6f4 f32.e2m1.e4m3"));
  CHECK_THAT(run({"decode", "tcgen05.mma.ws.cta_group::1.kind::i8"}).out, ContainsSubstring("weight-stationary"));
  struct Row {
    std::function<void(TensorFile&)> change;
    std::string message;
  };
  const auto replace = [](TensorFile& file, const char* name, const char* dtype, std::vector<int64_t> shape,
                          uint8_t fill = 0) {
    int64_t size = dtype_bytes(dtype);
    for (const int64_t extent : shape) size *= extent;
    file.set(Tensor::from_bytes(name, dtype, std::move(shape), std::vector<uint8_t>(static_cast<size_t>(size), fill)));
  };
  const std::vector<Row> rows = {
      {[](TensorFile& f) { f.erase("idesc"); }, "tensor idesc = (missing)"},
      {[&](TensorFile& f) { replace(f, "idesc", "U32", {2}); }, "m = 0"},
      {[&](TensorFile& f) { replace(f, "idesc", "U64", {2}); }, "tensor idesc = U64 [2]"},
      {[&](TensorFile& f) { replace(f, "idesc", "U32", {2}, 0xFF); }, "reserved bits"},
      {[](TensorFile& f) { f.erase("tmem"); }, "tensor tmem = (missing)"},
      {[](TensorFile& f) { f.erase("d_tmem"); }, "tensor d_tmem = (missing)"},
      {[](TensorFile& f) { f.erase("enable_input_d"); }, "tensor enable_input_d = (missing)"},
      {[&](TensorFile& f) {
         replace(f, "tmem", "U32", {2, 1, 128, 32});
       },
       "tensor tmem shape = [2, 1, 128, 32]: legal is [2, 2, 128, ...]"},
      {[&](TensorFile& f) {
         replace(f, "tmem", "U32", {2, 2, 128, 8});
       },
       "inside the 8 columns"},
      {[&](TensorFile& f) {
         replace(f, "smem", "U8", {2, 4096});
       },
       "tensor smem shape = [2, 4096]: legal is [2, 2, ...]"},
      {[&](TensorFile& f) {
         replace(f, "smem", "U8", {2, 2, 64});
       },
       "image of 64 bytes"},
      {[&](TensorFile& f) { replace(f, "d_tmem", "U32", {2}, 0x7F); }, "Tensor Memory address = 0x7f7f7f7f"},
      {[&](TensorFile& f) {
         replace(f, "disable_output_lane", "U32", {2, 4});
       },
       "tensor disable_output_lane shape"},
      {[&](TensorFile& f) { replace(f, "scale_input_d", "U8", {2}, 1); }, "only kind::f16 and kind::tf32"},
      {[&](TensorFile& f) { replace(f, "zero_column_mask", "U64", {2}, 1); }, "absent or 0 without .ws"},
      {[&](TensorFile& f) { replace(f, "a_tmem", "U32", {2}); }, "both a_tmem and a_desc"},
      {[](TensorFile& f) { f.erase("tmem_after"); }, "tensor tmem_after = (missing)"},
      {[](TensorFile& f) { f.set_metadata("instruction", "tcgen05.mma.cta_group::2.kind::mxf4"); }, "kind::mxf4"},
  };
  for (const Row& row : rows) {
    TensorFile file = read_tensor_file(golden);
    row.change(file);
    write_tensor_file(bad, file);
    const Outcome outcome = run({"verify", bad});
    INFO(row.message << "\n" << outcome.err);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(row.message));
  }
}

TEST_CASE("explain, diagnose, lint and --cute speak JSON and use the exit codes") {
  const test::TemporaryFolder folder;
  const std::string right = folder.path("right.safetensors"), wrong = folder.path("wrong.safetensors");
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "2", "-o", right}).code == 0);
  REQUIRE(run({"golden", f16, "--distribution", "normal", "--cases", "2", "--scale-d", "0", "-o", wrong}).code == 0);
  const Outcome found = run({"diagnose", right, wrong, "--json"});
  CHECK(found.code == 1);
  const auto json = nlohmann::json::parse(found.out);
  CHECK(json["findings"][0]["faults"][0]["id"] == "c.cleared");
  CHECK(json["findings"][0]["explains_all"] == true);
  CHECK(run({"diagnose", right}).code == 0);
  CHECK_THAT(run({"diagnose", right}).out, ContainsSubstring("nothing is wrong"));
  CHECK(nlohmann::json::parse(run({"diagnose", right, "--list", "--json"}).out).size() > 60);
  // The D of another adder, recorded in the file itself.
  const Outcome explained = run({"explain", right, "--row", "5", "--col", "3", "--json"});
  CHECK(explained.code == 0);
  const auto one = nlohmann::json::parse(explained.out);
  CHECK(one["terms"].size() == 16);
  CHECK(one["d"] == one["recorded_d"]);
  CHECK(one["terms"][0]["a_place"].contains("byte"));
  CHECK(run({"simulate", right, "--lint"}).code == 0);
  CHECK(nlohmann::json::parse(run({"simulate", right, "--lint", "--json"}).out).empty());
  REQUIRE(run({"golden", f16, "--distribution", "special", "-o", wrong}).code == 0);
  CHECK(run({"simulate", wrong, "--lint"}).code == 1);
  CHECK(nlohmann::json::parse(run({"simulate", wrong, "--lint", "--json"}).out).size() >= 2);
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

TEST_CASE("decode answers what people get wrong about Blackwell's descriptors") {
  struct Row {
    std::string line, answer;
  };
  const std::vector<Row> rows = {
      // e2m1 is 1 in Table 44, 5 in Tables 42 and 43.
      {"decode 0x08040680 --kind mxf4nvf4", "5 is e2m1 in Tables 42 and 43 only"},
      {"decode 0x08040480 --kind mxf4nvf4", "A e2m1"},
      // Swizzle code 1 is not plain 128B.
      {"decode 0x2000404000010000 --arch sm_100a", "swizzle = 1 (128B with 32-byte atoms): legal is 2 for plain 128B"},
      // Bit 23 is the type of the scales, not their number.
      {"decode 0x08840480 --kind mxf4nvf4", "bit 23 is the type of the scales, not their number"},
      // Scale ids name a byte of a cell, not a thread.
      {"decode 0x08040480 --kind mxf4nvf4", "byte of the Tensor Memory cell with A's first scale"},
      // LBO and SBO are multiples of 16 bytes.
      {"encode descriptor --lbo 64 --sbo 8 --arch sm_100a",
       "stride_dim_byte_offset = 8: legal is a multiple of 16 bytes"},
      // Strides of the layout without swizzle, in a 128B one.
      {"decode 0x4000400800800000 --arch sm_100a --major k", "look like those of the layout without swizzle"},
      {"decode 0x4000400800800000 --arch sm_100a --major k", "the hardware ignores it there"},
      // SBO is between groups of 8 rows, not rows.
      {"decode 0x4000400800010000 --arch sm_100a", "SBO steps over 8 rows of 128 bytes"},
      {"decode 0x4000404000010000 --arch sm_100a", "between groups of 8 rows"},
      // D of N = 8 takes 8 columns, the allocation is of 32.
      {"decode 0x08020010 --kind f16", "D takes 8 columns of Tensor Memory"},
      // M >> 4 in Table 42, M >> 7 in the others.
      {"decode 0x01020010 --kind f16", "m = 16: legal is 32 (.ws), 64, 128 or 256"},
      {"decode 0x01020010 --kind f16", "M >> 7 belongs to Tables 43 and 44"},
      // Packed fp4 alone is K-major only.
      {"encode idesc --kind mxf4 --m 128 --n 8 --a e2m1 --b e2m1 --transpose-b", "packed fp4 is K-major only"},
      {"decode 0x08118010 --kind f16", "A M-major, B N-major"},
      // The eight zeros that Table 40 misprints.
      {"decode 0x4160404000010000 --arch sm_100a", "0xb00000000 is a misprint"},
      // mma.sync has registers, not descriptors or Tensor Memory addresses: 4 of A, 2 of B.
      {"decode mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
       "no descriptors, no Tensor Memory"},
      {"decode mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
       "64 x 8 e2m1, 2 registers"},
      // And other traps: missing fixed bits, codes that do not exist, strides not shifted, a start inside the pattern.
      {"decode 0x4000004000010000 --arch sm_100a", "a descriptor made for sm_90a lacks these bits"},
      {"decode 0xA000404000010000 --arch sm_100a", "swizzle of descriptor 0xa000404000010000 = 5"},
      {"decode 0xE000404000010000 --arch sm_100a", "codes of sm_90a and sm_100a differ"},
      {"decode 0x4000440000010000 --arch sm_100a", "was 1024 written without the shift right by 4?"},
      {"decode 0x4000404000010008 --arch sm_100a", "set base_offset = (start >> 7) & 7"},
      {"decode 0xC010404000010000 --arch sm_100a", "leading_dim_mode = 1 (absolute address)"},
      {"decode 0x00ff078500030201 --zero-column-mask --m 64 --n 64", "use_span"},
      {"decode tcgen05.cp.cta_group::1.64x128b.warpx2::02_13",
       "64 rows of 16 bytes of shared memory -> Tensor Memory, 2 lanes each"},
  };
  for (const Row& row : rows) {
    const Outcome outcome = run_line(row.line);
    INFO(row.line << "\n" << outcome.out << outcome.err);
    CHECK_THAT(outcome.out + outcome.err, ContainsSubstring(row.answer));
  }
  CHECK(run_line("encode mask --use 3 --skip 2").out == "0x0003028000000000\n");
  CHECK_THAT(run_line("decode 0x0003028000000000 --zero-column-mask --m 128 --n 64").out,
             ContainsSubstring("   0  0000111000011100001110000111"));
  CHECK(nlohmann::json::parse(
            run_line("decode 0x0003028000000000 --zero-column-mask --m 128 --n 8 --json").out)["columns"] ==
        "00001110");
}

TEST_CASE("list shows every legal form with its evidence, and all mnemonics") {
  const auto json = nlohmann::json::parse(run({"list", "--json"}).out);
  const auto others = std::ranges::count_if(
      accumulator_models(), [](const AccumulatorModel& model) { return model.family != Family::wgmma; });
  CHECK(json.size() == legal_forms().size() + static_cast<size_t>(others));
  for (const auto& row : json) CHECK_FALSE(row["evidence"].get<std::string>().empty());
  std::istringstream mnemonics(run({"list", "--mnemonics"}).out);
  size_t count = 0;
  for (std::string line; std::getline(mnemonics, line); ++count) {
    INFO(line);
    if (is_tmem_move(line))
      CHECK(print(parse_tmem_move(line)) == line);
    else
      CHECK(print(parse_instruction(line)) == line);
  }
  CHECK(count == all_legal_instructions().size() + all_tcgen05_mnemonics().size() + all_mma_sync_instructions().size() +
                     all_legal_moves().size());
}

TEST_CASE("help has examples, goes to stdout and is no error") {
  for (const char* line : {"--help",
                           "simulate --help",
                           "golden --help",
                           "verify --help",
                           "compare --help",
                           "decode --help",
                           "encode descriptor --help",
                           "encode instruction --help",
                           "layout smem --help",
                           "layout tmem --help",
                           "layout ldst --help",
                           "encode idesc --help",
                           "layout fragment --help",
                           "list --help",
                           "layout --help",
                           "layout scales --help",
                           "explain --help",
                           "diagnose --help",
                           "encode mask --help",
                           "ptx --help",
                           "gpu --help"}) {
    const Outcome outcome = run_line(line);
    INFO(line);
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    CHECK_THAT(outcome.out, ContainsSubstring("Example") && ContainsSubstring("bitmma "));
  }
  CHECK(run({"--version"}).out == "bitmma 0.1.0\n");
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
