// SPDX-License-Identifier: MIT
#include "help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace bitmma::cli {
namespace {

constexpr size_t left_columns = 28;  // names of flags

/// The place to break a line of at most `columns`: the last space in front of it, outside of single quotes for
/// commands; npos where there is none.
size_t break_of(std::string_view line, size_t columns, bool is_command) {
  size_t found = std::string_view::npos;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\'') quoted = !quoted;
    if (line[i] != ' ' || (is_command && quoted) || i < 4) continue;
    if (i > columns && found != std::string_view::npos) break;
    if (line.substr(0, i).find_first_not_of(' ') != std::string_view::npos) found = i;
    if (i > columns) break;
  }
  return found;
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

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const std::string name = "  " + make_option_name(option, is_positional) + make_option_opts(option);
    const std::string about = wrap_help(make_option_desc(option), help_columns - left_columns);
    std::string text = name;
    size_t column = name.size();
    if (column + 2 > left_columns) text += '\n', column = 0;
    std::istringstream lines(about);
    for (std::string line; std::getline(lines, line);) {
      text += std::string(left_columns - column, ' ') + line + '\n';
      column = 0;
    }
    if (about.empty()) text += '\n';
    return text;
  }
  std::string make_description(const CLI::App* app) const override {
    return wrap_help(CLI::Formatter::make_description(app), help_columns);
  }
  std::string make_footer(const CLI::App* app) const override {
    const std::string footer = app->get_footer();
    return footer.empty() ? "" : "\n" + wrap_help(footer, help_columns);
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
