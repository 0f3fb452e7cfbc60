// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "../core/seconds.hpp"
#include "bitmma/acts/benchmark.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {
namespace {

using Clock = std::chrono::steady_clock;

/// Seconds per call: the fastest of at least ten batches, because other load on the machine only adds time.
template <typename Body>
double time_of(double seconds, const Body& body) {
  body();
  const Clock::time_point probe = Clock::now();
  body();
  const int batch = std::max(1, static_cast<int>(seconds / 10 / std::max(seconds_since(probe), 1e-7)));
  double best = 1e9;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 10 || seconds_since(start) < seconds; ++i) {
    const Clock::time_point begin = Clock::now();
    for (int j = 0; j < batch; ++j) body();
    best = std::min(best, seconds_since(begin) / batch);
  }
  return best;
}

/// Cases per second of `threads` threads together, each with its own machine.
double rate_of(const BenchCase& bench_case, int threads, double seconds) {
  std::vector<double> rates(static_cast<size_t>(threads));
  {
    std::vector<std::jthread> pool;
    for (double& rate : rates) {
      pool.emplace_back([&] {
        BenchMachine machine(bench_case);
        machine.simulate();
        const Clock::time_point start = Clock::now();
        int64_t done = 0;
        do {
          for (int i = 0; i < 16; ++i, ++done) machine.simulate();
        } while (seconds_since(start) < seconds);
        rate = static_cast<double>(done) / seconds_since(start);
      });
    }
  }
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

}  // namespace

BenchTimes measure(const BenchCase& bench_case, double seconds, int threads) {
  return in_ieee_environment([&] {
    BenchMachine machine(bench_case);
    return BenchTimes{.bench_case = bench_case,
                      .whole = time_of(seconds, [&] { machine.simulate(); }),
                      .gather = time_of(seconds, [&] { machine.gather(); }),
                      .multiply = time_of(seconds, [&] { machine.multiply(); }),
                      .threads = threads,
                      // One core and all cores are measured in the same way, so that their ratio is meaningful.
                      .rate_alone = rate_of(bench_case, 1, seconds),
                      .rate_together = rate_of(bench_case, threads, seconds)};
  });
}

Report describe(const std::vector<BenchTimes>& times) {
  const std::string all = times.empty() ? "" : counted(times.front().threads, "thread");
  std::vector<std::vector<std::string>> table{{"case", "us", "ns/output", "1e9 terms/s", "gather us", "multiply us",
                                               "rest us", all + " 1e9 terms/s", "of linear"}};
  Report results = Report::list();
  in_ieee_environment([&] {
    for (const BenchTimes& row : times) {
      const BenchCase& bench_case = row.bench_case;
      const auto number = [](double value) { return fmt::format("{:.2f}", value); };
      table.push_back({bench_case.name, number(row.whole * 1e6), number(row.whole / bench_case.outputs() * 1e9),
                       number(bench_case.terms() / row.whole / 1e9), number(row.gather * 1e6),
                       number(row.multiply * 1e6), number(row.rest() * 1e6),
                       number(row.rate_together * bench_case.terms() / 1e9), number(row.of_linear())});
      results.append({{"case", bench_case.name},
                      {"target", print(bench_case.target)},
                      {"seconds", row.whole},
                      {"outputs", bench_case.outputs()},
                      {"terms", bench_case.terms()},
                      {"gather_seconds", row.gather},
                      {"multiply_seconds", row.multiply},
                      {"threads", row.threads},
                      {"cases_per_second_all_threads", row.rate_together},
                      {"of_linear", row.of_linear()}});
    }
  });
  Report report{{"cpu_target", cpu_target()}, {"results", std::move(results)}};
  report.add_text(table);
  report.add_text(fmt::format("\nHot loops for {}. Times of one thread are the fastest seen.", cpu_target()));
  return report;
}

}  // namespace bitmma
