// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/statement.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "parts.hpp"
#include "recorded_file.hpp"

namespace bitmma::cli {
namespace {

struct VerifyFlags {
  Flag<std::vector<std::string>> paths;
  FileFlags file;
  CpuTargetFlag cpu_target;
  VerifiedLaunches launches;
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
  std::vector<Violation> unreadable;

  int64_t cases() const {
    int64_t count = 0;
    for (const auto& [path, file] : instructions) count += file.cases();
    return count;
  }
};

/// An unreadable file is reported, and the others are verified; the same holds for a file that records no D, because
/// there is nothing to verify.
VerifiedFiles files_of(const Context& context, VerifyFlags& flags) {
  VerifiedFiles files;
  for (const std::string& path : vector_files(flags.paths)) {
    try {
      TensorFile file = read_tensor_file(path);
      if (flags.launches.take(file)) continue;
      RecordedFile recorded = read_recorded(context, std::move(file), flags.file);
      recorded.require_recorded();
      files.instructions.emplace_back(path, std::move(recorded));
    } catch (const Error& error) {
      std::ranges::copy(error.violations(), std::back_inserter(files.unreadable));
    }
  }
  return files;
}

/// Computes the cases of all files again, and adds the results to the report. Returns an exit code.
int verify_instructions(const VerifyFlags& flags, VerifiedFiles& files, ProgressLine& progress, Report& report) {
  std::map<std::pair<std::string, std::string_view>, Group> groups;
  Comparison total;
  Report results = Report::list();
  std::vector<std::string> failures;
  constexpr int most_drawn = 4;  // number of maps to draw
  int failed_files = 0, verified_files = 0;
  for (auto& [path, held] : files.instructions) {
    const RecordedFile file = std::exchange(held, {});  // freed after use
    Comparison comparison;
    try {
      comparison = verify(file, flags.threads, progress.from(total.cases));
    } catch (const Error& error) {  // reading the whole file shows whether it contradicts itself
      std::ranges::copy(error.violations(), std::back_inserter(files.unreadable));
      continue;
    }
    ++verified_files;
    const Instruction& instruction = file.instruction();
    Group& group = groups[{instruction_group(instruction), print(file.target())}];
    ++group.files;
    group.comparison += comparison;
    group.arithmetic = print_arithmetic(instruction, file.target());
    total += comparison;
    if (flags.json) results.append(describe_file(file, comparison));
    if (comparison.mismatches == 0) continue;
    failures.push_back(fmt::format("{}: {} of {} {} in {} of {}, first {}", printable(path), comparison.mismatches,
                                   counted(comparison.outputs, "output"), differ(comparison.mismatches),
                                   comparison.cases_with_mismatches, counted(comparison.cases, "case"),
                                   print(*comparison.first)));
    if (++failed_files <= most_drawn) failures.push_back(print(describe(comparison, instruction)));
  }
  if (verified_files == 0 && flags.launches.count() == 0) throw Error(std::move(files.unreadable));
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

void run_verify(Context& context, VerifyFlags& flags) {
  flags.cpu_target.use();
  VerifiedFiles files = files_of(context, flags);  // read every header first, so that progress knows the total
  const int64_t cases = files.cases(), launches = flags.launches.count();
  if (files.instructions.empty() && launches == 0) throw Error(std::move(files.unreadable));
  Report report = Report::object();
  {
    ProgressLine progress(context, "verify", cases + launches);
    if (!files.instructions.empty()) context.exit_code = verify_instructions(flags, files, progress, report);
    if (launches > 0)
      context.exit_code = std::max(context.exit_code, flags.launches.verify(flags.threads, progress, cases, report));
  }
  if (!files.unreadable.empty()) context.exit_code = exit_bad_request;
  report.add("unreadable", files.unreadable);
  if (!flags.json) print_errors(context, files.unreadable);
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
  flags->launches.add(*command);
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
