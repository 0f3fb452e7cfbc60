#include "bitmma/io/diagnose.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands.hpp"

namespace bitmma::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DiagnoseFlags {
  std::string expected, actual;
  DiagnoseOptions options;
  bool json = false, list = false, no_pairs = false;
};

std::string what_of(const Finding& finding) {
  std::string text;
  for (const Fault& fault : finding.faults) text += fmt::format("{}{}", text.empty() ? "" : "; and ", fault.what);
  return text;
}

void list_faults(Context& context, const DiagnoseFlags& flags, const VectorFile& vectors) {
  std::vector<std::vector<std::string>> table{{"id", "stage", "what the wrong program does", "what to look at"}};
  Json json = Json::array();
  for (const Fault& fault : fault_catalogue(vectors)) {
    table.push_back({fault.id, std::string(print(fault.stage)), fault.what, fault.fix});
    json.push_back({{"id", fault.id}, {"stage", print(fault.stage)}, {"what", fault.what}, {"fix", fault.fix}});
  }
  context.terminal.out << (flags.json ? json.dump(2) + "\n" : print_table(table));
}

void run_diagnose(Context& context, DiagnoseFlags flags) {
  const VectorFile vectors = read_vector_file(flags.expected);
  if (flags.list) {
    list_faults(context, flags, vectors);
    return;
  }
  const VectorFile other = read_vector_file(flags.actual.empty() ? flags.expected : flags.actual);
  if (!other.has_recorded_d()) {
    throw Error({.field = fmt::format("{}: tensor {}", other.file.path, other.d_tensor()),
                 .seen = "(missing)",
                 .legal = "the D that is wrong"});
  }
  if (other.name() != vectors.name()) {
    throw Error({.field = fmt::format("{}: instruction", other.file.path),
                 .seen = other.name(),
                 .legal = vectors.name(),
                 .fix = "both files must be of one instruction"});
  }
  std::vector<BitMatrix> actual;
  for (int64_t index = 0; index < other.cases; ++index) actual.push_back(recorded_d(other, index));
  flags.options.pairs = !flags.no_pairs;
  const Diagnosis diagnosis = diagnose(vectors, actual, flags.options);
  context.exit_code = diagnosis.wrong == 0 ? exit_same : exit_differs;
  std::ostream& out = context.terminal.out;
  if (flags.json) {
    Json findings = Json::array();
    for (const Finding& finding : diagnosis.findings) {
      Json faults = Json::array();
      for (const Fault& fault : finding.faults)
        faults.push_back({{"id", fault.id}, {"stage", print(fault.stage)}, {"what", fault.what}, {"fix", fault.fix}});
      findings.push_back({{"faults", faults},
                          {"explains_all", finding.explains_all},
                          {"wrong_explained", finding.wrong_explained},
                          {"right_broken", finding.right_broken}});
    }
    out << Json{{"instruction", vectors.name()}, {"cases", diagnosis.cases}, {"outputs", diagnosis.outputs},
                {"wrong", diagnosis.wrong},      {"tried", diagnosis.tried}, {"findings", findings}}
               .dump(2)
        << '\n';
    return;
  }
  if (diagnosis.wrong == 0) {
    out << colored(context, 32,
                   fmt::format("nothing is wrong: all {} outputs of {} cases are what they should be",
                               diagnosis.outputs, diagnosis.cases))
        << '\n';
    return;
  }
  out << colored(context, 31,
                 fmt::format("{} of {} outputs of {} cases are wrong ({:.1f} %)", diagnosis.wrong, diagnosis.outputs,
                             diagnosis.cases, 100 * diagnosis.wrong_share()))
      << '\n';
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
  for (const Fault& fault : diagnosis.findings.front().faults) out << fmt::format("look at: {}\n", fault.fix);
  out << fmt::format("{} faults and pairs tried\n", diagnosis.tried);
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
      "Examples:\n  bitmma diagnose golden.safetensors from_kernel.safetensors\n  bitmma diagnose "
      "dump_with_wrong_d.safetensors --json\n  bitmma diagnose golden.safetensors --list\nExit code 1 when anything is "
      "wrong.");
  command->callback([flags, &context] { run_diagnose(context, *flags); });
}

}  // namespace bitmma::cli
