#include <algorithm>
#include <nlohmann/json.hpp>

#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using test::f16, test::Outcome, test::run, test::run_line;

namespace {

const test::BadRequests bad_requests({
    {"decode 0xZZ", illegal_value, "descriptor"},
    {"decode 0x40000040000100001", illegal_value, "descriptor"},
    {"decode 'tcgen05.mma.cta_group::1.kind::f16 [d], a, b, 0xffffffff, p;'", illegal_value, "reserved bits"},
    {"decode 'tcgen05.mma.cta_group::1.kind::f16 [d], a, b, 0x108100010, p;'", malformed, "idesc"},
    {"decode 'tcgen05.mma.cta_group::1.kind::f16 [d], 0x6000404000010000, b, i, p;'", illegal_value,
     "swizzle of descriptor 0x6000404000010000"},
    {"decode 'tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [m];'",
     illegal_value, "operands"},
    {"decode 'wgmma.wait_group.sync.aligned;'", illegal_value, "operands"},
    {"decode $FOLDER", unusable_file, "$FOLDER/."},
    {"decode wgmma", malformed, "instruction"},
    {"decode wgmma.mma_asnyc.sync.aligned.m64n32k16.f32.f16.f16", malformed, "instruction"},
    {"decode 'tcgen05.wait::foo.sync.aligned;'", malformed, "instruction"},
    {"decode 'tcgen05.dealoc.cta_group::1.sync.aligned.b32 r0, 32;'", malformed, "instruction"},
    {"decode WGMMA.mma_async", malformed, "instruction"},
    {"decode main.cu", not_found, "file"},
    {"decode sub/none", not_found, "file"},
    {"decode $GOLDEN", unusable_file, "$SOURCE/data/golden/sm_90a/misc/misc_f32_f16_f16_sat0_sd0.safetensors"},
    {"decode 0x4000004000010000 --kind wgmma", unknown_name, "--kind"},
    {"decode 'mbarrier.try_wait.parity.shared::cta.b64 p, [m];'", illegal_value, "operands"},
    {"decode " + f16 + " --target SM_90B", unknown_name, "--target, --arch"},
    {"decode 0x10000000000000000", illegal_value, "descriptor"},
    {"decode 0x6000000000000000 --arch sm_100a", illegal_value, "swizzle of descriptor 0x6000000000000000"},
    {"decode 0x0 --arch sm_80", illegal_value, "--target, --arch"},
    {"decode 0x0 --major m", unknown_name, "--major"},
    {"decode wgmma.mma_async.sync.aligned.m64n9k16.f32.f16.f16", illegal_value, "n"},
    {"decode 0x08100010 --kind f17", unknown_name, "--kind"},
    {"decode 0x108100010 --kind f16", wrong_type, "instruction descriptor"},
    {"decode 0x08100050 --kind f16", illegal_value, "reserved bits"},
    {"decode 0x0 --zero-column-mask --m 16", illegal_value, "--m, --n"},
    {"decode 0x1000000000 --zero-column-mask", illegal_value, "reserved bits of the zero-column mask"},
    {"decode 0x0 --target sm_80", illegal_value, "--target, --arch"},
    {"decode 0x0 --target sm_91", unknown_name, "--target, --arch"},
    {"decode wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --target sm_100a", unsupported_target, "target"},
    {"decode wgmma.fence.sync.aligned --target sm_100a", unsupported_target, "target"},
    {"decode 'wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {a, b, c}, x, y, p, 1, 1, 0, 0;'", malformed, "d"},
    {"decode 'wgmma.fence.sync.aligned; tcgen05.alloc.cta_group::1.sync.aligned.b32 [d], 31;'", illegal_value, "nCols"},
    {"decode 'added.s32 a, b, c;'", malformed, "instruction"},
    {"decode nothing.ptx", not_found, "file"},
    {"decode tcgen05.mma.ws.cta_group::2.kind::f16", illegal_value, "cta_group"},
    {"decode tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::use", illegal_value, "collector"},
    {"decode tcgen05.mma.cta_group::1.kind::i8 --target sm_103a", unsupported_target, "target"},
    {"decode SM90_64x8x16_F32F16_SS", malformed, "name of an MMA operation of CUTLASS"},
    {"decode SM90_64x12x16_F32F16F16_SS", illegal_value, "n"},
    {"decode 0x1__2", illegal_value, "descriptor"},
    {"decode 123456g", illegal_value, "descriptor"},
    {"decode 18446744073709551616", illegal_value, "descriptor"},
    {"decode -9223372036854775809", illegal_value, "descriptor"},
    {"decode 0x0810001000000001 --kind f16", wrong_type, "instruction descriptor"},
});

}  // namespace

