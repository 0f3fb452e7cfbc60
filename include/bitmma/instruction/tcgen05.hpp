// tcgen05.mma: what one instruction reads and writes, kinds f16, tf32, f8f6f4 and i8, dense.
//
//   D[m x n] = A[m x k] * B[k x n] (+ D)      D in Tensor Memory, A in shared or Tensor Memory, B in shared memory
//
// With cta_group::2 each CTA of the pair holds its half of the rows of A and of the columns of B, under the same
// descriptor values. Shape, types, signs and major-ness come from the instruction descriptor.
// Not here: .sp, block scales, .ashift, the zero-column mask of .ws. Evidence: PTX ISA 9.7.16.10, CUTLASS; no Blackwell
// GPU was measured, so that layouts rest on those and arithmetic on accumulator_models().
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/memory/tmem.hpp"

namespace bitmma {

/// The instruction with everything its descriptor says: m, n, k, types, signs, major-ness, saturation. Throws Error when
/// the word is not a legal descriptor of the instruction's kind.
Instruction with_idesc(Instruction instruction, uint32_t idesc);

/// The inverse: the descriptor that says what `instruction` is.
uint32_t idesc_of(const Instruction& instruction);

/// Which M and N a form takes; one row each. PTX ISA 9.7.16.2.1, Table 39.
struct Tcgen05Form {
  std::array<bool, 4> kinds{};  // f16, tf32, f8f6f4, i8
  bool ws = false;
  int cta_group = 1;
  std::array<int, 3> m{};  // 0 fills up
  int n_first = 8, n_step = 8;
  bool n_is_i8_list = false;     // 8, 16, 24, 32, then steps of 16
  bool n_is_power = false;       // 64, 128, 256
  std::string_view n_text;
};
std::span<const Tcgen05Form> tcgen05_forms();

/// All violations of a tcgen05.mma instruction, none when it is legal and simulated here.
std::vector<Violation> tcgen05_violations(const Instruction& instruction);

/// What the instruction can read. Views; the owner outlives the call.
struct Tcgen05Machine {
  std::array<std::span<const uint8_t>, 2> smem;  // of the even and the odd CTA
  uint64_t a_desc = 0, b_desc = 0;
  uint32_t d_tmem = 0, a_tmem = 0;
  std::span<const uint32_t> tmem;  // [cta_group][128][columns]
  int columns = 0;
  std::array<uint32_t, 8> disable_output_lane{};  // bit j of word i: lane 32 i + j, words 4..7 the odd CTA
};

/// Tensor Memory after the instruction. f16 results replace the lower half of a cell and keep the upper one (model
/// choice: no source says). Throws Error when something is illegal or lies outside its memory.
std::vector<uint32_t> simulate(const Instruction& instruction, const Tcgen05Machine& machine, const AccumulatorModel* model = nullptr);

/// D as Tensor Memory holds it.
BitMatrix gather_d(const Instruction& instruction, uint32_t d_tmem, std::span<const uint32_t> tmem, int columns);

/// Logical operands as the instruction reads them; A as D's first columns see it.
Operands gather_operands(const Instruction& instruction, const Tcgen05Machine& machine);

/// Legal but suspicious: what the descriptors say that people rarely mean.
std::vector<Violation> warnings(const Instruction& instruction, const Tcgen05Machine& machine);

/// Owner of what a Tcgen05Machine looks at.
struct Tcgen05State {
  std::array<std::vector<uint8_t>, 2> smem;  // the second is empty with cta_group::1
  uint64_t a_desc = 0, b_desc = 0;
  uint32_t d_tmem = 0, a_tmem = 0;
  std::vector<uint32_t> tmem;
  int columns = 0;
  std::array<uint32_t, 8> disable_output_lane{};

  Tcgen05Machine view() const {
    return {.smem = {std::span(smem[0]), std::span(smem[1])}, .a_desc = a_desc, .b_desc = b_desc, .d_tmem = d_tmem, .a_tmem = a_tmem,
            .tmem = tmem, .columns = columns, .disable_output_lane = disable_output_lane};
  }
};

/// One machine that holds `operands`: images of both CTAs, descriptors, D and A in Tensor Memory. Everything that no
/// element uses is drawn from `filler`. Throws Error like plan_placement.
Tcgen05State place_tcgen05(const Instruction& instruction, const OperandLayout& a, const OperandLayout& b, const Operands& operands, RandomStream filler);

}  // namespace bitmma
