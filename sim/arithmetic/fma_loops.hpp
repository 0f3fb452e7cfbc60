// SPDX-License-Identifier: MIT
// Chains of IEEE operations (fma.hpp) for many outputs at once. These loops are the exception to the rule that the
// model computes in integers: each operation is one of the host's own, with one rounding, inside an IeeeEnvironment and
// never contracted. NaN words are not the host's: the caller replaces those of f64, and all others are one word.
//
//   f64:  d = fma(a_k, b_k, d), k ascending                           eight columns of several rows at a time
//   f16:  four products of m8n8k4, in f32                             eight columns of a row at a time
#pragma once

#include <cstdint>

#include "bitmma/formats/round.hpp"

namespace bitmma {

/// D += A * B for codes of f64, which need not be aligned. Strides are in codes.
struct F64Chains {
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  int a_stride = 0, b_stride = 0, d_stride = 0;
  int rows = 0, cols = 0, terms = 0;
  bool negate = false;  // -A instead of A
  Rounding rounding = Rounding::nearest_even;
};

/// D = A * B + C of fma_pairs: codes of f16, four in each row of A; C and D are codes of f16 or f32.
struct F16Quads {
  const uint32_t *a, *b, *c;  // without C, c is nullptr
  uint32_t* d;
  const uint16_t* selected_k;  // rows x 4: the rows of B; nullptr: rows 0 to 3
  int rows, cols;
  bool negate = false;
  bool c_is_f16 = false, d_is_f16 = false;
};

constexpr bool is_nan_of_f64(uint64_t code) { return code << 1 > uint64_t{0x7FF0000000000000} << 1; }

/// True if the processor fuses multiply-adds at the level in use (core/cpu_level.hpp) and can round so.
bool has_fma_loops(Rounding rounding);

/// Returns true if any code of D is a NaN.
bool add_products(const F64Chains& job);
void multiply(const F16Quads& job);

}  // namespace bitmma
