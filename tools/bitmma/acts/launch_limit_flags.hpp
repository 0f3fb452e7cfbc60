// SPDX-License-Identifier: MIT
#pragma once

#include <array>

#include "bitmma/acts/launch_file.hpp"
#include "flags.hpp"

namespace bitmma::cli {

/// --limit-memory and --limit-instructions: bounds for kernels that others wrote.
struct LaunchLimitFlags {
  Flag<int64_t> memory_bytes = LaunchLimits{}.memory_bytes;
  Flag<uint64_t> instructions = LaunchLimits{}.instructions;

  void add(Command& command);
  LaunchLimits limits() const { return {.memory_bytes = memory_bytes, .instructions = instructions}; }
};

/// The flags of the fields of LaunchLimits.
inline constexpr auto flags_of_limits =
    std::to_array<FlagOfField>({{"memory_bytes", "--limit-memory"}, {"instructions", "--limit-instructions"}});

}  // namespace bitmma::cli
