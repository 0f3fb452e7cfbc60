#include <nlohmann/json.hpp>

#include "run.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::f16, test::Outcome, test::run, test::run_line;

namespace {

const test::BadRequests bad_requests({
    {"decode 0xZZ", "descriptor = 0xZZ"},
    {"decode 0x10000000000000000", "a 64-bit number"},
    {"decode 0x6000000000000000 --arch sm_100a", "swizzle of descriptor 0x6000000000000000 = 3"},
    {"decode 0x0 --arch sm_80", "--arch = sm_80"},
    {"decode 0x0 --major m", "--major"},
    {"decode wgmma.mma_async.sync.aligned.m64n9k16.f32.f16.f16", "n = 9"},
    {"decode 0x08100010 --kind f17", "--kind = f17"},
    {"decode 0x108100010 --kind f16", "a 32-bit number"},
    {"decode 0x08100050 --kind f16", "reserved bits = 0x00000040"},
    {"decode 0x0 --zero-column-mask --m 16", "--m, --n = 16, 256"},
    {"decode 0x1000000000 --zero-column-mask", "reserved bits of the zero-column mask"},
    {"decode 0x0 --target sm_80", "--target, --arch = sm_80: legal is sm_90a"},
    {"decode 0x0 --target sm_91", "--arch = sm_91"},
    {"decode wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 --target sm_100a", "target = sm_100a: legal is sm_90a"},
});

}  // namespace

TEST_CASE("decode refuses bad requests: message and exit code of each") { bad_requests.check(); }

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
