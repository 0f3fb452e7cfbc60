// Single instructions: their words, from the PTX ISA or computed by hand.
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;
using test::run_words;

namespace {

struct Example {
  const char* ptx;  // reads %r1 ... %r4, writes %r10
  std::vector<uint32_t> inputs;
  uint32_t expected;
};

}  // namespace

TEST_CASE("integer and bit instructions give the words that the PTX ISA says") {
  const std::vector<Example> examples{
      {"add.s32 %r10, %r1, %r2;", {0xFFFFFFFF, 2}, 1},
      {"add.sat.s32 %r10, %r1, %r2;", {0x7FFFFFFF, 2}, 0x7FFFFFFF},
      {"sub.sat.s32 %r10, %r1, %r2;", {0x80000000, 2}, 0x80000000},
      {"mul.lo.s32 %r10, %r1, %r2;", {0xFFFFFFFF, 7}, 0xFFFFFFF9},
      {"mul.hi.s32 %r10, %r1, %r2;", {0xFFFFFFFF, 7}, 0xFFFFFFFF},
      {"mul.hi.u32 %r10, %r1, %r2;", {0xFFFFFFFF, 7}, 6},
      {"mul.wide.s32 %rd5, %r1, %r2;\nmov.b64 {%r11, %r10}, %rd5;", {0xFFFFFFFF, 7}, 0xFFFFFFFF},
      {"mul.wide.u32 %rd5, %r1, %r2;\nmov.b64 {%r11, %r10}, %rd5;", {0xFFFFFFFF, 7}, 6},
      {"mad.lo.s32 %r10, %r1, %r2, %r3;", {5, 6, 7}, 37},
      {"mad.hi.u32 %r10, %r1, %r2, %r3;", {0x80000000, 6, 7}, 10},
      {"mul24.lo.s32 %r10, %r1, %r2;", {0x00FFFFFF, 3}, 0xFFFFFFFD},
      {"div.s32 %r10, %r1, %r2;", {0xFFFFFFF9, 2}, 0xFFFFFFFD},
      {"rem.s32 %r10, %r1, %r2;", {0xFFFFFFF9, 2}, 0xFFFFFFFF},
      {"div.s32 %r10, %r1, %r2;", {0x80000000, 0xFFFFFFFF}, 0x80000000},
      {"div.u32 %r10, %r1, %r2;", {7, 0}, 0xFFFFFFFF},
      {"min.s32 %r10, %r1, %r2;", {0xFFFFFFFF, 1}, 0xFFFFFFFF},
      {"max.u32 %r10, %r1, %r2;", {0xFFFFFFFF, 1}, 0xFFFFFFFF},
      {"abs.s32 %r10, %r1;", {0xFFFFFFFB}, 5},
      {"neg.s32 %r10, %r1;", {5}, 0xFFFFFFFB},
      {"sad.s32 %r10, %r1, %r2, %r3;", {0xFFFFFFFF, 4, 10}, 15},
      {"and.b32 %r10, %r1, %r2;", {0xFF00FF00, 0x0FF00FF0}, 0x0F000F00},
      {"not.b32 %r10, %r1;", {0xFF00FF00}, 0x00FF00FF},
      {"cnot.b32 %r10, %r1;", {0}, 1},
      {"shl.b32 %r10, %r1, %r2;", {3, 32}, 0},
      {"shl.b32 %r10, %r1, %r2;", {3, 31}, 0x80000000},
      {"shr.s32 %r10, %r1, %r2;", {0x80000000, 40}, 0xFFFFFFFF},
      {"shr.u32 %r10, %r1, %r2;", {0x80000000, 31}, 1},
      {"shf.l.wrap.b32 %r10, %r1, %r2, %r3;", {0x80000001, 0x12345678, 4}, 0x23456788},
      {"shf.r.wrap.b32 %r10, %r1, %r2, %r3;", {0x80000001, 0x12345678, 4}, 0x88000000},
      {"shf.l.clamp.b32 %r10, %r1, %r2, %r3;", {0x80000001, 0x12345678, 40}, 0x80000001},
      {"lop3.b32 %r10, %r1, %r2, %r3, 0x96;", {0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA}, 0x96969696},
      {"lop3.b32 %r10, %r1, %r2, %r3, 0xE8;", {0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA}, 0xE8E8E8E8},
      {"prmt.b32 %r10, %r1, %r2, %r3;", {0x44332211, 0x88776655, 0x5140}, 0x66225511},
      {"prmt.b32 %r10, %r1, %r2, %r3;", {0x80332211, 0x88776655, 0x000B}, 0x111111FF},
      {"prmt.b32.f4e %r10, %r1, %r2, %r3;", {0x44332211, 0x88776655, 1}, 0x55443322},
      {"popc.b32 %r10, %r1;", {0xF0F0F001}, 13},
      {"clz.b32 %r10, %r1;", {0x00010000}, 15},
      {"clz.b32 %r10, %r1;", {0}, 32},
      {"bfind.u32 %r10, %r1;", {0x00010000}, 16},
      {"bfind.s32 %r10, %r1;", {0xFFFFFFFF}, 0xFFFFFFFF},
      {"bfind.shiftamt.u32 %r10, %r1;", {0x00010000}, 15},
      {"brev.b32 %r10, %r1;", {1}, 0x80000000},
      {"bfe.u32 %r10, %r1, %r2, %r3;", {0x12345678, 8, 8}, 0x56},
      {"bfe.s32 %r10, %r1, %r2, %r3;", {0x0000F000, 12, 4}, 0xFFFFFFFF},
      {"bfe.s32 %r10, %r1, %r2, %r3;", {0x80000000, 28, 16}, 0xFFFFFFF8},
      {"bfe.u32 %r10, %r1, %r2, %r3;", {0x80000000, 28, 0}, 0},
      {"bfi.b32 %r10, %r1, %r2, %r3, %r4;", {0xAB, 0xFFFFFFFF, 8, 8}, 0xFFFFABFF},
      {"dp4a.s32.s32 %r10, %r1, %r2, %r3;", {0x01FF0203, 0x02030405, 10}, 10 + 2 - 3 + 8 + 15},
      {"dp4a.u32.u32 %r10, %r1, %r2, %r3;", {0xFF000000, 0xFF000000, 0}, 255 * 255},
      {"dp2a.lo.u32.u32 %r10, %r1, %r2, %r3;", {0x00020003, 0x00000405, 1}, 1 + 3 * 5 + 2 * 4},
      {"bmsk.clamp.b32 %r10, %r1, %r2;", {4, 8}, 0xFF0},
      {"add.cc.u32 %r11, %r1, %r2;\naddc.u32 %r10, %r3, %r4;", {0xFFFFFFFF, 1, 5, 6}, 12},
      {"sub.cc.u32 %r11, %r1, %r2;\nsubc.u32 %r10, %r3, %r4;", {0, 1, 5, 3}, 1},
      {"mad.lo.cc.u32 %r11, %r1, %r2, %r3;\nmadc.hi.u32 %r10, %r1, %r2, 0;", {0x80000000, 2, 0xFFFFFFFF}, 1},
      {"setp.lt.s32 %p1, %r1, %r2;\nselp.b32 %r10, 7, 9, %p1;", {0xFFFFFFFF, 1}, 7},
      {"setp.lo.u32 %p1, %r1, %r2;\nselp.b32 %r10, 7, 9, %p1;", {0xFFFFFFFF, 1}, 9},
      {"setp.eq.s32 %p2, %r1, 0;\nsetp.gt.and.s32 %p1|%p3, %r1, %r2, !%p2;\nselp.b32 %r10, 7, 9, %p3;", {1, 0}, 9},
      {"cvt.u32.u16 %r10, %h1;", {}, 0},
      {"cvt.u16.u32 %h1, %r1;\ncvt.s32.s16 %r10, %h1;", {0x0001FFFE}, 0xFFFFFFFE},
      {"cvt.s8.s32 %h1, %r1;\ncvt.s32.s16 %r10, %h1;", {0x180}, 0xFFFFFF80},
      {"cvt.sat.u8.s32 %r10, %r1;", {300}, 255},
      {"mov.b32 {%h1, %h2}, %r1;\nmov.b32 %r10, {%h2, %h1};", {0x12345678}, 0x56781234},
      {"{\n.reg .b32 %r1;\nmov.u32 %r1, 5;\nadd.u32 %r10, %r1, 1;\n}", {9}, 6},
      {"@%p1 mov.u32 %r10, 3;\n@!%p1 mov.u32 %r10, 4;", {}, 4},
      {"add.s16x2 %r10, %r1, %r2;", {0x8001FFFF, 0x80010001}, 0x00020000},
      {"add.u16x2 %r10, %r1, %r2;", {0x00017FFF, 0x00020001}, 0x00038000},
      {"min.s16x2 %r10, %r1, %r2;", {0x0001FFFF, 0xFFFF0001}, 0xFFFFFFFF},
  };
  for (const Example& example : examples) {
    INFO(example.ptx);
    std::vector<uint32_t> words = example.inputs;
    words.resize(8);
    const std::vector<uint32_t> after =
        run_words(std::string(example.ptx) + "\nst.global.u32 [%rd1+28], %r10;", words, 4);
    CHECK(after[7] == example.expected);
  }
}

