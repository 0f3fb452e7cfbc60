// SPDX-License-Identifier: MIT
// What verbs of instructions do with products and kernels: the files of acts, or without_acts.cpp where component acts
// is not built.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "bitmma/analysis/report.hpp"
#include "bitmma/files/tensor_file.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {

/// `decode`: an instruction of kernels that is no matrix instruction, as a list of one object. Nothing for other texts.
std::optional<Report> describe_kernel_instruction(std::string_view text, std::optional<Target> target);

/// `list recipes`: those that `is_wanted` takes, by their name and other words.
Report list_recipes(
    const std::function<bool(std::string_view name, const std::set<std::string_view>& words)>& is_wanted);

/// `compare`, for registers of a thread as `run --trace --trace-to` writes them.
void compare_traces(Context& context, const std::string& expected, const std::string& actual, bool json);

/// `explain`, for a whole product.
class ExplainedProduct {
 public:
  ExplainedProduct();
  ~ExplainedProduct();
  void add(Command& command);
  /// True if a flag asks for a product.
  bool is_asked() const;
  void explain(Context& context, const std::string& path, const TargetFlag& target, int row, int col, bool json) const;

 private:
  struct Flags;
  std::unique_ptr<Flags> flags_;
};

/// `diagnose`, for a whole product.
class DiagnosedProduct {
 public:
  DiagnosedProduct();
  ~DiagnosedProduct();
  void add(Command& command);
  /// True if a flag asks for a product, or if the file has matrices and no instruction.
  bool is_asked(const TensorFile& file) const;
  /// `actual`: a file with D alone, or nullptr.
  void diagnose(Context& context, TensorFile file, const TensorFile* actual, const TargetFlag& target, bool list,
                bool json) const;

 private:
  struct Flags;
  std::unique_ptr<Flags> flags_;
};

/// `verify`, for launches of kernels.
class VerifiedLaunches {
 public:
  VerifiedLaunches();
  ~VerifiedLaunches();
  void add(Command& command);
  /// Keeps the launches of a file; false if it has none.
  bool take(TensorFile& file);
  int64_t count() const;
  /// Runs the launches again, `done` units of the progress after others, and adds the results to the report. Returns an
  /// exit code.
  int verify(int threads, ProgressLine& progress, int64_t done, Report& report) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitmma::cli
