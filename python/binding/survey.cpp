// SPDX-License-Identifier: MIT
// Surveys of GPUs: runs them in processes of Python's own interpreter, and reads them.
#include "bitmma/survey/survey.hpp"

#include <atomic>
#include <thread>

#include "binding.hpp"
#include "bitmma/core/target_names.hpp"

namespace bitmma::python {
namespace {

using nb::literals::operator""_a;

nb::object read_survey_file(const std::string& path, bool search, int threads) {
  Report found;
  std::string news;
  {
    const Unlocked unlocked;
    ReadSurvey survey{.path = path, .report = read_survey(read_tensor_file(path))};
    survey.findings = findings_of(survey.report, search, threads);
    news = bitmma::print(confirmed_by(survey.report, survey.findings));
    found = describe(std::vector{survey})[0];
  }
  nb::object said = from_report(found);
  said["confirmed"] = from_json(news);
  return said;
}

void run_units(const std::string& path, const std::vector<std::string>& command, uint64_t seed, double seconds,
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
  // Ctrl-C stops the survey after the running units and still gives a report: Python's main thread checks for it.
  options.stop = [&] {
    if (std::this_thread::get_id() != caller || interrupted) return interrupted.load();
    const nb::gil_scoped_acquire acquire;
    interrupted = PyErr_CheckSignals() != 0;
    if (interrupted) PyErr_Clear();
    return interrupted.load();
  };
  static_cast<void>(run_survey(options, seed, [&](const SurveyProgress& now) {
    const nb::gil_scoped_acquire acquire;
    if (!progress.is_none()) progress(now.done, now.units);
  }));
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
  const Unlocked unlocked;
  write_tensor_file(path, to_file(run_survey_unit(unit, asked)));
}

}  // namespace

void bind_survey(nb::module_& module) {
  module.def("run_survey", run_units, "path"_a, "command"_a, "seed"_a, "seconds"_a, "unit_seconds"_a, "jobs"_a,
             "only"_a, "retry"_a, "progress"_a.none());
  module.def("end_with_survey", end_with_survey);
  module.def("run_survey_unit", run_unit, "unit"_a, "path"_a, "seed"_a, "device"_a, "rehearse"_a.none());
  module.def("read_survey", read_survey_file, "path"_a, "search"_a, "threads"_a);
}

}  // namespace bitmma::python
