// Wrong hypotheses about the arithmetic, one change of a model row each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma::test {

struct Mutant {
  std::string name;
  std::function<void(AccumulatorModel&)> change;
};

const std::vector<Mutant>& mutants();
/// Those of mma.sync: the same and others, about its steps, its fp8 and its chains of operations.
const std::vector<Mutant>& warp_mutants();

/// "f16 f32": the input and output type that name a fused row.
std::string name_of(const AccumulatorModel& row);

/// False for hypotheses that no input of the row can tell from the hardware's rule.
bool is_visible(const AccumulatorModel& row, const Mutant& mutant);

/// A dense and a sparse instruction of mma.sync for every pair of types that adds by the row on `target`, with the
/// largest K.
std::vector<Instruction> warp_instructions(const AccumulatorModel& row, Target target);

}  // namespace bitmma::test
