// SPDX-License-Identifier: MIT
#include "arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bitmma/core/text.hpp"
#include "suggestions.hpp"

namespace bitmma::cli {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// "bitmma layout smem".
std::string path_of(const CLI::App& command) {
  const CLI::App* const above = command.get_parent();
  return above ? path_of(*above) + " " + command.get_name() : command.get_name();
}

/// "bitmma golden [OPTIONS] --output TEXT instruction".
std::string usage_of(const CLI::App& command) {
  std::string flags, words;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      const std::string name = option->get_name(true) + (option->get_expected_max() > 1 ? "..." : "");
      words += option->get_required() ? " " + name : fmt::format(" [{}]", name);
    } else if (option->get_required()) {
      flags += fmt::format(" {} {}", option->get_name(false), option->get_type_name());
    }
  }
  return fmt::format("{} [OPTIONS]{}{}{}", path_of(command), flags, words,
                     commands_of(command).empty() ? "" : " COMMAND");
}

std::string help_of(const CLI::App& command) { return fmt::format("{} --help shows examples", path_of(command)); }

const std::string nothing = "(nothing)";

[[noreturn]] void refuse_command(const CLI::App& command, const std::string& seen) {
  std::vector<std::string> names;
  for (const CLI::App* below : commands_of(command))
    if (!below->get_group().empty()) names.push_back(below->get_name());  // hidden ones are for bitmma's own processes
  const std::string kind = command.get_parent() ? "command of " + path_of(command) : "command";
  if (seen == nothing) {
    throw Error({.code = ViolationCode::missing_argument,
                 .field = kind,
                 .seen = "missing",
                 .legal = std::move(names),
                 .fix = help_of(command)});
  }
  const std::string other = other_word_for(command, seen), meant = other.empty() ? nearest(seen, names) : other;
  throw Error({.code = ViolationCode::not_found,
               .field = kind,
               .seen = seen.empty() ? "\"\"" : shortened(seen),
               .expected = fmt::format("{}", fmt::join(names, ", ")),
               .fix = meant.empty() ? help_of(command) : fmt::format("did you mean {}?", meant)});
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// True if an argument requests help or the version; then nothing checks the other words as flags.
bool asks_for_help(std::span<const std::string> arguments) {
  return std::ranges::any_of(arguments, [](const std::string& word) {
    return word == "--help" || word == "-h" || word == "--help-all" || word == "--version";
  });
}

/// Help is requested for the preceding commands; throws Error if one of them does not exist.
void require_known_commands(const CLI::App& app, std::span<const std::string> arguments) {
  const CLI::App* command = &app;
  for (const std::string& word : arguments) {
    const std::vector<const CLI::App*> below = commands_of(*command);
    if (word.starts_with('-') || below.empty()) return;
    const auto named =
        std::ranges::find(below, word, [](const CLI::App* subcommand) { return subcommand->get_name(); });
    if (named == below.end()) refuse_command(*command, word);
    command = *named;
  }
}

/// Parses the arguments in the same way as CLI11.
class ArgumentReader {
 public:
  ArgumentReader(const CLI::App& app, std::span<const std::string> arguments) : command_(&app), rest_(arguments) {}

  void read() {
    enter(*command_);
    bool may_be_flag = true;
    while (!rest_.empty()) {
      const std::string word = rest_.front();
      rest_ = rest_.subspan(1);
      if (may_be_flag && word == "--") {  // only positional words follow
        may_be_flag = false;
        continue;
      }
      const bool is_flag = may_be_flag && word.size() > 1 && word[0] == '-' && !is_number(word);
      if (is_flag) read_flag(word);
      else read_word(word);
    }
    if (command_->get_require_subcommand_min() > 0) refuse_command(*command_, nothing);
    require_whole();
  }

 private:
  void enter(const CLI::App& command) {
    command_ = &command;
    words_.clear(), next_word_ = 0;
    for (const CLI::Option* option : command.get_options())
      if (option->get_positional()) words_.push_back(option);
  }

  void read_flag(const std::string& word) {
    const bool is_long = word.starts_with("--");
    const size_t equals = word.find('=');
    const std::string name = is_long ? word.substr(0, equals) : word.substr(0, 2);
    const CLI::Option* const flag = flag_named(*command_, name);
    if (!flag) {
      const std::vector<std::string> flags = flags_of(*command_);
      const std::string other = other_word_for(*command_, name), meant = other.empty() ? nearest(name, flags) : other;
      Violation unknown{.code = ViolationCode::not_found,
                        .field = fmt::format("flag of {}", path_of(*command_)),
                        .seen = shortened(is_long ? name : word)};
      if (is_before_command()) unknown.fix = "put flags after the command";
      else if (!meant.empty()) unknown.fix = fmt::format("did you mean {}?", meant);
      else unknown.fix = help_of(*command_), unknown.expected = fmt::format("{}", fmt::join(flags, ", "));
      throw Error(std::move(unknown));
    }
    ++counts_[flag];
    const bool has_value = is_long ? equals != std::string::npos : word.size() > 2;
    if (has_value && flag->get_items_expected_max() == 0)
      throw Error({.code = ViolationCode::unread_argument,
                   .field = shortened(word),
                   .seen = fmt::format("{} has no value", name)});
    if (has_value) require_value(name, *flag, word.substr(is_long ? equals + 1 : 2));
    for (int count = has_value ? 1 : 0; count < flag->get_items_expected_min(); ++count) {
      if (rest_.empty() || is_flag_here(rest_.front())) refuse_value(name, *flag, nothing);
      require_value(name, *flag, rest_.front());
      rest_ = rest_.subspan(1);
    }
  }

  bool is_flag_here(const std::string& word) const {
    return word.size() > 1 && word[0] == '-' && !is_number(word) && flag_named(*command_, word);
  }

  [[noreturn]] void refuse_value(const std::string& name, const CLI::Option& flag, const std::string& seen) const {
    throw Error({.field = name,
                 .seen = seen,
                 .expected = "a value: " + first_line(flag.get_description()),
                 .fix = help_of(*command_)});
  }

  /// CLI11 treats an empty value as an absent flag.
  void require_value(const std::string& name, const CLI::Option& flag, const std::string& value) const {
    const bool is_hidden = command_->get_group().empty();  // a survey calls its own commands, first without a unit
    if (value.empty() && !is_hidden) refuse_value(name, flag, "\"\"");
  }

  int count_of(const CLI::Option* option) const {
    const auto count = counts_.find(option);
    return count == counts_.end() ? 0 : count->second;
  }

  /// Throws Error for repeated, mutually exclusive and missing flags.
  void require_whole() const {
    std::vector<Violation> wrong, missing;
    std::set<std::set<const CLI::Option*>> excluded;  // mutually exclusive flags are in each other's lists
    for (const CLI::App* command = command_; command; command = command->get_parent()) {
      for (const CLI::Option* option : command->get_options()) {
        const int count = count_of(option);
        const std::string name = option->get_name();
        const auto is_missing = [&](const CLI::Option& what, const std::string& why) {
          missing.push_back({.code = ViolationCode::missing_argument,
                             .field = what.get_name(),
                             .seen = "missing",
                             .expected = first_line(what.get_description()) + why});
        };
        if (count == 0) {
          if (option->get_required()) is_missing(*option, "");
          continue;
        }
        if (count > 1 && option->get_expected_max() <= 1)
          wrong.push_back({.field = name, .seen = fmt::format("given {} times", count), .expected = "once"});
        for (const CLI::Option* other : option->get_excludes()) {
          if (count_of(other) > 0 && excluded.insert({option, other}).second)
            wrong.push_back({.code = ViolationCode::not_together, .field = name, .seen = other->get_name()});
        }
        for (const CLI::Option* other : option->get_needs())
          if (count_of(other) == 0) is_missing(*other, fmt::format("; {} requires it", name));
      }
    }
    if (!missing.empty()) missing.back().fix = fmt::format("usage: {}; {}", usage_of(*command_), help_of(*command_));
    std::ranges::move(missing, std::back_inserter(wrong));
    if (!wrong.empty()) throw Error(std::move(wrong));
  }

  /// True if a command follows, to which the flag may belong.
  bool is_before_command() const {
    return std::ranges::any_of(commands_of(*command_), [&](const CLI::App* below) {
      return std::ranges::find(rest_, below->get_name()) != rest_.end();
    });
  }

  void read_word(const std::string& word) {
    for (const CLI::App* below : commands_of(*command_)) {
      if (below->get_name() == word) return enter(*below);
    }
    if (next_word_ < words_.size()) {
      const CLI::Option* const option = words_[next_word_];
      require_value(option->get_name(), *option, word);
      const int most = option->get_items_expected_max();
      if (++counts_[option] >= most) ++next_word_;
      return;
    }
    if (!commands_of(*command_).empty()) refuse_command(*command_, word);
    throw Error({.code = ViolationCode::unread_argument,
                 .field = shortened(word),
                 .seen = fmt::format("unexpected argument for {}", path_of(*command_)),
                 .fix = flag_named(*command_, "--instruction") && word.find('.') != std::string::npos
                            ? fmt::format("--instruction {}", shortened(word))
                            : "usage: " + usage_of(*command_)});
  }

  const CLI::App* command_;
  std::span<const std::string> rest_;
  std::vector<const CLI::Option*> words_ = {};  // arguments that are neither flags nor commands
  size_t next_word_ = 0;
  std::map<const CLI::Option*, int> counts_ = {};
};

}  // namespace

