// SPDX-License-Identifier: MIT
// The executor: clusters of blocks over host threads, the warps of a cluster in turn, divergence by a stack of levels.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "../math/f32.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/interrupt.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "decode.hpp"
#include "flow.hpp"
#include "machine.hpp"
#include "tensor_map.hpp"

namespace bitmma {
namespace kernel {
namespace {

constexpr int64_t most_cluster = 16;   // blocks; CUDA guarantees 8, an H100 accepts 16 on request
constexpr uint64_t quantum = 1 << 16;  // instructions that a warp runs before the next one gets its turn

std::string print_block(const std::array<int64_t, 3>& id) {
  return fmt::format("block ({}, {}, {})", id[0], id[1], id[2]);
}

std::string print_place(const Program& program, int instruction) {
  if (instruction < 0) return "the kernel's end";
  const Instruction& one = program.entry.instructions[static_cast<size_t>(instruction)];
  std::string place = fmt::format("PTX line {}, {}", one.line, shortened(one.text, 120));
  if (one.source_line > 0) place += fmt::format(" (source line {})", one.source_line);
  return place;
}

/// Thrown if ThreadTrace::step ends the launch.
struct Stopped {};

/// A fault with its place; of several faults the one of the lowest cluster is reported.
struct PlacedFault {
  size_t cluster = 0;
  Violation violation = {};
};

class Executor {
 public:
  Executor(const Program& program, const Launch& launch, std::vector<Region>& regions, const GlobalAddresses& addresses,
           const std::vector<uint8_t>& params, std::vector<uint8_t>& constants)
      : program_(program), launch_(launch), addresses_(addresses) {
    const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
    const auto warps = static_cast<size_t>((threads + lanes - 1) / lanes);
    const int64_t dynamic = launch.dynamic_shared_bytes;
    const int64_t shared =
        dynamic == 0 ? program.shared_bytes : round_up(program.shared_bytes, program.dynamic_align) + dynamic;
    const std::array<int64_t, 3>& cluster = *launch.cluster;
    cluster_.ctas.resize(static_cast<size_t>(cluster[0] * cluster[1] * cluster[2]));
    for (size_t rank = 0; rank < cluster_.ctas.size(); ++rank) {
      Cta& cta = cluster_.ctas[rank];
      cta.cluster = &cluster_;
      cta.rank = static_cast<int>(rank);
      cta.program = &program;
      cta.launch = &launch;
      cta.regions = &regions;
      cta.params = params;
      cta.constants = &constants;
      cta.threads = threads;
      cta.local_bytes = program.local_bytes;
      // Addresses index it, including the reserved first KiB, which matrix descriptors can address.
      cta.shared.resize(shared_begin + static_cast<size_t>(shared));
      cta.local.resize(warps * lanes * static_cast<size_t>(cta.local_bytes));
      if (launch.checks) {
        cta.shared_states.resize(cta.shared.size());
        cta.local_states.resize(cta.local.size());
        cta.uses.resize(cta.shared.size());
        cta.read_epochs.resize(cta.shared.size() * warps);
        cta.used_units.resize(cta.shared.size() / 16 + 1);
      }
      cta.warps.resize(warps);
      cta.warpgroups.resize((warps + 3) / 4);
    }
    files_.resize(cluster_.ctas.size() * warps * program.file_bytes + 64);
  }

  /// Runs the cluster `id`; `index` is its position in the order of all clusters. Throws PlacedFault.
  void run(const std::array<int64_t, 3>& id, size_t index) {
    cluster_.index = index;
    begin(id);
    try {
      run_warps();
    } catch (const Fault& fault) {
      throw PlacedFault{index, place(fault)};
    } catch (const Error& error) {
      Violation violation = error.violations().front();
      violation.field = fmt::format("{}, {}: {}", print_block(current_->cta->id),
                                    print_place(program_, instruction_of(*current_)), violation.field);
      throw PlacedFault{index, violation};
    }
  }

  uint64_t thread_instructions() const { return thread_instructions_; }
  const Warnings& warnings() const { return cluster_.warnings; }

 private:
  int instruction_of(const Warp& warp) const {
    return warp.pc >= 0 && warp.pc < std::ssize(program_.ops) ? program_.ops[static_cast<size_t>(warp.pc)].instruction
                                                              : -1;
  }

  /// After an mbarrier wait a warp resumes at the next instruction.
  int waiting_at(const Warp& warp) const {
    return warp.waits ? program_.ops[static_cast<size_t>(warp.pc) - 1].instruction : instruction_of(warp);
  }

  Violation place(const Fault& fault) const {
    std::string where = print_block(current_->cta->id);
    if (fault.lane >= 0) where += ", " + print_thread(*current_->cta, current_->index, fault.lane);
    if (fault.code != ViolationCode::deadlock) where += ", " + print_place(program_, instruction_of(*current_));
    return {.code = fault.code, .field = where, .seen = fault.seen, .expected = fault.expected, .fix = fault.fix};
  }

