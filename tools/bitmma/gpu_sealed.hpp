// bitmma gpu --sealed and --make-sealed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bitmma/hardware/sealed.hpp"
#include "commands.hpp"

namespace bitmma::cli {

struct SealedFlags {
  std::string path = {};  // of the prediction; empty: the one that is built in for the GPU
  std::string out = {};   // of the answers, or of the file that is made
  std::string withhold = {};
  SurveyDevice device = {};
  double unit_seconds = 10;
  int jobs = 4, threads = 1;
  bool json = false;
  /// This program again, for one point.
  std::vector<std::string> command = {};
};

/// Asks the GPU all points and prints what it answered.
void run_sealed_command(Context& context, const SealedFlags& flags);
/// One point, in the process that was made for it.
void run_sealed_point_command(const SealedFlags& flags, const std::string& point);
/// Writes the prediction for a target.
void run_make_sealed(Context& context, const SealedFlags& flags, Target target);

}  // namespace bitmma::cli
