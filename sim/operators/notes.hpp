// SPDX-License-Identifier: MIT
// What an operator writes down about the one output that is explained. All other outputs have a null pointer in its
// place.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/operators/trace.hpp"

namespace bitmma::operators {

inline constexpr std::string_view to_nearest = "to nearest even", each_to_nearest = "each operation to nearest even",
                                  is_exact = "exact";
inline constexpr const char* each_warp = "the 32 threads of each, at the offsets 16, 8, 4, 2, 1";

inline std::vector<uint32_t> words_of(float value) { return {std::bit_cast<uint32_t>(value)}; }
inline std::vector<uint32_t> words_of(std::span<const uint32_t> words) { return {words.begin(), words.end()}; }
inline std::vector<uint32_t> words_of(std::span<const float> values) {
  std::vector<uint32_t> words(values.size());
  std::ranges::transform(values, words.begin(), [](float number) { return std::bit_cast<uint32_t>(number); });
  return words;
}

class Notes {
 public:
  explicit Notes(OperatorTrace& trace) : trace_(trace) {}

  /// What the library chose.
  void choose(std::string what, std::string value) { trace_.plan.emplace_back(std::move(what), std::move(value)); }
  /// Later steps belong to this part.
  void begin(std::string part) { part_ = std::move(part); }
  void add(std::string what, std::string operation, std::string_view rounding, std::vector<uint32_t> words,
           Format format = Format::f32) {
    trace_.steps.push_back({.part = part_,
                            .what = std::move(what),
                            .operation = std::move(operation),
                            .rounding = std::string(rounding),
                            .format = format,
                            .words = std::move(words)});
  }
  /// How two values of a tree are joined: its steps, by note_joined, are to be read so.
  void join_by(std::string operation, std::string_view rounding) {
    choose("join", std::move(operation));
    join_rounding_ = rounding;
  }
  std::string_view join_rounding() const { return join_rounding_; }

 private:
  OperatorTrace& trace_;
  std::string part_;
  std::string_view join_rounding_ = to_nearest;
};

/// The values that lanes have after a step of a tree. Types of several numbers have an overload.
inline void note_joined(Notes& notes, std::string what, std::string operation, std::span<const float> values) {
  notes.add(std::move(what), std::move(operation), notes.join_rounding(), words_of(values));
}

/// The trace of an output. `run` computes the row, inside an IeeeEnvironment; `out` is noted at the end.
OperatorTrace trace_of(std::string_view name, const Matrix& out, int row, int col,
                       const std::function<void(Notes&)>& run);

/// Throws Error unless `seen` is in 0..count - 1.
void require_place(std::string_view field, int seen, int count);

}  // namespace bitmma::operators
