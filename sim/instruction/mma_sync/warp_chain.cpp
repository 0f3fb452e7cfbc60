// SPDX-License-Identifier: MIT
#include "warp_chain.hpp"

#include <array>

#include "../../arithmetic/fma_loops.hpp"
#include "../family.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/memory/fragment.hpp"

namespace bitmma::family {
namespace {

constexpr int cols = 8;
constexpr size_t most_of_f64 = 16 * 16;               // A of m16n8k16
constexpr size_t most_of_f16 = size_t{4} * 8 * cols;  // C and D of four products

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
      a_(fragment_of(instruction, "a"), false),
      b_(fragment_of(instruction, "b"), true),
      c_(fragment_of(instruction, "c"), false),
      d_(fragment_of(instruction, "d"), false) {
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
  a_.gather<uint64_t>(registers.a.words, a.data());
  b_.gather<uint64_t>(registers.b.words, b.data());
  c_.gather<uint64_t>(registers.c.words, sums.data());
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
  d_.scatter<uint64_t>(sums.data(), d);
  return true;
}

bool WarpChain::multiply_f16(const WarpRegisters& registers, uint32_t* d) const {
  std::array<uint32_t, most_of_f16> a, b, c, results;
  a_.gather<uint16_t>(registers.a.words, a.data());
  b_.gather<uint16_t>(registers.b.words, b.data());
  if (c_is_f16_) c_.gather<uint16_t>(registers.c.words, c.data());
  else c_.gather<uint32_t>(registers.c.words, c.data());
  multiply({.a = a.data(),
            .b = b.data(),
            .c = c.data(),
            .d = results.data(),
            .selected_k = selected_k_.data(),
            .rows = rows_,
            .cols = cols,
            .c_is_f16 = c_is_f16_,
            .d_is_f16 = d_is_f16_});
  if (d_is_f16_) d_.scatter<uint16_t>(results.data(), d);
  else d_.scatter<uint32_t>(results.data(), d);
  return true;
}

}  // namespace bitmma::family
