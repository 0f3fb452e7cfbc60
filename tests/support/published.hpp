// Results of real GPUs that others published (data/published), as sums: the instruction that ran, its operands and the
// word that the GPU gave. MATLAB-tensor-core has 120,000 outputs in 48 groups; the word lists have a group a line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/state.hpp"
#include "support/amount.hpp"

namespace bitmma::test {

/// Outputs of one GPU and instruction. Output i is element (i, i) of the product of `operands`.
struct PublishedGroup {
  std::string name = {};
  Target target = Target::sm_70;
  Instruction instruction = {};
  AccumulatorModel model = {};           // the row of the target
  Operands operands = {};                // of the outputs, a row of A and a column of B each, without C
  std::vector<uint32_t> c = {}, d = {};  // codes; c is empty where C was not read

  int outputs() const { return static_cast<int>(d.size()); }
};

struct Mismatches {
  int count = 0;
  std::string first = "none";
};

/// Outputs that `model` computes otherwise than the GPU.
Mismatches mismatches_of(const AccumulatorModel& model, const PublishedGroup& group);
/// How many outputs notice that the model of their group is changed.
int noticed(const PublishedGroup& group, const std::function<void(AccumulatorModel&)>& change);

/// The outputs of MATLAB-tensor-core that are read, each tenth under sanitizers: 250 of a group.
inline const int matlab_step = amount(10, 1, 1);
/// MATLAB-tensor-core: wmma and mma.sync of eight GPUs. The instruction is the mma.sync whose K the terms fill.
std::vector<PublishedGroup> matlab_groups();
/// b200_words.txt, a line a group, in the order of the file.
std::vector<PublishedGroup> b200_groups();

/// A line of sm120_words.txt: registers in, registers of lane 0 out.
struct Sm120Line {
  /// source | GPU | runs | instruction | a | b | scale_a | scale_b | c | d
  explicit Sm120Line(const std::vector<std::string>& cells);

  /// The first values of D in lane 0, as many as are published: registers of f32, halves of registers of f16.
  std::vector<uint32_t> computed(State changed, const AccumulatorModel* model = nullptr) const;
  /// The state with the bytes of A and B changed.
  State with_operands(const std::function<uint32_t(uint32_t)>& change) const;

  std::string source;
  int runs = 1;
  Instruction instruction;
  State state;
  std::vector<uint32_t> d;
};
std::vector<Sm120Line> sm120_lines();

}  // namespace bitmma::test
