// SPDX-License-Identifier: MIT
// The host's floating-point settings while the library computes with the host's own operations: each is then one
// operation of IEEE 754 with one rounding. A host program may have set its processor to flush or to round otherwise.
//
//   return in_ieee_environment([&] { return fmt::format("{}", std::ldexp(significand, exponent)); });
//
// A public function sets the environment where its float operations begin: callbacks of users then run in their own.
#pragma once

#include <cfenv>

/// Before a function that computes inside its caller's IeeeEnvironment. Compilers do not model environments: they may
/// inline the function and move its operations out, or replace it by a copy for the arguments of one call, in which
/// they compute operations on constants to nearest. g++'s noipa forbids all of that; clang leaves a function as it is
/// if it may have callers that clang does not see.
#if defined(__clang__)
#define BITMMA_IN_ENVIRONMENT [[gnu::noinline, gnu::used]]
#else
#define BITMMA_IN_ENVIRONMENT [[gnu::noipa]]
#endif

namespace bitmma {

#if defined(__x86_64__)
// <cfenv> also saves the registers of the x87, which no float or double uses; the library has no long double. That
// takes a quarter of a microsecond.
using HostSettings = unsigned;
/// Sets a rounding of <cfenv>, gradual underflow and no traps. Returns the settings and flags before.
inline HostSettings set_ieee_environment(int mode = FE_TONEAREST) {
  constexpr unsigned masked_traps = 0x1F80, flags = 0x3F;
  const unsigned before = __builtin_ia32_stmxcsr(), settings = masked_traps | static_cast<unsigned>(mode) << 3;
  if ((before & ~flags) != settings) __builtin_ia32_ldmxcsr(settings);
  return before;
}
inline void restore_environment(HostSettings before) {
  if (__builtin_ia32_stmxcsr() != before) __builtin_ia32_ldmxcsr(before);
}
#else
using HostSettings = std::fenv_t;
inline HostSettings set_ieee_environment(int mode = FE_TONEAREST) {
  std::fenv_t before;
  std::fegetenv(&before);
  std::fesetenv(FE_DFL_ENV);
  if (mode != FE_TONEAREST) std::fesetround(mode);
  return before;
}
inline void restore_environment(const HostSettings& before) { std::fesetenv(&before); }
#endif

/// Sets the environment; the destructor restores the caller's settings and flags. Operations in between belong into a
/// function with BITMMA_IN_ENVIRONMENT, or behind a pointer or a std::function.
class IeeeEnvironment {
 public:
  explicit IeeeEnvironment(int mode = FE_TONEAREST) : callers_(set_ieee_environment(mode)) {}
  ~IeeeEnvironment() { restore_environment(callers_); }
  IeeeEnvironment(const IeeeEnvironment&) = delete;
  IeeeEnvironment& operator=(const IeeeEnvironment&) = delete;

 private:
  HostSettings callers_;
};

/// Calls body(), whose operations stay inside its caller's environment.
template <typename Body>
BITMMA_IN_ENVIRONMENT decltype(auto) call_in_environment(const Body& body) {
  return body();
}

/// Calls body() inside an IeeeEnvironment and returns its result.
template <typename Body>
decltype(auto) in_ieee_environment(const Body& body) {
  const IeeeEnvironment environment;
  return call_in_environment(body);
}

}  // namespace bitmma