TEST_CASE("floating-point instructions give the words of layer math, and selections those of the PTX ISA") {
  const std::vector<Example> examples{
      {"fma.rn.f32 %r10, %r1, %r2, %r3;", {0x3F800001, 0x3F800001, 0xBF800000}, 0x34800000},
      {"add.ftz.f32 %r10, %r1, %r2;", {0x00000001, 0x00000001}, 0},
      {"add.f32 %r10, %r1, %r2;", {0x00000001, 0x00000001}, 2},
      {"add.rz.f32 %r10, %r1, %r2;", {0x3F800000, 0x33C00000}, 0x3F800000},
      {"add.rp.f32 %r10, %r1, %r2;", {0x3F800000, 0x33000000}, 0x3F800001},
      {"add.sat.f32 %r10, %r1, %r2;", {0x3F800000, 0x3F800000}, 0x3F800000},
      {"mul.f32 %r10, %r1, %r2;", {0x7F800000, 0}, 0x7FFFFFFF},
      {"div.rn.f32 %r10, %r1, %r2;", {0x3F800000, 0x40400000}, 0x3EAAAAAB},
      {"ex2.approx.ftz.f32 %r10, %r1;", {0x3E99999A}, 0x3F9D9624},
      {"rcp.approx.ftz.f32 %r10, %r1;", {0x3FA00001}, 0x3F4CCCCC},
      {"max.f32 %r10, %r1, %r2;", {0x7FC00000, 0x3F800000}, 0x3F800000},
      {"max.NaN.f32 %r10, %r1, %r2;", {0x7FC00000, 0x3F800000}, 0x7FFFFFFF},
      {"min.f32 %r10, %r1, %r2;", {0x80000000, 0}, 0x80000000},
      {"max.f32 %r10, %r1, %r2;", {0x80000000, 0}, 0},
      {"abs.f32 %r10, %r1;", {0xBF800000}, 0x3F800000},
      {"neg.ftz.f32 %r10, %r1;", {0x00000001}, 0x80000000},
      {"copysign.f32 %r10, %r1, %r2;", {0x80000000, 0x3F800000}, 0xBF800000},
      {"setp.neu.f32 %p1, %r1, %r1;\nselp.b32 %r10, 1, 2, %p1;", {0x7FC00000}, 1},
      {"setp.ne.f32 %p1, %r1, %r1;\nselp.b32 %r10, 1, 2, %p1;", {0x7FC00000}, 2},
      {"setp.eq.f32 %p1, %r1, 0f00000000;\nselp.b32 %r10, 1, 2, %p1;", {0x80000000}, 1},
      {"setp.gt.ftz.f32 %p1, %r1, 0f00000000;\nselp.b32 %r10, 1, 2, %p1;", {1}, 2},
      {"cvt.rn.f16x2.f32 %r10, %r1, %r2;", {0x3F800000, 0x40000000}, 0x3C004000},
      {"fma.rn.f16x2 %r10, %r1, %r2, %r3;", {0x3C004000, 0x40004000, 0x3C003C00}, 0x42004500},
      {"max.bf16x2 %r10, %r1, %r2;", {0x3F80BF80, 0x40000000}, 0x40000000},
      {"cvt.f64.f32 %rd5, %r1;\nadd.f64 %rd6, %rd5, 0d3FF0000000000000;\ncvt.rn.f32.f64 %r10, %rd6;",
       {0x3F800000},
       0x40000000},
      {"cvt.rzi.s32.f32 %r10, %r1;", {0xC0600000}, 0xFFFFFFFD},
      // As cuda_bf16.hpp writes it.
      {"{.reg .b8 byte;\n.reg .b16 half, pair;\ncvt.u16.u32 half, %r1;\ncvt.rzi.s8.bf16 byte, half;\n"
       "mov.b16 pair, {byte, 0};\ncvt.u32.u16 %r10, pair;}",
       {0xC2FF},
       0x81},
      {"{.reg .b8 byte;\n.reg .b16 half;\ncvt.u8.u32 byte, %r1;\ncvt.rn.bf16.s8 half, byte;\n"
       "cvt.u32.u16 %r10, half;}",
       {0x81},
       0xC2FE},
      // ptxas takes modifiers in any order, and behind the types.
      {"fma.rn.bf16x2.relu %r10, %r1, %r2, %r3;", {0xBF803F80, 0x3F803F80, 0}, 0x00003F80},
      {"add.f32.sat.rz.ftz %r10, %r1, %r2;", {0x3F800000, 0x3F800000}, 0x3F800000},
      {"max.f32.NaN.ftz %r10, %r1, %r2;", {0x7FC00000, 0x3F800000}, 0x7FFFFFFF},
      {"cvt.f16x2.relu.f32.rn %r10, %r1, %r2;", {0xBF800000, 0x40000000}, 0x00004000},
      {"cvt.s32.f32.rzi %r10, %r1;", {0xC0600000}, 0xFFFFFFFD},
      {"mov.f32 %r10, 0.5;", {}, 0x3F000000},
  };
  for (const Example& example : examples) {
    INFO(example.ptx);
    std::vector<uint32_t> words = example.inputs;
    words.resize(8);
    const std::vector<uint32_t> after =
        run_words(std::string(example.ptx) + "\nst.global.u32 [%rd1+28], %r10;", words, 4);
    CHECK(after[7] == example.expected);
  }
}

