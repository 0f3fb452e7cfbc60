#include <fmt/format.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>

#include "bitmma/core/text.hpp"
#include "bitmma/hardware/campaign.hpp"
#include "bitmma/hardware/run_file.hpp"
#include "bitmma/hardware/survey.hpp"
#include "bitmma/instruction/form.hpp"
#include "flags.hpp"
#include "gpu_sealed.hpp"
#include "json_list.hpp"
#include "output.hpp"
#include "signals.hpp"

namespace bitmma::cli {
namespace {

struct GpuFlags {
  std::vector<std::string> files;
  std::string out, only, save = ".", family = "wgmma";
  int device = 0;
  bool campaign = false, json = false, survey = false, retry = false, prove_timeout = false;
  CampaignOptions options;
  double unit_seconds = 60;
  int jobs = 4;
  std::string rehearse;
  std::optional<std::string> survey_unit, sealed, sealed_point;
  std::string make_sealed, withhold;
  const CLI::Option* unit_seconds_given = nullptr;
  const CLI::Option* seconds_given = nullptr;
  std::vector<const CLI::Option*> of_campaigns = {};
  std::optional<double> outputs;
  int threads = 1;
};

const std::map<std::string, Family> families{{"wgmma", Family::wgmma},
                                             {"mma.sync", Family::mma_sync},
                                             {"tcgen05.mma", Family::tcgen05},
                                             {"tcgen05-moves", Family::tmem_move}};

/// Which flag says what of a campaign.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> flag_of_field{
    {{"only", "--only"},
     {"path", "-o"},
     {"unit_seconds", "--unit-seconds"},
     {"jobs", "--jobs"},
     {"units", "--units"},
     {"first_unit", "--first-unit"},
     {"outputs_per_unit", "--unit-outputs"},
     {"seconds", "--seconds"},
     {"max_saved", "--max-saved"},
     {"threads", "--threads"}}};

/// The same with flags for the library's fields.
Error naming_flags(const Error& error) {
  std::vector<Violation> violations = error.violations();
  for (Violation& violation : violations) {
    for (const auto& [field, flag] : flag_of_field) {
      if (violation.field == field) violation.field = flag;
    }
  }
  return Error(std::move(violations));
}

/// Compares what the GPU computed with the model, case by case. Cases that the model rejects are reported and counted.
Comparison compare_with_model(Context& context, const std::string& path, const VectorFile& from_gpu, int64_t& refused) {
  Comparison total;
  for (int64_t index = 0; index < from_gpu.cases; ++index) {
    const Case one = case_at(from_gpu, index);
    try {
      total += compare_case(one.instruction, index, computed_d(one), recorded_d(one));
    } catch (const Error& error) {
      ++refused;
      context.terminal.err << fmt::format("{}: case {}: the GPU ran it, the model refuses: {}\n", path, index,
                                          error.what());
    }
  }
  return total;
}

/// Runs file `index` on the GPU. Errors name the file.
TensorFile run_one(const Context& context, const std::vector<std::string>& files, size_t index, const Gpu& gpu) {
  try {
    return run_file(read_vector_file(files[index]), gpu);
  } catch (const Error&) {
    if (files.size() > 1) {
      context.terminal.err << fmt::format("{} of {} done; not {}:\n", index,
                                          counted(static_cast<int64_t>(files.size()), "file"), files[index]);
    }
    throw;
  }
}

void run_files(Context& context, const GpuFlags& flags) {
  const std::vector<std::string> files = vector_files(flags.files);
  if (flags.out.empty())
    throw Error({.field = "-o", .seen = "(missing)", .expected = "a file, or a folder for several"});
  const std::vector<std::string> outputs = output_paths(files, flags.out);  // refused before anything runs
  for (const std::string& output : outputs) require_tensor_file_name(output);
  Gpu gpu(flags.device);
  Comparison total;
  int64_t refused = 0;
  {
    ProgressLine progress(context, gpu.name(), static_cast<int64_t>(files.size()));
    for (size_t i = 0; i < files.size(); ++i) {
      const TensorFile result = run_one(context, files, i, gpu);
      write_tensor_file(outputs[i], result);
      const Comparison one = compare_with_model(context, files[i], as_vector_file(result), refused);
      if (one.mismatches > 0) {
        context.terminal.out << fmt::format("{}: {} of {} differ from the model, first {}\n", files[i], one.mismatches,
                                            counted(one.outputs, "output"), print(*one.first));
      }
      total += one;
      progress.update(static_cast<int64_t>(i) + 1);
    }
  }
  context.terminal.out << fmt::format("{} (sm_{}, driver {}): {}, {}, {}, {} differ from the model{}\n", gpu.name(),
                                      gpu.capability(), gpu.driver_version(),
                                      counted(static_cast<int64_t>(files.size()), "file"), counted(total.cases, "case"),
                                      counted(total.outputs, "output"), total.mismatches,
                                      refused ? fmt::format(", {} it refuses", counted(refused, "case")) : "");
  print_warnings(context, gpu.close());
  if (total.outputs == 0 && refused == 0)
    throw Error({.field = "outputs", .seen = "0", .expected = "1 or more", .fix = "nothing was compared"});
  context.exit_code = total.mismatches == 0 && refused == 0 ? exit_same : exit_differs;
}

/// Draws a line on stderr: on a terminal one that is redrawn, in a log one every half minute.
class CampaignProgressLine {
 public:
  CampaignProgressLine(const Context& context, int64_t units) : terminal_(context.terminal), units_(units) {}
  ~CampaignProgressLine() {
    if (terminal_.progress) terminal_.err << "\r\033[K";
  }

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count(); }
  void update(const CampaignRow& total) {
    const double now = seconds();
    if (now - last_line_ < (terminal_.progress ? 0.2 : 30)) return;
    last_line_ = now;
    const auto outputs = static_cast<double>(total.outputs);
    terminal_.err << fmt::format("{}{} of {}, {:.3g} outputs, {:.3g} outputs/s, {}{}",
                                 terminal_.progress ? "\r\033[K" : "", total.units, counted(units_, "unit"), outputs,
                                 outputs / now, counted_mismatches(total.mismatches), terminal_.progress ? "" : "\n")
                  << std::flush;
  }

