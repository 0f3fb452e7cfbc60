// SPDX-License-Identifier: MIT
#include "flag.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bitmma/core/text.hpp"
#include "commands.hpp"
#include "named_files.hpp"

namespace bitmma::cli {

void Command::callback(std::function<void()> body) {
  CLI::App::callback([this, body = std::move(body)] {
    require_distinct(named_files());
    const ReplacesNoInput guard(*this);
    body();
  });
}

std::vector<std::pair<const CLI::Option*, FileRole>> Command::file_options() const {
  std::vector<std::pair<const CLI::Option*, FileRole>> options;
  for (const FileOption& file : files_) options.emplace_back(file.option, file.role);
  return options;
}

std::vector<NamedFile> Command::named_files() const {
  std::vector<NamedFile> files;
  for (const FileOption& file : files_) {
    for (const std::string& value : file.option->results()) {
      for (const std::string& path : file.paths_in ? file.paths_in(value) : std::vector{value})
        files.push_back({.role = file.role, .flag = file.option->get_name(), .path = path});
    }
  }
  return files;
}

std::vector<Violation> Command::unread_flags() const {
  std::vector<Violation> violations;
  for (const auto& [option, was_read] : tracked_) {
    if (option->count() == 0 || *was_read) continue;
    const std::string value =
        option->get_items_expected_max() > 0 ? fmt::format(" {}", fmt::join(option->results(), " ")) : "";
    violations.push_back({.code = ViolationCode::unread_argument,
                          .field = option->get_name() + shortened(value),
                          .seen = "has no effect here; omit it"});
  }
  for (const CLI::App* below : get_subcommands()) {  // all of them are Commands: add_command creates them
    std::vector<Violation> more = static_cast<const Command*>(below)->unread_flags();
    std::ranges::move(more, std::back_inserter(violations));
  }
  return violations;
}

void Context::require_flags_acted() const {
  std::vector<Violation> unread = program->unread_flags();
  if (!unread.empty()) throw Error(std::move(unread));
}

}  // namespace bitmma::cli
