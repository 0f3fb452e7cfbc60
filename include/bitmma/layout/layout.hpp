// SPDX-License-Identifier: MIT
// Shape:stride layouts in the notation of CuTe, as plain run-time values.
//
//   ((8,2),(4,4)):((4,32),(1,64))      row 9 = (1,1), column 6 = (2,1):  1*4 + 1*32 + 2*1 + 1*64 = 102
//     rows  cols    rows    cols
//
// A coordinate is split into digits, the first one fastest; the last digit takes the rest, so coordinates beyond the
// extent also have an offset. Strides are in elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

struct LayoutDigit {
  int64_t extent = 1;
  int64_t stride = 0;

  bool operator==(const LayoutDigit&) const = default;
};

using LayoutMode = std::vector<LayoutDigit>;

/// Offset in elements of coordinate `index` along one mode.
int64_t offset_of(const LayoutMode& mode, int64_t index);

/// Offsets of coordinates 0 to count - 1.
std::vector<int64_t> offsets_of(const LayoutMode& mode, int64_t count);

struct [[nodiscard]] Layout {
  LayoutMode row = {};  // M or N
  LayoutMode col = {};  // K

  bool operator==(const Layout&) const = default;
};

/// Offset in elements of element (row, col).
int64_t offset_of(const Layout& layout, int64_t row, int64_t col);

/// "((8,2),(4,4)):((4,32),(1,64))".
std::string print(const Layout& layout);

}  // namespace bitmma
