// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "arguments.hpp"
#include "bench_case.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchFlags {
  Flag<std::vector<std::string>> words;
  CpuTargetFlag cpu_target;
  Flag<double> seconds = 0.05;
  Flag<int> threads = 1;
  Flag<bool> json = false;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

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

void run_bench(Context& context, const BenchFlags& flags) {
  flags.cpu_target.use();
  std::vector<BenchCase> cases;
  for (BenchCase& bench : bench_cases()) {
    const auto is_in_name = [&](const std::string& word) { return bench.name.find(word) != std::string::npos; };
    if (std::ranges::all_of(flags.words, is_in_name)) cases.push_back(std::move(bench));
  }
  if (cases.empty()) {
    throw Error({.field = "words",
                 .seen = fmt::format("{}", fmt::join(*flags.words, " ")),
                 .expected = "words that a case has in its name",
                 .fix = "bitmma bench without an argument measures all cases"});
  }

  // Three timings on one thread, each lengthened by its first calls, and two rates.
  constexpr double figures = 5, first_calls = 0.4;
  const auto count = static_cast<double>(cases.size());
  context.terminal.err << fmt::format("bench: {}, about {:.0f} s; words select cases, --seconds shortens each\n",
                                      counted(static_cast<int64_t>(cases.size()), "case"),
                                      std::max(1.0, count * (figures + first_calls) * flags.seconds));
  const std::string all = counted(flags.threads, "thread");
  std::vector<std::vector<std::string>> table{{"case", "us", "ns/output", "1e9 terms/s", "gather us", "multiply us",
                                               "rest us", all + " 1e9 terms/s", "of linear"}};
  Report results = Report::list();
  {
    ProgressLine progress(context, "bench", static_cast<int64_t>(cases.size()));
    for (size_t i = 0; i < cases.size(); ++i) {
      const BenchCase& bench_case = cases[i];
      BenchMachine machine(bench_case);
      const double whole = time_of(flags.seconds, [&] { machine.simulate(); }),
                   gather = time_of(flags.seconds, [&] { machine.gather(); }),
                   multiply = time_of(flags.seconds, [&] { machine.multiply(); }),
                   rest = std::max(0.0, whole - gather - multiply);
      // Measure one core and all cores in the same way, so that their ratio is meaningful.
      const double alone = rate_of(bench_case, 1, flags.seconds),
                   together = rate_of(bench_case, flags.threads, flags.seconds);
      const double linear = together / alone / flags.threads;
      table.push_back({bench_case.name, fmt::format("{:.2f}", whole * 1e6),
                       fmt::format("{:.2f}", whole / bench_case.outputs() * 1e9),
                       fmt::format("{:.2f}", bench_case.terms() / whole / 1e9), fmt::format("{:.2f}", gather * 1e6),
                       fmt::format("{:.2f}", multiply * 1e6), fmt::format("{:.2f}", rest * 1e6),
                       fmt::format("{:.2f}", together * bench_case.terms() / 1e9), fmt::format("{:.2f}", linear)});
      results.append({{"case", bench_case.name},
                      {"target", print(bench_case.target)},
                      {"seconds", whole},
                      {"outputs", bench_case.outputs()},
                      {"terms", bench_case.terms()},
                      {"gather_seconds", gather},
                      {"multiply_seconds", multiply},
                      {"threads", flags.threads.get()},
                      {"cases_per_second_all_threads", together},
                      {"of_linear", linear}});
      progress.update(static_cast<int64_t>(i + 1));
    }
  }
  Report report{{"cpu_target", cpu_target()}, {"results", std::move(results)}};
  report.add_text(table);
  report.add_text(fmt::format("\nHot loops for {}. Times of one thread are the fastest seen.", cpu_target()));
  show(context, report, flags.json);
}

}  // namespace

void add_bench(Command& app, Context& context) {
  Command* command = app.add_command("bench", "measure how fast this machine simulates each rule of addition");
  const auto flags = std::make_shared<BenchFlags>();
  command->add_option("words", flags->words, "measure only cases with all these words in their name");
  command->add_option("--seconds", flags->seconds, "time for each measurement")->capture_default_str();
  between(command->get_option("--seconds"), 0.001, 60.0);
  flags->cpu_target.add(*command);
  add_threads(*command, flags->threads);
  command->add_flag("--json", flags->json, "print the result as JSON");
  command->footer(
      "Examples:\n"
      "  bitmma bench\n"
      "  bitmma bench wgmma n256 --seconds 0.01\n"
      "  bitmma bench f16 --cpu-target baseline");
  command->callback([flags, &context] { run_bench(context, *flags); });
}

}  // namespace bitmma::cli
