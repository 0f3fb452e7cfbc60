#include "arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>

#include "bitmma/core/text.hpp"

namespace bitmma::cli {
namespace {

bool is_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '.');
}

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

/// The flag called `name`, with its dashes; nullptr when the command has none.
const CLI::Option* flag_named(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->nonpositional()) continue;
    if (name.starts_with("--") ? option->check_lname(name.substr(2)) : option->check_sname(name.substr(1))) {
      return option;
    }
  }
  return nullptr;
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

std::string suggestion_or_help(const std::string& word, std::span<const std::string> candidates,
                               const CLI::App& command) {
  const std::string meant = nearest(word, candidates);
  return meant.empty() ? help_of(command) : fmt::format("did you mean {}?", meant);
}

/// What other programs, or earlier versions of this one, call these commands.
struct OtherWord {
  std::string_view word, command;
  std::string_view above = "bitmma";
};
constexpr std::string_view any_file = "a file";  // any name of a file
constexpr auto other_words = std::to_array<OtherWord>({
    {"diff", "compare"},
    {"cmp", "compare"},
    {"check", "verify"},
    {"test", "verify"},
    {"run", "simulate"},
    {"execute", "simulate"},
    {"generate", "golden"},
    {"gen", "golden"},
    {"random", "golden"},
    {"debug", "diagnose"},
    {"why", "diagnose"},
    {"matmul", "gemm"},
    {"print", "decode"},
    {"disassemble", "decode"},
    {"swizzle", "layout"},
    {"draw", "layout"},
    {"instructions", "list"},
    {"version", "--version"},
    {"smem", "descriptor", "encode"},
    {"desc", "descriptor", "encode"},
    {"wgmma", "instruction", "encode"},
    {"mnemonic", "instruction", "encode"},
    {"--campaign", "bitmma gpu campaign", "gpu"},
    {"--survey", "bitmma survey run", "gpu"},
    {"--rehearse", "bitmma survey run", "gpu"},
    {"--sealed", "bitmma survey sealed", "gpu"},
    {"--make-sealed", "bitmma survey seal", "gpu"},
    {any_file, "bitmma gpu run {}", "gpu"},
    {"--patch", "bitmma survey read --confirmed", "survey"},
    {"--all", "bitmma survey read --all", "survey"},
    {"--json", "bitmma survey read --json", "survey"},
    {"--quick", "bitmma survey read --quick", "survey"},
    {any_file, "bitmma survey read {}", "survey"},
});

const std::string nothing = "(nothing)";

/// The name of a file, and of no command.
bool is_file_name(std::string_view word) { return word.find_first_of("./") != std::string_view::npos; }

/// The words to write in place of `word`, behind `command`; empty without any.
std::string other_word_for(const CLI::App& command, const std::string& word) {
  const auto row = std::ranges::find_if(other_words, [&](const OtherWord& one) {
    return one.above == command.get_name() && (one.word == any_file ? is_file_name(word) : one.word == word);
  });
  if (row == other_words.end()) return "";
  return fmt::format(fmt::runtime(row->command), shortened(word));
}

[[noreturn]] void refuse_command(const CLI::App& command, const std::string& seen) {
  std::vector<std::string> names;
  std::string all;
  for (const CLI::App* below : commands_of(command)) {
    if (below->get_group().empty()) continue;  // of processes that the program starts
    names.push_back(below->get_name());
    all += (all.empty() ? "" : ", ") + below->get_name();
  }
  const std::string other = other_word_for(command, seen);
  throw Error(
      {.field = "command",
       .seen = seen,
       .expected = seen == nothing ? "a subcommand: " + all : all,
       .fix = !other.empty() ? fmt::format("did you mean {}?", other) : suggestion_or_help(seen, names, command)});
}

/// Where a word may not be read as a flag: the whole command line is help, or the shell's own business.
bool asks_for_help(std::span<const std::string> arguments) {
  return std::ranges::any_of(arguments, [](const std::string& word) {
    return word == "--help" || word == "-h" || word == "--help-all" || word == "--version";
  });
}

/// Help is asked for of the commands in front. Of one that does not exist there is none.
void require_known_commands(const CLI::App& app, std::span<const std::string> arguments) {
  const CLI::App* command = &app;
  for (const std::string& word : arguments) {
    const std::vector<const CLI::App*> below = commands_of(*command);
    if (word.starts_with('-') || below.empty()) return;
    const auto named = std::ranges::find(below, word, [](const CLI::App* one) { return one->get_name(); });
    if (named == below.end()) refuse_command(*command, word);
    command = *named;
  }
}

/// Walks over the arguments as CLI11 does.
class Reader {
 public:
  Reader(const CLI::App& app, std::span<const std::string> arguments) : command_(&app), rest_(arguments) {}

  void read() {
    enter(*command_);
    while (!rest_.empty()) {
      const std::string word = rest_.front();
      rest_ = rest_.subspan(1);
      if (word == "--") return;
      const bool is_flag = word.size() > 1 && word[0] == '-' && !is_number(word);
      if (is_flag) read_flag(word);
      else read_word(word);
    }
    if (command_->get_require_subcommand_min() > 0) refuse_command(*command_, nothing);
  }

