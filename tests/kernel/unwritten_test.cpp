// SPDX-License-Identifier: MIT
// Bits of memory that nothing wrote: copies keep them, byte by byte; in matrices they reach the rows and columns of a
// product that depend on them, and no others.
#include <fmt/format.h>

#include "bitmma/kernel/memory.hpp"
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

/// What a kernel of parameters p (%rd1, the output), q (%rd2) and r (%rd3) leaves. q and r are allocations of 16 bytes;
/// of q the host has written bytes 0 to 3 and 8 to 15, as of struct { int a; long b; }.
struct Padded {
  Memory memory = {};
  uint64_t q = memory.allocate(16), r = memory.allocate(16);
  std::vector<uint32_t> p = std::vector<uint32_t>(8);
  LaunchReport report = {};

  explicit Padded(std::string_view body, int threads = 1) {
    constexpr std::array<uint8_t, 4> a{1, 2, 3, 4};
    constexpr std::array<uint8_t, 8> b{5, 6, 7, 8, 9, 10, 11, 12};
    memory.write(q, a);
    memory.write(q + 8, b);
    const uint64_t output = memory.map({reinterpret_cast<uint8_t*>(p.data()), 4 * p.size()});
    const std::string text = fmt::format(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 q, .param .u64 "
        "r)\n"
        "{{\n.reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n.reg .b16 %h<20>;\n.reg .pred %p<10>;\n"
        ".shared .align 16 .b8 s[512];\nld.param.u64 %rd1, [p];\nld.param.u64 %rd2, [q];\nld.param.u64 %rd3, [r];\n"
        "{}\nret;\n}}\n",
        body);
    report =
        launch(PtxEntry(text), {.block = {threads, 1, 1},
                                .arguments = {scalar_argument(output, 8), scalar_argument(q, 8), scalar_argument(r, 8)},
                                .memory = &memory});
  }
};

std::optional<ViolationCode> fault_of(std::string_view body, int threads = 1) {
  const auto violation = test::violation_of([&] { Padded(body, threads); });
  return violation ? std::optional(violation->code) : std::nullopt;
}

}  // namespace

