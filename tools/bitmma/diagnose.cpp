// SPDX-License-Identifier: MIT
#include "arguments.hpp"
#include "bitmma/analysis/diagnose_files.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "parts.hpp"

namespace bitmma::cli {
namespace {

struct DiagnoseFlags {
  Flag<std::string> expected, actual;
  FileFlags file;
  DiagnosedProduct product;
  Flag<int64_t> max_cases = DiagnoseOptions{}.max_cases;
  Flag<int> max_findings = DiagnoseOptions{}.max_findings;
  Flag<bool> json = false, list = false, no_pairs = false;
};

void run_diagnose(Context& context, const DiagnoseFlags& flags) {
  TensorFile expected = read_tensor_file(flags.expected);
  std::optional<TensorFile> actual;
  if (flags.file.instruction.empty() && flags.product.is_asked(expected)) {
    if (!flags.actual.empty()) actual = read_tensor_file(flags.actual);
    return flags.product.diagnose(context, std::move(expected), actual ? &*actual : nullptr, flags.file.target,
                                  flags.list, flags.json);
  }
  const FileEvents events{.warn = warnings_to(context)};
  if (flags.list) {
    const std::vector<Fault> faults =
        flags.file.naming([&] { return faults_of_file(expected, flags.file.defaults(), events); });
    return show(context, describe(faults), flags.json);
  }
  if (!flags.actual.empty()) actual = read_tensor_file(flags.actual);
  const DiagnoseRequest request{
      .file = flags.file.defaults(),
      .options = {.max_cases = flags.max_cases, .max_findings = flags.max_findings, .pairs = !flags.no_pairs}};
  const DiagnosedFiles diagnosed = flags.file.naming([&] { return diagnose_files(expected, actual, request, events); });
  context.exit_code = diagnosed.are_right() ? exit_same : exit_differs;
  show(context, diagnosed.report, flags.json);
}

}  // namespace

void add_diagnose(Command& app, Context& context) {
  Command* command = app.add_command("diagnose", "find the mistake that explains wrong bits");
  const auto flags = std::make_shared<DiagnoseFlags>();
  command->add_input("expected", flags->expected, "vector file with the inputs, from which D is recomputed")
      ->required();
  command->add_input(
      "actual", flags->actual,
      "vector file with the same cases and the wrong D, or with only the wrong D; default: the D of the first file");
  flags->file.add(*command);
  flags->file.add_types(*command);
  flags->product.add(*command);
  command
      ->add_option("--cases", flags->max_cases,
                   "search faults in at most this many wrong cases; all cases are compared")
      ->capture_default_str();
  between(command->get_option("--cases"), 1, 64);
  command->add_option("--findings", flags->max_findings, "show at most this many faults")->capture_default_str();
  between(command->get_option("--findings"), 1, 100);
  command->add_flag("--no-pairs", flags->no_pairs, "try only single faults, not pairs");
  command->add_flag("--list", flags->list, "list the faults that are possible in this file");
  command->add_flag("--json", flags->json, "print the result as JSON");
  command->footer(
      "Examples:\n  bitmma diagnose golden.safetensors from_kernel.safetensors\n  bitmma diagnose "
      "dump_with_wrong_d.safetensors --json\n  bitmma diagnose golden.safetensors --list  # which faults it "
      "tries\n  bitmma diagnose product.safetensors d.npy  # a whole product: a, b and scales, without an "
      "instruction\nPlain matrices that need several instructions, with one D after all of K, are a whole tile.\nIf "
      "the "
      "cases of a file may be the steps of one loop over K, diagnose also tries sums of them. Exit code 1 if anything "
      "is wrong or the inputs of the files differ.");
  command->callback([flags, &context] { run_diagnose(context, *flags); });
}

}  // namespace bitmma::cli