 private:
  static std::string counted_mismatches(int64_t count) {
    return fmt::format("{} mismatch{}", count, count == 1 ? "" : "es");
  }

  const Terminal& terminal_;
  int64_t units_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  double last_line_ = 0;
};

/// How many units have about so many outputs.
int64_t units_of(double outputs, int64_t outputs_per_unit) {
  const double most = static_cast<double>(campaign_units - 1) * static_cast<double>(outputs_per_unit);
  if (outputs >= 1 && outputs <= most) return static_cast<int64_t>(outputs / static_cast<double>(outputs_per_unit)) + 1;
  throw Error({.field = "--outputs", .seen = fmt::format("{}", outputs), .expected = fmt::format("1..{:.3g}", most)});
}

/// What flags say, checked before a GPU is looked for.
CampaignOptions options_of(const GpuFlags& flags) {
  CampaignOptions options = flags.options;
  options.only = flags.only;
  options.threads = flags.threads;
  options.family = families.at(flags.family);
  options.save_folder = flags.save;
  try {
    require_valid(options);
  } catch (const Error& error) {
    throw naming_flags(error);
  }
  std::error_code error;
  if (!std::filesystem::is_directory(options.save_folder, error)) {
    throw Error({.field = "--save",
                 .seen = options.save_folder,
                 .expected = "an existing folder",
                 .fix = fmt::format("mkdir {}", options.save_folder)});
  }
  if (flags.outputs) {
    options.units = units_of(*flags.outputs, options.outputs_per_unit);
    const int64_t left = campaign_units - options.first_unit;
    if (options.units > left) {
      throw Error({.field = "--outputs",
                   .seen = fmt::format("{}", *flags.outputs),
                   .expected = fmt::format("outputs of {}", counted(left, "unit")),
                   .fix = "there are no more from --first-unit on"});
    }
  }
  return options;
}

