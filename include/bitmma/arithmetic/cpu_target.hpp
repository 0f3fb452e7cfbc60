// SPDX-License-Identifier: MIT
// Which of the processor's instruction sets the hot loops use. They are compiled once for each, from one source, and
// all give the same bits; the best one that the processor has is used unless the caller asks for another.
#pragma once

#include <span>
#include <string_view>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// What this processor can run, best first: "x86-64-v4" (AVX-512), "x86-64-v3" (AVX2), "baseline".
std::span<const std::string_view> cpu_targets();

/// The one in use.
std::string_view cpu_target();

/// Takes another one, for this process and all its threads: benchmarks and tests ask for it. Not while another thread
/// computes. Throws Error when the processor cannot run it.
void use_cpu_target(std::string_view name);

}  // namespace bitmma
