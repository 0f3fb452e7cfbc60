// SPDX-License-Identifier: MIT
// A separate process for work that may hang or crash: a kernel that waits for ever cannot end any other process.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace bitmma {

/// How a process ended.
struct ChildEnd {
  bool timed_out = false;    // run_child stopped it
  bool unstoppable = false;  // it did not end even then
  int signal = 0;            // that ended it; 0: none
  int exit_code = 0;
};

/// Runs `command` (a program and its arguments) without input, discards its output and writes its errors to the file
/// `errors`. Waits `seconds` for it to end, then kills it. Throws Error if the process cannot be started.
ChildEnd run_child(const std::vector<std::string>& command, double seconds, const std::string& errors);

}  // namespace bitmma
