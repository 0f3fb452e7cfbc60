// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "../core/seconds.hpp"
#include "../instruction/family.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/survey/survey.hpp"
#include "process.hpp"

namespace bitmma {
namespace {

using namespace survey;
using Clock = std::chrono::steady_clock;

constexpr double seconds_between_writes = 5;
constexpr int most_stopped_in_a_row = 4;  // a single form may hang; a GPU that stops everything needs its owner

using AnsweredUnit = Answered<SurveyReport>;

AnsweredUnit ask(const SurveyOptions& options, const std::string& unit, const std::string& path) {
  return ask_process(options, unit, path, read_survey);
}

void require_same_survey(const SurveyReport& there, const SurveyReport& now, const std::string& path) {
  const auto check = [&](const char* what, const std::string& seen, const std::string& expected) {
    if (seen == expected) return;
    throw Error({.field = fmt::format("{}: {}", path, what),
                 .seen = seen,
                 .expected = expected,
                 .fix = "a survey can be resumed only with the same GPU, seed and version; use another file"});
  };
  check("GPU", there.gpu, now.gpu);
  check("target", std::string(print(there.target)), std::string(print(now.target)));
  check("driver", there.driver, now.driver);
  check("bitmma", there.version, now.version);
  check("seed", std::to_string(there.seed), std::to_string(now.seed));
}

SurveyReport begin_or_go_on(const SurveyOptions& options, const SurveyReport& now) {
  std::error_code error;
  if (!std::filesystem::exists(options.path, error)) return now;
  if (!std::filesystem::is_regular_file(options.path, error)) {
    throw Error({.field = options.path, .seen = "not a regular file", .expected = "a new file, or a report to resume"});
  }
  if (std::filesystem::file_size(options.path, error) == 0) return now;
  SurveyReport there = read_survey(read_tensor_file(options.path));
  require_same_survey(there, now, options.path);
  if (options.retry)
    std::erase_if(there.records, [&](const SurveyRecord& record) {
      return record.end != SurveyEnd::answered && record.unit.find(options.only) != std::string::npos;
    });
  return there;
}

constexpr double most_unit_seconds = 1e9;

void require_valid(const SurveyOptions& options) {
  std::vector<Violation> wrong;
  const auto check = [&](bool right, const char* field, std::string seen, std::string expected) {
    if (!right) wrong.push_back({.field = field, .seen = std::move(seen), .expected = std::move(expected)});
  };
  check(!options.path.empty(), "path", "(empty)", "a file for the report");
  check(options.seconds >= 0 && options.seconds <= most_unit_seconds, "seconds", fmt::format("{}", options.seconds),
        "0..1e9, where 0 means no limit");
  check(options.unit_seconds > 0 && options.unit_seconds <= most_unit_seconds, "unit_seconds",
        fmt::format("{}", options.unit_seconds), "more than 0, up to 1e9");
  check(options.jobs >= 1 && options.jobs <= 256, "jobs", std::to_string(options.jobs), "1..256");
  if (!wrong.empty()) throw Error(std::move(wrong));
}

/// Units that are likely to hang together: "tcgen05", "tcgen05 of pairs", "mma".
std::string kind_of(const SurveyUnit& unit) {
  const std::string mnemonic = print(unit.instruction);
  const bool is_pair = family::dispatch(
      [](const auto& alternative) {
        if constexpr (requires { alternative.cta_group; }) return alternative.cta_group == 2;
        else return false;
      },
      unit.instruction);
  return mnemonic.substr(0, mnemonic.find('.')) + (is_pair ? " of pairs" : "");
}

/// A running survey: the units, their results, and the time of the next write.
class Session {
 public:
  Session(const SurveyOptions& options, SurveyReport report, const std::function<void(const SurveyProgress&)>& progress)
      : options_(options), report_(std::move(report)), progress_(progress), seconds_before_(report_.seconds) {
    const std::vector<SurveyUnit> units = survey_units(report_.target);
    report_.units = static_cast<int64_t>(units.size());
    for (const SurveyUnit& unit : units) {
      if (unit.name.find(options.only) == std::string::npos) continue;
      ++wanted_;
      if (report_.find(unit.name)) ++state_.done;
      else wanted_units_.push_back({unit.name, kind_of(unit)});
    }
    if (wanted_ == 0) {
      throw Error({.code = ViolationCode::unknown_name,
                   .field = "only",
                   .seen = options.only,
                   .expected = fmt::format("text that occurs in the name of a unit: {} has {} units",
                                           print(report_.target), units.size()),
                   .fix = fmt::format("such as \"{}\"", units.front().name)});
    }
    state_.units = wanted_;
  }

