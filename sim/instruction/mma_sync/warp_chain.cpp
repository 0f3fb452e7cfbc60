// SPDX-License-Identifier: MIT
#include "warp_chain.hpp"

#include <array>
#include <cstring>

#include "../../arithmetic/fma_loops.hpp"
#include "../family.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/memory/fragment.hpp"

namespace bitmma::family {
namespace {

constexpr int cols = 8;
constexpr size_t most_of_f64 = 16 * 16;               // A of m16n8k16
constexpr size_t most_of_f16 = size_t{4} * 8 * cols;  // C and D of four products

std::vector<uint16_t> places_in(const Fragment& fragment, bool is_transposed) {
  const int rows = is_transposed ? fragment.cols : fragment.rows,
            columns = is_transposed ? fragment.rows : fragment.cols;
  std::vector<uint16_t> places;
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < columns; ++col) {
      const RegisterPlace place = is_transposed ? place_of(fragment, col, row) : place_of(fragment, row, col);
      places.push_back(
          static_cast<uint16_t>((place.thread * fragment.registers() + place.reg) * fragment.elements_per_register() +
                                place.bit / fragment.element_bits));
    }
  }
  return places;
}

/// Copies elements out of the registers, one to a code. The low bits of a code come first.
template <typename Element, typename Code>
void gather(const std::vector<uint16_t>& places, const uint32_t* registers, Code* codes) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(registers);
  const size_t count = places.size();
  for (size_t i = 0; i < count; ++i) {
    Element element;
    std::memcpy(&element, bytes + sizeof element * places[i], sizeof element);
    codes[i] = element;
  }
}

template <typename Element, typename Code>
void scatter(const std::vector<uint16_t>& places, const Code* codes, uint32_t* registers) {
  auto* const bytes = reinterpret_cast<uint8_t*>(registers);
  const size_t count = places.size();
  for (size_t i = 0; i < count; ++i) {
    const auto element = static_cast<Element>(codes[i]);
    std::memcpy(bytes + sizeof element * places[i], &element, sizeof element);
  }
}

}  // namespace

std::optional<WarpChain> WarpChain::of(const MmaSync& instruction, const AccumulatorModel& model) {
  if (model.arithmetic != Arithmetic::fma_chain && model.arithmetic != Arithmetic::fma_pairs) return std::nullopt;
  return WarpChain(instruction, model);
}

WarpChain::WarpChain(const MmaSync& instruction, const AccumulatorModel& model)
    : rounding_(instruction.rounding.value_or(Rounding::nearest_even)),
      is_f64_(model.arithmetic == Arithmetic::fma_chain),
      c_is_f16_(instruction.c == Format::f16),
      d_is_f16_(instruction.d == Format::f16),
      a_(places_in(fragment_of(instruction, "a"), false)),
      b_(places_in(fragment_of(instruction, "b"), true)),
      c_(places_in(fragment_of(instruction, "c"), false)),
      d_(places_in(fragment_of(instruction, "d"), false)) {
  const Mma mma = describe(instruction);
  rows_ = mma.m, terms_ = mma.stored_k();
  if (!is_f64_) selected_k_ = positions_of_products(mma);
}

bool WarpChain::execute(const WarpRegisters& registers, uint32_t* d) const {
  if (!has_fma_loops(rounding_)) return false;
  return is_f64_ ? multiply_f64(registers, d) : multiply_f16(registers, d);
}

bool WarpChain::multiply_f64(const WarpRegisters& registers, uint32_t* d) const {
  std::array<uint64_t, most_of_f64> a, b, sums;
  gather<uint64_t>(a_, registers.a.words, a.data());
  gather<uint64_t>(b_, registers.b.words, b.data());
  gather<uint64_t>(c_, registers.c.words, sums.data());
  const bool has_nan = add_products({.a = a.data(),
                                     .b = b.data(),
                                     .d = sums.data(),
                                     .a_stride = terms_,
                                     .b_stride = cols,
                                     .d_stride = cols,
                                     .rows = rows_,
                                     .cols = cols,
                                     .terms = terms_,
                                     .rounding = rounding_});
  if (has_nan) return false;
  scatter<uint64_t>(d_, sums.data(), d);
  return true;
}

bool WarpChain::multiply_f16(const WarpRegisters& registers, uint32_t* d) const {
  std::array<uint32_t, most_of_f16> a, b, c, results;
  gather<uint16_t>(a_, registers.a.words, a.data());
  gather<uint16_t>(b_, registers.b.words, b.data());
  if (c_is_f16_) gather<uint16_t>(c_, registers.c.words, c.data());
  else gather<uint32_t>(c_, registers.c.words, c.data());
  multiply({.a = a.data(),
            .b = b.data(),
            .c = c.data(),
            .d = results.data(),
            .selected_k = selected_k_.data(),
            .rows = rows_,
            .cols = cols,
            .c_is_f16 = c_is_f16_,
            .d_is_f16 = d_is_f16_});
  if (d_is_f16_) scatter<uint16_t>(d_, results.data(), d);
  else scatter<uint32_t>(d_, results.data(), d);
  return true;
}

}  // namespace bitmma::family
