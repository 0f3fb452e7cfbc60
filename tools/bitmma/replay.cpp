// SPDX-License-Identifier: MIT
// The Python package recomputes captures; this command hands its flags over.
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "bitmma/core/error.hpp"
#include "flags.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

struct ReplayFlags {
  Flag<std::string> capture, against;
  Flag<std::vector<std::string>> weights;
  Flag<int> rows = 0, threads = 0;
  Flag<bool> end_to_end = false, no_explain = false, all = false, json = false;
};

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

/// Python replaces this process: signals reach it, and no process is left behind.
void run_replay(Context& context, const ReplayFlags& flags) {
  std::vector<std::string> words{python(), "-c", python_program, *flags.capture};
  const auto add = [&](std::string name, std::string value) {
    words.push_back(std::move(name));
    words.push_back(std::move(value));
  };
  for (const std::string& one : flags.weights) add("--weights", one);
  if (!flags.against.empty()) add("--against", *flags.against);
  if (flags.rows != 0) add("--rows", std::to_string(flags.rows));
  if (flags.threads != 0) add("--threads", std::to_string(flags.threads));
  for (const auto& [flag, name] : {std::pair(&flags.end_to_end, "--end-to-end"),
                                   {&flags.no_explain, "--no-explain"},
                                   {&flags.all, "--all"},
                                   {&flags.json, "--json"}}) {
    if (*flag) words.emplace_back(name);
  }
  context.out().flush();
  leave_out_current_folder();
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  throw Error({.code = ViolationCode::not_found,
               .field = "python3",
               .seen = errno == ENOENT ? "not in PATH" : std::strerror(errno),
               .expected = "Python with the package bitmma, which recomputes captures",
               .fix = "`pip install .` in a checkout of bitmma installs it"});
}

}  // namespace

void add_replay(Command& app, Context& context) {
  Command* command = app.add_command("replay", "recompute a model's captured operators and compare every bit");
  const auto flags = std::make_shared<ReplayFlags>();
  command->add_input("capture", flags->capture, "folder that tools/capture.py wrote")->required();
  command->add_input("--weights", flags->weights,
                     "safetensors file with the model's weights, or a folder of such files");
  command->add_input("--against", flags->against, "second capture: names the first operator whose outputs differ");
  command->add_option("--rows", flags->rows, "compare at most N rows of large tensors; default: all that are stored")
      ->check(CLI::PositiveNumber);
  command->add_flag("--end-to-end", flags->end_to_end, "give each operator the computed results of those before it");
  command->add_flag("--no-explain", flags->no_explain, "do not search for what else gives the recorded bits");
  command->add_flag("--all", flags->all, "print a line for each operator");
  command->add_flag("--json", flags->json, "print the report as JSON");
  command->add_speed_option("--threads", flags->threads, "threads; default: all cores")->check(CLI::PositiveNumber);
  command->footer(
      "Examples:\n"
      "  bitmma replay captured                   # which operators give the recorded bits\n"
      "  bitmma replay captured --weights model/  # with the model's safetensors files\n"
      "  bitmma replay captured --end-to-end      # from the inputs alone\n"
      "  bitmma replay captured --against other   # the first operator where two captures differ, and why");
  command->callback([&context, flags] { run_replay(context, *flags); });
}

}  // namespace bitmma::cli
