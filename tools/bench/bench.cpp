// SPDX-License-Identifier: MIT
// Times one case in memory, as a whole and by part, for a small and the largest shape of every accumulator row; for
// comparison Eigen's float product of the same shape, built for this processor, and for integers a plain integer
// product. Also whole products of 1024 x 1024 x 1024, batches of word functions with C's and libmvec's for comparison,
// and instructions of kernels.
//   --table   prints, after the measurement, one line per case in the form of docs/performance.md
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <map>

#include "bitmma/acts/benchmark.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/kernel/kernel.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "yardstick.hpp"

namespace {

using namespace bitmma;

constexpr std::string_view avx2 = "x86-64-v3";  // of cpu_targets()

void count(benchmark::State& state, const BenchCase& bench_case) {
  state.counters["terms/s"] = benchmark::Counter(bench_case.terms(), benchmark::Counter::kIsIterationInvariantRate);
}

void simulate_case(benchmark::State& state, const BenchCase& bench_case) {
  BenchMachine machine(bench_case);
  for (auto _ : state) machine.simulate();
  count(state, bench_case);
}

void execute_prepared(benchmark::State& state, const BenchCase& bench_case) {
  BenchMachine machine(bench_case);
  for (auto _ : state) machine.execute_prepared();
}

/// The loops of an instruction set, until the end of the scope.
class CpuTarget {
 public:
  explicit CpuTarget(std::string_view target) : usual_(cpu_target()) { use_cpu_target(target); }
  ~CpuTarget() { use_cpu_target(usual_); }

