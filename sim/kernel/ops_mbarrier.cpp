// SPDX-License-Identifier: MIT
// mbarrier objects, and the copies that complete on one: cp.async.bulk, with tensor maps or without, and
// cp.async.mbarrier.arrive.
//
// PTX leaves the 64 bits of an mbarrier object open. Here: the pending arrivals in bits 0 to 19, those of a phase in
// bits 20 to 39, the bytes that are still expected in bits 40 to 62, two's complement, and the parity of the phase in
// bit 63. A copy arrives when a thread waits for its barrier: until then its bytes are in flight, and reading them is a
// fault.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bitmma/core/bits.hpp"
#include "decode.hpp"
#include "lanes.hpp"
#include "tensor_map.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

constexpr uint32_t piece = 16;  // bytes; a bulk copy has a multiple of it, so aligned
constexpr int most_arrivals = (1 << 20) - 1, tx_bits = 23;

struct Phase {
  int64_t pending = 0, arrivals = 0, tx = 0;
  bool parity = false;

  static Phase of(uint64_t word) {
    const uint64_t tx = word >> 40 & low_mask(tx_bits);
    return {.pending = static_cast<int64_t>(word & low_mask(20)),
            .arrivals = static_cast<int64_t>(word >> 20 & low_mask(20)),
            .tx = static_cast<int64_t>(tx) - ((tx >> (tx_bits - 1) & 1) != 0 ? int64_t{1} << tx_bits : 0),
            .parity = word >> 63 != 0};
  }
  uint64_t word() const {
    return static_cast<uint64_t>(pending) | static_cast<uint64_t>(arrivals) << 20 |
           (static_cast<uint64_t>(tx) & low_mask(tx_bits)) << 40 | uint64_t{parity} << 63;
  }
};

enum class What : uint8_t { init, inval, expect_tx, complete_tx, arrive, arrive_drop, wait };

struct MbarrierDetails {
  What what = What::init;
  Space space = Space::generic;
  bool wide_base = true, has_count = false, with_tx = false, parity = false;
};

/// An mbarrier object that a lane names.
struct Object {
  Cta* cta = nullptr;  // whose shared memory holds it
  uint8_t* bytes = nullptr;
  uint32_t address = 0;  // there

  Phase phase() const {
    uint64_t word = 0;
    std::memcpy(&word, bytes, 8);
    return Phase::of(word);
  }
  void set(const Phase& phase) const {
    const uint64_t word = phase.word();
    std::memcpy(bytes, &word, 8);
  }
};

Object object_of(Warp& warp, const Op& op, int lane, Space space, uint64_t address, AccessKind kind) {
  uint8_t* const bytes = locate(warp, op, lane, space, address, 8, kind);
  Cta* const cta = owner_of(*warp.cta->cluster, bytes);
  if (!cta)
    fault(ViolationCode::out_of_bounds, lane, fmt::format("an mbarrier object at {:#x}", address), "shared memory");
  return {cta, bytes, static_cast<uint32_t>(bytes - cta->shared.data())};
}

uint64_t address_at(const Warp& warp, uint32_t slot, bool wide, int64_t offset, int lane) {
  const uint64_t base = wide ? warp.lanes_of<const uint64_t>(slot)[lane] : warp.lanes_of<const uint32_t>(slot)[lane];
  const uint64_t address = base + static_cast<uint64_t>(offset);
  return wide ? address : address & low_mask(32);
}

/// Arrivals and bytes of a phase; the last of them begins the next one.
void change(const Object& object, int lane, int64_t arrivals, int64_t tx) {
  Phase phase = object.phase();
  phase.tx += tx;
  if (arrivals > phase.pending) {
    fault(ViolationCode::undefined_by_ptx, lane,
          fmt::format("{} more arrivals at an mbarrier that waits for {}", arrivals, phase.pending),
          "as many arrivals as mbarrier.init says");
  }
  if (phase.tx > most_arrivals || phase.tx < -most_arrivals)
    fault(ViolationCode::undefined_by_ptx, lane, fmt::format("a tx-count of {}", phase.tx), "-(2^20 - 1) to 2^20 - 1");
  phase.pending -= arrivals;
  if (phase.pending == 0 && phase.tx == 0) {
    phase.pending = phase.arrivals;
    phase.parity = !phase.parity;
    ++object.cta->cluster->phases;
  }
  object.set(phase);
}

