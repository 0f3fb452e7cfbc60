// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bitmma/core/text.hpp"
#include "json_list.hpp"
#include "layout.hpp"
#include "output.hpp"

namespace bitmma::cli {
namespace {

/// "--thread, --register or --bit".
std::string list_of(const std::vector<std::string>& names, std::string_view last) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? fmt::format(" {} ", last) : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace

void MapFlags::ask(Command& command, const AskFlag& flag, const std::string& help) {
  // Options keep the address of their value, so the vector must not grow.
  asks.reserve(8);
  asks.push_back(flag);
  command.add_option(flag.flag, asks.back().value, help);
}

void MapFlags::add_row_and_col(Command& command) {
  ask(command, {.flag = "--row"}, "row of one element");
  ask(command, {.flag = "--col"}, "column of one element");
}

void MapFlags::add_outputs(Command& command) {
  svg.add(command);
  CLI::Option* const as_csv = command.add_flag("--csv", csv, "print the whole map as CSV");
  command.add_flag("--json", json, "the answer as JSON")->excludes(as_csv);
}

std::optional<int64_t> MapFlags::value_of(std::string_view flag) const {
  const auto at = std::ranges::find(asks, flag, &AskFlag::flag);
  return at == asks.end() ? std::nullopt : at->value.get();
}

bool MapFlags::has_question(bool is_place) const {
  return std::ranges::any_of(asks, [&](const AskFlag& flag) { return flag.value && flag.is_place == is_place; });
}

std::optional<MapQuestion> MapFlags::question(const ShownLayout& layout) const {
  if (!has_question(true) && !has_question(false)) return std::nullopt;
  std::vector<std::string> of_element, of_place;
  for (const AskFlag& flag : asks) {
    (flag.is_place ? of_place : of_element).push_back(flag.flag);
  }
  const bool is_place = has_question(true);
  if (!any_combination && is_place && has_question(false)) {
    throw Error({.code = ViolationCode::not_together,
                 .field = fmt::format("{}", fmt::join(of_element, ", ")),
                 .seen = list_of(of_place, "or"),
                 .expected = "one question: either where an element is, or which elements are at a place"});
  }
  std::vector<std::string> required, missing;
  for (const AskFlag& flag : asks) {
    if (flag.is_place != is_place || !flag.is_required || any_combination) continue;
    required.push_back(flag.flag);
    if (!flag.value) missing.push_back(flag.flag);
  }
  if (!missing.empty()) {
    throw Error({.code = ViolationCode::missing_argument,
                 .field = fmt::format("{}", fmt::join(missing, ", ")),
                 .seen = "missing",
                 .expected = required.size() == 1 ? fmt::format("{} beside {}", required[0], list_of(of_place, "and"))
                                                  : "both " + list_of(required, "and")});
  }
  MapQuestion question{};
  const Map& map = layout.map;
  std::vector<Violation> outside;
  const std::vector<size_t> own = map.element_axes();
  size_t next = 0;  // among the element's axes
  for (const AskFlag& flag : asks) {
    const size_t axis = flag.is_place ? map.axis(flag.axis) : own[next++];
    if (flag.is_place != is_place && !any_combination) continue;
    const std::optional<int64_t> value = flag.value ? flag.value.get() : flag.fallback;
    const int64_t extent = map.axes[axis].extent;
    question[axis] = value;
    if (!value || (*value >= 0 && (extent == 0 || *value < extent))) continue;
    outside.push_back({.field = flag.flag,
                       .seen = std::to_string(*value),
                       .expected = extent == 0 ? "0 or more" : fmt::format("0..{}", extent - 1),
                       .fix = layout.fix});
  }
  if (!outside.empty()) throw Error(std::move(outside));
  return question;
}

void MapFlags::show(Context& context, const ShownLayout& layout) const {
  const Map& map = layout.map;
  const std::optional<MapQuestion> wanted = question(layout);
  std::vector<MapEntry> entries;
  if (wanted) entries = map.elements_at(*wanted);
  if (wanted && entries.empty()) {
    std::vector<std::string> place;
    for (const AskFlag& flag : asks) {
      if (flag.value) place.push_back(fmt::format("{} {}", flag.flag.substr(2), *flag.value));
    }
    return answer_nothing(context, json, list_of(place, "and") + layout.where);
  }
  if (svg.is_given()) return svg.write(context, picture_of(map, entries, size()));
  const auto for_each = [&](const auto& visit) {
    if (wanted) std::ranges::for_each(entries, visit);
    else map.for_each({}, visit);
  };
  const bool is_object =
      wanted && entries.size() == 1 && (has_question(true) ? layout.has_object_of_place : layout.has_object_of_element);
  if (json && is_object) {
    cli::show(context, describe_entry(map, entries[0]), true);
  } else if (json) {
    JsonList list = wanted || layout.header == Report() ? JsonList(context.out())
                                                        : JsonList(context.out(), layout.header, "elements");
    for_each([&](const MapEntry& entry) { list.add(describe_entry(map, entry)); });
    list.end();
  } else if (csv || wanted) {
    context.out() << csv_heading(map);
    for_each([&](const MapEntry& entry) { context.out() << csv_line(map, entry); });
  } else {
    const std::string picture = to_text(picture_of(map, {}, size()));
    context.out() << picture;
  }
}

}  // namespace bitmma::cli
