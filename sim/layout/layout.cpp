// SPDX-License-Identifier: MIT
#include "bitmma/layout/layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bitmma/core/error.hpp"

namespace bitmma {

namespace {

/// Checks that no digit is a zero divisor and that sums of digits fit.
void require_sound(const LayoutMode& mode, int64_t index) {
  constexpr int64_t most = int64_t{1} << 40;
  int64_t reach = 0;
  for (const LayoutDigit& digit : mode) {
    int64_t step = 0;
    const bool fits = digit.extent >= 1 && !__builtin_mul_overflow(digit.stride, index, &step) &&
                      !__builtin_add_overflow(reach, step < 0 ? -step : step, &reach);
    if (fits) continue;
    throw Error({.field = "layout",
                 .seen = fmt::format("extent {}, stride {}", digit.extent, digit.stride),
                 .expected = "extents of 1 or more, and offsets below 2^63"});
  }
  if (index >= 0 && index <= most) return;
  throw Error({.field = "coordinate", .seen = std::to_string(index), .expected = "0..2^40"});
}

}  // namespace

int64_t offset_of(const LayoutMode& mode, int64_t index) {
  require_sound(mode, index);
  int64_t offset = 0;
  for (size_t i = 0; i + 1 < mode.size(); ++i) {
    offset += index % mode[i].extent * mode[i].stride;
    index /= mode[i].extent;
  }
  return mode.empty() ? 0 : offset + index * mode.back().stride;
}

std::vector<int64_t> offsets_of(const LayoutMode& mode, int64_t count) {
  require_sound(mode, count);
  std::vector<int64_t> offsets(static_cast<size_t>(count));
  int64_t done = std::min(count, int64_t{1});
  for (size_t i = 0; i < mode.size(); ++i) {
    const int64_t before = done, extent = i + 1 < mode.size() ? mode[i].extent : count;
    const int64_t end = std::min(count, extent * before);
    while (done < end) {
      const int64_t more = std::min(before, end - done);
      for (int64_t at = 0; at < more; ++at)
        offsets[static_cast<size_t>(done + at)] = offsets[static_cast<size_t>(done - before + at)] + mode[i].stride;
      done += more;
    }
  }
  return offsets;
}

int64_t offset_of(const Layout& layout, int64_t row, int64_t col) {
  return offset_of(layout.row, row) + offset_of(layout.col, col);
}

namespace {
std::string print_mode(const LayoutMode& mode, int64_t LayoutDigit::*member) {
  std::vector<int64_t> values;
  for (const LayoutDigit& digit : mode) values.push_back(digit.*member);
  return fmt::format("({})", fmt::join(values, ","));
}
}  // namespace

std::string print(const Layout& layout) {
  return fmt::format("({},{}):({},{})", print_mode(layout.row, &LayoutDigit::extent),
                     print_mode(layout.col, &LayoutDigit::extent), print_mode(layout.row, &LayoutDigit::stride),
                     print_mode(layout.col, &LayoutDigit::stride));
}

}  // namespace bitmma
