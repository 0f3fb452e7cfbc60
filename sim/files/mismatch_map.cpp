// SPDX-License-Identifier: MIT
#include "bitmma/files/mismatch_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/place.hpp"
#include "vector_parts.hpp"

namespace bitmma {
namespace {

/// Which of the indices 0 .. size - 1 differ anywhere.
using Which = std::vector<bool>;

bool all(const Which& which) { return std::ranges::find(which, false) == which.end(); }

/// "3, 17..20". Nothing if there are more than six ranges.
std::optional<std::string> ranges_of(const Which& which) {
  std::string text;
  int ranges = 0;
  for (size_t i = 0; i < which.size(); ++i) {
    if (!which[i]) continue;
    size_t end = i;
    while (end + 1 < which.size() && which[end + 1]) ++end;
    if (++ranges > 6) return std::nullopt;
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", i, end > i ? fmt::format("..{}", end) : "");
    i = end;
  }
  return text;
}

/// The shortest power of two after which `which` repeats; its size if it does not repeat.
size_t period_of(const Which& which) {
  for (size_t period = 2; period * 2 <= which.size(); period *= 2) {
    bool repeats = which.size() % period == 0;
    for (size_t i = period; i < which.size() && repeats; ++i) repeats = which[i] == which[i - period];
    if (repeats) return period;
  }
  return which.size();
}

/// "only rows 8..15 of every 16"; nothing if all differ, or if no short text describes them.
std::optional<std::string> pattern_of(std::string_view singular, std::string_view plural, const Which& which) {
  if (which.size() < 2 || all(which)) return std::nullopt;
  const size_t period = period_of(which);
  const Which first(which.begin(), which.begin() + static_cast<std::ptrdiff_t>(period));
  const bool repeats = period < which.size();
  const std::optional<std::string> ranges = ranges_of(first);
  if (!ranges) return std::nullopt;
  const bool single = !repeats && std::ranges::count(first, true) == 1;
  return fmt::format("only {} {}{}", single ? singular : plural, *ranges,
                     repeats ? fmt::format(" of every {}", period) : "");
}

void mark(Which& which, int index) {
  if (index < 0) return;
  const auto at = static_cast<size_t>(index);
  if (at >= which.size()) which.resize(at + 1);
  which[at] = true;
}

/// "rows 0 of every 8"; nothing if no short text describes them.
std::optional<std::string> some_of(std::string_view plural, const Which& which) {
  const std::optional<std::string> pattern = pattern_of(plural, plural, which);
  return pattern ? std::optional(pattern->substr(std::string_view("only ").size())) : std::nullopt;
}

/// "all but rows 0 of every 8 in columns 0 of every 8": the equal outputs are some rows of some columns.
std::optional<std::string> all_but(const MismatchMap& map) {
  Which rows(static_cast<size_t>(map.rows)), cols(static_cast<size_t>(map.cols));
  int64_t same = 0;
  for (int row = 0; row < map.rows; ++row) {
    for (int col = 0; col < map.cols; ++col) {
      if (map.count(row, col) != 0) continue;
      ++same;
      rows[static_cast<size_t>(row)] = cols[static_cast<size_t>(col)] = true;
    }
  }
  if (same < 2 || same != std::ranges::count(rows, true) * std::ranges::count(cols, true)) return std::nullopt;
  const std::optional<std::string> of_rows = some_of("rows", rows), of_cols = some_of("columns", cols);
  if (!of_rows || !of_cols) return std::nullopt;
  return fmt::format("all but {} in {}", *of_rows, *of_cols);
}

/// Which registers and columns of Tensor Memory hold outputs, and which hold outputs that differ.
struct Holders {
  Which warps, lanes_of_warp, registers, ctas, lanes;

