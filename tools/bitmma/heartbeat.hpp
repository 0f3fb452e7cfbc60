// SPDX-License-Identifier: MIT
// Shows on a terminal that a command is still running, also while it reads a file or runs one long kernel.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "bitmma/core/text.hpp"
#include "cli.hpp"

namespace bitmma::cli {

/// Prints "bitmma verify: 3 s, Ctrl-C ends it" every second, from the second one on, until stop(). Whatever else the
/// command prints overwrites it.
class Heartbeat {
 public:
  Heartbeat(const Terminal& terminal, std::string command) : terminal_(terminal), command_(std::move(command)) {
    if (terminal.progress) thread_ = std::thread([this] { beat(); });
  }
  ~Heartbeat() { stop(); }
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Call it before printing: afterwards nothing more is printed here.
  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    stopped_.notify_all();
    thread_.join();
    if (is_drawn_) terminal_.err << "\r\033[K" << std::flush;
  }

 private:
  void beat() {
    std::unique_lock lock(mutex_);
    for (int seconds = 0;; ++seconds) {
      if (stopped_.wait_for(lock, std::chrono::seconds(1), [this] { return is_stopped_; })) return;
      if (seconds == 0) continue;
      is_drawn_ = true;
      terminal_.err << "\r\033[K" << printable(command_) << ": " << seconds + 1 << " s, Ctrl-C ends it\r" << std::flush;
    }
  }

  const Terminal& terminal_;
  std::string command_;
  std::mutex mutex_ = {};
  std::condition_variable stopped_ = {};
  bool is_stopped_ = false, is_drawn_ = false;
  std::thread thread_ = {};
};

}  // namespace bitmma::cli
