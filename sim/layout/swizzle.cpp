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
  for (const SwizzleInfo& row : swizzles) {
    if (row.name == name) return row.id;
  }
  return std::nullopt;
}

std::string print(const SwizzleInfo& swizzle) {
  return fmt::format("Swizzle<{},{},{}>", swizzle.bits, swizzle.base, swizzle.shift);
}

}  // namespace bitmma
