// SPDX-License-Identifier: MIT
// The addition of tcgen05.ld.red to a load: redval, the least or largest of the registers of one thread.
//
//   .min.f32        1, -2, NaN  ->  -2      .min.abs.f32     1, -2, NaN  ->  1
//   .min.NaN.f32    1, -2, NaN  ->  NaN     .max.s32         1, -2       ->  1
//
// Source: PTX ISA 9.4, 9.7.18.8.3.
#pragma once

#include <cstdint>
#include <span>

#include "bitmma/instruction/instruction.hpp"

namespace bitmma::family {

/// redval for the words that one thread loads; at least one.
uint32_t reduced(const LoadReduction& reduction, std::span<const uint32_t> words);

}  // namespace bitmma::family
