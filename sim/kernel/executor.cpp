// SPDX-License-Identifier: MIT
#include "executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "../math/f32.hpp"
#include "barriers.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/core/interrupt.hpp"
#include "bitmma/core/text.hpp"
#include "calls.hpp"
#include "flow.hpp"
#include "repetition.hpp"
#include "unwritten.hpp"

namespace bitmma::kernel {
namespace {

constexpr uint64_t quantum = 1 << 16;  // instructions that a warp runs before the next one gets its turn
constexpr int most_long_turns = 4;     // whole turns of some lanes of a warp, after which the others wait no longer
// What a warp of a cooperative launch that gives way has used of its turn: one that spins has many short turns.
constexpr uint64_t steps_of_yield = quantum / 64;

std::string print_place(const Program& program, int instruction) {
  if (instruction < 0) return "the kernel's end";
  const PtxInstruction& statement = program.entry.instructions[static_cast<size_t>(instruction)];
  std::string place = fmt::format("PTX line {}, {}", statement.line, shortened(statement.text, 120));
  if (statement.source_line > 0) {
    const auto file = program.files.find(statement.source_file);
    place += file == program.files.end() ? fmt::format(" (source line {})", statement.source_line)
                                         : fmt::format(" ({}:{})", printable(file->second), statement.source_line);
  }
  return place;
}

}  // namespace

class Executor::State {
 public:
  State(const Program& program, const Launch& launch, SharedByClusters& memory)
      : program_(program), launch_(launch), addresses_(memory.variable_addresses) {
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
      cta.regions = memory.regions;
      cta.objects = memory.objects;
      cta.params = memory.params;
      cta.constants = memory.constants;
      cta.threads = threads;
      cta.local_bytes = program.local_bytes;
      // Addresses index it, including the reserved first KiB, which matrix descriptors can address.
      cta.shared.resize(shared_begin + static_cast<size_t>(shared));
      cta.local.resize(warps * lanes * static_cast<size_t>(cta.local_bytes));
      if (launch.checks) {
        cta.shared_states.resize(cta.shared.size());
        cta.local_states.resize(cta.local.size());
        cta.uses.resize(cta.shared.size(), warps);
      }
      cta.warps.resize(warps);
      cta.warpgroups.resize((warps + 3) / 4);
    }
    cluster_.heap = memory.heap;
    cluster_.workspace = memory.workspace;
    has_other_threads_ = memory.has_other_threads;
    repetitions_.resize(cluster_.ctas.size() * warps);
    files_.resize(cluster_.ctas.size() * warps * program.file_bytes + 64);
  }

  void run(const std::array<int64_t, 3>& id, size_t index, ClusterQueue& queue) {
    begin(id, index, queue);
    Rounds rounds;
    while (run_round(++rounds.count)) {
      rounds.end(changes());
      if (!has_other_threads_ && is_stuck(rounds)) report_stuck();
    }
  }

  void begin(const std::array<int64_t, 3>& id, size_t index, ClusterQueue& queue) {
    cluster_.index = index;
    cluster_.queue = &queue;
    rounds_in_vain_ = 0;
    for (Repetition& repetition : repetitions_) repetition.reset();
    begin(id);
  }

  bool run_round(uint64_t round) {
    try {
      if (run_warps(round)) return true;
    } catch (const KernelFault& fault) {
      throw PlacedFault{cluster_.index, place(fault)};
    } catch (const Error& error) {
      Violation violation = error.violations().front();
      violation.field = fmt::format("{}, {}: {}", print_block(*current_->cta),
                                    print_place(program_, instruction_of(*current_)), violation.field);
      throw PlacedFault{cluster_.index, violation};
    }
    if (!cluster_.printed.empty()) printed_.emplace_back(cluster_.index, std::exchange(cluster_.printed, {}));
    return false;
  }

  uint64_t changes() const { return cluster_.changes + cluster_.phases; }

  bool is_stuck(const Rounds& rounds) const {
    if (rounds.count <= rounds.newest_change + 2) return false;
    return for_all_warps([&](const Warp& warp) {
      return warp.status != WarpStatus::ready || warp.waits ||
             repetitions_[static_cast<size_t>(warp.number)].repeats_since(rounds.newest_change);
    });
  }

