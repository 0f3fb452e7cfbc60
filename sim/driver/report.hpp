// SPDX-License-Identifier: MIT
// What a process did on the simulated GPU: kernels and launches, faults, warnings, what is uncertain, calls that bitmma
// does not have. Printed on stderr when the process ends, and written as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/core/error.hpp"

namespace bitmma::driver {

struct Settings;

class Report {
 public:
  struct Kernel {
    uint64_t launches = 0, thread_instructions = 0;
    int64_t nanoseconds = 0;
  };

  explicit Report(const Settings& settings) : settings_(settings) {}

  /// Prints a line on stderr.
  static void print(std::string_view text);
  /// Prints it unless it was printed before.
  void print_once(const std::string& text);

  void add_launch(const std::string& kernel, uint64_t thread_instructions, int64_t nanoseconds);
  /// A fault of a kernel, or a kernel that bitmma does not run; `result`: what the program gets. Printed at once.
  void add_fault(const std::string& kernel, const std::vector<Violation>& violations, int result);
  void add_warning(const std::string& kernel, const Violation& warning);
  void add_uncertainty(const std::string& kernel, const Violation& warning);
  void add_refused_call(const std::string& symbol);
  /// Whether a kernel was launched, or had a fault.
  bool has_launches() const { return !kernels_.empty() || !faults_.empty(); }

  /// The report so far, as --json has it at the end.
  std::string json(std::string_view gpu) const;
  /// At the end of the process: the JSON file and the summary.
  void finish(std::string_view gpu) const;

 private:
  struct Fault {
    std::string kernel = {}, text = {}, code = {};
    int result = 0;
  };
  std::string summary(std::string_view gpu) const;

  const Settings& settings_;
  std::map<std::string, Kernel> kernels_ = {};
  std::vector<Fault> faults_ = {};
  std::map<std::pair<std::string, std::string>, uint64_t> warnings_ = {}, uncertain_ = {};  // by kernel and text
  std::map<std::string, uint64_t> refused_ = {}, printed_ = {};
};

}  // namespace bitmma::driver
