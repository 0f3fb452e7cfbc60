// SPDX-License-Identifier: MIT
// The benchmark cases: for every accumulator row a small and the largest shape, as one state with random operands; and
// whole products.
//
//   const BenchTimes times = measure(bench_cases().front(), 0.05, 4);
//   print(describe({times}));
#pragma once

#include <string>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/gemm/gemm.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/prepared.hpp"

namespace bitmma {

struct BenchCase {
  std::string name = {};  // "wgmma f16 -> f32 m64n256k16"
  Instruction instruction = Wgmma{};
  Target target = Target::sm_90a;

  double outputs() const {
    const Mma mma = mma_of(instruction);
    return static_cast<double>(mma.m) * mma.n;
  }
  double terms() const { return outputs() * mma_of(instruction).stored_k(); }
};

std::vector<BenchCase> bench_cases();

/// One case in memory, and the steps of its simulation.
class BenchMachine {
 public:
  explicit BenchMachine(const BenchCase& bench_case) : BenchMachine(bench_case.instruction, bench_case.target) {}
  explicit BenchMachine(const Instruction& instruction);
  BenchMachine(const Instruction& instruction, Target target);

  void simulate();          // everything: gather, decode, dot products, rounding, scatter
  void execute_prepared();  // the same `prepared_products()` times, prepared: a batch in registers, or one state
  void gather() const;      // images, registers and Tensor Memory -> logical operands
  void multiply() const;    // decode, dot products, rounding

  int prepared_products() const { return d_.empty() ? 1 : batch; }

 private:
  static constexpr int batch = 64;

  void begin_chain_again();

  Instruction instruction_;
  Target target_;
  Prepared prepared_;
  const AccumulatorModel& model_;
  Operands operands_;
  State before_;  // the initial state
  State state_;   // the state on which simulate() acts
  std::vector<Field> written_ = {};
  std::vector<uint32_t> d_ = {};  // registers of a batch
  int simulated_ = 0;
};

/// Times of a case on this machine, in seconds. Those of one thread are the fastest seen: other load only adds time.
struct [[nodiscard]] BenchTimes {
  BenchCase bench_case = {};
  double whole = 0, gather = 0, multiply = 0;  // of one simulation, and its steps
  int threads = 1;
  double rate_alone = 0, rate_together = 0;  // cases per second of one thread, and of all threads

  double rest() const { return whole - gather - multiply > 0 ? whole - gather - multiply : 0; }
  double of_linear() const { return rate_together / rate_alone / threads; }
};

/// Measures each of five figures for about this long.
BenchTimes measure(const BenchCase& bench_case, double seconds, int threads = 1);

/// {"cpu_target", "results": a list of {"case", "target", "seconds", "outputs", "terms", "gather_seconds",
/// "multiply_seconds", "threads", "cases_per_second_all_threads", "of_linear"}}.
Report describe(const std::vector<BenchTimes>& times);

/// A whole product of 1024 x 1024 x 1024.
struct BenchProduct {
  static constexpr int size = 1024;
  std::string name = {};  // "gemm sm_90a bf16 -> f32"
  GemmPlan plan = {};

  static constexpr double terms() { return static_cast<double>(size) * size * size; }
  GemmInputs inputs() const;  // N(0,1)
};

std::vector<BenchProduct> bench_products();

}  // namespace bitmma
