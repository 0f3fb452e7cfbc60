// SPDX-License-Identifier: MIT
// Measured times as seconds. The host's floating-point settings neither change nor trap them.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "ieee_environment.hpp"

namespace bitmma {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return in_ieee_environment(
      [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); });
}

/// The time that is `seconds` from now on.
inline std::chrono::steady_clock::time_point after_seconds(double seconds) {
  return in_ieee_environment([&] {
    return std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  });
}

inline std::string print_seconds(double seconds) {
  return in_ieee_environment([&] { return fmt::format("{:.0f}", seconds); });
}

}  // namespace bitmma
