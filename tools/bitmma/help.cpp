// SPDX-License-Identifier: MIT
#include "help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace bitmma::cli {
namespace {

constexpr size_t left_columns = 28;                // for names of flags
constexpr size_t text_columns = help_columns - 2;  // --help-all indents by 2

/// The place to break a line of at most `columns`: its last space; in a command a space outside single quotes. npos if
/// there is none.
size_t break_of(std::string_view line, size_t columns, bool is_command) {
  size_t last_space = std::string_view::npos;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\'') quoted = !quoted;
    if (line[i] != ' ' || (is_command && quoted) || i < 4) continue;
    if (i > columns && last_space != std::string_view::npos) break;
    if (line.substr(0, i).find_first_not_of(' ') != std::string_view::npos) last_space = i;
    if (i > columns) break;
  }
  return last_space;
}

void add_wrapped(std::string& text, std::string line, size_t columns) {
  const bool is_command = line.starts_with("  bitmma") || line.starts_with("      --");
  const size_t indent =
      is_command ? 6 : line.size() - line.substr(std::min(line.find_first_not_of(' '), line.size())).size();
  while (line.size() > columns) {
    const size_t at = break_of(line, columns - (is_command ? 2 : 0), is_command);
    if (at == std::string::npos) break;
    text += line.substr(0, at) + (is_command ? " \\\n" : "\n");
    line = std::string(indent, ' ') + line.substr(at + 1);
  }
  text += line + '\n';
}

/// An entry of a list: `name` with `about` beside it, or below a long name.
std::string list_entry(const std::string& name, const std::string& about) {
  constexpr size_t deeper = 4;  // extra indent where a name continues in the next line
  std::string text = wrap_help("  " + name, text_columns - deeper);
  for (size_t at = text.find("\n  "); at != std::string::npos; at = text.find("\n  ", at + 1)) {
    text.insert(at + 1, deeper, ' ');
  }
  size_t column = 0;
  if (name.size() + 4 <= left_columns && !about.empty()) {
    text.pop_back();  // removes the final line feed
    column = text.size();
  }
  std::istringstream lines(wrap_help(about, text_columns - left_columns));
  for (std::string line; std::getline(lines, line); column = 0) {
    text += std::string(left_columns - column, ' ') + line + '\n';
  }
  return text;
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return list_entry(make_option_name(option, is_positional) + make_option_opts(option), make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* app) const override {
    return list_entry(app->get_display_name(true), app->get_description());
  }
  std::string make_description(const CLI::App* app) const override {
    return wrap_help(CLI::Formatter::make_description(app), text_columns);
  }
  std::string make_footer(const CLI::App* app) const override {
    const std::string footer = app->get_footer();
    return footer.empty() ? "" : "\n" + wrap_help(footer, text_columns);
  }
};

}  // namespace

std::string wrap_help(const std::string& text, size_t columns) {
  std::string result, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) add_wrapped(result, paragraph, columns);
    paragraph.clear();
  };
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_prose = !line.empty() && line.front() != ' ' && !line.ends_with(':');
    if (is_prose) {
      paragraph += (paragraph.empty() ? "" : " ") + line;
      continue;
    }
    end_paragraph();
    add_wrapped(result, line, columns);
  }
  end_paragraph();
  return result;
}

std::shared_ptr<CLI::Formatter> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace bitmma::cli