TEST_CASE("the padding of a structure is copied unwritten, and its fields are written values") {
  const std::string load = "ld.global.v2.b64 {%rd4, %rd5}, [%rd2];\n";
  const std::vector<std::string> copies{
      "st.global.v2.b64 [%rd3], {%rd4, %rd5};\n",
      "st.shared.v2.b64 [s], {%rd4, %rd5};\nld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [s];\n"
      "st.global.v4.b32 [%rd3], {%r4, %r5, %r6, %r7};\n",
      "mov.b64 {%r4, %r5}, %rd4;\nmov.b64 %rd6, {%r4, %r5};\nst.global.b64 [%rd3], %rd6;\n"
      "st.global.b64 [%rd3+8], %rd5;\n",
      "shfl.sync.idx.b32 %r1, 0, 0, 31, 1;\nmov.b64 {%r4, %r5}, %rd4;\nshfl.sync.bfly.b32 %r6, %r4, 0, 31, 1;\n"
      "shfl.sync.bfly.b32 %r7, %r5, 0, 31, 1;\nmov.b64 %rd6, {%r6, %r7};\n"
      "st.global.v2.b64 [%rd3], {%rd6, %rd5};\n"};
  for (const std::string& copy : copies) {
    INFO(copy);
    const Padded ran(load + copy);
    CHECK(ran.report.warnings.empty());
    CHECK(ran.memory.is_written(ran.r, 4));
    CHECK(ran.memory.is_written(ran.r + 8, 8));
    for (uint64_t i = 4; i < 8; ++i) CHECK_FALSE(ran.memory.is_written(ran.r + i, 1));
    std::array<uint8_t, 4> a{};
    ran.memory.read(ran.r, a);
    CHECK(a == std::array<uint8_t, 4>{1, 2, 3, 4});
  }
  // Each `field` makes %r8 of %rd4.
  struct Field {
    std::string_view text;
    uint32_t value;
  };
  for (const auto& [field, value] :
       {Field{"mov.b64 {%r8, %r9}, %rd4;", 0x04030201}, Field{"cvt.u32.u64 %r8, %rd4;", 0x04030201},
        Field{"and.b64 %rd6, %rd4, 0xFF00;\ncvt.u32.u64 %r8, %rd6;\nsetp.gt.u64 %p1, %rd6, 7;\n@!%p1 trap;", 0x0200},
        Field{"shl.b64 %rd6, %rd4, 32;\nshr.u64 %rd6, %rd6, 32;\ncvt.u32.u64 %r8, %rd6;\n"
              "setp.gt.u64 %p1, %rd6, 7;\n@!%p1 trap;",
              0x04030201},
        Field{"bfe.u64 %rd6, %rd4, 8, 16;\nsetp.eq.u64 %p1, %rd6, 0x0302;\nselp.u32 %r8, 1, 0, %p1;", 1},
        Field{"mov.b64 {%r4, %r5}, %rd4;\nprmt.b32 %r8, %r5, %r4, 0x7654;", 0x04030201},
        Field{"mov.b64 {%r4, %r5}, %rd4;\nbfi.b32 %r8, 7, %r5, 0, 32;", 7},
        Field{"mov.b64 {%r4, %r5}, %rd4;\nshf.l.wrap.b32 %r8, %r5, %r4, 0;", 0x04030201},
        Field{"mov.b64 {%r4, %r5}, %rd4;\nsetp.eq.u32 %p1, 0, 0;\nselp.b32 %r8, %r4, %r5, %p1;", 0x04030201},
        Field{"mov.b64 {%r4, %r5}, %rd4;\nxor.b32 %r5, %r5, %r5;\nadd.u32 %r8, %r4, %r5;", 0x04030201},
        Field{"mov.b64 {%r4, %r5}, %rd4;\nlop3.b32 %r8, %r4, %r5, 0, 0xF0;", 0x04030201},
        Field{"mov.b64 {%r4, %r5}, %rd4;\nsetp.ne.u32 %p1, %r4, %r4;\nsetp.eq.and.u32 %p2, %r5, 0, %p1;\n"
              "mov.u32 %r8, 6;\n@%p2 mov.u32 %r8, 5;",
              6}}) {
    INFO(field);
    const Padded ran(load + std::string(field) + "\nst.global.u32 [%rd1], %r8;");
    CHECK(ran.p[0] == value);
  }
  // What depends on the padding is found: in an output, in a branch, in an address.
  for (const std::string_view use :
       {"st.global.v2.b64 [%rd1], {%rd4, %rd5};", "mov.b64 {%r4, %r5}, %rd4;\nst.global.u32 [%rd1], %r5;",
        "and.b64 %rd6, %rd4, 0x100000000;\nsetp.eq.u64 %p1, %rd6, 0;\n@%p1 trap;",
        "bfe.u64 %rd6, %rd4, 25, 8;\nst.global.u64 [%rd1], %rd6;",
        "add.u64 %rd6, %rd4, 1;\nst.global.u64 [%rd1], %rd6;",
        "mov.b64 {%r4, %r5}, %rd4;\nprmt.b32 %r8, %r5, %r4, 0x7653;\nst.global.u32 [%rd1], %r8;",
        "mov.b64 {%r4, %r5}, %rd4;\nxor.b32 %r8, %r4, %r5;\nst.global.u32 [%rd1], %r8;",
        "mov.b64 {%r4, %r5}, %rd4;\nlop3.b32 %r8, %r4, %r5, 0, 0xC0;\nst.global.u32 [%rd1], %r8;",
        "mov.b64 {%r4, %r5}, %rd4;\nsetp.eq.u32 %p1, %r4, %r4;\nsetp.eq.and.u32 %p2, %r5, 0, %p1;\n@%p2 trap;",
        "shr.u64 %rd6, %rd4, 32;\nadd.u64 %rd6, %rd6, %rd1;\nld.global.u32 %r8, [%rd6];",
        "st.shared.v2.b64 [s], {%rd4, %rd5};\nld.shared.u32 %r8, [s+4];\nst.global.u32 [%rd1], %r8;",
        "st.global.v2.b64 [%rd3], {%rd4, %rd5};\nld.global.u8 %r8, [%rd3+4];\nst.global.u32 [%rd1], %r8;"}) {
    INFO(use);
    CHECK(fault_of(load + std::string(use)) == ViolationCode::unwritten_read);
  }
}

