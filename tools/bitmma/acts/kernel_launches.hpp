// SPDX-License-Identifier: MIT
// Several launches of a module over one memory: bitmma run --launches.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bitmma/acts/launch_file.hpp"
#include "bitmma/core/target.hpp"
#include "commands.hpp"

namespace bitmma::cli {

struct LaunchesRequest {
  std::string plan = {};    // the text of the JSON file
  std::string output = {};  // a safetensors file for the memory and the variables after the last launch; empty: none
  std::optional<Target> target = {};
  bool fmad = true, checks = true;
  int threads = 1, values = 4;
  LaunchLimits limits = {};
  bool as_json = false;
};

void run_launches(Context& context, std::string_view ptx, const LaunchesRequest& request);

}  // namespace bitmma::cli
