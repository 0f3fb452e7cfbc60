// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "bitmma/acts/trace_file.hpp"
#include "bitmma/core/text.hpp"
#include "parts.hpp"

namespace bitmma::cli {

void compare_traces(Context& context, const std::string& expected_path, const std::string& actual_path, bool json) {
  const std::vector<TraceRow> expected = read_trace_file(expected_path), actual = read_trace_file(actual_path);
  if (expected.empty() && actual.empty())
    throw Error({.field = "rows of registers",
                 .seen = "0 in both files",
                 .expected = "1 or more",
                 .fix = "nothing was compared: trace a thread that runs"});
  const auto difference = first_difference(expected, actual);
  Report report{{"rows", std::ssize(expected)}, {"same", !difference}};
  if (difference) {
    report.add("rows_before", static_cast<int64_t>(difference->rows_before));
    report.add_text(fmt::format("differ after {}: {}", counted(static_cast<int64_t>(difference->rows_before), "row"),
                                print(*difference)),
                    Tone::bad);
    for (const auto& [name, row] :
         {std::pair("expected", &difference->expected), std::pair("actual", &difference->actual)}) {
      if (*row)
        report.add(name, {{"step", (*row)->step},
                          {"line", (*row)->line},
                          {"register", (*row)->name},
                          {"bits", (*row)->bits},
                          {"statement", (*row)->statement}});
    }
  } else {
    report.add_text(fmt::format("same: {} of registers", counted(std::ssize(expected), "row")), Tone::good);
  }
  context.exit_code = difference ? exit_differs : exit_same;
  show(context, report, json);
}

}  // namespace bitmma::cli
