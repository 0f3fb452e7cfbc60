// SPDX-License-Identifier: MIT
// IEEE 754 arithmetic on codes, in integers: one operation, one rounding, no flushing, nothing left to the host's
// floating-point unit or its compiler. For what GPUs compute beside their tensor cores: FADD, FFMA, HADD2, DFMA.
//
//   ieee_fma(Format::f32, 0x3F800000, 0x40000000, 0x34000000)      1 * 2 + 2^-23, to nearest even: 0x40000000
#pragma once

#include <cstdint>

#include "bitmma/formats/format.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma {

/// What a result below the smallest normal number becomes: a subnormal one, or a zero of its sign (.ftz). The size
/// after rounding decides: see is_tiny. No square root is so small.
enum class Underflow : uint8_t { gradual, flush };

/// a * b + c, rounded once. A format with infinity: f16, bf16, f32, f64. NaN results are the format's canonical NaN: no
/// payload passes. Directed modes stop at the largest finite value, as IEEE 754-2019 4.3 says.
uint64_t ieee_fma(Format format, uint64_t a, uint64_t b, uint64_t c, Rounding rounding = Rounding::nearest_even,
                  Underflow underflow = Underflow::gradual);

/// a + b, a * b, a / b and the square root of a, rounded once. NaN and directed modes as above; 1 / 0 is infinity.
uint64_t ieee_add(Format format, uint64_t a, uint64_t b, Rounding rounding = Rounding::nearest_even,
                  Underflow underflow = Underflow::gradual);
uint64_t ieee_mul(Format format, uint64_t a, uint64_t b, Rounding rounding = Rounding::nearest_even,
                  Underflow underflow = Underflow::gradual);
uint64_t ieee_div(Format format, uint64_t a, uint64_t b, Rounding rounding = Rounding::nearest_even,
                  Underflow underflow = Underflow::gradual);
uint64_t ieee_sqrt(Format format, uint64_t a, Rounding rounding = Rounding::nearest_even);

}  // namespace bitmma