/// What the warp did before becomes known to those that wait for the phase.
void release(const Warp& warp, const Object& barrier) { tell(warp, barrier.cta->known_at[barrier.address]); }

void acquire(Warp& warp, const Object& barrier) {
  const auto known = barrier.cta->known_at.find(barrier.address);
  if (known != barrier.cta->known_at.end()) learn(warp, known->second);
}

/// Lets the copies arrive that complete on a barrier.
void complete_bulk_copies(const Object& object, int lane) {
  uint64_t arrived = 0;
  std::erase_if(object.cta->bulk_copies, [&](const BulkCopy& copy) {
    if (copy.barrier != object.address) return false;
    for (const auto& [cta, to, bytes, size] : copy.pieces) {
      std::memcpy(cta->shared.data() + to, bytes.data(), size);
      if (!cta->launch->checks) continue;
      std::memset(cta->shared_states.data() + to, written, size);
      if (cta->used_units[to / piece] == 0) continue;
      std::fill_n(cta->uses.begin() + to, size, ByteUse{});
      if (size == piece) cta->used_units[to / piece] = 0;
    }
    arrived += copy.bytes;
    return true;
  });
  if (arrived > 0) change(object, lane, 0, -static_cast<int64_t>(arrived));
}

void run_mbarrier(Warp& warp, const Op& op, Mask mask) {
  const auto& one = *static_cast<const MbarrierDetails*>(op.details);
  bool has_arrived = false;
  for_each_lane(mask, [&](int lane) {
    const AccessKind kind = one.what == What::init ? AccessKind::write : AccessKind::atomic;
    const Object object =
        object_of(warp, op, lane, one.space, address_at(warp, op.a, one.wide_base, op.immediate, lane), kind);
    const uint32_t number = one.has_count ? warp.lanes_of<const uint32_t>(op.b)[lane] : 1;
    switch (one.what) {
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
      case What::complete_tx: change(object, lane, 0, -static_cast<int64_t>(number)); break;
      case What::arrive:
      case What::arrive_drop: {
        uint64_t state = 0;
        std::memcpy(&state, object.bytes, 8);
        if (op.d != Op::no_slot) warp.lanes_of<uint64_t>(op.d)[lane] = state;
        const int64_t arrivals = one.with_tx ? 1 : number;
        if (one.what == What::arrive_drop) {
          Phase phase = object.phase();
          phase.arrivals = std::max<int64_t>(phase.arrivals - arrivals, 0);
          object.set(phase);
        }
        release(warp, object);
        has_arrived = true;
        change(object, lane, arrivals, one.with_tx ? number : 0);
        break;
      }
      case What::wait: break;  // run_wait
    }
  });
  if (has_arrived) ++warp.epoch;  // what the warp does from here on is not known by this arrival
}

void run_wait(Warp& warp, const Op& op, Mask mask) {
  const auto& one = *static_cast<const MbarrierDetails*>(op.details);
  Mask complete = 0;
  for_each_lane(mask, [&](int lane) {
    const Object object = object_of(warp, op, lane, one.space,
                                    address_at(warp, op.a, one.wide_base, op.immediate, lane), AccessKind::atomic);
    complete_bulk_copies(object, lane);
    const bool waited_for = one.parity ? (warp.lanes_of<const uint32_t>(op.b)[lane] & 1) != 0
                                       : Phase::of(warp.lanes_of<const uint64_t>(op.b)[lane]).parity;
    if (object.phase().parity == waited_for) return;
    acquire(warp, object);
    complete |= Mask{1} << lane;
  });
  set_mask(warp, op.d, mask, complete);
}

void run_pending_count(Warp& warp, const Op& op, Mask mask) {
  for_each_lane(mask, [&](int lane) {
    warp.lanes_of<uint32_t>(op.d)[lane] =
        static_cast<uint32_t>(Phase::of(warp.lanes_of<const uint64_t>(op.a)[lane]).pending);
  });
}

