// SPDX-License-Identifier: MIT
#include "cli.hpp"

#include <algorithm>
#include <new>
#include <set>
#include <sstream>

#include "arguments.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/core/version.hpp"
#include "commands.hpp"
#include "exec.hpp"
#include "help.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "suggestions.hpp"

namespace bitmma::cli {

namespace {

/// A heading of the help and the commands below it.
struct CommandGroup {
  const char* heading;
  std::vector<void (*)(Command&, Context&)> commands;
};

}  // namespace

void add_commands(Command& app, Context& context) {
  const CommandGroup groups[]{
      {"Compute", {add_gemm, add_operator, add_math, add_quantize, add_simulate, add_run, add_exec}},
      {"Check", {add_verify, add_compare, add_diagnose, add_replay}},
      {"Understand", {add_explain, add_decode, add_encode, add_layout, add_list}},
      {"GPU", {add_gpu, add_survey, add_ptx}},
      {"Tools", {add_golden, add_bench, add_completion}},
  };
  const auto all = [](CLI::App*) { return true; };
  for (const CommandGroup& group : groups) {
    for (const auto add : group.commands) {
      const size_t before = app.get_subcommands(all).size();
      add(app, context);
      const std::vector<CLI::App*> commands = app.get_subcommands(all);
      for (size_t i = before; i < commands.size(); ++i) commands[i]->group(group.heading);
    }
  }
}

namespace {

/// The flags of all commands that name a file to write, with their dashes.
std::set<std::string> output_flags(const Command& command) {
  std::set<std::string> names;
  for (const auto& [option, role] : command.file_options()) {
    if (role == FileRole::input) continue;
    for (const std::string& name : option->get_lnames()) names.insert("--" + name);
    for (const std::string& name : option->get_snames()) names.insert("-" + name);
  }
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    names.merge(output_flags(*static_cast<const Command*>(below)));  // add_command creates all of them
  return names;
}

/// Replaces the argument `-` by standard output after an output flag, and by standard input elsewhere.
std::vector<std::string> with_standard_streams(const Command& app, std::vector<std::string> arguments) {
  const std::set<std::string> flags = output_flags(app);
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string& word = arguments[i];
    if (word == "-") {
      word = i > 0 && flags.contains(arguments[i - 1]) ? "/dev/stdout" : "/dev/stdin";
      continue;
    }
    if (word.size() < 3 || !word.ends_with('-')) continue;
    const std::string before = word.substr(0, word.size() - 1);  // --output= or -o
    const bool is_long = before.ends_with('=') && flags.contains(before.substr(0, before.size() - 1)),
               is_short = before.size() == 2 && flags.contains(before);
    if (is_long || is_short) word = before + "/dev/stdout";
  }
  return arguments;
}

/// `help layout smem` becomes `layout smem --help`, and no argument at all --help.
std::vector<std::string> with_help_flag(std::vector<std::string> arguments) {
  if (arguments.empty()) return {"--help"};
  if (arguments.front() != "help") return arguments;
  arguments.erase(arguments.begin());
  arguments.push_back("--help");
  return arguments;
}

/// Protects operands of math that CLI11 would read as flags: -.5 becomes -0.5, and -inf gets a space in front.
std::vector<std::string> with_negative_operands(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "math") return arguments;
  for (std::string& word : arguments) {
    if (word.starts_with("-.")) word.insert(1, "0");
    else if (word == "-inf" || word == "-infinity" || word == "-nan") word.insert(0, " ");
  }
  return arguments;
}

/// Takes --color out of the arguments, wherever it stands: it concerns all commands. The words behind -- are another
/// program's.
void take_color(std::vector<std::string>& arguments, Terminal& terminal) {
  const auto end = std::ranges::find(arguments, "--");
  const auto flag = std::find_if(arguments.begin(), end, [](const std::string& word) {
    return word == "--color" || word.starts_with("--color=");
  });
  if (flag == end) return;
  const bool is_apart = *flag == "--color";
  const std::string when = !is_apart ? flag->substr(8) : flag + 1 == end ? "" : *(flag + 1);
  if (when != "auto" && when != "always" && when != "never")
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "--color",
                 .seen = when.empty() ? "(missing)" : shortened(when),
                 .legal = {"auto", "always", "never"}});
  if (when != "auto") terminal.color = terminal.error_color = when == "always";
  arguments.erase(flag, flag + (is_apart ? 2 : 1));
}

/// Reports why a command was refused; returns the exit code.
int refuse(const Context& context, const std::vector<Violation>& violations) {
  context.stop_heartbeat();
  print_errors(context, violations);
  return exit_bad_request;
}

