// SPDX-License-Identifier: MIT
// The host's floating-point settings while the library computes with the host's own operations: each is then one
// operation of IEEE 754 with one rounding. A host program may have set its processor to flush or to round otherwise.
#pragma once

#include <cfenv>

#include "bitmma/formats/round.hpp"

/// Before a function that computes inside its caller's IeeeEnvironment. Compilers do not model environments: they may
/// inline the function and move its operations out, or replace it by a copy for the arguments of one call, in which
/// they compute operations on constants to nearest. g++'s noipa forbids all of that; clang leaves a function as it is
/// if it may have callers that clang does not see.
#if defined(__clang__)
#define BITMMA_IN_ENVIRONMENT [[gnu::noinline, gnu::used]]
#else
#define BITMMA_IN_ENVIRONMENT [[gnu::noipa]]
#endif

namespace bitmma::math {

/// Sets the rounding, gradual underflow and no traps; the destructor restores the caller's settings and flags.
/// Operations in between belong into a function with BITMMA_IN_ENVIRONMENT, or behind a pointer or a std::function.
class IeeeEnvironment {
 public:
  explicit IeeeEnvironment(Rounding rounding = Rounding::nearest_even) { set(rounding); }
  ~IeeeEnvironment() { restore(); }
  IeeeEnvironment(const IeeeEnvironment&) = delete;
  IeeeEnvironment& operator=(const IeeeEnvironment&) = delete;

  /// False for roundings that processors do not have.
  static constexpr bool has(Rounding rounding) { return rounding != Rounding::nearest_away; }

 private:
#if defined(__x86_64__)
  // <cfenv> also saves the registers of the x87, which no float or double uses. That takes a quarter of a microsecond.
  void set(Rounding rounding) {
    constexpr unsigned masked_traps = 0x1F80, flags = 0x3F;
    const unsigned mode = rounding == Rounding::toward_zero       ? 0x6000
                          : rounding == Rounding::toward_positive ? 0x4000
                          : rounding == Rounding::toward_negative ? 0x2000
                                                                  : 0;
    if ((callers_ & ~flags) != (masked_traps | mode)) __builtin_ia32_ldmxcsr(masked_traps | mode);
  }
  void restore() const {
    if (__builtin_ia32_stmxcsr() != callers_) __builtin_ia32_ldmxcsr(callers_);
  }

  unsigned callers_ = __builtin_ia32_stmxcsr();
#else
  void set(Rounding rounding) {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
    if (rounding != Rounding::nearest_even)
      std::fesetround(rounding == Rounding::toward_zero       ? FE_TOWARDZERO
                      : rounding == Rounding::toward_positive ? FE_UPWARD
                                                              : FE_DOWNWARD);
  }
  void restore() const { std::fesetenv(&callers_); }

  std::fenv_t callers_;
#endif
};

}  // namespace bitmma::math
