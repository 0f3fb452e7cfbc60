// SPDX-License-Identifier: MIT
#include "child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "../core/seconds.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/interrupt.hpp"

extern char** environ;

namespace bitmma {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double seconds_to_die = 20;  // the driver takes a while to clean up after a killed process

/// Redirects input and output to /dev/null and errors to a file, and resets the signal handling.
struct Surroundings {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  explicit Surroundings(const std::string& errors) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawnattr_init(&attributes);
    // The process gets its own group: an interrupt at the terminal reaches the survey, which first ends the unit.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    sigset_t none, all;
    sigemptyset(&none), sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
  }
  ~Surroundings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;
};

/// True if the process ended before `deadline`.
bool has_ended(pid_t process, Clock::time_point deadline, int& status) {
  for (;;) {
    const pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == process || (ended < 0 && errno != EINTR)) return true;
    if (Clock::now() >= deadline) return false;
    check_interrupt();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& command, double seconds, const std::string& errors) {
  if (command.empty())
    throw Error({.code = ViolationCode::missing_input,
                 .field = "command",
                 .seen = "(empty)",
                 .expected = "a program and its arguments"});
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const Surroundings surroundings(errors);
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, arguments[0], &surroundings.files, &surroundings.attributes, arguments.data(), environ);
  if (error != 0) {
    throw Error({.field = "process",
                 .seen = fmt::format("{}: {}", command[0], std::strerror(error)),
                 .expected = "a program that can be started"});
  }
  ChildEnd end;
  int status = 0;
  const auto ended_in_time = [&] {
    try {
      return has_ended(process, after_seconds(seconds), status);
    } catch (...) {  // the caller gives up: the process must not outlive the call
      kill(-process, SIGKILL);
      waitpid(process, &status, 0);
      throw;
    }
  };
  if (!ended_in_time()) {
    end.timed_out = true;
    kill(-process, SIGKILL);
    end.unstoppable = !has_ended(process, after_seconds(seconds_to_die), status);
    return end;
  }
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  else end.exit_code = WEXITSTATUS(status);
  return end;
}

}  // namespace bitmma
