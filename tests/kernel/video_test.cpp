// SPDX-License-Identifier: MIT
// Video instructions: parts of operands and of the result, saturation, second operations. Expected words follow the
// steps of the PTX ISA by hand, except where the SASS of ptxas 13.0 differs. data/kernels/programs.tar.xz has SIMD
// video instructions on a GPU.
#include <fmt/format.h>

#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;

namespace {

/// What the instruction leaves in %r4, of words in %r1, %r2 and %r3.
uint32_t result_of(std::string_view opcode, std::string_view operands, uint32_t a, uint32_t b, uint32_t c) {
  return test::run_words(fmt::format("{} {};\nst.global.u32 [%rd1], %r4;", opcode, operands), {a, b, c}, 3)[0];
}

constexpr std::string_view two = "%r4, %r1, %r2", three = "%r4, %r1, %r2, %r3";

}  // namespace

TEST_CASE("scalar video instructions have 33 bits before they saturate") {
  CHECK(result_of("vadd.u32.u32.u32", two, 0xFFFFFFFF, 2, 0) == 1);
  CHECK(result_of("vadd.s32.u32.u32.sat", two, 0x7FFFFFFF, 2, 0) == 0x7FFFFFFF);
  CHECK(result_of("vadd.s32.u32.s32.sat", two, 0xFFFFFFFF, 0xFFFFFFFF, 0) == 0x7FFFFFFF);
  CHECK(result_of("vsub.u32.u32.u32.sat", two, 1, 2, 0) == 0);
  CHECK(result_of("vsub.s32.s32.s32.sat", two, 0x80000000, 1, 0) == 0x80000000);
  CHECK(result_of("vsub.s32.u32.u32", two, 1, 2, 0) == 0xFFFFFFFF);
  CHECK(result_of("vabsdiff.u32.s32.s32", two, 0x80000000, 0x7FFFFFFF, 0) == 0xFFFFFFFF);
  CHECK(result_of("vabsdiff.s32.s32.s32.sat", two, 0x80000000, 0x7FFFFFFF, 0) == 0x7FFFFFFF);
  CHECK(result_of("vmin.s32.u32.s32", two, 5, 0xFFFFFFFE, 0) == 0xFFFFFFFE);
  CHECK(result_of("vmax.u32.u32.s32", two, 0x80000000, 0xFFFFFFFE, 0) == 0x80000000);
}

TEST_CASE("scalar video instructions take parts of their operands, and write a part beside those of c") {
  CHECK(result_of("vadd.s32.s32.s32", "%r4, %r1.b3, %r2.h1", 0x80000000, 0x00030000, 0) == 0xFFFFFF83);
  CHECK(result_of("vadd.s32.u32.u32", "%r4, %r1.b0, %r2.b1", 0x01020304, 0x0000FF00, 0) == 0x103);
  CHECK(result_of("vadd.u32.u32.u32", "%r4.b2, %r1.h0, %r2.h1, %r3", 0x00001234, 0x00010000, 0xAABBCCDD) == 0xAA35CCDD);
  CHECK(result_of("vadd.u32.u32.u32.sat", "%r4.b2, %r1, %r2, %r3", 0x1234, 1, 0xAABBCCDD) == 0xAAFFCCDD);
}

TEST_CASE("the second operation of a video instruction has c with the sign of the result") {
  CHECK(result_of("vadd.u32.u32.u32.add", three, 1, 2, 10) == 13);
  CHECK(result_of("vsub.s32.u32.u32.min", three, 1, 2, 5) == 0xFFFFFFFF);
  CHECK(result_of("vadd.s32.u32.u32.max", three, 1, 2, 0xFFFFFFFF) == 3);
  CHECK(result_of("vadd.u32.u32.u32.max", three, 1, 2, 0xFFFFFFFE) == 0xFFFFFFFE);
  CHECK(result_of("vset.s32.u32.lt.add", three, 0xFFFFFFFF, 0, 41) == 42);
  CHECK(result_of("vset.u32.s32.lt", "%r4.h1, %r1, %r2, %r3", 0xFFFFFFFF, 0, 0x12345678) == 0x00005678);
}

TEST_CASE("vshl and vshr clamp or wrap the number of bits") {
  CHECK(result_of("vshl.u32.u32.u32.wrap", two, 3, 33, 0) == 6);
  CHECK(result_of("vshl.u32.u32.u32.clamp", two, 3, 33, 0) == 0);
  CHECK(result_of("vshl.u32.u32.u32.sat.clamp", two, 3, 31, 0) == 0xFFFFFFFF);
  CHECK(result_of("vshl.s32.s32.u32.sat.clamp", two, 0xFFFFFFFE, 31, 0) == 0x80000000);
  CHECK(result_of("vshr.s32.s32.u32.clamp", two, 0x80000000, 200, 0) == 0xFFFFFFFF);
  CHECK(result_of("vshr.u32.u32.u32.clamp", two, 0x80000000, 200, 0) == 0);
  CHECK(result_of("vshr.u32.u32.u32.wrap", "%r4, %r1, %r2.b1", 0x80000000, 0x2100, 0) == 0x40000000);
}

