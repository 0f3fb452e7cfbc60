// SPDX-License-Identifier: MIT
// wmma of targets before sm_80. data/kernels/programs.tar.xz has wmma of an H200.
#include <fmt/format.h>

#include "bitmma/core/random.hpp"
#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using test::memory;

namespace {

/// A kernel (a, b, c, d) of a warp.
std::string module_of(std::string_view body, std::string_view target) {
  return fmt::format(
      ".version 6.5\n.target {}\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, "
      ".param .u64 d)\n{{\n.reg .b32 %r<80>;\n.reg .b64 %rd<5>;\nld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\n"
      "ld.param.u64 %rd3, [c];\nld.param.u64 %rd4, [d];\n{}\nret;\n}}\n",
      target, body);
}

/// "{%r10, %r11}"
std::string registers(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}%r{}", i == 0 ? "{" : ", ", first + i);
  return text + "}";
}

std::vector<uint16_t> drawn_halves(uint64_t stream) {
  std::vector<uint16_t> values(16 * 16);
  RandomStream random(3, stream);
  for (uint16_t& value : values) value = static_cast<uint16_t>(0x3000 + (random.word() & 0x8FFF));
  return values;
}

std::vector<float> run(const std::string& text, std::vector<uint16_t> a, std::vector<uint16_t> b,
                       std::vector<float> c) {
  std::vector<float> d(16 * 16);
  (void)launch(PtxEntry(text), {.block = {32, 1, 1}, .arguments = {memory(a), memory(b), memory(c), memory(d)}});
  return d;
}

}  // namespace

TEST_CASE("wmma.mma of f16 on sm_75 is two products of m16n8k8 along k for each half of n") {
  const std::string loads = fmt::format(
      "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {}, "
      "[%rd1];\nwmma.load.b.sync.aligned.col.m16n16k16.global.f16 "
      "{}, [%rd2];\nwmma.load.c.sync.aligned.row.m16n16k16.global.f32 {}, [%rd3];\n",
      registers(10, 8), registers(20, 8), registers(30, 8));
  const std::string store =
      fmt::format("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd4], {};", registers(30, 8));
  const std::string of_wmma = loads +
                              fmt::format("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {}, {}, {}, {};\n",
                                          registers(30, 8), registers(10, 8), registers(20, 8), registers(30, 8)) +
                              store;
  std::string of_mma = loads;
  for (int half = 0; half < 2; ++half) {
    for (int step = 0; step < 2; ++step) {
      const std::string d = registers(30 + 4 * half, 4);
      of_mma += fmt::format("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {}, {}, {}, {};\n", d,
                            registers(10 + 2 * step, 2), registers(20 + 2 * half + step, 1), d);
    }
  }
  of_mma += store;
  std::vector<float> c(16 * 16);
  RandomStream random(3, 9);
  for (float& value : c) value = static_cast<float>(random.between(-4000, 4000)) * 0.25F;
  const auto a = drawn_halves(0), b = drawn_halves(1);
  const std::vector<float> expected = run(module_of(of_mma, "sm_75"), a, b, c);
  CHECK(run(module_of(of_wmma, "sm_75"), a, b, c) == expected);
}

TEST_CASE("wmma of integers gives exact sums from sm_72 on, in every shape") {
  for (const std::string_view target : {"sm_72", "sm_75", "sm_80"}) {
    for (const auto& [m, n] : {std::pair(16, 16), std::pair(32, 8), std::pair(8, 32)}) {
      for (const std::string_view type : {"s8", "u8"}) {
        CAPTURE(target, m, n, type);
        const std::string shape = fmt::format("m{}n{}k16", m, n);
        const int a_registers = m == 16 ? 2 : m == 32 ? 4 : 1, b_registers = n == 16 ? 2 : n == 32 ? 4 : 1;
        const std::string text = module_of(
            fmt::format(
                "wmma.load.a.sync.aligned.row.{0}.global.{1} {2}, [%rd1];\nwmma.load.b.sync.aligned.col.{0}.global.{1} "
                "{3}, [%rd2];\nwmma.load.c.sync.aligned.row.{0}.global.s32 {4}, [%rd3];\n"
                "wmma.mma.sync.aligned.row.col.{0}.s32.{1}.{1}.s32 {4}, {2}, {3}, {4};\n"
                "wmma.store.d.sync.aligned.row.{0}.global.s32 [%rd4], {4};",
                shape, type, registers(10, a_registers), registers(20, b_registers), registers(30, 8)),
            target);
        std::vector<uint8_t> a(static_cast<size_t>(16 * m)), b(static_cast<size_t>(16 * n));
        std::vector<int32_t> c(256), d(256), expected(256);
        RandomStream random(4, 0);
        for (uint8_t& value : a) value = static_cast<uint8_t>(random.word());
        for (uint8_t& value : b) value = static_cast<uint8_t>(random.word());
        for (int32_t& value : c) value = random.between(-1000, 1000);
        const auto number = [&](uint8_t code) { return type == "s8" ? int{static_cast<int8_t>(code)} : int{code}; };
        for (int row = 0; row < m; ++row) {
          for (int col = 0; col < n; ++col) {
            const auto at = static_cast<size_t>(n * row + col);
            expected[at] = c[at];
            for (int k = 0; k < 16; ++k)
              expected[at] +=
                  number(a[static_cast<size_t>(16 * row + k)]) * number(b[static_cast<size_t>(16 * col + k)]);
          }
        }
        (void)launch(PtxEntry(text), {.block = {32, 1, 1}, .arguments = {memory(a), memory(b), memory(c), memory(d)}});
        CHECK(d == expected);
      }
    }
  }
}

TEST_CASE("wmma is refused on targets that do not have its types, and for f16 on sm_70, whose order is unknown") {
  const auto refuses = [](std::string_view statement, std::string_view target) {
    CHECK_THROWS_MATCHES(PtxEntry(module_of(statement, target)), Error,
                         test::refused(ViolationCode::unsupported_ptx, "PTX line 12"));
  };
  refuses("wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {%r1, %r2}, [%rd1];", "sm_70");
  refuses("wmma.load.a.sync.aligned.row.m8n8k32.global.s4 {%r1}, [%rd1];", "sm_72");
  refuses("wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {%r1, %r2, %r3, %r4}, [%rd1];", "sm_75");
  refuses("wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {%r1, %r2}, {%r3}, {%r4}, {%r1, %r2};",
          "sm_75");
  refuses(fmt::format("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {0}, {1}, {2}, {0};", registers(30, 8),
                      registers(10, 8), registers(20, 8)),
          "sm_70");
}
