// SPDX-License-Identifier: MIT
#include "barriers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lanes.hpp"

namespace bitmma::kernel {
namespace {

/// Resumes the warps at a barrier once all expected threads have arrived.
void complete(Cta& cta, Barrier& barrier) {
  const auto running =
      std::ranges::count_if(cta.warps, [](const Warp& warp) { return warp.status != WarpStatus::done; });
  const bool is_complete =
      barrier.expected > 0 ? barrier.arrived >= barrier.expected : barrier.arrived >= running * lanes;
  if (!is_complete) return;
  ++cta.cluster->phases;
  Barrier done;
  std::swap(done, barrier);
  // The members' earlier accesses are ordered before the waiters' later ones.
  std::vector<uint32_t> known;
  for (const auto* members : {&done.waiting, &done.arrivals}) {
    for (const Warp* member : *members) tell(*member, known);
  }
  for (Warp* member : done.arrivals) ++member->epoch;
  for (Warp* member : done.waiting) {
    const Op& op = cta.program->ops[static_cast<size_t>(member->pc)];
    const auto& details = *static_cast<const BarrierDetails*>(op.details);
    if (details.kind == BarrierKind::reduce) {
      const Mask mask = member->active;
      if (details.reduction == BarrierReduction::popc)
        for_each_lane(mask, [&](int lane) { member->lanes_of<uint32_t>(op.d)[lane] = done.count; });
      else
        set_mask(*member, op.d, mask, (details.reduction == BarrierReduction::and_ ? done.all : done.any) ? mask : 0);
    }
    learn(*member, known);
    ++member->epoch;
    ++member->pc;
    member->status = WarpStatus::ready;
  }
}

}  // namespace

bool arrive(Warp& warp, const Op& op) {
  const auto& details = *static_cast<const BarrierDetails*>(op.details);
  const int lane = __builtin_ctz(warp.active);
  const uint32_t id = warp.lanes_of<const uint32_t>(details.id)[lane];
  if (id >= warp.cta->barriers.size())
    fault(ViolationCode::undefined_by_ptx, lane, fmt::format("barrier {}", id), "0 to 15");
  Barrier& barrier = warp.cta->barriers[id];
  if (details.has_count) {
    const uint32_t count = warp.lanes_of<const uint32_t>(details.count)[lane];
    if (count == 0 || count % lanes != 0)
      fault(ViolationCode::undefined_by_ptx, lane, fmt::format("a barrier of {} threads", count), "a multiple of 32");
    barrier.expected = static_cast<int>(count);
  }
  barrier.arrived += lanes;
  if (details.kind == BarrierKind::reduce) {
    const Mask yes = warp.mask_of(op.c) & warp.active;
    barrier.count += static_cast<uint32_t>(__builtin_popcount(yes));
    barrier.all = barrier.all && yes == warp.active;
    barrier.any = barrier.any || yes != 0;
  }
  if (details.kind == BarrierKind::arrive) {
    barrier.arrivals.push_back(&warp);
    ++warp.pc;
    complete(*warp.cta, barrier);
    return true;
  }
  warp.status = WarpStatus::at_barrier;
  barrier.waiting.push_back(&warp);
  complete(*warp.cta, barrier);
  return warp.status == WarpStatus::ready;
}

void complete_barriers(Cta& cta) {
  for (Barrier& barrier : cta.barriers) {
    if (barrier.arrived > 0) complete(cta, barrier);
  }
}

void arrive_at_cluster(Warp& warp, Mask mask) {
  if (const Mask again = mask & warp.cluster_arrived; again != 0) {
    fault(ViolationCode::undefined_by_ptx, __builtin_ctz(again), "two arrivals at the barrier of the cluster",
          "barrier.cluster.wait between them");
  }
  ++warp.pc;
  if (mask == 0) return;
  warp.cluster_arrived |= mask;
  Cluster& cluster = *warp.cta->cluster;
  tell(warp, cluster.arriving);
  ++warp.epoch;
  complete_cluster_barrier(cluster);
}

bool wait_for_cluster(Warp& warp, Mask mask) {
  if (const Mask without = mask & ~(warp.cluster_arrived | warp.cluster_passed); without != 0) {
    fault(ViolationCode::undefined_by_ptx, __builtin_ctz(without), "barrier.cluster.wait without an arrival",
          "barrier.cluster.arrive before it");
  }
  if ((mask & warp.cluster_arrived) != 0) {
    warp.status = WarpStatus::at_cluster_barrier;
    return false;
  }
  ++warp.pc;
  if (mask == 0) return true;
  warp.cluster_passed &= ~mask;
  learn(warp, warp.cta->cluster->completed);
  return true;
}

void complete_cluster_barrier(Cluster& cluster) {
  bool any = false;
  for (const Cta& cta : cluster.ctas) {
    for (const Warp& warp : cta.warps) {
      if ((warp.live & ~warp.cluster_arrived) != 0) return;
      any = any || warp.cluster_arrived != 0;
    }
  }
  if (!any) return;
  ++cluster.phases;
  cluster.completed = std::exchange(cluster.arriving, {});
  for (Cta& cta : cluster.ctas) {
    for (Warp& warp : cta.warps) {
      warp.cluster_passed |= std::exchange(warp.cluster_arrived, 0);
      if (warp.status == WarpStatus::at_cluster_barrier) warp.status = WarpStatus::ready;
    }
  }
}

}  // namespace bitmma::kernel