  [[noreturn]] void report_stuck() {
    const bool is_alone = launch_.grid[0] * launch_.grid[1] * launch_.grid[2] == std::ssize(cluster_.ctas);
    for (Cta& cta : cluster_.ctas) {
      for (Warp& warp : cta.warps) {
        if (warp.status != WarpStatus::ready || warp.waits) continue;
        current_ = &warp;
        const KernelFault stuck{
            .code = ViolationCode::deadlock,
            .lane = warp.active == 0 ? -1 : __builtin_ctz(warp.active),
            .seen = fmt::format("a loop that never ends, at {}", print_place(program_, instruction_of(warp))),
            .expected = "a loop that another thread ends",
            .fix = launch_.cooperative ? "all blocks run, and all of them wait"
                   : is_alone          ? ""
                                       : "if it waits for another block, all have to run together: bitmma run "
                                         "--cooperative, cooperative=True in Python"};
        throw PlacedFault{cluster_.index, place(stuck)};
      }
    }
    report_deadlock();
  }

  uint64_t thread_instructions() const { return thread_instructions_; }
  const Warnings& warnings() const { return cluster_.warnings; }
  const std::vector<std::pair<size_t, std::string>>& printed() const { return printed_; }

 private:
  int instruction_of(const Warp& warp) const {
    return warp.pc >= 0 && warp.pc < std::ssize(program_.ops) ? program_.ops[static_cast<size_t>(warp.pc)].instruction
                                                              : -1;
  }

  /// After an mbarrier wait a warp resumes at the next instruction.
  int waiting_at(const Warp& warp) const {
    return warp.waits ? program_.ops[static_cast<size_t>(warp.pc) - 1].instruction : instruction_of(warp);
  }

  Violation place(const KernelFault& fault) const {
    std::string where = print_block(*current_->cta);
    if (fault.lane >= 0) where += ", " + print_thread(*current_->cta, current_->index, fault.lane);
    if (fault.code != ViolationCode::deadlock) where += ", " + print_place(program_, instruction_of(*current_));
    return {.code = fault.code, .field = where, .seen = fault.seen, .expected = fault.expected, .fix = fault.fix};
  }

