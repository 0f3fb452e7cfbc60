// SPDX-License-Identifier: MIT
#include "bitmma/layout/swizzle.hpp"

#include <fmt/format.h>

namespace bitmma {

std::optional<Swizzle> swizzle_of_code(Target target, int code) {
  for (const SwizzleInfo& row : swizzles) {
    if (row.code(target) == code && code >= 0) return row.id;
  }
  return std::nullopt;
}

std::optional<Swizzle> swizzle_named(std::string_view name) {
  if (name == "interleave" || name == "interleaved") return Swizzle::none;  // PTX's other word for no swizzle
  for (const SwizzleInfo& row : swizzles) {
    if (row.name == name || (row.bits != 0 && name == std::string(row.name) + "B")) return row.id;
  }
  return std::nullopt;
}

std::string print(const SwizzleInfo& swizzle) {
  return fmt::format("Swizzle<{},{},{}>", swizzle.bits, swizzle.base, swizzle.shift);
}

}  // namespace bitmma
