// SPDX-License-Identifier: MIT
// Progress of a long command: on a terminal one redrawn line of stderr, in a log one line every half minute.
#pragma once

#include <chrono>
#include <string>

#include "bitmma/core/text.hpp"
#include "commands.hpp"

namespace bitmma::cli {

class StatusLine {
 public:
  explicit StatusLine(const Context& context) : context_(context), terminal_(context.terminal) {}
  ~StatusLine() {
    if (terminal_.progress && drawn_ > 0) terminal_.err << "\r\033[K" << std::flush;
  }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Seconds since the command began.
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count(); }

  /// Calls `text` when a line is due, and for the last line.
  template <typename Text>
  void update(const Text& text, bool is_last = false) {
    const double now = seconds();
    if (!is_last && now - drawn_ < (terminal_.progress ? 0.2 : 30)) return;
    drawn_ = now;
    context_.stop_heartbeat();
    terminal_.err << (terminal_.progress ? "\r\033[K" : "") << printable(text()) << (terminal_.progress ? "" : "\n")
                  << std::flush;
  }

 private:
  const Context& context_;
  const Terminal& terminal_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  double drawn_ = 0;
};

}  // namespace bitmma::cli
