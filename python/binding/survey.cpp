// Surveys of GPUs: run in processes of Python's own interpreter, and read.
#include "bitmma/hardware/survey.hpp"

#include <atomic>
#include <thread>

#include "binding.hpp"

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
  Surveyed news;
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
  said["patch"] = patch_of(news);
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
      .ordinal = device, .rehearse = rehearse ? std::optional(parse_target(*rehearse)) : std::nullopt, .seed = seed};
  const nb::gil_scoped_release release;
  write_tensor_file(path, to_file(run_survey_unit(unit, asked)));
}

}  // namespace

void bind_survey(nb::module_& module) {
  module.def("check_target", [](std::string_view name) { static_cast<void>(parse_target(name)); });
  module.def("run_survey", run, "path"_a, "command"_a, "seed"_a, "seconds"_a, "unit_seconds"_a, "jobs"_a, "only"_a,
             "retry"_a, "progress"_a.none());
  module.def("end_with_survey", end_with_survey);
  module.def("run_survey_unit", run_unit, "unit"_a, "path"_a, "seed"_a, "device"_a, "rehearse"_a.none());
  module.def("read_survey", read_survey_file, "path"_a, "search"_a, "threads"_a);
}

}  // namespace bitmma::python