  SurveyReport run() {
    write();  // report an unwritable file before anything runs
    parallel_for(static_cast<size_t>(options_.jobs), options_.jobs, [&](size_t) {
      try {
        while (const std::optional<Wanted> next = take()) add(*next, ask(options_, next->name, new_file()));
      } catch (...) {  // the other threads finish their current units, and all results are kept
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
    });
    write();
    if (failure_) std::rethrow_exception(failure_);
    if (is_dead_) {
      throw Error({.code = ViolationCode::gpu_failed,
                   .field = "GPU",
                   .seen = fmt::format("{} units in a row were stopped after {} seconds", stopped_in_a_row_,
                                       print_seconds(options_.unit_seconds)),
                   .expected = "a GPU that responds",
                   .fix = fmt::format("{} contains the results so far; when the GPU responds again, repeat the command "
                                      "to resume, or use --only TEXT for other units",
                                      options_.path)});
    }
    return report_;
  }

 private:
  struct Wanted {
    std::string name = {}, kind = {};
  };

  double seconds() const { return seconds_since(start_); }
  std::string new_file() { return folder_.file(files_++); }

  std::optional<Wanted> take() {
    const std::lock_guard lock(mutex_);
    if (stopped_in_a_row_ >= most_stopped_in_a_row && !is_dead_) put_off_what_hangs();
    const bool too_late = options_.seconds > 0 && seconds() > options_.seconds;
    if (failure_ || next_ == wanted_units_.size() || too_late || is_dead_ || (options_.stop && options_.stop()))
      return std::nullopt;
    return wanted_units_[next_++];
  }

  /// If the GPU still responds, the instruction kind is at fault: the session runs other kinds first, and retries this
  /// one once at the end.
  void put_off_what_hangs() {
    const bool answers = ask(options_, "", new_file()).written.has_value();
    is_dead_ = !answers || !put_off_.insert(stopped_kind_).second;
    if (is_dead_) return;
    stopped_in_a_row_ = 0;
    std::stable_partition(wanted_units_.begin() + static_cast<std::ptrdiff_t>(next_), wanted_units_.end(),
                          [&](const Wanted& wanted) { return wanted.kind != stopped_kind_; });
  }

  void add(const Wanted& unit, AnsweredUnit answered) {
    const std::lock_guard lock(mutex_);
    SurveyRecord record{
        .unit = unit.name, .end = answered.end, .message = shortened(answered.why, 2000), .seconds = answered.seconds};
    if (answered.written && answered.written->records.size() == 1) {
      require_same_survey(report_, *answered.written, options_.path);
      record = std::move(answered.written->records[0]);
    } else if (answered.written) {
      record.end = SurveyEnd::failed;
      record.message = "its process wrote no record";
    }
    stopped_in_a_row_ = record.end == SurveyEnd::timed_out ? stopped_in_a_row_ + 1 : 0;
    stopped_kind_ = unit.kind;
    ++state_.done;
    state_.unanswered += record.end == SurveyEnd::answered ? 0 : 1;
    state_.mismatches += record.random_mismatches;
    state_.last = unit.name;
    report_.records.push_back(std::move(record));
    if (progress_) progress_(state_);
    if (seconds_since(written_) > seconds_between_writes) write();
  }

  void write() {
    written_ = Clock::now();
    report_.seconds = in_ieee_environment([&] { return seconds_before_ + seconds(); });
    write_tensor_file(options_.path, to_file(report_));
  }

  const SurveyOptions& options_;
  SurveyReport report_;
  const std::function<void(const SurveyProgress&)>& progress_;
  double seconds_before_;
  TemporaryFolder folder_;
  Clock::time_point start_ = Clock::now();
  std::atomic<int64_t> files_ = 0;
  int64_t wanted_ = 0;
  // Guarded by the mutex.
  std::mutex mutex_;
  std::vector<Wanted> wanted_units_ = {};
  size_t next_ = 0;
  int stopped_in_a_row_ = 0;
  std::string stopped_kind_ = {};       // kind of the unit that ended last
  std::set<std::string> put_off_ = {};  // kinds that were deferred
  bool is_dead_ = false;
  std::exception_ptr failure_ = {};
  Clock::time_point written_ = {};
  SurveyProgress state_ = {};
};

}  // namespace

void end_with_survey() {
  std::thread([survey = getppid()] {
    while (getppid() == survey) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(getpid(), SIGKILL);
  }).detach();
}

SurveyReport run_survey_unit(std::string_view name, const SurveyDevice& requested, const SurveyEffort& effort) {
  const UnitDevice device(requested);
  const std::vector<SurveyUnit> units = survey_units(device.target);
  SurveyReport report{.gpu = device.name,
                      .target = device.target,
                      .driver = device.driver,
                      .cuda = device.cuda,
                      .date = device.date,
                      .version = version(),
                      .seed = requested.seed,
                      .units = static_cast<int64_t>(units.size())};
  if (name.empty()) return report;
  const auto unit = std::ranges::find(units, name, &SurveyUnit::name);
  if (unit == units.end()) {
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "unit",
                 .seen = shortened(printable(name)),
                 .expected = fmt::format("one of the {} units that {} has", units.size(), print(report.target))});
  }
  report.records.push_back(survey_unit(*unit, requested.seed, device.executor(), effort));
  report.seconds = report.records[0].seconds;
  return report;
}

SurveyReport run_survey(const SurveyOptions& options, uint64_t seed,
                        const std::function<void(const SurveyProgress&)>& progress) {
  require_valid(options);
  const TemporaryFolder folder;
  AnsweredUnit who = ask(options, "", folder.file(0));
  if (!who.written)
    throw Error({.code = ViolationCode::no_gpu,
                 .field = "survey",
                 .seen = who.why,
                 .fix = "use --rehearse TARGET to run without a GPU"});
  if (who.written->seed != seed)
    throw Error({.code = ViolationCode::contradiction,
                 .field = "seed",
                 .seen = std::to_string(who.written->seed),
                 .expected = std::to_string(seed)});
  Session session(options, begin_or_go_on(options, *who.written), progress);
  return session.run();
}

}  // namespace bitmma