void take_orders(Words& words) {
  for (const std::string_view word : {"relaxed", "acquire", "release", "cta", "cluster", "noComplete"})
    words.take(word);
}

Space space_of(Words& words) {
  for (const std::string_view name : {"shared", "shared::cta", "shared::cluster"}) {
    if (words.take(name)) return Space::shared;
  }
  return Space::generic;
}

void decode_mbarrier(Decoder& decoder, const Instruction& instruction, Words& words) {
  MbarrierDetails one;
  const auto& operands = instruction.operands;
  const std::string_view what = words.take_one(
      {"init", "inval", "arrive_drop", "arrive", "test_wait", "try_wait", "pending_count", "complete_tx", "expect_tx"});
  one.with_tx = words.take("expect_tx");
  one.parity = words.take("parity");
  take_orders(words);
  one.space = space_of(words);
  if (!words.take("b64") || what.empty()) decoder.refuse("of another operation or type");
  if (what == "pending_count") {
    decoder.require_operands(instruction, 2, 2);
    const uint32_t d = decoder.write(operands[0], Type::u32), a = decoder.read(operands[1], Type::b64);
    Op& op = decoder.emit(run_pending_count);
    op.d = d, op.a = a;
    return;
  }
  const bool waits = what == "test_wait" || what == "try_wait", arrives = what.starts_with("arrive");
  // arrive may leave its result out.
  const size_t at = waits || (arrives && !operands.empty() && operands[0].kind != Kind::address) ? 1 : 0;
  decoder.require_operands(instruction, at + 1, at + (waits ? 3 : 2));
  int64_t offset = 0;
  const uint32_t base = address_of(decoder, operands[at], one.space, one.wide_base, offset);
  uint32_t b = 0, d = Op::no_slot;
  if (operands.size() > at + 1) {
    one.has_count = true;
    b = decoder.read(operands[at + 1], waits && !one.parity ? Type::b64 : Type::b32);
  }
  const bool needs_number = waits || one.with_tx || what == "init" || what == "expect_tx" || what == "complete_tx";
  if (needs_number && !one.has_count) decoder.refuse("without its number");
  if (waits) d = decoder.write_mask(operands[0]);
  else if (at == 1 && operands[0].kind != Kind::sink) d = decoder.write(operands[0], Type::b64);
  one.what = what == "init"          ? What::init
             : what == "inval"       ? What::inval
             : what == "expect_tx"   ? What::expect_tx
             : what == "complete_tx" ? What::complete_tx
             : what == "arrive"      ? What::arrive
             : what == "arrive_drop" ? What::arrive_drop
                                     : What::wait;
  const auto* details = decoder.keep(one);
  Op& op = decoder.emit(waits ? run_wait : run_mbarrier);
  if (waits) op.control = Control::wait;
  op.details = details;
  op.a = base, op.b = b, op.d = d;
  op.immediate = offset;
}

// --- copies

struct BulkDetails {
  std::vector<uint32_t> coordinates = {};  // slots, of a tensor map; the innermost first
  uint32_t blocks = Op::no_slot;           // slot of the mask of .multicast::cluster
  std::optional<Atomic> reduction = {};    // of cp.reduce.async.bulk
  Type type = Type::b32;                   // of its elements, without a tensor map
  bool to_shared = true, wide_to = true, wide_from = true, wide_barrier = true;
  Space to = Space::shared, from = Space::global, barrier = Space::shared;
  int64_t to_offset = 0, from_offset = 0, barrier_offset = 0;
};

/// 16 bytes, and the address in shared memory where they will arrive.
using Pieces = std::vector<std::pair<uint64_t, std::array<uint8_t, piece>>>;