TEST_CASE("decode refuses bad requests: message and exit code of each") { bad_requests.check(); }

TEST_CASE("decode takes numbers in place of descriptors apart, and what an atom's template arguments say") {
  for (const auto& [text, answer] : std::vector<std::pair<std::string, std::string>>{
           {"tcgen05.mma.cta_group::1.kind::f16 [d], 0x4000404000010000, b, 0x8100010, p;", "M = 128, N = 64; D f32"},
           {"tcgen05.mma.cta_group::1.kind::f16 [d], 0x4000404000010000, b, 0x8100010, p;",
            "start 0x0, LBO 16, SBO 1024, swizzle 128"},
           {"SM90_64x128x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::MN>", "A K-major, B MN-major"},
           {"SM100_MMA_F16BF16_2x1SM_SS<half_t,half_t,float,256,128,UMMA::Major::K,UMMA::Major::MN>",
            "A half_t, B half_t, D float; M = 256, N = 128; A K-major, B MN-major"},
           {"$1 = 0x4000004000010080", "0x4000004000010080, shared-memory descriptor"},
           {"0x4000004000010080,", "0x4000004000010080, shared-memory descriptor"},
       }) {
    INFO(text);
    CHECK_THAT(run({"decode", text}).out, ContainsSubstring(answer));
  }
  CHECK_THAT(run_line("decode 0x4000004000010000 0x4000004000010002").out, ContainsSubstring("+2 (+32 bytes)"));
  const auto json = nlohmann::json::parse(run({"decode", "SM90_64x128x16_F32F16F16_RS", "--json"}).out);
  CHECK(json["atom"] == "SM90_64x128x16_F32F16F16_RS");
  CHECK(json["operands_from"] == "A in registers, B in shared memory");
}

