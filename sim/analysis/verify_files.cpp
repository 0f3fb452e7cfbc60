// SPDX-License-Identifier: MIT
#include "bitmma/analysis/verify_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma {
namespace {

/// The results of all files with one kind of instruction on one target.
struct Group {
  int64_t files = 0;
  Comparison comparison;
  std::string arithmetic;
};

Report describe_verified(const VectorFile& vectors, const Comparison& comparison) {
  Report report = describe(comparison, vectors.instruction);
  report.update({{"file", vectors.file.path},
                 {"instruction", vectors.name()},
                 {"target", print(vectors.target)},
                 {"source", vectors.source()},
                 {"evidence", print_evidence(vectors.instruction, vectors.target)},
                 {"choices", describe(choices_of(vectors))}});
  if (!vectors.tiling.is_one_instruction()) report.add("steps", vectors.tiling.k);
  return report;
}

std::string print_mismatches(const std::string& path, const Comparison& comparison) {
  return fmt::format("{}: {} of {} {} in {} of {}, first {}", printable(path), comparison.mismatches,
                     counted(comparison.outputs, "output"), comparison.mismatches == 1 ? "differs" : "differ",
                     comparison.cases_with_mismatches, counted(comparison.cases, "case"), print(*comparison.first));
}

}  // namespace

int64_t FilesToVerify::cases() const {
  int64_t count = 0;
  for (const VectorFile& vectors : files) count += vectors.cases;
  return count;
}

FilesToVerify read_files_to_verify(const std::vector<std::string>& paths, const ReadCases& read_cases) {
  FilesToVerify read;
  for (const std::string& path : paths) {
    try {
      TensorFile file = read_tensor_file(path);
      std::optional<VectorFile> vectors = read_cases ? read_cases(std::move(file)) : as_recorded_file(std::move(file));
      if (!vectors) continue;
      require_recorded(*vectors);
      read.files.push_back(std::move(*vectors));
    } catch (const Error& error) {
      std::ranges::copy(error.violations(), std::back_inserter(read.unreadable));
    }
  }
  return read;
}

VerifiedFiles verify_files(FilesToVerify& files, const VerifyRequest& request, const Progress& progress) {
  VerifiedFiles verified;
  Comparison& total = verified.total;
  std::map<std::pair<std::string, std::string_view>, Group> groups;
  Report results = Report::list();
  std::vector<std::string> failures;
  constexpr int most_drawn = 4;  // number of maps to draw
  int failed_files = 0;
  for (VectorFile& of_list : files.files) {
    const VectorFile vectors = std::exchange(of_list, {});
    Comparison comparison;
    try {
      comparison = verify(vectors, request.threads, [&, before = total.cases](int64_t done) {
        if (progress) progress(before + done);
      });
    } catch (const Error& error) {  // reading the whole file shows whether it contradicts itself
      std::ranges::copy(error.violations(), std::back_inserter(files.unreadable));
      continue;
    }
    ++verified.files;
    Group& group = groups[{instruction_group(vectors.instruction), print(vectors.target)}];
    ++group.files;
    group.comparison += comparison;
    group.arithmetic = print_arithmetic(vectors.instruction, vectors.target);
    total += comparison;
    if (request.lists_files) results.append(describe_verified(vectors, comparison));
    if (comparison.mismatches == 0) continue;
    failures.push_back(print_mismatches(vectors.file.path, comparison));
    if (++failed_files <= most_drawn) failures.push_back(print(describe(comparison, vectors.instruction)));
  }
  files.files.clear();
  std::vector<std::vector<std::string>> table{
      {"instruction", "target", "files", "cases", "outputs", "mismatches", "arithmetic"}};
  for (const auto& [name, group] : groups) {
    table.push_back({name.first, std::string(name.second), std::to_string(group.files),
                     std::to_string(group.comparison.cases), std::to_string(group.comparison.outputs),
                     std::to_string(group.comparison.mismatches), group.arithmetic});
  }
  Report& report = verified.report;
  report.update({{"files", verified.files},
                 {"cases", total.cases},
                 {"outputs", total.outputs},
                 {"mismatches", total.mismatches},
                 {"cpu_target", cpu_target()},
                 {"results", std::move(results)}});
  report.add_text(print_table(table) + "\n");
  for (const std::string& failure : failures) report.add_text(failure);
  report.add_text(fmt::format("files {}, cases {}, outputs {}, mismatches {}", verified.files, total.cases,
                              total.outputs, total.mismatches),
                  total.mismatches == 0 ? Tone::good : Tone::bad);
  return verified;
}

}  // namespace bitmma
