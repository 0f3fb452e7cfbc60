// How long one case takes in memory: gather, decode, dot products, round, scatter. One thread.
#include <malloc.h>

#include <benchmark/benchmark.h>

#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/random_operands.hpp"
#include "bitmma/instruction/simulate.hpp"

namespace {

using namespace bitmma;

/// Eigen's float product of the same shape, the yardstick that is measured in the same process.
void eigen_float(benchmark::State& state, int m, int n, int k) {
  const Eigen::MatrixXf a = Eigen::MatrixXf::Random(m, k), b = Eigen::MatrixXf::Random(k, n);
  Eigen::MatrixXf d = Eigen::MatrixXf::Zero(m, n);
  for (auto _ : state) {
    d.noalias() += a * b;
    benchmark::DoNotOptimize(d.data());
  }
  state.counters["terms/s"] = benchmark::Counter(double(m) * n * k, benchmark::Counter::kIsIterationInvariantRate);
}

void simulate_case(benchmark::State& state, const Instruction& instruction) {
  const OperandLayout layout;
  const Operands operands = random_operands(instruction, Distribution::narrow, 1, 0);
  const MachineState machine = place_operands(instruction, plan_placement(instruction, layout, layout), operands, filler_stream(1, 0));
  for (auto _ : state) benchmark::DoNotOptimize(simulate(instruction, machine.view()));
  const double outputs = double(instruction.m) * instruction.n;
  state.counters["outputs/s"] = benchmark::Counter(outputs, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["terms/s"] = benchmark::Counter(outputs * instruction.stored_k(), benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace

int main(int argc, char** argv) {
  // As the program does: without it, returning pages between cases costs more than the arithmetic.
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  for (const LegalForm& form : legal_forms()) {
    if (form.a != form.b) continue;
    for (const int n : {8, 256}) {
      const Instruction instruction{.n = n, .k = form.k_dense, .d = form.d, .a = form.a, .b = form.b, .bit_operation = std::string(form.bit_operation)};
      benchmark::RegisterBenchmark(print(instruction).c_str(), simulate_case, instruction)->Unit(benchmark::kMicrosecond);
      benchmark::RegisterBenchmark(("Eigen float of the same shape, n = " + std::to_string(n) + ", k = " + std::to_string(form.k_dense)).c_str(), eigen_float, 64, n, form.k_dense)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