  uint64_t special(Special id, const Warp& warp, int lane) const {
    const Cta& cta = *warp.cta;
    const auto& block = launch_.block;
    const auto& grid = launch_.grid;
    const std::array<int64_t, 3>& cluster = *launch_.cluster;
    const int64_t thread = int64_t{warp.index} * lanes + lane;
    const Mask bit = Mask{1} << lane;
    switch (id) {
      case Special::tid_x: return static_cast<uint64_t>(thread % block[0]);
      case Special::tid_y: return static_cast<uint64_t>(thread / block[0] % block[1]);
      case Special::tid_z: return static_cast<uint64_t>(thread / (block[0] * block[1]));
      case Special::ntid_x: return static_cast<uint64_t>(block[0]);
      case Special::ntid_y: return static_cast<uint64_t>(block[1]);
      case Special::ntid_z: return static_cast<uint64_t>(block[2]);
      case Special::ctaid_x: return static_cast<uint64_t>(cta.id[0]);
      case Special::ctaid_y: return static_cast<uint64_t>(cta.id[1]);
      case Special::ctaid_z: return static_cast<uint64_t>(cta.id[2]);
      case Special::nctaid_x: return static_cast<uint64_t>(grid[0]);
      case Special::nctaid_y: return static_cast<uint64_t>(grid[1]);
      case Special::nctaid_z: return static_cast<uint64_t>(grid[2]);
      case Special::clusterid_x: return static_cast<uint64_t>(cta.id[0] / cluster[0]);
      case Special::clusterid_y: return static_cast<uint64_t>(cta.id[1] / cluster[1]);
      case Special::clusterid_z: return static_cast<uint64_t>(cta.id[2] / cluster[2]);
      case Special::nclusterid_x: return static_cast<uint64_t>(grid[0] / cluster[0]);
      case Special::nclusterid_y: return static_cast<uint64_t>(grid[1] / cluster[1]);
      case Special::nclusterid_z: return static_cast<uint64_t>(grid[2] / cluster[2]);
      case Special::cluster_ctaid_x: return static_cast<uint64_t>(cta.id[0] % cluster[0]);
      case Special::cluster_ctaid_y: return static_cast<uint64_t>(cta.id[1] % cluster[1]);
      case Special::cluster_ctaid_z: return static_cast<uint64_t>(cta.id[2] % cluster[2]);
      case Special::cluster_nctaid_x: return static_cast<uint64_t>(cluster[0]);
      case Special::cluster_nctaid_y: return static_cast<uint64_t>(cluster[1]);
      case Special::cluster_nctaid_z: return static_cast<uint64_t>(cluster[2]);
      case Special::cluster_ctarank: return static_cast<uint64_t>(cta.rank);
      case Special::cluster_nctarank: return cluster_.ctas.size();
      case Special::laneid: return static_cast<uint64_t>(lane);
      case Special::warpid: return static_cast<uint64_t>(warp.index);
      case Special::nwarpid: return cta.warps.size();
      case Special::lanemask_eq: return bit;
      case Special::lanemask_le: return bit | (bit - 1);
      case Special::lanemask_lt: return bit - 1;
      case Special::lanemask_ge: return ~(bit - 1);
      case Special::lanemask_gt: return ~(bit | (bit - 1));
      case Special::dynamic_smem_size: return static_cast<uint64_t>(launch_.dynamic_shared_bytes);
      case Special::total_smem_size: return cta.shared.size() - shared_begin;
      case Special::warp_size: return lanes;
      default: return 0;
    }
  }

  uint64_t address_of(const Cta& cta, int variable, uint64_t offset) const {
    const auto index = static_cast<size_t>(variable);
    const Variable& one = program_.variables[index];
    if (one.space == Space::global) return addresses_.of_variable[index] + offset;
    const uint64_t begin = one.space == Space::shared ? address_in(cta.rank, shared_begin) : 0;
    return begin + static_cast<uint64_t>(program_.variable_offsets[index]) + offset;
  }

  void begin(const std::array<int64_t, 3>& id) {
    std::ranges::fill(files_, uint8_t{0});
    cluster_.phases = 0;
    cluster_.arriving.clear();
    cluster_.completed.clear();
    cluster_.fenced.clear();
    const std::array<int64_t, 3>& extents = *launch_.cluster;
    for (Cta& cta : cluster_.ctas) {
      const int64_t rank = cta.rank;
      cta.id = {id[0] * extents[0] + rank % extents[0], id[1] * extents[1] + rank / extents[0] % extents[1],
                id[2] * extents[2] + rank / (extents[0] * extents[1])};
      begin(cta);
    }
  }

