// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/launch_file.hpp"
#include "bitmma/hardware/campaign.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "recorded_file.hpp"

namespace bitmma::cli {
namespace {

struct VerifyFlags {
  Flag<std::vector<std::string>> paths;
  FileFlags file;
  CpuTargetFlag cpu_target;
  LaunchLimitFlags limits;
  Flag<bool> json = false;
  Flag<int> threads = 1;
};

/// The results of all files with one kind of instruction on one target.
struct Group {
  int64_t files = 0;
  Comparison comparison;
  std::string arithmetic;
};

Report describe_file(const RecordedFile& file, const Comparison& comparison) {
  Report report = describe(comparison, file.instruction());
  report.update({{"file", file.path()},
                 {"instruction", print(file.instruction())},
                 {"target", print(file.target())},
                 {"source", file.source()},
                 {"evidence", print_evidence(file.instruction(), file.target())},
                 {"choices", describe(file.vectors() ? choices_of(*file.vectors()) : std::vector<Choice>{})}});
  if (file.tile()) report.add("steps", file.tile()->steps());
  return report;
}

/// The contents of all paths, read before anything is computed.
struct VerifiedFiles {
  std::vector<std::pair<std::string, RecordedFile>> instructions;
  std::vector<LaunchFile> launches;
  std::vector<Violation> unreadable;

