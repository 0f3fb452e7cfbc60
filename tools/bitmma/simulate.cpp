// SPDX-License-Identifier: MIT
#include "simulate.hpp"

#include "arguments.hpp"
#include "bitmma/core/text.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

/// With --json all of D is shown, and flags that limit the text have no effect.
ShownD shown_d(const SimulateFlags& flags) {
  if (flags.json) return {.as_codes = true};
  return {.rows = flags.rows, .cols = flags.cols, .as_bits = flags.hex};
}

/// Writes D of a file to `output`, or returns what is to be shown.
std::optional<Report> simulate(Context& context, const SimulateFlags& flags, TensorFile file,
                               const std::string& output) {
  const SimulateRequest request{.file = flags.file.defaults(),
                                .after = flags.after,
                                .placement = flags.layouts.placement(),
                                .threads = flags.threads};
  const SimulatedFile simulated =
      flags.file.naming([&] { return simulate_file(std::move(file), request, {.warn = warnings_to(context)}); });
  if (flags.wrong.are_given()) {
    if (output.empty())
      throw Error({.code = ViolationCode::missing_argument,
                   .field = "-o",
                   .seen = "(missing)",
                   .expected = "the file for the D of the wrong program"});
    flags.layouts.require_used({.why = "a wrong program has the inputs of the file"});
    flags.wrong.write(context, simulated.loops ? *simulated.loops : simulated.output(), output);
    return std::nullopt;
  }
  if (flags.bench.is_given()) {
    naming_flag("format", "--format", [&] { require_test_bench(simulated.output()); });
    flags.layouts.require_used({.why = "--format writes operands, not images"});
    write_bench(context, flags, simulated, output);
    return std::nullopt;
  }
  flags.layouts.require_used(layouts_used(simulated, !output.empty()));
  if (!output.empty()) {
    write_d(context, flags, simulated, output);
    return std::nullopt;
  }
  const ShownCase shown{.index = flags.show_case, .d = shown_d(flags), .threads = flags.threads};
  ProgressLine progress(context, simulated.file.file.path, simulated.file.cases);
  SimulationReport described =
      naming_flag("case", "--case", [&] { return describe(simulated, shown, progress.from(0)); });
  set_exit_code(context, described.recorded);
  set_exit_code(context, described.targets);
  if (!flags.json) print_warnings(context, described.warnings);
  return std::move(described.report);
}

void simulate_all(Context& context, const SimulateFlags& flags, const std::vector<std::string>& files) {
  const bool arrays = are_arrays(files);  // a.npy, b.npy and c.npy are one file
  const std::vector<std::string> names = arrays ? std::vector{files.front()} : files,
                                 outputs = outputs_of(flags, names);
  Report shown = Report::list();
  std::vector<Violation> refused;  // files; the others are computed
  for (size_t i = 0; i < names.size(); ++i) {
    std::optional<Report> report;
    try {
      report = simulate(context, flags, arrays ? read_arrays(files) : read_tensor_file(names[i]),
                        outputs.empty() ? "" : outputs[i]);
    } catch (const Error& error) {
      if (names.size() == 1) throw;
      refused.insert(refused.end(), error.violations().begin(), error.violations().end());
    }
    if (!report) continue;
    if (flags.json) {
      shown.append(std::move(*report));
      continue;
    }
    if (names.size() > 1) context.out() << printable(names[i]) << '\n';
    show(context, *report, false);
  }
  if (flags.json) show(context, shown, true);
  if (!refused.empty()) throw Error(std::move(refused));
}

void lint_all(Context& context, const SimulateFlags& flags, const std::vector<std::string>& files) {
  Report list = Report::list();
  for (const std::string& path : files) {
    const bool is_suspicious =
        flags.file.naming([&] { return lint_file(read_tensor_file(path), flags.file.defaults(), list); });
    if (is_suspicious) context.exit_code = exit_differs;
  }
  show(context, list, flags.json);
}

void run_simulate(Context& context, const SimulateFlags& flags) {
  const auto [files, dangling] = existing_files(flags.files);
  if (flags.lint) lint_all(context, flags, files);
  else simulate_all(context, flags, files);
  if (!dangling.empty()) throw Error(dangling);
}

}  // namespace

void add_simulate(Command& app, Context& context) {
  Command* command = app.add_command("simulate", "compute D of every case of a vector file");
  const auto flags = std::make_shared<SimulateFlags>();
  command
      ->add_input("files", flags->files,
                  "vector files (safetensors or .npz): images and descriptors, or plain matrices a, b, c; or these as "
                  ".npy files, in this order or under their names")
      ->required();
  command->add_output("-o,--output", flags->out, "file to write, or folder for several files; default: show D");
  flags->file.add(*command);
  flags->file.add_types(*command);
  flags->layouts.add(*command);
  flags->bench.add(*command);
  flags->wrong.add(*command);
  command->add_input("--after", flags->after, "file with results: start from the state after its instruction");
  command->add_option("--case", flags->show_case, "case to show; default: 0, or the last step of a K loop");
  command->add_option("--rows", flags->rows, "number of rows of D to show")->capture_default_str();
  between(command->get_option("--rows"), 1, 1 << 24);
  command->add_option("--cols", flags->cols, "number of columns of D to show")->capture_default_str();
  between(command->get_option("--cols"), 1, 1 << 24);
  command->add_flag("--hex", flags->hex, "show bits instead of values");
  command->add_flag("--replace-d", flags->replace_d,
                    "with -o: replace a recorded D that differs, and overwrite a file whose D is from hardware");
  command->add_flag("--lint", flags->lint,
                    "report what is legal but suspicious, without computing D; exit code 1 if anything is");
  command->add_flag("--json", flags->json, "print JSON with all of D as codes; with --lint, print the findings");
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n  bitmma simulate case.safetensors                     # show D, and whether it matches a recorded "
      "one\n  bitmma simulate case.safetensors -o out.safetensors  # write D beside the inputs\n  bitmma simulate "
      "numpy.safetensors --layout-b mn-major:64 -o out.safetensors\n  bitmma simulate case.safetensors --lint\n  "
      "bitmma simulate mma_sync.safetensors --target sm_90a  # the same operands on another GPU, side by side\n  "
      "bitmma simulate a.npy b.npy --instruction tcgen05.mma.cta_group::1.kind::f16\n  bitmma simulate "
      "case.safetensors --format csv\n  bitmma simulate next.safetensors --after mma.safetensors -o d.safetensors  # "
      "starts from the state after the mma\nPlain matrices with M and N of several instructions are a whole tile with "
      "one D; -o writes D and the matrices.\nIf K of plain matrices is longer than the instruction's, they are a K "
      "loop over one tile: the output file has a case for each step, with advancing descriptors. The layouts apply "
      "only to files with only plain matrices. A recorded D is compared first. If it differs, -o writes nothing and "
      "the exit code is 1, unless --replace-d is given. It is also 1 if --target shows two GPUs whose D differ.");
  command->callback([flags, &context] { run_simulate(context, *flags); });
}

}  // namespace bitmma::cli
