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
#include <type_traits>
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
    for_each_run([=](auto constant, size_t first, uint16_t place) {
      constexpr size_t run = constant;
      Element elements[run];
      std::memcpy(elements, bytes + sizeof(Element) * place, sizeof elements);
      for (size_t i = 0; i < run; ++i) codes[first + i] = elements[i];
    });
  }
  template <typename Element, typename Code>
  void scatter(const Code* codes, uint32_t* registers) const {
    auto* const bytes = reinterpret_cast<uint8_t*>(registers);
    for_each_run([=](auto constant, size_t first, uint16_t place) {
      constexpr size_t run = constant;
      Element elements[run];
      for (size_t i = 0; i < run; ++i) elements[i] = static_cast<Element>(codes[first + i]);
      std::memcpy(bytes + sizeof(Element) * place, elements, sizeof elements);
    });
  }

 private:
  /// Calls visit(run, the first code, its place) for codes of which the places follow each other.
  template <typename Visit>
  void for_each_run(const Visit& visit) const {
    const auto in_runs = [&](auto run) {
      const uint16_t* const places = places_.data();  // copies, which the stores cannot change
      const size_t count = places_.size();
      for (size_t i = 0; i < count; i += run) visit(run, i, places[i]);
    };
    switch (run_) {
      case 8: return in_runs(std::integral_constant<size_t, 8>());
      case 4: return in_runs(std::integral_constant<size_t, 4>());
      case 2: return in_runs(std::integral_constant<size_t, 2>());
      default: return in_runs(std::integral_constant<size_t, 1>());
    }
  }

  std::vector<uint16_t> places_;  // of each code, counted in elements from the first register
  int run_ = 1;                   // so many codes at a time have places that follow each other
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