/// The copy arrives when a thread waits for the barrier that the instruction names. With .multicast::cluster each block
/// of the mask gets it, at the same place of its shared memory and of its barrier.
void begin_copy(Warp& warp, const Op& op, int lane, const Pieces& pieces) {
  const auto& one = *static_cast<const BulkDetails*>(op.details);
  const uint64_t barrier = address_at(warp, op.e, one.wide_barrier, one.barrier_offset, lane);
  const auto begin = [&](const auto& in_block) {
    const Object object = object_of(warp, op, lane, one.barrier, in_block(barrier), AccessKind::atomic);
    BulkCopy copy{.barrier = object.address, .bytes = static_cast<uint32_t>(pieces.size()) * piece};
    for (const auto& [to, bytes] : pieces) {
      const uint8_t* const place = locate(warp, op, lane, one.to, in_block(to), piece, AccessKind::bulk_write);
      Cta* const cta = owner_of(*warp.cta->cluster, place);
      if (!cta)
        fault(ViolationCode::out_of_bounds, lane, fmt::format("a bulk copy to {:#x}", in_block(to)), "shared memory");
      const auto at = static_cast<uint32_t>(place - cta->shared.data());
      copy.pieces.push_back({cta, at, bytes});
      if (cta->launch->checks) std::memset(cta->shared_states.data() + at, in_flight, piece);
    }
    object.cta->bulk_copies.push_back(std::move(copy));
  };
  if (one.blocks == Op::no_slot) return begin([](uint64_t address) { return address; });
  const uint32_t blocks = warp.lanes_of<const uint32_t>(one.blocks)[lane] & 0xFFFF;
  if (blocks >> warp.cta->cluster->ctas.size() != 0 || blocks == 0) {
    fault(ViolationCode::undefined_by_ptx, lane, fmt::format("a ctaMask of {:#x}", blocks),
          fmt::format("blocks of a cluster of {}", warp.cta->cluster->ctas.size()));
  }
  for_each_lane(blocks, [&](int rank) { begin([rank](uint64_t address) { return address_in(rank, address); }); });
}

/// Refuses a copy of more bytes than a block has, before they are gathered.
void require_fits(const Cta& cta, int lane, uint64_t bytes) {
  if (bytes <= cta.shared.size()) return;
  fault(ViolationCode::out_of_bounds, lane, fmt::format("a bulk copy of {} bytes", bytes),
        fmt::format("at most the {} of a block's shared memory", cta.shared.size() - shared_begin));
}

/// What a copy takes from shared memory.
void check_source(const Warp& warp, int lane, const uint8_t* source) {
  const Cta* const cta = owner_of(*warp.cta->cluster, source);
  if (cta) check_async_read({&warp, 1}, lane, *cta, static_cast<size_t>(source - cta->shared.data()));
}

/// One element of a copy to global memory, or of a reduction there.
void store_element(const BulkDetails& one, Type type, uint8_t* to, const uint8_t* from, size_t bytes) {
  if (!one.reduction) {
    std::memcpy(to, from, bytes);
    return;
  }
  uint64_t old = 0, value = 0;
  std::memcpy(&old, to, bytes);
  std::memcpy(&value, from, bytes);
  const uint64_t next = combined(*one.reduction, type, old, value, 0, AtomicPlace::bulk);
  std::memcpy(to, &next, bytes);
}

/// Source: PTX ISA, cp.reduce.async.bulk.
bool can_reduce(Atomic what, Type type) {
  if (!is_floating(type)) return true;
  return what == Atomic::add || ((what == Atomic::min || what == Atomic::max) && bytes_of(type) == 2);
}

void run_bulk_copy(Warp& warp, const Op& op, Mask mask) {
  const auto& one = *static_cast<const BulkDetails*>(op.details);
  for_each_lane(mask, [&](int lane) {
    const uint64_t to = address_at(warp, op.a, one.wide_to, one.to_offset, lane),
                   from = address_at(warp, op.b, one.wide_from, one.from_offset, lane);
    const uint32_t bytes = warp.lanes_of<const uint32_t>(op.c)[lane];
    if (bytes % piece != 0)
      fault(ViolationCode::misaligned, lane, fmt::format("a bulk copy of {} bytes", bytes), "a multiple of 16");
    require_fits(*warp.cta, lane, bytes);
    Pieces pieces;
    for (uint32_t i = 0; i < bytes; i += piece) {
      std::array<uint8_t, piece> data;
      const uint8_t* const source = locate(warp, op, lane, one.from, from + i, piece, AccessKind::read);
      if (one.from == Space::shared) check_source(warp, lane, source);
      std::memcpy(data.data(), source, piece);
      if (one.to_shared) {
        pieces.emplace_back(to + i, data);
        continue;
      }
      const size_t element = one.reduction ? static_cast<size_t>(bytes_of(one.type)) : piece;
      uint8_t* const place =
          locate(warp, op, lane, one.to, to + i, piece, one.reduction ? AccessKind::atomic : AccessKind::write);
      for (size_t at = 0; at < piece; at += element)
        store_element(one, one.type, place + at, data.data() + at, element);
    }
    if (one.to_shared) begin_copy(warp, op, lane, pieces);
  });
}

