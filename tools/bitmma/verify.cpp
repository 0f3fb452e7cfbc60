#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "bitmma/gpu/campaign.hpp"
#include "commands.hpp"

namespace bitmma::cli {
namespace {

using Json = nlohmann::ordered_json;

struct VerifyFlags {
  std::vector<std::string> paths;
  std::string instruction;
  bool json = false;
  int threads = 1;
};

Json to_json(const Mismatch& mismatch) {
  Json json{{"case", mismatch.case_index}, {"row", mismatch.row}, {"col", mismatch.col}};
  const auto& [reg, cell] = mismatch.place;
  if (cell)
    json.update(Json{{"cta", cell->cta}, {"lane", cell->lane}, {"column", cell->column}});
  else
    json.update(Json{{"thread", reg->thread}, {"register", reg->reg}, {"bit", reg->bit}});
  json.update(Json{{"expected", print_bits(mismatch.format, mismatch.expected)},
                   {"actual", print_bits(mismatch.format, mismatch.actual)}});
  return json;
}

Json to_json(const Comparison& comparison) {
  Json json{{"cases", comparison.cases}, {"outputs", comparison.outputs}, {"mismatches", comparison.mismatches}};
  if (comparison.first) json["first_mismatch"] = to_json(*comparison.first);
  return json;
}

struct Group {
  int64_t files = 0;
  Comparison comparison;
  std::string arithmetic;
};

void run_verify(Context& context, const VerifyFlags& flags) {
  const std::vector<std::string> files = vector_files(flags.paths);
  std::ostream& out = context.terminal.out;
  std::map<std::string, Group> groups;
  Comparison total;
  Json json_files = Json::array();
  std::string failures;
  // Read all headers first: a bad file is reported before any work, and progress knows the total.
  int64_t all_cases = 0;
  for (const std::string& path : files) all_cases += read_vector_file(path, flags.instruction).cases;
  ProgressLine progress(context, "verify", all_cases);
  for (const std::string& path : files) {
    const VectorFile vectors = read_vector_file(path, flags.instruction);
    const Comparison one = verify(vectors, flags.threads, progress.from(total.cases));
    Group& group = groups[vectors.move ? vectors.name() : instruction_group(vectors.instruction)];
    ++group.files;
    group.comparison += one;
    group.arithmetic = print_arithmetic(vectors);
    total += one;
    Json json_file = to_json(one);
    json_file["file"] = path;
    json_file["instruction"] = vectors.name();
    json_file["source"] = vectors.source();
    json_file["evidence"] =
        vectors.move ? "documented move of bits" : std::string(print(evidence_of(vectors.instruction)));
    json_file["choices"] = Json::array();
    for (const Choice& choice : choices_of(vectors)) json_file["choices"].push_back(choice.what);
    json_files.push_back(std::move(json_file));
    if (one.mismatches > 0) {
      failures += fmt::format("{}: {} of {} outputs differ in {} of {} cases, first {}\n", path, one.mismatches,
                              one.outputs, one.cases_with_mismatches, one.cases, print(*one.first));
    }
  }
  context.exit_code = total.mismatches == 0 ? exit_same : exit_differs;
  if (flags.json) {
    Json json{{"files", files.size()},
              {"cases", total.cases},
              {"outputs", total.outputs},
              {"mismatches", total.mismatches},
              {"results", json_files}};
    out << json.dump(2) << '\n';
    return;
  }
  std::vector<std::vector<std::string>> table{{"instruction", "files", "cases", "outputs", "mismatches", "arithmetic"}};
  for (const auto& [name, group] : groups) {
    table.push_back({name, std::to_string(group.files), std::to_string(group.comparison.cases),
                     std::to_string(group.comparison.outputs), std::to_string(group.comparison.mismatches),
                     group.arithmetic});
  }
  out << print_table(table) << '\n' << failures;
  const std::string line = fmt::format("files {}, cases {}, outputs {}, mismatches {}", files.size(), total.cases,
                                       total.outputs, total.mismatches);
  out << colored(context, total.mismatches == 0 ? 32 : 31, line) << '\n';
}

struct CompareFlags {
  std::string expected, actual;
  bool json = false;
};

void run_compare(Context& context, const CompareFlags& flags) {
  const VectorFile expected = read_vector_file(flags.expected), actual = read_vector_file(flags.actual);
  const Comparison comparison = compare(expected, actual);
  context.exit_code = comparison.mismatches == 0 ? exit_same : exit_differs;
  std::ostream& out = context.terminal.out;
  if (flags.json) {
    Json json = to_json(comparison);
    json["expected"] = {{"file", flags.expected}, {"source", expected.source()}};
    json["actual"] = {{"file", flags.actual}, {"source", actual.source()}};
    out << json.dump(2) << '\n';
    return;
  }
  if (comparison.mismatches == 0) {
    out << colored(context, 32,
                   fmt::format("same: {} outputs of {} cases ({} and {})", comparison.outputs, comparison.cases,
                               expected.source(), actual.source()))
        << '\n';
    return;
  }
  out << colored(context, 31,
                 fmt::format("differ: {} of {} outputs in {} of {} cases (expected {}, actual {})",
                             comparison.mismatches, comparison.outputs, comparison.cases_with_mismatches,
                             comparison.cases, expected.source(), actual.source()))
      << "\nfirst: " << print(*comparison.first) << '\n';
}

}  // namespace

void add_verify(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("verify", "recompute D and compare with the recorded D");
  const auto flags = std::make_shared<VerifyFlags>();
  command->add_option("paths", flags->paths, "vector files, and folders of them")->required();
  command->add_option("--instruction", flags->instruction, "the mnemonic, for files that do not say");
  command->add_flag("--json", flags->json, "the result as JSON");
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n  bitmma verify data/golden/sm_90a\n  bitmma verify dump.safetensors --json\nExit code 1 when any "
      "bit differs.");
  command->callback([flags, &context] { run_verify(context, *flags); });
}

void add_compare(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("compare", "compare the D of two vector files, bit for bit");
  const auto flags = std::make_shared<CompareFlags>();
  command->add_option("expected", flags->expected, "vector file")->required();
  command->add_option("actual", flags->actual, "vector file of the same instruction and cases")->required();
  command->add_flag("--json", flags->json, "the result as JSON");
  command->footer(
      "Example:\n  bitmma compare golden.safetensors from_gpu.safetensors\nExit code 1 when any bit differs.");
  command->callback([flags, &context] { run_compare(context, *flags); });
}

}  // namespace bitmma::cli
