// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "arguments.hpp"
#include "bitmma/acts/benchmark.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct BenchFlags {
  Flag<std::vector<std::string>> words;
  CpuTargetFlag cpu_target;
  Flag<double> seconds = 0.05;
  Flag<int> threads = 1;
  Flag<bool> json = false;
};

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
                                      counted(std::ssize(cases), "case"),
                                      std::max(1.0, count * (figures + first_calls) * flags.seconds));
  std::vector<BenchTimes> times;
  {
    ProgressLine progress(context, "bench", std::ssize(cases));
    for (const BenchCase& bench_case : cases) {
      times.push_back(measure(bench_case, flags.seconds, flags.threads));
      progress.update(std::ssize(times));
    }
  }
  show(context, describe(times), flags.json);
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
