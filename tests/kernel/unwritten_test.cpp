// SPDX-License-Identifier: MIT
// Values of shared memory that nothing wrote, in matrices: they reach the rows and columns of a product that depend on
// them, and no others.
#include <fmt/format.h>

#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/violation.hpp"

using namespace bitmma;
using test::memory;

namespace {

/// A warp fills `rows` of 16 rows of A, 16 f16 each, and 8 columns of B; the product's rows go to global memory where
/// their number is below `stored`, and the whole of them has a word each in registers.
std::string product_of(int rows, int stored) {
  return test::module_of(fmt::format(
      ".shared .align 16 .b8 a[512];\n.shared .align 16 .b8 b[256];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, a;\n"
      "mov.u32 %r3, b;\nshl.b32 %r4, %r1, 4;\nadd.u32 %r5, %r2, %r4;\nadd.u32 %r6, %r3, %r4;\nmov.u32 %r7, "
      "0x3C003C00;\n"
      // Thread i: half a row of A and, below 16, half a column of B.
      "setp.lt.u32 %p1, %r1, {};\n@%p1 st.shared.v4.u32 [%r5], {{%r7, %r7, %r7, %r7}};\nsetp.lt.u32 %p2, %r1, 16;\n"
      "@%p2 st.shared.v4.u32 [%r6], {{%r7, %r7, %r7, %r7}};\nbar.sync 0;\n"
      // Row i % 16 of half i / 16 of A, row i % 8 of half i / 8 % 2 of B.
      "and.b32 %r8, %r1, 15;\nshl.b32 %r8, %r8, 5;\nshr.u32 %r9, %r1, 4;\nshl.b32 %r9, %r9, 4;\nadd.u32 %r8, %r8, "
      "%r9;\n"
      "add.u32 %r8, %r8, %r2;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r8];\n"
      "and.b32 %r8, %r1, 7;\nshl.b32 %r8, %r8, 5;\nshr.u32 %r9, %r1, 3;\nand.b32 %r9, %r9, 1;\nshl.b32 %r9, %r9, 4;\n"
      "add.u32 %r8, %r8, %r9;\nadd.u32 %r8, %r8, %r3;\nldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r14, %r15}}, "
      "[%r8];\n"
      "mov.f32 %f1, 0f00000000;\nmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f2, %f3, %f4, %f5}}, "
      "{{%r10, %r11, %r12, %r13}}, {{%r14, %r15}}, {{%f1, %f1, %f1, %f1}};\n"
      "shr.u32 %r16, %r1, 2;\nadd.u32 %r17, %r16, 8;\nmul.wide.u32 %rd2, %r1, 16;\nadd.u64 %rd2, %rd2, %rd1;\n"
      "setp.lt.u32 %p3, %r16, {};\n@%p3 st.global.v2.f32 [%rd2], {{%f2, %f3}};\n"
      "setp.lt.u32 %p4, %r17, {};\n@%p4 st.global.v2.f32 [%rd2+8], {{%f4, %f5}};",
      2 * rows, stored, stored));
}

}  // namespace

TEST_CASE("ldmatrix of unwritten rows is a warning if the rows of the product are discarded, else a fault") {
  const auto run = [](int rows, int stored) {
    std::vector<float> d(128);
    return launch(PtxEntry(product_of(rows, stored)), {.block = {32, 1, 1}, .arguments = {memory(d)}}).warnings;
  };
  CHECK(run(16, 16).empty());
  for (const int rows : {1, 5, 8, 11}) {
    const auto warnings = run(rows, rows);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].code == ViolationCode::unwritten_read);
    CHECK(test::violation_of([&] { run(rows, rows + 1); })->code == ViolationCode::unwritten_read);
  }
}

TEST_CASE("ldmatrix of bytes marks the threads whose elements nothing wrote") {
  // Thread i writes the first `bytes` bytes of row i of 8; thread 4 g + q gets elements 4 q ... 4 q + 3 of row g.
  const auto run = [](int words, int stored_threads) {
    std::vector<uint32_t> d(32);
    const std::string text = fmt::format(
        ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<20>;\n"
        ".reg .b64 %rd<4>;\n.reg .pred %p<4>;\n.shared .align 16 .b8 a[512];\nld.param.u64 %rd1, [p];\n"
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, a;\nshl.b32 %r3, %r1, 4;\nadd.u32 %r3, %r3, %r2;\nmov.u32 %r4, 0;\n"
        "L: shl.b32 %r5, %r4, 2;\nadd.u32 %r5, %r5, %r3;\nst.shared.u32 [%r5], %r4;\nadd.u32 %r4, %r4, 1;\n"
        "setp.lt.u32 %p1, %r4, {};\n@%p1 bra L;\nbar.sync 0;\n"
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {{%r6}}, [%r3];\nand.b32 %r7, %r1, 3;\n"
        "setp.lt.u32 %p2, %r7, {};\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd2, %rd2, %rd1;\n"
        "@%p2 st.global.u32 [%rd2], %r6;\nret;\n}}\n",
        words, stored_threads);
    return launch(PtxEntry(text), {.block = {32, 1, 1}, .arguments = {memory(d)}}).warnings;
  };
  CHECK(run(3, 4).empty());  // 96 bits; the padding may be unwritten
  // Two words have 64 bits: 10 elements and a part, so that the third thread has unwritten bits.
  CHECK(run(2, 2).size() == 1);
  CHECK(test::violation_of([&] { run(2, 3); })->code == ViolationCode::unwritten_read);
}
