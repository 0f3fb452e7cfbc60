// SPDX-License-Identifier: MIT
// The machine that runs decoded kernels: blocks (CTAs) of warps, 32 lanes per warp in lock step. The blocks of a
// cluster run together.
//
// A register is a slot of a warp's register file: 32 words of 32 bits for types of up to 32 bits (narrow values are
// zero-extended), 32 words of 64 bits for wider ones, one mask of 32 bits for predicates. Constants and special
// registers are slots that are filled when a warp begins, so that every operand of an Op is the offset of a slot.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/kernel/kernel.hpp"
#include "bitmma/kernel/texture.hpp"
#include "block_uses.hpp"
#include "divergence.hpp"
#include "ptx_module.hpp"
#include "shared_uses.hpp"
#include "special.hpp"
#include "tensor_memory.hpp"
#include "type.hpp"

namespace bitmma::kernel {

struct Warp;
struct Op;
/// One decoded step of a PTX instruction, as a warp runs it.
using Run = void (*)(Warp&, const Op&, Mask);
/// The step of an instruction that changes no value here.
inline void nothing(Warp&, const Op&, Mask) {}

enum class Control : uint8_t {
  none,
  branch,          // branch to `target`; lanes reconverge at `reconverge`
  leave,           // ret and exit
  barrier,         // bar.sync, .arrive, .red: `details` points to BarrierDetails
  converge,        // waits until all lanes in the mask in slot e arrive, then runs
  warpgroup,       // four warps meet; the last one to arrive runs it for all
  wait,            // waits on an mbarrier: while a lane's phase is incomplete, the other warps run
  cluster_arrive,  // barrier.cluster.arrive
  cluster_wait,    // barrier.cluster.wait
  call,            // of a subroutine: `details` points to SubroutineCall
  return_,         // ret of a subroutine
  yield,           // in a cooperative launch other warps and blocks run behind it
};

/// How setp combines a comparison with the predicate in slot c.
enum class Combine : uint8_t { none, and_, or_, xor_ };

struct Op {
  static constexpr uint32_t no_slot = ~uint32_t{0};

