// SPDX-License-Identifier: MIT
// Runs one cluster of blocks: its warps in turn, with 32 lanes each in lock step.
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
  std::vector<GlobalRegion> regions = {};         // in ascending order of their addresses
  std::vector<uint64_t> variable_addresses = {};  // of each variable in .global memory
  std::vector<uint8_t> params = {};
  std::span<uint8_t> constants = {};
  Heap* heap = nullptr;  // of kernels that call malloc
};

/// Runs clusters one after the other. Its arguments must outlive it.
class Executor {
 public:
  Executor(const Program& program, const Launch& launch, SharedByClusters& memory);
  ~Executor();
  Executor(Executor&&) = delete;

  /// Runs the cluster `id`; `index` is its position in the order of all clusters, and `queue` those that it may take
  /// over. Throws PlacedFault, and Stopped.
  void run(const std::array<int64_t, 3>& id, size_t index, ClusterQueue& queue);

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
