// SPDX-License-Identifier: MIT
#include "special.hpp"

#include <algorithm>
#include <array>

#include "machine.hpp"

namespace bitmma::kernel {
namespace {

/// A thread of a launch.
struct Place {
  const Warp& warp;
  int lane = 0;
  const Cta& cta;
  const Launch& launch;

  int64_t thread() const { return int64_t{warp.index} * lanes + lane; }
  Mask bit() const { return Mask{1} << lane; }
  const std::array<int64_t, 3>& cluster() const { return *launch.cluster; }
};

template <auto function>
uint64_t value(const Warp& warp, int lane) {
  return static_cast<uint64_t>(
      function(Place{.warp = warp, .lane = lane, .cta = *warp.cta, .launch = *warp.cta->launch}));
}

constexpr uint64_t clock_of(const Place& at) { return at.launch.clock.value_or(0) + at.warp.steps; }
constexpr int64_t multiprocessors = 132;  // of an H100 SXM and an H200

constexpr auto rows = std::to_array<SpecialRegister>({
    {"%tid.x", value<[](const Place& at) { return at.thread() % at.launch.block[0]; }>},
    {"%tid.y", value<[](const Place& at) { return at.thread() / at.launch.block[0] % at.launch.block[1]; }>},
    {"%tid.z", value<[](const Place& at) { return at.thread() / (at.launch.block[0] * at.launch.block[1]); }>},
    {"%ntid.x", value<[](const Place& at) { return at.launch.block[0]; }>},
    {"%ntid.y", value<[](const Place& at) { return at.launch.block[1]; }>},
    {"%ntid.z", value<[](const Place& at) { return at.launch.block[2]; }>},
    {"%ctaid.x", value<[](const Place& at) { return at.cta.id[0]; }>},
    {"%ctaid.y", value<[](const Place& at) { return at.cta.id[1]; }>},
    {"%ctaid.z", value<[](const Place& at) { return at.cta.id[2]; }>},
    {"%nctaid.x", value<[](const Place& at) { return at.launch.grid[0]; }>},
    {"%nctaid.y", value<[](const Place& at) { return at.launch.grid[1]; }>},
    {"%nctaid.z", value<[](const Place& at) { return at.launch.grid[2]; }>},
    {"%laneid", value<[](const Place& at) { return at.lane; }>},
    {"%warpid", value<[](const Place& at) { return at.warp.index; }>},
    {"%nwarpid", value<[](const Place& at) { return at.cta.warps.size(); }>},
    {"%lanemask_eq", value<[](const Place& at) { return at.bit(); }>},
    {"%lanemask_le", value<[](const Place& at) { return at.bit() | (at.bit() - 1); }>},
    {"%lanemask_lt", value<[](const Place& at) { return at.bit() - 1; }>},
    {"%lanemask_ge", value<[](const Place& at) { return ~(at.bit() - 1); }>},
    {"%lanemask_gt", value<[](const Place& at) { return ~(at.bit() | (at.bit() - 1)); }>},
    {"%dynamic_smem_size", value<[](const Place& at) { return at.launch.dynamic_shared_bytes; }>},
    {"%total_smem_size", value<[](const Place& at) { return at.cta.shared.size() - shared_begin; }>},
    {"%cluster_ctaid.x", value<[](const Place& at) { return at.cta.id[0] % at.cluster()[0]; }>},
    {"%cluster_ctaid.y", value<[](const Place& at) { return at.cta.id[1] % at.cluster()[1]; }>},
    {"%cluster_ctaid.z", value<[](const Place& at) { return at.cta.id[2] % at.cluster()[2]; }>},
    {"%cluster_nctaid.x", value<[](const Place& at) { return at.cluster()[0]; }>},
    {"%cluster_nctaid.y", value<[](const Place& at) { return at.cluster()[1]; }>},
    {"%cluster_nctaid.z", value<[](const Place& at) { return at.cluster()[2]; }>},
    {"%cluster_ctarank", value<[](const Place& at) { return at.cta.rank; }>},
    {"%cluster_nctarank", value<[](const Place& at) { return at.cta.cluster->ctas.size(); }>},
    {.name = "%is_explicit_cluster",
     .value = value<[](const Place& at) {
       return at.cta.cluster->ctas.size() != 1 || !at.cta.program->entry.required_cluster.empty();
     }>,
     .bits = 1},
    {"%clusterid.x", value<[](const Place& at) { return at.cta.id[0] / at.cluster()[0]; }>},
    {"%clusterid.y", value<[](const Place& at) { return at.cta.id[1] / at.cluster()[1]; }>},
    {"%clusterid.z", value<[](const Place& at) { return at.cta.id[2] / at.cluster()[2]; }>},
    {"%nclusterid.x", value<[](const Place& at) { return at.launch.grid[0] / at.cluster()[0]; }>},
    {"%nclusterid.y", value<[](const Place& at) { return at.launch.grid[1] / at.cluster()[1]; }>},
    {"%nclusterid.z", value<[](const Place& at) { return at.launch.grid[2] / at.cluster()[2]; }>},
    {"%clock", value<[](const Place& at) { return clock_of(at) & 0xFFFFFFFF; }>, 32, true, true},
    {"%clock_hi", value<[](const Place& at) { return (clock_of(at) >> 32); }>, 32, true, true},
    {"%clock64", value<[](const Place& at) { return clock_of(at); }>, 64, true, true},
    {"%globaltimer", value<[](const Place& at) { return clock_of(at); }>, 64, true, true},
    {"%globaltimer_lo", value<[](const Place& at) { return clock_of(at) & 0xFFFFFFFF; }>, 32, true, true},
    {"%globaltimer_hi", value<[](const Place& at) { return (clock_of(at) >> 32); }>, 32, true, true},
    {"%smid", value<[](const Place& at) { return static_cast<int64_t>(at.cta.cluster->index) % multiprocessors; }>, 32,
     false, true},
    {"%nsmid", value<[](const Place&) { return multiprocessors; }>, 32, false, true},
    // The address of the workspace: cooperative_groups/details/driver_abi.h of CUDA 13.0.
    {.name = "%envreg1",
     .value = value<[](const Place& at) { return (at.cta.cluster->workspace >> 32); }>,
     .is_cooperative = true},
    {.name = "%envreg2",
     .value = value<[](const Place& at) { return at.cta.cluster->workspace & 0xFFFFFFFF; }>,
     .is_cooperative = true},
    {"WARP_SZ", value<[](const Place&) { return lanes; }>},
});

}  // namespace

std::span<const SpecialRegister> special_registers() { return rows; }

const SpecialRegister* special_register(std::string_view name) {
  const auto row = std::ranges::find(rows, name, &SpecialRegister::name);
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace bitmma::kernel
