// SPDX-License-Identifier: MIT
#include "bitmma/acts/launch_plan.hpp"

#include <fmt/format.h>

#include "../core/json.hpp"
#include "bitmma/core/error.hpp"
#include "launch_json.hpp"

namespace bitmma {
namespace {

constexpr int64_t most_launch_names = 10'000;

std::vector<LaunchPlan::Value> values_of(const Json& plan, const char* key) {
  std::vector<LaunchPlan::Value> values;
  if (!plan.contains(key)) return values;
  const Json& object = plan[key];
  const JsonReader reader(object, key);  // refuses what is no object
  if (std::ssize(object) > most_launch_names) reader.refuse("", fmt::format("at most {} names", most_launch_names));
  for (const auto& [name, value] : object.items()) values.push_back({.name = name, .value = reader.text(name.c_str())});
  return values;
}

}  // namespace

LaunchPlan parse_launch_plan(std::string_view json) {
  std::string repeated;
  const Json parsed = parse_json(json, 64, &repeated);
  if (parsed.is_discarded())
    throw Error({.code = ViolationCode::unusable_file,
                 .field = "launches",
                 .seen = repeated.empty() ? "text that is not JSON" : fmt::format("{} twice", repeated),
                 .expected = R"(JSON such as {"memory": {"x": "x.npy"}, "launches": [{"arguments": ["x"]}]})"});
  const JsonReader reader(parsed, "launches");
  reader.require_keys({"memory", "variables", "launches"});
  LaunchPlan plan{.memory = values_of(parsed, "memory"), .variables = values_of(parsed, "variables"), .launches = {}};
  const std::vector<Json> launches = reader.list("launches", most_launches);
  if (launches.empty()) reader.refuse("launches", "a list of launches");
  for (size_t i = 0; i < launches.size(); ++i) {
    const JsonReader row(launches[i], fmt::format("launches[{}]", i));
    row.require_keys({"entry", "grid", "block", "cluster", "shared_bytes", "cooperative", "arguments"});
    LaunchPlan::Launch launch;
    if (row.has("entry")) launch.entry = row.text("entry");
    if (row.has("grid")) launch.grid = launch_extents(row, "grid");
    if (row.has("block")) launch.block = launch_extents(row, "block");
    if (row.has("cluster")) launch.cluster = launch_extents(row, "cluster");
    if (row.has("shared_bytes")) launch.dynamic_shared_bytes = row.number("shared_bytes", most_launch_extent);
    if (row.has("cooperative")) launch.cooperative = row.flag("cooperative");
    launch.arguments = row.texts("arguments", most_launch_arguments);
    plan.launches.push_back(std::move(launch));
  }
  return plan;
}

}  // namespace bitmma
