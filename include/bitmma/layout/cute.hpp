// SPDX-License-Identifier: MIT
// CuTe notation, read: what people have on screen when they ask whether their descriptor means it.
//
//   Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))       rows 64, columns 16, strides in elements, XOR on bytes
//   Swizzle<2,3,3> o ...                                        the same for 16-bit elements, as CuTe has it after
//                                                               recast; <2,5,3> for 4-bit ones
//   Sw<2,4,3> o smem_ptr[16b](unset) o ((_8,_4,_2),(_8,_2)):... as CuTe prints it
//   GMMA::Layout_K_SW128_Atom<half_t>                           an atom by its name in CUTLASS, 8 x 64 here
//   tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, Shape<_128,_64,_3>{})
//   Swizzle<2,4,3> o ((T,4,m),(8,k)):((1,T,LBO),(4T,SBO))       a canonical layout as PTX writes it, with values for m,
//                                                               k, LBO and SBO from CuteSymbols
//
// Layouts of one mode are a column of rows; modes after the second are stages or tiles.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/layout/canonical.hpp"
#include "bitmma/layout/layout.hpp"
#include "bitmma/layout/swizzle.hpp"

namespace bitmma {

struct CuteLayout {
  SwizzleInfo
      swizzle;  // base counts bytes, whatever the text counted; `id` and `name` only where it is one of the modes
  Layout layout = {};
  int64_t rows = 1, cols = 1;
  std::vector<LayoutMode> more = {};  // modes after rows and columns
  int element_bits = 16;              // as the text says, or else the caller
  bool says_element_bits = false;     // the text does
  int64_t start_bytes = 0;            // where a pointer in the text says; its lowest 18 bits, as descriptors take it
  std::vector<std::string> remarks = {};  // what was read in another way than it stands there

  /// Byte of element (row, col), `start` bytes from where the pattern begins.
  int64_t byte_of(int64_t row, int64_t col, int bits, int64_t start) const {
    return apply(swizzle, start + offset_of(layout, row, col) * bits / 8);
  }
  int64_t byte_of(int64_t row, int64_t col, int bits) const { return byte_of(row, col, bits, start_bytes); }
  /// Combinations of the modes after the second, 1 without them.
  int64_t stages() const;
  /// Offset in elements of stage `stage`; the first of those modes runs fastest. Throws Error unless it is in 0..2^40.
  int64_t stage_offset(int64_t stage) const;
};

/// Values of the letters in PTX's canonical layouts; T is 128 / element bits. Strides in bytes, as descriptors have
/// them.
struct CuteSymbols {
  std::optional<int64_t> m = {}, k = {}, leading_dim_byte_offset = {}, stride_dim_byte_offset = {};
};

/// Reads CuTe's notation: "[Swizzle<B,M,S> o] SHAPE:STRIDE", each mode a number or a tuple, nested at will, or the name
/// of an atom. A swizzle that is a mode in bytes is taken so; else one that is a mode when it counts elements is
/// converted, and `remarks` says it. `element_bits` counts where the text does not say them. Throws Error with the
/// place of what is wrong.
CuteLayout parse_cute(std::string_view text, int element_bits, const CuteSymbols& symbols = {});

/// The same. `value_of` is called for each letter that stands in the text, "m", "k", "LBO" or "SBO", and for no other.
using CuteSymbolValue = std::function<std::optional<int64_t>(std::string_view letter)>;
CuteLayout parse_cute(std::string_view text, int element_bits, const CuteSymbolValue& value_of);

/// The swizzle atom of a mode (PTX ISA, Table 38) in elements: 8 rows of the swizzle's width in K-major, 8 columns of
/// it in MN-major. Throws Error for elements that do not fill 16 bytes.
CuteLayout cute_atom(Major major, Swizzle swizzle, int element_bits);
/// "Layout_K_SW128", as CUTLASS calls it.
std::string cute_atom_name(Major major, Swizzle swizzle);

/// "Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))", the swizzle in bytes. With a start, or where the plain form
/// would be read as counting elements, "Swizzle<3,3,3> o smem_ptr[16b](unset) o ...".
std::string print(const CuteLayout& cute);

/// "((T,4,m),(8,k)):((1,T,LBO),(4T,SBO))": the canonical layout of a mode as PTX writes it.
std::string print_canonical(Major major, const SwizzleInfo& swizzle);

}  // namespace bitmma
