// SPDX-License-Identifier: MIT
// A process of its own for what may hang or crash: a kernel that waits for ever ends no other process.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace bitmma {

/// How a process ended.
struct ChildEnd {
  bool timed_out = false;    // it was stopped
  bool unstoppable = false;  // and did not end even so
  int signal = 0;            // that ended it, 0: none
  int exit_code = 0;
};

/// Runs `command` (a program and its arguments) without input, its output thrown away and its errors in the file
/// `errors`, and waits `seconds` for its end; then it is killed. Throws Error when it cannot be started.
ChildEnd run_child(const std::vector<std::string>& command, double seconds, const std::string& errors);

}  // namespace bitmma