/// What the GPU says.
void add_device(CampaignOptions& options, const Gpu& gpu) {
  options.target = target_of(gpu).value_or(options.target);
  options.source = gpu.name();
  options.provenance = provenance_of(gpu);
}

/// "2026-11-22": the day on which the campaign ran.
std::string date_of(const CampaignOptions& options) {
  for (const auto& [key, value] : options.provenance) {
    if (key == "date") return value;
  }
  return "unknown";
}

/// A campaign that ended, in whatever way.
struct CampaignEnd {
  CampaignReport report = {};
  double seconds = 0;
  std::string_view signal = {};         // that interrupted it with units left; empty: none
  std::vector<Violation> failure = {};  // what ended it; empty: nothing did
};

CampaignEnd run_to_its_end(const Context& context, CampaignOptions options, const Gpu& gpu) {
  CampaignEnd end;
  const Interrupts interrupts;
  CampaignProgressLine line(context, options.units);
  options.stop = [&] { return interrupts.asked(); };
  try {
    end.report = run_campaign(options, gpu.executor(), [&](const CampaignRow& total) { line.update(total); });
  } catch (const CampaignError& error) {
    end.report = error.report;
    end.failure = error.violations();
  } catch (const Error& error) {
    throw naming_flags(error);
  }
  end.seconds = line.seconds();
  if (end.failure.empty() && end.report.next_unit < options.first_unit + options.units) end.signal = interrupts.name();
  return end;
}

/// "done", "--seconds", "SIGINT" or the error.
std::string ended_by(const CampaignEnd& end, const CampaignOptions& options) {
  if (!end.failure.empty()) return print(end.failure.front());
  if (!end.signal.empty()) return std::string(end.signal);
  return end.report.next_unit < options.first_unit + options.units ? "--seconds" : "done";
}

void print_campaign(const Context& context, const CampaignEnd& end, const CampaignOptions& options, const Gpu& gpu,
                    bool as_json) {
  const CampaignReport& report = end.report;
  const std::string target(print(options.target));
  std::vector<std::vector<std::string>> table{
      {"instruction", "cases", "outputs", "special, subnormal, ties", "mismatches"}};
  Json rows = Json::array();
  const auto add = [&](const std::string& name, const CampaignRow& row) {
    table.push_back({name, std::to_string(row.cases), std::to_string(row.outputs), std::to_string(row.hard_outputs),
                     std::to_string(row.mismatches)});
    rows.push_back({{"instruction", name},
                    {"cases", row.cases},
                    {"outputs", row.outputs},
                    {"hard_outputs", row.hard_outputs},
                    {"mismatches", row.mismatches}});
  };
  for (const auto& [name, row] : report.rows) add(name, row);
  add("total", report.total);
  std::ostream& out = context.terminal.out;
  if (as_json) {
    Json not_saved = Json::array();
    for (const auto& [unit, case_index, cases, reason] : report.not_saved)
      not_saved.push_back({{"unit", unit}, {"case", case_index}, {"cases", cases}, {"reason", reason}});
    out << json_text(Json{{"gpu", gpu.name()},
                          {"target", target},
                          {"driver", gpu.driver_version()},
                          {"cuda", gpu.cuda_version()},
                          {"date", date_of(options)},
                          {"seed", options.seed},
                          {"first_unit", options.first_unit},
                          {"next_unit", report.next_unit},
                          {"outputs_per_unit", options.outputs_per_unit},
                          {"seconds", end.seconds},
                          {"ended_by", ended_by(end, options)},
                          {"rows", rows},
                          {"saved", report.saved},
                          {"not_saved", not_saved}})
        << '\n';
    return;
  }
  const std::string units = report.next_unit > options.first_unit
                                ? fmt::format("units {}..{}", options.first_unit, report.next_unit - 1)
                                : fmt::format("units beside {}", options.first_unit);  // which failed
  out << fmt::format("{} ({}), driver {}, CUDA {}, {}; seed {}, {} of about {}; {:.0f} s\n\n", gpu.name(), target,
                     gpu.driver_version(), gpu.cuda_version(), date_of(options), options.seed, units,
                     counted(options.outputs_per_unit, "output"), end.seconds)
      << print_table(table);
  for (const std::string& path : report.saved) out << "saved " << path << '\n';
  if (report.next_unit < options.first_unit + options.units) {
    out << fmt::format("to go on: --first-unit {}\n", report.next_unit);
  }
}

