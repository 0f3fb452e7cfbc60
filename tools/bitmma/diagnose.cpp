#include "bitmma/analysis/diagnose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "flags.hpp"
#include "json_list.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct DiagnoseFlags {
  std::string expected, actual;
  FileFlags file;
  DiagnoseOptions options;
  bool json = false, list = false, no_pairs = false;
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

Json fault_json(const Fault& fault) {
  return {{"id", fault.id}, {"stage", print(fault.stage)}, {"what", fault.what}, {"fix", fault.fix}};
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
  if (flags.json) {
    Json json = Json::array();
    for (const Fault& fault : faults) json.push_back(fault_json(fault));
    context.terminal.out << json_text(json) << '\n';
    return;
  }
  constexpr size_t columns = 80, id_columns = 26;
  for (size_t i = 0; i < faults.size(); ++i) {
    const Fault& fault = faults[i];
    context.terminal.out << fmt::format("{:<{}}{}\n", fault.id + " ", id_columns,
                                        wrapped(fault.what, columns - id_columns, id_columns));
    if (i + 1 < faults.size() && faults[i + 1].fix == fault.fix) continue;
    context.terminal.out << fmt::format("{:{}}look at: {}\n", "", id_columns,
                                        wrapped(fault.fix, columns - id_columns - 9, id_columns + 9));
  }
}

Json diagnosis_json(const VectorFile& vectors, const Diagnosis& diagnosis, const Comparison& comparison) {
  Json findings = Json::array();
  for (const Finding& finding : diagnosis.findings) {
    Json faults = Json::array();
    for (const Fault& fault : finding.faults) faults.push_back(fault_json(fault));
    findings.push_back({{"faults", faults},
                        {"explains_all", finding.explains_all},
                        {"wrong_explained", finding.wrong_explained},
                        {"right_broken", finding.right_broken}});
  }
  return {{"instruction", vectors.name()},
          {"target", print(vectors.target)},
          {"cases", diagnosis.cases},
          {"outputs", diagnosis.outputs},
          {"wrong", diagnosis.wrong},
          {"tried", diagnosis.tried},
          {"where", patterns_of(comparison.map, vectors.instruction)},
          {"findings", findings}};
}

std::string what_of(const Finding& finding) {
  std::string text;
  for (const Fault& fault : finding.faults) text += fmt::format("{}{}", text.empty() ? "" : "; and ", fault.what);
  return text;
}

/// The findings at the top that fit exactly as well.
int64_t alike(const Diagnosis& diagnosis) {
  const Finding& best = diagnosis.findings.front();
  return std::ranges::count_if(diagnosis.findings, [&](const Finding& one) {
    return one.wrong_explained == best.wrong_explained && one.right_broken == best.right_broken;
  });
}

/// Lines that a swizzle leaves in their place are the only right ones: the XOR of the first lines of every 8 is 0, in
/// swizzle 128 of one, in 64 of two, in 32 of four.
bool looks_like_a_swizzle(const Comparison& comparison, const Instruction& instruction) {
  if (mma_of(instruction).b_source == OperandSource::registers) return false;
  const std::vector<std::string> patterns = patterns_of(comparison.map, instruction);
  for (const std::string& pattern : patterns) {
    for (const auto& [wrong, right] : {std::pair("1..7", "0"), std::pair("2..7", "0..1"), std::pair("4..7", "0..3")}) {
      if (pattern == fmt::format("only rows {} of every 8", wrong) ||
          pattern == fmt::format("only columns {} of every 8", wrong) ||
          pattern == fmt::format("all but rows {} of every 8 in columns {} of every 8", right, right)) {
        return true;
      }
    }
  }
  return false;
}

