// SPDX-License-Identifier: MIT
// ldmatrix and stmatrix of bytes, and of 4-bit and 6-bit elements. The expected place of each byte is written from
// CUTLASS' maps from threads and values to bits (cute/atom/copy_traits_sm100.hpp), which say it in another way than the
// code.
#include <fmt/format.h>

#include "run_kernel.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using test::memory;

namespace {

/// A kernel of one warp that copies `in` to shared memory, runs `body`, and stores %r10 ... %r13 and shared memory.
/// %r2 is the thread, %r5 the shared memory, %r6 that of row i for thread i.
std::string module_of(std::string_view body, std::string_view target = "sm_100a") {
  return fmt::format(
      ".version 8.8\n.target {}\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 registers, .param "
      ".u64 bytes)\n{{\n.reg .b32 %r<40>;\n.reg .b64 %rd<10>;\n.shared .align 16 .b8 words[512];\n"
      "ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [registers];\nld.param.u64 %rd3, [bytes];\nmov.u32 %r2, %tid.x;\n"
      "mov.u32 %r5, words;\nshl.b32 %r1, %r2, 4;\nadd.u32 %r6, %r5, %r1;\nmul.wide.u32 %rd4, %r2, 16;\n"
      "add.u64 %rd1, %rd1, %rd4;\nadd.u64 %rd2, %rd2, %rd4;\nadd.u64 %rd3, %rd3, %rd4;\n"
      "ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd1];\nst.shared.v4.b32 [%r6], {{%r10, %r11, %r12, %r13}};\n"
      "bar.sync 0;\n{}\nbar.sync 0;\nst.global.v4.b32 [%rd2], {{%r10, %r11, %r12, %r13}};\n"
      "ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r6];\nst.global.v4.b32 [%rd3], {{%r10, %r11, %r12, %r13}};\n"
      "ret;\n}}\n",
      target, body);
}

struct Words {
  std::vector<uint8_t> registers = std::vector<uint8_t>(512);  // of thread t from 16 t on
  std::vector<uint8_t> memory = std::vector<uint8_t>(512);
};
Words run(std::string_view body, std::vector<uint8_t> in) {
  Words state;
  (void)launch(PtxEntry(module_of(body)),
               {.block = {32, 1, 1}, .arguments = {memory(in), memory(state.registers), memory(state.memory)}});
  return state;
}

std::vector<uint8_t> drawn() {
  std::vector<uint8_t> bytes(512);
  RandomStream random(7, 0);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.word());
  return bytes;
}

/// Element `index` of a row of 16 elements of `bits` bits.
uint8_t element(const std::vector<uint8_t>& in, size_t row, size_t index, size_t bits) {
  uint32_t code = 0;
  for (size_t bit = 0; bit < bits; ++bit) {
    const size_t at = index * bits + bit;
    code |= (uint32_t{in[16 * row + at / 8]} >> at % 8 & 1) << bit;
  }
  return static_cast<uint8_t>(code);
}

}  // namespace

TEST_CASE("ldmatrix.m16n16.trans gives a thread four rows of two columns of bytes") {
  const std::vector<uint8_t> in = drawn();
  for (const auto& [type, bits] :
       {std::pair("b8", 8), std::pair("b8x16.b6x16_p32", 6), std::pair("b8x16.b4x16_p64", 4)}) {
    CAPTURE(type);
    const Words two = run(
        fmt::format("ldmatrix.sync.aligned.m16n16.x2.trans.shared.{} {{%r10, %r11, %r12, %r13}}, [%r6];", type), in);
    const Words x1 =
        run(fmt::format("ldmatrix.sync.aligned.m16n16.x1.trans.shared::cta.{} {{%r10, %r11}}, [%r6];", type), in);
    for (size_t thread = 0; thread < 32; ++thread) {
      for (size_t i = 0; i < 16; ++i) {
        // CUTLASS has the bytes 0 1 4 5 and 2 3 6 7 of two registers in one: value (v0, v1, v2) of thread (q, g) is at
        // bit 128 v0 + 64 v1 + 1024 v2 + 256 q + 8 g, and row (t0, t1, t2) at bit 128 t0 + 1024 t1 + 256 t2.
        const size_t byte = i % 8, v0 = byte % 2, v2 = byte / 2 % 2, v1 = byte / 4;
        const size_t row = v0 + 2 * v2 + 4 * (thread % 4) + 16 * (i / 8), col = thread / 4 + 8 * v1;
        CHECK(two.registers[16 * thread + i] == element(in, row, col, static_cast<size_t>(bits)));
        if (i < 8) CHECK(x1.registers[16 * thread + i] == two.registers[16 * thread + i]);
      }
    }
  }
}

