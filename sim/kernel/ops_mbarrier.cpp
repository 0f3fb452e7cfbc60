// SPDX-License-Identifier: MIT
// mbarrier instructions, and cp.async.mbarrier.arrive.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "decode.hpp"
#include "lanes.hpp"
#include "mbarrier.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

enum class What : uint8_t { init, inval, expect_tx, complete_tx, arrive, arrive_drop, wait };

struct MbarrierDetails {
  What what = What::init;
  Address address = {};
  bool has_count = false, with_tx = false, parity = false;
  bool sleeps = false;  // try_wait
};

/// Makes the warp's earlier accesses visible to the threads that wait for the phase.
void release(const Warp& warp, const MbarrierObject& barrier) { tell(warp, barrier.cta->known_at[barrier.address]); }

void acquire(Warp& warp, const MbarrierObject& barrier) {
  const auto known = barrier.cta->known_at.find(barrier.address);
  if (known != barrier.cta->known_at.end()) learn(warp, known->second);
}

/// Completes the copies that signal this barrier. False if there are none.
bool complete_bulk_copies(const MbarrierObject& object, int lane) {
  uint64_t arrived = 0;
  std::erase_if(object.cta->bulk_copies, [&](const BulkCopy& copy) {
    if (copy.barrier != object.address) return false;
    for (const auto& [cta, to, bytes, size] : copy.pieces) {
      std::memcpy(cta->shared.data() + to, bytes.data(), size);
      if (!cta->launch->checks) continue;
      std::memset(cta->shared_states.data() + to, written, size);
      if (!cta->uses.is_unit_used(to)) continue;
      cta->uses.forget(to, size);
      if (size == piece) cta->uses.forget_unit(to);
    }
    arrived += copy.bytes;
    return true;
  });
  if (arrived > 0) change(object, lane, 0, -static_cast<int64_t>(arrived));
  return arrived > 0;
}

void run_mbarrier(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MbarrierDetails*>(op.details);
  bool has_arrived = false;
  for_each_lane(mask, [&](int lane) {
    const AccessKind kind = details.what == What::init ? AccessKind::write : AccessKind::atomic;
    const MbarrierObject object =
        object_of(warp, op, lane, details.address.space, details.address.of(warp, lane), kind);
    const uint32_t number = details.has_count ? warp.lanes_of<const uint32_t>(op.b)[lane] : 1;
    switch (details.what) {
      case What::init:
        if (number < 1 || number > most_arrivals)
          fault(ViolationCode::undefined_by_ptx, lane, fmt::format("an mbarrier of {} arrivals", number),
                "1 to 2^20 - 1");
        object.set({.pending = number, .arrivals = number});
        ++warp.cta->cluster->phases;
        break;
      case What::inval:
        if (object.cta->launch->checks) std::memset(object.cta->shared_states.data() + object.address, unwritten, 8);
        break;
      case What::expect_tx: change(object, lane, 0, number); break;
      case What::complete_tx:  // always .relaxed
        tell_released(warp, object.cta->known_at[object.address]);
        change(object, lane, 0, -static_cast<int64_t>(number));
        break;
      case What::arrive:
      case What::arrive_drop: {
        uint64_t state = 0;
        std::memcpy(&state, object.bytes, 8);
        if (op.d != Op::no_slot) warp.lanes_of<uint64_t>(op.d)[lane] = state;
        const int64_t arrivals = details.with_tx ? 1 : number;
        if (details.what == What::arrive_drop) {
          MbarrierPhase phase = object.phase();
          phase.arrivals = std::max<int64_t>(phase.arrivals - arrivals, 0);
          object.set(phase);
        }
        release(warp, object);
        has_arrived = true;
        change(object, lane, arrivals, details.with_tx ? number : 0);
        break;
      }
      case What::wait: break;  // handled by wait_for_phase
    }
  });
  if (has_arrived) ++warp.epoch;  // this arrival does not cover the warp's later accesses
}

void wait_for_phase(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MbarrierDetails*>(op.details);
  Mask complete = 0;
  for_each_lane(mask, [&](int lane) {
    const MbarrierObject object =
        object_of(warp, op, lane, details.address.space, details.address.of(warp, lane), AccessKind::atomic);
    // A copy takes long on a GPU: meanwhile the other warps reach the barrier.
    if (complete_bulk_copies(object, lane)) warp.gives_way = true;
    const bool waited_for = details.parity ? (warp.lanes_of<const uint32_t>(op.b)[lane] & 1) != 0
                                           : MbarrierPhase::of(warp.lanes_of<const uint64_t>(op.b)[lane]).parity;
    const Mask bit = Mask{1} << lane;
    const bool was_woken =
        (warp.sleep.woken & bit) != 0 && warp.sleep.cta == object.cta && warp.sleep.barrier == object.address;
    warp.sleep.woken &= ~bit;
    if (object.phase().parity == waited_for && !was_woken) {
      if (!details.sleeps) return;
      if (warp.sleep.cta != object.cta || warp.sleep.barrier != object.address || warp.sleep.parity != waited_for)
        warp.sleep = {.cta = object.cta, .barrier = object.address, .parity = waited_for};
      warp.sleep.lanes |= bit;
      return;
    }
    warp.sleep.lanes &= ~bit;
    acquire(warp, object);
    complete |= bit;
  });
  set_mask(warp, op.d, mask, complete);
}

