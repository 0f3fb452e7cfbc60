// What one tcgen05.mma reads and writes, and what it computes.
//
//   D[m x n] = A[m x k] * B[k x n] (+ D * 2^-scale_input_d)
//   D in Tensor Memory, A in shared or Tensor Memory, B in shared memory; scales and sparse metadata in Tensor Memory
//
// With cta_group::2 each CTA of the pair holds its half of the rows of A and of the columns of B, under the same
// descriptor values, its own scales of A and metadata, and all scales of B. Evidence: PTX ISA 9.7.16.10, CUTLASS; no
// Blackwell GPU was measured for this project, so layouts rest on those, and arithmetic on accumulator_models()
// (instruction/evidence.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/descriptor/zero_column_mask.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/tcgen05.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"

namespace bitmma {

/// Its register operands: descriptors, Tensor Memory addresses, masks.
struct Tcgen05Registers {
  uint64_t a_desc = 0, b_desc = 0;
  uint32_t d_tmem = 0, a_tmem = 0;
  uint32_t scale_a_tmem = 0, scale_b_tmem = 0;  // bits outside lane and column are ignored, as CUTLASS leaves ids there
  uint32_t metadata_tmem = 0;
  std::array<uint32_t, 8> disable_output_lane{};  // bit j of word i: lane 32 i + j, words 4..7 the odd CTA
  std::optional<uint64_t> zero_column_mask;       // .ws
};

/// What the instruction can read. Views; the owner outlives the call.
struct Tcgen05Machine {
  Tcgen05Registers registers;
  std::array<std::span<const uint8_t>, 2> smem;  // of the even and the odd CTA
  std::span<const uint32_t> tmem;                // [cta_group][128][columns]
  int columns = 0;
};

/// Owner of what a Tcgen05Machine looks at.
struct Tcgen05State {
  Tcgen05Registers registers;
  std::array<std::vector<uint8_t>, 2> smem;  // the second is empty with cta_group::1
  std::vector<uint32_t> tmem;
  int columns = 0;

  Tcgen05Machine view() const {
    return {.registers = registers, .smem = {std::span(smem[0]), std::span(smem[1])}, .tmem = tmem, .columns = columns};
  }
};

/// Where the operands are: A (of one CTA's rows) and B (of one CTA's columns, with those before a column shift) in
/// shared memory, D, A, metadata and scales in Tensor Memory. Throw Error for what the instruction cannot have: swizzle
/// modes, lanes, columns.
SmemMatrix a_matrix(const Instruction& instruction, const Tcgen05Registers& registers);
SmemMatrix b_matrix(const Instruction& instruction, const Tcgen05Registers& registers);
TmemD d_in_tmem(const Instruction& instruction, uint32_t d_tmem);
TmemA a_in_tmem(const Instruction& instruction, uint32_t a_tmem);
TmemMetadata metadata_in_tmem(const Instruction& instruction, uint32_t metadata_tmem);
TmemScales scale_a_in_tmem(const Instruction& instruction, uint32_t scale_a_tmem);
TmemScales scale_b_in_tmem(const Instruction& instruction, uint32_t scale_b_tmem);

/// Tensor Memory after the instruction. f16 results replace the lower half of a cell and keep the upper one (model
/// choice: no source says). Throws Error when something is illegal or lies outside its memory.
std::vector<uint32_t> simulate(const Instruction& instruction, const Tcgen05Machine& machine,
                               const AccumulatorModel* model = nullptr);

/// The same in `tmem`, which is what machine.tmem shows, or a copy of it: only cells of D are written, and none when
/// this throws.
void simulate_in_place(const Instruction& instruction, const Tcgen05Machine& machine, std::span<uint32_t> tmem,
                       const AccumulatorModel* model = nullptr);

/// D as Tensor Memory holds it.
BitMatrix gather_d(const Instruction& instruction, uint32_t d_tmem, std::span<const uint32_t> tmem, int columns);

/// Logical operands as the instruction reads them; where copies differ, as the first rows and columns of D see them.
Operands gather_operands(const Instruction& instruction, const Tcgen05Machine& machine);

/// Legal but suspicious: what the descriptors say that people rarely mean, copies that differ, undefined metadata.
std::vector<Violation> warnings(const Instruction& instruction, const Tcgen05Machine& machine);

/// One machine that holds `operands`: images of both CTAs, descriptors, and D, A, metadata and scales one after the
/// other in Tensor Memory, all copies filled. Everything that no element uses is drawn from `filler`. With a
/// zero-column mask B begins at its column shift, and what it zeroes is filler too. Throws Error like plan_placement.
Tcgen05State place_tcgen05(const Instruction& instruction, const OperandLayout& a, const OperandLayout& b,
                           const Operands& operands, RandomStream filler,
                           std::optional<uint64_t> zero_column_mask = std::nullopt);

}  // namespace bitmma