TEST_CASE("memory instructions: vectors, sign extension, spaces, generic addresses, atomics, cp.async") {
  // Words 0..3 are given; the kernel leaves its result in word 7.
  const std::vector<Example> examples{
      {"ld.global.v2.u32 {%r10, %r11}, [%rd1];\nadd.u32 %r10, %r10, %r11;", {5, 6}, 11},
      {"ld.global.s8 %r10, [%rd1+1];", {0x8000}, 0xFFFFFF80},
      {"ld.global.u8 %r10, [%rd1+1];", {0x8000}, 0x80},
      {"ld.global.s16 %r10, [%rd1];", {0x8000}, 0xFFFF8000},
      {".shared .align 4 .b8 s[16];\nst.shared.u32 [s+4], %r1;\nld.shared.u32 %r10, [s+4];", {77}, 77},
      {".shared .align 4 .b8 t[16];\nmov.u64 %rd5, t;\ncvta.shared.u64 %rd6, %rd5;\nst.u32 [%rd6+8], "
       "%r1;\ncvta.to.shared.u64 %rd7, "
       "%rd6;\nld.shared.u32 %r10, [%rd7+8];",
       {78},
       78},
      {".local .align 8 .b8 l[16];\nmov.u64 %rd5, l;\ncvta.local.u64 %rd6, %rd5;\nst.u32 [%rd6], %r1;\nld.local.u32 "
       "%r10, [l];",
       {79},
       79},
      {"mov.u64 %rd5, %rd1;\nisspacep.global %p1, %rd5;\nselp.u32 %r10, 1, 0, %p1;", {}, 1},
      {"atom.global.add.u32 %r10, [%rd1], 5;", {7}, 7},
      {"red.global.max.s32 [%rd1], %r2;\nld.global.u32 %r10, [%rd1];", {0xFFFFFFFF, 3}, 3},
      {"atom.global.cas.b32 %r11, [%rd1], %r1, 9;\nld.global.u32 %r10, [%rd1];", {7}, 9},
      {"atom.global.inc.u32 %r11, [%rd1], 7;\nld.global.u32 %r10, [%rd1];", {7}, 0},
      {"atom.global.add.f32 %f1, [%rd1], 0f3F800000;\nld.global.u32 %r10, [%rd1];", {0x3F800000}, 0x40000000},
      {".shared .align 16 .b8 a[16];\nmov.u32 %r5, a;\ncp.async.ca.shared.global [%r5], [%rd1], "
       "16;\ncp.async.wait_all;\nld.shared.u32 "
       "%r10, [%r5+12];",
       {1, 2, 3, 4},
       4},
      {".shared .align 16 .b8 b[16];\nmov.u32 %r5, b;\nmov.u32 %r6, 4;\ncp.async.cg.shared.global [%r5], [%rd1], 16, "
       "%r6;\ncp.async.wait_all;\nld.shared.u32 %r10, [%r5+4];",
       {1, 2, 3, 4},
       0},
  };
  for (const Example& example : examples) {
    INFO(example.ptx);
    std::vector<uint32_t> words = example.inputs;
    words.resize(8);
    const std::vector<uint32_t> after =
        run_words(std::string(example.ptx) + "\nst.global.u32 [%rd1+28], %r10;", words, 4);
    CHECK(after[7] == example.expected);
  }
  // A copy that was not waited for is not there.
  const PtxEntry early(
      test::module_of(".shared .align 16 .b8 a[16];\nmov.u32 %r5, a;\ncp.async.ca.shared.global [%r5], [%rd1], "
                      "16;\ncp.async.commit_group;\nld.shared.u32 %r10, [%r5];"));
  std::vector<uint32_t> words(8);
  const auto violation = test::violation_of([&] { launch(early, {.arguments = {test::memory(words)}}); });
  REQUIRE(violation);
  CHECK(violation->code == ViolationCode::unwritten_read);
}