 private:
  void enter(const CLI::App& command) {
    command_ = &command;
    words_ = 0, most_words_ = 0;
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_positional()) most_words_ += static_cast<size_t>(option->get_items_expected_max());
    }
  }

  void read_flag(const std::string& word) {
    const bool is_long = word.starts_with("--");
    const size_t equals = word.find('=');
    const std::string name = is_long ? word.substr(0, equals) : word.substr(0, 2);
    const CLI::Option* const flag = flag_named(*command_, name);
    if (!flag) {
      const std::string other = other_word_for(*command_, name);
      throw Error({.field = fmt::format("{} has no flag {}", path_of(*command_), shortened(is_long ? name : word)),
                   .fix = !other.empty()        ? fmt::format("did you mean {}?", other)
                          : is_before_command() ? "flags stand behind the command"
                                                : suggestion_or_help(name, flags_of(*command_), *command_)});
    }
    const bool has_value = is_long ? equals != std::string::npos : word.size() > 2;
    for (int count = has_value ? 1 : 0; count < flag->get_items_expected_min(); ++count) {
      if (rest_.empty() || (rest_.front().starts_with("--") && flag_named(*command_, rest_.front()))) {
        throw Error({.field = name, .seen = "(nothing)", .expected = "a value", .fix = help_of(*command_)});
      }
      rest_ = rest_.subspan(1);
    }
  }

  /// A command follows that the flag may belong to.
  bool is_before_command() const {
    return std::ranges::any_of(commands_of(*command_), [&](const CLI::App* below) {
      return std::ranges::find(rest_, below->get_name()) != rest_.end();
    });
  }

  void read_word(const std::string& word) {
    for (const CLI::App* below : commands_of(*command_)) {
      if (below->get_name() == word) return enter(*below);
    }
    if (words_ < most_words_) {
      ++words_;
      return;
    }
    if (!commands_of(*command_).empty()) refuse_command(*command_, word);
    throw Error({.field = fmt::format("unexpected argument \"{}\" for {}", shortened(word), path_of(*command_)),
                 .fix = "usage: " + usage_of(*command_)});
  }

  const CLI::App* command_;
  std::span<const std::string> rest_;
  size_t words_ = 0, most_words_ = 0;  // besides flags and commands
};

const CLI::App& parsed_command(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : parsed_command(*parsed.back());
}

/// `word` stands in front of what was seen, and what follows it is wrong: "k-major" of "k-major:256".
bool is_right_begin(const std::string& word, const std::string& seen) {
  const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return seen.starts_with(word) &&
         (!is_plain(word.back()) || (seen.size() > word.size() && !is_plain(seen[word.size()])));
}

/// The words of "a,b,c".
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words{""};
  for (const char c : text) {
    if (c == ',') words.emplace_back();
    else words.back() += c;
  }
  return words;
}

/// "0.001" of "0.001000".
std::string short_number(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

void require_known_arguments(const CLI::App& app, std::span<const std::string> arguments) {
  if (asks_for_help(arguments)) require_known_commands(app, arguments);
  else Reader(app, arguments).read();
}

std::string print_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = parsed_command(app);
  const std::string text = error.what();
  std::smatch part;
  // CLI11 has its facts in texts alone.
  static const std::regex not_in(R"(^(\S+): (.*) not in \{(.*)\}$)"),
      range(R"(^(\S+): Value (\S+) not in range (\S+) to (\S+)$)"),
      too_often(R"(^(\S+): At Most 1 required but received (\d+)$)");
  if (text.size() < 1000) {  // longer ones hold an argument, and the regular expressions recurse
    if (std::regex_match(text, part, not_in)) {
      return print(with_suggestion({.field = part[1], .seen = part[2], .legal = split(part[3])}));
    }
    if (std::regex_match(text, part, range)) {
      return print(Violation{.field = part[1],
                             .seen = part[2],
                             .expected = fmt::format("{} to {}", short_number(part[3]), short_number(part[4]))});
    }
    if (std::regex_match(text, part, too_often)) {
      return print(
          Violation{.field = part[1], .seen = fmt::format("given {} times", part[2].str()), .expected = "once"});
    }
  }
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::RequiredError)) return printable(text);
  return fmt::format("{}\nusage: {}\n{}", printable(text), usage_of(command), help_of(command));
}

Violation with_suggestion(Violation violation) {
  const bool is_word = violation.seen.find_first_of(" (,") == std::string::npos && !is_number(violation.seen);
  if (!is_word) return violation;
  if (std::ranges::find(violation.legal, violation.seen) != violation.legal.end()) return violation;
  std::vector<std::string> candidates;
  for (const std::string& word : violation.legal) {
    if (!is_right_begin(word, violation.seen)) candidates.push_back(word);
  }
  const std::string meant = nearest(violation.seen, candidates);
  if (meant.empty()) return violation;
  violation.fix = fmt::format("did you mean {}?{}{}", meant, violation.fix.empty() ? "" : " ", violation.fix);
  return violation;
}

}  // namespace bitmma::cli
