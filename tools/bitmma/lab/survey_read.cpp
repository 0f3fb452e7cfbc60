// SPDX-License-Identifier: MIT
// bitmma survey read: the conclusions from GPU reports about this version's rules and choices.
#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/text.hpp"
#include "bitmma/survey/survey.hpp"
#include "flags.hpp"
#include "output.hpp"
#include "survey.hpp"

namespace bitmma::cli {
namespace {

struct SurveyReadFlags {
  Flag<std::vector<std::string>> files;
  Flag<bool> all = false, json = false, confirmed = false, quick = false;
  Flag<int> threads = 1;
};

/// Prints the file of confirmed facts with the reports' rows, and on stderr why further rows are not confirmed.
void print_confirmed(const Context& context, const std::vector<ReadSurvey>& reads) {
  const Confirmed news = confirmed_by_all(reads);
  Confirmed all = confirmed();
  all.add(news);
  context.out() << print(all);
  int64_t unread = 0;
  for (const ReadSurvey& read : reads) unread += read.count(SurveyVerdict::unreadable);
  if (unread > 0) {
    context.terminal.err << fmt::format("{} cannot be read and may hide others: bitmma survey read shows them\n",
                                        counted(unread, "record"));
  }
  if (!news.empty()) return;
  const bool only_rehearsals =
      std::ranges::all_of(reads, [](const ReadSurvey& read) { return read.report.is_rehearsal(); });
  context.terminal.err << (only_rehearsals ? "a rehearsal proves nothing\n"
                                           : "the report adds nothing that is not already measured\n");
}

void run_survey_read(Context& context, const SurveyReadFlags& flags) {
  std::vector<ReadSurvey> reads;
  const std::vector<std::string> paths = vector_files(flags.files);
  int64_t unreadable = 0;
  for (const std::string& path : paths) {
    ReadSurvey read{.path = path};
    try {
      read.report = read_survey(read_tensor_file(path));
    } catch (const Error& error) {  // one bad file does not hide the results of the others
      if (paths.size() == 1) throw;
      context.terminal.err << fmt::format("error: {}\n", error.what());
      ++unreadable;
      continue;
    }
    ProgressLine progress(context, path, static_cast<int64_t>(survey_units(read.report.target).size()));
    // A report's own search results never make a row measured.
    const bool search = !flags.quick || flags.confirmed;
    read.findings = findings_of(read.report, search, flags.threads, [&](int64_t done) { progress.update(done); });
    reads.push_back(std::move(read));
  }
  if (flags.confirmed) print_confirmed(context, reads);
  else show(context, describe(reads, !flags.json && flags.all), flags.json);
  int64_t wrong = 0;
  for (const ReadSurvey& read : reads) {
    wrong += read.count(SurveyVerdict::refuted) + read.count(SurveyVerdict::unknown);
    unreadable += read.count(SurveyVerdict::unreadable);
  }
  context.exit_code = wrong > 0 ? exit_differs : unreadable > 0 ? exit_bad_request : exit_same;
}

}  // namespace

void add_survey_read(Command& survey, Context& context) {
  Command* command = survey.add_command("read", "read reports: which rules and choices they confirm, refute or decide");
  const auto flags = std::make_shared<SurveyReadFlags>();
  command->add_input("files", flags->files, "reports, and folders of them")->required();
  command->add_flag("--all", flags->all, "show every unit, including confirmed ones");
  CLI::Option* const quick =
      command->add_flag("--quick", flags->quick, "only compare results; do not search for the rules again");
  CLI::Option* const json = command->add_flag("--json", flags->json, "print everything as JSON");
  command
      ->add_flag("--confirmed", flags->confirmed, "print data/surveys/confirmed.json with what the reports add to it")
      ->excludes(quick)
      ->excludes(json);
  add_threads(*command, flags->threads);
  command->footer(
      "Examples:\n  bitmma survey read report.safetensors\n  bitmma survey read --quick --json report.safetensors\n  "
      "bitmma survey read --confirmed report.safetensors\nCases are regenerated and compared with this version's "
      "model; verdicts in a report are not used.\nExit code 1 when something is refuted or unknown, 2 when a report or "
      "one of its records cannot be read: fields\nthat contradict each other, units that the target does not have, "
      "cases of another version.");
  command->callback([flags, &context] { run_survey_read(context, *flags); });
}

}  // namespace bitmma::cli
