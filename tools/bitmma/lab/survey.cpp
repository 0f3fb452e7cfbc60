// SPDX-License-Identifier: MIT
// bitmma survey: measures a GPU, and evaluates reports from GPUs.
#include "survey.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "bitmma/core/text.hpp"
#include "bitmma/survey/survey.hpp"
#include "flags.hpp"
#include "hardware/signals.hpp"
#include "output.hpp"
#include "status_line.hpp"
#include "survey_device.hpp"

namespace bitmma::cli {
namespace {

struct SurveyRunFlags {
  DeviceFlags device;
  Flag<std::string> out, only;
  Flag<uint64_t> seed = 0;
  Flag<double> seconds = 480, unit_seconds = 60;
  Flag<int> jobs = 4;
  Flag<bool> retry = false, json = false;
};

constexpr std::array<FlagOfField, 5> survey_flags{{{"only", "--only"},
                                                   {"path", "-o"},
                                                   {"seconds", "--seconds"},
                                                   {"unit_seconds", "--unit-seconds"},
                                                   {"jobs", "--jobs"}}};

/// The command line of this program that measures a unit on the same device; the unit's name, "-o" and a path follow.
std::vector<std::string> command_of_unit(const DeviceFlags& device) {
  // The link itself, not its destination: an upgrade during a survey replaces the file, and each process that starts
  // through the link still runs this program.
  std::vector<std::string> command{"/proc/self/exe", "survey", "unit", "--device", std::to_string(device.ordinal)};
  if (!device.rehearse.empty()) command.insert(command.end(), {"--rehearse", device.rehearse});
  return command;
}

std::string progress_text(const Context& context, const SurveyProgress& now, double seconds) {
  const std::string text = fmt::format("{} of {}, {:.0f} s, {} without an answer, {} differing outputs", now.done,
                                       counted(now.units, "unit"), seconds, now.unanswered, now.mismatches);
  return context.terminal.progress ? fmt::format("{}; {}", text, shortened(now.last, 60)) : text;
}

void run_survey_command(Context& context, const SurveyRunFlags& flags) {
  require_tensor_file_name(flags.out);
  static_cast<void>(flags.device.rehearsed());  // rejects an unknown target before starting a process
  const Interrupts interrupts;
  std::vector<std::string> command = command_of_unit(flags.device);
  command.insert(command.end(), {"--seed", std::to_string(flags.seed)});
  const SurveyOptions options{.path = flags.out,
                              .seconds = flags.seconds,
                              .unit_seconds = flags.unit_seconds,
                              .jobs = flags.jobs,
                              .only = flags.only,
                              .retry = flags.retry,
                              .stop = [&] { return interrupts.received(); },
                              .command = std::move(command)};
  const SurveyReport report = naming_flags(survey_flags, [&] {
    StatusLine line(context);
    return run_survey(options, flags.seed, [&](const SurveyProgress& now) {
      line.update([&] { return progress_text(context, now, line.seconds()); }, now.done == now.units);
    });
  });
  int64_t unanswered = 0, mismatches = 0;
  for (const SurveyRecord& record : report.records) {
    mismatches += record.random_mismatches;
    constexpr int64_t most_printed = 20;
    if (record.end != SurveyEnd::answered && ++unanswered <= most_printed)
      context.terminal.err << fmt::format("{}: {}: {}\n", printable(record.unit), print(record.end),
                                          printable(record.message));
  }
  const int64_t units_run = std::ssize(report.records);
  Report summary = describe(report);
  if (units_run < report.units) {
    summary.add_text(fmt::format("to continue, repeat the command{}; {} not run yet",
                                 flags.only.empty() ? "" : " without --only", report.units - units_run));
  }
  if (unanswered > 0)
    summary.add_text(fmt::format("to repeat units without an answer, use --retry; {}", counted(unanswered, "unit")));
  summary.add_text(fmt::format("wrote {}; to read it, run bitmma survey read {}", flags.out, flags.out));
  show(context, summary, flags.json);
  context.exit_code = interrupts.received() || unanswered == units_run ? exit_bad_request
                      : mismatches > 0                                 ? exit_differs
                                                                       : exit_same;
}

void add_survey_run(Command& survey, Context& context) {
  Command* command = survey.add_command("run", "measure every rule and every open question on this GPU");
  const auto flags = std::make_shared<SurveyRunFlags>();
  command
      ->add_output("-o,--output", flags->out, "the report to write; an existing report is resumed", FileRole::updated)
      ->required();
  flags->device.add(*command);
  command->add_option("--seconds", flags->seconds, "start no unit after this many seconds; 0 means no limit")
      ->capture_default_str();
  command->add_option("--unit-seconds", flags->unit_seconds, "stop a unit after this many seconds")
      ->capture_default_str();
  command->add_option("--jobs", flags->jobs, "number of processes at a time")->capture_default_str();
  command->add_option("--seed", flags->seed, "seed of the cases; the same seed gives the same cases")
      ->capture_default_str();
  command->add_option("--only", flags->only, "run only units whose name contains this text");
  command->add_flag("--retry", flags->retry, "repeat units that have no answer");
  command->add_flag("--json", flags->json, "print the progress as JSON");
  command->footer(
      "Examples:\n"
      "  bitmma survey run -o report.safetensors --seconds 480  # then: bitmma survey read report.safetensors\n"
      "  bitmma survey run -o rehearsal.safetensors --rehearse sm_100a  # without a GPU; proves nothing\n"
      "Each unit runs in its own process. An interrupt ends the survey after the running units; the same command "
      "resumes it. Exit code 1 when the GPU and the model differ, 2 without a GPU that bitmma knows, without any "
      "answer,\n"
      "and after an interrupt.");
  command->callback([flags, &context] { run_survey_command(context, *flags); });
}

}  // namespace

void require_lab(const std::vector<std::string>&) {}

void add_survey(Command& app, Context& context) {
  Command* command = app.add_command("survey", "measure on a GPU what no document states, or read a report");
  command->require_subcommand(1);
  command->footer("Examples:\n  bitmma survey run -o report.safetensors\n  bitmma survey read report.safetensors");
  add_survey_run(*command, context);
  add_survey_read(*command, context);
  add_survey_unit(*command);
}

}  // namespace bitmma::cli
