// SPDX-License-Identifier: MIT
// A launch: its checks, its memory, and its clusters over host threads.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>

#include "../math/ieee_environment.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/gpu.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "executor.hpp"
#include "global_memory.hpp"
#include "tensor_map.hpp"

namespace bitmma {
namespace kernel {
namespace {

constexpr size_t most_queues = 16;    // of clusters that may take each other's work over
constexpr int64_t most_cluster = 16;  // blocks; CUDA guarantees 8, an H100 accepts 16 on request

/// The launch with its cluster: the shape of .reqnctapercluster, or one block. With .blocksareclusters the grid counts
/// clusters.
Launch with_cluster(const PtxEntry& kernel, const Launch& call) {
  const Entry& entry = kernel.program().entry;
  Launch launch = call;
  std::array<int64_t, 3> required{1, 1, 1};
  for (size_t i = 0; i < entry.required_cluster.size() && i < 3; ++i)
    required[i] = std::max<int64_t>(entry.required_cluster[i], 1);
  if (!launch.cluster) launch.cluster = required;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t extent = (*launch.cluster)[i];
    const auto refuse = [&](std::string expected) {
      throw Error({.field = "cluster",
                   .seen = fmt::format("{}", fmt::join(*launch.cluster, ",")),
                   .expected = std::move(expected)});
    };
    if (extent < 1 || extent > most_cluster) refuse(fmt::format("1 to {} of each extent", most_cluster));
    if (!entry.required_cluster.empty() && *launch.cluster != required)
      refuse(fmt::format("{}, as .reqnctapercluster of the kernel requires", fmt::join(required, ",")));
    if (entry.grid_of_clusters && launch.grid[i] >= 1 && launch.grid[i] <= 0x7FFFFFFF) launch.grid[i] *= extent;
  }
  const std::array<int64_t, 3>& cluster = *launch.cluster;
  const int64_t blocks = cluster[0] * cluster[1] * cluster[2];
  const int64_t most = entry.most_cluster > 0 ? std::min<int64_t>(entry.most_cluster, most_cluster) : most_cluster;
  if (blocks > most)
    throw Error({.code = ViolationCode::too_large,
                 .field = "cluster",
                 .seen = fmt::format("{} blocks", blocks),
                 .expected = fmt::format("at most {}", most)});
  return launch;
}

/// The bytes of the parameters. Memory of the arguments becomes that of the device, at addresses as cudaMalloc gives
/// them.
std::vector<uint8_t> bytes_of_arguments(const PtxEntry& kernel, const Launch& launch, Memory& device) {
  std::vector<uint8_t> bytes(static_cast<size_t>(kernel.info().parameter_bytes()));
  std::map<std::pair<const uint8_t*, size_t>, uint64_t> addresses;  // of the memory of earlier arguments
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    const KernelArgument& argument = launch.arguments[i];
    const PtxParameter& parameter = kernel.parameters()[i];
    const auto to = bytes.begin() + static_cast<std::ptrdiff_t>(parameter.offset);
    if (!argument.is_memory) {
      std::ranges::copy(argument.value, to);
      continue;
    }
    // Two arguments may share the same memory.
    const std::pair memory(argument.memory.data(), argument.memory.size());
    const auto earlier = argument.memory.empty() ? addresses.end() : addresses.find(memory);
    const uint64_t address =
        earlier != addresses.end()
            ? earlier->second
            : device.map(argument.memory, !argument.is_unwritten, fmt::format("argument {} ({})", i, parameter.name));
    addresses.emplace(memory, address);
    if (argument.map) {
      std::ranges::copy(pack(*argument.map, address).bytes(), to);
    } else {
      const uint64_t value = address + static_cast<uint64_t>(argument.offset_bytes);
      std::ranges::copy(std::bit_cast<std::array<uint8_t, 8>>(value), to);
    }
  }
  return bytes;
}

/// Appends a violation.
auto refusals_in(std::vector<Violation>& violations) {
  return [&violations](std::string field, std::string seen, std::string expected, std::string fix = {}) {
    violations.push_back(
        {.field = std::move(field), .seen = std::move(seen), .expected = std::move(expected), .fix = std::move(fix)});
  };
}

void require_arguments(const PtxEntry& kernel, const Launch& launch, std::vector<Violation>& violations) {
  const auto refuse = refusals_in(violations);
  if (launch.parameter_bytes) {
    const int64_t bytes = std::ssize(*launch.parameter_bytes), wanted = kernel.info().parameter_bytes();
    if (!launch.arguments.empty())
      violations.push_back({.code = ViolationCode::not_together, .field = "arguments", .seen = "parameter_bytes"});
    if (bytes != wanted) refuse("parameter_bytes", counted(bytes, "byte"), counted(wanted, "byte"));
    return;
  }
  if (launch.arguments.size() != kernel.parameters().size()) {
    std::string names;
    for (const PtxParameter& parameter : kernel.parameters())
      names += fmt::format("{}.{} {}", names.empty() ? "" : ", ", parameter.type, parameter.name);
    refuse("arguments", std::to_string(launch.arguments.size()),
           fmt::format("{}: {}", kernel.parameters().size(), names));
  }
  for (size_t i = 0; i < std::min(launch.arguments.size(), kernel.parameters().size()); ++i) {
    const KernelArgument& argument = launch.arguments[i];
    const PtxParameter& parameter = kernel.parameters()[i];
    const int64_t bytes = argument.map         ? static_cast<int64_t>(tensor_map_bytes)
                          : argument.is_memory ? 8
                                               : std::ssize(argument.value);
    if (bytes != parameter.bytes)
      refuse(fmt::format("argument {}", i),
             argument.map         ? "a tensor map"
             : argument.is_memory ? "memory"
                                  : counted(bytes, "byte"),
             fmt::format("{} of .{} {}", counted(parameter.bytes, "byte"), parameter.type, parameter.name),
             argument.is_memory && parameter.bytes == static_cast<int64_t>(tensor_map_bytes)
                 ? "pass a tensor map: tensor_map in Python, tensor_map_argument in C++"
                 : "");
    if (argument.offset_bytes < 0 || argument.offset_bytes > std::ssize(argument.memory))
      refuse(fmt::format("offset of argument {}", i), std::to_string(argument.offset_bytes),
             fmt::format("0..{}", argument.memory.size()));
  }
  for (size_t i = 0; launch.memory && i < launch.arguments.size(); ++i) {
    if (launch.arguments[i].is_memory)
      refuse(fmt::format("argument {}", i), "memory of the caller, beside a Memory", "an address of the Memory",
             "Memory::map makes it an allocation");
  }
}

/// The blocks that a GPU of the target holds at a time, as far as their threads and shared memory limit them: ptxas
/// decides on the registers. Nothing for a target whose number of multiprocessors is unknown.
std::optional<int64_t> most_resident_blocks(const Program& program, const Launch& launch, int64_t threads) {
  const auto multiprocessors = multiprocessors_of(program.target);
  if (!multiprocessors) return std::nullopt;
  // CUDA C++ Programming Guide, compute capability 9.0: of a multiprocessor.
  constexpr int64_t most_blocks = 32, most_warps = 64, shared_bytes = 228 * 1024, reserved_bytes = 1024;
  const int64_t warps = (threads + lanes - 1) / lanes,
                shared = program.shared_bytes + launch.dynamic_shared_bytes + reserved_bytes;
  return *multiprocessors * std::min({most_blocks, most_warps / warps, shared_bytes / shared});
}

/// A cooperative launch has room for its blocks, in the GPU and in bitmma's memory.
void require_residence(const Program& program, const Launch& launch, std::vector<Violation>& violations) {
  const int64_t blocks = launch.grid[0] * launch.grid[1] * launch.grid[2],
                threads = launch.block[0] * launch.block[1] * launch.block[2];
  const std::array<int64_t, 3>& cluster = *launch.cluster;
  const auto refuse = [&](std::string field, std::string seen, std::string expected, std::string fix) {
    violations.push_back({.code = ViolationCode::too_large,
                          .field = std::move(field),
                          .seen = std::move(seen),
                          .expected = std::move(expected),
                          .fix = std::move(fix)});
  };
  if (const auto most = most_resident_blocks(program, launch, threads); most && blocks > *most)
    return refuse("grid", fmt::format("{} blocks of a cooperative launch", blocks),
                  fmt::format("at most {}, which the GPU holds at a time", *most),
                  "launch fewer blocks, each of which does more");
  const int64_t bytes = executor_bytes(program, launch);
  if (const int64_t clusters = blocks / (cluster[0] * cluster[1] * cluster[2]); clusters > launch.most_bytes / bytes)
    refuse("memory", fmt::format("{} times {} bytes of registers, shared and local memory", clusters, bytes),
           fmt::format("at most {} together", launch.most_bytes), "fewer or smaller blocks, or a higher limit");
}

void require_launch(const PtxEntry& kernel, const Launch& launch) {
  const Program& program = kernel.program();
  std::vector<Violation> violations;
  const auto refuse = refusals_in(violations);
  constexpr std::array<int64_t, 3> most_grid{0x7FFFFFFF, 65535, 65535}, most_block{1024, 1024, 64};
  for (size_t i = 0; i < 3; ++i) {
    const char axis = "xyz"[i];
    if (launch.grid[i] < 1 || launch.grid[i] > most_grid[i])
      refuse(fmt::format("grid.{}", axis), std::to_string(launch.grid[i]), fmt::format("1 to {}", most_grid[i]));
    if (launch.block[i] < 1 || launch.block[i] > most_block[i])
      refuse(fmt::format("block.{}", axis), std::to_string(launch.block[i]), fmt::format("1 to {}", most_block[i]));
    if (const int64_t cluster = (*launch.cluster)[i]; launch.grid[i] % cluster != 0)
      refuse(fmt::format("grid.{}", axis), std::to_string(launch.grid[i]),
             fmt::format("a multiple of the {} blocks of a cluster", cluster));
  }
  if (!violations.empty()) throw Error(std::move(violations));
  const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  if (threads > 1024) refuse("block", std::to_string(threads), "at most 1024 threads");
  const auto print_extents = [](const auto& extents) { return fmt::format("{}", fmt::join(extents, ",")); };
  const std::vector<int64_t>& required = program.entry.required_block;
  for (size_t i = 0; i < required.size() && i < 3; ++i) {
    if (launch.block[i] == required[i]) continue;
    refuse("block", print_extents(launch.block),
           fmt::format("{}, as .reqntid of the kernel requires", print_extents(required)));
    break;
  }
  int64_t most = 1;
  for (const int64_t bound : program.entry.most_block) most *= bound;
  if (!program.entry.most_block.empty() && threads > most)
    refuse("block", std::to_string(threads),
           fmt::format("at most {} threads, as .maxntid of the kernel requires", most));
  constexpr int64_t most_shared = 227 * 1024;
  if (launch.dynamic_shared_bytes < 0 || launch.dynamic_shared_bytes > most_shared - program.shared_bytes)
    refuse("shared memory",
           fmt::format("{} static and {} dynamic bytes", program.shared_bytes, launch.dynamic_shared_bytes),
           fmt::format("at most {} together", most_shared));
  if (launch.trace && !launch.trace->step) refuse("trace.step", "nothing", "a function that receives the steps");
  for (size_t i = 0; launch.trace && i < 3; ++i) {
    const auto require = [&](std::string_view what, int64_t index, int64_t extent) {
      if (index < 0 || index >= extent)
        refuse(fmt::format("trace.{}.{}", what, "xyz"[i]), std::to_string(index), fmt::format("0 to {}", extent - 1));
    };
    require("block", launch.trace->block[i], launch.grid[i]);
    require("thread", launch.trace->thread[i], launch.block[i]);
  }
  require_arguments(kernel, launch, violations);
  if (!program.chance.empty() && !launch.clock)
    violations.push_back(
        {.code = ViolationCode::missing_argument,
         .field = "clock",
         .seen = fmt::format("a kernel that reads {}, whose value varies from run to run", program.chance),
         .fix = "with a clock such as 0 it gets values that do not vary"});
  if (!program.workspace.empty() && !launch.cooperative)
    violations.push_back({.code = ViolationCode::missing_argument,
                          .field = "cooperative",
                          .seen = fmt::format("a kernel that reads {}, as this_grid().sync() does", program.workspace),
                          .expected = "a cooperative launch",
                          .fix = "its blocks wait for each other, so all have to run together"});
  if (launch.cooperative && program.takes_clusters)
    violations.push_back({.code = ViolationCode::not_together,
                          .field = "cooperative",
                          .seen = "clusterlaunchcontrol.try_cancel",
                          .expected = "blocks that have not begun"});
  if (launch.threads < 1) refuse("threads", std::to_string(launch.threads), "1 or more");
  if (const int64_t bytes = executor_bytes(program, launch); violations.empty() && bytes > launch.most_bytes)
    refuse("memory", fmt::format("{} bytes of registers, shared and local memory of a cluster", bytes),
           fmt::format("at most {}", launch.most_bytes), "a smaller block or cluster, or a higher limit");
  if (launch.cooperative && violations.empty()) require_residence(program, launch, violations);
  if (!violations.empty()) throw Error(std::move(violations));
}

/// The memory that the driver gives a cooperative launch: the number of its bytes, and the word of the barrier at which
/// blocks wait, both 32 bits. Source: cooperative_groups/details/driver_abi.h of CUDA 13.0.
class Workspace {
 public:
  Workspace(Memory& device, bool is_needed) : device_(device) {
    if (!is_needed) return;
    constexpr std::array<uint32_t, 2> words{8, 0};
    address_ = device_.allocate(sizeof words, "the workspace of the cooperative launch");
    device_.write(address_, std::bit_cast<std::array<uint8_t, sizeof words>>(words));
  }
  ~Workspace() {
    if (address_ != 0) device_.free(address_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  uint64_t address() const { return address_; }

 private:
  Memory& device_;
  uint64_t address_ = 0;
};

}  // namespace
}  // namespace kernel

KernelArgument scalar_argument(uint64_t value, int bytes) {
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
    throw Error({.field = "bytes", .seen = std::to_string(bytes), .expected = "1, 2, 4 or 8"});
  KernelArgument argument;
  for (int i = 0; i < bytes; ++i) argument.value.push_back(static_cast<uint8_t>(value >> 8 * i));
  return argument;
}

KernelArgument memory_argument(std::span<uint8_t> memory, bool is_unwritten, int64_t offset_bytes) {
  return {.memory = memory, .is_memory = true, .offset_bytes = offset_bytes, .is_unwritten = is_unwritten};
}

KernelArgument tensor_map_argument(std::span<uint8_t> memory, const TensorMap& map) {
  require_tensor_map(map, std::ssize(memory));
  return {.memory = memory, .is_memory = true, .map = map};
}

LaunchReport launch(const PtxEntry& kernel, const Launch& call) {
  using namespace kernel;
  const Launch launch = with_cluster(kernel, call);
  require_launch(kernel, launch);
  const Program& program = kernel.program();
  Memory own;
  Memory& device = launch.memory ? *launch.memory : own;
  SharedByClusters memory;
  memory.params = launch.parameter_bytes ? *launch.parameter_bytes : bytes_of_arguments(kernel, launch, device);
  Memory::Contents::Variables& variables = device.contents().variables_of(kernel.module());
  memory.variable_addresses = variables.addresses;
  memory.constants = variables.constants;
  if (program.has_heap) memory.heap = &device.contents().device_heap(device);
  const Workspace workspace(device, launch.cooperative && !program.workspace.empty());
  memory.workspace = workspace.address();
  if (!launch.checks) device.contents().forget_states();  // what it writes will be unknown
  std::vector<GlobalRegion>& regions = device.contents().regions(launch.checks);
  memory.regions = &regions;
  memory.objects = &device.contents().objects;

  std::array<int64_t, 3> grid{};  // in clusters
  for (size_t i = 0; i < 3; ++i) grid[i] = launch.grid[i] / (*launch.cluster)[i];
  const int64_t clusters = grid[0] * grid[1] * grid[2];
  // Atomics order blocks: these run one after another.
  std::vector<std::unique_ptr<BlockUses>> uses;
  const bool runs_in_order = program.has_atomics || program.has_heap || launch.cooperative;
  const bool run_in_any_order =
      clusters > 1 && (launch.cooperative ? !program.has_heap : !runs_in_order);  // malloc orders blocks too
  BlockOrder order(static_cast<size_t>(launch.cooperative ? clusters : 0));
  for (GlobalRegion& region : regions) {
    region.uses = nullptr;
    if (launch.checks && run_in_any_order && region.size > 0)
      region.uses =
          uses.emplace_back(std::make_unique<BlockUses>(region.size, launch.cooperative ? &order : nullptr)).get();
  }
  const int64_t fitting = launch.most_bytes / std::max<int64_t>(executor_bytes(program, launch), 1);
  const int threads =
      runs_in_order || launch.trace ? 1 : static_cast<int>(std::clamp<int64_t>(fitting, 1, launch.threads));
  memory.has_other_threads = threads > 1 && clusters > 1;
  std::mutex mutex;
  std::vector<std::unique_ptr<Executor>> free;
  std::optional<PlacedFault> first;
  LaunchReport report;
  // A cluster that takes over others does so within its queue, so that their number of threads changes nothing.
  const auto queues = program.takes_clusters ? std::min<size_t>(most_queues, static_cast<size_t>(clusters))
                                             : static_cast<size_t>(clusters);
  const auto id_of = [&](size_t index) -> std::array<int64_t, 3> {
    const auto cluster = static_cast<int64_t>(index);
    return {cluster % grid[0], cluster / grid[0] % grid[1], cluster / (grid[0] * grid[1])};
  };
  const auto run_cluster = [&](size_t index, ClusterQueue& queue) {
    std::unique_ptr<Executor> executor;
    {
      const std::lock_guard lock(mutex);
      if (report.was_stopped || (first && first->cluster < index)) return;
      if (!free.empty()) executor = std::move(free.back()), free.pop_back();
    }
    if (!executor) executor = std::make_unique<Executor>(program, launch, memory);
    const math::IeeeEnvironment environment;
    try {
      executor->run(id_of(index), index, queue);
    } catch (PlacedFault& fault) {
      const std::lock_guard lock(mutex);
      if (!first || fault.cluster < first->cluster) first = std::move(fault);
    } catch (const Stopped&) {
      const std::lock_guard lock(mutex);
      report.was_stopped = true;
    }
    const std::lock_guard lock(mutex);
    free.push_back(std::move(executor));
  };
  /// All clusters in turn, until each has ended.
  const auto run_together = [&] {
    const math::IeeeEnvironment environment;
    ClusterQueue none;
    for (size_t index = 0; index < static_cast<size_t>(clusters); ++index)
      free.emplace_back(std::make_unique<Executor>(program, launch, memory))->begin(id_of(index), index, none);
    std::vector<Executor*> running;
    for (const auto& executor : free) running.push_back(executor.get());
    Rounds rounds;
    while (!running.empty()) {
      ++rounds.count;
      std::erase_if(running, [&](Executor* executor) { return !executor->run_round(rounds); });
      uint64_t changes = 0;
      for (const auto& executor : free) changes += executor->changes();
      rounds.end(changes);
      if (!running.empty() && std::ranges::all_of(running, [&](Executor* each) { return each->is_stuck(rounds); }))
        running.front()->report_stuck();
    }
  };
  if (launch.cooperative) {
    try {
      run_together();
    } catch (PlacedFault& fault) {
      first = std::move(fault);
    } catch (const Stopped&) {
      report.was_stopped = true;
    }
  } else {
    parallel_for(queues, threads, [&](size_t number) {
      ClusterQueue queue{.next = number, .step = queues, .end = static_cast<size_t>(clusters)};
      while (const auto index = queue.take()) run_cluster(*index, queue);
    });
  }
  if (first) throw Error(first->violation);
  std::map<size_t, std::string_view> printed;
  for (const auto& executor : free) {
    report.thread_instructions += executor->thread_instructions();
    printed.insert(executor->printed().begin(), executor->printed().end());
  }
  for (const auto& [cluster, text] : printed) report.printed += text;
  for (std::optional<Violation> Warnings::*const kind :
       {&Warnings::early_read, &Warnings::same_address, &Warnings::block_race, &Warnings::shared_race,
        &Warnings::unwritten_read, &Warnings::widened_read}) {
    const auto warned =
        std::ranges::find_if(free, [&](const auto& executor) { return (executor->warnings().*kind).has_value(); });
    if (warned != free.end()) report.warnings.push_back(*((*warned)->warnings().*kind));
  }
  return report;
}

}  // namespace bitmma
