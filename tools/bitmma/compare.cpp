// SPDX-License-Identifier: MIT
#include "bitmma/files/compare.hpp"

#include <fmt/format.h>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/golden.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "parts.hpp"
#include "recorded_file.hpp"

namespace bitmma::cli {
namespace {

struct CompareFlags {
  Flag<std::string> expected, actual;
  Flag<bool> json = false;
};

/// "target sm_90a", or both targets if they differ.
std::string print_targets(const RecordedFile& expected, const RecordedFile& actual) {
  return expected.target() == actual.target()
             ? fmt::format("target {}", print(expected.target()))
             : fmt::format("targets {} and {}", print(expected.target()), print(actual.target()));
}

Report describe_files(const RecordedFile& expected, const RecordedFile& actual, const Comparison& comparison,
                      const std::vector<InputDifference>& inputs) {
  const std::string outputs = counted(comparison.outputs, "output"), cases = counted(comparison.cases, "case"),
                    targets = print_targets(expected, actual);
  Report report = describe(inputs, comparison.cases);
  if (comparison.mismatches == 0) {
    report.add_text(
        fmt::format("same: {} of {} ({} and {}), {}", outputs, cases, expected.source(), actual.source(), targets),
        Tone::good);
  } else {
    report.add_text(
        fmt::format("differ: {} of {} in {} of {} (expected {}, actual {}), {}", comparison.mismatches, outputs,
                    comparison.cases_with_mismatches, cases, expected.source(), actual.source(), targets),
        Tone::bad);
    report.add_text("first: " + print(*comparison.first));
  }
  Report compared = describe(comparison, expected.instruction());
  if (!inputs.empty()) compared.lines.clear();  // outputs for different operands say nothing
  report.update(std::move(compared));
  if (comparison.mismatches > 0 && expected.target() != actual.target()) {
    const std::string first = print_arithmetic(expected.instruction(), expected.target()),
                      second = print_arithmetic(actual.instruction(), actual.target());
    report.add_text(fmt::format("the targets differ, so D may differ: {} has {}; {} has {}", print(expected.target()),
                                first, print(actual.target()), first == second ? "the same" : second));
  }
  for (const auto& [name, one] : {std::pair("expected", &expected), std::pair("actual", &actual)}) {
    report.add(name, {{"file", one->path()}, {"target", print(one->target())}, {"source", one->source()}});
  }
  return report;
}

/// Tensor d after the last step of each K loop. Throws Error, which names `path`, the file with one D for all of K, if
/// there is no such tensor.
Tensor last_d(const VectorFile& vectors, const std::string& path) {
  const int64_t steps = unrolled_steps(vectors);
  const Tensor* const d = vectors.file.find("d");
  if (steps == 0 || !d)
    throw Error({.field = fmt::format("{}: d", path),
                 .seen = "one D after all steps",
                 .expected = fmt::format("one D for each case, as in {}", printable(vectors.file.path)),
                 .fix = "bitmma diagnose compares it with the computed D"});
  Tensor last = *d;
  last.shape[0] /= steps;
  const size_t size = d->bytes.size() / static_cast<size_t>(vectors.cases);
  std::vector<uint8_t> bytes(static_cast<size_t>(last.shape[0]) * size);
  for (int64_t tile = 0; tile < last.shape[0]; ++tile)
    d->bytes.copy_to(std::span(bytes).subspan(static_cast<size_t>(tile) * size, size),
                     static_cast<size_t>(tile * steps + steps - 1) * size);
  return Tensor::from_bytes(last.name, last.dtype, last.shape, std::move(bytes));
}

bool is_trace(const std::string& path) { return path.ends_with(".csv"); }

void run_compare(Context& context, const CompareFlags& flags) {
  if (is_trace(flags.expected) && is_trace(flags.actual))
    return compare_traces(context, flags.expected, flags.actual, flags.json);
  TensorFile inputs_of_both = read_tensor_file(flags.expected), other = read_tensor_file(flags.actual);  // in order
  require_inputs(inputs_of_both, "compare");
  const FileFlags none;  // the files contain the instruction
  const Tensor* const d = d_alone(other);
  if (d) require_same_instruction(inputs_of_both, other);
  const RecordedFile actual =
      d ? naming_file_of_d(*flags.expected, *flags.actual,
                           [&] { return read_recorded(context, with_d(inputs_of_both, *d), none); })
        : read_recorded(context, std::move(other), none);
  RecordedFile expected = read_recorded(context, inputs_of_both, none);
  // Compares one D for all of K with the D of the last step.
  if (d && actual.tile() && expected.vectors())
    expected = read_recorded(context, with_d(inputs_of_both, last_d(*expected.vectors(), *flags.actual)), none);
  const Comparison comparison = compare(expected, actual);
  const std::vector<InputDifference> inputs = different_inputs(expected, actual);
  context.exit_code = comparison.mismatches == 0 && inputs.empty() ? exit_same : exit_differs;
  show(context, describe_files(expected, actual, comparison, inputs), flags.json);
}

}  // namespace

void add_compare(Command& app, Context& context) {
  Command* command =
      app.add_command("compare", "compare the D of two vector files, bit for bit, or two traces of a kernel");
  const auto flags = std::make_shared<CompareFlags>();
  command->add_input("expected", flags->expected, "vector file, whole tile with one D after all of K, or trace (.csv)")
      ->required();
  command
      ->add_input("actual", flags->actual,
                  "vector file with the same instruction and cases, a file with only their D, or a trace")
      ->required();
  command->add_flag("--json", flags->json, "print the result as JSON");
  command->footer(
      "Examples:\n  bitmma compare golden.safetensors from_gpu.safetensors\n  bitmma compare golden.safetensors "
      "from_gpu.safetensors --json  # with counts by row and column\nThe output shows which rows, columns, warps and "
      "registers differ. Inputs are compared first. Exit code 1 if any bit differs that an instruction reads or "
      "writes. For two traces (.csv files of bitmma run --trace-to), the output names the first line of the PTX that "
      "differs.");
  command->callback([flags, &context] { run_compare(context, *flags); });
}

}  // namespace bitmma::cli