void run_campaign_command(Context& context, const GpuFlags& flags) {
  CampaignOptions options = options_of(flags);
  Gpu gpu(flags.device);
  add_device(options, gpu);
  const CampaignEnd end = run_to_its_end(context, options, gpu);
  const CampaignRow& total = end.report.total;
  if (total.units > 0) print_campaign(context, end, options, gpu, flags.json);
  std::ostream& err = context.terminal.err;
  for (const auto& [unit, case_index, cases, reason] : end.report.not_saved) {
    err << fmt::format("warning: unit {}, case {}: its mismatch was not saved: {}{}\n", unit, case_index,
                       printable(reason),
                       cases == 1 ? "" : fmt::format(", nor were {} after it", counted(cases - 1, "case")));
  }
  print_warnings(context, gpu.close());
  if (!end.signal.empty()) err << fmt::format("interrupted by {} after {}\n", end.signal, counted(total.units, "unit"));
  if (!end.failure.empty()) throw Error(end.failure);
  if (total.outputs == 0) {
    throw Error(
        {.field = "outputs",
         .seen = "0",
         .expected = "1 or more",
         .fix = fmt::format("nothing was compared before the campaign was ended by {}", ended_by(end, options))});
  }
  if (total.mismatches > 0) context.exit_code = exit_differs;
  else context.exit_code = end.signal.empty() ? exit_same : exit_bad_request;
}

std::optional<Target> rehearsed_target(const GpuFlags& flags) {
  if (flags.rehearse.empty()) return std::nullopt;
  return naming_flag("target", "--rehearse", [&] { return parse_target(flags.rehearse); });
}

SurveyDevice survey_device_of(const GpuFlags& flags) {
  return {.ordinal = flags.device, .rehearse = rehearsed_target(flags), .seed = flags.options.seed};
}

/// This program again, for one unit of what `flag` names.
std::vector<std::string> command_of_unit(const GpuFlags& flags, std::string_view flag) {
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string(), "gpu", "--device",
                                   std::to_string(flags.device)};
  if (!flags.rehearse.empty()) command.insert(command.end(), {"--rehearse", flags.rehearse});
  command.emplace_back(flag);
  return command;
}

std::vector<std::string> survey_command(const GpuFlags& flags) {
  std::vector<std::string> command = command_of_unit(flags, "--survey-unit");
  command.insert(command.end() - 1, {"--seed", std::to_string(flags.options.seed)});
  return command;
}

SealedFlags sealed_flags_of(const GpuFlags& flags) {
  std::vector<std::string> command = command_of_unit(flags, "--sealed-point");
  if (flags.sealed && !flags.sealed->empty())
    command.insert(command.end() - 1, fmt::format("--sealed={}", *flags.sealed));
  return {.path = flags.sealed.value_or(""),
          .out = flags.out,
          .withhold = flags.withhold,
          .device = survey_device_of(flags),
          // The whole of it is to end within a minute.
          .unit_seconds = flags.unit_seconds_given->count() > 0 ? flags.unit_seconds : SealedOptions{}.unit_seconds,
          .jobs = flags.jobs,
          .threads = flags.threads,
          .json = flags.json,
          .command = std::move(command)};
}