 private:
  std::string_view usual_;
};

void multiply_matrices(benchmark::State& state, const BenchProduct& product, int threads, std::string_view target) {
  const CpuTarget loops(target);
  const GemmInputs inputs = product.inputs();
  for (auto _ : state) benchmark::DoNotOptimize(gemm(product.plan, inputs, threads));
  state.counters["terms/s"] = benchmark::Counter(product.terms(), benchmark::Counter::kIsIterationInvariantRate);
}

template <BuiltFor processor>
void yardstick_of_matrices(benchmark::State& state) {
  constexpr int size = BenchProduct::size;
  EigenProduct<processor> product(size, size, size);
  for (auto _ : state) product.run();
  state.counters["terms/s"] = benchmark::Counter(BenchProduct::terms(), benchmark::Counter::kIsIterationInvariantRate);
}

template <typename Product>
void yardstick(benchmark::State& state, const BenchCase& bench_case) {
  const Mma mma = mma_of(bench_case.instruction);
  Product product(mma.m, mma.n, mma.stored_k());
  for (auto _ : state) product.run();
  count(state, bench_case);
}

/// A word function, with the functions of C and of a vector library that compute nearly the same.
struct WordBench {
  std::string_view instruction;
  void (*of_c)(const float*, float*, int64_t);
  void (*of_vectors)(const float*, float*, int64_t);
};
constexpr std::array word_benches{
    WordBench{"ex2.approx.ftz.f32", exp2_of_c, exp2_of_vectors},
    WordBench{"rcp.approx.ftz.f32", reciprocal_of_c, reciprocal_of_vectors},
    WordBench{"rsqrt.approx.ftz.f32", reciprocal_root_of_c, reciprocal_root_of_vectors},
};
constexpr int64_t words_of_a_batch = 8192;  // operands and results stay in the L1 cache

/// From 1/16 to 16: no subnormal numbers, for which C's functions may take a slow path.
std::vector<uint32_t> bench_words() {
  std::vector<uint32_t> words;
  for (int64_t i = 0; i < words_of_a_batch; ++i)
    words.push_back(0x3D800000 + static_cast<uint32_t>(static_cast<uint64_t>(i) * 0x9E3779B1 % 0x04000000));
  return words;
}

void count_values(benchmark::State& state) {
  state.counters["values/s"] = benchmark::Counter(words_of_a_batch, benchmark::Counter::kIsIterationInvariantRate);
}

void compute_words(benchmark::State& state, std::string_view name, std::string_view target) {
  const CpuTarget loops(target);
  const MathInstruction instruction = parse_math_instruction(name);
  const std::vector<uint32_t> words = bench_words();
  std::vector<uint32_t> results(words.size());
  for (auto _ : state) {
    compute(instruction, words, {}, {}, results);
    benchmark::ClobberMemory();
  }
  count_values(state);
}

void yardstick_of_words(benchmark::State& state, void (*function)(const float*, float*, int64_t)) {
  std::vector<float> words, results(static_cast<size_t>(words_of_a_batch));
  for (const uint32_t word : bench_words()) words.push_back(std::bit_cast<float>(word));
  for (auto _ : state) {
    function(words.data(), results.data(), words_of_a_batch);
    benchmark::ClobberMemory();
  }
  count_values(state);
}

/// Instructions that a loop of a kernel repeats, sixteen per iteration.
constexpr auto kernel_benches = std::to_array<std::string_view>({
    "fma.rn.f32 %f1, %f1, %f2, %f3;",
    "mad.lo.s32 %r1, %r1, %r2, %r3;",
    "add.s32 %r1, %r1, %r2;",
});

/// Thread instructions of a kernel on one host thread.
void run_instructions(benchmark::State& state, std::string_view instruction) {
  std::string ptx =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<8>;\n"
      ".reg .f32 %f<4>;\n.reg .b64 %rd<2>;\n.reg .pred %p<2>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
      "mov.u32 %r2, 3;\nmov.u32 %r3, 5;\nmov.u32 %r4, 0;\ncvt.rn.f32.u32 %f1, %r1;\nmov.f32 %f2, 0f3F7FFF00;\n"
      "mov.f32 %f3, 0f3F800000;\nL:\n";
  for (int i = 0; i < 16; ++i) ptx += fmt::format("{}\n", instruction);
  ptx +=
      "add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p1, %r4, 1000;\n@%p1 bra L;\nst.global.f32 [%rd1], %f1;\n"
      "st.global.u32 [%rd1+4], %r1;\nret;\n}\n";
  const PtxEntry kernel(ptx);
  std::array<uint8_t, 8> memory{};
  uint64_t instructions = 0;
  for (auto _ : state)
    instructions += launch(kernel, {.block = {128, 1, 1}, .arguments = {memory_argument(memory)}}).thread_instructions;
  state.counters["thread instructions/s"] =
      benchmark::Counter(static_cast<double>(instructions), benchmark::Counter::kIsRate);
}

/// Verifies a file of 64 cases of the largest wgmma, from reading to comparison.
void verify_file(benchmark::State& state) {
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("bitmma_bench_{}.safetensors", getpid());
  constexpr int cases = 64;
  write_golden(path,
               {.instruction = parse_instruction("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"),
                .cases = cases,
                .distribution = Distribution::normal},
               1);
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  for (auto _ : state) benchmark::DoNotOptimize(verify(read_vector_file(path), 1));
  std::filesystem::remove(path);
  state.counters["bytes/s"] = benchmark::Counter(bytes, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["cases/s"] = benchmark::Counter(cases, benchmark::Counter::kIsIterationInvariantRate);
}

/// Prints like the console reporter, and keeps the fastest time of every benchmark.
class Table : public benchmark::ConsoleReporter {
 public:
  Table() : ConsoleReporter(isatty(STDOUT_FILENO) ? OO_ColorTabular : OO_Tabular) {}
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      const double seconds = run.real_accumulated_time / static_cast<double>(run.iterations);
      auto& best = seconds_[run.run_name.function_name];
      best = best == 0 ? seconds : std::min(best, seconds);
    }
  }
  void print() const {
    const auto seconds = [&](const auto& bench, std::string_view part) {
      const auto best = seconds_.find(fmt::format("{}/{}", bench.name, part));
      return best == seconds_.end() ? 0.0 : best->second;
    };
    fmt::print(
        "\n| case | prepared us | us | gather us | multiply us | Eigen us | prepared, of Eigen | 1e9 terms/s "
        "|\n|---|---|---|---|---|---|---|---|\n");
    for (const BenchCase& bench_case : bench_cases()) {
      const double whole = seconds(bench_case, "simulate"),
                   prepared = seconds(bench_case, "prepared") / BenchMachine(bench_case).prepared_products(),
                   eigen = seconds(bench_case, "eigen");
      if (whole == 0) continue;
      fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.1f} | {:.2f} |\n", bench_case.name,
                 prepared * 1e6, whole * 1e6, seconds(bench_case, "gather") * 1e6,
                 seconds(bench_case, "multiply") * 1e6, eigen * 1e6, prepared / eigen,
                 bench_case.terms() / prepared / 1e9);
    }
    fmt::print(
        "\n| product | ms | 1e9 terms/s | Eigen ms | of Eigen | both with AVX2 | of linear "
        "|\n|---|---|---|---|---|---|---|\n");
    for (const BenchProduct& product : bench_products()) {
      const double whole = seconds(product, cpu_target()), eigen = seconds(product, "eigen"),
                   all = seconds(product, "all_threads");
      if (whole == 0) continue;
      fmt::print("| {} | {:.1f} | {:.2f} | {:.1f} | {:.1f} | {:.1f} | {:.2f} |\n", product.name, whole * 1e3,
                 product.terms() / whole / 1e9, eigen * 1e3, whole / eigen,
                 seconds(product, avx2) / seconds(product, "eigen_avx2"), whole / all / hardware_threads());
    }
    fmt::print("\n| function | with | 1e6 values/s | of C's | of libmvec's |\n|---|---|---|---|---|\n");
    for (const WordBench& bench : word_benches) {
      const auto rate = [&](std::string_view part) {
        const auto best = seconds_.find(fmt::format("{}/{}", bench.instruction, part));
        return best == seconds_.end() ? 0.0 : static_cast<double>(words_of_a_batch) / best->second / 1e6;
      };
      for (const std::string_view target : cpu_targets()) {
        if (rate(target) == 0) continue;
        fmt::print("| {} | {} | {:.0f} | {:.2f} | {:.2f} |\n", bench.instruction, target, rate(target),
                   rate(target) / rate("C"), rate(target) / rate("libmvec"));
      }
    }
    fmt::print("\nHot loops for {}, {} threads.\n", cpu_target(), hardware_threads());
  }

 private:
  std::map<std::string, double> seconds_;
};

}  // namespace

