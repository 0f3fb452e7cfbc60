// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bitmma/core/text.hpp"
#include "bitmma/files/file.hpp"
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

Report report_of_entry(const Map& map, const MapEntry& entry) {
  Report report = Report::object();
  for (size_t i = 0; i < map.axes.size(); ++i) {
    if (map.axes[i].kind != AxisKind::array_only) report.add(std::string(map.axes[i].name), entry[i]);
  }
  return report;
}

bool is_in_csv(const MapAxis& axis) { return axis.kind != AxisKind::json_only && axis.kind != AxisKind::array_only; }

std::string csv_heading(const Map& map) {
  std::string line;
  for (const MapAxis& axis : map.axes) {
    if (is_in_csv(axis)) line += fmt::format("{}{}", line.empty() ? "" : ",", axis.name);
  }
  return line + "\n";
}

std::string csv_line(const Map& map, const MapEntry& entry) {
  std::string line;
  for (size_t i = 0; i < map.axes.size(); ++i) {
    if (is_in_csv(map.axes[i])) line += fmt::format("{}{}", line.empty() ? "" : ",", entry[i]);
  }
  return line + "\n";
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

bool MapFlags::asked(bool is_place) const {
  return std::ranges::any_of(asks, [&](const AskFlag& flag) { return flag.value && flag.is_place == is_place; });
}

std::optional<MapQuestion> MapFlags::question(const Map& map, const MapAnswer& answer) const {
  if (!asked(true) && !asked(false)) return std::nullopt;
  std::vector<std::string> of_element, of_place;
  for (const AskFlag& flag : asks) {
    (flag.is_place ? of_place : of_element).push_back(flag.flag);
  }
  const bool is_place = asked(true);
  if (!any_combination && is_place && asked(false)) {
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
                       .fix = answer.fix});
  }
  if (!outside.empty()) throw Error(std::move(outside));
  return question;
}

void MapFlags::show(Context& context, const Map& map, const MapAnswer& answer) const {
  const std::optional<MapQuestion> asked_for = question(map, answer);
  std::vector<MapEntry> found;
  if (asked_for) found = map.elements_at(*asked_for);
  if (asked_for && found.empty()) {
    std::vector<std::string> place;
    for (const AskFlag& flag : asks) {
      if (flag.value) place.push_back(fmt::format("{} {}", flag.flag.substr(2), *flag.value));
    }
    return answer_nothing(context, json, list_of(place, "and") + answer.where);
  }
  if (svg.asked()) return svg.write(context, picture_of(map, found, size()));
  const auto for_each = [&](const auto& visit) {
    if (asked_for) std::ranges::for_each(found, visit);
    else map.for_each({}, visit);
  };
  const bool is_object =
      asked_for && found.size() == 1 && (asked(true) ? answer.has_object_of_place : answer.has_object_of_element);
  if (json && is_object) {
    cli::show(context, report_of_entry(map, found[0]), true);
  } else if (json) {
    JsonList list = asked_for || answer.header == Report() ? JsonList(context.out())
                                                           : JsonList(context.out(), answer.header, "elements");
    for_each([&](const MapEntry& entry) { list.add(report_of_entry(map, entry)); });
    list.end();
  } else if (csv || asked_for) {
    context.out() << csv_heading(map);
    for_each([&](const MapEntry& entry) { context.out() << csv_line(map, entry); });
  } else {
    const std::string picture = to_text(picture_of(map, {}, size()));
    context.out() << picture;
  }
}

void answer_nothing(Context& context, bool json, const std::string& place) {
  if (json) context.out() << "[]\n";
  context.terminal.err << fmt::format("{} holds no element\n", place);
  context.exit_code = exit_differs;
}

void SvgFlag::write(const Context& context, const Picture& picture) const {
  const std::string& name = path;
  const size_t end = name.find_last_of("./");
  if (end != std::string::npos && name[end] == '.' && !name.ends_with(".svg") && !name.ends_with(".SVG"))
    throw Error({.field = "--svg", .seen = name, .expected = "a name that ends in .svg: pictures are always SVG"});
  context.require_flags_acted();
  write_whole(path, [&](std::ostream& stream) { stream << to_svg(picture); });
  context.terminal.err << fmt::format("{}: {}\n", printable(path), picture.title);
}

}  // namespace bitmma::cli
