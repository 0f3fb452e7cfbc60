// A user of the installed library: one instruction on a shared-memory image made by hand.
#include <bitmma/instruction/simulate.hpp>
#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  const auto instruction = bitmma::parse_instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16");
  const std::vector<uint8_t> smem(4096, 0x3C);  // every f16 is 0x3C3C = 1.0586
  const std::vector<uint32_t> c_regs(128 * 4, 0);
  const auto d_regs = bitmma::simulate(instruction, {.smem = smem, .b_desc = 128, .c_regs = c_regs});
  // 16 * 1.05859375^2 = 17.929931640625 exactly
  std::printf("%08x\n", d_regs[0]);
  return d_regs[0] == 0x418F7080 ? 0 : 1;
}
