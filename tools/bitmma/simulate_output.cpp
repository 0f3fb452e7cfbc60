// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "bitmma/core/text.hpp"
#include "bitmma/instruction/statement.hpp"
#include "output.hpp"
#include "simulate.hpp"

namespace bitmma::cli {
namespace {

/// Prints on stderr how a recorded D differs, where no report shows it.
void print_difference(Context& context, const SimulatedFile& simulated, const std::optional<Comparison>& recorded) {
  set_exit_code(context, recorded);
  if (!recorded || recorded->mismatches == 0) return;
  context.terminal.err << fmt::format("{}: {} of {} {} from the recorded D (source: {}): {}\n",
                                      printable(simulated.file.file.path), recorded->mismatches,
                                      counted(recorded->outputs, "output"), differ(recorded->mismatches),
                                      simulated.recorded().source(), print(*recorded->first));
}

/// Computes one case and returns its bytes in the output file (slightly fewer if D is new).
uint64_t bytes_of_a_case(const VectorFile& vectors) {
  static_cast<void>(computed_d(case_at(vectors, 0)));
  uint64_t bytes = 0;
  for (const Tensor& tensor : vectors.file.tensors) bytes += tensor.bytes.size();
  return bytes / static_cast<uint64_t>(vectors.cases);
}

}  // namespace

void set_exit_code(Context& context, const std::optional<Comparison>& recorded) {
  if (recorded && recorded->mismatches > 0) context.exit_code = exit_differs;
}

void write_d(Context& context, const SimulateFlags& flags, const SimulatedFile& simulated, const std::string& path) {
  std::optional<ProgressLine> line;
  const auto progress = [&](int64_t done) {
    if (!line) line.emplace(context, simulated.file.file.path, simulated.output().cases);
    line->update(done);
  };
  const auto before_writing = [&](const VectorFile& vectors) {
    line.reset();
    if (vectors.tiling.is_one_instruction())
      announce_output(context, path, vectors.cases, flags.threads, [&] { return bytes_of_a_case(vectors); });
    context.require_flags_acted();
  };
  const WrittenSimulation written = write_simulation(simulated,
                                                     {.path = path,
                                                      .placement = flags.layouts.placement(),
                                                      .threads = flags.threads,
                                                      .replaces_d = flags.replace_d,
                                                      .before_writing = before_writing},
                                                     {.warn = warnings_to(context), .progress = progress});
  line.reset();
  print_difference(context, simulated, written.recorded);
  if (!written.is_written) {
    context.terminal.err << fmt::format("{}: not written: the recorded D would be lost; --replace-d replaces it\n",
                                        printable(path));
    return;
  }
  const VectorFile& vectors = simulated.output();
  context.terminal.err << fmt::format("{}: {}, {} by {} on {} ({})\n", printable(path), counted(vectors.cases, "case"),
                                      vectors.tiling.is_one_instruction() ? "D" : "D of whole tiles", vectors.name(),
                                      print(vectors.target), print_arithmetic(vectors.instruction, vectors.target));
}

void write_bench(Context& context, const SimulateFlags& flags, const SimulatedFile& simulated,
                 const std::string& path) {
  print_difference(context, simulated, compare_recorded(simulated, flags.threads));
  context.require_flags_acted();
  const auto write_cases = [&](std::ostream& out) { write_test_bench(out, flags.bench.format(), simulated.output()); };
  if (path.empty()) write_cases(context.out());
  else write_whole(path, write_cases);
}

std::vector<std::string> outputs_of(const SimulateFlags& flags, const std::vector<std::string>& names) {
  const std::vector<std::string> outputs =
      flags.out.empty() ? std::vector<std::string>{} : output_paths(names, flags.out);
  if (flags.bench.is_given() && names.size() > 1 && outputs.empty()) {
    throw Error({.field = "files",
                 .seen = fmt::format("{} with --format", names.size()),
                 .expected = "one file, or a folder for the outputs of several",
                 .fix = "-o FOLDER"});
  }
  if (flags.json && (flags.bench.is_given() || !outputs.empty())) {
    throw Error({.code = ViolationCode::not_together,
                 .field = "--json",
                 .seen = outputs.empty() ? "--format" : "-o",
                 .expected = "--json prints what is shown on the screen",
                 .fix = "--format jsonl writes all cases as JSON lines"});
  }
  for (const std::string& output : outputs) {
    if (!flags.bench.is_given()) require_tensor_file_name(output);
    else if (flags.out.get() == output) require_text_file_name(output, "." + *flags.bench.name);
  }
  return outputs;
}

}  // namespace bitmma::cli
