#include "support/process.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace bitmma::test {
namespace {

std::string all_of(int file) {
  std::string text;
  char part[65536];
  for (off_t at = 0;;) {
    const ssize_t got = pread(file, part, sizeof part, at);
    if (got <= 0) return text;
    text.append(part, static_cast<size_t>(got));
    at += got;
  }
}

void limit(decltype(RLIMIT_AS) what, uint64_t most) {
  if (most == 0) return;
  const rlimit limits{.rlim_cur = most, .rlim_max = most};
  setrlimit(what, &limits);
}

/// In the child, between fork and exec: system calls alone.
[[noreturn]] void become(const std::vector<char*>& arguments, const ProcessOptions& options, int out, int err) {
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(127);
  if (!options.out.empty()) out = open(options.out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  dup2(err, STDERR_FILENO);
  if (options.closed_out) close(STDOUT_FILENO);
  else dup2(out, STDOUT_FILENO);
  close_range(3, ~0U, 0);  // what the tests were started with is not the program's
  limit(RLIMIT_FSIZE, options.most_file_bytes);
  limit(RLIMIT_AS, options.most_memory_bytes);
  limit(RLIMIT_NOFILE, options.most_files);
  // Signals that came meanwhile end this process now, and not in the handlers of the tests.
  for (int number = 1; number < NSIG; ++number) std::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  alarm(60);  // survives exec
  execvp(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const ProcessOptions& options)
    : out_(memfd_create("out", MFD_CLOEXEC)), err_(memfd_create("err", MFD_CLOEXEC)) {
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  id_ = out_ < 0 || err_ < 0 ? -1 : fork();
  if (id_ == 0) become(words, options, out_, err_);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (id_ < 0) throw std::runtime_error("cannot start " + arguments[0]);
}

Process::~Process() {
  if (id_ > 0) {
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  close(out_);
  close(err_);
}

void Process::signal(int number) const { kill(id_, number); }

Finished Process::wait() {
  int status = 0;
  while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  id_ = -1;
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .out = all_of(out_),
          .err = all_of(err_)};
}

Finished run_process(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  return Process(arguments, options).wait();
}

std::vector<std::string> program_with(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{BITMMA_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

Finished run_program(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  return run_process(program_with(arguments), options);
}

}  // namespace bitmma::test
