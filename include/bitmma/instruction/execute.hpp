// SPDX-License-Identifier: MIT
// Running an instruction: check, gather the operands from the state, multiply, scatter the result into the state.
//
//   execute(instruction, Target::sm_90a, state);      for every family; a sequence of calls acts on one state
#pragma once

#include <cstdint>
#include <vector>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/state.hpp"

namespace bitmma {

/// Executes the instruction on `state`. Throws Error, with every violation and `state` unchanged, when the instruction
/// is not legal on `target`, a buffer it needs is missing or of the wrong size, or an operand lies outside its memory.
/// `model` replaces the target's row of arithmetic, for what-if questions.
void execute(const Instruction& instruction, Target target, State& state, const AccumulatorModel* model = nullptr);

/// D as execute would leave it, m x n, without writing it. Of a move: the words it leaves, as result_words has them.
Matrix result_of(const Instruction& instruction, Target target, const State& state,
                 const AccumulatorModel* model = nullptr);

/// What `state` records of the result: D, m x n, from the accumulator or Tensor Memory. Of a move: 32 threads x
/// registers after an ld, otherwise lanes (of all CTAs) x columns of Tensor Memory.
Matrix recorded_result(const Instruction& instruction, const State& state);

/// Logical operands as the instruction reads them: A as m x stored k, B as k x n, C m x n. Where copies in Tensor
/// Memory differ, as the first rows and columns of D see them. Throws like execute.
Operands gather_operands(const Instruction& instruction, Target target, const State& state);

/// D = A * B + C of plain matrices, by the instruction's arithmetic on `target`. A is m x k: of a sparse one at most
/// the allowed codes of a chunk are not zero. Without C, or if the instruction does not read it, C counts as absent.
/// Throws Error when shapes or formats are not the instruction's.
Matrix multiply(const Instruction& instruction, const Matrix& a, const Matrix& b);
Matrix multiply(const Instruction& instruction, Target target, const Matrix& a, const Matrix& b,
                const Matrix* c = nullptr, const BlockScales* scales = nullptr);

/// The target's accumulator row for a legal instruction. Throws Error when there is none.
const AccumulatorModel& model_for(const Instruction& instruction, Target target);

/// Legal but suspicious: what descriptors, copies and metadata say that people rarely mean. Throws like execute.
std::vector<Violation> warnings_of(const Instruction& instruction, Target target, const State& state);

}  // namespace bitmma