namespace {

/// Word t of what a warp stores: `body` leaves it in %r10.
std::vector<uint32_t> run_warp(const std::string& body, int threads = 32) {
  std::vector<uint32_t> words(static_cast<size_t>(threads));
  const PtxEntry kernel(
      test::module_of("mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\n" + body +
                      "\nst.global.u32 [%rd3], %r10;"));
  launch(kernel, {.block = {threads, 1, 1}, .arguments = {test::memory(words)}});
  return words;
}

}  // namespace

TEST_CASE("lanes tell each other: shfl, vote, match, redux, elect, barriers that reduce") {
  const auto check = [](const std::string& body, const std::function<uint32_t(uint32_t)>& expected, int threads = 32) {
    INFO(body);
    const std::vector<uint32_t> words = run_warp(body, threads);
    for (uint32_t t = 0; t < words.size(); ++t) CHECK(words[t] == expected(t));
  };
  check("shfl.sync.bfly.b32 %r10, %r1, 5, 0x1f, -1;", [](uint32_t t) { return t ^ 5; });
  check("shfl.sync.up.b32 %r10|%p1, %r1, 3, 0, -1;", [](uint32_t t) { return t < 3 ? t : t - 3; });
  check("shfl.sync.up.b32 %r2|%p1, %r1, 3, 0, -1;\nselp.u32 %r10, 1, 0, %p1;", [](uint32_t t) { return t >= 3; });
  check("shfl.sync.down.b32 %r10, %r1, 3, 0x1807, -1;", [](uint32_t t) { return t % 8 + 3 < 8 ? t + 3 : t; });
  check("shfl.sync.idx.b32 %r10, %r1, 9, 0x1f, -1;", [](uint32_t) { return 9U; });
  check("setp.lt.u32 %p1, %r1, 7;\nvote.sync.ballot.b32 %r10, %p1, -1;", [](uint32_t) { return 0x7FU; });
  check("setp.lt.u32 %p1, %r1, 7;\nvote.sync.any.pred %p2, %p1, -1;\nselp.u32 %r10, 1, 0, %p2;",
        [](uint32_t) { return 1U; });
  check("setp.lt.u32 %p1, %r1, 7;\nvote.sync.all.pred %p2, !%p1, -1;\nselp.u32 %r10, 1, 0, %p2;",
        [](uint32_t) { return 0U; });
  check("shr.u32 %r2, %r1, 3;\nmatch.any.sync.b32 %r10, %r2, -1;", [](uint32_t t) { return 0xFFU << t / 8 * 8; });
  check("redux.sync.add.s32 %r10, %r1, -1;", [](uint32_t) { return 496U; });
  check("elect.sync %r10|%p1, -1;", [](uint32_t) { return 0U; });
  // Element (r, c) of the matrix is 8 r + c: lane t holds those of row t / 4, columns 2 (t % 4) and the next.
  check(
      "shl.b32 %r2, %r1, 1;\nadd.u32 %r3, %r2, 1;\nshl.b32 %r3, %r3, 16;\nor.b32 %r2, %r2, %r3;\n"
      "movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r2;",
      [](uint32_t t) { return (16 * (t % 4) + t / 4) | (16 * (t % 4) + 8 + t / 4) << 16; });
  check("activemask.b32 %r10;", [](uint32_t) { return 0xFFFFFFFFU; });
  check(
      "setp.lt.u32 %p1, %r1, 40;\nbar.red.popc.u32 %r10, 0, %p1;", [](uint32_t) { return 40U; }, 96);
  // Half of a warp is behind a branch; the other half comes to another shuffle.
  check(
      "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra LOW;\nshfl.sync.bfly.b32 %r10, %r1, 1, 0x1f, 0xffff0000;\nbra.uni "
      "END;\nLOW:\n"
      "shfl.sync.bfly.b32 %r10, %r1, 2, 0x1f, 0xffff;\nEND:",
      [](uint32_t t) { return t < 16 ? t ^ 2 : t ^ 1; });
  // Lanes that part before a barrier wait there for each other, also where their paths meet nowhere before the end.
  check(
      "mov.u32 %r10, 1;\nsetp.lt.u32 %p1, %r1, 16;\nsetp.eq.u32 %p2, %r1, 3;\n@!%p1 bra JOIN;\n@%p2 bra OUT;\nmov.u32 "
      "%r10, 2;\nJOIN:\n"
      "bar.sync 0;\nadd.u32 %r10, %r10, 4;\nOUT:",
      [](uint32_t t) { return t == 3   ? 1U
                              : t < 16 ? 6U
                                       : 5U; }, 64);
}

