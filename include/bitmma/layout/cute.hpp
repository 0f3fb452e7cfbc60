// CuTe notation, read: what people have on screen when they ask whether their descriptor means it.
//
//   Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))       rows 64, columns 16, strides in elements, XOR on bytes
//   Swizzle<2,3,3> o ...                                        the same for 16-bit elements, as CuTe has it after
//   recast
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bitmma/layout/layout.hpp"
#include "bitmma/layout/swizzle.hpp"

namespace bitmma {

struct CuteLayout {
  SwizzleInfo
      swizzle;  // base counts bytes, whatever the text counted; `id` and `name` only where it is one of the modes
  Layout layout = {};
  int64_t rows = 1, cols = 1;

  /// Byte of element (row, col), `start` bytes from where the pattern begins.
  int64_t byte_of(int64_t row, int64_t col, int element_bits, int64_t start = 0) const {
    return apply(swizzle, start + offset_of(layout, row, col) * element_bits / 8);
  }
};

/// Reads "[Swizzle<B,M,S> o] SHAPE:STRIDE" with two modes, each a number or a tuple, nested at will. Swizzles that
/// count elements (M + log2 of the element's bytes = 4 or 5) are taken as such. Throws Error with the place of what is
/// wrong.
CuteLayout parse_cute(std::string_view text, int element_bits);

/// "Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))", the swizzle in bytes.
std::string print(const CuteLayout& cute);

}  // namespace bitmma
