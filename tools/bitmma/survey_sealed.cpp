// bitmma survey sealed and seal: what was predicted about a GPU before one was asked.
#include <fmt/format.h>

#include <array>

#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"
#include "bitmma/survey/sealed.hpp"
#include "flags.hpp"
#include "json_list.hpp"
#include "output.hpp"
#include "signals.hpp"
#include "survey.hpp"

namespace bitmma::cli {
namespace {

struct SealedFlags {
  SurveyDeviceFlags device;
  Flag<std::string> path = {};  // of the prediction; empty: the one that is built in for the GPU
  Flag<std::string> out = {};   // of the answers
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

/// Errors name the path.
SealedFile read_sealed_file(const std::string& path) {
  constexpr uint64_t most_bytes = 16 << 20;
  const std::string text = read_whole(path);
  if (text.size() > most_bytes)
    throw Error({.field = path, .seen = fmt::format("{} bytes", text.size()), .expected = "at most 16 MiB"});
  try {
    return read_sealed(text);
  } catch (const Error& error) {
    std::vector<Violation> violations = error.violations();
    for (Violation& violation : violations) violation.field = fmt::format("{}: {}", path, violation.field);
    throw Error(std::move(violations));
  }
}

SealedFile file_for(const SealedFlags& flags, Target target) {
  if (!flags.path.empty()) return read_sealed_file(flags.path);
  if (!sealed_text(target).empty()) return read_sealed(sealed_text(target));
  throw Error(
      {.field = "sealed prediction",
       .seen = std::string(print(target)),
       .expected = "a target that has one built in",
       .fix = fmt::format("bitmma survey seal {} -o FILE makes one; then bitmma survey sealed FILE", print(target))});
}

constexpr std::array sealed_verdicts{SealedVerdict::as_predicted, SealedVerdict::other_answer,
                                     SealedVerdict::named,        SealedVerdict::none_known,
                                     SealedVerdict::unreadable,   SealedVerdict::not_answered};

Tone tone_of(SealedVerdict verdict) {
  switch (verdict) {
    case SealedVerdict::as_predicted:
    case SealedVerdict::named: return Tone::good;
    case SealedVerdict::other_answer:
    case SealedVerdict::none_known: return Tone::bad;
    default: return Tone::warning;
  }
}

std::string details_of(const SealedFinding& finding) {
  if (finding.verdict == SealedVerdict::none_known && finding.deciding == 0) return "; none of them has any case";
  if (finding.verdict == SealedVerdict::none_known)
    return fmt::format("; the nearest fits {} of {}: {}", finding.deciding, counted(finding.cases, "case"),
                       finding.nearest);
  if (finding.verdict == SealedVerdict::unreadable || finding.verdict == SealedVerdict::not_answered) return "";
  return fmt::format(" ({} of {} decide)", finding.deciding, counted(finding.cases, "case"));
}

void run_sealed_command(Context& context, const SealedFlags& flags) {
  if (!flags.out.empty()) require_tensor_file_name(flags.out);
  static_cast<void>(flags.device.rehearsed());  // rejects an unknown target before starting a process
  const Interrupts interrupts;
  std::vector<std::string> command = command_of_unit("point", flags.device);
  if (!flags.path.empty()) command.insert(command.end(), {"--sealed", flags.path});
  const SealedOptions options{.unit_seconds = flags.unit_seconds,
                              .jobs = flags.jobs,
                              .stop = [&] { return interrupts.asked(); },
                              .command = std::move(command)};
  if (!flags.path.empty()) static_cast<void>(read_sealed_file(flags.path));  // refused before a GPU is looked for
  SealedAnswers who = ask_who(options);
  const SealedFile file = file_for(flags, who.target);
  SealedAnswers answers;
  {
    ProgressLine progress(context, who.gpu, static_cast<int64_t>(file.points.size()));
    answers = run_sealed(file, std::move(who), options, [&](int64_t done, int64_t) { progress.update(done); });
  }
  if (!flags.out.empty()) write_tensor_file(flags.out, to_file(answers));
  std::array<int64_t, sealed_verdicts.size()> counts{};
  int64_t cases = 0;
  std::vector<std::pair<const SealedPoint*, SealedFinding>> findings;
  for (const SealedPoint& point : file.points) {
    const SealedRecord* const record = answers.find(point.name);
    findings.emplace_back(&point, finding_of(point, record ? *record
                                                           : SealedRecord{.point = point.name,
                                                                          .end = SurveyEnd::failed,
                                                                          .message = "not asked in time"}));
    ++counts[static_cast<size_t>(findings.back().second.verdict)];
    cases += findings.back().second.cases;
  }
  if (flags.json) {
    Json points = Json::array();
    for (const auto& [point, finding] : findings) {
      Json json{{"point", finding.point},
                {"instruction", point->instruction},
                {"verdict", print(finding.verdict)},
                {"found", finding.found},
                {"predicted", point->predicted ? Json(*point->predicted) : Json()},
                {"cases", finding.cases},
                {"deciding", finding.deciding}};
      if (!finding.nearest.empty()) json["nearest"] = finding.nearest;
      points.push_back(std::move(json));
    }
    context.out() << json_text(Json{{"gpu", answers.gpu},
                                    {"target", print(answers.target)},
                                    {"driver", answers.driver},
                                    {"cuda", answers.cuda},
                                    {"date", answers.date},
                                    {"sealed_sha256", file.sha256},
                                    {"seconds", answers.seconds},
                                    {"points", points}})
                  << '\n';
  } else {
    for (const auto& [point, finding] : findings) {
      const std::string verdict = fmt::format("{:<15}", print(finding.verdict));
      context.out() << fmt::format("{} {}\n    {}{}\n", colored(context, tone_of(finding.verdict), verdict),
                                   finding.point, printable(finding.found), details_of(finding));
      if (finding.verdict == SealedVerdict::other_answer)
        context.out() << fmt::format("    predicted: {}\n", *point->predicted);
    }
    std::string counted_verdicts;
    for (const SealedVerdict verdict : sealed_verdicts) {
      const int64_t count = counts[static_cast<size_t>(verdict)];
      if (count > 0) counted_verdicts += fmt::format(", {} {}", count, print(verdict));
    }
    context.out() << fmt::format(
        "\n{} ({}), driver {}, CUDA {}, {}; {:.1f} s\nsealed prediction {}\n{}, {}{}\n", answers.gpu,
        print(answers.target), answers.driver, answers.cuda, answers.date, answers.seconds, file.sha256,
        counted(static_cast<int64_t>(file.points.size()), "point"), counted(cases, "case"), counted_verdicts);
    if (answers.gpu == rehearsal_gpu)
      context.out() << "a rehearsal: the model answered for itself, which proves nothing\n";
    if (!flags.out.empty()) context.out() << fmt::format("wrote {}\n", flags.out);
  }
  const auto count_of = [&](SealedVerdict verdict) { return counts[static_cast<size_t>(verdict)]; };
  const bool differs = count_of(SealedVerdict::other_answer) + count_of(SealedVerdict::none_known) > 0,
             is_whole = count_of(SealedVerdict::unreadable) + count_of(SealedVerdict::not_answered) == 0;
  context.exit_code = differs ? exit_differs : is_whole ? exit_same : exit_bad_request;
}

void run_seal(Context& context, const SealFlags& flags) {
  const Target target = parse_target(flags.target);
  const std::string text = print(make_sealed(target, flags.withhold, flags.threads));
  write_whole(flags.out, [&](std::ostream& out) { out << text; });
  const SealedFile file = read_sealed(text);
  size_t cases = 0;
  for (const SealedPoint& point : file.points) cases += point.cases.size();
  context.out() << fmt::format("{}: {}, {}\n{}  {}\n", print(target),
                               counted(static_cast<int64_t>(file.points.size()), "point"),
                               counted(static_cast<int64_t>(cases), "case"), file.sha256, flags.out);
}

/// One point, in the process that was made for it.
void add_survey_point(Command& survey) {
  Command* command = survey.add_command("point", "");
  command->group("");
  const auto flags = std::make_shared<PointFlags>();
  command->add_option("point", flags->point, "")->required();
  command->add_option("-o,--output", flags->out, "")->required();
  command->add_option("--sealed", flags->path, "");
  flags->device.add(*command);
  command->callback([flags] {
    end_with_survey();
    const std::optional<SealedFile> file =
        flags->path.empty() ? std::nullopt : std::optional(read_sealed_file(flags->path));
    write_tensor_file(flags->out, to_file(run_sealed_point(flags->point, file, flags->device.asked())));
  });
}

}  // namespace

void add_survey_sealed(Command& survey, Context& context) {
  Command* command = survey.add_command(
      "sealed", "which of the known answers this GPU gives to the open points, and whether bitmma predicted them");
  const auto flags = std::make_shared<SealedFlags>();
  command->add_option("file", flags->path, "a sealed prediction; default: the one that is built in for this GPU");
  command->add_option("-o,--output", flags->out, "write the answers to this file too");
  flags->device.add(*command);
  command->add_option("--unit-seconds", flags->unit_seconds, "stop a point that takes longer")->capture_default_str();
  command->add_option("--jobs", flags->jobs, "processes at a time")->capture_default_str();
  command->add_flag("--json", flags->json, "the findings as JSON");
  command->footer(
      "Examples:\n"
      "  bitmma survey sealed  # less than a minute; sends nothing\n"
      "  bitmma survey sealed blind.json --json\n"
      "Exit code 1 when the GPU gives another answer than the predicted one, or none that is known; 2 without a GPU,\n"
      "and when a point got no answer.");
  command->callback([flags, &context] { run_sealed_command(context, *flags); });
  add_survey_point(survey);
}

void add_survey_seal(Command& survey, Context& context) {
  Command* command = survey.add_command("seal", "write the sealed prediction of a target");
  const auto flags = std::make_shared<SealFlags>();
  command->add_option("target", flags->target, "the GPU, by its PTX name")->required();
  command->add_option("-o,--output", flags->out, "file for the prediction, JSON")->required();
  command->add_option("--withhold", flags->withhold,
                      "leave the prediction out of points whose name contains this text");
  add_threads(*command, flags->threads);
  command->footer(
      "Example:\n"
      "  bitmma survey seal sm_90a --withhold 'floor and rounding' -o blind.json");
  command->callback([flags, &context] { run_seal(context, *flags); });
}

}  // namespace bitmma::cli