TEST_CASE("NaN of f64 come through as an H100 lets them") {
  struct Row {
    std::string_view ptx;
    uint64_t a, b, c, expected;
  };
  const std::vector<Row> measured{
      // driver 580.159.04, CUDA 13.0
      {"sub.rn.f64 %rd10, %rd2, %rd3;", 0x3ff0000000000000, 0x7ff0000000000789, 0, 0x7ff8000000000789},
      {"div.rn.f64 %rd10, %rd2, %rd3;", 0x3ff0000000000000, 0x7ff0000000000789, 0, 0x7ff8000000000789},
      {"add.rm.f64 %rd10, %rd2, %rd3;", 0x3ff0000000000000, 0x7ff0000000000789, 0, 0x7ff8000000000789},
      {"min.f64 %rd10, %rd2, %rd3;", 0x3ff0000000000000, 0x7ff0000000000789, 0, 0x3ff0000000000000},
      {"max.f64 %rd10, %rd2, %rd3;", 0x3ff0000000000000, 0x7ff0000000000789, 0, 0x3ff0000000000000},
      {"rcp.rn.f64 %rd10, %rd2;", 0x3ff0000000000000, 0, 0, 0x3ff0000000000000},
      {"sqrt.rn.f64 %rd10, %rd2;", 0x3ff0000000000000, 0, 0, 0x3ff0000000000000},
      {"sub.rn.f64 %rd10, %rd2, %rd3;", 0x7ff8000000000123, 0xfff8000000000456, 0, 0xfff8000000000456},
      {"div.rn.f64 %rd10, %rd2, %rd3;", 0x7ff8000000000123, 0xfff8000000000456, 0, 0x7ff8000000000123},
      {"add.rm.f64 %rd10, %rd2, %rd3;", 0x7ff8000000000123, 0xfff8000000000456, 0, 0xfff8000000000456},
      {"min.f64 %rd10, %rd2, %rd3;", 0x7ff8000000000123, 0xfff8000000000456, 0, 0xfff8000000000456},
      {"max.f64 %rd10, %rd2, %rd3;", 0x7ff8000000000123, 0xfff8000000000456, 0, 0xfff8000000000456},
      {"rcp.rn.f64 %rd10, %rd2;", 0x7ff8000000000123, 0, 0, 0x7ff8000000000123},
      {"sqrt.rn.f64 %rd10, %rd2;", 0x7ff8000000000123, 0, 0, 0x7ff8000000000123},
      {"sub.rn.f64 %rd10, %rd2, %rd3;", 0xfff4000000000abc, 0x7ff8000000000123, 0, 0x7ff8000000000123},
      {"div.rn.f64 %rd10, %rd2, %rd3;", 0xfff4000000000abc, 0x7ff8000000000123, 0, 0xfffc000000000abc},
      {"add.rm.f64 %rd10, %rd2, %rd3;", 0xfff4000000000abc, 0x7ff8000000000123, 0, 0x7ff8000000000123},
      {"min.f64 %rd10, %rd2, %rd3;", 0xfff4000000000abc, 0x7ff8000000000123, 0, 0x7ff8000000000123},
      {"max.f64 %rd10, %rd2, %rd3;", 0xfff4000000000abc, 0x7ff8000000000123, 0, 0x7ff8000000000123},
      {"rcp.rn.f64 %rd10, %rd2;", 0xfff4000000000abc, 0, 0, 0xfffc000000000abc},
      {"sqrt.rn.f64 %rd10, %rd2;", 0xfff4000000000abc, 0, 0, 0xfffc000000000abc},
      {"sub.rn.f64 %rd10, %rd2, %rd3;", 0x7ff0000000000000, 0x7ff0000000000000, 0, 0xfff8000000000000},
      {"div.rn.f64 %rd10, %rd2, %rd3;", 0x7ff0000000000000, 0x7ff0000000000000, 0, 0xfff8000000000000},
      {"add.rm.f64 %rd10, %rd2, %rd3;", 0x7ff0000000000000, 0x7ff0000000000000, 0, 0x7ff0000000000000},
      {"min.f64 %rd10, %rd2, %rd3;", 0x7ff0000000000000, 0x7ff0000000000000, 0, 0x7ff0000000000000},
      {"max.f64 %rd10, %rd2, %rd3;", 0x7ff0000000000000, 0x7ff0000000000000, 0, 0x7ff0000000000000},
      {"rcp.rn.f64 %rd10, %rd2;", 0x7ff0000000000000, 0, 0, 0x0000000000000000},
      {"sqrt.rn.f64 %rd10, %rd2;", 0x7ff0000000000000, 0, 0, 0x7ff0000000000000},
      {"sub.rn.f64 %rd10, %rd2, %rd3;", 0x7ff0000000000000, 0xfff0000000000000, 0, 0x7ff0000000000000},
      {"div.rn.f64 %rd10, %rd2, %rd3;", 0x7ff0000000000000, 0xfff0000000000000, 0, 0xfff8000000000000},
      {"add.rm.f64 %rd10, %rd2, %rd3;", 0x7ff0000000000000, 0xfff0000000000000, 0, 0xfff8000000000000},
      {"min.f64 %rd10, %rd2, %rd3;", 0x7ff0000000000000, 0xfff0000000000000, 0, 0xfff0000000000000},
      {"max.f64 %rd10, %rd2, %rd3;", 0x7ff0000000000000, 0xfff0000000000000, 0, 0x7ff0000000000000},
      {"rcp.rn.f64 %rd10, %rd2;", 0x7ff0000000000000, 0, 0, 0x0000000000000000},
      {"sqrt.rn.f64 %rd10, %rd2;", 0x7ff0000000000000, 0, 0, 0x7ff0000000000000},
      {"sub.rn.f64 %rd10, %rd2, %rd3;", 0xfff0000000000000, 0x0000000000000000, 0, 0xfff0000000000000},
      {"div.rn.f64 %rd10, %rd2, %rd3;", 0xfff0000000000000, 0x0000000000000000, 0, 0xfff0000000000000},
      {"add.rm.f64 %rd10, %rd2, %rd3;", 0xfff0000000000000, 0x0000000000000000, 0, 0xfff0000000000000},
      {"min.f64 %rd10, %rd2, %rd3;", 0xfff0000000000000, 0x0000000000000000, 0, 0xfff0000000000000},
      {"max.f64 %rd10, %rd2, %rd3;", 0xfff0000000000000, 0x0000000000000000, 0, 0x0000000000000000},
      {"rcp.rn.f64 %rd10, %rd2;", 0xfff0000000000000, 0, 0, 0x8000000000000000},
      {"sqrt.rn.f64 %rd10, %rd2;", 0xfff0000000000000, 0, 0, 0xfff8000000000000},
      {"fma.rn.f64 %rd10, %rd2, %rd3, %rd4;", 0x7ff8000000000123, 0xfff8000000000456, 0xfff4000000000abc,
       0xfff8000000000456},
      {"fma.rn.f64 %rd10, %rd2, %rd3, %rd4;", 0x7ff8000000000123, 0xfff8000000000456, 0x3ff0000000000000,
       0xfff8000000000456},
      {"fma.rn.f64 %rd10, %rd2, %rd3, %rd4;", 0x7ff8000000000123, 0x3ff0000000000000, 0xfff4000000000abc,
       0xfffc000000000abc},
      {"fma.rn.f64 %rd10, %rd2, %rd3, %rd4;", 0x3ff0000000000000, 0xfff8000000000456, 0xfff4000000000abc,
       0xfff8000000000456},
      {"fma.rn.f64 %rd10, %rd2, %rd3, %rd4;", 0x3ff0000000000000, 0x3ff0000000000000, 0xfff4000000000abc,
       0xfffc000000000abc},
      {"fma.rn.f64 %rd10, %rd2, %rd3, %rd4;", 0x7ff8000000000123, 0x3ff0000000000000, 0x3ff0000000000000,
       0x7ff8000000000123},
      {"fma.rn.f64 %rd10, %rd2, %rd3, %rd4;", 0x7ff0000000000000, 0x0000000000000000, 0x7ff8000000000123,
       0x7ff8000000000123},
      {"fma.rn.f64 %rd10, %rd2, %rd3, %rd4;", 0x7ff0000000000000, 0x0000000000000000, 0x3ff0000000000000,
       0xfff8000000000000},
  };
  for (const Row& row : measured) {
    std::vector<uint64_t> words{row.a, row.b, row.c, 0};
    const PtxEntry kernel(
        test::module_of("ld.global.b64 %rd2, [%rd1];\nld.global.b64 %rd3, [%rd1+8];\n"
                        "ld.global.b64 %rd4, [%rd1+16];\n" +
                        std::string(row.ptx) + "\nst.global.b64 [%rd1+24], %rd10;"));
    launch(kernel, {.arguments = {test::memory(words)}});
    INFO(row.ptx << std::hex << " of " << row.a << ", " << row.b << ", " << row.c);
    CHECK(words[3] == row.expected);
  }
}
