// SPDX-License-Identifier: MIT
// Runs a sealed prediction on a GPU: every point in its own process, as in a survey.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "../../core/seconds.hpp"
#include "../process.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/survey/sealed.hpp"

namespace bitmma {
namespace {

using namespace survey;
using Clock = std::chrono::steady_clock;

Answered<SealedAnswers> ask(const SealedOptions& options, const std::string& point, const std::string& path) {
  return ask_process(options, point, path, read_sealed_answers);
}

SealedAnswers ask_who(const SealedOptions& options) {
  const TemporaryFolder folder;
  Answered<SealedAnswers> who = ask(options, "", folder.file(0));
  if (who.written) return std::move(*who.written);
  throw Error({.code = ViolationCode::no_gpu,
               .field = "sealed prediction",
               .seen = who.why,
               .fix = "use --rehearse TARGET to run without a GPU"});
}

}  // namespace

SealedAnswers run_sealed_point(std::string_view point, const std::string& path, const SurveyDevice& asked_device) {
  const UnitDevice device(asked_device);
  SealedAnswers answers{.gpu = device.name,
                        .driver = device.driver,
                        .cuda = device.cuda,
                        .date = device.date,
                        .version = version(),
                        .target = device.target};
  if (point.empty()) return answers;
  const SealedFile asked = path.empty() ? built_in_sealed(answers.target) : read_sealed_file(path);
  if (asked.target != answers.target)
    throw Error({.field = "GPU",
                 .seen = fmt::format("{} ({})", answers.gpu, print(answers.target)),
                 .expected = std::string(print(asked.target))});
  const auto found = std::ranges::find(asked.points, point, &SealedPoint::name);
  if (found == asked.points.end())
    throw Error({.field = "point", .seen = shortened(printable(point)), .expected = "a point of the file"});
  answers.sha256 = asked.sha256;
  answers.records.push_back(ask_sealed_point(*found, answers.target, device.executor()));
  return answers;
}

SealedRun run_sealed(const SealedOptions& options, const std::function<void(int64_t done, int64_t points)>& progress) {
  std::optional<SealedFile> given;
  if (!options.path.empty()) given = read_sealed_file(options.path);  // reject a bad file before looking for a GPU
  SealedAnswers who = ask_who(options);
  SealedFile file = given ? std::move(*given) : built_in_sealed(who.target);
  if (file.target != who.target)
    throw Error({.field = "GPU",
                 .seen = fmt::format("{} ({})", who.gpu, print(who.target)),
                 .expected = fmt::format("{}: the prediction is for that target", print(file.target))});
  const auto start = Clock::now();
  const TemporaryFolder folder;
  std::vector<std::optional<SealedRecord>> records(file.points.size());
  std::mutex mutex;
  int64_t done = 0;
  parallel_for(file.points.size(), options.jobs, [&](size_t i) {
    if (seconds_since(start) > options.seconds || (options.stop && options.stop())) return;
    const SealedPoint& point = file.points[i];
    Answered<SealedAnswers> answered = ask(options, point.name, folder.file(static_cast<int64_t>(i)));
    SealedRecord record{.point = point.name,
                        .end = answered.end,
                        .message = shortened(printable(answered.why), 2000),
                        .seconds = answered.seconds};
    if (answered.written && answered.written->records.size() == 1 && answered.written->sha256 == file.sha256 &&
        answered.written->gpu == who.gpu) {
      record = std::move(answered.written->records[0]);
    } else if (answered.written) {
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
  who.seconds = seconds_since(start);
  return {std::move(file), std::move(who)};
}

}  // namespace bitmma
