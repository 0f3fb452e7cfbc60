// SPDX-License-Identifier: MIT
// A flag without effect is refused. A Flag records that its value was read: a given flag that was never read had no
// effect, and Context::require_flags_acted() refuses it before the first result is written.
//
//   struct ExampleFlags { Flag<std::string> out; Flag<int> rows = 8; Flag<bool> json; };
//   Command* command = app.add_command("example", "...");
//   command->add_option("--rows", flags->rows, "...");      // a Command accepts only Flags
//   if (flags->json) ...                                    // reads it
//
// A verb reads a flag only where it uses it. A copy of all flags, made at the start, does not count as reading.
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmma/core/error.hpp"

namespace bitmma::cli {

template <typename T>
constexpr bool is_optional = false;
template <typename T>
constexpr bool is_optional<std::optional<T>> = true;

/// The value of a flag or of positional arguments. Copies share the record that it was read.
template <typename T>
class Flag {
 public:
  Flag() = default;
  Flag(T value) : value_(std::move(value)) {}
  template <std::convertible_to<T> U>
  requires(!std::same_as<std::remove_cvref_t<U>, Flag>) Flag(U&& value) : value_(std::forward<U>(value)) {}

  const T& get() const {
    *was_read_ = true;
    return value_;
  }
  operator const T&() const { return get(); }
  operator std::string_view() const requires std::same_as<T, std::string> { return get(); }

  // Shows the value of an optional; other values are shown directly.
  decltype(auto) operator*() const {
    if constexpr (is_optional<T>) return *get();
    else return get();
  }
  auto operator->() const {
    if constexpr (is_optional<T>) return &*get();
    else return &get();
  }
  explicit operator bool() const requires is_optional<T> { return get().has_value(); }
  template <typename U>
  auto value_or(U&& other) const requires is_optional<T> {
    return get().value_or(std::forward<U>(other));
  }
  bool empty() const requires requires(const T& value) { value.empty(); }
  { return get().empty(); }
  size_t size() const requires requires(const T& value) { value.size(); }
  { return get().size(); }
  auto begin() const requires requires(const T& value) { value.begin(); }
  { return get().begin(); }
  auto end() const requires requires(const T& value) { value.end(); }
  { return get().end(); }
  friend bool operator==(const Flag& flag, const auto& value) { return flag.get() == value; }

 private:
  friend class Command;
  T value_ = {};
  std::shared_ptr<bool> was_read_ = std::make_shared<bool>(false);
};

/// How a command uses a file that a flag names. An updated file is read and then replaced, as a report that is resumed.
enum class FileRole : uint8_t { input, output, updated };

/// A file, or a folder of files, on the command line.
struct NamedFile {
  FileRole role = FileRole::input;
  std::string flag = {};
  std::string path = {};
};

/// The paths in the value of a flag, such as x.npy in map[64,64]:x.npy.
using PathsIn = std::vector<std::string> (*)(const std::string& value);

/// A verb, or the program itself.
class Command : public CLI::App {
 public:
  Command(const std::string& description, const std::string& name) : CLI::App(description, name) {}

  /// Adds a verb below this one.
  Command* add_command(const std::string& name, const std::string& description) {
    auto command = std::shared_ptr<Command>(new Command(description, name, static_cast<CLI::App*>(this)));
    Command* const added = command.get();
    CLI::App::add_subcommand(std::move(command));
    return added;
  }
  CLI::App* add_subcommand(...) = delete;
  CLI::Option* add_option_function(...) = delete;
  CLI::Option* add_flag_function(...) = delete;

  template <typename T>
  CLI::Option* add_option(const std::string& names, Flag<T>& flag, const std::string& meaning) {
    return track(CLI::App::add_option(names, flag.value_, meaning), flag);
  }
  CLI::Option* add_flag(const std::string& names, Flag<bool>& flag, const std::string& meaning) {
    return track(CLI::App::add_flag(names, flag.value_, meaning), flag);
  }
  /// A flag that affects how a command runs, not its result.
  template <typename T>
  CLI::Option* add_speed_option(const std::string& names, Flag<T>& flag, const std::string& meaning) {
    return CLI::App::add_option(names, flag.value_, meaning);
  }

  /// A flag or argument that names files to read.
  template <typename T>
  CLI::Option* add_input(const std::string& names, Flag<T>& flag, const std::string& meaning,
                         PathsIn paths_in = nullptr) {
    return declare(add_option(names, flag, meaning), FileRole::input, paths_in);
  }
  /// A flag that names the file, or the folder of files, to write.
  CLI::Option* add_output(const std::string& names, Flag<std::string>& flag, const std::string& meaning,
                          FileRole role = FileRole::output) {
    return declare(add_option(names, flag, meaning), role, nullptr);
  }

  /// The body of a verb. Before it runs, no output may be an input or another output of the same command; while it
  /// runs, no file that was read is replaced.
  void callback(std::function<void()> body);

  /// The options that name files, with their roles.
  std::vector<std::pair<const CLI::Option*, FileRole>> file_options() const;
  /// The files on this command line.
  std::vector<NamedFile> named_files() const;

  /// The given flags that were not read, of the called verb and of those above it.
  std::vector<Violation> unread_flags() const;

 private:
  Command(const std::string& description, const std::string& name, CLI::App* parent)
      : CLI::App(description, name, parent) {}

  template <typename T>
  CLI::Option* track(CLI::Option* option, const Flag<T>& flag) {
    tracked_.emplace_back(option, flag.was_read_);
    return option;
  }

  CLI::Option* declare(CLI::Option* option, FileRole role, PathsIn paths_in) {
    files_.push_back({.option = option, .role = role, .paths_in = paths_in});
    return option;
  }

  struct FileOption {
    const CLI::Option* option = nullptr;
    FileRole role = FileRole::input;
    PathsIn paths_in = nullptr;
  };

  std::vector<std::pair<const CLI::Option*, std::shared_ptr<bool>>> tracked_;
  std::vector<FileOption> files_;
};

}  // namespace bitmma::cli