// --- st.async

struct AsyncStoreDetails {
  std::vector<uint32_t> parts = {};  // slots
  bool wide_parts = false, wide_to = true, wide_barrier = true;
  int64_t to_offset = 0, barrier_offset = 0;
};

void run_async_store(Warp& warp, const Op& op, Mask mask) {
  const auto& one = *static_cast<const AsyncStoreDetails*>(op.details);
  const size_t part_bytes = one.wide_parts ? 8 : 4;
  for_each_lane(mask, [&](int lane) {
    BulkCopy::Piece stored{.size = static_cast<uint32_t>(part_bytes * one.parts.size())};
    for (size_t i = 0; i < one.parts.size(); ++i) {
      const uint8_t* const from =
          one.wide_parts ? reinterpret_cast<const uint8_t*>(warp.lanes_of<const uint64_t>(one.parts[i]) + lane)
                         : reinterpret_cast<const uint8_t*>(warp.lanes_of<const uint32_t>(one.parts[i]) + lane);
      std::memcpy(stored.bytes.data() + part_bytes * i, from, part_bytes);
    }
    const uint64_t to = address_at(warp, op.a, one.wide_to, one.to_offset, lane),
                   barrier = address_at(warp, op.b, one.wide_barrier, one.barrier_offset, lane);
    const Object object = object_of(warp, op, lane, Space::shared, barrier, AccessKind::atomic);
    const uint8_t* const place = locate(warp, op, lane, Space::shared, to, static_cast<int>(stored.size),
                                        AccessKind::write, stored.bytes.data());
    stored.cta = owner_of(*warp.cta->cluster, place);
    stored.to = static_cast<uint32_t>(place - stored.cta->shared.data());
    if (stored.cta->launch->checks) std::memset(stored.cta->shared_states.data() + stored.to, in_flight, stored.size);
    object.cta->bulk_copies.push_back({.barrier = object.address, .bytes = stored.size, .pieces = {stored}});
  });
}

PackedTensorMap map_at(Warp& warp, const Op& op, int lane, uint64_t address, size_t rank) {
  PackedTensorMap map;
  auto* const bytes = reinterpret_cast<uint8_t*>(&map);
  if (address % 64 != 0)
    fault(ViolationCode::misaligned, lane, fmt::format("a tensor map at {:#x}", address), "a multiple of 64");
  for (size_t i = 0; i < sizeof map; i += 16)
    std::memcpy(bytes + i, locate(warp, op, lane, Space::generic, address + i, 16, AccessKind::read), 16);
  if (map.mark != PackedTensorMap::mark_of_ours) {
    fault(ViolationCode::undefined_by_ptx, lane, "128 bytes that are no tensor map",
          "a tensor map that the launch was given",
          "pass it as an argument: maps that a kernel makes are not run here");
  }
  require_usable(map);
  if (map.rank != rank)
    fault(ViolationCode::undefined_by_ptx, lane, fmt::format("a tensor map of {} dimensions", map.rank),
          fmt::format("one of {}", rank));
  return map;
}

using Indices = std::array<int64_t, 5>;

bool is_in_tensor(const PackedTensorMap& map, size_t dimension, int64_t index) {
  return index >= 0 && static_cast<uint64_t>(index) < map.sizes[dimension];
}

/// How many indices of a dimension a copy moves.
uint32_t moved_of(const PackedTensorMap& map, size_t dimension) {
  return (map.box[dimension] + map.element_strides[dimension] - 1) / map.element_strides[dimension];
}

