// SPDX-License-Identifier: MIT
// bitmma survey sealed and seal: predictions about a GPU, made before one was measured.
#include <fmt/format.h>

#include "bitmma/core/target_names.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/survey/sealed.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "signals.hpp"
#include "survey.hpp"

namespace bitmma::cli {
namespace {

struct SealedFlags {
  SurveyDeviceFlags device;
  Flag<std::string> path = {};  // of the prediction; empty: the compiled-in one for the GPU
  Flag<std::string> out = {};   // for the answers
  Flag<double> unit_seconds = 10;
  Flag<int> jobs = 4;
  Flag<bool> json = false;
};

struct SealFlags {
  Flag<std::string> target = {}, out = {}, withhold = {};
  Flag<int> threads = 1;
};

struct PointFlags {
  SurveyDeviceFlags device;
  Flag<std::string> point = {}, path = {}, out = {};
};

void run_sealed_command(Context& context, const SealedFlags& flags) {
  if (!flags.out.empty()) require_tensor_file_name(flags.out);
  static_cast<void>(flags.device.rehearsed());  // rejects an unknown target before starting a process
  const Interrupts interrupts;
  std::vector<std::string> command = command_of_unit("point", flags.device);
  if (!flags.path.empty()) command.insert(command.end(), {"--sealed", flags.path});
  const SealedOptions options{.path = flags.path,
                              .unit_seconds = flags.unit_seconds,
                              .jobs = flags.jobs,
                              .stop = [&] { return interrupts.asked(); },
                              .command = std::move(command)};
  SealedRun run;
  {
    ProgressLine progress(context, "sealed prediction", 0);
    run = run_sealed(options, [&](int64_t done, int64_t points) { progress.update(done, points); });
  }
  if (!flags.out.empty()) write_tensor_file(flags.out, to_file(run.answers));
  Report report = describe(run);
  if (!flags.out.empty()) report.add_text(fmt::format("wrote {}", flags.out));
  show(context, report, flags.json);
  bool differs = false, is_whole = true;
  for (const SealedFinding& one : run.findings()) {
    differs |= one.verdict == SealedVerdict::other_answer || one.verdict == SealedVerdict::none_known;
    is_whole &= one.verdict != SealedVerdict::unreadable && one.verdict != SealedVerdict::not_answered;
  }
  context.exit_code = differs ? exit_differs : is_whole ? exit_same : exit_bad_request;
}

void run_seal(Context& context, const SealFlags& flags) {
  const Target target = target_from(flags.target);
  const std::string text = print(make_sealed(target, flags.withhold, flags.threads));
  write_whole(flags.out, [&](std::ostream& out) { out << text; });
  Report report = describe(read_sealed(text));
  show(context, report.add_text(fmt::format("wrote {}", flags.out)), false);
}

/// Runs one point, in the process that was started for it.
void add_survey_point(Command& survey) {
  Command* command = survey.add_command("point", "");
  command->group("");
  const auto flags = std::make_shared<PointFlags>();
  command->add_option("point", flags->point, "")->required();
  command->add_output("-o,--output", flags->out, "")->required();
  command->add_input("--sealed", flags->path, "");
  flags->device.add(*command);
  command->callback([flags] {
    end_with_survey();
    write_tensor_file(flags->out, to_file(run_sealed_point(flags->point, flags->path, flags->device.asked())));
  });
}

}  // namespace

void add_survey_sealed(Command& survey, Context& context) {
  Command* command =
      survey.add_command("sealed", "compare this GPU with bitmma's sealed predictions for the open points");
  const auto flags = std::make_shared<SealedFlags>();
  command->add_input("file", flags->path,
                     "file with a sealed prediction; default: the built-in prediction for this GPU");
  command->add_output("-o,--output", flags->out, "write the answers to this file too");
  flags->device.add(*command);
  command->add_option("--unit-seconds", flags->unit_seconds, "stop a point after this many seconds")
      ->capture_default_str();
  command->add_option("--jobs", flags->jobs, "number of processes at a time")->capture_default_str();
  command->add_flag("--json", flags->json, "print the findings as JSON");
  command->footer(
      "Examples:\n  bitmma survey sealed  # less than a minute; sends nothing\n  bitmma survey sealed blind.json "
      "--json\nExit code 1 if the GPU gives another answer than predicted, or no known answer; 2 if there is no "
      "GPU,\nor if a point has no answer.");
  command->callback([flags, &context] { run_sealed_command(context, *flags); });
  add_survey_point(survey);
}

void add_survey_seal(Command& survey, Context& context) {
  Command* command = survey.add_command("seal", "write the sealed prediction of a target");
  const auto flags = std::make_shared<SealFlags>();
  command->add_option("target", flags->target, "the GPU, by its PTX name")->required();
  command->add_output("-o,--output", flags->out, "file to write the prediction to, in JSON")->required();
  command->add_option("--withhold", flags->withhold, "omit the prediction of points whose name contains this text");
  add_threads(*command, flags->threads);
  command->footer(
      "Example:\n"
      "  bitmma survey seal sm_90a --withhold 'floor and rounding' -o blind.json");
  command->callback([flags, &context] { run_seal(context, *flags); });
}

}  // namespace bitmma::cli
