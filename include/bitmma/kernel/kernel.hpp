// SPDX-License-Identifier: MIT
// Whole PTX kernels on the CPU, with the GPU's bits.
//
//   const PtxEntry kernel(ptx, {.entry = "softmax"});
//   LaunchReport report = launch(kernel, {.grid = {4, 2, 1}, .block = {128, 1, 1},
//                                         .arguments = {memory_argument(x), memory_argument(y), scalar_argument(1024,
//                                         4)}});
//
// Several launches over one memory, with parameters as bytes: PtxModule, and Memory of memory.hpp.
//
// A kernel's instructions fix the order in which a GPU adds, so a reduction by shuffles and shared memory needs no
// rule. Each value comes from the layers below: math (special functions, cvt, fma), instruction (mma.sync, wgmma). Only
// the contraction of a product and a sum into one fma is up to ptxas: fusions() lists each decision and its rule.
//
// A block's warps run in turn, with 32 lanes each in lock step; diverged lanes reconverge at the immediate
// post-dominator. A cluster's blocks run together. Clusters run on several threads; if the kernel has atomics on global
// memory, they run in ascending order on one thread. Accesses are checked: bounds, alignment, reads of unwritten
// memory, races in shared memory between barriers, barriers that never complete.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/kernel/tensor_map.hpp"
#include "bitmma/kernel/thread_trace.hpp"

namespace bitmma {

namespace kernel {
struct Module;
struct Program;
}  // namespace kernel

class Memory;

struct KernelOptions {
  std::string entry = {};             // empty: the only one of the module
  std::optional<Target> target = {};  // nothing: the module's .target
  bool fmad = true;                   // ptxas -fmad: products and sums without a rounding become fma
  /// The output of nvdisasm -gp for the cubin of ptxas -lineinfo: if it shows a sum or an fma at a line of the PTX, it
  /// decides whether they are joined. Nothing: only the rules decide.
  std::optional<std::string> sass = {};
};

/// A parameter of an entry, in PTX's words.
struct PtxParameter {
  std::string name = {};
  std::string type = {};  // "u64", "f32", "b8"
  int64_t bytes = 0;
  int64_t offset = 0, align = 1;  // in the bytes of all parameters

  bool operator==(const PtxParameter&) const = default;
};

/// An entry of a module, and its performance-tuning directives; 0 and empty: it has none.
struct PtxEntryInfo {
  std::string name = {};
  std::vector<PtxParameter> parameters = {};
  std::vector<int64_t> required_block = {};    // .reqntid
  std::vector<int64_t> most_block = {};        // .maxntid
  std::vector<int64_t> required_cluster = {};  // .reqnctapercluster
  int64_t most_cluster = 0;                    // .maxclusterrank, in blocks
  bool grid_of_clusters = false;               // .blocksareclusters: the grid counts clusters

  /// The bytes of all parameters.
  int64_t parameter_bytes() const;
};

/// A variable of a module in .global or .const memory.
struct PtxVariable {
  std::string name = {};
  std::string space = {};  // "global" or "const"
  std::string type = {};   // of an element
  int64_t bytes = 0, align = 1;
};

/// A PTX module, parsed once.
class PtxModule {
 public:
  /// Throws Error, with the line, for text that is not PTX.
  explicit PtxModule(std::string_view ptx);

  /// Of .target. Throws Error for one that bitmma does not know.
  Target target() const;
  const std::vector<PtxEntryInfo>& entries() const { return entries_; }
  std::vector<PtxVariable> variables() const;
  /// For the library itself.
  const std::shared_ptr<const kernel::Module>& module() const { return module_; }

 private:
  std::shared_ptr<const kernel::Module> module_;
  std::vector<PtxEntryInfo> entries_;
};

/// What the SASS shows for a product and a sum that reads it.
enum class SassEvidence : uint8_t {
  none,    // no SASS is given, or it has no such instruction for the line
  joined,  // fma
  apart,   // a sum, or an fma with its other operand
  both,    // ptxas made several copies of the line, and joined some of them
};
std::string_view print(SassEvidence evidence);

/// A product and a sum that reads it, and whether ptxas joins them into one fma.
struct KernelFusion {
  int product_line = 0, sum_line = 0;  // lines of the PTX; product_line 0: SASS has an fma whose product was not found
  std::string product = {}, sum = {};  // as written
  std::string rule = {};               // the row of the table that covers the case
  bool rule_joins = true;              // the decision of that row
  bool is_joined = true;               // the decision that applies
  bool is_sure = true;                 // false: neither a measured row nor SASS decides
  SassEvidence sass = SassEvidence::none;

  bool contradicts_rule() const { return is_joined != rule_joins; }

  bool operator==(const KernelFusion&) const = default;
};

class PtxEntry {
 public:
  /// Parses the module and decodes one entry. Throws Error for text that is not PTX, for an entry that does not exist,
  /// and for unsupported instructions, each with its line.
  explicit PtxEntry(std::string_view ptx, const KernelOptions& options = {});
  explicit PtxEntry(const PtxModule& module, const KernelOptions& options = {});