  void begin(Cta& cta) {
    cta.tracer = nullptr;
    // On a GPU shared memory holds what the previous block left; here it starts as zeros, so that reads are repeatable.
    std::ranges::fill(cta.shared, uint8_t{0});
    std::ranges::fill(cta.shared_states, uint8_t{unwritten});
    std::ranges::fill(cta.local, uint8_t{0});
    std::ranges::fill(cta.local_states, uint8_t{unwritten});
    std::ranges::fill(cta.uses, ByteUse{});
    std::ranges::fill(cta.used_units, uint8_t{0});
    for (Barrier& barrier : cta.barriers) barrier = {};
    for (Warpgroup& group : cta.warpgroups) group = {};
    cta.bulk_copies.clear();
    cta.known_at.clear();
    if (program_.has_tensor_memory) cta.tensor_memory.emplace(cta.shared);
    auto* const base = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<intptr_t>(files_.data()), 64));
    const size_t warps = cta.warps.size();
    for (size_t i = 0; i < warps; ++i) {
      Warp& warp = cta.warps[i];
      const size_t number = static_cast<size_t>(cta.rank) * warps + i;
      warp = Warp{.file = base + number * program_.file_bytes,
                  .cta = &cta,
                  .index = static_cast<int>(i),
                  .number = static_cast<int>(number)};
      const int64_t threads = std::min<int64_t>(lanes, cta.threads - static_cast<int64_t>(i) * lanes);
      warp.live = warp.active = static_cast<Mask>(low_mask(static_cast<int>(threads)));
      warp.seen.assign(cluster_.ctas.size() * warps, 0);
      for (const Program::Constant& one : program_.constants) {
        const uint64_t value = one.variable < 0 ? one.value : address_of(cta, one.variable, one.value);
        if (one.bytes == 0) warp.mask_of(one.slot) = static_cast<Mask>(value);
        else if (one.bytes == 4) std::fill_n(warp.lanes_of<uint32_t>(one.slot), lanes, static_cast<uint32_t>(value));
        else std::fill_n(warp.lanes_of<uint64_t>(one.slot), lanes, value);
      }
      for (const Program::Special& one : program_.specials) {
        for (int lane = 0; lane < lanes; ++lane) {
          const uint64_t value = special(static_cast<Special>(one.id), warp, lane);
          if (one.wide) warp.lanes_of<uint64_t>(one.slot)[lane] = value;
          else warp.lanes_of<uint32_t>(one.slot)[lane] = static_cast<uint32_t>(value);
        }
      }
    }
    if (!launch_.trace || launch_.trace->block != cta.id) return;
    const std::array<int64_t, 3>&thread = launch_.trace->thread, &block = launch_.block;
    const int64_t index = thread[0] + block[0] * (thread[1] + block[1] * thread[2]);
    tracer_ = {.trace = launch_.trace,
               .warp = &cta.warps[static_cast<size_t>(index / lanes)],
               .lane = static_cast<int>(index % lanes)};
    cta.tracer = &tracer_;
  }

  void run_warps() {
    int rounds_in_vain = 0;
    for (;;) {
      bool any_ready = false, all_done = true, all_wait = true;
      const uint64_t phases = cluster_.phases;
      for (Cta& cta : cluster_.ctas) {
        for (Warp& warp : cta.warps) {
          all_done = all_done && warp.status == WarpStatus::done;
          if (warp.status != WarpStatus::ready) continue;
          any_ready = true;
          current_ = &warp;
          warp.waits = false;
          if (cta.tracer && cta.tracer->warp == &warp) run_warp<true>(warp);
          else run_warp<false>(warp);
          all_wait = all_wait && (warp.waits || warp.status == WarpStatus::at_barrier ||
                                  warp.status == WarpStatus::at_cluster_barrier);
          if (warp.steps <= launch_.most_steps) continue;
          fault(ViolationCode::deadlock, -1,
                fmt::format("warp {} has run {} instructions and has reached {}", warp.index, warp.steps,
                            print_place(program_, instruction_of(warp))),
                "a kernel that ends", "a loop may wait for another block, but bitmma runs that block later");
        }
      }
      if (all_done) return;
      // Only the cluster's own threads and copies complete a barrier.
      rounds_in_vain = all_wait && cluster_.phases == phases ? rounds_in_vain + 1 : 0;
      if (!any_ready || rounds_in_vain > 2) report_deadlock();
    }
  }

  [[noreturn]] void report_deadlock() {
    std::string waits;
    int count = 0;
    int64_t done = 0;
    const bool is_alone = cluster_.ctas.size() == 1;
    for (const Cta& cta : cluster_.ctas) {
      for (const Warp& warp : cta.warps) {
        done += warp.status == WarpStatus::done;
        if (warp.status == WarpStatus::done || count++ >= 4) continue;
        if (!waits.empty()) waits += "; ";
        waits += fmt::format("warp {} from {}{} waits at {}", warp.index,
                             print_thread(cta, warp.index, warp.live == 0 ? 0 : __builtin_ctz(warp.live)),
                             is_alone ? "" : " of " + print_block(cta.id), print_place(program_, waiting_at(warp)));
      }
    }
    if (count > 4) waits += fmt::format("; and {} other warps", count - 4);
    if (done > 0)
      waits += fmt::format("; {} of the {} have ended", counted(done, "warp"), is_alone ? "block" : "cluster");
    fault(ViolationCode::deadlock, -1, waits, "a barrier that all expected threads reach");
  }

