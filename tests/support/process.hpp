// The program as a process of its own: its exit code or the signal that ended it, and what it printed.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace bitmma::test {

struct ProcessOptions {
  std::map<std::string, std::string> environment = {};  // beside that of the tests
  std::string folder = {};                              // where it runs; empty: where the tests run
  std::string out = {};                                 // file that takes what it prints; empty: Finished::out does
  bool closed_out = false;                              // it has no standard output at all
  uint64_t most_file_bytes = 0;                         // RLIMIT_FSIZE; 0: none
  uint64_t most_memory_bytes = 0;                       // RLIMIT_AS; 0: none
  uint64_t most_files = 0;                              // RLIMIT_NOFILE; 0: none
};

struct Finished {
  int code = -1;   // -1 when a signal ended it
  int signal = 0;  // the signal that ended it
  std::string out, err;
};

/// A running process.
class Process {
 public:
  /// arguments[0] is looked up in PATH. Throws std::runtime_error when it cannot be started.
  Process(const std::vector<std::string>& arguments, const ProcessOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }
  void signal(int number) const;
  Finished wait();

 private:
  pid_t id_ = -1;
  int out_ = -1, err_ = -1;  // files without a name that take its output
};

/// Runs it to its end. A process that takes longer than a minute is killed.
Finished run_process(const std::vector<std::string>& arguments, const ProcessOptions& options = {});

/// The program `bitmma` with these arguments.
Finished run_program(const std::vector<std::string>& arguments, const ProcessOptions& options = {});
std::vector<std::string> program_with(const std::vector<std::string>& arguments);

}  // namespace bitmma::test