  Run run = nullptr;
  Control control = Control::none;
  bool guard_negated = false;
  bool writes_carry = false;        // .cc
  bool orders_blocks = false;       // an atomic or ordered access of global memory: see BlockOrder
  Combine combine = Combine::none;  // of setp
  uint32_t guard = no_slot;
  uint32_t d = 0, d2 = no_slot, a = 0, b = 0, c = 0, e = 0;  // slots
  int target = -1, reconverge = -1;
  int instruction = -1;  // index in the entry
  int64_t immediate = 0;
  const void* details = nullptr;
};

/// A fault that stops the kernel. The executor adds the place.
struct KernelFault {
  ViolationCode code = ViolationCode::out_of_bounds;
  int lane = -1;  // lane of the warp; -1: all lanes
  std::string seen = {};
  std::string expected = {};
  std::string fix = {};
};

/// Generic addresses: one window for each space. Allocations of global memory begin where Linux gives a process no
/// memory unless it asks for that place, so that an allocation at a host address has room.
constexpr uint64_t window_bytes = uint64_t{1} << 32;
constexpr uint64_t shared_window = 0x0000'6000'0000'0000, local_window = 0x0000'6100'0000'0000,
                   constant_window = 0x0000'6200'0000'0000, param_window = 0x0000'6300'0000'0000,
                   global_begin = 0x0000'4000'0000'0000;
/// Offset of a block's own shared memory in its window; sm_90 and later reserve the first KiB.
constexpr uint32_t shared_begin = 1024;
/// A shared-memory address holds the block's rank in its cluster above these bits, as on sm_90 and later.
constexpr int shared_rank_bits = 24;
constexpr uint32_t most_shared_rank = 0xFF;

/// State of a byte of shared, local or uninitialised global memory. Kernels change elements of 4 bits by atom.cas, so
/// that half of a byte may be written.
enum ByteState : uint8_t { unwritten = 0, written = 1, in_flight = 2, low_half_written = 3, high_half_written = 4 };

constexpr size_t most_access_bytes = 32;  // of a lane's load or store

/// An allocation of global memory.
struct GlobalRegion {
  uint64_t begin = 0, size = 0;
  uint8_t* data = nullptr;
  uint8_t* states = nullptr;  // one ByteState for each byte; nullptr: all bytes are written
  BlockUses* uses = nullptr;  // nullptr: blocks run one after another, in the order of their numbers
  bool is_output = false;     // the caller looks at its bytes: none that a kernel stores may be unwritten
  std::string name = {};
};

/// Textures and surfaces of a Memory, by their handles, which are no addresses.
constexpr uint64_t first_object = 0x7465'7800'0000'0000;
struct TextureObjects {
  std::map<uint64_t, Texture> textures = {};
  std::map<uint64_t, Texels> surfaces = {};
  uint64_t made = 0;
};

constexpr int64_t most_stack_bytes = 16 * 1024;  // of a thread, for alloca

struct Program;
struct Cta;
struct Cluster;

/// A cp.async copy that has not arrived.
struct AsyncCopy {
  int lane = 0;
  uint32_t to = 0;  // address in shared memory
  int bytes = 0;
  std::array<uint8_t, 16> data{};
};

/// A bulk copy or st.async store that completes on an mbarrier and has not arrived.
struct BulkCopy {
  uint32_t barrier = 0;  // the mbarrier's address in shared memory
  uint32_t bytes = 0;
  struct Piece {
    Cta* cta = nullptr;  // the block whose shared memory receives it
    uint32_t to = 0;
    std::array<uint8_t, 16> bytes{};
    uint32_t size = 16;  // valid bytes
  };
  std::vector<Piece> pieces = {};
};

/// A subroutine: its code, its parameters in local memory, and what an activation has of its own.
struct SubroutineCode {
  struct Parameter {
    int64_t offset = 0, bytes = 0;
  };
  struct Slot {
    uint32_t slot = 0;
    int bytes = 0;  // 4 of a mask; otherwise of 32 lanes
  };
  struct FrameAddress {
    uint32_t slot = 0;
    int bytes = 8;       // of an address
    int64_t offset = 0;  // in the frame
  };
  std::string name = {};
  uint64_t function = 0;  // its address
  int begin = 0;          // its first Op
  std::vector<Parameter> params = {}, returns = {};
  int64_t frame_begin = 0, frame_bytes = 0;  // its variables in local memory
  std::vector<Slot> slots = {};
  std::vector<FrameAddress> addresses = {};
};

/// A call of a subroutine.
struct SubroutineCall {
  int subroutine = -1;  // -1: the address in `function` says which one
  uint32_t function = Op::no_slot;
  struct Argument {
    uint32_t slot = 0;  // of its address in local memory
    int64_t bytes = 0;
  };
  std::vector<Argument> params = {}, returns = {};
};

/// An activation of a subroutine by lanes of a warp.
struct Activation {
  const SubroutineCode* code = nullptr;
  const SubroutineCall* call = nullptr;
  std::array<uint32_t, lanes> frame = {}, stack = {};  // offset of its variables, and the stack before
  std::vector<uint8_t> saved = {};                     // the slots of the activation before it
};

/// For the bytes of each lane's load or store: their bits that nothing wrote.
using AccessBits = std::array<std::array<uint8_t, most_access_bytes>, lanes>;

/// Bits of a warp's registers that were loaded from memory which nothing wrote. See unwritten.hpp.
struct UnwrittenValues {
  // Of each register of the entry: the lanes that hold such bits, and those whose value depends on what atom.cas
  // returned.
  std::vector<Mask> lanes_of_register = {}, exchanged_of_register = {};
  std::map<int, std::vector<uint8_t>> bits_of_register = {};  // of the registers that hold any, laid out as their slots
  Mask loaded = 0, stored = 0;                                // lanes of the load and of the store that run
  AccessBits loaded_bits = {};
  std::string origin = {};  // of the newest: its place, the thread and the line
};

enum class WarpStatus : uint8_t { ready, at_barrier, at_warpgroup, at_cluster_barrier, done };

struct Warp : Divergence {
  uint8_t* file = nullptr;
  Cta* cta = nullptr;
  int index = 0;   // in its block
  int number = 0;  // in its cluster
  WarpStatus status = WarpStatus::ready;
  int instruction = -1;                             // at which a waiting warp is
  std::vector<std::vector<AsyncCopy>> groups = {};  // committed groups of cp.async, oldest first
  std::vector<AsyncCopy> open_group = {};
  std::vector<uint32_t> seen = {};  // epochs of the cluster's other warps that barriers made visible to this warp
  uint32_t seen_of_all = 0;         // the least of them
  uint32_t epoch = 1;
  uint32_t released_epoch = 0;  // the newest one before a fence: a relaxed operation makes it visible
  Mask cluster_arrived = 0;     // lanes whose barrier.cluster.arrive is incomplete
  Mask cluster_passed = 0;      // lanes whose arrival is complete and that have not waited yet
  // wgmma groups are numbered from 1. For each register: the group whose accumulator it holds; empty before any wgmma.
  std::vector<uint32_t> group_of_register = {};
  uint32_t committed_groups = 0, completed_groups = 0, newest_group = 0;
  bool takes_unwritten = false;  // the load that runs may read unwritten bytes
  std::unique_ptr<UnwrittenValues> unwritten = {};
  std::array<uint8_t, most_access_bytes> widened = {};  // the bytes of a load that ends beyond its allocation
  bool waits = false;                                   // its turn ended at an mbarrier whose phase is incomplete
  bool gives_way = false;                               // its turn ends at an mbarrier although the phase is complete
  /// The mbarrier on which lanes wait, and the phase. If the phase completes, they see it, even if they run again only
  /// when the next one is complete too: a GPU wakes them in between.
  struct Sleep {
    const Cta* cta = nullptr;
    uint32_t barrier = 0;
    bool parity = false;
    Mask lanes = 0, woken = 0;
  } sleep = {};
  std::array<uint32_t, lanes> stack_bytes = {};  // of alloca
  uint64_t carry = 0;                            // CC.CF of each lane
  uint64_t steps = 0;
  uint64_t used_steps = 0;                   // of a turn that others have interrupted
  int long_turns = 0;                        // whole turns in a row
  std::vector<Activation> activations = {};  // the innermost last

