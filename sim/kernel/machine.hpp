// SPDX-License-Identifier: MIT
// The machine that runs decoded kernels: blocks (CTAs) of warps, each 32 lanes in lock step; a cluster's blocks
// together.
//
// A register is a slot of a warp's register file: 32 words of 32 bits for types of up to 32 bits (narrow values are
// zero-extended), 32 words of 64 bits for wider ones, one mask of 32 bits for predicates. Constants and special
// registers are slots that are filled when a warp begins, so that every operand of an Op is the offset of a slot.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/kernel/kernel.hpp"
#include "ptx_module.hpp"
#include "tensor_memory.hpp"
#include "type.hpp"

namespace bitmma::kernel {

constexpr int lanes = 32;
using Mask = uint32_t;
constexpr Mask all_lanes = 0xFFFFFFFF;

/// What an instruction of PTX does to a warp, decoded once.
struct Warp;
struct Op;
using Run = void (*)(Warp&, const Op&, Mask);

enum class Control : uint8_t {
  none,
  branch,     // to `target`; lanes meet again at `reconverge`
  leave,      // ret and exit
  barrier,    // bar.sync, .arrive, .red: details are a BarrierDetails
  converge,   // waits until the lanes named by the mask in slot e are here; then runs
  warpgroup,  // four warps meet, and the last one runs it for all
  wait,       // of an mbarrier: where a lane's phase is not complete, the other warps have their turn
  cluster,    // barrier.cluster.arrive, or with `flag` .wait
};

struct Op {
  Run run = nullptr;
  Control control = Control::none;
  bool guard_negated = false;
  bool flag = false;  // of the instruction's own
  uint8_t small = 0;  // as well
  uint32_t guard = no_slot;
  uint32_t d = 0, d2 = 0, a = 0, b = 0, c = 0, e = 0;  // slots
  int target = -1, reconverge = -1;
  int instruction = -1;  // of the entry
  int64_t immediate = 0;
  const void* details = nullptr;

  static constexpr uint32_t no_slot = ~uint32_t{0};
};

/// What stops a kernel. The executor adds where.
struct Fault {
  ViolationCode code = ViolationCode::out_of_bounds;
  int lane = -1;  // of the warp; -1: all
  std::string seen = {};
  std::string expected = {};
  std::string fix = {};
};

/// Generic addresses: windows of the spaces, and allocations of global memory above.
constexpr uint64_t window_bytes = uint64_t{1} << 32;
constexpr uint64_t shared_window = 0x0000'6000'0000'0000, local_window = 0x0000'6100'0000'0000,
                   constant_window = 0x0000'6200'0000'0000, param_window = 0x0000'6300'0000'0000,
                   global_begin = 0x0000'7F00'0000'0000;
/// Where a block's own shared memory begins in its window; sm_90 and later keep the first KiB.
constexpr uint32_t shared_begin = 1024;
/// An address in shared memory has the block's rank in its cluster above these bits, as on sm_90 and later.
constexpr int shared_rank_bits = 24;

/// States of a byte of shared, local and unset global memory.
enum ByteState : uint8_t { unwritten = 0, written = 1, in_flight = 2 };

/// A piece of global memory.
struct Region {
  uint64_t begin = 0, size = 0;
  uint8_t* data = nullptr;
  uint8_t* states = nullptr;  // ByteState each; nullptr: all are written
  std::string name = {};
};

/// Who touched a byte of shared memory last. Epochs count the barriers of a warp.
struct ByteUse {
  uint32_t write_epoch = 0;
  int16_t writer = -1;  // a warp of the cluster
  bool by_atomic = false;
  uint8_t write_lane = 0;
  bool is_generic = false;  // written in the generic proxy: the async proxy reads it behind a fence
  int write_instruction = -1;
  uint32_t readers = 0;  // warps of the block since the last write
  int read_instruction = -1;
};

struct Program;
struct Cta;
struct Cluster;

/// A copy of cp.async that has not arrived.
struct AsyncCopy {
  int lane = 0;
  uint32_t to = 0;  // in shared memory
  int bytes = 0;
  std::array<uint8_t, 16> data{};
};

/// A bulk copy or a store of st.async that completes on an mbarrier, and has not arrived.
struct BulkCopy {
  uint32_t barrier = 0;  // its address in shared memory
  uint32_t bytes = 0;
  struct Piece {
    Cta* cta = nullptr;  // whose shared memory it goes to
    uint32_t to = 0;
    std::array<uint8_t, 16> bytes{};
    uint32_t size = 16;  // of them
  };
  std::vector<Piece> pieces = {};
};

/// Lanes that wait for others: those of both ways behind a branch (`is_parent`), or those of the other way.
struct Level {
  int reconverge = -1, pc = 0;
  Mask mask = 0;
  bool is_parent = false;
};

/// Lanes that wait at an instruction that all must reach together.
struct Parked {
  int pc = 0;
  Mask mask = 0;
};

enum class WarpStatus : uint8_t { ready, at_barrier, at_warpgroup, at_cluster_barrier, done };

struct Warp {
  uint8_t* file = nullptr;
  Cta* cta = nullptr;
  int index = 0;   // in its block
  int number = 0;  // in its cluster
  int pc = 0;
  Mask active = 0, live = 0;
  int reconverge = -1;
  WarpStatus status = WarpStatus::ready;
  int instruction = -1;  // of a warp that waits
  std::vector<Level> levels = {};
  std::vector<Parked> parked = {};
  std::vector<std::vector<AsyncCopy>> groups = {};  // of cp.async that were committed, the oldest first
  std::vector<AsyncCopy> open_group = {};
  std::vector<uint32_t> seen = {};  // epochs of the cluster's other warps that a barrier made known
  uint32_t epoch = 1;
  Mask cluster_arrived = 0;  // lanes whose barrier.cluster.arrive waits for others
  Mask cluster_passed = 0;   // lanes whose arrival is complete, and that have not waited
  // Groups of wgmma are numbered from 1. Of each register: the group whose accumulator it holds, once there is one.
  std::vector<uint32_t> group_of_register = {};
  uint32_t committed_groups = 0, completed_groups = 0, newest_group = 0;
  bool waits = false;  // its turn ended at an mbarrier whose phase is not complete
  uint64_t carry = 0;  // CC.CF of each lane
  uint64_t steps = 0;
  uint32_t barrier_result = 0;

