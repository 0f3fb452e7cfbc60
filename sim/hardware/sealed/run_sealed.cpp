// A sealed prediction on a GPU: every point in a process of its own, as in a survey.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "../survey/process.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "bitmma/hardware/sealed.hpp"
#include "bitmma/instruction/execute.hpp"

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

/// What the model of the target leaves.
std::vector<State> answer_by_model(const Instruction& instruction, Target target, std::span<const State> cases) {
  std::vector<State> after(cases.begin(), cases.end());
  for (State& state : after) execute(instruction, target, state);
  return after;
}

Target target_of_gpu(const Gpu& gpu) {
  if (const std::optional<Target> target = target_of(gpu)) return *target;
  throw Error({.field = "GPU",
               .seen = fmt::format("{} (sm_{})", gpu.name(), gpu.capability()),
               .expected = "a GPU that this version knows"});
}

}  // namespace

SealedAnswers run_sealed_point(std::string_view point, const std::optional<SealedFile>& file,
                               const SurveyDevice& device) {
  SealedAnswers answers{.version = version()};
  std::optional<Gpu> gpu;
  if (device.rehearse) {
    answers.gpu = std::string(rehearsal_gpu);
    answers.target = *device.rehearse;
    answers.driver = answers.cuda = answers.date = "none";
  } else {
    gpu.emplace(device.ordinal);
    answers.gpu = gpu->name();
    answers.target = target_of_gpu(*gpu);
    for (const auto& [key, value] : provenance_of(*gpu))
      (key == "driver" ? answers.driver : key == "cuda" ? answers.cuda : answers.date) = value;
  }
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
  answers.records.push_back(ask_sealed_point(*found, answers.target, gpu ? gpu->executor() : answer_by_model));
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
