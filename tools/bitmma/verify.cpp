#include <fmt/format.h>

#include <map>
#include <utility>

#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/hardware/campaign.hpp"
#include "flags.hpp"
#include "json_list.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct VerifyFlags {
  std::vector<std::string> paths;
  FileFlags file;
  CpuTargetFlag cpu_target;
  bool json = false;
  int threads = 1;
};

/// What the files of one kind of instruction on one target have in common.
struct Group {
  int64_t files = 0;
  Comparison comparison;
  std::string arithmetic;
};

Json result_json(const std::string& path, const VectorFile& vectors, const Comparison& comparison) {
  Json json = to_json(comparison, vectors.instruction);
  json["file"] = path;
  json["instruction"] = vectors.name();
  json["target"] = print(vectors.target);
  json["source"] = vectors.source();
  json["evidence"] = print_evidence(vectors.instruction, vectors.target);
  json["choices"] = to_json(choices_of(vectors));
  return json;
}

void run_verify(Context& context, const VerifyFlags& flags) {
  flags.cpu_target.use();
  const std::vector<std::string> paths = vector_files(flags.paths);
  std::ostream& out = context.terminal.out;
  // Every header is read first: a bad file is reported before any work, and progress knows the total.
  std::vector<VectorFile> files;
  int64_t all_cases = 0;
  for (const std::string& path : paths) all_cases += files.emplace_back(flags.file.read(path)).cases;
  std::map<std::pair<std::string, std::string_view>, Group> groups;
  Comparison total;
  Json results = Json::array();
  std::string failures;
  constexpr int most_drawn = 4;  // maps
  int failed_files = 0;
  {
    ProgressLine progress(context, "verify", all_cases);
    for (size_t i = 0; i < files.size(); ++i) {
      const VectorFile vectors = std::exchange(files[i], {});  // given back when it is done
      const Comparison one = verify(vectors, flags.threads, progress.from(total.cases));
      Group& group = groups[{instruction_group(vectors.instruction), print(vectors.target)}];
      ++group.files;
      group.comparison += one;
      group.arithmetic = print_arithmetic(vectors.instruction, vectors.target);
      total += one;
      if (flags.json) results.push_back(result_json(paths[i], vectors, one));
      if (one.mismatches == 0) continue;
      failures += fmt::format("{}: {} of {} differ in {} of {}, first {}\n", printable(paths[i]), one.mismatches,
                              counted(one.outputs, "output"), one.cases_with_mismatches, counted(one.cases, "case"),
                              print(*one.first));
      if (++failed_files <= most_drawn) failures += print_where(one, vectors.instruction);
    }
  }
  context.exit_code = total.mismatches == 0 ? exit_same : exit_differs;
  if (flags.json) {
    out << json_text(Json{{"files", files.size()},
                          {"cases", total.cases},
                          {"outputs", total.outputs},
                          {"mismatches", total.mismatches},
                          {"cpu_target", cpu_target()},
                          {"results", results}})
        << '\n';
    return;
  }
  std::vector<std::vector<std::string>> table{
      {"instruction", "target", "files", "cases", "outputs", "mismatches", "arithmetic"}};
  for (const auto& [name, group] : groups) {
    table.push_back({name.first, std::string(name.second), std::to_string(group.files),
                     std::to_string(group.comparison.cases), std::to_string(group.comparison.outputs),
                     std::to_string(group.comparison.mismatches), group.arithmetic});
  }
  out << print_table(table) << '\n' << failures;
  const std::string line = fmt::format("files {}, cases {}, outputs {}, mismatches {}", files.size(), total.cases,
                                       total.outputs, total.mismatches);
  out << colored(context, total.mismatches == 0 ? 32 : 31, line) << '\n';
}

}  // namespace

void add_verify(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("verify", "recompute D and compare with the recorded D");
  const auto flags = std::make_shared<VerifyFlags>();
  command->add_option("paths", flags->paths, "vector files, and folders of them")->required();
  flags->file.add(*command);
  flags->file.add_types(*command);
  command->add_flag("--json", flags->json, "the result as JSON");
  add_threads(*command, flags->threads);
  flags->cpu_target.add(*command);
  command->footer(
      "Examples:\n"
      "  bitmma verify data/golden/sm_90a\n"
      "  bitmma verify dump.safetensors --json\n"
      "  bitmma verify dump.safetensors --cpu-target baseline\n"
      "Where outputs differ is said by rows, columns, warps and registers, and drawn, for the first files.\n"
      "Exit code 1 when any bit differs.");
  command->callback([flags, &context] { run_verify(context, *flags); });
}

}  // namespace bitmma::cli
