#include "bitmma/analysis/diagnose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "bitmma/analysis/describe.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct DiagnoseFlags {
  Flag<std::string> expected, actual;
  FileFlags file;
  Flag<int64_t> max_cases = DiagnoseOptions{}.max_cases;
  Flag<int> max_findings = DiagnoseOptions{}.max_findings;
  Flag<bool> json = false, list = false, no_pairs = false;
};

/// The first `count` cases and the one behind them, 64 at least, and the last one: faults look at the neighbours of a
/// case, and at sums of cases.
std::vector<Case> cases_with_neighbours(const VectorFile& vectors, int64_t count) {
  std::vector<Case> cases;
  const int64_t last = vectors.cases - 1;
  count = std::max<int64_t>(count, 63);
  for (int64_t index = 0; index <= std::min(count, last); ++index) cases.push_back(case_at(vectors, index));
  if (count < last) cases.push_back(case_at(vectors, last));
  return cases;
}

/// D of the first `count` cases of the file that records the wrong one. Throws Error when it is not a file of the same
/// cases as `vectors`.
std::vector<Matrix> wrong_d(const VectorFile& vectors, const VectorFile& other, int64_t count) {
  const auto refuse = [&](std::string_view field, std::string seen, std::string expected, std::string fix) {
    throw Error({.field = fmt::format("{}: {}", other.file.path, field),
                 .seen = std::move(seen),
                 .expected = std::move(expected),
                 .fix = std::move(fix)});
  };
  if (!other.has_recorded_d())
    refuse(fmt::format("tensor {}", other.d_tensor()), "(missing)", "the D that is wrong", "");
  if (other.name() != vectors.name()) {
    refuse("instruction", other.name(), vectors.name(), "both files must be of one instruction");
  }
  if (other.cases != vectors.cases) {
    refuse("cases", std::to_string(other.cases), std::to_string(vectors.cases), "both files must be of the same cases");
  }
  std::vector<Matrix> all;
  for (int64_t index = 0; index < std::min(count, other.cases); ++index) {
    all.push_back(recorded_d(case_at(other, index)));
  }
  return all;
}

/// `text` in lines of at most `width` characters, all but the first behind `indent` spaces.
std::string wrapped(const std::string& text, size_t width, size_t indent) {
  std::string lines;
  size_t column = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > 0 && column + 1 + word.size() > width) {
      lines += '\n' + std::string(indent, ' ');
      column = 0;
    }
    if (column > 0) lines += ' ', ++column;
    lines += word;
    column += word.size();
  }
  return lines;
}

/// In 80 columns: ids, what the wrong program does, and once for neighbours that share it what to look at.
void list_faults(Context& context, const DiagnoseFlags& flags, std::span<const Case> cases) {
  const std::vector<Fault> faults = fault_catalogue(cases);
  constexpr size_t columns = 80, id_columns = 26;
  Report list = Report::list();
  for (size_t i = 0; i < faults.size(); ++i) {
    const Fault& fault = faults[i];
    Report one = describe(fault);
    one.add_text(
        fmt::format("{:<{}}{}", fault.id + " ", id_columns, wrapped(fault.what, columns - id_columns, id_columns)));
    if (i + 1 == faults.size() || faults[i + 1].fix != fault.fix) {
      one.add_text(fmt::format("{:{}}look at: {}", "", id_columns,
                               wrapped(fault.fix, columns - id_columns - 9, id_columns + 9)));
    }
    list.append(std::move(one));
  }
  show(context, list, flags.json);
}

void run_diagnose(Context& context, const DiagnoseFlags& flags) {
  const VectorFile vectors = flags.file.read(flags.expected);
  require_mma(vectors.instruction, "bitmma verify names the first cell that differs");
  const std::vector<Case> cases = cases_with_neighbours(vectors, flags.max_cases);
  if (flags.list) {
    list_faults(context, flags, cases);
    return;
  }
  const DiagnoseOptions options{
      .max_cases = flags.max_cases, .max_findings = flags.max_findings, .pairs = !flags.no_pairs};
  const VectorFile other = flags.file.read(flags.actual.empty() ? flags.expected : flags.actual);
  const std::vector<Matrix> wrong = wrong_d(vectors, other, options.max_cases);
  const Diagnosis diagnosis = diagnose(cases, wrong, options);
  const Comparison comparison = compare_cases(cases, std::span(wrong).first(static_cast<size_t>(diagnosis.cases)));
  vectors.require_unchanged();
  other.require_unchanged();
  context.exit_code = diagnosis.wrong == 0 ? exit_same : exit_differs;
  Report report{{"instruction", vectors.name()}, {"target", print(vectors.target)}};
  report.add_text(fmt::format("{}\ntarget: {}", vectors.name(), print(vectors.target)));
  report.update(describe(diagnosis, comparison, vectors.instruction));
  show(context, report, flags.json);
}

}  // namespace

void add_diagnose(Command& app, Context& context) {
  Command* command = app.add_command("diagnose", "which wrong program explains these wrong bits");
  const auto flags = std::make_shared<DiagnoseFlags>();
  command->add_option("expected", flags->expected, "vector file with the inputs; its D is computed, not read")
      ->required();
  command->add_option(
      "actual", flags->actual,
      "vector file of the same cases with the wrong D; without it, the D of the first file is the wrong one");
  flags->file.add(*command);
  flags->file.add_types(*command);
  command->add_option("--cases", flags->max_cases, "compare at most so many cases")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--findings", flags->max_findings, "show at most so many")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_flag("--no-pairs", flags->no_pairs, "single faults only");
  command->add_flag("--list", flags->list, "the catalogue of faults that this file can have");
  command->add_flag("--json", flags->json, "the result as JSON");
  command->footer(
      "Examples:\n"
      "  bitmma diagnose golden.safetensors from_kernel.safetensors\n"
      "  bitmma diagnose dump_with_wrong_d.safetensors --json\n"
      "  bitmma diagnose golden.safetensors --list  # what it looks for\n"
      "Cases that are the steps of one loop over K may stand in one file: sums over them are looked for.\n"
      "Exit code 1 when anything is wrong.");
  command->callback([flags, &context] { run_diagnose(context, *flags); });
}

}  // namespace bitmma::cli
