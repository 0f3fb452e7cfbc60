// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "bitmma/acts/launch_file.hpp"
#include "bitmma/core/text.hpp"
#include "launch_limit_flags.hpp"
#include "parts.hpp"

namespace bitmma::cli {
namespace {

std::string print_extents(const std::array<int64_t, 3>& extents) { return fmt::format("{}", fmt::join(extents, ",")); }

/// The name of a launch in messages: "softmax, grid 4,1,1, block 128,1,1 (my label)".
std::string print_launch(const RecordedLaunch& launch) {
  return fmt::format("{}, grid {}, block {}{}", printable(launch.entry), print_extents(launch.grid),
                     print_extents(launch.block), launch.label.empty() ? "" : fmt::format(" ({})", launch.label));
}

/// Launches of one kernel.
struct KernelGroup {
  int64_t launches = 0, refused = 0, changed = 0, differing = 0;
};

}  // namespace

struct VerifiedLaunches::State {
  LaunchLimitFlags limits;
  std::vector<LaunchFile> files;
};

VerifiedLaunches::VerifiedLaunches() : state_(std::make_unique<State>()) {}
VerifiedLaunches::~VerifiedLaunches() = default;

void VerifiedLaunches::add(Command& command) { state_->limits.add(command); }

bool VerifiedLaunches::take(TensorFile& file) {
  if (!has_launches(file)) return false;
  state_->files.push_back(as_launch_file(std::move(file)));
  return true;
}

int64_t VerifiedLaunches::count() const {
  int64_t count = 0;
  for (const LaunchFile& file : state_->files) count += std::ssize(file.launches);
  return count;
}

int VerifiedLaunches::verify(int threads, ProgressLine& progress, int64_t units_before, Report& report) const {
  std::map<std::string, KernelGroup> groups;
  KernelGroup total;
  Report results = Report::list();
  std::vector<std::string> failures;
  for (const LaunchFile& file : state_->files) {
    const std::vector<LaunchComparison> done =
        bitmma::verify(file, threads, progress.from(units_before + total.launches), state_->limits.limits());
    for (size_t i = 0; i < done.size(); ++i) {
      const LaunchComparison& comparison = done[i];
      const RecordedLaunch& launch = file.launches[i];
      const std::string name = fmt::format("{}: launch {}, {}", printable(file.file.path), i, print_launch(launch));
      for (KernelGroup* const group : {&groups[launch.entry], &total}) {
        ++group->launches;
        group->refused += !comparison.refused.empty();
        group->changed += comparison.changed_bytes;
        group->differing += comparison.differing_bytes;
      }
      const std::vector<Violation> refused = in_flags(comparison.refused, flags_of_limits);
      for (const Violation& violation : refused) failures.push_back(fmt::format("{}: {}", name, print(violation)));
      if (comparison.first) {
        failures.push_back(fmt::format(
            "{}: {} of {} that the GPU changed {}, first byte {} of memory {}: expected {:#04x}, actual {:#04x}{}{}",
            name, comparison.differing_bytes, counted(comparison.changed_bytes, "byte"),
            differ(comparison.differing_bytes), comparison.first->offset, comparison.first->memory,
            comparison.first->expected, comparison.first->actual,
            comparison.order_matters
                ? "; its atomics add floating-point numbers, in an order that a GPU does not define"
                : "",
            comparison.unsure_fusions > 0 ? "; bitmma run --fusions shows uncertain fusions of products and sums"
                                          : ""));
      }
      results.append(Report{{"file", file.file.path},
                            {"launch", i},
                            {"kernel", launch.entry},
                            {"label", launch.label},
                            {"target", print(file.target)},
                            {"changed_bytes", comparison.changed_bytes},
                            {"differing_bytes", comparison.differing_bytes},
                            {"thread_instructions", comparison.thread_instructions},
                            {"unsure_fusions", comparison.unsure_fusions},
                            {"order_matters", comparison.order_matters},
                            {"refused", refused}});
    }
  }
  std::vector<std::vector<std::string>> table{{"kernel", "launches", "bytes changed", "differing", "refused"}};
  for (const auto& [name, group] : groups) {
    table.push_back({printable(name), std::to_string(group.launches), std::to_string(group.changed),
                     std::to_string(group.differing), std::to_string(group.refused)});
  }
  report.update({{"launches", std::move(results)}});
  report.add_text(print_table(table) + "\n");
  for (const std::string& failure : failures) report.add_text(failure);
  const bool is_same = total.differing + total.refused == 0;
  report.add_text(fmt::format("launches {}, bytes changed {}, differing {}, refused {}", total.launches, total.changed,
                              total.differing, total.refused),
                  is_same ? Tone::good : Tone::bad);
  return total.refused > 0 ? exit_bad_request : total.differing > 0 ? exit_differs : exit_same;
}

}  // namespace bitmma::cli