TEST_CASE("ldmatrix.m8n16 unpacks rows of 16 elements, four to a thread") {
  const std::vector<uint8_t> in = drawn();
  for (const auto& [type, bits] : {std::pair("b6x16_p32", 6), std::pair("b4x16_p64", 4)}) {
    CAPTURE(type);
    const Words four =
        run(fmt::format("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.{} {{%r10, %r11, %r12, %r13}}, [%r6];", type), in);
    const Words x1 = run(fmt::format("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.{} {{%r10}}, [%r6];", type), in);
    for (size_t thread = 0; thread < 32; ++thread) {
      for (size_t i = 0; i < 16; ++i) {
        // Bit 32 t + 8 i of each matrix, whose rows have 128 bits.
        const size_t row = 8 * (i / 4) + thread / 4, col = 4 * (thread % 4) + i % 4;
        CHECK(four.registers[16 * thread + i] == element(in, row, col, static_cast<size_t>(bits)));
        if (i < 4) CHECK(x1.registers[16 * thread + i] == four.registers[16 * thread + i]);
      }
    }
  }
}

TEST_CASE("stmatrix.m16n8.trans stores two rows of two columns of bytes of each thread") {
  const std::vector<uint8_t> in = drawn();
  const Words four = run("stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%r6], {%r10, %r11, %r12, %r13};", in);
  for (size_t thread = 0; thread < 32; ++thread) {
    for (size_t i = 0; i < 16; ++i) {
      // Value (v0, v1) of thread (q, g) is at bit 256 q + 8 g + 128 v0 + 64 v1.
      const size_t bit = 256 * (thread % 4) + 8 * (thread / 4) + 128 * (i % 2) + 64 * (i / 2 % 2);
      CHECK(four.memory[128 * (i / 4) + bit / 8] == in[16 * thread + i]);
    }
  }
  const Words x1 = run("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r6], {%r10};", in);
  CHECK(std::vector(x1.memory.begin(), x1.memory.begin() + 128) ==
        std::vector(four.memory.begin(), four.memory.begin() + 128));
  CHECK(std::vector(x1.memory.begin() + 128, x1.memory.end()) == std::vector(in.begin() + 128, in.end()));
}

TEST_CASE("matrices of bytes have the forms that PTX has, from sm_100a on") {
  CHECK_THROWS_MATCHES(
      PtxEntry(module_of("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r10, %r11}, [%r6];", "sm_90a")), Error,
      test::refused(ViolationCode::unsupported_ptx, "PTX line 23"));
  const auto refuses = [](const std::string& statement, std::string_view target) {
    const std::string opcode = statement.substr(0, statement.find(' '));
    const bool is_type = opcode.ends_with("m8n16.x1.shared.b8x16");
    CHECK_THROWS_MATCHES(
        PtxEntry(module_of(statement, target)), Error,
        test::refused(ViolationCode::contradiction,
                      fmt::format("PTX line 23: {}: {}", opcode, is_type ? "type" : "shape, .trans, .num, type")));
  };
  refuses("ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%r10, %r11, %r12, %r13}, [%r6];", "sm_100a");
  refuses("ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r10, %r11}, [%r6];", "sm_120a");
  refuses("ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%r10}, [%r6];", "sm_100a");
  refuses("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16 {%r10}, [%r6];", "sm_100a");
  refuses("ldmatrix.sync.aligned.m16n8.x1.trans.shared.b8 {%r10}, [%r6];", "sm_100a");
  refuses("stmatrix.sync.aligned.m16n16.x1.trans.shared.b8 [%r6], {%r10, %r11};", "sm_100a");
  refuses("stmatrix.sync.aligned.m16n8.x1.shared.b8 [%r6], {%r10};", "sm_100a");
}
