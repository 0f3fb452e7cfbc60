// SPDX-License-Identifier: MIT
#include "signals.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace bitmma::cli {
namespace {

struct Watched {
  int signal = 0;
  std::string_view name = {};
  struct sigaction before = {};  // the earlier action, which runs at a second signal
};

// A handler can access data only through globals, and use only lock-free atomics.
std::array<Watched, 2> watched{Watched{.signal = SIGINT, .name = "SIGINT"},
                               Watched{.signal = SIGTERM, .name = "SIGTERM"}};
std::atomic<int> noted{0};  // the received signal
static_assert(std::atomic<int>::is_always_lock_free);

/// Calls only functions that POSIX allows in handlers.
extern "C" void note(int signal) {
  const int saved_errno = errno;
  int none = 0;
  if (noted.compare_exchange_strong(none, signal)) {
    constexpr std::string_view text = "interrupted: running work is finished first; interrupt again to end at once\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  } else {
    for (const Watched& row : watched) {
      if (row.signal == signal) sigaction(signal, &row.before, nullptr);
    }
    raise(signal);  // delivered when this handler returns
  }
  errno = saved_errno;
}

}  // namespace

Interrupts::Interrupts() {
  noted = 0;
  for (Watched& row : watched) {
    sigaction(row.signal, nullptr, &row.before);
    if (row.before.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    sigaction(row.signal, &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  for (const Watched& row : watched) sigaction(row.signal, &row.before, nullptr);
}

std::string_view Interrupts::name() const {
  const int signal = noted;
  for (const Watched& row : watched) {
    if (row.signal == signal) return row.name;
  }
  return {};
}

}  // namespace bitmma::cli
