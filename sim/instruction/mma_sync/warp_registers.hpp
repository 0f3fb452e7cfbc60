// SPDX-License-Identifier: MIT
// Registers of a warp <-> codes in rows, for WarpProduct: the lanes and registers of memory/fragment.hpp, four rows at
// a time. Lane 4 g + q holds row g of A, B and D, so the words of a row are neighbours:
//
//   m16n8k16 f16, A      row g: q0 r0..3 | q1 r0..3 | q2 r0..3 | q3 r0..3      column (q, r): k = 2 q .., m = g + 8 (r
//   & 1)
//
// A, C and D are transposed by blocks of 4 x 4 words. B stays as it is.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "../../arithmetic/warp_product.hpp"
#include "bitmma/memory/fragment.hpp"

namespace bitmma::family {

/// A fragment whose rows become columns: element (row, col) is code place(col) * WarpProduct::cols + row.
class TransposedRegisters {
 public:
  TransposedRegisters() = default;
  /// `shift` and `bits`: where a code is in its container.
  TransposedRegisters(const Fragment& fragment, int shift, int bits, const std::function<int(int col)>& place);
  void gather(const uint32_t* registers, uint32_t* codes) const;
  /// For elements that fill their containers.
  void scatter(const uint32_t* codes, uint32_t* registers) const;

 private:
  int columns_ = 0, per_register_ = 1, shift_ = 0;
  uint32_t mask_ = 0;
  std::vector<uint16_t> codes_ = {};  // for each position of each column the code of row 0 or 8; rows follow
};

/// A fragment of B: element (n, k) is code n * stride + place(k).
class BRegisters {
 public:
  BRegisters() = default;
  BRegisters(const Fragment& fragment, int shift, int bits, int stride, const std::function<int(int k)>& place);
  void gather(const uint32_t* registers, uint32_t* codes) const;

 private:
  int registers_ = 0, per_register_ = 1, shift_ = 0, stride_ = 0;
  uint32_t mask_ = 0;
  std::vector<uint16_t> codes_ = {};  // place(k) for every k
};

}  // namespace bitmma::family
