// SPDX-License-Identifier: MIT
// The Python package recomputes captures; this command hands its words over.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "bitmma/core/error.hpp"
#include "commands.hpp"

namespace bitmma::cli {
namespace {

// Exit code 1 means that an output differs; Python's own errors must not end with it.
constexpr const char* python_program =
    "import sys\n"
    "sys.path[:] = [path for path in sys.path if path]\n"  // not the current folder, which may be a stranger's capture
    "import signal\n"
    // Ctrl-C ends the other commands by the signal.
    "if signal.getsignal(signal.SIGINT) is signal.default_int_handler:\n"
    "  signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    "try:\n"
    "  from bitmma._replay_command import main\n"
    "except ImportError as error:\n"
    "  sys.exit(print(f'error: replay needs the Python package of bitmma (pip install): {error}', file=sys.stderr) or "
    "2)\n"
    "sys.exit(main(sys.argv[1:]))\n";

/// The Python in the folder of this program, where pip has installed both, else the one in PATH.
std::string python() {
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path beside = program.parent_path() / "python3";
  return !failed && std::filesystem::exists(beside, failed) ? beside.string() : "python3";
}

/// An empty entry of PYTHONPATH, as in `PYTHONPATH=$PYTHONPATH:folder`, is the current folder, from which Python would
/// import sitecustomize at its start. Python's -P leaves the entry, and -I would ignore all entries.
void leave_out_current_folder() {
  const char* const listed = std::getenv("PYTHONPATH");
  if (!listed) return;
  std::vector<std::string> folders;
  for (std::string_view rest = listed;;) {
    const size_t end = rest.find(':');
    if (end != 0 && !rest.empty()) folders.emplace_back(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (folders.empty()) unsetenv("PYTHONPATH");
  else setenv("PYTHONPATH", fmt::format("{}", fmt::join(folders, ":")).c_str(), 1);
}

}  // namespace

void hand_over_replay(Context& context, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "replay") return;
  const auto asks_for_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (std::ranges::any_of(arguments, asks_for_help)) return;
  std::vector<std::string> words{python(), "-c", python_program};
  words.insert(words.end(), arguments.begin() + 1, arguments.end());
  context.out().flush();
  leave_out_current_folder();
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers.front(), pointers.data());
  throw Error({.code = ViolationCode::not_found,
               .field = "python3",
               .seen = errno == ENOENT ? "not in PATH" : std::strerror(errno),
               .expected = "Python with the package bitmma, which recomputes captures",
               .fix = "`pip install .` in a checkout of bitmma installs it"});
}

void add_replay(Command& app, Context&) {
  Command* command = app.add_command("replay", "recompute a model's captured operators and compare every bit");
  command->footer(
      "The Python package does it and has the flags: python3 -m bitmma replay --help.\n"
      "Examples:\n"
      "  bitmma replay captured                   # which operators give the recorded bits\n"
      "  bitmma replay captured --weights model/  # with the model's safetensors files\n"
      "  bitmma replay captured --end-to-end      # from the inputs alone\n"
      "  bitmma replay captured --against other   # the first operator where two captures differ, and why");
}

}  // namespace bitmma::cli
