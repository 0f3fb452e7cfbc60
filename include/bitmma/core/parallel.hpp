// SPDX-License-Identifier: MIT
// Runs independent pieces of work on all cores. They write disjoint results, so any thread count gives the same bits.
#pragma once

#include <cstddef>
#include <functional>

#include "bitmma/core/compiler.hpp"

namespace bitmma {

/// The number of cores of this machine, at least 1.
int hardware_threads();

/// Calls body(i) for every i in [0, count) on up to `threads` threads, and returns when all are done. If the system
/// cannot create a thread, fewer threads do the work. The first exception stops the distribution of work, and
/// parallel_for rethrows it. An InterruptScope of the calling thread can end the work.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& body);

}  // namespace bitmma