  template <bool is_traced>
  void run_warp(Warp& warp) {
    const Op* const ops = program_.ops.data();
    const uint64_t end = warp.steps + quantum;
    struct Count {
      uint64_t& total;
      uint64_t executed = 0;
      ~Count() { total += executed; }
    } count{thread_instructions_};
    if constexpr (is_traced) {
      if (const Op* const pending = std::exchange(tracer_.pending, nullptr)) tell_step(*pending);
    }
    while (warp.steps < end) {
      if (warp.pc == warp.reconverge) {
        if (!next_level(warp)) break;
        continue;
      }
      const Op& op = ops[warp.pc];
      if (warp.newest_group > warp.completed_groups) check_registers(warp, op);
      Mask mask = warp.active;
      if (op.guard != Op::no_slot) {
        const Mask predicate = warp.mask_of(op.guard);
        mask &= op.guard_negated ? ~predicate : predicate;
      }
      if ((++warp.steps & 0x3FF) == 0) check_interrupt();
      count.executed += mask == all_lanes ? lanes : static_cast<uint64_t>(__builtin_popcount(mask));
      if (op.control == Control::none) {
        if (mask != 0) op.run(warp, op, mask);
        ++warp.pc;
        if constexpr (is_traced) tell_step(op, mask);
        continue;
      }
      ran_ = mask;
      const bool goes_on = run_control(warp, op, mask);
      if constexpr (is_traced) {
        if (warp.status == WarpStatus::ready || warp.status == WarpStatus::done) tell_step(op, ran_);
        else if ((ran_ >> tracer_.lane & 1) != 0) tracer_.pending = &op;
      }
      if (!goes_on) break;
    }
  }

  /// Reports the traced thread's step if the thread ran the Op and the Op is the last of its instruction.
  void tell_step(const Op& op, Mask ran = all_lanes) {
    if ((ran >> tracer_.lane & 1) == 0 || op.instruction < 0) return;
    const Op* const next = &op + 1;
    if (next < program_.ops.data() + program_.ops.size() && next->instruction == op.instruction) return;
    const Instruction& one = program_.entry.instructions[static_cast<size_t>(op.instruction)];
    ThreadStep step{.line = one.line, .source_line = one.source_line, .text = one.text};
    const Warp& warp = *tracer_.warp;
    const auto lane = static_cast<size_t>(tracer_.lane);
    for (const int reg : effects_of(one).writes) {
      const Register& named = program_.entry.registers[static_cast<size_t>(reg)];
      const TypeInfo& type = info(named.type);
      const uint32_t slot = program_.register_slots[static_cast<size_t>(reg)];
      ThreadRegister traced{.name = named.name, .type = type.name};
      if (named.type == Type::pred) traced.bits[0] = warp.mask_of(slot) >> lane & 1;
      else if (type.bits <= 32) traced.bits[0] = warp.lanes_of<const uint32_t>(slot)[lane];
      else if (type.bits <= 64) traced.bits[0] = warp.lanes_of<const uint64_t>(slot)[lane];
      else std::memcpy(traced.bits.data(), warp.lanes_of<const uint64_t>(slot) + 2 * lane, 16);
      step.written.push_back(traced);
    }
    const std::optional<Case> product = std::exchange(tracer_.product, std::nullopt);
    if (product && tracer_.product_op == &op) step.product = &*product;
    if (!tracer_.trace->step(step)) throw Stopped{};
  }

  /// PTX does not define reads of a wgmma accumulator before its group was waited for. ptxas inserts the wait, and
  /// Triton relies on it: the first such read is reported, and the kernel continues. Compilers copy, pack and unpack
  /// accumulators with mov before they wait: the destination of such a mov counts as an accumulator too.
  void check_registers(Warp& warp, const Op& op) {
    if (op.instruction < 0 || !launch_.checks || cluster_.warnings.early_read) return;
    std::vector<uint32_t>& groups = warp.group_of_register;
    const Instruction& one = program_.entry.instructions[static_cast<size_t>(op.instruction)];
    const bool is_copy = one.row->passes == Passes::value;
    uint32_t newest = 0;
    for (const int reg : program_.reads[static_cast<size_t>(op.instruction)]) {
      const uint32_t group = groups[static_cast<size_t>(reg)];
      newest = std::max(newest, group);
      if (is_copy || group <= warp.completed_groups) continue;
      cluster_.warnings.early_read =
          Violation{.code = ViolationCode::undefined_by_ptx,
                    .field = print_place(program_, op.instruction),
                    .seen = fmt::format("{}, an accumulator of a wgmma that may not have finished",
                                        program_.entry.registers[static_cast<size_t>(reg)].name),
                    .expected = "wgmma.wait_group before it is read",
                    .fix = "ptxas inserts a wait here, after each product",
                    .severity = Severity::warning};
      return;
    }
    if (op.control == Control::warpgroup) return;  // run_mma notes its accumulators
    for (const int reg : program_.writes[static_cast<size_t>(op.instruction)])
      groups[static_cast<size_t>(reg)] = is_copy ? newest : 0;
  }

