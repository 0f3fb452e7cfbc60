// SPDX-License-Identifier: MIT
// The instruction sets that this processor can run. The build compiles hot loops once for each level.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bitmma/core/table.hpp"

namespace bitmma {

/// The best level comes first.
enum class CpuLevel : uint8_t { v4, v3, baseline };

struct CpuLevelInfo {
  CpuLevel id = CpuLevel::baseline;
  std::string_view name = {};
};
inline constexpr auto cpu_levels = std::to_array<CpuLevelInfo>({
    {CpuLevel::v4, "x86-64-v4"},
    {CpuLevel::v3, "x86-64-v3"},
    {CpuLevel::baseline, "baseline"},
});
static_assert(are_in_enum_order(cpu_levels));

/// True if the processor has this level.
bool has(CpuLevel level);

/// The level in use: the best one, unless the user requested another. All threads use the same level.
CpuLevel cpu_level();
void use_cpu_level(CpuLevel level);

/// That of the level in use. The table has one for each level.
template <typename Loops>
const Loops& at_cpu_level(const std::array<Loops, cpu_levels.size()>& by_level) {
  return by_level[static_cast<std::size_t>(cpu_level())];
}

/// Expands LOOPS(space, target) for every level: the namespace for its loops, and the attribute that compiles them.
#if defined(__x86_64__)
#define BITMMA_AT_CPU_LEVELS(LOOPS)            \
  LOOPS(v4, [[gnu::target("arch=x86-64-v4")]]) \
  LOOPS(v3, [[gnu::target("arch=x86-64-v3")]]) \
  LOOPS(baseline, )
#else
#define BITMMA_AT_CPU_LEVELS(LOOPS) \
  LOOPS(baseline, )                 \
  namespace v3 = baseline;          \
  namespace v4 = baseline;
#endif

}  // namespace bitmma
