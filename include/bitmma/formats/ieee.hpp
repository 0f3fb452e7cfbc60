// SPDX-License-Identifier: MIT
// IEEE 754 arithmetic on codes, in integers: one operation, one rounding, no flushing, independent of the host's
// floating-point unit and compiler. For GPU arithmetic outside the tensor cores: FADD, FFMA, HADD2, DFMA.
//
//   ieee_fma(Format::f32, 0x3F800000, 0x40000000, 0x34000000)      1 * 2 + 2^-23, to nearest even: 0x40000000
#pragma once

#include <cstdint>

#include "bitmma/formats/format.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma {

/// The result below the smallest normal number: a subnormal number, or a zero of its sign (.ftz). The size after
/// rounding decides: see is_tiny. No square root is that small.
enum class Underflow : uint8_t { gradual, flush };

/// a * b + c, rounded once. The format must have infinity: f16, bf16, f32, f64. A NaN result is the format's canonical
/// NaN, without payload. Directed modes stop at the largest finite value (IEEE 754-2019 4.3).
uint64_t ieee_fma(Format format, uint64_t a, uint64_t b, uint64_t c, Rounding rounding = Rounding::nearest_even,
                  Underflow underflow = Underflow::gradual);

/// a + b, a * b, a / b and the square root of a, rounded once. NaN, directed modes as in ieee_fma; 1 / 0 is infinity.
uint64_t ieee_add(Format format, uint64_t a, uint64_t b, Rounding rounding = Rounding::nearest_even,
                  Underflow underflow = Underflow::gradual);
uint64_t ieee_mul(Format format, uint64_t a, uint64_t b, Rounding rounding = Rounding::nearest_even,
                  Underflow underflow = Underflow::gradual);
uint64_t ieee_div(Format format, uint64_t a, uint64_t b, Rounding rounding = Rounding::nearest_even,
                  Underflow underflow = Underflow::gradual);
uint64_t ieee_sqrt(Format format, uint64_t a, Rounding rounding = Rounding::nearest_even);

}  // namespace bitmma
