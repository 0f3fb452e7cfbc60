// SPDX-License-Identifier: MIT
#include "flag.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bitmma/core/text.hpp"
#include "commands.hpp"

namespace bitmma::cli {

std::vector<Violation> Command::unread_flags() const {
  std::vector<Violation> found;
  for (const auto& [option, was_read] : tracked_) {
    if (option->count() == 0 || *was_read) continue;
    const std::string value =
        option->get_items_expected_max() > 0 ? fmt::format(" {}", fmt::join(option->results(), " ")) : "";
    found.push_back({.code = ViolationCode::unread_argument,
                     .field = option->get_name() + shortened(value),
                     .seen = "has no effect here; omit it"});
  }
  for (const CLI::App* below : get_subcommands()) {  // all of them are Commands: add_command creates them
    std::vector<Violation> more = static_cast<const Command*>(below)->unread_flags();
    std::ranges::move(more, std::back_inserter(found));
  }
  return found;
}

void Context::require_flags_acted() const {
  std::vector<Violation> found = program->unread_flags();
  if (!found.empty()) throw Error(std::move(found));
}

}  // namespace bitmma::cli