/// Where the tensor's row begins that row `row` of a box is a part of; nothing outside of the tensor.
std::optional<uint64_t> row_of_tensor(const PackedTensorMap& map, const Indices& first, uint32_t row) {
  uint64_t address = map.address;
  for (size_t i = 1; i < map.rank; ++i) {
    const uint32_t moved = moved_of(map, i);
    const int64_t index = first[i] + int64_t{row % moved} * map.element_strides[i];
    row /= moved;
    if (!is_in_tensor(map, i, index)) return std::nullopt;
    address += static_cast<uint64_t>(index) * map.strides_bytes[i - 1];
  }
  return address;
}

/// Refuses coordinates at which a GPU stops with an illegal instruction. Measured on an H100 (data/kernels/tma.cu).
void require_coordinates(const BulkDetails& one, const PackedTensorMap& map, const Indices& first, int lane) {
  if (first[0] * map.element_bytes % 16 != 0) {
    fault(ViolationCode::misaligned, lane,
          fmt::format("coordinate {} of {}-byte elements in the innermost dimension", first[0], map.element_bytes),
          "one at a multiple of 16 bytes");
  }
  if (!one.to_shared && *std::ranges::min_element(first) < 0) {
    fault(ViolationCode::out_of_bounds, lane,
          fmt::format("a store to coordinates {}", fmt::join(first.begin(), first.begin() + map.rank, ", ")),
          "coordinates of 0 or more; loads may begin in front of the tensor");
  }
}

/// One copy between a box of a tensor and shared memory, where the box is dense, but with a swizzle each row begins at
/// a multiple of the swizzle's span.
void run_tensor_copy(Warp& warp, const Op& op, Mask mask) {
  const auto& one = *static_cast<const BulkDetails*>(op.details);
  const size_t rank = one.coordinates.size();
  for_each_lane(mask, [&](int lane) {
    const uint64_t to = address_at(warp, op.a, one.wide_to, one.to_offset, lane),
                   from = address_at(warp, op.b, one.wide_from, one.from_offset, lane);
    const uint64_t box_at = one.to_shared ? to : from;
    const PackedTensorMap map = map_at(warp, op, lane, one.to_shared ? from : to, rank);
    if (box_at % 128 != 0)
      fault(ViolationCode::misaligned, lane, fmt::format("a box at address {:#x}", box_at), "a multiple of 128");
    const SwizzleInfo& swizzle = info(static_cast<Swizzle>(map.swizzle));
    const uint32_t element = map.element_bytes, row_bytes = map.box[0] * element;
    const uint32_t row_pitch = swizzle.bits == 0 ? row_bytes : static_cast<uint32_t>(swizzle.width_bytes);
    uint64_t rows = 1;
    for (size_t i = 1; i < rank; ++i) rows *= moved_of(map, i);
    require_fits(*warp.cta, lane, rows * row_pitch);
    Indices first{};
    for (size_t i = 0; i < rank; ++i)
      first[i] = static_cast<int32_t>(warp.lanes_of<const uint32_t>(one.coordinates[i])[lane]);
    require_coordinates(one, map, first, lane);
    const Type type = map.has_type != 0 ? map_types[map.type] : element == 8 ? Type::b64 : Type::b32;
    if (one.reduction) {
      const bool of_bits =
          *one.reduction == Atomic::and_ || *one.reduction == Atomic::or_ || *one.reduction == Atomic::xor_;
      if (map.has_type == 0 && !of_bits)
        fault(ViolationCode::undefined_by_ptx, lane, "a reduction by a tensor map without the type of its elements",
              "a map with element_type");
      if (!can_reduce(*one.reduction, type))
        fault(ViolationCode::undefined_by_ptx, lane, fmt::format("this reduction of .{}", info(type).name),
              "sums of floating-point numbers; min and max of f16 and bf16");
    }
    Pieces pieces;
    std::optional<uint64_t> row;
    for (uint32_t moved = 0; moved < row_bytes * static_cast<uint32_t>(rows); moved += piece) {
      const uint32_t in_row = moved % row_bytes, at = moved / row_bytes * row_pitch + in_row;
      if (in_row == 0) row = row_of_tensor(map, first, moved / row_bytes);
      const auto place = static_cast<uint64_t>(apply(swizzle, static_cast<int64_t>(box_at + at)));
      const uint8_t* const source =
          one.to_shared ? nullptr : locate(warp, op, lane, one.from, place, piece, AccessKind::read);
      if (source) check_source(warp, lane, source);
      std::array<uint8_t, piece> data{};
      if (map.fills_with_nan != 0) {  // of f16, bf16, f32 and f64 on an H100
        for (size_t i = 0; i < data.size(); i += 2) data[i] = 0xF7, data[i + 1] = 0x7F;
      }
      for (uint32_t byte = 0; byte < piece; byte += element) {
        const int64_t index = first[0] + int64_t{(in_row + byte) / element};
        if (!row || !is_in_tensor(map, 0, index)) continue;
        uint8_t* const global = locate(warp, op, lane, Space::global, *row + static_cast<uint64_t>(index) * element,
                                       static_cast<int>(element),
                                       one.to_shared   ? AccessKind::read
                                       : one.reduction ? AccessKind::atomic
                                                       : AccessKind::write);
        if (one.to_shared) std::memcpy(data.data() + byte, global, element);
        else store_element(one, type, global, source + byte, element);
      }
      if (one.to_shared) pieces.emplace_back(place, data);
    }
    if (one.to_shared) begin_copy(warp, op, lane, pieces);
  });
}

