// SPDX-License-Identifier: MIT
// What a thread of a kernel left in its registers, step by step, as a file: to compare two runs.
//
//   step,line,register,bits,statement
//   12,18,%f10,0x3fc00000,"mul.f32 %f10,%f1,%f2;"
//
// One row for each register that a step wrote. A program of one's own may write such a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bitmma/kernel/thread_trace.hpp"

namespace bitmma {

struct TraceRow {
  int64_t step = 0;  // the first is 1
  int line = 0;      // in the PTX
  std::string name = {};
  std::string bits = {};       // "0x3fc00000"; "true" and "false" of a predicate
  std::string statement = {};  // may be empty

  bool operator==(const TraceRow&) const = default;
};

/// The rows of a step.
std::vector<TraceRow> trace_rows(int64_t step, const ThreadStep& of);

void write_trace_file(const std::string& path, const std::vector<TraceRow>& rows);
/// Throws Error, naming the row, for a file that is no trace.
std::vector<TraceRow> read_trace_file(const std::string& path);

/// The first rows that are not the same; one of the two is nothing where a file ends.
struct TraceDifference {
  std::optional<TraceRow> expected = {}, actual = {};
  size_t rows_before = 0;
};
std::optional<TraceDifference> first_difference(const std::vector<TraceRow>& expected,
                                                const std::vector<TraceRow>& actual);
std::string print(const TraceDifference& difference);

}  // namespace bitmma
