// SPDX-License-Identifier: MIT
// The same with the roundings of instructions.
#pragma once

#include <stdexcept>

#include "../core/ieee_environment.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma::math {

/// Takes a rounding that the processor has: a caller asks `has` before it takes another one than to nearest.
class IeeeEnvironment : public bitmma::IeeeEnvironment {
 public:
  explicit IeeeEnvironment(Rounding rounding = Rounding::nearest_even) : bitmma::IeeeEnvironment(mode_of(rounding)) {}

  /// False for roundings that the processor does not have. <cfenv> defines the names of those that it has: WebAssembly
  /// rounds every operation to nearest.
  static constexpr bool has(Rounding rounding) {
    switch (rounding) {
      case Rounding::nearest_even: return true;
#if defined(FE_TOWARDZERO) && defined(FE_UPWARD) && defined(FE_DOWNWARD)
      case Rounding::toward_zero:
      case Rounding::toward_positive:
      case Rounding::toward_negative: return true;
#endif
      default: return false;
    }
  }

 private:
  static constexpr int mode_of(Rounding rounding) {
    if (!has(rounding)) throw std::logic_error("a rounding that the processor does not have");
#if defined(FE_TOWARDZERO) && defined(FE_UPWARD) && defined(FE_DOWNWARD)
    if (rounding == Rounding::toward_zero) return FE_TOWARDZERO;
    if (rounding == Rounding::toward_positive) return FE_UPWARD;
    if (rounding == Rounding::toward_negative) return FE_DOWNWARD;
#endif
    return FE_TONEAREST;
  }
};

}  // namespace bitmma::math