  const std::string& name() const { return info_.name; }
  Target target() const { return target_; }
  const std::vector<PtxParameter>& parameters() const { return info_.parameters; }
  const PtxEntryInfo& info() const { return info_; }
  const std::vector<KernelFusion>& fusions() const { return fusions_; }
  /// Static shared memory per block, and local memory per thread.
  int64_t shared_bytes() const;
  int64_t local_bytes() const;
  /// True if atomics add floating-point numbers to global memory: the sum then depends on their order, which a GPU does
  /// not guarantee. bitmma adds in ascending order of threads.
  bool order_matters() const;
  /// A register that the kernel reads whose value varies from run to run on a GPU, such as "%clock64" (Launch::clock);
  /// empty: none.
  std::string_view varying_register() const;
  const kernel::Program& program() const { return *program_; }
  const std::shared_ptr<const kernel::Module>& module() const { return module_; }

 private:
  PtxEntryInfo info_;
  Target target_ = Target::sm_90a;
  std::shared_ptr<const kernel::Module> module_;
  std::vector<KernelFusion> fusions_;
  std::shared_ptr<const kernel::Program> program_;
};

/// The points at which a kernel's bits are uncertain: joins that no rule covers, joins where SASS contradicts the
/// rules, and floating-point atomics.
std::vector<Violation> kernel_warnings(const PtxEntry& kernel);

/// The names of a module's entries. Throws Error for text that is not PTX.
std::vector<std::string> kernel_entries(std::string_view ptx);

/// The value of a parameter: the bytes of a number, or memory whose address is passed.
struct KernelArgument {
  std::vector<uint8_t> value = {};
  std::span<uint8_t> memory = {};
  bool is_memory = false;
  int64_t offset_bytes = 0;           // from the start of the memory to the address
  bool is_unwritten = false;          // memory is uninitialised: reading it before the kernel writes it is a fault
  std::optional<TensorMap> map = {};  // map of the memory: the parameter is the 128-byte map
};
/// A number, little-endian, as wide as the parameter.
KernelArgument scalar_argument(uint64_t value, int bytes);
/// Global memory, read and written in place; it must outlive the launch. Arguments with the same memory have the same
/// addresses.
KernelArgument memory_argument(std::span<uint8_t> memory, bool is_unwritten = false, int64_t offset_bytes = 0);
/// A tensor map over global memory, as in memory_argument. Throws Error if the map does not fit the memory.
KernelArgument tensor_map_argument(std::span<uint8_t> memory, const TensorMap& map);

/// What a launch does with accesses to a byte of shared memory that no barrier orders, of which at least one writes.
enum class RaceCheck : uint8_t { fault, warning, off };

struct Launch {
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  /// Blocks per cluster, at most 16 in total; the grid is a multiple. Nothing: the kernel's .reqnctapercluster, or
  /// one.
  std::optional<std::array<int64_t, 3>> cluster = {};
  int64_t dynamic_shared_bytes = 0;
  /// As cuLaunchCooperativeKernel: all blocks run together, in turn on one host thread, so that they may wait for each
  /// other. The kernel gets a workspace for this_grid().sync(). Refused for more blocks than the GPU holds at a time.
  bool cooperative = false;
  std::vector<KernelArgument> arguments = {};
  /// In place of `arguments`: the bytes of all parameters, each at its offset, as cuLaunchKernel's extra buffer has
  /// them. Pointers in them, also in structures, are addresses of `memory`, and tensor maps those of encode_tensor_map.
  std::optional<std::vector<uint8_t>> parameter_bytes = {};
  /// The global memory. Nothing: that of `arguments` and the module's variables, with their initial bytes.
  Memory* memory = nullptr;
  int threads = 1;
  bool checks = true;  // check reads of unwritten memory and races; bounds and alignment are always checked
  RaceCheck races = RaceCheck::fault;  // in shared memory, where `checks` are on
  /// For kernels that read %clock, %clock64, %globaltimer, %smid or %nsmid: a GPU's values vary from run to run. With a
  /// number the clocks begin at it in each warp and count its instructions; %smid is the number of the cluster modulo
  /// %nsmid, which is 132. Nothing: such kernels are refused.
  std::optional<uint64_t> clock = {};
  uint64_t most_steps = uint64_t{1} << 36;  // limit of instructions per block, after which the launch counts as hanging
  /// Limit of the memory that bitmma takes for the blocks that run at a time (a cluster, or all of a cooperative
  /// launch): registers, shared and local memory and their checks. Host threads that would need more are not started.
  int64_t most_bytes = int64_t{4} << 30;
  const ThreadTrace* trace = nullptr;  // traces one thread
};

struct [[nodiscard]] LaunchReport {
  uint64_t thread_instructions = 0;
  bool was_stopped = false;  // by ThreadTrace::step
  /// What the kernel printed with printf, in the order of blocks and warps.
  std::string printed = {};
  /// What PTX leaves undefined and the launch did, the first occurrence of each: a read of an accumulator before
  /// wgmma.wait_group; lanes of a warp that store different values to one address; blocks that use the same global
  /// memory, so that their order decides bits; races in shared memory that are no faults; a load of unwritten memory
  /// whose value decides no address, no branch and no byte of global memory.
  std::vector<Violation> warnings = {};
};

/// Runs the grid. Throws Error for arguments that do not fit the entry, and for faults of the kernel, with the block,
/// the thread and the PTX line; its code says the kind: out_of_bounds, misaligned, unwritten_read, shared_memory_race,
/// deadlock, kernel_trap, failed_assertion or undefined_by_ptx. Memory is then as the kernel left it.
LaunchReport launch(const PtxEntry& kernel, const Launch& launch);

}  // namespace bitmma