void nothing(Warp&, const Op&, Mask) {}

void run_copy_arrives(Warp& warp, const Op& op, Mask mask) {
  if (!warp.open_group.empty()) {
    warp.groups.push_back(std::move(warp.open_group));
    warp.open_group.clear();
  }
  complete_copies(warp, 0);
  if (op.flag) run_mbarrier(warp, op, mask);
}

constexpr auto rows = std::to_array<Opcode>({{"mbarrier", decode_mbarrier}});

}  // namespace

void decode_bulk_copy(Decoder& decoder, const Instruction& instruction, Words& words) {
  // Writes to global memory are done at once, and what is fetched ahead changes no value.
  if (words.take("commit_group") || words.take("wait_group") || words.take("prefetch")) {
    for (const std::string& word : instruction.words) words.take(word);
    decoder.emit(nothing);
    return;
  }
  BulkDetails one;
  const auto& operands = instruction.operands;
  const bool has_policy = words.take("L2::cache_hint"), is_tensor = words.take("tensor");
  size_t rank = 0;
  for (size_t i = 1; is_tensor && i <= 5; ++i) {
    if (words.take(fmt::format("{}d", i))) rank = i;
  }
  words.take("tile");
  if (words.take("reduce")) {
    one.reduction = take_atomic(words);
    if (!one.reduction) decoder.refuse("without an operation");
    words.take("noftz");
    if (!is_tensor) {
      const auto type = words.take_type();
      if (!type || (bytes_of(*type) != 2 && bytes_of(*type) != 4 && bytes_of(*type) != 8))
        decoder.refuse("of this type");
      if (!can_reduce(*one.reduction, *type)) decoder.refuse("of this type");
      one.type = *type;
    }
    decoder.program().has_atomics = true;
    if (*one.reduction == Atomic::add && (is_tensor || is_floating(one.type))) decoder.program().order_matters = true;
  }
  // Which space is written stands first.
  const auto place = [&](std::string_view word) { return std::ranges::find(instruction.words, word); };
  one.to_shared = place("global") > std::min(place("shared::cluster"), place("shared::cta"));
  const bool has_global = words.take("global"), to_cluster = one.to_shared && words.take("shared::cluster");
  if (!(has_global ? to_cluster || words.take("shared::cta") : to_cluster && words.take("shared::cta") && !is_tensor))
    decoder.refuse("between other spaces");
  if (!has_global) one.from = Space::shared;
  if (one.reduction && one.to_shared) decoder.refuse("to shared memory");
  if (!one.to_shared) std::swap(one.to, one.from);
  const bool to_many = has_global && to_cluster && words.take("multicast::cluster");
  if (!words.take(one.to_shared ? "mbarrier::complete_tx::bytes" : "bulk_group"))
    decoder.refuse("with another completion");
  const size_t count = (one.to_shared ? 3 : 2) + (is_tensor ? 0 : 1) + (to_many ? 1 : 0) + (has_policy ? 1 : 0);
  decoder.require_operands(instruction, count, count);
  // The map with its coordinates: [%rd1, {%r1, %r2}].
  const auto of_map = [&](const Operand& operand) {
    if (operand.kind != Kind::address || operand.elements.size() != 2 || operand.elements[1].kind != Kind::vector ||
        operand.elements[1].elements.size() != rank || rank == 0)
      decoder.refuse("without a map and its coordinates");
    for (const Operand& coordinate : operand.elements[1].elements)
      one.coordinates.push_back(decoder.read(coordinate, Type::s32));
    Operand base = operand;
    base.elements.pop_back();
    return base;
  };
  if (is_tensor) (one.to_shared ? one.from : one.to) = Space::generic;
  const Operand to = is_tensor && !one.to_shared ? of_map(operands[0]) : operands[0],
                from = is_tensor && one.to_shared ? of_map(operands[1]) : operands[1];
  const uint32_t a = address_of(decoder, to, one.to, one.wide_to, one.to_offset),
                 b = address_of(decoder, from, one.from, one.wide_from, one.from_offset);
  const uint32_t c = is_tensor ? 0 : decoder.read(operands[2], Type::u32);
  const uint32_t e = one.to_shared ? address_of(decoder, operands[is_tensor ? 2 : 3], one.barrier, one.wide_barrier,
                                                one.barrier_offset)
                                   : 0;
  if (to_many) one.blocks = decoder.read(operands[is_tensor ? 3 : 4], Type::b16);
  const auto* details = decoder.keep(std::move(one));
  Op& op = decoder.emit(is_tensor ? run_tensor_copy : run_bulk_copy);
  op.details = details;
  op.a = a, op.b = b, op.c = c, op.e = e;
}

