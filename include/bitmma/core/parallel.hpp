// SPDX-License-Identifier: MIT
// Independent pieces of work on all cores. The pieces write disjoint results, so any thread count gives the same bits.
#pragma once

#include <cstddef>
#include <functional>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// Cores of this machine, at least 1.
int hardware_threads();

/// Calls body(i) for every i in [0, count) on up to `threads` threads, and returns when all are done.
/// Threads that cannot be created are done without.
/// The first exception stops the hand-out of further work and is thrown here.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& body);

}  // namespace bitmma
