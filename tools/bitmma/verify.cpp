// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <map>
#include <utility>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/hardware/campaign.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "recorded_file.hpp"

namespace bitmma::cli {
namespace {

struct VerifyFlags {
  Flag<std::vector<std::string>> paths;
  FileFlags file;
  CpuTargetFlag cpu_target;
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

/// Throws Error for a file that records no D: nothing would be verified.
RecordedFile recorded_at(const Context& context, const VerifyFlags& flags, const std::string& path) {
  RecordedFile file = read_recorded(context, read_tensor_file(path), flags.file);
  file.require_recorded();
  return file;
}

void run_verify(Context& context, const VerifyFlags& flags) {
  flags.cpu_target.use();
  const std::vector<std::string> paths = vector_files(flags.paths);
  // Every header is read first: progress knows the total. A file that cannot be read is reported, and the others are
  // verified all the same.
  std::vector<std::pair<std::string, RecordedFile>> files;
  std::vector<Violation> unreadable;
  int64_t all_cases = 0;
  for (const std::string& path : paths) {
    try {
      all_cases += files.emplace_back(path, recorded_at(context, flags, path)).second.cases();
    } catch (const Error& error) {
      std::ranges::copy(error.violations(), std::back_inserter(unreadable));
    }
  }
  if (files.empty()) throw Error(std::move(unreadable));
  std::map<std::pair<std::string, std::string_view>, Group> groups;
  Comparison total;
  Report results = Report::list();
  std::vector<std::string> failures;
  constexpr int most_drawn = 4;  // maps
  int failed_files = 0, refused_files = 0;
  {
    ProgressLine progress(context, "verify", all_cases);
    // A file that contradicts itself is found out when it is read whole.
    const auto verified = [&](const RecordedFile& file) -> std::optional<Comparison> {
      try {
        return verify(file, flags.threads, progress.from(total.cases));
      } catch (const Error& error) {
        std::ranges::copy(error.violations(), std::back_inserter(unreadable));
        ++refused_files;
        return std::nullopt;
      }
    };
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string& path = files[i].first;
      const RecordedFile file = std::exchange(files[i].second, {});  // given back when it is done
      const std::optional<Comparison> done = verified(file);
      if (!done) continue;
      const Comparison& one = *done;
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
  }
  if (static_cast<size_t>(refused_files) == files.size()) throw Error(std::move(unreadable));
  const size_t verified_files = files.size() - static_cast<size_t>(refused_files);
  context.exit_code = !unreadable.empty() ? exit_bad_request : total.mismatches == 0 ? exit_same : exit_differs;
  std::vector<std::vector<std::string>> table{
      {"instruction", "target", "files", "cases", "outputs", "mismatches", "arithmetic"}};
  for (const auto& [name, group] : groups) {
    table.push_back({name.first, std::string(name.second), std::to_string(group.files),
                     std::to_string(group.comparison.cases), std::to_string(group.comparison.outputs),
                     std::to_string(group.comparison.mismatches), group.arithmetic});
  }
  Report report{{"files", verified_files},        {"cases", total.cases},       {"outputs", total.outputs},
                {"mismatches", total.mismatches}, {"cpu_target", cpu_target()}, {"results", std::move(results)},
                {"unreadable", unreadable}};
  report.add_text(print_table(table) + "\n");
  for (const std::string& failure : failures) report.add_text(failure);
  if (!flags.json) {
    for (const Violation& violation : unreadable) context.terminal.err << "error: " << print(violation) << '\n';
  }
  report.add_text(fmt::format("files {}, cases {}, outputs {}, mismatches {}", verified_files, total.cases,
                              total.outputs, total.mismatches),
                  total.mismatches == 0 ? Tone::good : Tone::bad);
  show(context, report, flags.json);
}

}  // namespace

void add_verify(Command& app, Context& context) {
  Command* command = app.add_command("verify", "recompute D and compare with the recorded D");
  const auto flags = std::make_shared<VerifyFlags>();
  command->add_option("paths", flags->paths, "vector files, and folders of them")->required();
  flags->file.add(*command);
  flags->file.add_types(*command);
  command->add_flag("--json", flags->json, "print the result as JSON");
  add_threads(*command, flags->threads);
  flags->cpu_target.add(*command);
  command->footer(
      "Examples:\n"
      "  bitmma verify data/golden/sm_90a\n"
      "  bitmma verify dump.safetensors --json\n"
      "  bitmma verify dump.safetensors --cpu-target baseline\n"
      "For the first files, the output shows which rows, columns, warps and registers differ. An unreadable file is "
      "reported and the others are verified. Exit code 1 if any bit differs, 2 if a file could not be read.");
  command->callback([flags, &context] { run_verify(context, *flags); });
}

}  // namespace bitmma::cli
