// A sealed prediction on a GPU: every point in a process of its own, as in a survey.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "../process.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/survey/sealed.hpp"

namespace bitmma {
namespace {

using namespace survey;
using Clock = std::chrono::steady_clock;

struct Answered {
  std::optional<SealedAnswers> answers = {};
  UnitEnd end = {};
  std::string why = {};
};

Answered ask(const SealedOptions& options, const std::string& point, const std::string& path) {
  std::vector<std::string> command = options.command;
  command.insert(command.end(), {point, "-o", path});
  Answered answered{.end = run_unit_process(command, options.unit_seconds, path)};
  answered.why = answered.end.why;
  if (answered.end.end != SurveyEnd::answered) return answered;
  try {
    answered.answers = read_sealed_answers(read_tensor_file(path));
  } catch (const Error& error) {
    answered.end.end = SurveyEnd::failed;
    answered.why = answered.end.why_no_file(error.what());
  }
  return answered;
}

}  // namespace

SealedAnswers run_sealed_point(std::string_view point, const std::optional<SealedFile>& file,
                               const SurveyDevice& asked_device) {
  const UnitDevice device(asked_device);
  SealedAnswers answers{.gpu = device.name,
                        .driver = device.driver,
                        .cuda = device.cuda,
                        .date = device.date,
                        .version = version(),
                        .target = device.target};
  if (point.empty()) return answers;
  const SealedFile built_in = file ? SealedFile{} : read_sealed(sealed_text(answers.target));
  const SealedFile& asked = file ? *file : built_in;
  if (asked.target != answers.target)
    throw Error({.field = "GPU",
                 .seen = fmt::format("{} ({})", answers.gpu, print(answers.target)),
                 .expected = std::string(print(asked.target))});
  const auto found = std::ranges::find(asked.points, point, &SealedPoint::name);
  if (found == asked.points.end())
    throw Error({.field = "point", .seen = shortened(printable(point)), .expected = "one of the file"});
  answers.sha256 = asked.sha256;
  answers.records.push_back(ask_sealed_point(*found, answers.target, device.executor()));
  return answers;
}

SealedAnswers ask_who(const SealedOptions& options) {
  const TemporaryFolder folder;
  Answered who = ask(options, "", folder.file(0));
  if (who.answers) return std::move(*who.answers);
  throw Error({.field = "sealed prediction",
               .seen = who.why,
               .expected = "a GPU that says who it is",
               .fix = "--rehearse TARGET needs none"});
}

SealedAnswers run_sealed(const SealedFile& file, SealedAnswers who, const SealedOptions& options,
                         const std::function<void(int64_t done, int64_t points)>& progress) {
  if (file.target != who.target)
    throw Error({.field = "GPU",
                 .seen = fmt::format("{} ({})", who.gpu, print(who.target)),
                 .expected = fmt::format("{}: the file is about it", print(file.target))});
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const TemporaryFolder folder;
  std::vector<std::optional<SealedRecord>> records(file.points.size());
  std::mutex mutex;
  int64_t done = 0;
  parallel_for(file.points.size(), options.jobs, [&](size_t i) {
    if (seconds() > options.seconds || (options.stop && options.stop())) return;
    const SealedPoint& point = file.points[i];
    Answered answered = ask(options, point.name, folder.file(static_cast<int64_t>(i)));
    SealedRecord record{.point = point.name,
                        .end = answered.end.end,
                        .message = shortened(printable(answered.why), 2000),
                        .seconds = answered.end.seconds};
    if (answered.answers && answered.answers->records.size() == 1 && answered.answers->sha256 == file.sha256 &&
        answered.answers->gpu == who.gpu) {
      record = std::move(answered.answers->records[0]);
    } else if (answered.answers) {
      record.end = SurveyEnd::failed;
      record.message = "its process answered for another file or GPU";
    }
    const std::lock_guard lock(mutex);
    records[i] = std::move(record);
    if (progress) progress(++done, static_cast<int64_t>(file.points.size()));
  });
  for (std::optional<SealedRecord>& record : records) {
    if (record) who.records.push_back(std::move(*record));
  }
  who.sha256 = file.sha256;
  who.seconds = seconds();
  return who;
}

}  // namespace bitmma
