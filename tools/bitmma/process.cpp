// SPDX-License-Identifier: MIT
#include "process.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "bitmma/files/file.hpp"
#include "commands.hpp"

namespace bitmma::cli {
namespace {

/// If a standard stream is closed when the program starts, the next opened file would get its descriptor, and printed
/// text would go into that file. An unwritable descriptor takes its place: printing then fails and is reported.
void hold_closed_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != descriptor) std::_Exit(2);
  }
}

/// Removes the unfinished files of write_whole: among the files that this process has open for reading and writing,
/// their names identify them. Calls only async-signal-safe functions.
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
    if (path.substr(path.rfind('/') + 1).starts_with(unfinished_prefix)) unlink(name.data());
  }
}

void end_by(int signal) {
  remove_unfinished_files();
  raise(signal);  // SA_RESETHAND: this time it ends the process
}

/// Removes unfinished files before a signal ends the process.
void clean_up_at_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU}) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;  // ignored, as after nohup
    action = {};
    action.sa_handler = end_by;
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
    sigaction(signal, &action, nullptr);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit is then reported as an error
}

}  // namespace

void prepare_process() {
  hold_closed_streams();
  clean_up_at_signals();
  // A case's matrices are freed and allocated again for the next one; returning their pages in between takes longer
  // than the arithmetic.
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

void require_processes(const std::vector<std::string>&) {}

}  // namespace bitmma::cli
