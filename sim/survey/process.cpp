// SPDX-License-Identifier: MIT
#include "process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "../core/seconds.hpp"
#include "../hardware/child.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/instruction/execute.hpp"

namespace bitmma::survey {
namespace {

using Clock = std::chrono::steady_clock;

/// The answers of a GPU of `target` if the model is right.
std::vector<State> answer_by_model(const Instruction& instruction, Target target, std::span<const State> cases) {
  std::vector<State> after(cases.begin(), cases.end());
  for (State& state : after) execute(instruction, target, state);
  return after;
}

Target known_target_of(const Gpu& gpu) {
  if (const std::optional<Target> target = target_of(gpu)) return *target;
  throw Error({.code = ViolationCode::unsupported_target,
               .field = "GPU",
               .seen = fmt::format("{} (sm_{})", gpu.name(), gpu.capability()),
               .expected = "a GPU that this version knows",
               .fix = "see bitmma list --targets; a newer bitmma may know it"});
}

/// The process's stderr output.
std::string text_of(const std::string& path) {
  constexpr size_t most = 500;
  std::ifstream file(path);
  std::string text(most, '\0');
  file.read(text.data(), static_cast<std::streamsize>(most));
  text.resize(static_cast<size_t>(file.gcount()));
  while (text.ends_with('\n')) text.pop_back();
  if (text.starts_with("error: ")) text.erase(0, 7);
  return printable(text);
}

}  // namespace

UnitDevice::UnitDevice(const SurveyDevice& device) {
  if (device.rehearse) {
    name = rehearsal_gpu;
    target = *device.rehearse;
    driver = cuda = date = "none";
    return;
  }
  gpu.emplace(device.ordinal);
  name = gpu->name();
  target = known_target_of(*gpu);
  for (const auto& [key, value] : provenance_of(*gpu)) (key == "driver" ? driver : key == "cuda" ? cuda : date) = value;
}

Executor UnitDevice::executor() const { return gpu ? gpu->executor() : answer_by_model; }

TemporaryFolder::TemporaryFolder() {
  const char* const wanted = std::getenv("TMPDIR");
  std::string name = fmt::format("{}/bitmma-survey-XXXXXX", wanted && *wanted ? wanted : "/tmp");
  if (!mkdtemp(name.data())) {
    throw Error({.code = ViolationCode::unusable_file,
                 .field = "folder for temporary files",
                 .seen = fmt::format("{}: {}", name, std::strerror(errno)),
                 .expected = "a writable folder",
                 .fix = "set TMPDIR"});
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TemporaryFolder::file(int64_t number) const {
  return (path_ / fmt::format("{}.safetensors", number)).string();
}

std::string UnitEnd::why_no_file(const std::string& error) const {
  if (!error_text.empty()) return error_text;
  return exit_code != 0 ? fmt::format("its process ended with exit code {}", exit_code)
                        : fmt::format("its process wrote no report: {}", error);
}

UnitEnd run_unit_process(const std::vector<std::string>& command, double seconds, const std::string& path) {
  const std::string errors = path + ".errors";
  const auto start = Clock::now();
  const ChildEnd ended = run_child(command, seconds, errors);
  UnitEnd unit{.exit_code = ended.exit_code, .error_text = text_of(errors)};
  unit.seconds = seconds_since(start);
  if (ended.timed_out) {
    unit.end = SurveyEnd::timed_out;
    unit.why = fmt::format("stopped after {} seconds{}", print_seconds(seconds),
                           ended.unstoppable ? "; its process did not end" : "");
  } else if (ended.signal != 0) {
    unit.end = SurveyEnd::crashed;
    unit.why = fmt::format("its process ended by signal {} ({})", ended.signal, strsignal(ended.signal));
  }
  return unit;
}

}  // namespace bitmma::survey
