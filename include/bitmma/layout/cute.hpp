// SPDX-License-Identifier: MIT
// Parses CuTe notation, as users see it when they check whether a descriptor matches their layout.
//
//   Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))       rows 64, columns 16, strides in elements, XOR on bytes
//   Swizzle<2,3,3> o ...                                        the same for 16-bit elements, as CuTe prints it after
//                                                               recast; <2,5,3> for 4-bit elements
//   Sw<2,4,3> o smem_ptr[16b](unset) o ((_8,_4,_2),(_8,_2)):... as CuTe prints it
//   GMMA::Layout_K_SW128_Atom<half_t>                           an atom by its name in CUTLASS, 8 x 64 here
//   tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, Shape<_128,_64,_3>{})
//   Swizzle<2,4,3> o ((T,4,m),(8,k)):((1,T,LBO),(4T,SBO))       a canonical layout in PTX's form; CuteSymbols gives m,
//                                                               k, LBO and SBO
//
// A layout of one mode is a column of rows; modes after the second are stages or tiles.
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

struct [[nodiscard]] CuteLayout {
  SwizzleInfo
      swizzle;  // base counts bytes, whatever the text's unit; `id` and `name` are set only if it is one of the modes
  Layout layout = {};
  int64_t rows = 1, cols = 1;
  std::vector<LayoutMode> more = {};      // modes after rows and columns
  int element_bits = 16;                  // from the text, or else from the caller
  bool says_element_bits = false;         // the text specifies them
  int64_t start_bytes = 0;                // from a pointer in the text; its lowest 18 bits, as in descriptors
  std::vector<std::string> remarks = {};  // conversions that the parser applied to the text

  /// Byte of element (row, col), `start` bytes after the start of the pattern.
  int64_t byte_of(int64_t row, int64_t col, int bits, int64_t start) const {
    return apply(swizzle, start + offset_of(layout, row, col) * bits / 8);
  }
  int64_t byte_of(int64_t row, int64_t col, int bits) const { return byte_of(row, col, bits, start_bytes); }
  /// Number of combinations of the modes after the second; 1 without them.
  int64_t stages() const;
  /// Offset in elements of stage `stage`; the first of those modes is fastest. Throws Error unless it is in 0..2^40.
  int64_t stage_offset(int64_t stage) const;
};

/// Values for the letters in PTX's canonical layouts; T is 128 / element bits. Strides are in bytes, as in
/// descriptors.
struct CuteSymbols {
  std::optional<int64_t> m = {}, k = {}, leading_dim_byte_offset = {}, stride_dim_byte_offset = {};
};

/// Parses CuTe's notation: "[Swizzle<B,M,S> o] SHAPE:STRIDE", where each mode is a number or a nested tuple, or the
/// name of an atom. A swizzle that is a mode in bytes is used as it is; one that is a mode in elements is converted,
/// with a note in `remarks`. `element_bits` applies if the text does not specify them. Throws Error with the position
/// of the mistake.
CuteLayout parse_cute(std::string_view text, int element_bits, const CuteSymbols& symbols = {});

/// The same, but calls `value_of` only for letters that occur in the text: "m", "k", "LBO" or "SBO".
using CuteSymbolValue = std::function<std::optional<int64_t>(std::string_view letter)>;
CuteLayout parse_cute(std::string_view text, int element_bits, const CuteSymbolValue& value_of);

/// The swizzle atom of a mode (PTX ISA, Table 38) in elements: 8 rows of the swizzle's width in K-major, 8 columns of
/// this width in MN-major. Throws Error for elements that do not fill 16 bytes.
CuteLayout cute_atom(Major major, Swizzle swizzle, int element_bits);
/// CUTLASS' name of the atom: "Layout_K_SW128".
std::string cute_atom_name(Major major, Swizzle swizzle);

/// "Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))", with the swizzle in bytes. With a start, or if the plain
/// form would read as counting elements: "Swizzle<3,3,3> o smem_ptr[16b](unset) o ...".
std::string print(const CuteLayout& cute);

/// "((T,4,m),(8,k)):((1,T,LBO),(4T,SBO))": the canonical layout of a mode in PTX's form.
std::string print_canonical(Major major, const SwizzleInfo& swizzle);

}  // namespace bitmma
