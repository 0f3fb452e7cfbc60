// SPDX-License-Identifier: MIT
#include "bitmma/analysis/compare_arrays.hpp"
#include "bitmma/analysis/compare_files.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "parts.hpp"

namespace bitmma::cli {
namespace {

struct CompareFlags {
  Flag<std::string> expected, actual;
  Flag<bool> json = false;
};

bool is_trace(const std::string& path) { return path.ends_with(".csv"); }

void run_compare(Context& context, const CompareFlags& flags) {
  if (is_trace(flags.expected) && is_trace(flags.actual))
    return compare_traces(context, flags.expected, flags.actual, flags.json);
  const TensorFile expected = read_tensor_file(flags.expected), actual = read_tensor_file(flags.actual);
  if (are_arrays(expected, actual)) {
    const ComparedArrays compared = compare_arrays(expected, actual);
    context.exit_code = compared.mismatches == 0 ? exit_same : exit_differs;
    return show(context, compared.report, flags.json);
  }
  const ComparedFiles compared = compare_files(expected, actual, {.warn = warnings_to(context)});
  context.exit_code = compared.are_same() ? exit_same : exit_differs;
  show(context, compared.report, flags.json);
}

}  // namespace

void add_compare(Command& app, Context& context) {
  Command* command = app.add_command(
      "compare", "compare the D of two vector files, two arrays or two traces of a kernel, bit for bit");
  const auto flags = std::make_shared<CompareFlags>();
  command
      ->add_input("expected", flags->expected,
                  "vector file, whole tile with one D after all of K, array, or trace (.csv)")
      ->required();
  command
      ->add_input("actual", flags->actual,
                  "vector file with the same instruction and cases, a file with only their D, an array, or a trace")
      ->required();
  command->add_flag("--json", flags->json, "print the result as JSON");
  command->footer(
      "Examples:\n"
      "  bitmma compare golden.safetensors from_gpu.safetensors\n"
      "  bitmma compare golden.safetensors from_gpu.safetensors --json  # with counts by row and column\n"
      "  bitmma compare d.npy from_gpu.npy  # two arrays of one type and shape\n"
      "The output shows which rows, columns, warps and registers differ; of two arrays the first and the worst "
      "element. "
      "Inputs are compared first. Exit code 1 if any bit differs that an instruction reads or writes. For two traces "
      "(.csv files of bitmma run --trace-to), the output names the first line of the PTX that differs.");
  command->callback([flags, &context] { run_compare(context, *flags); });
}

}  // namespace bitmma::cli
