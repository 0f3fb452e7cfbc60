// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bitmma/core/target_names.hpp"
#include "bitmma/survey/survey.hpp"
#include "flags.hpp"

namespace bitmma::cli {

/// --device and --rehearse.
struct DeviceFlags {
  Flag<int> ordinal = 0;
  Flag<std::string> rehearse = {};

  void add(Command& command) {
    command.add_option("--device", ordinal, "which GPU")->capture_default_str();
    command.add_option("--rehearse", rehearse,
                       "let the model of this target answer in place of a GPU; this proves nothing about a GPU");
  }
  /// Throws Error, which names --rehearse, if no target has this name.
  std::optional<Target> rehearsed() const {
    if (rehearse.empty()) return std::nullopt;
    return naming_flag("target", "--rehearse", [&] { return target_from(rehearse); });
  }
  SurveyDevice survey_device(uint64_t seed) const {
    return {.ordinal = ordinal, .rehearse = rehearsed(), .seed = seed};
  }
};

}  // namespace bitmma::cli
