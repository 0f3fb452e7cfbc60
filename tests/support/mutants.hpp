// Wrong hypotheses about the arithmetic, one change of a model row each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"

namespace bitmma::test {

struct Mutant {
  std::string name;
  std::function<void(AccumulatorModel&)> change;
};

const std::vector<Mutant>& mutants();

/// "f16 f32": the input and output type that name a fused row.
std::string name_of(const AccumulatorModel& row);

/// False for hypotheses that no input of the row can tell from the hardware's rule.
bool is_visible(const AccumulatorModel& row, const Mutant& mutant);

}  // namespace bitmma::test
