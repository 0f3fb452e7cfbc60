// SPDX-License-Identifier: MIT
#include "named_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "bitmma/core/text.hpp"

namespace bitmma::cli {
namespace {

namespace fs = std::filesystem;

/// The absolute path after following links; the file itself need not exist.
std::string absolute_path(const std::string& path) {
  constexpr int most_links = 40;  // as many as Linux follows
  std::error_code error;
  fs::path target(path);
  for (int i = 0; i < most_links && fs::is_symlink(fs::symlink_status(target, error)); ++i) {
    const fs::path next = fs::read_symlink(target, error);
    if (error) break;
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  const fs::path absolute = fs::absolute(target, error), canonical = fs::weakly_canonical(absolute, error);
  return (error ? absolute.lexically_normal() : canonical).string();
}

/// What a path names: device and inode, or the absolute path of a file that does not exist yet. Empty for folders and
/// devices.
struct Identity {
  std::string key = {};
  bool exists = false;
};

Identity identity_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {.key = absolute_path(path)};
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode)) return {.exists = true};
  return {.key = fmt::format("{}:{}", status.st_dev, status.st_ino), .exists = true};
}

[[noreturn]] void refuse(const std::string& flag, const std::string& path, const std::string& same, bool is_input) {
  throw Error({.code = ViolationCode::would_replace,
               .field = flag,
               .seen = fmt::format("{}, the same file as {}", shortened(path), same),
               .expected = is_input ? "a file that the command does not read" : "a file for each output",
               .fix = is_input ? "write to another file, and rename it afterwards if it shall replace the input" : ""});
}

}  // namespace

void require_distinct(const std::vector<NamedFile>& files) {
  std::map<std::string, const NamedFile*> known;
  for (const FileRole role : {FileRole::input, FileRole::output, FileRole::updated}) {
    for (const NamedFile& file : files) {
      if (file.role != role) continue;
      const Identity identity = identity_of(file.path);
      // The value of an input flag may be a mnemonic; the reader reports a file that does not exist.
      if (identity.key.empty() || (role == FileRole::input && !identity.exists)) continue;
      const auto [other, is_new] = known.emplace(identity.key, &file);
      if (is_new || role == FileRole::input) continue;
      refuse(file.flag, file.path, fmt::format("{} {}", other->second->flag, shortened(other->second->path)),
             other->second->role == FileRole::input);
    }
  }
}

ReplacesNoInput::ReplacesNoInput(const Command& command)
    : command_(command),
      files_(command.named_files()),
      observer_([this](const std::string& path, FileUse use) { observe(path, use); }) {}

bool ReplacesNoInput::is_named(const std::string& path, FileUse use) const {
  return std::ranges::any_of(files_, [&](const NamedFile& file) {
    const bool is_below = path.size() > file.path.size() && path.starts_with(file.path) &&
                          (file.path.ends_with('/') || path[file.path.size()] == '/');
    return (file.role == FileRole::input) == (use == FileUse::read) && (path == file.path || is_below);
  });
}

bool ReplacesNoInput::is_on_command_line(const std::string& path) const {
  return std::ranges::any_of(command_.get_options(), [&](const CLI::Option* option) {
    return std::ranges::any_of(option->results(),
                               [&](const std::string& value) { return value.find(path) != std::string::npos; });
  });
}

void ReplacesNoInput::observe(const std::string& path, FileUse use) {
  const bool is_output = is_named(path, FileUse::write);
  if (!is_output && !(use == FileUse::read && is_named(path, use)) && is_on_command_line(path))
    throw std::logic_error(fmt::format("{} names a file with a flag that does not declare it", command_.get_name()));
  const Identity identity = identity_of(path);
  if (identity.key.empty() || !identity.exists) return;
  if (use == FileUse::read) {
    if (!is_output) read_.insert(identity.key);
  } else if (read_.contains(identity.key)) {
    refuse("output", path, "an input", true);
  }
}

}  // namespace bitmma::cli