  uint64_t address_of(const Cta& cta, int variable, uint64_t offset) const {
    const auto index = static_cast<size_t>(variable);
    const Variable& declared = program_.variables[index];
    if (declared.space == Space::global) return addresses_[index] + offset;
    const uint64_t begin = declared.space == Space::shared ? address_in(cta.rank, shared_begin) : 0;
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
    cta.uses.clear();
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
      warp = Warp();
      warp.file = base + number * program_.file_bytes;
      warp.cta = &cta;
      warp.index = static_cast<int>(i);
      warp.number = static_cast<int>(number);
      const int64_t threads = std::min<int64_t>(lanes, cta.threads - static_cast<int64_t>(i) * lanes);
      warp.live = warp.active = static_cast<Mask>(low_mask(static_cast<int>(threads)));
      warp.seen.assign(cluster_.ctas.size() * warps, 0);
      for (const Program::Constant& constant : program_.constants) {
        const uint64_t value =
            constant.variable < 0 ? constant.value : address_of(cta, constant.variable, constant.value);
        if (constant.bytes == 0) warp.mask_of(constant.slot) = static_cast<Mask>(value);
        else if (constant.bytes == 4)
          std::fill_n(warp.lanes_of<uint32_t>(constant.slot), lanes, static_cast<uint32_t>(value));
        else std::fill_n(warp.lanes_of<uint64_t>(constant.slot), lanes, value);
      }
      for (const Program::Special& special : program_.specials) {
        if (special.row->bits == 1) warp.mask_of(special.slot) = special.row->value(warp, 0) != 0 ? all_lanes : 0;
        for (int lane = 0; lane < lanes && special.row->bits != 1; ++lane)
          warp.lanes_of<uint32_t>(special.slot)[lane] = static_cast<uint32_t>(special.row->value(warp, lane));
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

  template <typename Body>
  bool for_all_warps(const Body& body) const {
    return std::ranges::all_of(cluster_.ctas, [&](const Cta& cta) { return std::ranges::all_of(cta.warps, body); });
  }

  /// A turn of each warp that can run. False if all have ended.
  bool run_warps(uint64_t round) {
    bool any_ready = false, all_done = true, all_wait = true;
    const uint64_t phases = cluster_.phases;
    for (Cta& cta : cluster_.ctas) {
      for (Warp& warp : cta.warps) {
        all_done = all_done && warp.status == WarpStatus::done;
        if (warp.status != WarpStatus::ready) continue;
        any_ready = true;
        current_ = &warp;
        warp.waits = false;
        if (cta.tracer && cta.tracer->warp == &warp) run_warp<true>(warp, round);
        else run_warp<false>(warp, round);
        all_wait = all_wait && (warp.waits || warp.status == WarpStatus::at_barrier ||
                                warp.status == WarpStatus::at_cluster_barrier);
        if (warp.steps <= launch_.most_steps) continue;
        fault(ViolationCode::deadlock, -1,
              fmt::format("warp {} has run {} instructions and has reached {}", warp.index, warp.steps,
                          print_place(program_, instruction_of(warp))),
              "a kernel that ends",
              launch_.cooperative ? ""
                                  : "if a loop waits for another block, make the launch cooperative: bitmma otherwise "
                                    "runs that block later");
      }
    }
    if (all_done) return false;
    // Only the cluster's own threads and copies complete a barrier.
    rounds_in_vain_ = all_wait && cluster_.phases == phases ? rounds_in_vain_ + 1 : 0;
    if (!any_ready || rounds_in_vain_ > 2) report_deadlock();
    return true;
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
                             is_alone ? "" : " of " + print_block(cta), print_place(program_, waiting_at(warp)));
      }
    }
    if (count > 4) waits += fmt::format("; and {} other warps", count - 4);
    if (done > 0)
      waits += fmt::format("; {} of the {} have ended", counted(done, "warp"), is_alone ? "block" : "cluster");
    fault(ViolationCode::deadlock, -1, waits, "a barrier that all expected threads reach");
  }

  template <bool is_traced>
  void run_warp(Warp& warp, uint64_t round) {
    Repetition& repetition = repetitions_[static_cast<size_t>(warp.number)];
    switch (run_turn<is_traced>(warp)) {
      case Turn::waits: return repetition.reset();
      case Turn::yields: return;
      case Turn::whole: break;
    }
    if (++warp.long_turns < most_long_turns) return;
    // From the first time on that lanes run apart, they change with each turn.
    if (warp.take_turns()) {
      warp.long_turns = most_long_turns;
      if (warp.active == 0) next_level(warp);
    } else {
      warp.long_turns = 0;
    }
    repetition.note(warp, program_.file_bytes, round);
  }

  enum class Turn : uint8_t { whole, yields, waits };

  template <bool is_traced>
  Turn run_turn(Warp& warp) {
    const Op* const ops = program_.ops.data();
    const uint64_t begin = warp.steps, end = begin + quantum - warp.used_steps;
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
        if (!next_level(warp)) return Turn::waits;
        continue;
      }
      const Op& op = ops[warp.pc];
      if (warp.newest_group > warp.completed_groups) check_registers(warp, op);
      Mask mask = warp.active;
      if (op.guard != Op::no_slot) {
        const Mask predicate = warp.mask_of(op.guard);
        mask &= op.guard_negated ? ~predicate : predicate;
      }
      if (warp.unwritten) follow_unwritten(warp, op, mask);
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
      if (!goes_on) return Turn::waits;
      if (op.control != Control::yield || !launch_.cooperative || mask == 0) continue;
      warp.used_steps += warp.steps - begin + steps_of_yield;
      if (warp.used_steps < quantum) return Turn::yields;
      break;
    }
    warp.used_steps = 0;
    return Turn::whole;
  }

  /// Reports the traced thread's step if the thread ran the Op and the Op is the last of its instruction.
  void tell_step(const Op& op, Mask ran = all_lanes) {
    if ((ran >> tracer_.lane & 1) == 0 || op.instruction < 0) return;
    const Op* const next = &op + 1;
    if (next < program_.ops.data() + program_.ops.size() && next->instruction == op.instruction) return;
    const PtxInstruction& instruction = program_.entry.instructions[static_cast<size_t>(op.instruction)];
    ThreadStep step{.line = instruction.line, .source_line = instruction.source_line, .text = instruction.text};
    const Warp& warp = *tracer_.warp;
    const auto lane = static_cast<size_t>(tracer_.lane);
    for (const int reg : effects_of(instruction).writes) {
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
    const PtxInstruction& instruction = program_.entry.instructions[static_cast<size_t>(op.instruction)];
    const bool is_copy = instruction.row->passes == Passes::value;
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
      case Control::branch: warp.branch(mask, op.target, op.reconverge); return true;
      case Control::leave:
        warp.live &= ~mask;
        warp.active &= ~mask;
        ++warp.pc;
        complete_cluster_barrier(cluster_);
        return warp.active != 0 || next_level(warp);
      case Control::converge:
        if (mask == 0) return ++warp.pc, true;
        return converge(warp, op, mask);
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
        return !std::exchange(warp.gives_way, false) && !warp.waits;
      case Control::yield:
        if (mask != 0) op.run(warp, op, mask);
        ++warp.pc;
        return true;
      case Control::cluster_arrive: arrive_at_cluster(warp, mask); return true;
      case Control::cluster_wait: return wait_for_cluster(warp, mask);
      case Control::call:
        if (mask == 0) return ++warp.pc, true;
        call(warp, op);
        return true;
      case Control::return_:
        warp.return_from_call(mask);
        ++warp.pc;
        return warp.active != 0 || next_level(warp);
      case Control::none: break;
    }
    return false;
  }

  /// A call of a subroutine. Lanes that call other functions do so after the first ones have returned.
  void call(Warp& warp, const Op& op) {
    const auto& details = *static_cast<const SubroutineCall*>(op.details);
    int number = details.subroutine;
    if (number < 0) {
      const auto* functions = warp.lanes_of<const uint64_t>(details.function);
      const int first = __builtin_ctz(warp.active);
      const auto code = std::ranges::find(program_.subroutines, functions[first], &SubroutineCode::function);
      if (code == program_.subroutines.end())
        fault(ViolationCode::undefined_by_ptx, first, fmt::format("a call of {:#x}", functions[first]),
              "the address of a function of the module");
      number = static_cast<int>(code - program_.subroutines.begin());
      Mask same = 0;
      for_each_lane(warp.active, [&](int lane) { same |= Mask{functions[lane] == functions[first]} << lane; });
      if (same != warp.active) warp.part(same, warp.pc + 1);
    }
    const SubroutineCode& code = program_.subroutines[static_cast<size_t>(number)];
    begin_activation(warp, code, details);
    warp.call(code.begin);
  }

  static Mask lanes_with(const Warp& warp, const Op& op, Mask mask, Mask members) {
    Mask same = 0;
    for_each_lane(mask, [&](int lane) { same |= Mask{warp.lanes_of<const uint32_t>(op.e)[lane] == members} << lane; });
    return same;
  }

  /// An instruction with a membermask. Lanes with different masks are groups of their own, as the tiles of cooperative
  /// groups are: each runs when all its members are here.
  bool converge(Warp& warp, const Op& op, Mask mask) {
    const auto* const of_lanes = warp.lanes_of<const uint32_t>(op.e);
    const auto members_of = [&](Mask of) { return of_lanes[__builtin_ctz(of)]; };
    const Mask members = members_of(mask);
    uint32_t differ = 0;  // also in lanes outside of `mask`
    for (int lane = 0; lane < lanes; ++lane) differ |= of_lanes[lane] ^ members;
    const Mask same = differ == 0 ? mask : lanes_with(warp, op, mask, members);
    if (same == mask) return converge_group(warp, op, mask, members);
    Mask complete = 0, waiting = 0;
    for (Mask left = mask; left != 0;) {
      const Mask of_group = members_of(left), group = lanes_with(warp, op, left, of_group);
      left &= ~group;
      if ((of_group & warp.live & ~group) != 0) {
        waiting |= group;
        continue;
      }
      run_group(warp, op, group, of_group);
      complete |= group;
    }
    ran_ = complete;
    if (waiting == 0) return ++warp.pc, true;
    // The lanes that are through go on; of the others each group arrives for itself.
    const Mask of_group = members_of(waiting), group = lanes_with(warp, op, waiting, of_group);
    warp.set_aside(warp.active & ~waiting, warp.pc + 1);
    warp.set_aside(waiting & ~group, warp.pc);
    return converge_group(warp, op, group, of_group);
  }

  bool converge_group(Warp& warp, const Op& op, Mask mask, Mask members) {
    if (!gather(warp, mask, members & warp.live)) return warp.status == WarpStatus::ready;
    Mask here = warp.active;
    if (op.guard != Op::no_slot) here &= op.guard_negated ? ~warp.mask_of(op.guard) : warp.mask_of(op.guard);
    run_group(warp, op, here, members);
    ran_ = here;
    ++warp.pc;
    return true;
  }

  static void run_group(Warp& warp, const Op& op, Mask group, Mask members) {
    if (!op.run) return;
    if (const Mask outside = group & ~members; outside != 0)
      fault(ViolationCode::undefined_by_ptx, __builtin_ctz(outside),
            fmt::format("a membermask {:#x} without this lane", members),
            "a membermask that includes every lane that executes the instruction");
    op.run(warp, op, group);
  }

  /// Switches to the next lanes that can run. False if there are none now.
  bool next_level(Warp& warp) {
    switch (warp.next()) {
      case Divergence::Next::runs: return true;
      case Divergence::Next::returned: end_activation(warp, warp.active); return warp.active != 0 || next_level(warp);
      case Divergence::Next::ended:
        warp.status = WarpStatus::done;
        complete_barriers(*warp.cta);
        return false;
      case Divergence::Next::blocked: break;
    }
    const Mask parked = warp.parked();
    fault(ViolationCode::deadlock, parked == 0 ? -1 : __builtin_ctz(parked),
          "lanes of a warp wait for each other at different instructions",
          "instructions with .sync that all lanes of their mask reach");
  }

  /// True if all lanes that an instruction needs have arrived. Otherwise parks the arrived ones, and other lanes run.
  bool gather(Warp& warp, Mask mask, Mask needed) {
    switch (warp.gather(mask, needed)) {
      case Divergence::Gathered::all: return true;
      case Divergence::Gathered::waits:
        ran_ = 0;
        next_level(warp);
        return false;
      case Divergence::Gathered::in_part: break;
    }
    fault(ViolationCode::undefined_by_ptx, __builtin_ctz(mask), "a guard that is true in only some lanes of the warp",
          "a guard that is true in all lanes that the instruction needs, or in none");
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

  const Program& program_;
  const Launch& launch_;
  const std::vector<uint64_t>& addresses_;
  Cluster cluster_;
  std::vector<uint8_t> files_;
  Warp* current_ = nullptr;
  Mask ran_ = 0;  // lanes that ran the last control Op
  Tracer tracer_ = {};
  uint64_t thread_instructions_ = 0;
  std::vector<Repetition> repetitions_ = {};  // of each warp
  bool has_other_threads_ = false;
  int rounds_in_vain_ = 0;
  std::vector<std::pair<size_t, std::string>> printed_ = {};
};

