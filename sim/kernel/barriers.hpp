// SPDX-License-Identifier: MIT
// Barriers of a block (bar, barrier) and of a cluster (barrier.cluster): which warps wait, which continue, and which
// accesses the barrier orders.
#pragma once

#include "machine.hpp"

namespace bitmma::kernel {

/// The active lanes of a warp arrive at a barrier of their block. True if the warp continues. Throws KernelFault for a
/// barrier that does not exist, and for a number of threads that PTX does not have.
bool arrive(Warp& warp, const Op& op);
/// A warp of the block has ended: its barriers may be complete.
void complete_barriers(Cta& cta);

/// barrier.cluster.arrive of the lanes of `mask`. Throws KernelFault for a second arrival.
void arrive_at_cluster(Warp& warp, Mask mask);
/// barrier.cluster.wait of the lanes of `mask`. True if the warp continues. Throws KernelFault without an arrival.
bool wait_for_cluster(Warp& warp, Mask mask);
/// Resumes the warps at the cluster barrier once all unfinished threads of the cluster have arrived.
void complete_cluster_barrier(Cluster& cluster);

}  // namespace bitmma::kernel