int main(int argc, char** argv) {
  // As in the program: otherwise returning pages between cases takes longer than the arithmetic.
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  char** const end = std::remove(argv + 1, argv + argc, std::string_view("--table"));
  const bool wants_table = end != argv + argc;
  argc = static_cast<int>(end - argv);
  for (const BenchCase& bench_case : bench_cases()) {
    const auto add = [&](std::string_view part, auto function) {
      benchmark::RegisterBenchmark(fmt::format("{}/{}", bench_case.name, part).c_str(), function)
          ->Unit(benchmark::kMicrosecond)
          ->UseRealTime();
    };
    add("simulate", [bench_case](benchmark::State& state) { simulate_case(state, bench_case); });
    add("prepared", [bench_case](benchmark::State& state) { execute_prepared(state, bench_case); });
    add("gather", [bench_case](benchmark::State& state) {
      const BenchMachine machine(bench_case);
      for (auto _ : state) machine.gather();
    });
    add("multiply", [bench_case](benchmark::State& state) {
      const BenchMachine machine(bench_case);
      for (auto _ : state) machine.multiply();
    });
    add("eigen",
        [bench_case](benchmark::State& state) { yardstick<EigenProduct<BuiltFor::native>>(state, bench_case); });
    if (mma_of(bench_case.instruction).d == Format::s32)
      add("plain_integer",
          [bench_case](benchmark::State& state) { yardstick<PlainIntegerProduct>(state, bench_case); });
  }
  for (const BenchProduct& product : bench_products()) {
    const auto add = [&](std::string_view part, auto function) {
      benchmark::RegisterBenchmark(fmt::format("{}/{}", product.name, part).c_str(), function)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    };
    for (const std::string_view target : cpu_targets())
      add(target, [=](benchmark::State& state) { multiply_matrices(state, product, 1, target); });
    add("eigen", yardstick_of_matrices<BuiltFor::native>);
    if (std::ranges::find(cpu_targets(), avx2) != cpu_targets().end())
      add("eigen_avx2", yardstick_of_matrices<BuiltFor::avx2>);
    add("all_threads",
        [product](benchmark::State& state) { multiply_matrices(state, product, hardware_threads(), cpu_target()); });
  }
  for (const WordBench& bench : word_benches) {
    const auto add = [&](std::string_view part, auto function) {
      benchmark::RegisterBenchmark(fmt::format("{}/{}", bench.instruction, part).c_str(), function)
          ->Unit(benchmark::kMicrosecond);
    };
    for (const std::string_view target : cpu_targets())
      add(target, [=](benchmark::State& state) { compute_words(state, bench.instruction, target); });
    add("C", [bench](benchmark::State& state) { yardstick_of_words(state, bench.of_c); });
    add("libmvec", [bench](benchmark::State& state) { yardstick_of_words(state, bench.of_vectors); });
  }
  for (const std::string_view bench : kernel_benches) {
    benchmark::RegisterBenchmark(fmt::format("kernel {}", bench.substr(0, bench.find(' '))).c_str(),
                                 [=](benchmark::State& state) { run_instructions(state, bench); })
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark("verify a file of m64n256k16 f16", verify_file)
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Table table;
  benchmark::RunSpecifiedBenchmarks(&table);
  if (wants_table) table.print();
  return 0;
}