void require_known_arguments(const CLI::App& app, std::span<const std::string> arguments) {
  if (asks_for_help(arguments)) require_known_commands(app, arguments);
  else ArgumentReader(app, arguments).read();
}

void one_of(CLI::Option* option, const std::vector<std::string>& words, bool are_in_help) {
  const auto check = [option, words](const std::string& text) -> std::string {
    if (std::ranges::find(words, text) != words.end()) return "";
    throw Error(
        {.code = ViolationCode::unknown_name, .field = option->get_name(), .seen = shortened(text), .legal = words});
  };
  option->check(CLI::Validator(check, are_in_help ? fmt::format("{{{}}}", fmt::join(words, ",")) : ""));
}

namespace {

/// All digits: 1048576, 0.000001.
std::string print_limit(double limit) {
  if (limit == std::floor(limit) && std::abs(limit) < 0x1p63) return std::to_string(static_cast<int64_t>(limit));
  std::string text = fmt::format("{:.9f}", limit);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

}  // namespace

void between(CLI::Option* option, double least, double most) {
  const std::string range = print_limit(least) + " to " + print_limit(most);
  const auto check = [=](const std::string& text) -> std::string {
    int64_t whole = 0;
    double number = 0;
    if (CLI::detail::lexical_cast(text, whole)) number = static_cast<double>(whole);
    else if (!CLI::detail::lexical_cast(text, number)) return "";  // take_numbers_exactly rejects it
    if (number >= least && number <= most) return "";
    throw Error({.field = option->get_name(), .seen = shortened(text), .expected = range});
  };
  option->check(CLI::Validator(check, range));
}

}  // namespace bitmma::cli
