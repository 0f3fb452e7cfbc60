// SPDX-License-Identifier: MIT
// Whole PTX kernels on the CPU, with the GPU's bits.
//
//   const PtxEntry kernel(ptx, {.entry = "softmax"});
//   LaunchReport report = launch(kernel, {.grid = {4, 2, 1}, .block = {128, 1, 1},
//                                         .arguments = {buffer(x), buffer(y), scalar(1024)}});
//
// A kernel's own instructions say in which order a GPU adds: a reduction by shuffles and shared memory needs no further
// rule. Each value comes from the layers below: math (special functions, cvt, fma), instruction (mma.sync, wgmma). What
// PTX leaves to ptxas is whether a product and a sum become one fma: fusions() tells what was decided, by which rule.
//
// A block's warps run in turn, each 32 lanes in lock step; lanes that diverge meet again at the immediate
// post-dominator. A cluster's blocks run together. Clusters run on several threads, in ascending order on one where the
// kernel has atomics on global memory. Accesses are checked: bounds, alignment, reads of memory that nothing wrote,
// races in shared memory between barriers, barriers that never complete.
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
struct Program;
}  // namespace kernel

struct KernelOptions {
  std::string entry = {};             // empty: the only one of the module
  std::optional<Target> target = {};  // nothing: the module's .target
  bool fmad = true;                   // ptxas -fmad: products and sums without a rounding become fma
  /// What nvdisasm -gp writes of the cubin of ptxas -lineinfo: where it shows a sum or an fma at a line of the PTX, it
  /// decides whether they are joined. Nothing: the rules decide alone.
  std::optional<std::string> sass = {};
};

/// A parameter of an entry, in PTX's words.
struct PtxParameter {
  std::string name = {};
  std::string type = {};  // "u64", "f32", "b8"
  int64_t bytes = 0;

  bool operator==(const PtxParameter&) const = default;
};

/// What SASS shows of a product and a sum that reads it.
enum class SassEvidence : uint8_t {
  none,    // no SASS is given, or it has nothing of the line
  joined,  // fma
  apart,   // a sum, or an fma of its other operand
  both,    // of the copies that ptxas made of the line, some are joined
};
std::string_view print(SassEvidence evidence);

/// A product and the sum that reads it: whether ptxas makes one fma of them.
struct KernelFusion {
  int product_line = 0, sum_line = 0;  // in the PTX; product_line 0: an fma in SASS whose product was not found
  std::string product = {}, sum = {};  // as written
  std::string rule = {};               // the row of the table that covers the case
  bool rule_joins = true;              // what that row says
  bool is_joined = true;               // what is computed
  bool is_sure = true;                 // false: neither a measured row nor SASS decides
  SassEvidence sass = SassEvidence::none;

  bool contradicts_rule() const { return is_joined != rule_joins; }

  bool operator==(const KernelFusion&) const = default;
};

class PtxEntry {
 public:
  /// Reads the module and decodes one entry. Throws Error for text that is not PTX, an entry that does not exist, and,
  /// naming every one with its line, for instructions that are not run here.
  explicit PtxEntry(std::string_view ptx, const KernelOptions& options = {});

  const std::string& name() const { return name_; }
  Target target() const { return target_; }
  const std::vector<PtxParameter>& parameters() const { return parameters_; }
  const std::vector<KernelFusion>& fusions() const { return fusions_; }
  /// Static shared memory of a block.
  int64_t shared_bytes() const;
  /// True where atomics add floating-point numbers to global memory: the sum depends on their order, which a GPU does
  /// not promise. Here threads add in ascending order.
  bool order_matters() const;
  const kernel::Program& program() const { return *program_; }

 private:
  std::string name_;
  Target target_ = Target::sm_90a;
  std::vector<PtxParameter> parameters_;
  std::vector<KernelFusion> fusions_;
  std::shared_ptr<const kernel::Program> program_;
};

/// Where a kernel's bits are uncertain: joins that no rule covers, joins where its SASS contradicts the rules, and
/// floating-point atomics.
std::vector<Violation> kernel_warnings(const PtxEntry& kernel);

/// The names of a module's entries. Throws Error for text that is not PTX.
std::vector<std::string> kernel_entries(std::string_view ptx);

/// What a parameter gets: the bytes of a number, or memory whose address it becomes.
struct KernelArgument {
  std::vector<uint8_t> value = {};
  std::span<uint8_t> memory = {};
  bool is_memory = false;
  int64_t offset_bytes = 0;           // from the start of the memory to the address
  bool is_unwritten = false;          // memory that no one wrote: reading it before the kernel writes it is a fault
  std::optional<TensorMap> map = {};  // of the memory: the parameter is the map, of 128 bytes
};
/// A number, little-endian, as wide as the parameter.
KernelArgument scalar_argument(uint64_t value, int bytes);
/// Global memory. It is read and written in place and must outlive the launch. Arguments that are the same memory have
/// the same addresses.
KernelArgument memory_argument(std::span<uint8_t> memory, bool is_unwritten = false, int64_t offset_bytes = 0);
/// A tensor map over global memory, as memory_argument has it. Throws Error for a map that does not fit the memory.
KernelArgument tensor_map_argument(std::span<uint8_t> memory, const TensorMap& map);

struct Launch {
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  /// Blocks of a cluster, at most 16 together; the grid is a multiple. Nothing: the kernel's .reqnctapercluster, or
  /// one.
  std::optional<std::array<int64_t, 3>> cluster = {};
  int64_t dynamic_shared_bytes = 0;
  std::vector<KernelArgument> arguments = {};
  int threads = 1;
  bool checks = true;  // reads of unwritten memory and races; bounds and alignment are always checked
  uint64_t most_steps = uint64_t{1} << 36;  // instructions of a block before it counts as hanging
  const ThreadTrace* trace = nullptr;       // follows one thread
};

struct LaunchReport {
  uint64_t thread_instructions = 0;
  bool was_stopped = false;  // by ThreadTrace::step
  /// What PTX leaves undefined and ptxas mends: an accumulator that is read before wgmma.wait_group, the first of them.
  std::vector<Violation> warnings = {};
};

/// Runs the grid. Throws Error: for arguments that are not the entry's, and for what the kernel does wrong, with the
/// block, the thread and the PTX line. Memory is then as the kernel left it.
LaunchReport launch(const PtxEntry& kernel, const Launch& launch);

}  // namespace bitmma
