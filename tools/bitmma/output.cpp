// SPDX-License-Identifier: MIT
#include "output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"

namespace bitmma::cli {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string colored(const Context& context, Tone tone, const std::string& text) {
  return context.terminal.color ? colored(text, tone) : text;
}

namespace {

/// The word in front of a message.
std::string headed(const Context& context, std::string_view word, Tone tone) {
  return (context.terminal.error_color ? colored(word, tone) : std::string(word)) + " ";
}

}  // namespace

void print_errors(const Context& context, const std::vector<Violation>& violations) {
  for (const Violation& violation : violations) {
    context.terminal.err << headed(context, "error:", Tone::bad) << print(violation) << '\n';
    if (context.terminal.violations) context.terminal.violations->push_back(violation);
  }
}

void print_warnings(const Context& context, const std::vector<Violation>& warnings) {
  if (!warnings.empty()) context.stop_heartbeat();
  for (const Violation& warning : warnings) {
    const std::string line = print(warning);
    if (!context.printed_warnings.insert(line).second) continue;
    context.terminal.err << headed(context, "warning:", Tone::warning) << line << '\n';
    if (context.terminal.violations) context.terminal.violations->push_back(warning);
  }
}

std::function<void(const std::vector<Violation>&)> warnings_to(const Context& context) {
  return [&context](const std::vector<Violation>& warnings) { print_warnings(context, warnings); };
}

void show(const Context& context, const Report& report, bool json) {
  context.out() << (json ? to_json(report, 2) + '\n' : print(report, context.terminal.color));
}

const std::string meaning_of_rule =
    "\"F = 25, RZ-23, floor -133\" means: products and C are aligned to the largest exponent among them, but at least "
    "to\nthe floor, truncated to F fraction bits and added exactly. The sum is rounded once: RZ-23 toward zero to 23 "
    "fraction\nbits, RNE-10 to nearest even to 10 fraction bits.\n";

namespace {

std::string print_duration(double seconds) {
  return seconds < 120    ? fmt::format("{:.0f} s", seconds)
         : seconds < 7200 ? fmt::format("{:.0f} minutes", seconds / 60)
                          : fmt::format("{:.0f} hours", seconds / 3600);
}

std::string print_gigabytes(double bytes) {
  return bytes < 1e12 ? fmt::format("{:.1f} GB", bytes / 1e9) : fmt::format("{:.1f} TB", bytes / 1e12);
}

}  // namespace

void announce_output(const Context& context, const std::string& path, int64_t cases, int threads,
                     const std::function<uint64_t()>& make_one) {
  constexpr int64_t few_cases = 64;
  constexpr double large_bytes = 500e6, long_seconds = 30, refused_bytes = 9e18;
  if (cases < few_cases) return;
  const double started = seconds_now();
  const double bytes = static_cast<double>(make_one()) * static_cast<double>(cases);
  const double seconds = (seconds_now() - started) * static_cast<double>(cases) / std::min(threads, hardware_threads());
  if ((bytes < large_bytes && seconds < long_seconds) || bytes > refused_bytes) return;
  context.terminal.err << fmt::format("{}: {}, {}, at most about {}\n", printable(path), counted(cases, "case"),
                                      print_gigabytes(bytes), print_duration(seconds));
}

void ProgressLine::update(int64_t done) {
  const double seconds = line_.seconds();
  if (!context_.terminal.progress || seconds < 0.5) return;
  line_.update([&] {
    const double rate = static_cast<double>(done) / seconds;
    const double left = rate > 0 ? static_cast<double>(total_ - done) / rate : 0;
    return fmt::format("{}: {} of {}, {:.0f} cases/s, {:.0f} s left", what_, done, counted(total_, "case"), rate, left);
  });
}

}  // namespace bitmma::cli
