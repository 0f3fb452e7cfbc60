// SPDX-License-Identifier: MIT
// How results are printed: tables, colours, counts, progress, JSON of what several verbs show.
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

/// `text` in the colour of the tone if the terminal takes it.
std::string colored(const Context& context, Tone tone, const std::string& text);

/// "1 of 8 outputs differs", "2 of 8 outputs differ".
constexpr std::string_view differ(int64_t count) { return count == 1 ? "differs" : "differ"; }

/// Prints warnings to stderr, each a line. One that was printed before, of another case or target, is not printed
/// again.
void print_warnings(const Context& context, const std::vector<Violation>& warnings);

/// Prints the text of a report, or with `json` its tree.
void show(const Context& context, const Report& report, bool json);

/// What "F = 25, RZ-23, floor -133" means, for help.
extern const std::string meaning_of_rule;

/// Says on stderr how large the file will be and about how long it takes, before either is large. Calls `make_one`,
/// which makes one case and gives its bytes, once and only where there are many cases.
void announce_output(const Context& context, const std::string& path, int64_t cases, int threads,
                     const std::function<uint64_t()>& make_one);

/// How many cases are done and how long the others take: a StatusLine on a terminal only, after half a second.
class ProgressLine {
 public:
  ProgressLine(const Context& context, std::string what, int64_t total)
      : context_(context), line_(context), what_(std::move(what)), total_(total) {}
  void update(int64_t done);
  /// Where the total grows while the work goes on.
  void update(int64_t done, int64_t total) {
    total_ = total;
    update(done);
  }
  /// Adds to what update() counts, for work in several pieces.
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