/// Parses and runs; returns the exit code.
int run_command(Command& app, Context& context, std::vector<std::string> words) {
  const Terminal& terminal = context.terminal;
  context.command = take_command(words);
  try {
    take_color(words, context.terminal);
    const std::vector<std::string> arguments =
        with_negative_operands(with_standard_streams(app, with_help_flag(std::move(words))));
    require_acts(arguments);
    require_hardware(arguments);
    require_processes(arguments);
    require_lab(arguments);
    if (const std::optional<std::string> line = line_of_replay(arguments)) {
      terminal.err << "error: the Python package recomputes captures: " << printable(*line) << '\n';
      return exit_bad_request;
    }
    require_known_arguments(app, arguments);
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // the order that CLI11 expects
    app.parse(reversed);
    context.require_flags_acted();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return refuse(context, {{.field = error.what()}});
    context.stop_heartbeat();
    return app.exit(error, terminal.out, terminal.err), exit_same;  // help
  } catch (const Error& error) {
    std::vector<Violation> violations;
    for (const Violation& violation : error.violations()) violations.push_back(with_suggestion(violation));
    return refuse(context, violations);
  } catch (const std::bad_alloc&) {
    return refuse(context, {{.code = ViolationCode::out_of_memory,
                             .field = "memory",
                             .seen = "not enough for this request",
                             .fix = "nothing was written"}});
  } catch (const std::exception& error) {
    return refuse(context, {{.code = ViolationCode::internal_error, .field = "internal error", .seen = error.what()}});
  }
  return context.exit_code;
}

}  // namespace

namespace {

void add_file_flags(const Command& command, const std::string& path, std::vector<FileFlag>& flags) {
  for (const auto& [option, role] : command.file_options())
    flags.push_back({.command = path, .flag = option->get_name(), .is_output = role != FileRole::input});
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    add_file_flags(*static_cast<const Command*>(below),
                   path.empty() ? below->get_name() : path + " " + below->get_name(), flags);
}

}  // namespace

std::vector<FileFlag> file_flags() {
  std::ostringstream out, err;
  Command app("", "bitmma");
  Context context{.terminal = {.out = out, .err = err}, .program = &app};
  add_commands(app, context);
  std::vector<FileFlag> flags;
  add_file_flags(app, "", flags);
  return flags;
}

namespace {

int run_with_commands(const std::vector<std::string>& arguments, Terminal terminal) {
  Command app("bitmma: computes what NVIDIA's matrix instructions compute, bit for bit, without a GPU", "bitmma");
  Heartbeat heartbeat(terminal, arguments.empty() ? "bitmma" : "bitmma " + arguments.front());
  Context context{.terminal = terminal, .program = &app, .heartbeat = &heartbeat};
  app.set_help_flag("-h,--help", "print this help");
  app.set_version_flag("--version", version(), "print the version");
  app.require_subcommand(1);
  app.formatter(help_formatter());
  Flag<std::string> color = "auto";
  one_of(app.add_speed_option("--color", color, "colours in the output; auto: on a terminal, unless NO_COLOR is set")
             ->capture_default_str(),
         {"auto", "always", "never"});
  app.set_help_all_flag("--help-all", "print the help of every command");
  add_commands(app, context);
  app.footer(  // commands that were added earlier do not inherit it
      "Examples:\n  bitmma gemm dataset:nvjet_fast_e4m3 --find           # which order of additions gives these "
      "bits?\n  "
      "bitmma verify dataset:wgmma_f16                      # recompute every recorded D and compare\n  "
      "bitmma simulate case.safetensors -o out.safetensors  # D of every case\n  bitmma decode 0x4000004000010000      "
      "               # what does this descriptor mean?\n  bitmma diagnose golden.safetensors from_kernel.safetensors  "
      "# which mistake explains these bits?\nExit codes: 0 same or done, 1 different, 2 bad request.");
  take_numbers_exactly(app);
  const int code = run_command(app, context, arguments);
  context.stop_heartbeat();
  // A result that cannot be written is an error.
  terminal.out.flush();
  if (terminal.out) return code;
  return refuse(context, {{.code = ViolationCode::unusable_file,
                           .field = "standard output",
                           .seen = "could not be written completely; it may be closed, or the disk may be full"}});
}

}  // namespace

int run(const std::vector<std::string>& arguments, Terminal terminal) {
  try {
    return run_with_commands(arguments, terminal);
  } catch (const std::bad_alloc&) {  // the commands themselves take some memory
    terminal.err << "error: memory: not enough for this request; nothing was written\n";
    return exit_bad_request;
  }
}

}  // namespace bitmma::cli