  void add(const RegisterPlace& place) {
    mark(warps, place.thread / 32), mark(lanes_of_warp, place.thread % 32), mark(registers, place.reg);
  }
  void add(const TmemPlace& place) { mark(ctas, place.cta), mark(lanes, place.lane); }
  void add(const SmemRead&) {}
};

std::string_view mark_of(int64_t differ, int64_t outputs) { return differ == 0 ? "." : differ == outputs ? "#" : "+"; }

}  // namespace

Place place_in_tile(const PlaceMap& places, const Instruction& instruction, int row, int col) {
  if (!is_mma(instruction)) return places.place_of(row, col);
  const Mma mma = mma_of(instruction);
  return places.place_of(row % mma.m, col % mma.n);
}

PlaceMap places_of_d(const Instruction& instruction) {
  State nowhere;
  for (const FieldRule& rule : fields_of(instruction)) {
    if (info(rule.field).is_number) nowhere.set(rule.field, 0);
  }
  return {instruction, default_target(instruction), nowhere, Role::d};
}

MismatchMap& MismatchMap::operator+=(const MismatchMap& other) {
  if (other.cases == 0) return *this;
  if (cases == 0) return *this = other;
  cases += other.cases;
  if (rows != other.rows || cols != other.cols) {
    rows = cols = 0;
    counts.clear();
  }
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  return *this;
}

std::vector<int64_t> counts_by_row(const MismatchMap& map) {
  std::vector<int64_t> counts(static_cast<size_t>(map.rows));
  for (size_t i = 0; i < map.counts.size(); ++i) counts[i / static_cast<size_t>(map.cols)] += map.counts[i];
  return counts;
}

std::vector<int64_t> counts_by_col(const MismatchMap& map) {
  std::vector<int64_t> counts(static_cast<size_t>(map.cols));
  for (size_t i = 0; i < map.counts.size(); ++i) counts[i % static_cast<size_t>(map.cols)] += map.counts[i];
  return counts;
}

namespace {

/// Statements that hold for all mismatches; empty if there are none.
std::vector<std::string> found_patterns(const MismatchMap& map, const Instruction& instruction) {
  std::vector<std::string> patterns;
  const auto take = [&](std::string_view singular, std::string_view plural, const Which& which) {
    if (std::optional<std::string> pattern = pattern_of(singular, plural, which))
      patterns.push_back(std::move(*pattern));
  };
  Which rows(static_cast<size_t>(map.rows)), cols(static_cast<size_t>(map.cols));
  Holders differ, hold;
  const PlaceMap places = places_of_d(instruction);
  for (int row = 0; row < map.rows; ++row) {
    for (int col = 0; col < map.cols; ++col) {
      const Place place = place_in_tile(places, instruction, row, col);
      std::visit([&](const auto& alternative) { hold.add(alternative); }, place);
      if (map.count(row, col) == 0) continue;
      mark(rows, row), mark(cols, col);
      std::visit([&](const auto& alternative) { differ.add(alternative); }, place);
    }
  }
  const bool is_mma_result = is_mma(instruction);
  take(is_mma_result ? "row" : "thread or lane", is_mma_result ? "rows" : "threads or lanes", rows);
  take("column", "columns", cols);
  const auto take_holders = [&](std::string_view singular, std::string_view plural, Which which,
                                const Which& all_of_them) {
    which.resize(all_of_them.size());
    // A place that holds no output cannot differ.
    for (size_t i = 0; i < which.size(); ++i) {
      if (!all_of_them[i]) return;
    }
    take(singular, plural, which);
  };
  if (is_mma_result) {
    take_holders("warp", "warps", differ.warps, hold.warps);
    take_holders("lane of the warp", "lanes of the warp", differ.lanes_of_warp, hold.lanes_of_warp);
    take_holders("register", "registers", differ.registers, hold.registers);
    take_holders("CTA", "CTAs", differ.ctas, hold.ctas);
    take_holders("lane of Tensor Memory", "lanes of Tensor Memory", differ.lanes, hold.lanes);
  }
  if (patterns.empty() && is_mma_result) {
    if (std::optional<std::string> pattern = all_but(map)) patterns.push_back(std::move(*pattern));
  }
  return patterns;
}

}  // namespace

std::vector<std::string> patterns_of(const MismatchMap& map, const Instruction& instruction) {
  if (map.empty()) return {};
  std::vector<std::string> patterns = found_patterns(map, instruction);
  if (patterns.empty()) {
    const bool whole = std::ranges::find(map.counts, int64_t{0}) == map.counts.end();
    patterns.emplace_back(whole ? "everywhere" : "scattered: no rows, columns, warps or registers stand out");
  }
  return patterns;
}

bool has_pattern(const MismatchMap& map, const Instruction& instruction) {
  return !map.empty() && !found_patterns(map, instruction).empty();
}

DrawnMap draw(const MismatchMap& map) {
  constexpr int most_lines = 16, most_characters = 64;
  DrawnMap drawn;
  while (drawn.rows_per_line * most_lines < map.rows) drawn.rows_per_line *= 2;
  while (drawn.cols_per_character * most_characters < map.cols) drawn.cols_per_character *= 2;
  if (map.empty()) return drawn;
  for (int top = 0; top < map.rows; top += drawn.rows_per_line) {
    const int bottom = std::min(map.rows, top + drawn.rows_per_line);
    std::string& line = drawn.lines.emplace_back();
    for (int left = 0; left < map.cols; left += drawn.cols_per_character) {
      const int right = std::min(map.cols, left + drawn.cols_per_character);
      int64_t differ = 0;
      for (int row = top; row < bottom; ++row) {
        for (int col = left; col < right; ++col) differ += map.count(row, col);
      }
      line += mark_of(differ, map.cases * (bottom - top) * (right - left));
    }
  }
  return drawn;
}

}  // namespace bitmma
