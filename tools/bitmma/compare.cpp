#include "bitmma/files/compare.hpp"

#include <fmt/format.h>

#include "flags.hpp"
#include "json_list.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct CompareFlags {
  std::string expected, actual;
  bool json = false;
};

/// "target sm_90a", or both where they are not the same.
std::string print_targets(const VectorFile& expected, const VectorFile& actual) {
  return expected.target == actual.target
             ? fmt::format("target {}", print(expected.target))
             : fmt::format("targets {} and {}", print(expected.target), print(actual.target));
}

void run_compare(Context& context, const CompareFlags& flags) {
  const VectorFile expected = read_vector_file(flags.expected), actual = read_vector_file(flags.actual);
  const Comparison comparison = compare(expected, actual);
  context.exit_code = comparison.mismatches == 0 ? exit_same : exit_differs;
  std::ostream& out = context.terminal.out;
  if (flags.json) {
    Json json = to_json(comparison);
    for (const auto& [name, path, vectors] :
         {std::tuple("expected", &flags.expected, &expected), std::tuple("actual", &flags.actual, &actual)}) {
      json[name] = {{"file", *path}, {"target", print(vectors->target)}, {"source", vectors->source()}};
    }
    out << json_text(json) << '\n';
    return;
  }
  const std::string targets = print_targets(expected, actual);
  if (comparison.mismatches == 0) {
    out << colored(context, 32,
                   fmt::format("same: {} of {} ({} and {}), {}", counted(comparison.outputs, "output"),
                               counted(comparison.cases, "case"), expected.source(), actual.source(), targets))
        << '\n';
    return;
  }
  out << colored(context, 31,
                 fmt::format("differ: {} of {} in {} of {} (expected {}, actual {}), {}", comparison.mismatches,
                             counted(comparison.outputs, "output"), comparison.cases_with_mismatches,
                             counted(comparison.cases, "case"), expected.source(), actual.source(), targets))
      << "\nfirst: " << print(*comparison.first) << '\n';
}

}  // namespace

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