  template <typename T>
  T* lanes_of(uint32_t slot) const {
    return reinterpret_cast<T*>(file + slot);
  }
  Mask& mask_of(uint32_t slot) const { return *reinterpret_cast<Mask*>(file + slot); }
};

/// An address in PTX's brackets, [%rd1 + 16]: the register's slot and the added offset.
struct Address {
  Space space = Space::generic;
  uint32_t slot = 0;
  bool wide = true;  // a 64-bit register; with a narrower one the sum wraps at 32 bits
  int64_t offset = 0;

  uint64_t of(const Warp& warp, int lane) const {
    if (wide) return warp.lanes_of<const uint64_t>(slot)[lane] + static_cast<uint64_t>(offset);
    return warp.lanes_of<const uint32_t>(slot)[lane] + static_cast<uint32_t>(offset);
  }
};

enum class BarrierKind : uint8_t { sync, arrive, reduce };
enum class BarrierReduction : uint8_t { popc, and_, or_ };
struct BarrierDetails {
  BarrierKind kind = BarrierKind::sync;
  uint32_t id = 0, count = 0;  // slots
  bool has_count = false;
  BarrierReduction reduction = BarrierReduction::popc;
};

struct Barrier {
  int expected = 0;  // threads; 0: all threads of the block
  int arrived = 0;
  std::vector<Warp*> waiting = {}, arrivals = {};
  bool all = true, any = false;  // results of .red
  uint32_t count = 0;
};

/// Four warps that meet at one instruction.
struct Warpgroup {
  int arrived = 0;
  int pc = -1;
};

/// The traced thread of a launch, while its block runs.
struct Tracer {
  const ThreadTrace* trace = nullptr;
  Warp* warp = nullptr;
  int lane = 0;
  const Op* pending = nullptr;       // the Op that the thread waits for; reported when the thread resumes
  std::optional<Case> product = {};  // the matrix product in which the warp takes part
  const Op* product_op = nullptr;    // the product's Op
};

struct Cta {
  Cluster* cluster = nullptr;
  Tracer* tracer = nullptr;  // set for the block of the traced thread
  int rank = 0;
  const Program* program = nullptr;
  const Launch* launch = nullptr;
  const std::vector<GlobalRegion>* regions = nullptr;
  const TextureObjects* objects = nullptr;
  std::array<int64_t, 3> id{};
  std::vector<uint8_t> shared = {}, shared_states = {};
  std::vector<uint8_t> local = {}, local_states = {};
  SharedUses uses = {};
  std::vector<Warp> warps = {};
  std::array<Barrier, 16> barriers{};
  std::vector<Warpgroup> warpgroups = {};
  std::vector<BulkCopy> bulk_copies = {};
  // For each mbarrier: the epochs of the cluster's warps that its arrivals make visible to the threads that wait.
  std::map<uint32_t, std::vector<uint32_t>> known_at = {};
  std::optional<TensorMemory> tensor_memory = {};  // only for kernels with tcgen05
  std::vector<uint8_t> params = {};
  std::span<uint8_t> constants = {};
  size_t last_region = 0;
  int64_t threads = 0;
  int64_t local_bytes = 0;
};

/// What a launch does that PTX leaves undefined and bitmma computes as a GPU does: the first occurrence of each.
struct Warnings {
  std::optional<Violation> early_read = {};      // of an accumulator before any wait
  std::optional<Violation> same_address = {};    // lanes that store different values to one address
  std::optional<Violation> block_race = {};      // blocks that use the same global memory
  std::optional<Violation> shared_race = {};     // with RaceCheck::warning
  std::optional<Violation> unwritten_read = {};  // of bytes whose values decide nothing
  std::optional<Violation> widened_read = {};    // of bytes beyond the end of an allocation
};

/// Clusters that run one after the other: those from `next` on, `step` apart. A running one may take the next one's
/// place in the grid: clusterlaunchcontrol.
struct ClusterQueue {
  size_t next = 0, step = 1, end = 0;