TEST_CASE("a shuffle takes unwritten values to the lanes that read them, and to no others") {
  // Lanes 16 to 31 load what nothing wrote.
  const std::string body =
      "mov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.u32 %r2, %r2, %r3;\nsetp.lt.u32 %p1, %r1, 16;\n"
      "@%p1 st.shared.u32 [%r2], %r1;\nld.shared.u32 %r4, [%r2];\nshfl.sync.down.b32 %r5, %r4, 4, 31, -1;\n";
  const auto store_below = [](int lane) {
    return fmt::format("setp.lt.u32 %p2, %r1, {};\nsetp.eq.and.u32 %p3, %r1, {}, %p2;\n@%p3 st.global.u32 [%rd1], %r5;",
                       lane, lane - 1);
  };
  CHECK(Padded(body + store_below(12), 32).p[0] == 15);
  CHECK(fault_of(body + store_below(13), 32) == ViolationCode::unwritten_read);
}

TEST_CASE("a load that begins in an allocation may end behind it, within 256 bytes, if nothing depends on the rest") {
  const auto run = [](std::string_view use, size_t words) {
    std::vector<float> x(words, 2), y(4);
    const std::string text = fmt::format(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y)\n{{\n"
        ".reg .f32 %f<9>;\n.reg .b64 %rd<9>;\nld.param.u64 %rd1, [x];\nld.param.u64 %rd2, [y];\n{}\nret;\n}}\n",
        use);
    const LaunchReport report = launch(PtxEntry(text), {.arguments = {memory(x), memory(y)}});
    REQUIRE(report.warnings.size() == 1);
    CHECK(report.warnings[0].code == ViolationCode::out_of_bounds);
    return y;
  };
  constexpr std::string_view load = "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];\n";
  CHECK(run(std::string(load) + "st.global.f32 [%rd2], %f3;", 3) == std::vector<float>{2, 0, 0, 0});
  const auto fault = [&](std::string_view body, size_t words) {
    return test::violation_of([&] { run(body, words); }).value().code;
  };
  CHECK(fault(std::string(load) + "st.global.f32 [%rd2], %f4;", 3) == ViolationCode::unwritten_read);
  CHECK(fault("ld.global.f32 %f1, [%rd1+12];", 3) == ViolationCode::out_of_bounds);
  CHECK(fault("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+16];", 4) == ViolationCode::out_of_bounds);
  CHECK(fault("st.global.v4.f32 [%rd1], {0f00000000, 0f00000000, 0f00000000, 0f00000000};", 3) ==
        ViolationCode::out_of_bounds);
}

TEST_CASE("a load that begins in shared memory may end behind it, within 128 bytes, if nothing depends on the rest") {
  const auto run = [](std::string_view use, int64_t shared_bytes) {
    std::vector<uint32_t> words(4);
    const std::string text = fmt::format(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 s[];\n"
        ".visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\nld.param.u64 %rd1, [p];\n"
        "mov.u32 %r5, 7;\nst.shared.u32 [s+16], %r5;\nst.shared.u32 [s+20], %r5;\nst.shared.u32 [s+24], %r5;\n"
        "{}\nret;\n}}\n",
        use);
    const LaunchReport report =
        launch(PtxEntry(text), {.dynamic_shared_bytes = shared_bytes, .arguments = {memory(words)}});
    REQUIRE(report.warnings.size() == 1);
    CHECK(report.warnings[0].code == ViolationCode::out_of_bounds);
    return words[0];
  };
  const std::string load = "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s+16];\n";
  CHECK(run(load + "st.global.u32 [%rd1], %r3;", 28) == 7);
  const auto fault = [&](const std::string& body, int64_t bytes) {
    return test::violation_of([&] { run(body, bytes); }).value().code;
  };
  CHECK(fault(load + "st.global.u32 [%rd1], %r4;", 28) == ViolationCode::unwritten_read);
  CHECK(fault("ld.shared.u32 %r1, [s+28];", 28) == ViolationCode::out_of_bounds);
  CHECK(fault("ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s+128];", 128) == ViolationCode::out_of_bounds);
  CHECK(fault("st.shared.v4.u32 [s+16], {%r5, %r5, %r5, %r5};", 28) == ViolationCode::out_of_bounds);
}

TEST_CASE("atomics work on memory that nothing wrote, and what they leave is written as far as they say") {
  // exch writes all; what it returns is unwritten.
  const Padded exchanged("atom.global.exch.b32 %r4, [%rd3], 7;\nst.global.u32 [%rd3+4], %r4;");
  CHECK(exchanged.memory.is_written(exchanged.r, 4));
  CHECK_FALSE(exchanged.memory.is_written(exchanged.r + 4, 4));
  CHECK(fault_of("atom.global.exch.b32 %r4, [%rd3], 7;\nsetp.eq.u32 %p1, %r4, 0;\n@%p1 trap;") ==
        ViolationCode::unwritten_read);
  // A sum is as unwritten as before.
  const Padded added("red.global.add.u32 [%rd3], 7;\nred.global.add.u32 [%rd2], 7;");
  CHECK_FALSE(added.memory.is_written(added.r, 1));
  CHECK(added.memory.is_written(added.q, 4));
  CHECK(added.report.warnings.size() == 1);
  CHECK(fault_of("red.global.add.u32 [%rd3], 7;\nld.global.u32 %r4, [%rd3];\nst.global.u32 [%rd1], %r4;") ==
        ViolationCode::unwritten_read);
  // Each thread writes its 4 bits of a word by a loop of cas, as CUTLASS does. Their values are all alike, so that some
  // comparisons succeed with what another thread wrote.
  const auto fill = [](int value, std::string_view more = "") {
    return fmt::format(
        "mov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, 15;\nshl.b32 %r3, %r3, %r2;\nnot.b32 %r3, %r3;\n"
        "mov.u32 %r4, {};\nshl.b32 %r4, %r4, %r2;\nld.global.u32 %r5, [%rd3];\nL:\nand.b32 %r6, %r5, %r3;\n"
        "or.b32 %r6, %r6, %r4;\natom.global.cas.b32 %r7, [%rd3], %r5, %r6;\nsetp.ne.s32 %p1, %r7, %r5;\n"
        "mov.u32 %r5, %r7;\n@%p1 bra L;\n{}",
        value, more);
  };
  for (const int value : {0, 5}) {
    const Padded all(fill(value), 8);
    CHECK(all.memory.is_written(all.r, 4));
    REQUIRE(all.report.warnings.size() == 1);
    CHECK(all.report.warnings[0].code == ViolationCode::unwritten_read);
    std::array<uint8_t, 4> word{};
    all.memory.read(all.r, word);
    CHECK(word == std::array<uint8_t, 4>{static_cast<uint8_t>(17 * value), static_cast<uint8_t>(17 * value),
                                         static_cast<uint8_t>(17 * value), static_cast<uint8_t>(17 * value)});
    const Padded odd(fill(value), 5);  // half of byte 2
    CHECK(odd.memory.is_written(odd.r, 2));
    CHECK_FALSE(odd.memory.is_written(odd.r + 2, 1));
    CHECK(fault_of(fill(value, "ld.global.u8 %r8, [%rd3+2];\nst.global.u32 [%rd1], %r8;"), 5) ==
          ViolationCode::unwritten_read);
    CHECK(
        Padded(fill(value, "ld.global.u8 %r8, [%rd3+2];\nand.b32 %r8, %r8, 15;\nst.global.u32 [%rd1], %r8;"), 5).p[0] ==
        static_cast<uint32_t>(value));
  }
}

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
