// SPDX-License-Identifier: MIT
// One function per verb, which adds the subcommand to the app. It turns flags into values, calls the library, prints.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli.hpp"
#include "flag.hpp"
#include "heartbeat.hpp"

namespace bitmma::cli {

/// Shared by all commands: the output streams, and the exit code.
struct Context {
  Terminal terminal;
  const Command* program = nullptr;
  int exit_code = exit_same;
  mutable std::set<std::string> printed_warnings = {};  // to print each warning once
  Heartbeat* heartbeat = nullptr;
  std::vector<std::string> command = {};  // of `exec`: the words of another program

  /// The stream for results.
  std::ostream& out() const {
    require_flags_acted();
    stop_heartbeat();
    return terminal.out;
  }
  /// Call it before printing on stderr.
  void stop_heartbeat() const {
    if (heartbeat) heartbeat->stop();
  }
  /// Throws Error for flags that were given but not read. Verbs call it before they write a file; out() calls it too,
  /// and so does the program after a verb.
  void require_flags_acted() const;
};

/// Adds every command, in the order of the help.
void add_commands(Command& app, Context& context);

void add_simulate(Command& app, Context& context);
void add_gemm(Command& app, Context& context);
void add_golden(Command& app, Context& context);
void add_verify(Command& app, Context& context);
void add_compare(Command& app, Context& context);
void add_decode(Command& app, Context& context);
void add_encode(Command& app, Context& context);
void add_layout(Command& app, Context& context);
void add_list(Command& app, Context& context);
void add_explain(Command& app, Context& context);
void add_diagnose(Command& app, Context& context);
void add_ptx(Command& app, Context& context);
void add_gpu(Command& app, Context& context);
void add_math(Command& app, Context& context);
void add_quantize(Command& app, Context& context);
void add_operator(Command& app, Context& context);
void add_run(Command& app, Context& context);
void add_exec(Command& app, Context& context);
void add_replay(Command& app, Context& context);
/// The line to type for `replay`, which is Python's; nothing for other commands, and where help is asked for.
std::optional<std::string> line_of_replay(const std::vector<std::string>& arguments);
/// `bitmma survey`, where the laboratory is built; elsewhere nothing.
void add_survey(Command& app, Context& context);
/// Throws Error for a command that this program was built without.
void require_acts(const std::vector<std::string>& arguments);
void require_hardware(const std::vector<std::string>& arguments);
void require_processes(const std::vector<std::string>& arguments);
void require_lab(const std::vector<std::string>& arguments);
void add_bench(Command& app, Context& context);

}  // namespace bitmma::cli
