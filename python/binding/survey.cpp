// Surveys of GPUs: run in processes of Python's own interpreter, and read.
#include "bitmma/survey/survey.hpp"

#include <atomic>
#include <thread>

#include "binding.hpp"
#include "bitmma/core/target_names.hpp"
#include "bitmma/survey/sealed.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

nb::dict finding_dict(const SurveyFinding& one, Target target) {
  nb::dict said;
  said["unit"] = one.unit;
  said["asked"] = bitmma::print(one.ask);
  said["verdict"] = bitmma::print(one.verdict);
  said["found"] = one.found;
  said["details"] = one.details;
  said["outputs"] = one.outputs;
  said["mismatches"] = one.mismatches;
  said["evidence_before"] = bitmma::print(one.evidence, target);
  said["choice"] = one.choice;
  return said;
}

nb::dict read_survey_file(const std::string& path, bool search, int threads) {
  SurveyReport report;
  std::vector<SurveyFinding> findings;
  Confirmed news;
  {
    const nb::gil_scoped_release release;
    report = read_survey(read_tensor_file(path));
    findings = findings_of(report, search, threads);
    news = confirmed_by(report, findings);
  }
  nb::dict said;
  said["gpu"] = report.gpu;
  said["target"] = bitmma::print(report.target);
  said["driver"] = report.driver;
  said["cuda"] = report.cuda;
  said["date"] = report.date;
  said["seed"] = report.seed;
  said["seconds"] = report.seconds;
  said["rehearsal"] = report.is_rehearsal();
  said["confirmed"] = bitmma::print(news);
  nb::list list;
  for (const SurveyFinding& one : findings) list.append(finding_dict(one, report.target));
  said["findings"] = list;
  return said;
}

void run(const std::string& path, const std::vector<std::string>& command, uint64_t seed, double seconds,
         double unit_seconds, int jobs, const std::string& only, bool retry, nb::object progress) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> interrupted = false;
  const nb::gil_scoped_release release;
  SurveyOptions options{.path = path,
                        .seconds = seconds,
                        .unit_seconds = unit_seconds,
                        .jobs = jobs,
                        .only = only,
                        .retry = retry,
                        .command = command};
  // Ctrl-C ends it after the units that run, with a report: Python's main thread looks now and then.
  options.stop = [&] {
    if (std::this_thread::get_id() != caller || interrupted) return interrupted.load();
    const nb::gil_scoped_acquire acquire;
    interrupted = PyErr_CheckSignals() != 0;
    if (interrupted) PyErr_Clear();
    return interrupted.load();
  };
  run_survey(options, seed, [&](const SurveyProgress& now) {
    const nb::gil_scoped_acquire acquire;
    if (!progress.is_none()) progress(now.done, now.units);
  });
  const nb::gil_scoped_acquire acquire;
  progress = nb::none();
  if (interrupted) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw nb::python_error();
  }
}

void run_unit(const std::string& unit, const std::string& path, uint64_t seed, int device,
              std::optional<std::string_view> rehearse) {
  const SurveyDevice asked{
      .ordinal = device, .rehearse = rehearse ? std::optional(target_from(*rehearse)) : std::nullopt, .seed = seed};
  const nb::gil_scoped_release release;
  write_tensor_file(path, to_file(run_survey_unit(unit, asked)));
}

std::optional<SealedFile> sealed_file_of(std::optional<std::string_view> text) {
  return text ? std::optional(read_sealed(*text)) : std::nullopt;
}

nb::dict run_sealed_prediction(std::optional<std::string_view> text, const std::vector<std::string>& command,
                               double unit_seconds, int jobs, const std::string& out) {
  SealedFile file;
  SealedAnswers answers;
  {
    const nb::gil_scoped_release release;
    const SealedOptions options{.unit_seconds = unit_seconds, .jobs = jobs, .command = command};
    const std::optional<SealedFile> given = sealed_file_of(text);
    SealedAnswers who = ask_who(options);
    file = given ? *given : read_sealed(sealed_text(who.target));
    answers = run_sealed(file, std::move(who), options);
    if (!out.empty()) write_tensor_file(out, to_file(answers));
  }
  nb::dict said;
  said["gpu"] = answers.gpu;
  said["target"] = bitmma::print(answers.target);
  said["driver"] = answers.driver;
  said["cuda"] = answers.cuda;
  said["date"] = answers.date;
  said["seconds"] = answers.seconds;
  said["rehearsal"] = answers.gpu == rehearsal_gpu;
  said["sha256"] = file.sha256;
  nb::list list;
  for (const SealedPoint& point : file.points) {
    const SealedRecord* const record = answers.find(point.name);
    const SealedFinding one =
        finding_of(point, record ? *record : SealedRecord{.end = SurveyEnd::failed, .message = "not asked in time"});
    nb::dict finding;
    finding["point"] = one.point;
    finding["instruction"] = point.instruction;
    finding["verdict"] = bitmma::print(one.verdict);
    finding["found"] = one.found;
    finding["predicted"] = point.predicted;
    finding["nearest"] = one.nearest;
    finding["cases"] = one.cases;
    finding["deciding"] = one.deciding;
    list.append(finding);
  }
  said["findings"] = list;
  return said;
}

void run_sealed_unit(const std::string& point, const std::string& path, std::optional<std::string_view> text,
                     int device, std::optional<std::string_view> rehearse) {
  const SurveyDevice asked{.ordinal = device,
                           .rehearse = rehearse ? std::optional(target_from(*rehearse)) : std::nullopt};
  const nb::gil_scoped_release release;
  write_tensor_file(path, to_file(run_sealed_point(point, sealed_file_of(text), asked)));
}

}  // namespace

void bind_survey(nb::module_& module) {
  module.def("run_survey", run, "path"_a, "command"_a, "seed"_a, "seconds"_a, "unit_seconds"_a, "jobs"_a, "only"_a,
             "retry"_a, "progress"_a.none());
  module.def("end_with_survey", end_with_survey);
  module.def("run_survey_unit", run_unit, "unit"_a, "path"_a, "seed"_a, "device"_a, "rehearse"_a.none());
  module.def("run_sealed", run_sealed_prediction, "text"_a.none(), "command"_a, "unit_seconds"_a, "jobs"_a, "out"_a);
  module.def("run_sealed_point", run_sealed_unit, "point"_a, "path"_a, "text"_a.none(), "device"_a,
             "rehearse"_a.none());
  module.def("read_survey", read_survey_file, "path"_a, "search"_a, "threads"_a);
}

}  // namespace bitmma::python
