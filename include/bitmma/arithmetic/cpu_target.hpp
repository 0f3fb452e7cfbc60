// SPDX-License-Identifier: MIT
// The CPU instruction set of the hot loops. One source is compiled for each set, and all of them give the same bits.
// The library uses the best one that the processor supports, unless the caller selects another.
#pragma once

#include <span>
#include <string_view>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// The sets that this processor supports, best first: "x86-64-v4" (AVX-512), "x86-64-v3" (AVX2), "baseline".
std::span<const std::string_view> cpu_targets();

/// The set in use.
std::string_view cpu_target();

/// Selects a set for this process and all its threads, for benchmarks and tests. Do not call it while another thread
/// computes. Throws Error if the processor does not support the set.
void use_cpu_target(std::string_view name);

}  // namespace bitmma
