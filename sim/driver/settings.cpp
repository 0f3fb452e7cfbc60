// SPDX-License-Identifier: MIT
#include "settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "bitmma/core/parallel.hpp"
#include "bitmma/driver/gpus.hpp"
#include "report.hpp"

namespace bitmma::driver {
namespace {

std::string variable(std::string_view name) {
  const char* const value = std::getenv(fmt::format("BITMMA_EXEC_{}", name).c_str());
  return value ? value : "";
}

/// Calls `set` with the value of a variable that is there; one that it refuses is reported.
template <typename Set>
void take(std::string_view name, const Set& set) {
  const std::string text = variable(name);
  if (!text.empty() && !set(std::string_view(text)))
    Report::print(fmt::format("BITMMA_EXEC_{} = {}: not a legal value, and ignored", name, text));
}

template <typename Number>
auto number_of(Number& number) {
  return [&number](std::string_view text) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
  };
}

Settings from_environment() {
  Settings settings;
  take("GPU", [&](std::string_view text) { return settings.gpu = text, gpu_named(text) != nullptr; });
  if (!gpu_named(settings.gpu)) settings.gpu = "H100";
  take("MEMORY", number_of(settings.memory_bytes));
  settings.threads = hardware_threads();
  take("THREADS", number_of(settings.threads));
  take("CHECKS", [&](std::string_view text) { return settings.checks = text != "0", text == "0" || text == "1"; });
  take("RACES", [&](std::string_view text) {
    settings.races = text == "warning" ? RaceCheck::warning : text == "off" ? RaceCheck::off : RaceCheck::fault;
    return text == "fault" || text == "warning" || text == "off";
  });
  take("CLOCK", [&](std::string_view text) { return number_of(settings.clock.emplace())(text); });
  take("AUTOTUNE", [&](std::string_view text) {
    return settings.measures_first = text != "all", text == "first" || text == "all";
  });
  settings.is_quiet = variable("QUIET") == "1";
  settings.json = variable("JSON");
  settings.record = variable("RECORD");
  take("PROCESS", number_of(settings.process));
  return settings;
}

}  // namespace

const Settings& settings() {
  static const Settings& values = *new Settings(from_environment());  // used until the process ends
  return values;
}

std::string file_of_process(const std::string& path) {
  const int64_t process = getpid();
  if (settings().process == 0 || settings().process == process) return path;
  const size_t name = path.rfind('/') + 1, dot = path.rfind('.');
  const size_t at = dot == std::string::npos || dot <= name ? path.size() : dot;
  return fmt::format("{}.{}{}", path.substr(0, at), process, path.substr(at));
}

}  // namespace bitmma::driver