Executor::Executor(const Program& program, const Launch& launch, SharedByClusters& memory)
    : state_(std::make_unique<State>(program, launch, memory)) {}
Executor::~Executor() = default;

BITMMA_IN_ENVIRONMENT void Executor::run(const std::array<int64_t, 3>& id, size_t index, ClusterQueue& queue) {
  state_->run(id, index, queue);
}
BITMMA_IN_ENVIRONMENT void Executor::begin(const std::array<int64_t, 3>& id, size_t index, ClusterQueue& queue) {
  state_->begin(id, index, queue);
}
BITMMA_IN_ENVIRONMENT bool Executor::run_round(const Rounds& rounds) { return state_->run_round(rounds.count); }
uint64_t Executor::changes() const { return state_->changes(); }
bool Executor::is_stuck(const Rounds& rounds) const { return state_->is_stuck(rounds); }
void Executor::report_stuck() { state_->report_stuck(); }
uint64_t Executor::thread_instructions() const { return state_->thread_instructions(); }
const Warnings& Executor::warnings() const { return state_->warnings(); }
const std::vector<std::pair<size_t, std::string>>& Executor::printed() const { return state_->printed(); }

int64_t executor_bytes(const Program& program, const Launch& launch) {
  const std::array<int64_t, 3>& cluster = *launch.cluster;
  const int64_t warps = (launch.block[0] * launch.block[1] * launch.block[2] + lanes - 1) / lanes,
                shared = shared_begin + program.shared_bytes + launch.dynamic_shared_bytes;
  const int64_t checks = launch.checks ? 1 + SharedUses::bytes_for_byte(warps) : 0,
                local = warps * lanes * program.local_bytes * (launch.checks ? 2 : 1);
  return cluster[0] * cluster[1] * cluster[2] * (warps * int64_t{program.file_bytes} + shared * (1 + checks) + local);
}

}  // namespace bitmma::kernel
