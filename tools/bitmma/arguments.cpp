// SPDX-License-Identifier: MIT
#include "arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "bitmma/core/text.hpp"

namespace bitmma::cli {
namespace {

bool is_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text == "inf" || text == "infinity" || text == "nan") return true;
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

/// The flag with this name, including dashes; nullptr if the command has none.
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

/// Names of bitmma's commands in other programs and in earlier versions.
struct OtherWord {
  std::string_view word, command;
  std::string_view above = "bitmma";  // empty: any command that has the flag
};
constexpr std::string_view any_file = "a file";  // matches any file name
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
    {"convert", "simulate"},
    {"predict", "simulate"},
    {"show", "list"},
    {"info", "list"},
    {"profile", "bench"},
    {"benchmark", "bench"},
    {"search", "diagnose"},
    {"assemble", "encode"},
    {"descriptor", "decode"},
    {"--arch", "--target", ""},
    {"--gpu", "--target", ""},
    {"--sm", "--target", ""},
    {"--chip", "--target", ""},
    {"--out", "--output", ""},
    {"--outfile", "--output", ""},
    {"--count", "--cases", ""},
    {"--dtype", "--type", ""},
    {"--columns", "--cols", ""},
    {"--jobs", "--threads", ""},
    {"-j", "--threads", ""},
    {"smem", "descriptor", "encode"},
    {"desc", "descriptor", "encode"},
    {"wgmma", "instruction", "encode"},
    {"mnemonic", "instruction", "encode"},
    {"--campaign", "bitmma gpu campaign", "gpu"},
    {"--survey", "bitmma survey run", "gpu"},
    {"--rehearse", "bitmma survey run", "gpu"},
    {any_file, "bitmma gpu run {}", "gpu"},
    {"--patch", "bitmma survey read --confirmed", "survey"},
    {"--all", "bitmma survey read --all", "survey"},
    {"--json", "bitmma survey read --json", "survey"},
    {"--quick", "bitmma survey read --quick", "survey"},
    {any_file, "bitmma survey read {}", "survey"},
});

const std::string nothing = "(nothing)";

/// True if the word looks like a file name and not like a command.
bool is_file_name(std::string_view word) { return word.find_first_of("./") != std::string_view::npos; }

/// The replacement for `word` after `command`; empty if there is none.
std::string other_word_for(const CLI::App& command, const std::string& word) {
  const auto row = std::ranges::find_if(other_words, [&](const OtherWord& other_word) {
    const bool is_here = other_word.above.empty() ? flag_named(command, std::string(other_word.command)) != nullptr
                                                  : other_word.above == command.get_name();
    return is_here && (other_word.word == any_file ? is_file_name(word) : other_word.word == word);
  });
  if (row == other_words.end()) return "";
  return fmt::format(fmt::runtime(row->command), shortened(word));
}

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
    const auto named = std::ranges::find(below, word, [](const CLI::App* one) { return one->get_name(); });
    if (named == below.end()) refuse_command(*command, word);
    command = *named;
  }
}

/// Parses the arguments in the same way as CLI11.
class Reader {
 public:
  Reader(const CLI::App& app, std::span<const std::string> arguments) : command_(&app), rest_(arguments) {}

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
    ++given_[flag];
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
    const auto found = given_.find(option);
    return found == given_.end() ? 0 : found->second;
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
      if (++given_[option] >= most) ++next_word_;
      return;
    }
    if (!commands_of(*command_).empty()) refuse_command(*command_, word);
    throw Error({.code = ViolationCode::unread_argument,
                 .field = shortened(word),
                 .seen = fmt::format("unexpected argument for {}", path_of(*command_)),
                 .fix = "usage: " + usage_of(*command_)});
  }

  const CLI::App* command_;
  std::span<const std::string> rest_;
  std::vector<const CLI::Option*> words_ = {};  // arguments that are neither flags nor commands
  size_t next_word_ = 0;
  std::map<const CLI::Option*, int> given_ = {};
};

/// True if `seen` starts with `word`, and the rest is wrong: "k-major" in "k-major:256".
bool is_right_begin(const std::string& word, const std::string& seen) {
  const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return seen.starts_with(word) &&
         (!is_plain(word.back()) || (seen.size() > word.size() && !is_plain(seen[word.size()])));
}

