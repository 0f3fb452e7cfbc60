// SPDX-License-Identifier: MIT
// Tables of codes for products with block scales.
#pragma once

#include <array>
#include <cstdint>

#include "bitmma/formats/format.hpp"
#include "kernels/kernels.hpp"

namespace bitmma {

/// All codes of a format of block scales, ue8m0, ue4m3 or ue5m3, as the loops read them.
/// @throws std::logic_error for any other format, which the checks of operands refuse.
const std::array<kernels::Scale, 256>& scales_of(Format format);

/// Two codes of e2m1, the first in the lower four bits: 16-bit numbers in halves, and a bit for each that is not zero.
struct E2m1Pair {
  int32_t halves = 0;
  int32_t nonzero = 0;
};
const std::array<E2m1Pair, 256>& e2m1_pairs();

}  // namespace bitmma
