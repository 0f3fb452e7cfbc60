// SPDX-License-Identifier: MIT
// A flag that does nothing is refused. A Flag notes that its value was read: what was given and never read had no
// effect, and Context::require_flags_acted() refuses it before the first result is written.
//
//   struct ExampleFlags { Flag<std::string> out; Flag<int> rows = 8; Flag<bool> json; };
//   Command* command = app.add_command("example", "...");
//   command->add_option("--rows", flags->rows, "...");      // a Command takes nothing but Flags
//   if (flags->json) ...                                    // reads it
//
// A verb reads a flag where it acts and nowhere else: a copy of all flags, made at the beginning, reads none.
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
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

/// The value of a flag or of words without one. Copies share the note that they were read.
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

  // An optional shows what it holds; other values are shown themselves.
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

/// A verb, or the program itself.
class Command : public CLI::App {
 public:
  Command(const std::string& description, const std::string& name) : CLI::App(description, name) {}

  /// A verb below this one.
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
  /// A flag that says how and not what: the result is the same with it and without it.
  template <typename T>
  CLI::Option* add_speed_option(const std::string& names, Flag<T>& flag, const std::string& meaning) {
    return CLI::App::add_option(names, flag.value_, meaning);
  }

  /// The flags that were given and not read, of the verb that was called and of those above it.
  std::vector<Violation> unread_flags() const;

 private:
  Command(const std::string& description, const std::string& name, CLI::App* parent)
      : CLI::App(description, name, parent) {}

  template <typename T>
  CLI::Option* track(CLI::Option* option, const Flag<T>& flag) {
    tracked_.emplace_back(option, flag.was_read_);
    return option;
  }

  std::vector<std::pair<const CLI::Option*, std::shared_ptr<bool>>> tracked_;
};

}  // namespace bitmma::cli
