// SPDX-License-Identifier: MIT
// The floating-point instructions of PTX outside the tensor cores, bit for bit: a GPU's result for one word.
//
//   compute(parse_math_instruction("ex2.approx.ftz.f32"), 0x3E99999A)         2^0.3: 0x3F9D9624
//   compute(parse_math_instruction("fma.rz.f32"), 0x3F800001, 0x3F800001, 0)  0x3F800002
//
// Rounded instructions follow IEEE 754. Approximate ones follow the tables of the GPU's special function unit;
// data/math lists those that were compared with a GPU for all 2^32 arguments. NaN results are 0x7FFFFFFF or 0x7FFF; for
// f64 0x7FFFFFFF00000000, because the unit reads and writes only upper words. Source: PTX ISA 9.7.3, 9.7.4.
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

/// The accuracy of the result.
enum class MathAccuracy : uint8_t {
  rounded,  // the exact result, rounded once
  approx,   // .approx
  full,     // .full, only for div
};

struct [[nodiscard]] MathInstruction {
  MathOperation operation = MathOperation::add;
  MathAccuracy accuracy = MathAccuracy::rounded;
  Rounding rounding = Rounding::nearest_even;  // for rounded instructions
  bool ftz = false;                            // subnormal operands and results become zeros of their sign
  bool sat = false;                            // the result is clamped to [0, 1]; NaN becomes +0
  bool relu = false;                           // a negative result becomes +0; NaN is unchanged
  Format format = Format::f32;
  bool x2 = false;  // two codes per word, the first in the lower half

  bool operator==(const MathInstruction&) const = default;
};

/// All supported instructions, in the order of the operations.
const std::vector<MathInstruction>& math_instructions();

/// "fma.rn.ftz.f32".
std::string print(const MathInstruction& instruction);
/// The inverse; add, sub and mul without a rounding are .rn. Throws Error, which lists the nearest names.
MathInstruction parse_math_instruction(std::string_view ptx);

/// The targets of the instruction. Throws Error if it is not one of math_instructions().
TargetSet targets_of(const MathInstruction& instruction);

/// 1, 2 or 3.
int operand_count(MathOperation operation);
/// Bits of a result: those of the format, doubled for x2.
int result_bits(const MathInstruction& instruction);

/// The result for one word each; operands that the instruction lacks are ignored, and so are bits above its word.
/// Throws Error if the instruction is not one of math_instructions().
uint64_t compute(const MathInstruction& instruction, uint64_t a, uint64_t b = 0, uint64_t c = 0);

/// results[i] for a[i], b[i] and c[i], vectorised if there is a loop for it. Operands that the instruction lacks are
/// empty. Throws Error if a length differs from that of `results`, or if the format has more than 32 bits.
void compute(const MathInstruction& instruction, std::span<const uint32_t> a, std::span<const uint32_t> b,
             std::span<const uint32_t> c, std::span<uint32_t> results);

/// The same in 64-bit words, for every format. Bits above an operand's word are ignored.
void compute(const MathInstruction& instruction, std::span<const uint64_t> a, std::span<const uint64_t> b,
             std::span<const uint64_t> c, std::span<uint64_t> results);

/// The computation of an approximate f32 instruction: the input of the special function unit, and its quadratic.
struct MufuSteps {
  std::vector<WordStep> before = {};  // ptxas' instructions before the unit: products that bring an argument into range
  uint64_t argument = 0;              // the input of the unit
  std::string_view table = {};        // "ex2"
  int index = 0;                      // of the quadratic in its table
  uint32_t x = 0;                     // where the quadratic is evaluated, 17 bits; for rcp 2x of 16 bits
  int64_t c0 = 0;
  int32_t c1 = 0, c2 = 0;
  uint64_t square = 0;  // S(x) / 2^19: the truncated square
  uint64_t value = 0;   // c0 + c1 x 2^18 + c2 S(x), in units of 2^-unit
  int unit = 0;
  uint64_t unit_result = 0;           // the output of the unit
  std::vector<WordStep> behind = {};  // ptxas' instructions after it: a product or a sum; 16-bit formats: truncation
  uint64_t result = 0;
};

/// The steps. Nothing for an instruction without the unit, or for an argument that needs no quadratic (NaN, infinity,
/// zero). For div, the steps of the reciprocal of b.
std::optional<MufuSteps> mufu_steps(const MathInstruction& instruction, uint64_t a, uint64_t b = 0);

/// The exact result rounded down and up: the codes on either side of it, equal if it is a code. Nothing for approximate
/// instructions, and for two codes per word.
std::optional<std::pair<uint64_t, uint64_t>> neighbours_of(const MathInstruction& instruction, uint64_t a,
                                                           uint64_t b = 0, uint64_t c = 0);

}  // namespace bitmma
