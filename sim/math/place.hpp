// SPDX-License-Identifier: MIT
// Tells which quadratic of the special function unit an argument uses; mufu.hpp computes without this information.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "bitmma/math/math_instruction.hpp"
#include "interpolator.hpp"

namespace bitmma::math {

struct Place {
  const Quadratic* quadratic = nullptr;
  std::string_view table = {};
  int index = 0;
  uint32_t x = 0;  // of 17 bits
  int unit = 0;
};

/// Nothing if the result needs no quadratic: NaN, infinity, zero, or an argument outside the function's range.
std::optional<Place> place_of(MathOperation operation, uint32_t argument);

}  // namespace bitmma::math