  template <typename T>
  T* lanes_of(uint32_t slot) const {
    return reinterpret_cast<T*>(file + slot);
  }
  Mask& mask_of(uint32_t slot) const { return *reinterpret_cast<Mask*>(file + slot); }
};

/// An address in PTX's brackets, [%rd1 + 16]: the register's slot and what is added to it.
struct Address {
  Space space = Space::generic;
  uint32_t slot = 0;
  bool wide = true;  // a register of 64 bits; of a narrower one the sum has 32
  int64_t offset = 0;

  uint64_t of(const Warp& warp, int lane) const {
    if (wide) return warp.lanes_of<const uint64_t>(slot)[lane] + static_cast<uint64_t>(offset);
    return warp.lanes_of<const uint32_t>(slot)[lane] + static_cast<uint32_t>(offset);
  }
};

enum class BarrierKind : uint8_t { sync, arrive, reduce };
struct BarrierDetails {
  BarrierKind kind = BarrierKind::sync;
  uint32_t id = 0, count = 0;  // slots
  bool has_count = false;
  int reduction = 0;  // popc, and, or
};

struct Barrier {
  int expected = 0;  // threads; 0: all of the block
  int arrived = 0;
  std::vector<Warp*> waiting = {}, arrivals = {};
  bool all = true, any = false;  // of .red
  uint32_t count = 0;
};

/// Four warps at one instruction.
struct Warpgroup {
  int arrived = 0;
  int pc = -1;
};

/// The thread that a launch follows, while its block runs.
struct Tracer {
  const ThreadTrace* trace = nullptr;
  Warp* warp = nullptr;
  int lane = 0;
  const Op* pending = nullptr;       // what it waits for; told when it goes on
  std::optional<Case> product = {};  // the matrix product that the warp takes part in
  const Op* product_op = nullptr;    // its Op
};

struct Cta {
  Cluster* cluster = nullptr;
  Tracer* tracer = nullptr;  // of the block whose thread is followed
  int rank = 0;
  const Program* program = nullptr;
  const Launch* launch = nullptr;
  std::vector<Region>* regions = nullptr;
  std::array<int64_t, 3> id{};
  std::vector<uint8_t> shared = {}, shared_states = {};
  std::vector<uint8_t> local = {}, local_states = {};
  std::vector<ByteUse> uses = {};
  std::vector<uint32_t> read_epochs = {};  // by byte and warp
  std::vector<uint8_t> used_units = {};    // of 16 bytes: whether `uses` has something of them
  std::vector<Warp> warps = {};
  std::array<Barrier, 16> barriers{};
  std::vector<Warpgroup> warpgroups = {};
  std::vector<BulkCopy> bulk_copies = {};
  // Of each mbarrier: the epochs of the cluster's warps that what arrived there makes known to those that wait.
  std::map<uint32_t, std::vector<uint32_t>> known_at = {};
  std::optional<TensorMemory> tensor_memory = {};  // of kernels with tcgen05
  std::vector<uint8_t> params = {};
  std::vector<uint8_t>* constants = nullptr;
  size_t last_region = 0;
  int64_t threads = 0;
  int64_t local_bytes = 0;
};

/// The blocks that run together. Without clusters, one.
struct Cluster {
  std::vector<Cta> ctas = {};
  uint64_t phases = 0;                   // that barriers and mbarriers have completed
  std::vector<uint32_t> arriving = {};   // epochs that arrivals at barrier.cluster make known
  std::vector<uint32_t> completed = {};  // those of the last phase
  std::vector<uint32_t> fenced = {};     // epochs of each warp that a fence.proxy.async covers
};

/// What the operands of one instruction are resolved against, made once a launch.
struct Program {
  Target target = Target::sm_90a;
  Entry entry = {};
  std::vector<Variable> variables = {};  // of the module
  std::vector<Op> ops = {};
  std::vector<uint32_t> register_slots = {};  // of the entry's registers
  std::vector<std::shared_ptr<const void>> details = {};
  uint32_t file_bytes = 0;
  /// Slots that hold one value in every lane, or the lane's special register.
  struct Constant {
    uint32_t slot = 0;
    uint64_t value = 0;
    int bytes = 4;      // 4, 8, or 0 for a mask
    int variable = -1;  // its address in its space, plus value
  };
  std::vector<Constant> constants = {};
  struct Special {
    uint32_t slot = 0;
    int id = 0;
    bool wide = false;
  };
  std::vector<Special> specials = {};
  std::vector<int64_t> variable_offsets = {};  // in the space
  int64_t shared_bytes = 0, local_bytes = 0, param_bytes = 0, constant_bytes = 0;
  int dynamic_align = 1;
  /// Of each instruction, in kernels with wgmma: the registers that it reads, but for accumulators of wgmma.mma_async.
  std::vector<std::vector<int>> reads = {};
  bool has_tensor_memory = false;
  bool has_atomics = false;    // on global memory
  bool order_matters = false;  // some add floating-point numbers there
};

/// The addresses of the module's global variables, in a launch.
struct GlobalAddresses {
  std::vector<uint64_t> of_variable = {};
};

// Memory of a warp. Every access checks its alignment and where it lies; shared memory also who else touched it.

enum class AccessKind : uint8_t { read, write, atomic, bulk_write };

/// The bytes that a lane reads or writes. Throws Fault. `data`: what it will write, if that is known: two warps may
/// write the same value to a byte of shared memory.
uint8_t* locate(Warp& warp, const Op& op, int lane, Space space, uint64_t address, int bytes, AccessKind kind,
                const uint8_t* data = nullptr);
inline uint8_t* locate(Warp& warp, const Op& op, int lane, const Address& address, int bytes, AccessKind kind,
                       const uint8_t* data = nullptr) {
  return locate(warp, op, lane, address.space, address.of(warp, lane), bytes, kind, data);
}

/// What the async proxy reads for the warps from a block's shared memory, 16 bytes at a multiple of 16: each byte is
/// written, known to one of the warps, and behind a fence.proxy.async. Throws Fault.
void check_async_read(std::span<const Warp> warps, int lane, const Cta& cta, size_t at);
/// fence.proxy.async: what the warp knows of is visible to the async proxy.
void fence_async(Warp& warp);

/// Adds the epochs of the cluster's warps that `warp` knows, and its own, to what a barrier makes known.
void tell(const Warp& warp, std::vector<uint32_t>& known);
/// The warp knows these from here on.
void learn(Warp& warp, std::span<const uint32_t> known);

/// The same place in the shared memory of the block of a rank. The address: in .shared::cluster, or generic.
constexpr uint64_t address_in(int rank, uint64_t address) {
  return (address & ~(uint64_t{0xFF} << shared_rank_bits)) | static_cast<uint64_t>(rank) << shared_rank_bits;
}

/// Marks what arrives, and that its bytes are written.
void complete_copies(Warp& warp, size_t groups_left);

[[noreturn]] void fault(ViolationCode code, int lane, std::string seen, std::string expected, std::string fix = {});

/// "thread (3, 0, 0)".
std::string print_thread(const Cta& cta, int warp, int lane);

/// The block whose shared memory holds the byte; nullptr where none does.
Cta* owner_of(Cluster& cluster, const uint8_t* byte);

template <typename Body>
void for_each_lane(Mask mask, const Body& body) {
  for (Mask left = mask; left != 0; left &= left - 1) body(__builtin_ctz(left));
}

}  // namespace bitmma::kernel
