// SPDX-License-Identifier: MIT
// Execution: check the instruction, gather operands from the state, multiply, scatter the result into the state.
//
//   execute(instruction, Target::sm_90a, state);      for every family; a sequence of calls acts on one state
#pragma once

#include <cstdint>
#include <vector>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/state.hpp"

namespace bitmma {

/// Executes the instruction on `state`. Throws Error with every violation, and leaves `state` unchanged, if the
/// instruction is illegal on `target`, if a buffer is missing or has the wrong size, or if an operand is outside its
/// memory. `model` replaces the target's row of arithmetic, for what-if questions.
void execute(const Instruction& instruction, Target target, State& state, const AccumulatorModel* model = nullptr);

/// The D that execute would write, m x n, without writing it; for a move the written words in the form of result_words.
Matrix result_of(const Instruction& instruction, Target target, const State& state,
                 const AccumulatorModel* model = nullptr);

/// The result recorded in `state`: D, m x n, from the accumulator or Tensor Memory. For a move: 32 threads x registers
/// after an ld, otherwise lanes (of all CTAs) x columns of Tensor Memory.
Matrix recorded_result(const Instruction& instruction, const State& state);

/// Logical operands as the instruction reads them: A as m x stored k, B as k x n, C m x n. If copies in Tensor Memory
/// differ: as the first rows and columns of D read them. Throws like execute.
Operands gather_operands(const Instruction& instruction, Target target, const State& state);

/// D = A * B + C of plain matrices, by the instruction's arithmetic on `target`. A is m x k; in a sparse A each chunk
/// has at most the allowed number of non-zero codes. Without C, or if the instruction does not read it, C is absent.
/// Throws Error if shapes or formats are not the instruction's.
Matrix multiply(const Instruction& instruction, const Matrix& a, const Matrix& b);
Matrix multiply(const Instruction& instruction, Target target, const Matrix& a, const Matrix& b,
                const Matrix* c = nullptr, const BlockScales* scales = nullptr);

/// The target's accumulator row for a legal instruction. Throws Error if there is none.
const AccumulatorModel& model_for(const Instruction& instruction, Target target);

/// Legal but suspicious settings in descriptors, copies and metadata. Throws like execute.
std::vector<Violation> warnings_of(const Instruction& instruction, Target target, const State& state);

}  // namespace bitmma
