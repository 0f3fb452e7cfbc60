// SPDX-License-Identifier: MIT
#include "bitmma/core/target.hpp"

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma {

std::optional<Target> target_named(std::string_view name) {
  for (const TargetInfo& row : targets) {
    if (row.name == name) return row.id;
  }
  return std::nullopt;
}

Target parse_target(std::string_view name) {
  if (const std::optional<Target> target = target_named(name)) return *target;
  throw Error(
      {.code = ViolationCode::unknown_name, .field = "target", .seen = shortened(name), .legal = row_names(targets)});
}

std::string print(const TargetSet& set) {
  if (!set.empty() && set == TargetSet::from(set.first()) && set.first() != targets.back().id)
    return std::string(print(set.first())) + " and later";
  std::string text;
  for (const TargetInfo& row : targets) {
    if (set.contains(row.id)) text += (text.empty() ? "" : " or ") + std::string(row.name);
  }
  return text;
}

}  // namespace bitmma