  /// False if the warp has to stop for now.
  bool run_control(Warp& warp, const Op& op, Mask mask) {
    switch (op.control) {
      case Control::branch: branch(warp, op, mask); return true;
      case Control::leave:
        warp.live &= ~mask;
        warp.active &= ~mask;
        ++warp.pc;
        complete_cluster_barrier();
        return warp.active != 0 || next_level(warp);
      case Control::converge: {
        if (mask == 0) return ++warp.pc, true;
        const Mask members = warp.lanes_of<const uint32_t>(op.e)[__builtin_ctz(mask)];
        if (!gather(warp, mask, members & warp.live)) return warp.status == WarpStatus::ready;
        Mask here = warp.active;
        if (op.guard != Op::no_slot) here &= op.guard_negated ? ~warp.mask_of(op.guard) : warp.mask_of(op.guard);
        if ((here & ~members) != 0 && op.run) {
          const Mask outside = here & ~members;
          fault(ViolationCode::undefined_by_ptx, __builtin_ctz(outside),
                fmt::format("a membermask {:#x} without this lane", members),
                "a membermask that includes every lane that executes the instruction");
        }
        if (op.run) op.run(warp, op, here);
        ran_ = here;
        ++warp.pc;
        return true;
      }
      case Control::barrier: {
        if (mask == 0) return ++warp.pc, true;
        if (!gather(warp, mask, warp.live)) return warp.status == WarpStatus::ready;
        ran_ = warp.active;
        return arrive(warp, op);
      }
      case Control::warpgroup:
        if (mask == 0) return ++warp.pc, true;
        if (!gather(warp, mask, warp.live)) return warp.status == WarpStatus::ready;
        ran_ = warp.active;
        return meet(warp, op);
      case Control::wait:
        if (mask != 0) op.run(warp, op, mask);
        ++warp.pc;
        warp.waits = mask != 0 && (warp.mask_of(op.d) & mask) != mask;
        return !warp.waits;
      case Control::cluster_arrive: return arrive_at_cluster(warp, mask);
      case Control::cluster_wait: return wait_for_cluster(warp, mask);
      default: return false;
    }
  }

  /// The last of the four warps runs the instruction for all.
  bool meet(Warp& warp, const Op& op) {
    const auto index = static_cast<size_t>(warp.index) / 4;
    Warpgroup& group = warp.cta->warpgroups[index];
    if (group.arrived > 0 && group.pc != warp.pc) {
      fault(ViolationCode::undefined_by_ptx, __builtin_ctz(warp.active),
            fmt::format("another warp of the warpgroup is at {}",
                        print_place(program_, program_.ops[static_cast<size_t>(group.pc)].instruction)),
            "the same instruction in all four warps of a warpgroup");
    }
    group.pc = warp.pc;
    if (++group.arrived < 4) {
      warp.status = WarpStatus::at_warpgroup;
      return false;
    }
    group = {};
    op.run(warp, op, warp.active);
    for (size_t i = 4 * index; i < 4 * index + 4; ++i) {
      warp.cta->warps[i].status = WarpStatus::ready;
      ++warp.cta->warps[i].pc;
    }
    return true;
  }

  void branch(Warp& warp, const Op& op, Mask taken) {
    const Mask stays = warp.active & ~taken;
    if (taken == 0) {
      ++warp.pc;
      return;
    }
    if (stays == 0) {
      warp.pc = op.target;
      return;
    }
    const int meeting = op.reconverge, next = warp.pc + 1;
    if (warp.reconverge != meeting)
      warp.levels.push_back({.reconverge = warp.reconverge, .pc = meeting, .mask = warp.active, .is_parent = true});
    warp.reconverge = meeting;
    if (next == meeting) {
      warp.pc = op.target;
      warp.active = taken;
      return;
    }
    if (op.target != meeting) warp.levels.push_back({.reconverge = meeting, .pc = op.target, .mask = taken});
    warp.pc = next;
    warp.active = stays;
  }

  Mask parked_of(const Warp& warp) const {
    Mask mask = 0;
    for (const Parked& one : warp.parked) mask |= one.mask;
    return mask;
  }

  /// Switches to the next lanes that can run. False if there are none.
  bool next_level(Warp& warp) {
    const Mask parked = parked_of(warp);
    while (!warp.levels.empty()) {
      const Level level = warp.levels.back();
      warp.levels.pop_back();
      const Mask mask = level.mask & warp.live & ~parked;
      if (mask == 0) continue;
      warp.pc = level.pc;
      warp.reconverge = level.reconverge;
      warp.active = mask;
      return true;
    }
    warp.active = 0;
    if (warp.live == 0) {
      warp.status = WarpStatus::done;
      complete_barriers(*warp.cta);
      return false;
    }
    // All remaining lanes wait. No further lane will join those parked at one place.
    if (parked == 0 || warp.parked.size() > 1) {
      warp.pc = warp.parked.empty() ? warp.pc : warp.parked.front().pc;
      fault(ViolationCode::deadlock, parked == 0 ? -1 : __builtin_ctz(parked),
            "lanes of a warp wait for each other at different instructions",
            "instructions with .sync that all lanes of their mask reach");
    }
    warp.pc = warp.parked.front().pc;
    warp.active = warp.parked.front().mask & warp.live;
    warp.reconverge = -1;
    warp.parked.clear();
    return true;
  }

