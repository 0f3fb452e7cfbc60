// SPDX-License-Identifier: MIT
// An instruction prepared for many executions, for emulators: the instruction is checked once. An execution acts on a
// State, or, for mma.sync, reads the registers of a warp in the caller's memory, multiplies, and writes D.
//
//   const Prepared mma(parse_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), Target::sm_90a);
//   mma.execute({.a = a, .b = b, .c = c}, d);                        a[32][4], b[32][2], c[32][4], d[32][4]
//   mma.execute_batch(1000, {.a = {a, 128}, .b = b, .c = {c, 128}}, d, 128);          one B for all
#pragma once

#include <cstdint>
#include <memory>

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/state.hpp"

namespace bitmma {

/// Registers of a warp, thread-major as in a State. Those of product i begin at words + i * stride.
struct RegisterView {
  const uint32_t* words = nullptr;
  int64_t stride = 0;  // in words; 0: all products share the registers

  constexpr RegisterView() = default;
  constexpr RegisterView(const uint32_t* first, int64_t words_apart = 0) : words(first), stride(words_apart) {}
};

/// The registers that an mma.sync reads. An operand that the instruction does not have stays nullptr.
struct WarpRegisters {
  RegisterView a = {}, b = {}, c = {};
  RegisterView metadata = {};               // of a sparse A
  RegisterView scale_a = {}, scale_b = {};  // block scales
};

/// Words of all 32 lanes; 0 if the instruction does not have the operand. A register of f64 has two words, the low one
/// first.
struct WarpWords {
  int a = 0, b = 0, c = 0, metadata = 0, scale_a = 0, scale_b = 0, d = 0;
};

class Prepared {
 public:
  /// Throws Error if the instruction is illegal on the target.
  Prepared(const Instruction& instruction, Target target);

  const Instruction& instruction() const;
  Target target() const;
  /// Of mma.sync and mma.sp; all are 0 for other families.
  const WarpWords& words() const;

  /// Acts on the state like execute(), of any family. The instruction is not checked again; buffers, descriptors and
  /// addresses are. Throws Error, and leaves `state` unchanged, if a buffer is missing or has the wrong size, or if an
  /// operand is outside its memory.
  void execute(State& state) const;

  /// Writes the D that execute() writes for a State with these registers. D may be the memory of C. Throws Error, and
  /// writes nothing, if an operand is missing or the instruction does not have it, or if it is not mma.sync or mma.sp.
  void execute(const WarpRegisters& registers, uint32_t* d) const { execute_batch(1, registers, d, 0); }
  /// The same for `count` products. D of product i begins at d + i * d_stride and is written before product i + 1 reads
  /// its registers: with c = {d, 0} and d_stride = 0 the products are a chain over K.
  void execute_batch(int64_t count, const WarpRegisters& registers, uint32_t* d, int64_t d_stride) const;

 private:
  struct Inside;
  std::shared_ptr<const Inside> inside_;
};

}  // namespace bitmma