void run_pending_count(Warp& warp, const Op& op, Mask mask) {
  for_each_lane(mask, [&](int lane) {
    warp.lanes_of<uint32_t>(op.d)[lane] =
        static_cast<uint32_t>(MbarrierPhase::of(warp.lanes_of<const uint64_t>(op.a)[lane]).pending);
  });
}

/// Orders and scopes, which change no value here; a scope follows an order. PTX ISA, mbarrier.
void take_orders(const Decoder& decoder, Words& words, bool arrives, bool waits, bool counts_bytes) {
  Word order = words.take_one({Word::relaxed});
  if (order == Word::none && arrives) order = words.take_one({Word::release});
  if (order == Word::none && waits) order = words.take_one({Word::acquire});
  const bool has_scope = words.take_one({Word::cta, Word::cluster}) != Word::none;
  if (has_scope != (order != Word::none) || (order != Word::none && !arrives && !waits && !counts_bytes))
    decoder.refuse("with an order without a scope, or a scope without an order");
}

Space space_of_mbarrier(Words& words) {
  for (const Word name : {Word::shared, Word::shared_cta, Word::shared_cluster}) {
    if (words.take(name)) return Space::shared;
  }
  return Space::generic;
}

void decode_mbarrier(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  MbarrierDetails mbarrier_details;
  const auto& operands = instruction.operands;
  const Word what = words.take_one({Word::init, Word::inval, Word::arrive_drop, Word::arrive, Word::test_wait,
                                    Word::try_wait, Word::pending_count, Word::complete_tx, Word::expect_tx});
  mbarrier_details.with_tx = words.take(Word::expect_tx);
  mbarrier_details.parity = words.take(Word::parity);
  const bool waits = what == Word::test_wait || what == Word::try_wait,
             arrives = what == Word::arrive || what == Word::arrive_drop;
  const bool is_remote = has_word(instruction, Word::shared_cluster);
  const bool is_incomplete = arrives && words.take(Word::noComplete);
  take_orders(decoder, words, arrives, waits, what == Word::expect_tx || what == Word::complete_tx);
  if (!words.take(Word::b64) || what == Word::none) decoder.refuse("of another operation or type");
  if (!arrives && !operands.empty() && operands[0].kind == Kind::sink) decoder.refuse("with _ for its result");
  if (what == Word::pending_count) {
    decoder.require_operands(instruction, 2, 2);
    const uint32_t d = decoder.write(operands[0], Type::u32), a = decoder.read(operands[1], Type::b64);
    Op& op = decoder.emit(run_pending_count);
    op.d = d, op.a = a;
    return;
  }
  const Space space = space_of_mbarrier(words);
  if (waits && is_remote) decoder.refuse("of another block");
  // arrive may omit its result.
  const size_t at = waits || (arrives && !operands.empty() && operands[0].kind != Kind::address) ? 1 : 0;
  // PTX ISA, mbarrier: only try_wait has a time limit, inval has no number, and an arrival at another block no result.
  decoder.require_operands(instruction, at + 1, at + (what == Word::try_wait ? 3 : what == Word::inval ? 1 : 2));
  if (arrives && is_remote && at == 1 && operands[0].kind != Kind::sink)
    decoder.refuse("with a result of another block");
  mbarrier_details.address = address_of(decoder, operands[at], space);
  uint32_t b = 0, d = Op::no_slot;
  if (operands.size() > at + 1) {
    mbarrier_details.has_count = true;
    b = decoder.read(operands[at + 1], waits && !mbarrier_details.parity ? Type::b64 : Type::b32);
  }
  const bool needs_number = waits || is_incomplete || mbarrier_details.with_tx || what == Word::init ||
                            what == Word::expect_tx || what == Word::complete_tx;
  if (needs_number && !mbarrier_details.has_count) decoder.refuse("without its number");
  if (waits) d = decoder.write_mask(operands[0]);
  else if (at == 1 && operands[0].kind != Kind::sink) d = decoder.write(operands[0], Type::b64);
  mbarrier_details.what = what == Word::init          ? What::init
                          : what == Word::inval       ? What::inval
                          : what == Word::expect_tx   ? What::expect_tx
                          : what == Word::complete_tx ? What::complete_tx
                          : what == Word::arrive      ? What::arrive
                          : what == Word::arrive_drop ? What::arrive_drop
                                                      : What::wait;
  mbarrier_details.sleeps = what == Word::try_wait;
  const auto* details = decoder.keep(mbarrier_details);
  Op& op = decoder.emit(waits ? wait_for_phase : run_mbarrier);
  if (waits) op.control = Control::wait;
  op.details = details;
  op.b = b, op.d = d;
}