  /// True if all lanes that an instruction needs have arrived. Otherwise parks the arrived ones, and other lanes run.
  bool gather(Warp& warp, Mask mask, Mask needed) {
    if ((needed & ~mask) == 0) return true;
    const auto same = std::ranges::find(warp.parked, warp.pc, &Parked::pc);
    const Mask waiting = same == warp.parked.end() ? 0 : same->mask;
    const Mask group = mask | waiting;
    // Active lanes that the guard excludes continue on their own.
    if ((needed & ~group) == 0 && mask == warp.active) {
      warp.active |= waiting;
      for (Level& level : warp.levels) {
        if (level.is_parent) level.mask |= waiting;
      }
      if (same != warp.parked.end()) warp.parked.erase(same);
      return true;
    }
    if (mask != warp.active) {
      fault(ViolationCode::undefined_by_ptx, __builtin_ctz(mask), "a guard that is true in only some lanes of the warp",
            "a guard that is true in all lanes that the instruction needs, or in none");
    }
    if (same != warp.parked.end()) same->mask |= mask;
    else warp.parked.push_back({.pc = warp.pc, .mask = mask});
    ran_ = 0;
    next_level(warp);
    return false;
  }

  bool arrive(Warp& warp, const Op& op) {
    const auto& one = *static_cast<const BarrierDetails*>(op.details);
    const int lane = __builtin_ctz(warp.active);
    const uint32_t id = warp.lanes_of<const uint32_t>(one.id)[lane];
    if (id >= warp.cta->barriers.size())
      fault(ViolationCode::undefined_by_ptx, lane, fmt::format("barrier {}", id), "0 to 15");
    Barrier& barrier = warp.cta->barriers[id];
    if (one.has_count) {
      const uint32_t count = warp.lanes_of<const uint32_t>(one.count)[lane];
      if (count == 0 || count % lanes != 0)
        fault(ViolationCode::undefined_by_ptx, lane, fmt::format("a barrier of {} threads", count), "a multiple of 32");
      barrier.expected = static_cast<int>(count);
    }
    barrier.arrived += lanes;
    if (one.kind == BarrierKind::reduce) {
      const Mask yes = warp.mask_of(op.c) & warp.active;
      barrier.count += static_cast<uint32_t>(__builtin_popcount(yes));
      barrier.all = barrier.all && yes == warp.active;
      barrier.any = barrier.any || yes != 0;
    }
    if (one.kind == BarrierKind::arrive) {
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

  bool arrive_at_cluster(Warp& warp, Mask mask) {
    if (const Mask again = mask & warp.cluster_arrived; again != 0) {
      fault(ViolationCode::undefined_by_ptx, __builtin_ctz(again), "two arrivals at the barrier of the cluster",
            "barrier.cluster.wait between them");
    }
    ++warp.pc;
    if (mask == 0) return true;
    warp.cluster_arrived |= mask;
    tell(warp, cluster_.arriving);
    ++warp.epoch;
    complete_cluster_barrier();
    return true;
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
    learn(warp, cluster_.completed);
    return true;
  }

  /// Resumes the warps at the cluster barrier once all unfinished threads of the cluster have arrived.
  void complete_cluster_barrier() {
    bool any = false;
    for (const Cta& cta : cluster_.ctas) {
      for (const Warp& warp : cta.warps) {
        if ((warp.live & ~warp.cluster_arrived) != 0) return;
        any = any || warp.cluster_arrived != 0;
      }
    }
    if (!any) return;
    ++cluster_.phases;
    cluster_.completed = std::exchange(cluster_.arriving, {});
    for (Cta& cta : cluster_.ctas) {
      for (Warp& warp : cta.warps) {
        warp.cluster_passed |= std::exchange(warp.cluster_arrived, 0);
        if (warp.status == WarpStatus::at_cluster_barrier) warp.status = WarpStatus::ready;
      }
    }
  }

  void complete_barriers(Cta& cta) {
    for (Barrier& barrier : cta.barriers) {
      if (barrier.arrived > 0) complete(cta, barrier);
    }
  }

  /// Resumes the warps at a barrier once all expected threads have arrived.
  void complete(const Cta& cta, Barrier& barrier) {
    const auto running =
        std::ranges::count_if(cta.warps, [](const Warp& warp) { return warp.status != WarpStatus::done; });
    const bool is_complete =
        barrier.expected > 0 ? barrier.arrived >= barrier.expected : barrier.arrived >= running * lanes;
    if (!is_complete) return;
    ++cluster_.phases;
    Barrier done;
    std::swap(done, barrier);
    // The members' earlier accesses are ordered before the waiters' later ones.
    std::vector<uint32_t> known;
    for (const auto* members : {&done.waiting, &done.arrivals}) {
      for (const Warp* member : *members) tell(*member, known);
    }
    for (Warp* member : done.arrivals) ++member->epoch;
    for (Warp* member : done.waiting) {
      const Op& op = program_.ops[static_cast<size_t>(member->pc)];
      const auto& one = *static_cast<const BarrierDetails*>(op.details);
      if (one.kind == BarrierKind::reduce) {
        const Mask mask = member->active;
        if (one.reduction == BarrierReduction::popc)
          for_each_lane(mask, [&](int lane) { member->lanes_of<uint32_t>(op.d)[lane] = done.count; });
        else {
          Mask& to = member->mask_of(op.d);
          to = (to & ~mask) | ((one.reduction == BarrierReduction::and_ ? done.all : done.any) ? mask : 0);
        }
      }
      member->seen = known;
      ++member->epoch;
      ++member->pc;
      member->status = WarpStatus::ready;
    }
  }

  const Program& program_;
  const Launch& launch_;
  const GlobalAddresses& addresses_;
  Cluster cluster_;
  std::vector<uint8_t> files_;
  Warp* current_ = nullptr;
  Mask ran_ = 0;  // lanes that ran the last control Op
  Tracer tracer_ = {};
  uint64_t thread_instructions_ = 0;
};

/// What an Executor takes, in bytes.
int64_t executor_bytes(const Program& program, const Launch& launch) {
  const std::array<int64_t, 3>& cluster = *launch.cluster;
  const int64_t warps = (launch.block[0] * launch.block[1] * launch.block[2] + lanes - 1) / lanes,
                shared = shared_begin + program.shared_bytes + launch.dynamic_shared_bytes;
  const int64_t checks = launch.checks ? 1 + static_cast<int64_t>(sizeof(ByteUse)) + 4 * warps : 0,
                local = warps * lanes * program.local_bytes * (launch.checks ? 2 : 1);
  return cluster[0] * cluster[1] * cluster[2] * (warps * int64_t{program.file_bytes} + shared * (1 + checks) + local);
}

BITMMA_IN_ENVIRONMENT void run_cluster(Executor& executor, const std::array<int64_t, 3>& id, size_t index) {
  executor.run(id, index);
}

/// The launch with its cluster: the shape of .reqnctapercluster, or one block. With .blocksareclusters the grid counts
/// clusters.
Launch with_cluster(const PtxEntry& kernel, const Launch& given) {
  const Entry& entry = kernel.program().entry;
  Launch launch = given;
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
    if (entry.grid_of_clusters && launch.grid[i] <= 0x7FFFFFFF) launch.grid[i] *= extent;
  }
  const std::array<int64_t, 3>& cluster = *launch.cluster;
  const int64_t blocks = cluster[0] * cluster[1] * cluster[2];
  const int64_t most = entry.most_cluster > 0 ? std::min<int64_t>(entry.most_cluster, most_cluster) : most_cluster;
  if (blocks > most)
    throw Error(
        {.field = "cluster", .seen = fmt::format("{} blocks", blocks), .expected = fmt::format("at most {}", most)});
  return launch;
}

void require_launch(const PtxEntry& kernel, const Launch& launch) {
  const Program& program = kernel.program();
  std::vector<Violation> found;
  const auto refuse = [&](std::string field, std::string seen, std::string expected, std::string fix = {}) {
    found.push_back(
        {.field = std::move(field), .seen = std::move(seen), .expected = std::move(expected), .fix = std::move(fix)});
  };
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
  if (!found.empty()) throw Error(std::move(found));
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
  for (const int64_t one : program.entry.most_block) most *= one;
  if (!program.entry.most_block.empty() && threads > most)
    refuse("block", std::to_string(threads),
           fmt::format("at most {} threads, as .maxntid of the kernel requires", most));
  constexpr int64_t most_shared = 227 * 1024;
  if (launch.dynamic_shared_bytes < 0 || program.shared_bytes + launch.dynamic_shared_bytes > most_shared)
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
  if (launch.threads < 1) refuse("threads", std::to_string(launch.threads), "1 or more");
  if (const int64_t bytes = executor_bytes(program, launch); found.empty() && bytes > launch.most_bytes)
    refuse("memory", fmt::format("{} bytes of registers, shared and local memory of a cluster", bytes),
           fmt::format("at most {}", launch.most_bytes), "a smaller block or cluster, or a higher limit");
  if (!found.empty()) throw Error(std::move(found));
}

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

LaunchReport launch(const PtxEntry& kernel, const Launch& given) {
  using namespace kernel;
  const Launch launch = with_cluster(kernel, given);
  require_launch(kernel, launch);
  const Program& program = kernel.program();
  std::vector<Region> regions;
  std::vector<std::vector<uint8_t>> states, storage;
  GlobalAddresses addresses;
  uint64_t next = global_begin;
  // cudaMalloc aligns allocations to 512 bytes; a gap after each one exposes accesses beyond its end.
  const auto add_region = [&](std::span<uint8_t> memory, std::string name) -> Region& {
    regions.push_back({.begin = next, .size = memory.size(), .data = memory.data(), .name = std::move(name)});
    next = static_cast<uint64_t>(round_up(static_cast<int64_t>(next + memory.size()) + 4096, 512));
    return regions.back();
  };
  std::vector<uint8_t> params(static_cast<size_t>(program.param_bytes));
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    const KernelArgument& argument = launch.arguments[i];
    std::vector<uint8_t> value = argument.value;
    if (argument.is_memory) {
      // Two arguments may share the same memory.
      const auto same = std::ranges::find_if(regions, [&](const Region& region) {
        return region.data == argument.memory.data() && region.size == argument.memory.size() && region.size > 0;
      });
      uint64_t address = 0;
      if (same != regions.end()) {
        address = same->begin;
      } else {
        Region& region = add_region(argument.memory, fmt::format("argument {} ({})", i, kernel.parameters()[i].name));
        address = region.begin;
        if (argument.is_unwritten && launch.checks) {
          states.emplace_back(argument.memory.size(), uint8_t{unwritten});
          region.states = states.back().data();
        }
      }
      if (argument.map) {
        const PackedTensorMap packed = pack(*argument.map, address);
        value.resize(sizeof packed);
        std::memcpy(value.data(), &packed, sizeof packed);
      } else {
        address += static_cast<uint64_t>(argument.offset_bytes);
        value.resize(8);
        std::memcpy(value.data(), &address, 8);
      }
    }
    const auto at = static_cast<size_t>(program.variable_offsets[static_cast<size_t>(program.entry.params[i])]);
    std::ranges::copy(value, params.begin() + static_cast<std::ptrdiff_t>(at));
  }
  std::vector<uint8_t> constants(static_cast<size_t>(program.constant_bytes));
  addresses.of_variable.assign(program.variables.size(), 0);
  storage.reserve(program.variables.size());
  for (size_t i = 0; i < program.variables.size(); ++i) {
    const Variable& variable = program.variables[i];
    if (variable.space == Space::global) {
      storage.emplace_back(variable.bytes.empty() ? std::vector<uint8_t>(static_cast<size_t>(variable.size_bytes()))
                                                  : variable.bytes);
      addresses.of_variable[i] = add_region(storage.back(), fmt::format("variable {}", variable.name)).begin;
    } else if (variable.space == Space::constant && program.variable_offsets[i] >= 0) {
      std::ranges::copy(variable.bytes, constants.begin() + static_cast<std::ptrdiff_t>(program.variable_offsets[i]));
    }
  }
  size_t stored = 0;
  for (size_t i = 0; i < program.variables.size(); ++i) {
    const Variable& variable = program.variables[i];
    const bool is_constant = variable.space == Space::constant && program.variable_offsets[i] >= 0;
    uint8_t* const own = variable.space == Space::global ? storage[stored++].data()
                         : is_constant                   ? constants.data() + program.variable_offsets[i]
                                                         : nullptr;
    for (const Variable::Address& address : variable.addresses) {
      const auto of = std::ranges::find(program.variables, address.of, &Variable::name);
      if (of == program.variables.end() || of->space != Space::global)
        throw Error({.code = ViolationCode::unsupported_ptx,
                     .field = fmt::format("PTX line {}", variable.line),
                     .seen = fmt::format("the address of {} in {}", address.of, variable.name),
                     .expected = "the address of a global variable"});
      const uint64_t value = addresses.of_variable[static_cast<size_t>(of - program.variables.begin())] +
                             static_cast<uint64_t>(address.offset);
      if (own) std::memcpy(own + address.at, &value, static_cast<size_t>(std::min(bytes_of(variable.type), 8)));
    }
  }

