// One wgmma.mma_async or mma.sync on one machine state: gather A, B, C -> multiply_accumulate -> scatter D.
// tcgen05.mma, which works in Tensor Memory, is in tcgen05_machine.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/metadata.hpp"
#include "bitmma/memory/smem.hpp"

namespace bitmma {

/// What a wgmma.mma_async or mma.sync can read. T threads: 128 of a warpgroup, or 32 of a warp. Views; the owner
/// outlives the call.
struct Machine {
  std::span<const uint8_t> smem;  // the CTA's shared memory from address 0
  uint64_t a_desc = 0;            // unless A is in registers
  uint64_t b_desc = 0;
  std::span<const uint32_t> a_regs;            // [T][4], thread-major
  std::span<const uint32_t> metadata;          // [T], sparse only
  std::span<const uint32_t> c_regs;            // [T][R], the accumulator before
  std::span<const uint32_t> b_regs;            // [32][2 or 4], mma.sync
  std::span<const uint32_t> scale_a, scale_b;  // [32], mma.sync
};

/// Where the instruction's operands are. `stored_k` columns for A, all k for B.
SmemMatrix a_matrix(const Instruction& instruction, uint64_t a_desc);
SmemMatrix b_matrix(const Instruction& instruction, uint64_t b_desc);
Fragment a_fragment(const Instruction& instruction);
Fragment b_fragment(const Instruction& instruction);  // mma.sync
Fragment d_fragment(const Instruction& instruction);

/// Logical operands as the hardware reads them. Throws Error when something lies outside the image.
Operands gather_operands(const Instruction& instruction, const Machine& machine);

/// D, M x N. Throws Error when the instruction is illegal or an operand lies outside its memory. `model` replaces the
/// hardware's row, for what-if questions.
BitMatrix simulate_d(const Instruction& instruction, const Machine& machine, const AccumulatorModel* model = nullptr);

/// The accumulator registers after the instruction, [T][R], thread-major. Throws like simulate_d.
std::vector<uint32_t> simulate(const Instruction& instruction, const Machine& machine,
                               const AccumulatorModel* model = nullptr);

/// How the instruction's scales enter its sums.
Scaling scaling_of(const Instruction& instruction);

/// The hardware's accumulator row for a legal instruction.
const AccumulatorModel& model_for(const Instruction& instruction);

/// Legal but suspicious: what descriptors and metadata say that people rarely mean.
std::vector<Violation> warnings(const Instruction& instruction, const Machine& machine);

}  // namespace bitmma