/// `counts`: .noinc. Without it the arrival also increments the expected count, which leaves the phase as it is.
template <bool counts>
void run_copy_arrives(Warp& warp, const Op& op, Mask mask) {
  if (!warp.open_group.empty()) {
    warp.groups.push_back(std::move(warp.open_group));
    warp.open_group.clear();
  }
  complete_copies(warp, 0);
  if constexpr (counts) run_mbarrier(warp, op, mask);
}

constexpr auto mbarrier_rows = std::to_array<Opcode>({
    {.name = Word::mbarrier,
     .does = "a barrier in shared memory that threads and copies arrive at",
     .decode = decode_mbarrier,
     .acts = acts,
     .may_drop = may_drop},
});

}  // namespace

MbarrierObject object_of(Warp& warp, const Op& op, int lane, Space space, uint64_t address, AccessKind kind) {
  uint8_t* const bytes = locate(warp, op, lane, space, address, 8, kind);
  Cta* const cta = owner_of(*warp.cta->cluster, bytes);
  if (!cta)
    fault(ViolationCode::out_of_bounds, lane, fmt::format("an mbarrier object at {:#x}", address), "shared memory");
  return {cta, bytes, static_cast<uint32_t>(bytes - cta->shared.data())};
}

void change(const MbarrierObject& object, int lane, int64_t arrivals, int64_t tx) {
  MbarrierPhase phase = object.phase();
  phase.tx += tx;
  if (arrivals > phase.pending) {
    fault(ViolationCode::undefined_by_ptx, lane,
          fmt::format("{} more arrivals at an mbarrier that waits for {}", arrivals, phase.pending),
          "as many arrivals as mbarrier.init specifies");
  }
  if (phase.tx > most_arrivals || phase.tx < -most_arrivals)
    fault(ViolationCode::undefined_by_ptx, lane, fmt::format("a tx-count of {}", phase.tx), "-(2^20 - 1) to 2^20 - 1");
  phase.pending -= arrivals;
  if (phase.pending == 0 && phase.tx == 0) {
    phase.pending = phase.arrivals;
    for (Cta& cta : object.cta->cluster->ctas) {
      for (Warp& warp : cta.warps) {
        if (warp.sleep.lanes == 0 || warp.sleep.cta != object.cta || warp.sleep.barrier != object.address ||
            warp.sleep.parity != phase.parity)
          continue;
        warp.sleep.woken |= std::exchange(warp.sleep.lanes, 0);
      }
    }
    phase.parity = !phase.parity;
    ++object.cta->cluster->phases;
  }
  object.set(phase);
}

uint32_t blocks_of_mask(const Warp& warp, uint32_t slot, int lane) {
  const uint32_t blocks = warp.lanes_of<const uint32_t>(slot)[lane] & 0xFFFF;
  if (blocks == 0 || blocks >> warp.cta->cluster->ctas.size() != 0)
    fault(ViolationCode::undefined_by_ptx, lane, fmt::format("a ctaMask of {:#x}", blocks),
          fmt::format("blocks of a cluster of {}", warp.cta->cluster->ctas.size()));
  return blocks;
}

void arrive_once(Warp& warp, const Op& op, int lane, Space space, uint64_t address) {
  const MbarrierObject object = object_of(warp, op, lane, space, address, AccessKind::atomic);
  release(warp, object);
  change(object, lane, 1, 0);
}

void complete_bytes(Warp& warp, const Op& op, int lane, const Address& barrier, int bytes) {
  change(object_of(warp, op, lane, barrier.space, barrier.of(warp, lane), AccessKind::atomic), lane, 0, -bytes);
}

void decode_copy_arrives(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (!words.take(Word::arrive)) decoder.refuse("not supported");
  const bool counts = words.take(Word::noinc);
  MbarrierDetails mbarrier_details{.what = What::arrive};
  const Space space = space_of_mbarrier(words);
  if (!words.take(Word::b64)) decoder.refuse("of another type");
  decoder.require_operands(instruction, 1, 1);
  mbarrier_details.address = address_of(decoder, instruction.operands[0], space);
  const auto* details = decoder.keep(mbarrier_details);
  Op& op = decoder.emit(counts ? run_copy_arrives<true> : run_copy_arrives<false>);
  op.details = details;
  op.d = Op::no_slot;
}

std::span<const Opcode> mbarrier_opcodes() { return mbarrier_rows; }

}  // namespace bitmma::kernel
