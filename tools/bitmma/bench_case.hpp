// What benchmarks measure: for every accumulator row a small and the largest shape, as one machine that holds random
// operands.
#pragma once

#include <string>
#include <vector>

#include "bitmma/instruction/simulate.hpp"
#include "bitmma/instruction/tcgen05_machine.hpp"

namespace bitmma::cli {

struct BenchCase {
  std::string name;  // "wgmma f16.f16 -> f32 m64n256k16"
  Instruction instruction;

  double outputs() const { return static_cast<double>(instruction.m) * instruction.n; }
  double terms() const { return outputs() * instruction.stored_k(); }
};

std::vector<BenchCase> bench_cases();

/// One case in memory, and the steps of its simulation.
class BenchMachine {
 public:
  explicit BenchMachine(const Instruction& instruction);

  void simulate() const;  // everything: gather, decode, dot products, rounding, scatter
  void gather() const;    // images, registers and Tensor Memory -> logical operands
  void multiply() const;  // decode, dot products, rounding

 private:
  Instruction instruction_;
  MachineState state_;
  Tcgen05State tcgen05_;
  mutable std::vector<uint32_t> tmem_after_;  // every simulate() writes the same D into it
  Operands operands_;
};

}  // namespace bitmma::cli