  int64_t units() const {
    int64_t count = 0;
    for (const auto& [path, file] : instructions) count += file.cases();
    for (const LaunchFile& file : launches) count += std::ssize(file.launches);
    return count;
  }
};

/// An unreadable file is reported, and the others are verified; the same holds for a file that records no D, because
/// there is nothing to verify.
VerifiedFiles files_of(const Context& context, const VerifyFlags& flags) {
  VerifiedFiles files;
  for (const std::string& path : vector_files(flags.paths)) {
    try {
      TensorFile file = read_tensor_file(path);
      if (has_launches(file)) {
        files.launches.push_back(as_launch_file(std::move(file)));
        continue;
      }
      RecordedFile recorded = read_recorded(context, std::move(file), flags.file);
      recorded.require_recorded();
      files.instructions.emplace_back(path, std::move(recorded));
    } catch (const Error& error) {
      std::ranges::copy(error.violations(), std::back_inserter(files.unreadable));
    }
  }
  return files;
}

std::string print_extents(const std::array<int64_t, 3>& extents) { return fmt::format("{}", fmt::join(extents, ",")); }

/// The name of a launch in messages: "softmax, grid 4,1,1, block 128,1,1 (my label)".
std::string print_launch(const RecordedLaunch& launch) {
  return fmt::format("{}, grid {}, block {}{}", printable(launch.entry), print_extents(launch.grid),
                     print_extents(launch.block), launch.label.empty() ? "" : fmt::format(" ({})", launch.label));
}

/// Launches of one kernel.
struct KernelGroup {
  int64_t launches = 0, refused = 0, changed = 0, differing = 0;
};

/// Runs the launches of all files again, and adds the results to the report. Returns an exit code.
int verify_launches(const VerifiedFiles& files, int threads, const LaunchLimits& limits, ProgressLine& progress,
                    Report& report) {
  std::map<std::string, KernelGroup> groups;
  KernelGroup total;
  Report results = Report::list();
  std::vector<std::string> failures;
  int64_t cases = 0;
  for (const auto& [path, file] : files.instructions) cases += file.cases();
  for (const LaunchFile& file : files.launches) {
    const std::vector<LaunchComparison> done = verify(file, threads, progress.from(cases + total.launches), limits);
    for (size_t i = 0; i < done.size(); ++i) {
      const LaunchComparison& one = done[i];
      const RecordedLaunch& launch = file.launches[i];
      const std::string name = fmt::format("{}: launch {}, {}", printable(file.file.path), i, print_launch(launch));
      for (KernelGroup* const group : {&groups[launch.entry], &total}) {
        ++group->launches;
        group->refused += !one.refused.empty();
        group->changed += one.changed_bytes;
        group->differing += one.differing_bytes;
      }
      for (const Violation& violation : one.refused) failures.push_back(fmt::format("{}: {}", name, print(violation)));
      if (one.first) {
        failures.push_back(fmt::format(
            "{}: {} of {} that the GPU changed {}, first byte {} of memory {}: expected {:#04x}, actual {:#04x}{}{}",
            name, one.differing_bytes, counted(one.changed_bytes, "byte"), differ(one.differing_bytes),
            one.first->offset, one.first->memory, one.first->expected, one.first->actual,
            one.order_matters ? "; its atomics add floating-point numbers, in an order that a GPU does not define" : "",
            one.unsure_fusions > 0 ? "; bitmma run --fusions shows uncertain fusions of products and sums" : ""));
      }
      results.append(Report{{"file", file.file.path},
                            {"launch", i},
                            {"kernel", launch.entry},
                            {"label", launch.label},
                            {"target", print(file.target)},
                            {"changed_bytes", one.changed_bytes},
                            {"differing_bytes", one.differing_bytes},
                            {"thread_instructions", one.thread_instructions},
                            {"unsure_fusions", one.unsure_fusions},
                            {"order_matters", one.order_matters},
                            {"refused", one.refused}});
    }
  }
  std::vector<std::vector<std::string>> table{{"kernel", "launches", "bytes changed", "differing", "refused"}};
  for (const auto& [name, group] : groups) {
    table.push_back({printable(name), std::to_string(group.launches), std::to_string(group.changed),
                     std::to_string(group.differing), std::to_string(group.refused)});
  }
  report.update({{"launches", std::move(results)}});
  report.add_text(print_table(table) + "\n");
  for (const std::string& failure : failures) report.add_text(failure);
  const bool is_same = total.differing + total.refused == 0;
  report.add_text(fmt::format("launches {}, bytes changed {}, differing {}, refused {}", total.launches, total.changed,
                              total.differing, total.refused),
                  is_same ? Tone::good : Tone::bad);
  return total.refused > 0 ? exit_bad_request : total.differing > 0 ? exit_differs : exit_same;
}

/// The same for cases of instructions.
int verify_instructions(const VerifyFlags& flags, VerifiedFiles& files, ProgressLine& progress, Report& report) {
  std::map<std::pair<std::string, std::string_view>, Group> groups;
  Comparison total;
  Report results = Report::list();
  std::vector<std::string> failures;
  constexpr int most_drawn = 4;  // number of maps to draw
  int failed_files = 0, verified_files = 0;
  for (auto& [path, held] : files.instructions) {
    const RecordedFile file = std::exchange(held, {});  // freed after use
    Comparison one;
    try {
      one = verify(file, flags.threads, progress.from(total.cases));
    } catch (const Error& error) {  // reading the whole file shows whether it contradicts itself
      std::ranges::copy(error.violations(), std::back_inserter(files.unreadable));
      continue;
    }
    ++verified_files;
    const Instruction& instruction = file.instruction();
    Group& group = groups[{instruction_group(instruction), print(file.target())}];
    ++group.files;
    group.comparison += one;
    group.arithmetic = print_arithmetic(instruction, file.target());
    total += one;
    if (flags.json) results.append(describe_file(file, one));
    if (one.mismatches == 0) continue;
    failures.push_back(fmt::format("{}: {} of {} {} in {} of {}, first {}", printable(path), one.mismatches,
                                   counted(one.outputs, "output"), differ(one.mismatches), one.cases_with_mismatches,
                                   counted(one.cases, "case"), print(*one.first)));
    if (++failed_files <= most_drawn) failures.push_back(print(describe(one, instruction)));
  }
  if (verified_files == 0 && files.launches.empty()) throw Error(std::move(files.unreadable));
  std::vector<std::vector<std::string>> table{
      {"instruction", "target", "files", "cases", "outputs", "mismatches", "arithmetic"}};
  for (const auto& [name, group] : groups) {
    table.push_back({name.first, std::string(name.second), std::to_string(group.files),
                     std::to_string(group.comparison.cases), std::to_string(group.comparison.outputs),
                     std::to_string(group.comparison.mismatches), group.arithmetic});
  }
  report.update({{"files", verified_files},
                 {"cases", total.cases},
                 {"outputs", total.outputs},
                 {"mismatches", total.mismatches},
                 {"cpu_target", cpu_target()},
                 {"results", std::move(results)}});
  report.add_text(print_table(table) + "\n");
  for (const std::string& failure : failures) report.add_text(failure);
  report.add_text(fmt::format("files {}, cases {}, outputs {}, mismatches {}", verified_files, total.cases,
                              total.outputs, total.mismatches),
                  total.mismatches == 0 ? Tone::good : Tone::bad);
  return total.mismatches == 0 ? exit_same : exit_differs;
}

void run_verify(Context& context, const VerifyFlags& flags) {
  flags.cpu_target.use();
  VerifiedFiles files = files_of(context, flags);  // read every header first, so that progress knows the total
  if (files.instructions.empty() && files.launches.empty()) throw Error(std::move(files.unreadable));
  Report report = Report::object();
  {
    ProgressLine progress(context, "verify", files.units());
    if (!files.instructions.empty()) context.exit_code = verify_instructions(flags, files, progress, report);
    if (!files.launches.empty())
      context.exit_code =
          std::max(context.exit_code, verify_launches(files, flags.threads, flags.limits.limits(), progress, report));
  }
  if (!files.unreadable.empty()) context.exit_code = exit_bad_request;
  report.add("unreadable", files.unreadable);
  if (!flags.json) {
    for (const Violation& violation : files.unreadable) context.terminal.err << "error: " << print(violation) << '\n';
  }
  show(context, report, flags.json);
}

}  // namespace

void add_verify(Command& app, Context& context) {
  Command* command =
      app.add_command("verify", "recompute D, or whole launches of kernels, and compare with what is recorded");
  const auto flags = std::make_shared<VerifyFlags>();
  command->add_input("paths", flags->paths, "files with cases or with launches of kernels, or folders of such files")
      ->required();
  flags->file.add(*command);
  flags->file.add_types(*command);
  command->add_flag("--json", flags->json, "print the result as JSON");
  flags->limits.add(*command);
  add_threads(*command, flags->threads);
  flags->cpu_target.add(*command);
  command->footer(
      "Examples:\n  bitmma verify data/golden/sm_90a\n  bitmma verify dump.safetensors --json\n  bitmma verify "
      "dump.safetensors --cpu-target baseline\n  bitmma verify launches.safetensors\nFor the first files, the output "
      "shows which rows, columns, warps and registers differ. An unreadable file is reported, and the others are "
      "verified. Exit code 1 if any bit differs, 2 if a file could not be read.");
  command->callback([flags, &context] { run_verify(context, *flags); });
}

}  // namespace bitmma::cli
