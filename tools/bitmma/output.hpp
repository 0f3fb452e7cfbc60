// SPDX-License-Identifier: MIT
// Printing of results: tables, colours, counts, progress, and JSON shared by several verbs.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/analysis/report.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/files/compare.hpp"
#include "commands.hpp"
#include "status_line.hpp"

namespace bitmma::cli {

/// `text` in the colour of the tone, if the terminal supports it.
std::string colored(const Context& context, Tone tone, const std::string& text);

/// "1 of 8 outputs differs", "2 of 8 outputs differ".
constexpr std::string_view differ(int64_t count) { return count == 1 ? "differs" : "differ"; }

/// Prints errors to stderr, one per line.
void print_errors(const Context& context, const std::vector<Violation>& violations);
/// Prints warnings to stderr, one per line. A warning that was printed before, for another case or target, is not
/// repeated.
void print_warnings(const Context& context, const std::vector<Violation>& warnings);

/// The same, for the events of an act.
std::function<void(const std::vector<Violation>&)> warnings_to(const Context& context);

/// Prints the text of a report, or with `json` its tree.
void show(const Context& context, const Report& report, bool json);

/// The meaning of "F = 25, RZ-23, floor -133", for help texts.
extern const std::string meaning_of_rule;

/// Announces on stderr the size of a large file and the approximate time to write it. If there are many cases, it calls
/// `make_one`, which makes one case and returns its size in bytes.
void announce_output(const Context& context, const std::string& path, int64_t cases, int threads,
                     const std::function<uint64_t()>& make_one);

/// Shows how many cases are done and the remaining time: a StatusLine on a terminal only, after half a second.
class ProgressLine {
 public:
  ProgressLine(const Context& context, std::string what, int64_t total)
      : context_(context), line_(context), what_(std::move(what)), total_(total) {}
  void update(int64_t done);
  /// For a total that grows during the work.
  void update(int64_t done, int64_t total) {
    total_ = total;
    update(done);
  }
  /// Adds `base` to what update() counts, for work in several parts.
  Progress from(int64_t base) {
    return [this, base](int64_t done) { update(base + done); };
  }

 private:
  const Context& context_;
  StatusLine line_;
  std::string what_;
  int64_t total_;
};

}  // namespace bitmma::cli