TEST_CASE("vmad adds a product of 64 bits and c, with signs, and scales the sum") {
  CHECK(result_of("vmad.u32.u32.u32", three, 0xFFFFFFFF, 0xFFFFFFFF, 5) == 6);
  CHECK(result_of("vmad.u32.u32.u32.sat", three, 0x7FFFFFFF, 3, 5) == 0xFFFFFFFF);
  CHECK(result_of("vmad.s32.s32.s32.sat", three, 0x80000000, 3, 0) == 0x80000000);
  CHECK(result_of("vmad.s32.s32.u32", "%r4, -%r1, %r2, %r3", 7, 3, 1) == 0xFFFFFFEC);
  CHECK(result_of("vmad.s32.u32.u32", "%r4, %r1, %r2, -%r3", 7, 3, 1) == 20);
  CHECK(result_of("vmad.u32.u32.u32.po", three, 7, 3, 1) == 23);
  CHECK(result_of("vmad.u32.u32.u32.shr15", three, 0x10000, 0x10000, 0) == 0x20000);
  CHECK(result_of("vmad.s32.s32.s32.shr7", three, 0xFFFFFFFF, 128, 0) == 0xFFFFFFFF);
  CHECK(result_of("vmad.s32.s32.u32", "%r4, %r1.b0, %r2.h1, %r3", 0x80, 0x00020000, 0) == 0xFFFFFF00);
}

TEST_CASE("scalar video instructions do what ptxas makes of them where that differs from the PTX ISA") {
  // A part of the result that saturates: a negative number becomes the greatest.
  CHECK(result_of("vadd.u32.u32.s32.sat", "%r4.b3, %r1.b3, %r2.h1, %r3", 0xFFFFFFFF, 0xD9CC7D94, 0x1BF3D25E) ==
        0xFFF3D25E);
  CHECK(result_of("vmin.s32.s32.s32.sat", "%r4.b2, %r1, %r2.b3, %r3", 0xA489185E, 0xA489185E, 0xFFFF) == 0x7FFFFF);
  // An unsigned word that is too large wraps.
  CHECK(result_of("vadd.u32.u32.u32.sat", two, 0xFFFFFFFF, 2, 0) == 1);
  CHECK(result_of("vabsdiff.u32.s32.u32.sat", two, 0xC6979AA6, 0xC6979AA6, 0) == 0);
  // .h1 gets the upper half of the result.
  CHECK(result_of("vadd.u32.s32.u32", "%r4.h1, %r1.b2, %r2.b3, %r3", 0x7FFFFFFF, 0x7FFFFFFF, 0xD3E8C82F) == 0xC82F);
  CHECK(result_of("vset.s32.u32.ge", "%r4.h1, %r1.h0, %r2.b3, %r3", 0x7F, 0x7F, 0x2CDAD8C5) == 0xD8C5);
  // .min and .max of an unsigned result: 64 bits with the sign of the result.
  CHECK(result_of("vsub.u32.u32.u32.max", "%r4, %r1.b0, %r2.b0, %r3", 0x1B681822, 0x3BC19FD0, 0x7F800000) ==
        0xFFFFFF52);
  CHECK(result_of("vmax.u32.s32.s32.max", "%r4, %r1.h0, %r2.b1, %r3", 0x938DAD0D, 0x7FFFFF, 0x7E00) == 0xFFFFFFFF);
  // vset has c with the sign of a.
  CHECK(result_of("vset.s32.u32.ge.max", "%r4, %r1, %r2.b2, %r3", 0x34D5C278, 0x34D5C278, 0xA5CC53E4) == 1);
  CHECK(result_of("vset.s32.u32.lt.min", "%r4, %r1.b0, %r2, %r3", 0x5A1576C4, 0xD991381E, 0xB800BD7B) == 0xB800BD7B);
  // vmad has signed words and a signed c.
  CHECK(result_of("vmad.u32.u32.u32.sat.po", "%r4, %r1.b1, %r2.b3, %r3", 0x80, 0xF32180E1, 0xB5A85472) == 0);
  CHECK(result_of("vmad.s32.s32.u32.sat", "%r4, %r1.h1, %r2, -%r3", 0xFFFFFFFF, 0xA625C102, 0x7E00) == 0x59D9C0FE);
}

TEST_CASE("SIMD video instructions select parts of both operands, and write some") {
  CHECK(result_of("vadd2.u32.u32.u32", "%r4, %r1.h32, %r2.h10, %r3", 0x00010002, 0x00100020, 0) == 0x00110022);
  CHECK(result_of("vadd2.u32.u32.u32", "%r4, %r1.h01, %r2.h22, %r3", 0x00010002, 0x00100020, 0) == 0x00220021);
  CHECK(result_of("vadd2.u32.u32.u32", "%r4.h0, %r1, %r2, %r3", 0x00010002, 0x00100020, 0xAABBCCDD) == 0xAABB0022);
  CHECK(result_of("vsub4.s32.u32.u32", "%r4.b31, %r1, %r2, %r3", 0x01020304, 0x02020202, 0xAABBCCDD) == 0xFFBB01DD);
  CHECK(result_of("vabsdiff4.u32.u32.u32.add", "%r4.b20, %r1.b7654, %r2.b0123, %r3", 0x01020304, 0x10203040, 100) ==
        100 + 0x1D + 0x3F);
}

TEST_CASE("parts of registers belong to video instructions, and these refuse wrong ones") {
  const auto refuses = [](std::string_view statement) {
    CHECK_THROWS_MATCHES(PtxEntry(test::module_of(statement)), Error,
                         test::refused(ViolationCode::unsupported_ptx, "PTX line 12"));
  };
  refuses("add.u32 %r4, %r1.h0, %r2;");
  refuses("mov.u32 %r4, -%r1;");
  refuses("vadd.u32.u32.u32 %r4, %r1.b4, %r2;");
  refuses("vadd.u32.u32.u32 %r4.b0, %r1, %r2;");
  refuses("vadd.u32.u32.u32 %r4, -%r1, %r2;");
  refuses("vadd2.u32.u32.u32 %r4, %r1.h40, %r2, %r3;");
  refuses("vadd2.u32.u32.u32 %r4.h01, %r1, %r2, %r3;");
  refuses("vmad.s32.s32.s32 %r4, -%r1, %r2, -%r3;");
  refuses("vshl.u32.u32.s32.clamp %r4, %r1, %r2;");
}