/// One unit, in the process that a survey made for it.
void run_survey_unit_command(Context&, const GpuFlags& flags) {
  end_with_survey();
  write_tensor_file(flags.out, to_file(run_survey_unit(*flags.survey_unit, survey_device_of(flags))));
}

/// Draws a line on stderr: on a terminal one that is redrawn, in a log one every half minute.
class SurveyProgressLine {
 public:
  explicit SurveyProgressLine(const Context& context) : terminal_(context.terminal) {}
  ~SurveyProgressLine() {
    if (terminal_.progress) terminal_.err << "\r\033[K";
  }
  void update(const SurveyProgress& now) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    if (now.done < now.units && seconds - last_line_ < (terminal_.progress ? 0.1 : 30)) return;
    last_line_ = seconds;
    std::string text = fmt::format("{} of {}, {:.0f} s, {} without an answer, {} differing outputs", now.done,
                                   counted(now.units, "unit"), seconds, now.unanswered, now.mismatches);
    if (terminal_.progress) text += fmt::format("; {}", shortened(now.last, 60));
    terminal_.err << (terminal_.progress ? "\r\033[K" : "") << text << (terminal_.progress ? "" : "\n") << std::flush;
  }

 private:
  const Terminal& terminal_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  double last_line_ = 0;
};

void run_prove_timeout(Context& context, const GpuFlags& flags) {
  constexpr double seconds = 10;  // enough for a driver to begin
  const TimeoutProof proof = naming_flag("unit_seconds", "--unit-seconds", [&] {
    return prove_timeout({.unit_seconds = std::min(flags.unit_seconds, seconds), .command = survey_command(flags)});
  });
  context.terminal.out << fmt::format(
      "{}: a kernel that never ends was {} after {:.1f} s; the GPU answered another process {:.1f} s later\n",
      proof.gpu, proof.stopped ? "stopped" : "given up", proof.seconds, proof.seconds_until_answer);
  context.exit_code = proof.stopped ? exit_same : exit_bad_request;
}

void run_survey_command(Context& context, const GpuFlags& flags) {
  if (flags.out.empty())
    throw Error(
        {.field = "-o", .seen = "(missing)", .expected = "a file for the report", .fix = "-o report.safetensors"});
  require_tensor_file_name(flags.out);
  for (const CLI::Option* option : flags.of_campaigns) {
    if (option->count() == 0) continue;
    throw Error({.field = option->get_name(), .seen = "with --survey", .expected = "with --campaign"});
  }
  static_cast<void>(rehearsed_target(flags));  // rejects an unknown target before starting a process
  const Interrupts interrupts;
  constexpr double usual_seconds = 480;  // eight minutes
  const SurveyOptions options{.path = flags.out,
                              .seconds = flags.seconds_given->count() > 0 ? flags.options.seconds : usual_seconds,
                              .unit_seconds = flags.unit_seconds,
                              .jobs = flags.jobs,
                              .only = flags.only,
                              .retry = flags.retry,
                              .stop = [&] { return interrupts.asked(); },
                              .command = survey_command(flags)};
  SurveyReport report;
  try {
    SurveyProgressLine line(context);
    report = run_survey(options, flags.options.seed, [&](const SurveyProgress& now) { line.update(now); });
  } catch (const Error& error) {
    throw naming_flags(error);
  }
  int64_t answered = 0, unanswered = 0, mismatches = 0;
  for (const SurveyRecord& record : report.records) {
    answered += record.end == SurveyEnd::answered ? 1 : 0;
    mismatches += record.random_mismatches;
    constexpr int64_t most_printed = 20;
    const bool is_said = record.end != SurveyEnd::answered && ++unanswered <= most_printed;
    if (is_said)
      context.terminal.err << fmt::format("{}: {}: {}\n", record.unit, print(record.end), printable(record.message));
  }
  const auto records = static_cast<int64_t>(report.records.size());
  std::ostream& out = context.terminal.out;
  out << fmt::format(
      "{} ({}), driver {}, CUDA {}, {}: {} of {} asked, {} answered, {} of random cases differ from "
      "the model; {:.0f} s\n",
      report.gpu, print(report.target), report.driver, report.cuda, report.date, records, counted(report.units, "unit"),
      answered, counted(mismatches, "output"), report.seconds);
  if (records < report.units) {
    out << fmt::format("to go on: the same command{}; {} not asked yet\n", flags.only.empty() ? "" : " without --only",
                       report.units - records);
  }
  if (answered < records)
    out << fmt::format("to ask again what got no answer: --retry; {}\n", counted(records - answered, "unit"));
  out << fmt::format("wrote {}; what it says: bitmma survey {}\n", flags.out, flags.out);
  context.exit_code = interrupts.asked() || answered == 0 ? exit_bad_request
                      : mismatches > 0                    ? exit_differs
                                                          : exit_same;
}

