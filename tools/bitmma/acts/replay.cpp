// SPDX-License-Identifier: MIT
// The Python package recomputes captures; this command prints the line that does it.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"

namespace bitmma::cli {
namespace {

/// As a POSIX shell reads it: in quotes, unless all characters are plain ones.
std::string shell_word(const std::string& word) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./=:,+@").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::optional<std::string> line_of_replay(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "replay") return std::nullopt;
  const auto asks_for_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (std::ranges::any_of(arguments, asks_for_help)) return std::nullopt;
  std::string line = "python3 -m bitmma";
  for (const std::string& word : arguments) line += " " + shell_word(word);
  return line;
}

void add_replay(Command& app, Context&) {
  Command* command = app.add_command("replay", "print the line that recomputes a model's captured operators in Python");
  command->footer(
      "The Python package recomputes captures, and has the flags: python3 -m bitmma replay --help.\n"
      "Examples:\n"
      "  python3 -m bitmma replay captured                   # which operators give the recorded bits\n"
      "  python3 -m bitmma replay captured --weights model/  # with the model's safetensors files\n"
      "  python3 -m bitmma replay captured --end-to-end      # from the inputs alone\n"
      "  python3 -m bitmma replay captured --against other   # the first operator where two captures differ, and why");
}

}  // namespace bitmma::cli