void print_diagnosis(const Context& context, const VectorFile& vectors, const Diagnosis& diagnosis,
                     const Comparison& comparison) {
  std::ostream& out = context.terminal.out;
  out << fmt::format("{}\ntarget: {}\n", vectors.name(), print(vectors.target));
  const std::string outputs = counted(diagnosis.outputs, "output"), cases = counted(diagnosis.cases, "case");
  if (diagnosis.wrong == 0) {
    out << colored(context, 32, fmt::format("nothing is wrong: all {} of {} are what they should be", outputs, cases))
        << '\n';
    return;
  }
  out << colored(context, 31,
                 fmt::format("{} of {} of {} are wrong ({:.1f} %)", diagnosis.wrong, outputs, cases,
                             100 * diagnosis.wrong_share()))
      << '\n'
      << print_where(comparison, vectors.instruction);
  if (looks_like_a_swizzle(comparison, vectors.instruction)) {
    out << "the first lines of every 8 are right: a swizzle leaves them in their place, so one side may swizzle and "
           "the\n"
           "other not, or by another mode; is the TMA map's swizzle that of the descriptor?\n";
  }
  if (diagnosis.findings.empty()) {
    out << fmt::format(
        "none of {} faults and pairs of faults explains it; bitmma explain shows one output term by term\n",
        diagnosis.tried);
    return;
  }
  std::vector<std::vector<std::string>> table{{"explains", "of the wrong", "breaks", "the wrong program"}};
  for (const Finding& finding : diagnosis.findings) {
    table.push_back({finding.explains_all ? "all" : "a part",
                     fmt::format("{:.1f} %", 100.0 * static_cast<double>(finding.wrong_explained) /
                                                 static_cast<double>(diagnosis.wrong)),
                     std::to_string(finding.right_broken), what_of(finding)});
  }
  out << print_table(table);
  if (const int64_t count = alike(diagnosis); count > 1) {
    out << fmt::format("the first {} leave the same bits in these cases\n", count);
  }
  for (const Fault& fault : diagnosis.findings.front().faults) out << fmt::format("look at: {}\n", fault.fix);
  out << fmt::format("{} faults and pairs tried\n", diagnosis.tried);
}

void run_diagnose(Context& context, const DiagnoseFlags& flags) {
  DiagnoseOptions options = flags.options;
  options.pairs = !flags.no_pairs;
  const VectorFile vectors = flags.file.read(flags.expected);
  require_mma(vectors.instruction, "bitmma verify names the first cell that differs");
  const std::vector<Case> cases = cases_with_neighbours(vectors, options.max_cases);
  if (flags.list) {
    list_faults(context, flags, cases);
    return;
  }
  const VectorFile other = flags.file.read(flags.actual.empty() ? flags.expected : flags.actual);
  const std::vector<Matrix> wrong = wrong_d(vectors, other, options.max_cases);
  const Diagnosis diagnosis = diagnose(cases, wrong, options);
  Comparison comparison;
  for (int64_t index = 0; index < diagnosis.cases; ++index) {
    const auto at = static_cast<size_t>(index);
    comparison += compare_case(vectors.instruction, index, computed_d(cases[at]), wrong[at]);
  }
  vectors.require_unchanged();
  other.require_unchanged();
  context.exit_code = diagnosis.wrong == 0 ? exit_same : exit_differs;
  if (flags.json) context.terminal.out << json_text(diagnosis_json(vectors, diagnosis, comparison)) << '\n';
  else print_diagnosis(context, vectors, diagnosis, comparison);
}

}  // namespace

void add_diagnose(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("diagnose", "which wrong program explains these wrong bits");
  const auto flags = std::make_shared<DiagnoseFlags>();
  command->add_option("expected", flags->expected, "vector file with the inputs; its D is computed, not read")
      ->required();
  command->add_option(
      "actual", flags->actual,
      "vector file of the same cases with the wrong D; without it, the D of the first file is the wrong one");
  flags->file.add(*command);
  flags->file.add_types(*command);
  command->add_option("--cases", flags->options.max_cases, "compare at most so many cases")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--findings", flags->options.max_findings, "show at most so many")
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
