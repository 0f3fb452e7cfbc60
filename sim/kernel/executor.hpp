// SPDX-License-Identifier: MIT
// Runs clusters of blocks, one after the other or, in a cooperative launch, in turn: their warps in turn, with 32 lanes
// each in lock step.
#pragma once

#include <memory>

#include "machine.hpp"

namespace bitmma::kernel {

/// Thrown if ThreadTrace::step ends the launch.
struct Stopped {};

/// A fault with its place; of several faults the one of the lowest cluster is reported.
struct PlacedFault {
  size_t cluster = 0;
  Violation violation = {};
};

/// The memory of a launch that its clusters share.
struct SharedByClusters {
  std::vector<GlobalRegion>* regions = nullptr;  // in ascending order of their addresses
  const TextureObjects* objects = nullptr;
  std::vector<uint64_t> variable_addresses = {};  // of each variable in .global memory
  std::vector<uint8_t> params = {};
  std::span<uint8_t> constants = {};
  Heap* heap = nullptr;    // of kernels that call malloc
  uint64_t workspace = 0;  // of a cooperative launch: its address
  /// Whether clusters run on other host threads, which may change memory meanwhile.
  bool has_other_threads = false;
};

/// Rounds in which each warp gets a turn, and the newest one that changed memory or ended a phase of a barrier.
struct Rounds {
  uint64_t count = 0, newest_change = 0, changes = 0;

  /// `total`: the number of changes in all rounds.
  void end(uint64_t total) {
    if (total != changes) newest_change = count;
    changes = total;
  }
};

/// Runs a cluster, and the next one when it has ended. Its arguments must outlive it.
class Executor {
 public:
  Executor(const Program& program, const Launch& launch, SharedByClusters& memory);
  ~Executor();
  Executor(Executor&&) = delete;

  /// Runs the cluster `id`; `index` is its position in the order of all clusters, and `queue` those that it may take
  /// over. Throws PlacedFault, and Stopped.
  void run(const std::array<int64_t, 3>& id, size_t index, ClusterQueue& queue);

  /// The same in parts: other clusters run between the rounds.
  void begin(const std::array<int64_t, 3>& id, size_t index, ClusterQueue& queue);
  /// False if the cluster has ended.
  bool run_round(const Rounds& rounds);
  /// How often the cluster has changed memory or ended a phase of a barrier.
  uint64_t changes() const;
  /// Whether all warps of the cluster wait for others or repeat what they have done, if memory does not change.
  bool is_stuck(const Rounds& rounds) const;
  /// Throws the fault of such a cluster.
  [[noreturn]] void report_stuck();

  uint64_t thread_instructions() const;
  const Warnings& warnings() const;
  /// What each cluster printed, by its position.
  const std::vector<std::pair<size_t, std::string>>& printed() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// The memory that an Executor takes, in bytes.
int64_t executor_bytes(const Program& program, const Launch& launch);

}  // namespace bitmma::kernel
