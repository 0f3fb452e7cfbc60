// SPDX-License-Identifier: MIT
// What `bitmma exec` tells the libraries, by variables BITMMA_EXEC_* of the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bitmma/kernel/kernel.hpp"

namespace bitmma::driver {

struct Settings {
  std::string gpu = "H100";                 // BITMMA_EXEC_GPU: a row of gpus
  int64_t memory_bytes = int64_t{4} << 30;  // BITMMA_EXEC_MEMORY
  int threads = 1;                          // BITMMA_EXEC_THREADS
  bool checks = true;                       // BITMMA_EXEC_CHECKS=0: as Launch::checks
  RaceCheck races = RaceCheck::fault;       // BITMMA_EXEC_RACES: fault, warning or off
  std::optional<uint64_t> clock = {};       // BITMMA_EXEC_CLOCK: as Launch::clock; nothing: 0, which the report names
  bool measures_first = true;               // BITMMA_EXEC_AUTOTUNE: first or all
  bool is_quiet = false;                    // BITMMA_EXEC_QUIET=1: no summary at the end
  std::string json = {};                    // BITMMA_EXEC_JSON: file of the report
  std::string record = {};                  // BITMMA_EXEC_RECORD: file of launches
  int64_t process = 0;                      // BITMMA_EXEC_PROCESS: the id of the command itself
};

/// The settings of this process. A value that is not legal is reported on stderr, once, and the default holds.
const Settings& settings();

/// The name of an output file of this process: of a child of the command it has the process' id before its ending.
std::string file_of_process(const std::string& path);

}  // namespace bitmma::driver
