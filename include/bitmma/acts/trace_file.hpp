// SPDX-License-Identifier: MIT
// A file of the registers that a thread of a kernel wrote, step by step, to compare two runs.
//
//   step,line,register,bits,statement
//   12,18,%f10,0x3fc00000,"mul.f32 %f10,%f1,%f2;"
//
// One row for each register that a step wrote. Other programs can write such a file too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/kernel/thread_trace.hpp"

namespace bitmma {

struct TraceRow {
  int64_t step = 0;  // counts from 1
  int line = 0;      // line of the PTX
  std::string name = {};
  std::string bits = {};       // "0x3fc00000"; "true" and "false" of a predicate
  std::string statement = {};  // may be empty

  bool operator==(const TraceRow&) const = default;
};

/// The rows of a step.
std::vector<TraceRow> trace_rows(int64_t step, const ThreadStep& of);

void write_trace_file(const std::string& path, const std::vector<TraceRow>& rows);
/// Throws Error, which names the row, if the file is not a trace.
std::vector<TraceRow> read_trace_file(const std::string& path);

/// The first pair of rows that differ; one of them is absent if its file ends earlier.
struct [[nodiscard]] TraceDifference {
  std::optional<TraceRow> expected = {}, actual = {};
  size_t rows_before = 0;
};
std::optional<TraceDifference> first_difference(const std::vector<TraceRow>& expected,
                                                const std::vector<TraceRow>& actual);
std::string print(const TraceDifference& difference);

}  // namespace bitmma