TEST_CASE("decode says one thing about one mistake") {
  for (const char* text : {"wgmma.mma_asnyc.sync.aligned.m64n32k16.f32.f16.f16", "wgmma", "mma.m16n8k16",
                           "tcgen05.wait::foo.sync.aligned;", "tcgen05.dealoc.cta_group::1.sync.aligned.b32 r0, 32;",
                           "wgmma.mma_async.sync.aligned.m64n8k16.f23.f16.f16"}) {
    const std::string message = run({"decode", text}).err;
    INFO(message);
    CHECK(std::ranges::count(message, '\n') == 1);
  }
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

TEST_CASE("decode answers what people get wrong about Blackwell's descriptors") {
  struct Row {
    std::string line, answer;
  };
  const std::vector<Row> rows = {
      // e2m1 is 1 in Table 44, 5 in Tables 42 and 43.
      {"decode 0x08040680 --kind mxf4nvf4", "5 is e2m1 in Tables 42 and 43 only"},
      {"decode 0x08040480 --kind mxf4nvf4", "A e2m1"},
      // Swizzle code 1 is not plain 128B.
      {"decode 0x2000404000010000 --arch sm_100a", "swizzle = 1 (128B with 32-byte atoms): expected 2 for plain 128B"},
      // Bit 23 is the type of the scales, not their number.
      {"decode 0x08840480 --kind mxf4nvf4", "bit 23 selects the type of the scales, not their number"},
      // Scale ids name a byte of a cell, not a thread.
      {"decode 0x08040480 --kind mxf4nvf4", "byte of the Tensor Memory cell with A's first scale"},
      // LBO and SBO are multiples of 16 bytes.
      {"encode descriptor --lbo 64 --sbo 8 --arch sm_100a",
       "stride_dim_byte_offset = 8: must be a multiple of 16 bytes"},
      // Strides of the layout without swizzle, in a 128B one.
      {"decode 0x4000400800800000 --arch sm_100a --major k", "look like those of the layout without swizzle"},
      {"decode 0x4000400800800000 --arch sm_100a --major k", "PTX documents that it is not used there"},
      {"decode 0x4000004001000000 --major k",
       "the hardware ignores it there; to advance along K, move the start address "
       "[measured on an H200"},
      // SBO is between groups of 8 rows, not rows.
      {"decode 0x4000400800010000 --arch sm_100a", "SBO steps over 8 rows of 128 bytes"},
      {"decode 0x4000404000010000 --arch sm_100a", "between groups of 8 rows"},
      // D of N = 8 takes 8 columns, the allocation is of 32.
      {"decode 0x08020010 --kind f16", "D occupies 8 columns of Tensor Memory"},
      // M >> 4 in Table 42, M >> 7 in the others.
      {"decode 0x01020010 --kind f16", "m = 16: must be 32 (.ws), 64, 128 or 256"},
      {"decode 0x01020010 --kind f16", "only Tables 43 and 44 use M >> 7"},
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
      {"decode 0xE000404000010000 --arch sm_100a", "sm_90a and sm_100a have different codes"},
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

TEST_CASE("decode prints the target it was given, and the one that an instruction means by itself") {
  for (const char* flag : {"--target", "--arch"}) {
    CHECK_THAT(run({"decode", "0x4000404000010000", flag, "sm_103a"}).out,
               ContainsSubstring("shared-memory descriptor of sm_103a\n"));
    CHECK(nlohmann::json::parse(run({"decode", "0x4000404000010000", flag, "sm_103a", "--json"}).out)["target"] ==
          "sm_103a");
  }
  CHECK_THAT(run({"decode", f16}).out, ContainsSubstring("\ntarget: sm_90a\n"));
  const std::string cp = "tcgen05.cp.cta_group::1.128x256b";
  CHECK_THAT(run({"decode", cp}).out, ContainsSubstring("\ntarget: sm_100a\n"));
  CHECK(nlohmann::json::parse(run({"decode", cp, "--target", "sm_103a", "--json"}).out)["target"] == "sm_103a");
  const auto warning = nlohmann::json::parse(run({"decode", "0x4040004000010080", "--json"}).out)["warnings"][0];
  CHECK(warning["severity"] == "warning");
  CHECK(warning.contains("legal"));
}

TEST_CASE("decode says what a mnemonic of each family reads and writes") {
  CHECK_THAT(run({"decode", "tcgen05.mma.ws.cta_group::1.kind::i8"}).out, ContainsSubstring("weight-stationary"));
  CHECK_THAT(run({"decode", "tcgen05.mma.sp.cta_group::2.kind::f16"}).out, ContainsSubstring("2 CTAs, sparse A"));
  CHECK_THAT(run({"decode", "tcgen05.ld.sync.aligned.16x64b.x1.b32"}).out, ContainsSubstring("1 register of each"));
  CHECK_THAT(run({"decode", "tcgen05.shift.cta_group::1.down"}).out, ContainsSubstring("chosen: "));
  const auto moves = nlohmann::json::parse(run({"decode", "tcgen05.shift.cta_group::1.down", "--json"}).out);
  CHECK(moves["choices"].size() == 1);
  const auto mma = nlohmann::json::parse(
      run({"decode", "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", "--json"})
          .out);
  CHECK(mma["a_registers"] == 4);
  CHECK(mma["scales"] == 2);
  CHECK(mma["target"] == "sm_120a");
}

TEST_CASE("decode reads words as they are pasted, and says how where that is not plain") {
  struct Row {
    std::string word, how;
  };
  const std::string first = "0x4000004000010080, shared-memory descriptor";
  for (const Row& row : std::vector<Row>{{"0x4000004000010080", ""},
                                         {"0X4000004000010080ull", ""},
                                         {"0x4000'0040'0001'0080ULL", ""},
                                         {"0x4000_0040_0001_0080", ""},
                                         {"4611686293305360512", ""},
                                         {"4611686293305360512LL", ""},
                                         {"4000004000010080", "because it has 16 digits"}}) {
    const Outcome outcome = run({"decode", row.word});
    INFO(row.word << "\n" << outcome.out << outcome.err);
    CHECK(outcome.code == 0);
    CHECK_THAT(outcome.out, ContainsSubstring(first) && ContainsSubstring(row.how));
    CHECK((outcome.out.find("read as") == std::string::npos) == row.how.empty());
  }
  CHECK_THAT(run({"decode", "c000001000800000"}).out,
             ContainsSubstring("read as 0xc000001000800000: hexadecimal without 0x\n"));
  CHECK_THAT(run({"decode", "-4611685674829938432"}).out,
             ContainsSubstring("read as 0xc000005000010100: a signed number, read as two's complement"));
  // Instruction descriptors.
  for (const char* word : {"0x08100010", "08100010", "135266320", "0x0810001000000000"}) {
    INFO(word);
    CHECK_THAT(run({"decode", word, "--kind", "f16"}).out, ContainsSubstring("\nM = 128, N = 64;"));
  }
  CHECK_THAT(run({"decode", "-2013133696", "--kind", "mxf4nvf4"}).out, ContainsSubstring("a signed number of 32 bits"));
  CHECK(nlohmann::json::parse(run({"decode", "0x0810001000000000", "--kind", "f16", "--json"}).out)["read_as"] ==
        "the upper half of a 64-bit word");
}

TEST_CASE("decode takes a line of SASS, also where the shell has split it, and a wmma") {
  const std::string whole = run({"decode", "HMMA.16816.F32 R4, R8, R10, R4 ;"}).out;
  CHECK_THAT(whole, ContainsSubstring("m16n8k16") && ContainsSubstring("mma.sync"));
  CHECK(run({"decode", "HMMA.16816.F32", "R4,", "R8,", "R10,", "R4"}).out == whole);
  CHECK_THAT(run({"decode", "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"}).out,
             ContainsSubstring("two m16n8k16 along n"));
}

TEST_CASE("decode compares two descriptors field by field") {
  const std::string both = run_line("decode 0x4000004000010000 0x8000004000010002").out;
  CHECK_THAT(both, ContainsSubstring("differences in the stored fields") &&
                       ContainsSubstring("start_address  0x0    0x2     +2") &&
                       ContainsSubstring("swizzle        0x1    0x2     +1"));
  CHECK_THAT(run_line("decode 0x4000004000010000 0x4000004000010000").out, ContainsSubstring("no difference"));
  CHECK_THAT(run_line("decode 0x08100010 0x08120010 --kind f16").out, ContainsSubstring("n      0x8"));
  CHECK_THAT(run_line("decode 0x4000004000010000 0x4000404000010000").out, ContainsSubstring("other bits"));
  const auto json = nlohmann::json::parse(run_line("decode 0x4000004000010000 0x4000004000010002 --json").out);
  CHECK(json[1]["difference_from_first"]["start_address"] == nlohmann::json::array({0, 2}));
}

TEST_CASE("decode says what LBO and SBO mean, by major-ness and swizzle") {
  for (const auto& [line, answer] : std::vector<std::pair<std::string, std::string>>{
           {"decode 0x4000004000010000 --major k", "LBO, not used if a row of K fits into 128 bytes; 16 by convention"},
           {"decode 0x4000004000010000 --major k", "SBO, between groups of 8 rows\n"},
           {"decode 0x8000004000200080 --major mn", "LBO, between pieces of 64 bytes along M or N"},
           {"decode 0x8000004000200080 --major mn", "SBO, between groups of 8 values of k"},
           {"decode 0x0000001000080000 --major k", "LBO, between neighbouring 16 bytes of K"},
           {"decode 0x0000001000080000 --major mn", "LBO, between groups of 8 values of k"},
           {"decode 0x0000001000080000 --major mn", "SBO, between neighbouring 16 bytes of M or N"},
           {"decode 0x2000404000010000 --arch sm_100a --major mn", "SBO, between groups of 4 values of k"},
           {"decode 0x4000004000010000",
            "SBO; K-major: between groups of 8 rows; MN-major: between groups of 8 values"},
           {"decode 0x4010404000010000 --arch sm_103a", "an address: where a row of K continues"},
           // Base offsets that the address does not ask for.
           {"decode 0x4006004000010040 --major k", "base_offset = 3: expected 0: the start 0x400 is in the first row"},
           {"decode 0x4006004000010048 --major k", "base_offset = 3: expected 1 = (start >> 7) & 7"},
           {"decode 0x4000004000010048 --major k", "set base_offset = (start >> 7) & 7 = 1"},
           // Strides in bytes, not in units of 16.
           {"decode 0x0000010000800000 --major k", "were 128 and 256 written without the shift right by 4?"},
           {"decode 0x4000080004000000 --major mn", "were 1024 and 2048 written without the shift right by 4?"},
           // Rows wider than the swizzle: what is measured, and on which target.
           {"decode 0xc000001000800000 --major k",
            "if a row of K fits into 32 bytes; the 64 of a sparse B continue at LBO (measured on an NVIDIA H200)"},
           {"decode 0xc000401000800000 --major k --arch sm_100a", "continue at LBO (assumption"},
           {"layout smem --descriptor 0x4000004000010000 --rows 8 --cols 128", "assumption: no wgmma reads such rows"},
           {"layout smem --descriptor 0xc000001000800000 --rows 8 --cols 32",
            "(K continues at LBO; the maps show it)\nmeasured on an NVIDIA H200"},
           {"layout smem --descriptor 0xc000401000800000 --rows 8 --cols 32 --arch sm_100a",
            "no Blackwell GPU was measured"},
           // Bit 52.
           {"decode 0x4010404000010000 --arch sm_100a", "0 on sm_100a, which lacks the mode"},
       }) {
    const Outcome outcome = run_line(line);
    INFO(line << "\n" << outcome.out << outcome.err);
    CHECK_THAT(outcome.out, ContainsSubstring(answer));
  }
  // 128 rows without swizzle, LBO 2048 and SBO 128; a base offset that fits.
  for (const char* line : {"decode 0x0000000800800000 --major k", "decode 0x4002004000010048 --major k"})
    CHECK(run_line(line).out.find("warning") == std::string::npos);
}

TEST_CASE("decode takes statements: operands by name, immediates in words, whose bytes the scales are") {
  const std::string text =
      run({"decode", "@!%p1 " + f16 + " {%f1, %f2, %f3, %f4},\n %rd1, %rd2, p, 1, -1, 0, 1; // twice"}).out;
  CHECK_THAT(text, ContainsSubstring("@!%p1 " + f16 + "\n") && ContainsSubstring("imm-scale-b  -1") &&
                       ContainsSubstring("B is N-major") && ContainsSubstring("{%f1, %f2, %f3, %f4}  4 registers"));
  const std::string mx =
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
      "{%Rd0, %Rd1, %Rd2, %Rd3}, {%Ra0, %Ra1, %Ra2, %Ra3}, {%Rb0, %Rb1}, {%Rc0, %Rc1, %Rc2, %Rc3}, ";
  CHECK_THAT(run({"decode", mx + "scaleAData, {bidA, tidA}, scaleBData, {bidB, tidB};"}).out,
             ContainsSubstring("row m of A: 4 bytes from bidA of thread 4 (m % 8) + 2 * tidA + m / 8"));
  const auto json = nlohmann::json::parse(run({"decode", "--json", mx + "sa, {0, 1}, sb, {0, 3};"}).out);
  CHECK(json["operands"].size() == 8);
  CHECK(json["operands"][0]["registers"] == 4);
  CHECK_THAT(run({"decode", mx + "sa, {0, 1}, sb, {0, 3};"}).out,
             ContainsSubstring("column n of B: bytes 0..3 of thread 4 n + 3"));
  CHECK_THAT(run({"decode", "wgmma.fence.sync.aligned; wgmma.wait_group.sync.aligned 1;"}).out,
             ContainsSubstring("wgmma.fence.sync.aligned\n") && ContainsSubstring("at most the 1 most recent groups"));
  CHECK_THAT(run_line("decode ldmatrix.sync.aligned.m8n8.x4.shared.b16").out, ContainsSubstring("4 matrices of 8 x 8"));
  CHECK_THAT(
      run_line("decode SM90_64x128x16_F32F16F16_RS").out,
      ContainsSubstring("A in registers, B in shared memory\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16\n"));
}

TEST_CASE("decode takes files of PTX: line, meaning, counts, and code 1 for what is illegal or not known") {
  const std::string triton = test::source_path("data/ptx/triton_sm90_f16.ptx");
  const Outcome text = run({"decode", triton});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, ContainsSubstring(": target sm_90a\n") &&
                           ContainsSubstring("wgmma.mma_async.sync.aligned.m64n16k16") &&
                           ContainsSubstring("    as in line ") && ContainsSubstring("0 illegal, 0 not understood\n"));
  const auto json = nlohmann::json::parse(run({"decode", triton, "--json"}).out);
  CHECK(json["target"] == "sm_90a");
  CHECK(json["legal"] == json["instructions"].size());
  CHECK(json["counts"]["wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"] == 2);
  CHECK(json["instructions"][0]["line"] > 100);
  CHECK(run({"decode", triton, "--target", "sm_100a"}).code == 1);

  // Instruction descriptors that the text moves as numbers are taken apart.
  CHECK_THAT(run({"decode", test::source_path("data/ptx/triton_sm100_f16.ptx")}).out,
             ContainsSubstring("%r48 = 0x08030010") || ContainsSubstring("= 0x0803"));
  const auto mxf4 =
      nlohmann::json::parse(run({"decode", test::source_path("data/ptx/triton_sm100_mxf4.ptx"), "--json"}).out);
  int described = 0;
  for (const auto& instruction : mxf4["instructions"]) {
    if (!instruction.contains("idesc")) continue;
    CHECK(instruction["idesc"]["a"] == "e2m1");
    CHECK(instruction["idesc"]["n"] == 16);
    ++described;
  }
  CHECK(described == 1);

  const test::TemporaryFolder folder;
  const std::string path = folder.path("k.ptx");
  test::write_text(path,
                   ".version 8.7\n.target sm_100\n{\ntcgen05.wait::ld.sync.aligned;\n"
                   "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, p;\n}\n");
  const Outcome plain = run({"decode", path});
  CHECK(plain.code == 0);
  CHECK_THAT(plain.out, ContainsSubstring("target sm_100a: the file says .target sm_100"));
  test::write_text(
      path,
      ".target sm_90a\nwgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {a,b,c,d,e,f}, x, y, p, 1, 1, 0, "
      "0;\nwmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {a}, {b}, {c}, {d};\n\x1b[31mmma.sync \x1b;\n"
      "ldmatrix.sync.aligned.m8n8.x9.shared.b16 {a}, [b];\n");
  const Outcome wrong = run({"decode", path});
  CHECK(wrong.code == 1);
  CHECK_THAT(wrong.out, ContainsSubstring(":2: wgmma") && ContainsSubstring("illegal: n = 12") &&
                            ContainsSubstring("not read: instruction = wmma") && ContainsSubstring("qualifier = .x9") &&
                            !ContainsSubstring("\x1b"));
  const auto report = nlohmann::json::parse(run({"decode", path, "--json"}).out);
  CHECK(report["illegal"] == 1);
  CHECK(report["instructions"][0]["violations"][0]["field"] == "n");
  test::write_text(path, "int main() { return 0; }\n");
  CHECK_THAT(run({"decode", path}).out, ContainsSubstring("no tensor-core instruction"));
}

TEST_CASE(
    "decode reads CUDA C++ with inline PTX and listings of SASS, and code 1 where nothing is about tensor cores") {
  const test::TemporaryFolder folder;
  const auto decode = [&](const std::string& name, const std::string& text) {
    test::write_text(folder.path(name), text);
    return run({"decode", folder.path(name), "--json"});
  };
  const Outcome cuda =
      decode("kernel.cu",
             "__global__ void k() {\n"
             "  asm volatile(\"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 \"\n"
             "    \"{%0, %1, %2, %3}, %4, %5, p, %7, %8, %9, %10;\\n\" : \"+f\"(d) : \"n\"(1));\n"
             "  asm volatile(\"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5}, "
             "%6, %7, 1, 1, 1, 0, 0;\" ::);\n}\n");
  CHECK(cuda.code == 1);
  const nlohmann::json read = nlohmann::json::parse(cuda.out);
  CHECK((read["asm_statements"] == 2 && read["legal"] == 1 && read["illegal"] == 1));
  CHECK((read["instructions"][0]["line"] == 2 && read["instructions"][0]["n"] == 8));
  CHECK(read["instructions"][0]["operands"].back()["text"] == "%10");
  CHECK_FALSE(read["instructions"][0]["operands"].back().contains("value"));
  CHECK((read["instructions"][1]["line"] == 4 && read["instructions"][1]["violations"][0]["field"] == "n"));
  CHECK(decode("other.cu", "__device__ void k() { asm(\"membar.gl;\"); }").code == 1);
  CHECK(decode("plain.cu", "__global__ void k() {}").code == 2);
  const Outcome sass = decode("listing", "arch = sm_90a\n  /*0000*/ @P0 HGMMA.64x8x16.F32 R0, gdesc[UR4], R0 ;\n");
  CHECK(sass.code == 0);
  const nlohmann::json listed = nlohmann::json::parse(sass.out);
  CHECK((listed["arch"] == "sm_90a" && listed["instructions"][0]["shape"] == "m64n8k16"));
  CHECK(listed["counts"]["HGMMA.64x8x16.F32"] == 1);
  CHECK(decode("empty.sass", "  /*0000*/ EXIT ;\n").code == 1);
}

TEST_CASE("decode doubts words that are something else, and says whether two are read alike") {
  const auto warned = [](const std::string& line) {
    std::string fields;
    const Outcome outcome = run_line(line + " --json");
    const nlohmann::json read = nlohmann::json::parse(outcome.out);
    for (const auto& warning : read["warnings"]) fields += warning["field"].get<std::string>() + " ";
    return fields;
  };
  CHECK(warned("decode 0x08100010") == "word ");
  CHECK(warned("decode 0x0000000000010000").empty());
  CHECK_THAT(warned("decode 0x4000404000010000"), Catch::Matchers::StartsWith("bits 46-48 "));
  CHECK(warned("decode 0x4000404000010000 --target sm_100a").empty());
  CHECK_THAT(warned("decode 0x4000004000010000 --target sm_100a"), Catch::Matchers::StartsWith("bits 46-48 "));
  CHECK_THAT(warned("decode 0x4000004000013fc0"), ContainsSubstring("start_address"));
  const auto alike = [](const std::string& line) {
    return nlohmann::json::parse(run_line(line + " --json").out)[1]["read_alike"];
  };
  CHECK((alike("decode 0x4000004000010000 0x4000004000080000")["k-major"] == true));
  CHECK((alike("decode 0x4000004000010000 0x4000004000080000")["mn-major"] == false));
  CHECK((alike("decode 0x4000004000010000 0x4000002000010000 --major k") == nlohmann::json{{"k-major", false}}));
}

TEST_CASE("decode says what an instruction of kernels does, from the row that runs it") {
  const Outcome sum = test::run({"decode", "@%p1 add.f32 %f1, %f2, %f3;"});
  CHECK(sum.code == 0);
  CHECK_THAT(sum.out, ContainsSubstring("@%p1 add.f32") && ContainsSubstring("the sum a + b") &&
                          ContainsSubstring("ptxas may join it as the sum"));
  CHECK_THAT(test::run({"decode", "add.rn.f32"}).out, !ContainsSubstring("ptxas may join"));
  CHECK_THAT(test::run({"decode", "add.u32"}).out, !ContainsSubstring("ptxas may join"));
  const auto json = nlohmann::json::parse(test::run({"decode", "shfl.sync.idx.b32", "--json"}).out);
  CHECK(json["acts"] == true);
  CHECK(json["does"] == "the register of another lane");
}

TEST_CASE("decode warns of a register that a vector of A, B or D names twice, but not of a constant operand") {
  const std::string mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 ";
  const auto warnings = [&](const std::string& operands) {
    return nlohmann::json::parse(run({"decode", mma + operands, "--json"}).out)
        .value("warnings", nlohmann::json::array());
  };
  const auto twice = warnings("{d0,d1,d2,d3},{a0,a2,a2,a3},{b0,b1},{c0,c1,c2,c3};");
  REQUIRE(twice.size() == 1);
  CHECK(twice[0]["field"] == "a");
  CHECK(warnings("{d0,d1,d1,d3},{a0,a1,a2,a3},{b0,b1},{c0,c1,c2,c3};")[0]["field"] == "d");
  CHECK(warnings("{d0,d1,d2,d3},{a0,a1,a2,a3},{b0,b1},{c0,c1,c2,c3};").empty());
  CHECK(warnings("{d0,d1,d2,d3},{r,r,r,r},{s,s},{z,z,z,z};").empty());
}