  std::optional<size_t> take() {
    if (next >= end) return std::nullopt;
    return std::exchange(next, next + step);
  }
};

/// Device memory that malloc gives: blocks in one allocation, by their offsets.
struct Heap {
  uint64_t begin = 0, bytes = 0;
  std::map<uint64_t, uint64_t> blocks = {};  // offset and size
};

/// The blocks that run together: one block if the launch has no clusters.
struct Cluster {
  ClusterQueue* queue = nullptr;
  Heap* heap = nullptr;
  std::string printed = {};  // by vprintf
  std::vector<Cta> ctas = {};
  size_t index = 0;  // in the order of all clusters
  Warnings warnings = {};
  uint64_t phases = 0;                   // number of completed phases of barriers and mbarriers
  uint64_t changes = 0;                  // number of accesses that may have changed memory
  uint64_t workspace = 0;                // of a cooperative launch: its address in global memory
  std::vector<uint32_t> arriving = {};   // epochs that the arrivals at barrier.cluster make visible
  std::vector<uint32_t> completed = {};  // epochs of the last completed phase
  std::vector<uint32_t> fenced = {};     // for each warp: its newest epoch covered by a fence.proxy.async
};

/// A decoded entry: its Ops and the layout of their operands, made once per launch.
struct Program {
  Target target = Target::sm_90a;
  Entry entry = {};
  std::vector<Variable> variables = {};   // the module's variables
  std::map<int, std::string> files = {};  // the module's .file
  std::vector<Op> ops = {};
  std::vector<uint32_t> register_slots = {};  // for each register of the entry
  std::vector<std::shared_ptr<const void>> details = {};
  uint32_t file_bytes = 0;
  /// Slots that hold the same value in every lane, or the lane's special register.
  struct Constant {
    uint32_t slot = 0;
    uint64_t value = 0;
    int bytes = 4;      // 4, 8, or 0 for a mask
    int variable = -1;  // if set: the variable's address in its space is added to `value`
  };
  std::vector<Constant> constants = {};
  struct Special {
    uint32_t slot = 0;
    const SpecialRegister* row = nullptr;
  };
  std::vector<Special> specials = {};
  std::vector<SubroutineCode> subroutines = {};
  std::vector<int64_t> variable_offsets = {};  // offset of each variable in its space
  int64_t shared_bytes = 0, local_bytes = 0, param_bytes = 0;
  int dynamic_align = 1;
  /// For each instruction, in kernels with wgmma: the registers that it writes and those that it reads, except
  /// accumulators of wgmma.mma_async.
  std::vector<std::vector<int>> reads = {}, writes = {};
  bool has_tensor_memory = false;
  bool has_stack = false;           // alloca: each thread has most_stack_bytes of local memory behind its variables
  bool has_heap = false;            // malloc and free
  bool takes_clusters = false;      // clusterlaunchcontrol.try_cancel
  std::string_view chance = {};     // a special register whose value varies from run to run
  std::string_view workspace = {};  // a special register that holds the address of a cooperative launch's workspace
  bool has_atomics = false;         // on global memory
  bool order_matters = false;       // some atomics add floating-point numbers in global memory
};

/// The PTX instruction of which the Op is a step.
inline const PtxInstruction& instruction_of(const Warp& warp, const Op& op) {
  return warp.cta->program->entry.instructions[static_cast<size_t>(op.instruction)];
}

// Memory of a warp. Every access checks alignment and bounds; shared memory also checks for races with other warps.

enum class AccessKind : uint8_t { read, write, atomic, bulk_write };

/// The bytes that a lane reads or writes. Throws KernelFault. `data`: the bytes to write, if known: two warps may write
/// the same value to a byte of shared memory.
uint8_t* locate(Warp& warp, const Op& op, int lane, Space space, uint64_t address, int bytes, AccessKind kind,
                const uint8_t* data = nullptr);
inline uint8_t* locate(Warp& warp, const Op& op, int lane, const Address& address, int bytes, AccessKind kind,
                       const uint8_t* data = nullptr) {
  return locate(warp, op, lane, address.space, address.of(warp, lane), bytes, kind, data);
}

/// std::memcpy of an element: a compiler has the usual sizes without a call.
inline void copy_element(void* to, const void* from, size_t bytes) {
  switch (bytes) {
    case 1: std::memcpy(to, from, 1); return;
    case 2: std::memcpy(to, from, 2); return;
    case 4: std::memcpy(to, from, 4); return;
    case 8: std::memcpy(to, from, 8); return;
    case 16: std::memcpy(to, from, 16); return;
    default: std::memcpy(to, from, bytes);
  }
}

/// Calls body(lane) in the order in which the lanes of a warp store `bytes` bytes each, so that the last one at an
/// address stays: 128 bytes at a time, and of those the lowest lane last. See write_lanes.
template <typename Body>
void for_each_in_write_order(Mask mask, size_t bytes, const Body& body) {
  const int lanes_of_pass = std::clamp(static_cast<int>(128 / bytes), 1, lanes);
  for (int begin = 0; begin < lanes; begin += lanes_of_pass) {
    for (int lane = begin + lanes_of_pass; lane-- > begin;) {
      if ((mask >> lane & 1) != 0) body(lane);
    }
  }
}

/// Writes each lane's `bytes` bytes, at a distance of `stride` in `data`, to its place, as a GPU does if several lanes
/// have one address: a warp stores 128 bytes at a time, in ascending order of lanes, and of those the lowest lane's
/// value stays. Measured on an H100 for shared and global memory: data/kernels/instructions.py.
void write_lanes(Warp& warp, const Op& op, Mask mask, std::span<uint8_t* const, lanes> places, const uint8_t* data,
                 size_t stride, size_t bytes);

/// Checks an async-proxy read of 16 aligned bytes of a block's shared memory on behalf of the warps. Each byte must be
/// written, visible to one of the warps, and covered by a fence.proxy.async. Throws KernelFault.
void check_async_read(std::span<const Warp> warps, int lane, Cta& cta, size_t at);
/// The same of 16 bytes from each of these places on, for all lanes.
void check_async_reads(std::span<const Warp> warps, Cta& cta, std::span<const uint32_t> places);
/// fence.proxy.async: makes all writes visible to the warp visible to the async proxy.
void fence_async(Warp& warp);

/// Adds the epochs of the cluster's warps that `warp` has seen, and its own epoch, to those that a barrier publishes.
void tell(const Warp& warp, std::vector<uint32_t>& known);
/// The same of a relaxed operation: of its own epochs, those before its last fence.
void tell_released(const Warp& warp, std::vector<uint32_t>& known);
/// From here on the warp sees the epochs that the barrier published.
void learn(Warp& warp, std::span<const uint32_t> known);

/// The same offset in the shared memory of the block of a given rank; the address is .shared::cluster or generic.
constexpr uint64_t address_in(int rank, uint64_t address) {
  return (address & ~(uint64_t{0xFF} << shared_rank_bits)) | static_cast<uint64_t>(rank) << shared_rank_bits;
}

/// Marks arrived bytes as written.
void complete_copies(Warp& warp, size_t groups_left);

[[noreturn]] void fault(ViolationCode code, int lane, std::string seen, std::string expected, std::string fix = {});
/// The fault of an .aligned instruction that only the lanes of `mask` execute.
[[noreturn]] void fault_of_lanes(const Warp& warp, Mask mask);

/// "thread (3, 0, 0)".
std::string print_block(const Cta& cta);
std::string print_thread(const Cta& cta, int warp, int lane);

/// The block whose shared memory holds the byte; nullptr if none does.
Cta* owner_of(Cluster& cluster, const uint8_t* byte);

template <typename Body>
void for_each_lane(Mask mask, const Body& body) {
  for (Mask left = mask; left != 0; left &= left - 1) body(__builtin_ctz(left));
}

}  // namespace bitmma::kernel
