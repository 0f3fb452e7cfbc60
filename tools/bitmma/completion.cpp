// SPDX-License-Identifier: MIT
// Shell completions, generated from the commands, so that they are always up to date.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "arguments.hpp"
#include "bitmma/core/version.hpp"
#include "commands.hpp"

namespace bitmma::cli {
namespace {

std::vector<const CLI::App*> shown_below(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App* below) { return !below->get_group().empty(); });
}

/// "layout smem"; empty for the program itself.
std::string path_below(const CLI::App& command) {
  const CLI::App* const above = command.get_parent();
  if (!above) return "";
  const std::string path = path_below(*above);
  return path.empty() ? command.get_name() : path + " " + command.get_name();
}

/// The names of a flag, with dashes.
std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

template <typename Visit>
void for_each_command(const CLI::App& command, const Visit& visit) {
  visit(command);
  for (const CLI::App* below : shown_below(command)) for_each_command(*below, visit);
}

/// The words that may follow a command: its subcommands and its flags.
std::vector<std::string> words_behind(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* below : shown_below(command)) words.push_back(below->get_name());
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> names = names_of(*option);
    words.insert(words.end(), names.begin(), names.end());
  }
  return words;
}

std::string bash_completion(const CLI::App& program) {
  std::string cases;
  for_each_command(program, [&](const CLI::App& command) {
    cases += fmt::format("    \"{}\") words=\"{}\" ;;\n", path_below(command), fmt::join(words_behind(command), " "));
  });
  std::string commands;
  for_each_command(program, [&](const CLI::App& command) {
    if (command.get_parent()) commands += fmt::format("|{}", path_below(command));
  });
  return fmt::format(R"(# Completions of {} for bash.
_bitmma() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} path="" word words
  local commands="{}|"
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$commands" in *"|${{path:+$path }}$word|"*) path=${{path:+$path }}$word ;; esac
  done
  case "$path" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -o filenames -F _bitmma bitmma
)",
                     version(), commands, cases);
}

/// Quotes for zsh and fish, in single quotes.
std::string quoted(std::string text) {
  text = text.substr(0, text.find('\n'));
  for (const std::string_view special : {"'", "[", "]", ":"}) std::erase(text, special[0]);
  return text;
}

std::string zsh_completion(const CLI::App& program) {
  std::string cases;
  for_each_command(program, [&](const CLI::App& command) {
    std::string lines;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : names_of(*option)) {
        lines += fmt::format("        '{}[{}]{}'\n", name, quoted(option->get_description()),
                             takes_value(*option) ? ":value:_files" : "");
      }
    }
    std::string below;
    for (const CLI::App* app : shown_below(command)) {
      below += fmt::format(" '{}:{}'", app->get_name(), quoted(app->get_description()));
    }
    cases +=
        fmt::format("    '{}')\n      commands=({})\n      flags=(\n{}      ) ;;\n", path_below(command), below, lines);
  });
  std::string commands;
  for_each_command(program, [&](const CLI::App& command) {
    if (command.get_parent()) commands += fmt::format(" '{}'", path_below(command));
  });
  return fmt::format(R"(#compdef bitmma
# Completions of {} for zsh.
local path="" word
local -a known commands flags
known=({})
for word in ${{words[2,CURRENT-1]}}; do
  if (( ${{known[(Ie)${{path:+$path }}$word]}} )); then path=${{path:+$path }}$word; fi
done
case $path in
{}esac
(( ${{#commands}} )) && _describe command commands
_arguments -S $flags '*:file:_files'
)",
                     version(), commands, cases);
}

std::string fish_completion(const CLI::App& program) {
  // Without -f, fish offers files beside the commands.
  std::string lines =
      fmt::format("# Completions of {} for fish.\ncomplete -c bitmma -n '__fish_use_subcommand' -f\n", version());
  for_each_command(program, [&](const CLI::App& command) {
    const std::string path = path_below(command);
    std::string condition = "__fish_use_subcommand";
    if (!path.empty()) {
      condition.clear();
      for (size_t begin = 0; begin < path.size();) {
        const size_t end = std::min(path.find(' ', begin), path.size());
        condition += fmt::format("{}__fish_seen_subcommand_from {}", condition.empty() ? "" : "; and ",
                                 path.substr(begin, end - begin));
        begin = end + 1;
      }
    }
    for (const CLI::App* below : shown_below(command)) {
      lines += fmt::format("complete -c bitmma -n '{}' -a {} -d '{}'\n", condition, below->get_name(),
                           quoted(below->get_description()));
    }
    for (const CLI::Option* option : command.get_options()) {
      std::string names;
      for (const std::string& name : option->get_snames()) names += " -s " + name;
      for (const std::string& name : option->get_lnames()) names += " -l " + name;
      if (names.empty()) continue;
      lines += fmt::format("complete -c bitmma -n '{}'{}{} -d '{}'\n", condition, names,
                           takes_value(*option) ? " -r" : "", quoted(option->get_description()));
    }
  });
  return lines;
}

struct CompletionFlags {
  Flag<std::string> shell;
};
}  // namespace

void add_completion(Command& app, Context& context) {
  Command* command = app.add_command("completion", "print completions for bash, zsh or fish");
  const auto flags = std::make_shared<CompletionFlags>();
  command->add_option("shell", flags->shell, "bash, zsh or fish")->required();
  one_of(command->get_option("shell"), {"bash", "zsh", "fish"});
  command->footer(
      "Examples:\n"
      "  bitmma completion bash  # for ~/.local/share/bash-completion/completions/bitmma\n"
      "  bitmma completion zsh   # for a file _bitmma in a folder of $fpath\n"
      "  bitmma completion fish  # for ~/.config/fish/completions/bitmma.fish");
  command->callback([flags, &context] {
    const auto print_for = flags->shell == "bash"  ? bash_completion
                           : flags->shell == "zsh" ? zsh_completion
                                                   : fish_completion;
    context.out() << print_for(*context.program);
  });
}

}  // namespace bitmma::cli
