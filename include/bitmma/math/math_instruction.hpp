// SPDX-License-Identifier: MIT
// The floating-point instructions of PTX around the matrix ones, bit for bit: what a GPU gives for one word.
//
//   compute(parse_math_instruction("ex2.approx.ftz.f32"), 0x3E99999A)         2^0.3: 0x3F9D9624
//   compute(parse_math_instruction("fma.rz.f32"), 0x3F800001, 0x3F800001, 0)  0x3F800002
//
// Rounded instructions follow IEEE 754. Approximate ones follow the tables of the GPU's special function unit;
// data/math tells which were compared with a GPU for all 2^32 arguments. NaN results are 0x7FFFFFFF, or 0x7FFF; of f64
// 0x7FFFFFFF00000000, for the unit reads and writes upper words. Source: PTX ISA 9.7.3, 9.7.4.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/core/target.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/math/word_step.hpp"

namespace bitmma {

enum class MathOperation : uint8_t { add, sub, mul, fma, div, rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh };

/// How near its result is to the exact one.
enum class MathAccuracy : uint8_t {
  rounded,  // the exact result, rounded once
  approx,   // .approx
  full,     // .full, of div alone
};

struct MathInstruction {
  MathOperation operation = MathOperation::add;
  MathAccuracy accuracy = MathAccuracy::rounded;
  Rounding rounding = Rounding::nearest_even;  // of rounded ones
  bool ftz = false;                            // subnormal operands and results become zeros of their sign
  bool sat = false;                            // the result is clamped to [0, 1]; NaN becomes +0
  bool relu = false;                           // a negative result becomes +0, NaN stays
  Format format = Format::f32;
  bool x2 = false;  // two codes a word, the first in the lower half

  bool operator==(const MathInstruction&) const = default;
};

/// Every instruction that is known, in the order of the operations.
const std::vector<MathInstruction>& math_instructions();

/// "fma.rn.ftz.f32".
std::string print(const MathInstruction& instruction);
/// The other way; add, sub and mul without a rounding are .rn. Throws Error, with the nearest names.
MathInstruction parse_math_instruction(std::string_view ptx);

/// Which have it. Throws Error when the instruction is not one of math_instructions().
TargetSet targets_of(const MathInstruction& instruction);

/// 1, 2 or 3.
int operand_count(MathOperation operation);
/// Bits of a result: the format's, twice of x2.
int result_bits(const MathInstruction& instruction);

/// The result of one word each; operands that the instruction has not are ignored, as are bits above its word. Throws
/// Error when the instruction is not one of math_instructions().
uint64_t compute(const MathInstruction& instruction, uint64_t a, uint64_t b = 0, uint64_t c = 0);

/// results[i] of a[i], b[i] and c[i], in vectors where there is a loop for it. Operands that the instruction has not
/// are empty. Throws Error when a length is another than that of `results`, or the format has more than 32 bits.
void compute(const MathInstruction& instruction, std::span<const uint32_t> a, std::span<const uint32_t> b,
             std::span<const uint32_t> c, std::span<uint32_t> results);

/// The same in words of 64 bits, of every format. Bits above an operand's word are ignored.
void compute(const MathInstruction& instruction, std::span<const uint64_t> a, std::span<const uint64_t> b,
             std::span<const uint64_t> c, std::span<uint64_t> results);

/// How an approximate instruction on f32 makes its result: what the special function unit reads, and its quadratic.
struct MufuSteps {
  std::vector<WordStep> before = {};  // what ptxas puts before the unit: products that bring an argument into its range
  uint64_t argument = 0;              // what the unit reads
  std::string_view table = {};        // "ex2"
  int index = 0;                      // of the quadratic in its table
  uint32_t x = 0;                     // where it is evaluated, of 17 bits; of rcp 2x of 16 bits
  int64_t c0 = 0;
  int32_t c1 = 0, c2 = 0;
  uint64_t square = 0;  // S(x) / 2^19: the truncated square
  uint64_t value = 0;   // c0 + c1 x 2^18 + c2 S(x), in units of 2^-unit
  int unit = 0;
  uint64_t unit_result = 0;           // what the unit gives
  std::vector<WordStep> behind = {};  // what ptxas puts behind it: a product or a sum, of 16-bit formats the cut
  uint64_t result = 0;
};

/// The steps; nothing of an instruction without the unit, or of an argument that needs no quadratic (NaN, infinity,
/// zero). Of div, the reciprocal of b.
std::optional<MufuSteps> mufu_steps(const MathInstruction& instruction, uint64_t a, uint64_t b = 0);

/// The results of rounding the exact one down and up: the codes on either side of it, the same where it is a code.
/// Nothing of approximate instructions, and of two codes a word.
std::optional<std::pair<uint64_t, uint64_t>> neighbours_of(const MathInstruction& instruction, uint64_t a,
                                                           uint64_t b = 0, uint64_t c = 0);

}  // namespace bitmma
