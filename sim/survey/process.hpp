// SPDX-License-Identifier: MIT
// Runs one unit in a process and returns its output, or the reason why there is none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/survey/survey.hpp"

namespace bitmma::survey {

/// A folder that is removed with its files on destruction.
class TemporaryFolder {
 public:
  /// Throws Error if the folder cannot be created.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(int64_t number) const;

 private:
  std::filesystem::path path_;
};

/// The device that answers a unit: a GPU, or the model in a rehearsal.
struct UnitDevice {
  std::optional<Gpu> gpu = {};  // nothing: a rehearsal
  std::string name = {}, driver = {}, cuda = {}, date = {};
  Target target = Target::sm_90a;

  /// Throws Error if there is no GPU that this version knows.
  explicit UnitDevice(const SurveyDevice& device);
  Executor executor() const;
};

/// How a unit's process ended.
struct UnitEnd {
  SurveyEnd end = SurveyEnd::answered;  // answered: it exited by itself. It may still have written no file
  int exit_code = 0;
  std::string why = {};         // set if the process did not exit by itself
  std::string error_text = {};  // its stderr output
  double seconds = 0;

  /// The message for a process whose file cannot be read.
  std::string why_no_file(const std::string& error) const;
};

/// Runs `command`, which writes the file `path`, and stops it after `seconds`.
UnitEnd run_unit_process(const std::vector<std::string>& command, double seconds, const std::string& path);

/// The output of a unit's process, or the reason why there is none.
template <typename Written>
struct Answered {
  std::optional<Written> written = {};
  SurveyEnd end = SurveyEnd::answered;
  std::string why = {};
  double seconds = 0;
};

/// Runs the command of `options` for `unit`; it writes `path`. `read` parses the file, which is then removed.
template <typename Options, typename Written>
Answered<Written> ask_process(const Options& options, const std::string& unit, const std::string& path,
                              Written (*read)(const TensorFile&)) {
  std::vector<std::string> command = options.command;
  command.insert(command.end(), {unit, "-o", path});
  UnitEnd ended = run_unit_process(command, options.unit_seconds, path);
  Answered<Written> answered{.end = ended.end, .why = std::move(ended.why), .seconds = ended.seconds};
  if (answered.end != SurveyEnd::answered) return answered;
  try {
    answered.written = read(read_tensor_file(path));
  } catch (const Error& error) {
    answered.end = SurveyEnd::failed;
    answered.why = ended.why_no_file(error.what());
  }
  std::error_code error;
  std::filesystem::remove(path, error);
  return answered;
}

}  // namespace bitmma::survey