void decode_async_store(Decoder& decoder, const Instruction& instruction, Words& words) {
  AsyncStoreDetails one;
  words.take("weak");
  const size_t count = words.take("v2") ? 2 : words.take("v4") ? 4 : 1;
  const auto type = words.take_type();
  if (!words.take("shared::cluster") || !words.take("mbarrier::complete_tx::bytes") || !type ||
      (bytes_of(*type) != 4 && bytes_of(*type) != 8) || bytes_of(*type) * count > 16)
    decoder.refuse("of another space, type or completion");
  one.wide_parts = bytes_of(*type) == 8;
  decoder.require_operands(instruction, 3, 3);
  const Operand& value = instruction.operands[1];
  const std::vector<Operand> single{value};
  for (const Operand& part : value.kind == Kind::vector ? value.elements : single)
    one.parts.push_back(decoder.read(part, *type));
  if (one.parts.size() != count) decoder.refuse("with a vector of another size");
  Space to = Space::shared, barrier = Space::shared;
  const uint32_t a = address_of(decoder, instruction.operands[0], to, one.wide_to, one.to_offset),
                 b = address_of(decoder, instruction.operands[2], barrier, one.wide_barrier, one.barrier_offset);
  const auto* details = decoder.keep(std::move(one));
  Op& op = decoder.emit(run_async_store);
  op.details = details;
  op.a = a, op.b = b;
}

void complete_bytes(Warp& warp, const Op& op, int lane, uint64_t barrier, int bytes) {
  change(object_of(warp, op, lane, Space::shared, barrier, AccessKind::atomic), lane, 0, -bytes);
}

void decode_copy_arrives(Decoder& decoder, const Instruction& instruction, Words& words) {
  if (!words.take("arrive")) decoder.refuse("not run here");
  // Without .noinc the arrival is one more that is expected.
  const bool counts = words.take("noinc");
  MbarrierDetails one{.what = What::arrive};
  one.space = space_of(words);
  if (!words.take("b64")) decoder.refuse("of another type");
  decoder.require_operands(instruction, 1, 1);
  int64_t offset = 0;
  const uint32_t base = address_of(decoder, instruction.operands[0], one.space, one.wide_base, offset);
  const auto* details = decoder.keep(one);
  Op& op = decoder.emit(run_copy_arrives);
  op.details = details;
  op.a = base, op.d = Op::no_slot;
  op.immediate = offset;
  op.flag = counts;
}

std::span<const Opcode> mbarrier_opcodes() { return rows; }

}  // namespace bitmma::kernel
