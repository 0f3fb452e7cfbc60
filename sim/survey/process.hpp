// The process of one unit: what it wrote, or why it wrote nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/survey/survey.hpp"

namespace bitmma::survey {

/// A folder that goes away with its files.
class TemporaryFolder {
 public:
  /// Throws Error where none can be made.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(int64_t number) const;

 private:
  std::filesystem::path path_;
};

/// What a unit is asked on: a GPU, or the model in its place.
struct UnitDevice {
  std::optional<Gpu> gpu = {};  // nothing: a rehearsal
  std::string name = {}, driver = {}, cuda = {}, date = {};
  Target target = Target::sm_90a;

  /// Throws Error without a GPU that this version knows.
  explicit UnitDevice(const SurveyDevice& device);
  Executor executor() const;
};

/// How the process of a unit ended.
struct UnitEnd {
  SurveyEnd end = SurveyEnd::answered;  // answered: it ended by itself. Whether its file is there is another question
  bool unstoppable = false;
  int exit_code = 0;
  std::string why = {};   // of a process that did not end by itself
  std::string said = {};  // on stderr
  double seconds = 0;

  /// What to say of a process whose file cannot be read.
  std::string why_no_file(const std::string& error) const;
};

/// Runs `command`, which writes the file `path`, and stops it after `seconds`.
UnitEnd run_unit_process(const std::vector<std::string>& command, double seconds, const std::string& path);

}  // namespace bitmma::survey