/// Values in the spelling of other libraries.
struct OtherSpelling {
  std::string_view spelling, name;
};
constexpr auto other_spellings = std::to_array<OtherSpelling>({
    {"half", "f16"},
    {"fp16", "f16"},
    {"float16", "f16"},
    {"nv_bfloat16", "bf16"},
    {"bfloat16", "bf16"},
    {"bfloat", "bf16"},
    {"tfloat32", "tf32"},
    {"float", "f32"},
    {"fp32", "f32"},
    {"float32", "f32"},
    {"single", "f32"},
    {"double", "f64"},
    {"fp64", "f64"},
    {"float64", "f64"},
    {"fp8", "e4m3"},
    {"float_e4m3", "e4m3"},
    {"float8_e4m3fn", "e4m3"},
    {"float8_e4m3", "e4m3"},
    {"fp8_e4m3", "e4m3"},
    {"e4m3fn", "e4m3"},
    {"float_e5m2", "e5m2"},
    {"float8_e5m2", "e5m2"},
    {"fp8_e5m2", "e5m2"},
    {"float_e2m3", "e2m3"},
    {"float6_e2m3fn", "e2m3"},
    {"float_e3m2", "e3m2"},
    {"float6_e3m2fn", "e3m2"},
    {"fp4", "e2m1"},
    {"float_e2m1", "e2m1"},
    {"float4_e2m1fn", "e2m1"},
    {"float4_e2m1fn_x2", "e2m1"},
    {"fp4_e2m1", "e2m1"},
    {"e8m0", "ue8m0"},
    {"float_ue8m0", "ue8m0"},
    {"float8_e8m0fnu", "ue8m0"},
    {"e8m0fnu", "ue8m0"},
    {"float_ue4m3", "ue4m3"},
    {"int8", "s8"},
    {"char", "s8"},
    {"i8", "s8"},
    {"uint8", "u8"},
    {"int4", "s4"},
    {"uint4", "u4"},
    {"int", "s32"},
    {"int32", "s32"},
    {"i32", "s32"},
    {"uint32", "u32"},
    {"bool", "b1"},
    {"uint1b", "b1"},
    // Kinds of tcgen05.mma.
    {"fp16", "f16"},
    {"bf16", "f16"},
    {"fp8", "f8f6f4"},
    {"f8", "f8f6f4"},
    {"e4m3", "f8f6f4"},
    {"fp6", "f8f6f4"},
    {"int8", "i8"},
    {"s8", "i8"},
    {"mxfp8", "mxf8f6f4"},
    {"mxf8", "mxf8f6f4"},
    {"mxfp6", "mxf8f6f4"},
    {"mxfp4", "mxf4"},
    {"nvfp4", "mxf4nvf4"},
    {"nvf4", "mxf4nvf4"},
    // Distributions, text formats, swizzles.
    {"gauss", "normal"},
    {"gaussian", "normal"},
    {"randn", "normal"},
    {"random", "bits"},
    {"uniform", "bits"},
    {"ints", "integers"},
    {"json", "jsonl"},
    {"txt", "hex"},
    {"no", "none"},
    {"sw128", "128"},
    {"128b", "128"},
    {"swizzle_128b", "128"},
    {"sw64", "64"},
    {"swizzle_64b", "64"},
    {"sw32", "32"},
    {"swizzle_32b", "32"},
    {"interleave", "none"},
    {"inter", "none"},
});

/// The name without prefixes and suffixes of other libraries: "torch.float16", "cutlass::half_t".
std::string bare_spelling(std::string_view text) {
  std::string bare(text.substr(text.find_last_of(".:") == std::string_view::npos ? 0 : text.find_last_of(".:") + 1));
  std::ranges::transform(bare, bare.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  bare.erase(0, std::min(bare.find_first_not_of('_'), bare.size()));  // __half
  if (bare.ends_with("_t")) bare.resize(bare.size() - 2);
  return bare;
}

/// The name that was probably meant: from another library's spelling, or else the nearest; empty if there is none.
std::string meant_by(const std::string& seen, const std::vector<std::string>& names) {
  const std::string bare = bare_spelling(seen);
  const auto is_known = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  if (is_known(bare)) return bare;
  for (const auto& [spelling, name] : other_spellings)
    if (spelling == bare && is_known(name)) return std::string(name);
  return nearest(seen, names);
}

}  // namespace

void require_known_arguments(const CLI::App& app, std::span<const std::string> arguments) {
  if (asks_for_help(arguments)) require_known_commands(app, arguments);
  else Reader(app, arguments).read();
}

void one_of(CLI::Option* option, const std::vector<std::string>& words) {
  const auto check = [option, words](const std::string& text) -> std::string {
    if (std::ranges::find(words, text) != words.end()) return "";
    throw Error(
        {.code = ViolationCode::unknown_name, .field = option->get_name(), .seen = shortened(text), .legal = words});
  };
  option->check(CLI::Validator(check, fmt::format("{{{}}}", fmt::join(words, ","))));
}

void between(CLI::Option* option, double least, double most) {
  const auto check = [option, least, most](const std::string& text) -> std::string {
    int64_t whole = 0;
    double number = 0;
    if (CLI::detail::lexical_cast(text, whole)) number = static_cast<double>(whole);
    else if (!CLI::detail::lexical_cast(text, number)) return "";  // take_numbers_exactly rejects it
    if (number >= least && number <= most) return "";
    throw Error({.field = option->get_name(),
                 .seen = shortened(text),
                 .expected = fmt::format("{:.17g} to {:.17g}", least, most)});
  };
  option->check(CLI::Validator(check, fmt::format("{:.6g} to {:.6g}", least, most)));
}

Violation with_suggestion(Violation violation) {
  const bool is_word = violation.seen.find_first_of(" (,") == std::string::npos && !is_number(violation.seen);
  if (!is_word || !violation.fix.empty()) return violation;
  if (std::ranges::find(violation.legal, violation.seen) != violation.legal.end()) return violation;
  std::vector<std::string> candidates;
  for (const std::string& word : violation.legal) {
    if (!is_right_begin(word, violation.seen)) candidates.push_back(word);
  }
  const std::string meant = meant_by(violation.seen, candidates);
  if (!meant.empty()) violation.fix = fmt::format("did you mean {}?", meant);
  return violation;
}

}  // namespace bitmma::cli
