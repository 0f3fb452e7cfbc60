// SPDX-License-Identifier: MIT
// The same with the roundings of instructions.
#pragma once

#include "../core/ieee_environment.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma::math {

/// Takes a rounding that processors have.
class IeeeEnvironment : public bitmma::IeeeEnvironment {
 public:
  explicit IeeeEnvironment(Rounding rounding = Rounding::nearest_even) : bitmma::IeeeEnvironment(mode_of(rounding)) {}

  /// False for roundings that processors do not have.
  static constexpr bool has(Rounding rounding) { return rounding != Rounding::nearest_away; }

 private:
  static constexpr int mode_of(Rounding rounding) {
    return rounding == Rounding::toward_zero       ? FE_TOWARDZERO
           : rounding == Rounding::toward_positive ? FE_UPWARD
           : rounding == Rounding::toward_negative ? FE_DOWNWARD
                                                   : FE_TONEAREST;
  }
};

}  // namespace bitmma::math