  std::array<int64_t, 3> grid{};  // in clusters
  for (size_t i = 0; i < 3; ++i) grid[i] = launch.grid[i] / (*launch.cluster)[i];
  const int64_t clusters = grid[0] * grid[1] * grid[2];
  // Atomics order blocks: these run one after another.
  std::vector<std::unique_ptr<BlockUses>> uses;
  for (Region& region : regions) {
    if (!launch.checks || clusters == 1 || program.has_atomics || region.size == 0) break;
    region.uses = uses.emplace_back(std::make_unique<BlockUses>(region.size)).get();
  }
  const int64_t fitting = launch.most_bytes / std::max<int64_t>(executor_bytes(program, launch), 1);
  const int threads =
      program.has_atomics || launch.trace ? 1 : static_cast<int>(std::clamp<int64_t>(fitting, 1, launch.threads));
  std::mutex mutex;
  std::vector<std::unique_ptr<Executor>> free;
  std::optional<PlacedFault> first;
  LaunchReport report;
  parallel_for(static_cast<size_t>(clusters), threads, [&](size_t index) {
    std::unique_ptr<Executor> executor;
    {
      const std::lock_guard lock(mutex);
      if (report.was_stopped || (first && first->cluster < index)) return;
      if (!free.empty()) executor = std::move(free.back()), free.pop_back();
    }
    if (!executor) executor = std::make_unique<Executor>(program, launch, regions, addresses, params, constants);
    const auto cluster = static_cast<int64_t>(index);
    const std::array<int64_t, 3> id{cluster % grid[0], cluster / grid[0] % grid[1], cluster / (grid[0] * grid[1])};
    const math::IeeeEnvironment environment;
    try {
      run_cluster(*executor, id, index);
    } catch (PlacedFault& fault) {
      const std::lock_guard lock(mutex);
      if (!first || fault.cluster < first->cluster) first = std::move(fault);
    } catch (const Stopped&) {
      const std::lock_guard lock(mutex);
      report.was_stopped = true;
    }
    const std::lock_guard lock(mutex);
    free.push_back(std::move(executor));
  });
  if (first) throw Error(first->violation);
  Warnings first_warnings;
  for (const auto& executor : free) {
    report.thread_instructions += executor->thread_instructions();
    const Warnings& warnings = executor->warnings();
    for (std::optional<Violation> Warnings::*const kind :
         {&Warnings::early_read, &Warnings::same_address, &Warnings::block_race}) {
      if (!(first_warnings.*kind)) first_warnings.*kind = warnings.*kind;
    }
  }
  for (const std::optional<Violation>& warning :
       {first_warnings.early_read, first_warnings.same_address, first_warnings.block_race}) {
    if (warning) report.warnings.push_back(*warning);
  }
  return report;
}

}  // namespace bitmma
