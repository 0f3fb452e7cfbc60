// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/acts/run_kernel.hpp"
#include "flags.hpp"
#include "launch_limit_flags.hpp"

namespace bitmma::cli {

/// The flags of bitmma run.
struct KernelFlags {
  Flag<std::string> file, entry, grid = "1", block = "1", cluster, out, sass, launches, clock;
  Flag<std::string> trace, trace_lines, trace_to, trace_product;
  Flag<std::vector<std::string>> arguments;
  Flag<int64_t> shared = 0;
  Flag<int> threads = 1;
  Flag<int> values = 4;
  LaunchLimitFlags limits;
  Flag<bool> cooperative = false, no_print = false, no_checks = false, no_fmad = false, fusions = false, list = false,
             json = false;
  TargetFlag target;

  void add(Command& command);
  /// The kernel of the request alone. Reads the files of the PTX and of --sass.
  KernelFileRequest kernel() const;
  /// The whole request.
  KernelFileRequest request() const;
  /// Several launches; reads their file.
  LaunchPlanRequest plan_request() const;

 private:
  std::optional<uint64_t> clock_number() const;
};

/// The flags of the fields that run_kernel_file refuses.
inline constexpr auto flags_of_kernels = std::to_array<FlagOfField>({{"argument", "--arg"},
                                                                     {"grid", "--grid"},
                                                                     {"block", "--block"},
                                                                     {"cluster", "--cluster"},
                                                                     {"cooperative", "--cooperative"},
                                                                     {"trace", "--trace"},
                                                                     {"trace_lines", "--trace-lines"},
                                                                     {"trace_product", "--trace-product"},
                                                                     {"clock", "--clock"},
                                                                     {"memory_bytes", "--limit-memory"}});

}  // namespace bitmma::cli
