#include "bitmma/layout/swizzle.hpp"

#include <fmt/format.h>

namespace bitmma {

std::string_view print(Arch arch) { return arch == Arch::sm_90a ? "sm_90a" : "sm_100a"; }

std::optional<Arch> arch_named(std::string_view name) {
  if (name == "sm_90a") return Arch::sm_90a;
  if (name == "sm_100a" || name == "sm_103a") return Arch::sm_100a;
  return std::nullopt;
}

std::optional<Swizzle> swizzle_of_code(Arch arch, int code) {
  for (const SwizzleInfo& row : swizzles) {
    if (row.code(arch) == code) return row.id;
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
