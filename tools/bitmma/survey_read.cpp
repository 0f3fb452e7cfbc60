// bitmma survey read: what reports of GPUs say about the rules and choices of this version.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "bitmma/core/text.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "flags.hpp"
#include "json_list.hpp"
#include "output.hpp"
#include "survey.hpp"

namespace bitmma::cli {
namespace {

struct SurveyReadFlags {
  Flag<std::vector<std::string>> files;
  Flag<bool> all = false, json = false, confirmed = false, quick = false;
  Flag<int> threads = 1;
};

constexpr std::array verdicts{SurveyVerdict::confirmed, SurveyVerdict::refuted,    SurveyVerdict::unknown,
                              SurveyVerdict::undecided, SurveyVerdict::unreadable, SurveyVerdict::not_run};

int64_t count_of(const ReadSurvey& read, SurveyVerdict verdict) {
  return std::ranges::count(read.findings, verdict, &SurveyFinding::verdict);
}

Tone tone_of(SurveyVerdict verdict) {
  return verdict == SurveyVerdict::confirmed ? Tone::good
         : verdict == SurveyVerdict::refuted ? Tone::bad
                                             : Tone::warning;
}

void print_finding(const Context& context, const SurveyFinding& finding) {
  context.out() << fmt::format("{}  {}\n    {}\n",
                               colored(context, tone_of(finding.verdict), std::string(print(finding.verdict))),
                               finding.unit, finding.found);
  if (finding.outputs > 0)
    context.out() << fmt::format("    {}, {} differ from the model\n", counted(finding.outputs, "output"),
                                 finding.mismatches);
  for (const std::string& detail : finding.details) context.out() << "    " << detail << '\n';
}

void print_survey(const Context& context, const ReadSurvey& read, bool all) {
  const SurveyReport& report = read.report;
  context.out() << fmt::format("{}: {} ({}), driver {}, CUDA {}, {}; {}, seed {}, {:.0f} s\n", read.path, report.gpu,
                               print(report.target), report.driver, report.cuda, report.date, report.version,
                               report.seed, report.seconds);
  if (report.is_rehearsal())
    context.out() << "a rehearsal: the model answered for itself, which is evidence of nothing\n";
  std::vector<std::vector<std::string>> table{{"asked", "units"}};
  for (const SurveyVerdict verdict : verdicts) table[0].emplace_back(print(verdict));
  for (const SurveyAsk ask : {SurveyAsk::rule, SurveyAsk::question, SurveyAsk::bits}) {
    std::map<SurveyVerdict, int64_t> counts;
    int64_t units = 0;
    for (const SurveyFinding& finding : read.findings) {
      if (finding.ask != ask) continue;
      ++units, ++counts[finding.verdict];
    }
    std::vector<std::string> row{std::string(print(ask)), std::to_string(units)};
    for (const SurveyVerdict verdict : verdicts) row.push_back(std::to_string(counts[verdict]));
    table.push_back(std::move(row));
  }
  context.out() << '\n' << print_table(table);
  for (const SurveyFinding& finding : read.findings) {
    // What was not asked is counted; what was asked and got no answer is shown.
    const bool was_asked = read.report.find(finding.unit) != nullptr;
    const bool is_news = finding.ask == SurveyAsk::question || finding.verdict != SurveyVerdict::confirmed;
    if (was_asked && (all || is_news)) {
      context.out() << '\n';
      print_finding(context, finding);
    }
  }
  const Confirmed news = confirmed_by(report, read.findings);
  if (!news.empty()) {
    context.out() << fmt::format("\n{} and {} would become measured: bitmma survey read --confirmed {}\n",
                                 counted(static_cast<int64_t>(news.rules.size()), "row"),
                                 counted(static_cast<int64_t>(news.choices.size()), "choice"), read.path);
  }
}

Json survey_json(const ReadSurvey& read) {
  Json findings = Json::array();
  for (const SurveyFinding& one : read.findings) {
    Json json{{"unit", one.unit},
              {"asked", print(one.ask)},
              {"verdict", print(one.verdict)},
              {"found", one.found},
              {"details", one.details},
              {"outputs", one.outputs},
              {"mismatches", one.mismatches},
              {"evidence_before", print(one.evidence, read.report.target)}};
    if (one.choice) json["choice"] = print(*one.choice);
    findings.push_back(std::move(json));
  }
  return {{"file", read.path},
          {"gpu", read.report.gpu},
          {"rehearsal", read.report.is_rehearsal()},
          {"target", print(read.report.target)},
          {"driver", read.report.driver},
          {"cuda", read.report.cuda},
          {"date", read.report.date},
          {"bitmma", read.report.version},
          {"seed", read.report.seed},
          {"seconds", read.report.seconds},
          {"findings", std::move(findings)}};
}

/// Units that GPUs of one target answer differently.
void print_contradictions(const Context& context, const std::vector<ReadSurvey>& reads) {
  std::map<std::pair<Target, std::string>, std::map<std::string, std::string>> found;
  for (const ReadSurvey& read : reads) {
    if (read.report.is_rehearsal()) continue;
    for (const SurveyFinding& one : read.findings) {
      if (one.verdict == SurveyVerdict::confirmed || one.verdict == SurveyVerdict::refuted)
        found[{read.report.target, one.unit}][one.found].append(fmt::format(" {}", read.report.gpu));
    }
  }
  for (const auto& [unit, answers] : found) {
    if (answers.size() < 2) continue;
    context.out() << fmt::format("\nGPUs differ: {}\n", unit.second);
    for (const auto& [answer, gpus] : answers) context.out() << fmt::format("   {}: {}\n", gpus, answer);
  }
}

/// The file of confirmed facts with what the reports add, and on stderr what keeps them from adding more.
void print_confirmed(const Context& context, const std::vector<ReadSurvey>& reads) {
  const Confirmed news = confirmed_by_all(reads);
  Confirmed all = confirmed();
  all.add(news);
  context.out() << print(all);
  int64_t unread = 0;
  for (const ReadSurvey& read : reads) unread += count_of(read, SurveyVerdict::unreadable);
  if (unread > 0) {
    context.terminal.err << fmt::format("{} cannot be read, and may keep others back: bitmma survey read shows them\n",
                                        counted(unread, "record"));
  }
  if (!news.empty()) return;
  const bool only_rehearsals =
      std::ranges::all_of(reads, [](const ReadSurvey& read) { return read.report.is_rehearsal(); });
  context.terminal.err << (only_rehearsals ? "a rehearsal is evidence of nothing\n"
                                           : "nothing would become measured that is not measured already\n");
}

void run_survey_read(Context& context, const SurveyReadFlags& flags) {
  std::vector<ReadSurvey> reads;
  const std::vector<std::string> paths = vector_files(flags.files);
  int64_t unreadable = 0;
  for (const std::string& path : paths) {
    ReadSurvey read{.path = path};
    try {
      read.report = read_survey(read_tensor_file(path));
    } catch (const Error& error) {  // one bad file does not hide what the others say
      if (paths.size() == 1) throw;
      context.terminal.err << fmt::format("error: {}\n", error.what());
      ++unreadable;
      continue;
    }
    ProgressLine progress(context, path, static_cast<int64_t>(survey_units(read.report.target).size()));
    // Nothing becomes measured by what a report says of its own search.
    const bool search = !flags.quick || flags.confirmed;
    read.findings = findings_of(read.report, search, flags.threads, [&](int64_t done) { progress.update(done); });
    reads.push_back(std::move(read));
  }
  if (flags.confirmed) {
    print_confirmed(context, reads);
  } else if (flags.json) {
    Json all = Json::array();
    for (const ReadSurvey& read : reads) all.push_back(survey_json(read));
    context.out() << json_text(all) << '\n';
  } else {
    for (size_t i = 0; i < reads.size(); ++i) {
      if (i > 0) context.out() << '\n';
      print_survey(context, reads[i], flags.all);
    }
    print_contradictions(context, reads);
  }
  int64_t wrong = 0;
  for (const ReadSurvey& read : reads) {
    wrong += count_of(read, SurveyVerdict::refuted) + count_of(read, SurveyVerdict::unknown);
    unreadable += count_of(read, SurveyVerdict::unreadable);
  }
  context.exit_code = wrong > 0 ? exit_differs : unreadable > 0 ? exit_bad_request : exit_same;
}

}  // namespace

void add_survey_read(Command& survey, Context& context) {
  Command* command =
      survey.add_command("read", "what reports of GPUs say: which rules and choices they confirm, refute or settle");
  const auto flags = std::make_shared<SurveyReadFlags>();
  command->add_option("files", flags->files, "reports, and folders of them")->required();
  command->add_flag("--all", flags->all, "every unit, also those that are confirmed");
  CLI::Option* const quick =
      command->add_flag("--quick", flags->quick, "compare results, but do not search for the rules again");
  CLI::Option* const json = command->add_flag("--json", flags->json, "everything as JSON");
  command->add_flag("--confirmed", flags->confirmed, "data/surveys/confirmed.json with what would become measured")
      ->excludes(quick)
      ->excludes(json);
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n"
      "  bitmma survey read report.safetensors\n"
      "  bitmma survey read --quick --json report.safetensors\n"
      "  bitmma survey read --confirmed report.safetensors\n"
      "Cases are made again and compared with this version's model; what a report claims is not used.\n"
      "Exit code 1 when something is refuted or unknown, 2 when a report or one of its records cannot be read: fields\n"
      "that contradict each other, units that the target does not have, cases of another version.");
  command->callback([flags, &context] { run_survey_read(context, *flags); });
}

}  // namespace bitmma::cli
