// SPDX-License-Identifier: MIT
// What this processor can run. Hot loops are compiled once for each level.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "bitmma/core/table.hpp"

namespace bitmma {

/// Best first.
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

/// Whether the processor has it.
bool has(CpuLevel level);

/// The one in use: the best, unless another was asked for. One for all threads.
CpuLevel cpu_level();
void use_cpu_level(CpuLevel level);

}  // namespace bitmma
