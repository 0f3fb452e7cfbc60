// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "bitmma/files/file.hpp"
#include "cli.hpp"

namespace {

/// A descriptor that was closed when the program began would be given to the next file that is opened, and what is
/// printed would go into it. One that cannot be written stands in: printing then fails, and is reported.
void hold_closed_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != descriptor) std::_Exit(2);
  }
}

/// Removes the files that write_whole has not finished: among those that this process has open for reading and writing
/// they are known by their names. Calls only what a handler of signals may call.
void remove_unfinished_files() {
  constexpr std::string_view folder = "/proc/self/fd/";
  constexpr int most_files = 1024;
  for (int file = 0; file < most_files; ++file) {
    if ((fcntl(file, F_GETFL) & O_ACCMODE) != O_RDWR) continue;
    std::array<char, 32> link{};
    folder.copy(link.data(), folder.size());
    std::to_chars(link.data() + folder.size(), link.data() + link.size() - 1, file);
    std::array<char, 4096> name{};
    const ssize_t length = readlink(link.data(), name.data(), name.size() - 1);
    if (length <= 0) continue;
    const std::string_view path(name.data(), static_cast<size_t>(length));
    if (path.substr(path.rfind('/') + 1).starts_with(bitmma::unfinished_prefix)) unlink(name.data());
  }
}

void end_by(int signal) {
  remove_unfinished_files();
  raise(signal);  // SA_RESETHAND: this time it ends the process
}

/// Files that are not finished go before the process does.
void clean_up_at_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU}) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;  // as after nohup
    action = {};
    action.sa_handler = end_by;
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
    sigaction(signal, &action, nullptr);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows beyond the limit of its size is then an error that says so
}

}  // namespace

int main(int argc, char** argv) {
  hold_closed_streams();
  clean_up_at_signals();
  // A case's matrices are freed and allocated again for the next one; giving their pages back in between costs more
  // than the arithmetic.
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  const std::string_view kind = term ? term : "";
  return bitmma::cli::run(
      {argv + (argc > 0), argv + argc},
      {.out = std::cout,
       .err = std::cerr,
       .color = bitmma::cli::takes_color(isatty(STDOUT_FILENO) != 0, kind, no_color ? no_color : ""),
       .progress = bitmma::cli::takes_color(isatty(STDERR_FILENO) != 0, kind, "")});
}
