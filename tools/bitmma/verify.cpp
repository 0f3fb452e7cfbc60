// SPDX-License-Identifier: MIT
#include <algorithm>

#include "bitmma/analysis/verify_files.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "parts.hpp"

namespace bitmma::cli {
namespace {

struct VerifyFlags {
  Flag<std::vector<std::string>> paths;
  FileFlags file;
  CpuTargetFlag cpu_target;
  VerifiedLaunches launches;
  Flag<bool> json = false;
  Flag<int> threads = 1;
};

/// Reads every header first, so that progress knows the total.
FilesToVerify read_files(const Context& context, VerifyFlags& flags) {
  const FileEvents events{.warn = warnings_to(context)};
  const auto read_cases = [&](TensorFile file) -> std::optional<VectorFile> {
    if (flags.launches.take(file)) return std::nullopt;
    return flags.file.naming([&] { return as_recorded_file(std::move(file), flags.file.defaults(), events); });
  };
  FilesToVerify files = read_files_to_verify(vector_files(flags.paths), read_cases);
  if (files.files.empty() && flags.launches.count() == 0) throw Error(std::move(files.unreadable));
  return files;
}

void run_verify(Context& context, VerifyFlags& flags) {
  flags.cpu_target.use();
  FilesToVerify files = read_files(context, flags);
  const int64_t cases = files.cases(), launches = flags.launches.count();
  Report report = Report::object();
  {
    ProgressLine progress(context, "verify", cases + launches);
    if (!files.files.empty()) {
      VerifiedFiles verified = flags.file.naming(
          [&] { return verify_files(files, {.threads = flags.threads, .lists_files = flags.json}, progress.from(0)); });
      if (verified.files == 0 && launches == 0) throw Error(std::move(files.unreadable));
      context.exit_code = verified.total.mismatches == 0 ? exit_same : exit_differs;
      report = std::move(verified.report);
    }
    if (launches > 0)
      context.exit_code = std::max(context.exit_code, flags.launches.verify(flags.threads, progress, cases, report));
  }
  if (!files.unreadable.empty()) context.exit_code = exit_bad_request;
  report.add("unreadable", files.unreadable);
  if (!flags.json) print_errors(context, files.unreadable);
  show(context, report, flags.json);
}

}  // namespace

void add_verify(Command& app, Context& context) {
  Command* command =
      app.add_command("verify", "recompute D, or whole launches of kernels, and compare with what is recorded");
  const auto flags = std::make_shared<VerifyFlags>();
  command->add_input("paths", flags->paths, "files with cases or with launches of kernels, or folders of such files")
      ->required();
  flags->file.add(*command);
  flags->file.add_types(*command);
  command->add_flag("--json", flags->json, "print the result as JSON");
  flags->launches.add(*command);
  add_threads(*command, flags->threads);
  flags->cpu_target.add(*command);
  command->footer(
      "Examples:\n  bitmma verify dataset:wgmma_f16\n  bitmma verify dump.safetensors --json\n  bitmma verify "
      "dump.safetensors --cpu-target baseline\n  bitmma verify launches.safetensors\nFor the first files, the output "
      "shows which rows, columns, warps and registers differ. An unreadable file is reported, and the others are "
      "verified. Exit code 1 if any bit differs, 2 if a file could not be read.");
  command->callback([flags, &context] { run_verify(context, *flags); });
}

}  // namespace bitmma::cli
