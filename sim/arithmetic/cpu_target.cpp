// SPDX-License-Identifier: MIT
#include "bitmma/arithmetic/cpu_target.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "../core/cpu_level.hpp"
#include "bitmma/core/error.hpp"
#include "kernels/kernels.hpp"

namespace bitmma {

std::span<const std::string_view> cpu_targets() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> supported;
    for (const kernels::Kernels* table : kernels::supported_kernels()) supported.push_back(table->name);
    return supported;
  }();
  return names;
}

std::string_view cpu_target() { return kernels::kernels().name; }

void use_cpu_target(std::string_view name) {
  std::vector<std::string> names;
  for (const kernels::Kernels* table : kernels::supported_kernels()) {
    if (table->name == name) {
      use_cpu_level(std::ranges::find(cpu_levels, name, &CpuLevelInfo::name)->id);
      return kernels::use_kernels(*table);
    }
    names.emplace_back(table->name);
  }
  throw Error({.code = ViolationCode::unknown_name,
               .field = "cpu target",
               .seen = std::string(name),
               .legal = std::move(names),
               .fix = "this processor supports no other"});
}

}  // namespace bitmma
