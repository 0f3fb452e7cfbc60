// SPDX-License-Identifier: MIT
#include "cpu_level.hpp"

#include <algorithm>
#include <atomic>

namespace bitmma {
namespace {

#if defined(__x86_64__)
// Clang before 18 knows the names of the instruction sets of each level, but not those of the levels.
bool has_v3() {
  __builtin_cpu_init();
#if defined(__clang__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("fma");
#else
  return __builtin_cpu_supports("x86-64-v3");
#endif
}

bool has_v4() {
  __builtin_cpu_init();
#if defined(__clang__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return __builtin_cpu_supports("x86-64-v4");
#endif
}
#else
bool has_v3() { return false; }
bool has_v4() { return false; }
#endif

std::atomic<CpuLevel>& in_use() {
  static std::atomic<CpuLevel> level{
      std::ranges::find_if(cpu_levels, [](const CpuLevelInfo& row) { return has(row.id); })->id};
  return level;
}

}  // namespace

bool has(CpuLevel level) {
  switch (level) {
    case CpuLevel::v4: return has_v3() && has_v4();
    case CpuLevel::v3: return has_v3();
    case CpuLevel::baseline: break;
  }
  return true;
}

CpuLevel cpu_level() { return in_use().load(std::memory_order_relaxed); }

void use_cpu_level(CpuLevel level) { in_use().store(level); }

}  // namespace bitmma