/// Files, a campaign, a survey, a sealed prediction or the proof of the timeout.
void require_one_request(const GpuFlags& flags) {
  const std::pair<bool, std::string_view> requests[]{{!flags.files.empty(), "files"},
                                                     {flags.campaign, "--campaign"},
                                                     {flags.survey, "--survey"},
                                                     {flags.sealed.has_value(), "--sealed"},
                                                     {!flags.make_sealed.empty(), "--make-sealed"},
                                                     {flags.prove_timeout, "--prove-timeout"}};
  std::string seen;
  int64_t asked = 0;
  for (const auto& [is_asked, name] : requests) {
    if (!is_asked) continue;
    seen += fmt::format("{}{}", asked++ == 0 ? "" : " and ", name);
  }
  if (asked == 1) return;
  throw Error({.field = "gpu",
               .seen = asked == 0 ? "neither files nor --campaign nor --survey nor --sealed" : seen,
               .expected = "one of them"});
}

}  // namespace

void add_gpu(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("gpu", "run vector files on a real GPU, or a campaign that checks the model against one");
  const auto flags = std::make_shared<GpuFlags>();
  command->add_option("files", flags->files, "vector files, and folders of them");
  command->add_option("-o,--output", flags->out, "file to write, or folder for several: the inputs with the GPU's D");
  command->add_option("--device", flags->device, "which GPU")->capture_default_str();
  command->add_flag("--campaign", flags->campaign,
                    "random cases of every legal instruction of a family instead of files");
  command->add_option("--family", flags->family, "campaign: wgmma, mma.sync, tcgen05.mma or tcgen05-moves")
      ->check(CLI::IsMember(families))
      ->capture_default_str();
  command->add_option("--outputs", flags->outputs, "campaign: about how many outputs, such as 1e9")
      ->excludes(command
                     ->add_option("--units", flags->options.units,
                                  "campaign: how many units of work; 1074 meet every mnemonic once, of mma.sync on an "
                                  "H100 198")
                     ->capture_default_str());
  command
      ->add_option("--unit-outputs", flags->options.outputs_per_unit,
                   "campaign: outputs of a unit; part of what a seed means")
      ->capture_default_str();
  flags->seconds_given = command->add_option(
      "--seconds", flags->options.seconds,
      "campaign and survey: begin no unit after this time; 0 is no limit, the default of campaigns; of surveys 480");
  command->add_option("--seed", flags->options.seed, "campaign and survey: the same seed and unit make the same cases")
      ->capture_default_str();
  command->add_option("--first-unit", flags->options.first_unit, "campaign: where to begin, or to go on")
      ->capture_default_str();
  command->add_option("--only", flags->only, "campaign and survey: only mnemonics, or units, that contain this text");
  command->add_option("--save", flags->save, "campaign: folder for mismatching cases")->capture_default_str();
  command->add_option("--max-saved", flags->options.max_saved, "campaign: save at most so many")->capture_default_str();
  command->add_flag("--json", flags->json, "campaign and sealed prediction: the table as JSON");
  command->add_flag("--survey", flags->survey,
                    "ask this GPU everything: every rule, every open question; -o is the report, and one that is there "
                    "is gone on with");
  flags->unit_seconds_given =
      command
          ->add_option("--unit-seconds", flags->unit_seconds,
                       "survey and sealed prediction: stop a unit that takes longer; of a sealed prediction 10")
          ->capture_default_str();
  command->add_option("--jobs", flags->jobs, "survey and sealed prediction: processes at a time")
      ->capture_default_str();
  command->add_flag("--retry", flags->retry, "survey: ask again what got no answer");
  command->add_flag("--prove-timeout", flags->prove_timeout,
                    "start a kernel that never ends in a process of its own, stop it, and ask the GPU again");
  command->add_option("--rehearse", flags->rehearse,
                      "survey: let the model of this target answer in place of a GPU; proves nothing");
  command
      ->add_option("--sealed", flags->sealed,
                   "ask this GPU the points of the sealed prediction, or of the file that is named: which of the known "
                   "answers it gives, and whether bitmma predicted it; less than a minute")
      ->expected(0, 1);
  command->add_option("--make-sealed", flags->make_sealed, "write the sealed prediction of this target to -o");
  command
      ->add_option("--withhold", flags->withhold,
                   "make-sealed: leave the prediction out of points whose name contains this text")
      ->needs("--make-sealed");
  command->add_option("--survey-unit", flags->survey_unit)->group("");  // of the processes of a survey
  command->add_option("--sealed-point", flags->sealed_point)->group("");
  add_threads(*command, flags->threads);
  for (const char* name :
       {"--family", "--outputs", "--units", "--unit-outputs", "--first-unit", "--save", "--max-saved", "--json"})
    flags->of_campaigns.push_back(command->get_option(name));
  command->footer(
      "Examples:\n"
      "  bitmma gpu --survey -o report.safetensors --seconds 480  # then: bitmma survey report.safetensors\n"
      "  bitmma gpu --sealed  # what was predicted about this GPU, in less than a minute\n"
      "  bitmma gpu cases.safetensors -o from_gpu.safetensors  # and compare them\n"
      "  bitmma gpu --campaign --outputs 1e9 --seed 7\n"
      "  bitmma gpu --campaign --family mma.sync --outputs 1e9 --seed 7\n"
      "  bitmma gpu --campaign --units 100 --only .sp --seconds 60\n"
      "An interrupt ends a campaign after the units that run, with its table and where to go on; a second one at "
      "once.\n"
      "Exit code 1 when the GPU and the model differ, 2 without a GPU that has the instruction, when the GPU fails, "
      "when\n"
      "nothing was compared, and after an interrupt.");
  command->callback([flags, &context] {
    if (flags->survey_unit) return run_survey_unit_command(context, *flags);
    if (flags->sealed_point) return run_sealed_point_command(sealed_flags_of(*flags), *flags->sealed_point);
    require_one_request(*flags);
    if (flags->sealed) return run_sealed_command(context, sealed_flags_of(*flags));
    if (!flags->make_sealed.empty()) {
      const Target target = naming_flag("target", "--make-sealed", [&] { return parse_target(flags->make_sealed); });
      return run_make_sealed(context, sealed_flags_of(*flags), target);
    }
    if (flags->survey) return run_survey_command(context, *flags);
    if (flags->prove_timeout) return run_prove_timeout(context, *flags);
    flags->campaign ? run_campaign_command(context, *flags) : run_files(context, *flags);
  });
}

}  // namespace bitmma::cli
