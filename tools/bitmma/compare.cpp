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

/// Files of one instruction may be of two targets, and then differ by right.
void print_other_arithmetic(std::ostream& out, const VectorFile& expected, const VectorFile& actual) {
  if (expected.target == actual.target) return;
  const std::string first = print_arithmetic(expected.instruction, expected.target),
                    second = print_arithmetic(actual.instruction, actual.target);
  out << "the targets differ, so D may: " << print(expected.target) << " has " << first << "; " << print(actual.target)
      << (first == second ? " the same" : " has " + second) << '\n';
}

void run_compare(Context& context, const CompareFlags& flags) {
  const VectorFile expected = read_vector_file(flags.expected), actual = read_vector_file(flags.actual);
  const Comparison comparison = compare(expected, actual);
  context.exit_code = comparison.mismatches == 0 ? exit_same : exit_differs;
  std::ostream& out = context.terminal.out;
  if (flags.json) {
    Json json = to_json(comparison, expected.instruction);
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
      << "\nfirst: " << print(*comparison.first) << '\n'
      << print_where(comparison, expected.instruction);
  print_other_arithmetic(out, expected, actual);
}

}  // namespace

void add_compare(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("compare", "compare the D of two vector files, bit for bit");
  const auto flags = std::make_shared<CompareFlags>();
  command->add_option("expected", flags->expected, "vector file")->required();
  command->add_option("actual", flags->actual, "vector file of the same instruction and cases")->required();
  command->add_flag("--json", flags->json, "the result as JSON");
  command->footer(
      "Examples:\n"
      "  bitmma compare golden.safetensors from_gpu.safetensors\n"
      "  bitmma compare golden.safetensors from_gpu.safetensors --json  # with counts by row and column\n"
      "Where outputs differ is said by rows, columns, warps and registers, and drawn.\n"
      "Exit code 1 when any bit differs.");
  command->callback([flags, &context] { run_compare(context, *flags); });
}

}  // namespace bitmma::cli
