// SPDX-License-Identifier: MIT
// Registers of a warp <-> codes in rows, for WarpProduct: the lanes and registers of memory/fragment.hpp, four rows at
// a time. Lane 4 g + q holds row g of A, B and D, so the words of a row are neighbours:
//
//   m16n8k16 f16, A      row g: q0 r0..3 | q1 r0..3 | q2 r0..3 | q3 r0..3      column (q, r): k = 2 q .., m = g + 8 (r
//   & 1)
//
// A, C and D are transposed by blocks of 4 x 4 words. B stays as it is. Chains of IEEE operations (WarpChain) have
// other lanes and 64-bit registers, and take one element after another.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
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

/// A fragment whose elements of 16, 32 or 64 bits become codes row by row, or column by column if it is transposed.
class ElementRegisters {
 public:
  ElementRegisters(const Fragment& fragment, bool is_transposed);
  /// One element to a code.
  template <typename Element, typename Code>
  void gather(const uint32_t* registers, Code* codes) const {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(registers);
    const uint16_t* const places = places_.data();  // copies, which the stores cannot change
    const size_t count = places_.size();
    for (size_t i = 0; i < count; ++i) {
      Element element;
      std::memcpy(&element, bytes + sizeof element * places[i], sizeof element);
      codes[i] = element;
    }
  }
  template <typename Element, typename Code>
  void scatter(const Code* codes, uint32_t* registers) const {
    auto* const bytes = reinterpret_cast<uint8_t*>(registers);
    const uint16_t* const places = places_.data();
    const size_t count = places_.size();
    for (size_t i = 0; i < count; ++i) {
      const auto element = static_cast<Element>(codes[i]);
      std::memcpy(bytes + sizeof element * places[i], &element, sizeof element);
    }
  }

 private:
  std::vector<uint16_t> places_;  // of each code, counted in elements from the first register
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
