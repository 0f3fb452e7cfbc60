// SPDX-License-Identifier: MIT
#include "bitmma/analysis/compare_files.hpp"

#include <fmt/format.h>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/golden.hpp"

namespace bitmma {
namespace {

/// "target sm_90a", or both targets if they differ.
std::string print_targets(const VectorFile& expected, const VectorFile& actual) {
  return expected.target == actual.target
             ? fmt::format("target {}", print(expected.target))
             : fmt::format("targets {} and {}", print(expected.target), print(actual.target));
}

Report describe_files(const VectorFile& expected, const VectorFile& actual, const Comparison& comparison,
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
    report.add_text("first: " + print(*comparison.first), Tone::bad);
  }
  Report compared = describe(comparison, expected.instruction);
  if (!inputs.empty()) compared.lines.clear();  // outputs for different operands say nothing
  report.update(std::move(compared));
  if (comparison.mismatches > 0 && expected.target != actual.target) {
    const std::string first = print_arithmetic(expected.instruction, expected.target),
                      second = print_arithmetic(actual.instruction, actual.target);
    report.add_text(fmt::format("the targets differ, so D may differ: {} has {}; {} has {}", print(expected.target),
                                first, print(actual.target), first == second ? "the same" : second));
  }
  for (const auto& [name, vectors] : {std::pair("expected", &expected), std::pair("actual", &actual)})
    report.add(name, {{"file", vectors->file.path}, {"target", print(vectors->target)}, {"source", vectors->source()}});
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

}  // namespace

ComparedFiles compare_files(const TensorFile& expected_file, const TensorFile& actual_file, const FileEvents& events) {
  require_inputs(expected_file, "compare");
  const bool is_d_alone = d_alone(actual_file) != nullptr;
  const VectorFile actual =
      is_d_alone ? with_d_of(expected_file, actual_file, {}, events) : as_recorded_file(actual_file, {}, events);
  VectorFile expected = as_recorded_file(expected_file, {}, events);
  // One D for all of K is compared with the D of the last step.
  if (is_d_alone && !actual.tiling.is_one_instruction() && expected.tiling.is_one_instruction())
    expected = as_recorded_file(with_d(expected_file, last_d(expected, actual_file.path)), {}, events);
  ComparedFiles compared{.comparison = compare(expected, actual), .inputs = different_inputs(expected, actual)};
  compared.report = describe_files(expected, actual, compared.comparison, compared.inputs);
  return compared;
}

}  // namespace bitmma
