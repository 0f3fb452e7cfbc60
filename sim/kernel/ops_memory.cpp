// SPDX-License-Identifier: MIT
// Loads, stores, addresses, atomics, cp.async copies and fences.
#include <fmt/format.h>

#include <atomic>

#include "bitmma/core/bits.hpp"
#include "bitmma/formats/ieee.hpp"
#include "decode.hpp"
#include "lanes.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

struct Part {
  uint32_t slot = 0;
  int bits = 32;  // register width
  bool is_sink = false;
};

struct MemoryDetails {
  Address address = {};
  Type type = Type::b32;
  int bytes = 4;  // size of an element
  std::vector<Part> parts = {};
};

void load(Warp& warp, const Op& op, Mask mask) {
  const auto& one = *static_cast<const MemoryDetails*>(op.details);
  const int total = one.bytes * static_cast<int>(one.parts.size());
  for_each_lane(mask, [&](int lane) {
    const uint8_t* from = locate(warp, op, lane, one.address, total, AccessKind::read);
    for (const Part& part : one.parts) {
      if (one.bytes == 16) {
        std::memcpy(warp.lanes_of<uint64_t>(part.slot) + 2 * lane, from, 16);
        from += 16;
        continue;
      }
      uint64_t value = 0;
      std::memcpy(&value, from, static_cast<size_t>(one.bytes));
      from += one.bytes;
      if (is_signed(one.type) && (value >> (8 * one.bytes - 1) & 1) != 0) value |= ~low_mask(8 * one.bytes);
      if (part.bits > 32) warp.lanes_of<uint64_t>(part.slot)[lane] = value;
      else warp.lanes_of<uint32_t>(part.slot)[lane] = static_cast<uint32_t>(value & low_mask(part.bits));
    }
  });
}

void store(Warp& warp, const Op& op, Mask mask) {
  const auto& one = *static_cast<const MemoryDetails*>(op.details);
  const int total = one.bytes * static_cast<int>(one.parts.size());
  for_each_lane(mask, [&](int lane) {
    std::array<uint8_t, 64> data;
    uint8_t* to = data.data();
    for (const Part& part : one.parts) {
      if (one.bytes == 16) {
        std::memcpy(to, warp.lanes_of<const uint64_t>(part.slot) + 2 * lane, 16);
      } else if (part.bits > 32) {
        std::memcpy(to, warp.lanes_of<const uint64_t>(part.slot) + lane, static_cast<size_t>(one.bytes));
      } else {
        std::memcpy(to, warp.lanes_of<const uint32_t>(part.slot) + lane, static_cast<size_t>(one.bytes));
      }
      to += one.bytes;
    }
    std::memcpy(locate(warp, op, lane, one.address, total, AccessKind::write, data.data()), data.data(),
                static_cast<size_t>(total));
  });
}

Space space_of(Words& words) {
  // The address encodes the block of the cluster.
  for (const std::string_view name : {"shared::cta", "shared::cluster", "shared"}) {
    if (words.take(name)) return Space::shared;
  }
  if (words.take("param::entry") || words.take("param")) return Space::param;
  if (words.take("const")) return Space::constant;
  if (words.take("global")) return Space::global;
  if (words.take("local")) return Space::local;
  return Space::generic;
}

/// Hints and orders that change no value here: the warps of a block run one after another, and blocks share memory.
void take_hints(Words& words) {
  for (const std::string_view hint : {"weak",
                                      "volatile",
                                      "relaxed",
                                      "acquire",
                                      "release",
                                      "acq_rel",
                                      "mmio",
                                      "cta",
                                      "cluster",
                                      "gpu",
                                      "sys",
                                      "ca",
                                      "cg",
                                      "cs",
                                      "lu",
                                      "cv",
                                      "wb",
                                      "wt",
                                      "nc",
                                      "L1::evict_normal",
                                      "L1::evict_unchanged",
                                      "L1::evict_first",
                                      "L1::evict_last",
                                      "L1::no_allocate",
                                      "L2::evict_normal",
                                      "L2::evict_first",
                                      "L2::evict_last",
                                      "L2::cache_hint",
                                      "L2::64B",
                                      "L2::128B",
                                      "L2::256B"})
    words.take(hint);
}

void decode_access(Decoder& decoder, const Instruction& instruction, Words& words) {
  const bool is_store = words.name() == "st";
  if (is_store && words.take("async")) return decode_async_store(decoder, instruction, words);
  const bool has_hint = [&] {
    bool found = false;
    for (const std::string& word : instruction.words) found = found || word == "L2::cache_hint";
    return found;
  }();
  take_hints(words);
  MemoryDetails one;
  const Space space = space_of(words);
  size_t count = 1;
  if (words.take("v2")) count = 2;
  else if (words.take("v4")) count = 4;
  else if (words.take("v8")) count = 8;
  const auto type = words.take_type();
  if (!type || *type == Type::pred) decoder.refuse("without a type");
  one.type = *type;
  one.bytes = bytes_of(*type);
  const size_t operands = has_hint ? 3 : 2;
  decoder.require_operands(instruction, operands, operands);
  const Operand& address = instruction.operands[is_store ? 0 : 1];
  const Operand& data = instruction.operands[is_store ? 1 : 0];
  one.address = address_of(decoder, address, space);
  const std::vector<Operand> single{data};
  const std::vector<Operand>& registers = data.kind == Kind::vector ? data.elements : single;
  if (registers.size() != count) decoder.refuse("with a vector of another size");
  for (const Operand& reg : registers) {
    Part part;
    part.slot = is_store ? decoder.read_wide(reg, *type, part.bits) : decoder.write_wide(reg, *type, part.bits);
    if (!is_store && reg.kind == Kind::reg && part.bits <= 32) part.bits = info(decoder.type_of(reg)).bits;
    if ((part.bits > 64) != (one.bytes == 16)) decoder.refuse("with a register of another width");
    if (part.bits < 8 * one.bytes) decoder.refuse("with a register that is too narrow");
    one.parts.push_back(part);
  }
  if (is_store && (one.address.space == Space::param || one.address.space == Space::constant))
    decoder.refuse("a store there");
  const auto* details = decoder.keep(std::move(one));
  Op& op = decoder.emit(is_store ? store : load);
  op.details = details;
}

void decode_nothing(Decoder& decoder, const Instruction& instruction, Words& words) {
  for (size_t i = 1; i < instruction.words.size(); ++i) words.take(instruction.words[i]);
  decoder.emit(nothing);
}

void fence_proxy(Warp& warp, const Op&, Mask) { fence_async(warp); }

void decode_fence(Decoder& decoder, const Instruction& instruction, Words& words) {
  const bool is_async = words.take("proxy") && (words.take("async") || words.take("async::generic"));
  for (size_t i = 1; i < instruction.words.size(); ++i) words.take(instruction.words[i]);
  decoder.emit(is_async ? fence_proxy : nothing);
}

constexpr uint64_t add_64(uint64_t a, uint64_t b) { return a + b; }

void decode_cvta(Decoder& decoder, const Instruction& instruction, Words& words) {
  const bool to_space = words.take("to");
  const Space space = space_of(words);
  const auto type = words.take_type();
  if (type != Type::u64) decoder.refuse("of another type than .u64");
  decoder.require_operands(instruction, 2, 2);
  uint64_t window = 0;
  switch (space) {
    case Space::shared: window = shared_window; break;
    case Space::local: window = local_window; break;
    case Space::constant: window = constant_window; break;
    case Space::param: window = param_window; break;
    default: break;
  }
  const uint32_t a = decoder.read(instruction.operands[1], Type::u64),
                 d = decoder.write(instruction.operands[0], Type::u64);
  const uint32_t b = decoder.constant(to_space ? 0 - window : window, 8);
  Op& op = decoder.emit(map<add_64>);
  op.a = a, op.b = b, op.d = d;
}

void isspacep(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const uint64_t>(op.a);
  Mask found = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    const uint64_t window = a[lane] & ~(window_bytes - 1);
    const bool is_global =
        window != shared_window && window != local_window && window != constant_window && window != param_window;
    const bool is_in_reach = !op.flag || (a[lane] >> shared_rank_bits & 0xFF) == static_cast<uint64_t>(warp.cta->rank);
    found |= Mask{op.immediate == 0 ? is_global : window == static_cast<uint64_t>(op.immediate) && is_in_reach} << lane;
  }
  set_mask(warp, op.d, mask, found);
}

void decode_isspacep(Decoder& decoder, const Instruction& instruction, Words& words) {
  const bool in_cluster = words.take("shared::cluster");
  const Space space = in_cluster ? Space::shared : space_of(words);
  decoder.require_operands(instruction, 2, 2);
  const uint32_t a = decoder.read(instruction.operands[1], Type::u64), d = decoder.write_mask(instruction.operands[0]);
  Op& op = decoder.emit(isspacep);
  op.a = a, op.d = d;
  op.flag = space == Space::shared && !in_cluster;
  op.immediate = static_cast<int64_t>(space == Space::shared     ? shared_window
                                      : space == Space::local    ? local_window
                                      : space == Space::constant ? constant_window
                                      : space == Space::param    ? param_window
                                                                 : 0);
}

// --- shared memory of the cluster's other blocks

template <typename W>
void mapa(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const W>(op.a);
  const auto* rank = warp.lanes_of<const uint32_t>(op.b);
  const size_t blocks = warp.cta->cluster->ctas.size();
  for_each_lane(mask, [&](int lane) {
    if (rank[lane] >= blocks)
      fault(ViolationCode::undefined_by_ptx, lane, fmt::format("block {} of a cluster of {}", rank[lane], blocks),
            fmt::format("0 to {}", blocks - 1));
    warp.lanes_of<W>(op.d)[lane] = static_cast<W>(address_in(static_cast<int>(rank[lane]), a[lane]));
  });
}

void decode_mapa(Decoder& decoder, const Instruction& instruction, Words& words) {
  words.take("shared::cluster");
  const auto type = words.take_type();
  if (type != Type::u32 && type != Type::u64) decoder.refuse("of another type than .u32 and .u64");
  decoder.require_operands(instruction, 3, 3);
  const uint32_t a = decoder.read(instruction.operands[1], *type), b = decoder.read(instruction.operands[2], Type::u32),
                 d = decoder.write(instruction.operands[0], *type);
  Op& op = decoder.emit(type == Type::u64 ? mapa<uint64_t> : mapa<uint32_t>);
  op.a = a, op.b = b, op.d = d;
}

template <typename W>
void getctarank(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const W>(op.a);
  for_each_lane(mask, [&](int lane) {
    warp.lanes_of<uint32_t>(op.d)[lane] = static_cast<uint32_t>(a[lane] >> shared_rank_bits & 0xFF);
  });
}

void decode_getctarank(Decoder& decoder, const Instruction& instruction, Words& words) {
  words.take("shared::cluster");
  const auto type = words.take_type();
  if (type != Type::u32 && type != Type::u64) decoder.refuse("of another type than .u32 and .u64");
  decoder.require_operands(instruction, 2, 2);
  const uint32_t a = decoder.read(instruction.operands[1], *type),
                 d = decoder.write(instruction.operands[0], Type::u32);
  Op& op = decoder.emit(type == Type::u64 ? getctarank<uint64_t> : getctarank<uint32_t>);
  op.a = a, op.d = d;
}

// --- atomics: lane by lane, in ascending order

struct AtomicInfo {
  Atomic id;
  std::string_view name;
};
constexpr auto atomics = std::to_array<AtomicInfo>({
    {Atomic::add, "add"},
    {Atomic::min, "min"},
    {Atomic::max, "max"},
    {Atomic::inc, "inc"},
    {Atomic::dec, "dec"},
    {Atomic::and_, "and"},
    {Atomic::or_, "or"},
    {Atomic::xor_, "xor"},
    {Atomic::exch, "exch"},
    {Atomic::cas, "cas"},
});
static_assert(are_in_enum_order(atomics));

struct AtomicDetails {
  Address address = {};
  Type type = Type::u32;
  Atomic what = Atomic::add;
  bool returns = true;
  std::vector<uint32_t> b = {}, d = {};  // one for each element
  std::optional<Address> barrier = {};   // of red.async
};

void run_atomic(Warp& warp, const Op& op, Mask mask) {
  const auto& one = *static_cast<const AtomicDetails*>(op.details);
  const int bytes = bytes_of(one.type), total = bytes * static_cast<int>(one.b.size());
  const auto word = [&](uint32_t slot, int lane) -> uint64_t {
    return bytes == 8 ? warp.lanes_of<const uint64_t>(slot)[lane] : warp.lanes_of<const uint32_t>(slot)[lane];
  };
  for_each_lane(mask, [&](int lane) {
    const uint64_t address = one.address.of(warp, lane);
    const bool is_shared = one.address.space == Space::shared ||
                           (one.address.space == Space::generic && (address & ~(window_bytes - 1)) == shared_window);
    uint8_t* at = locate(warp, op, lane, one.address.space, address, total, AccessKind::atomic);
    for (size_t i = 0; i < one.b.size(); ++i, at += bytes) {
      uint64_t old = 0;
      std::memcpy(&old, at, static_cast<size_t>(bytes));
      const uint64_t next =
          combined(one.what, one.type, old, word(one.b[i], lane) & low_mask(8 * bytes),
                   op.c == Op::no_slot ? 0 : word(op.c, lane), is_shared ? AtomicPlace::shared : AtomicPlace::global);
      std::memcpy(at, &next, static_cast<size_t>(bytes));
      if (!one.returns) continue;
      if (bytes == 8) warp.lanes_of<uint64_t>(one.d[i])[lane] = old;
      else warp.lanes_of<uint32_t>(one.d[i])[lane] = static_cast<uint32_t>(old);
    }
    if (!one.barrier) return;
    // The bytes become visible to the threads that wait for the barrier.
    if (Cta* const cta = owner_of(*warp.cta->cluster, at - total); cta->launch->checks)
      std::fill_n(cta->uses.begin() + (at - total - cta->shared.data()), total, ByteUse{});
    complete_bytes(warp, op, lane, *one.barrier, total);
  });
}

void decode_atomic(Decoder& decoder, const Instruction& instruction, Words& words) {
  AtomicDetails one;
  one.returns = words.name() == "atom";
  const bool is_async = words.take("async");
  if (is_async && !words.take("mbarrier::complete_tx::bytes")) decoder.refuse("with another completion");
  if (words.take("L2::cache_hint")) decoder.refuse("with a cache policy");
  // .cta and .cluster scopes are more than hints, but with atomics blocks run one after another.
  for (const std::string_view word : {"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys"})
    words.take(word);
  const Space space = space_of(words);
  if (space == Space::param || space == Space::constant || space == Space::local) decoder.refuse("there");
  size_t count = 1;
  if (words.take("v2")) count = 2;
  else if (words.take("v4")) count = 4;
  else if (words.take("v8")) count = 8;
  const auto type = words.take_type();
  if (!type) decoder.refuse("without a type");
  one.type = *type;
  const auto what = take_atomic(words);
  if (!what) decoder.refuse("without an operation");
  one.what = *what;
  const bool floating = is_floating(*type);
  if (floating && one.what != Atomic::add && one.what != Atomic::exch && one.what != Atomic::cas)
    decoder.refuse("of this type");
  words.take("noftz");
  if (one.what == Atomic::cas && bytes_of(*type) == 16) decoder.refuse("of 128 bits");
  const size_t operands = 1 + (one.returns ? 1 : 0) + (one.what == Atomic::cas ? 2 : 1) + (is_async ? 1 : 0);
  decoder.require_operands(instruction, operands, operands);
  const size_t first = one.returns ? 1 : 0;
  one.address = address_of(decoder, instruction.operands[first], space);
  const auto slots = [&](const Operand& operand, bool writes) {
    std::vector<uint32_t> found_slots;
    const std::vector<Operand> single{operand};
    for (const Operand& reg : operand.kind == Kind::vector ? operand.elements : single)
      found_slots.push_back(writes ? decoder.write(reg, *type) : decoder.read(reg, *type));
    if (found_slots.size() != count) decoder.refuse("with a vector of another size");
    return found_slots;
  };
  one.b = slots(instruction.operands[first + 1], false);
  const uint32_t c = one.what == Atomic::cas ? decoder.read(instruction.operands[first + 2], *type) : Op::no_slot;
  if (one.returns) one.d = slots(instruction.operands[0], true);
  if (is_async) {
    if (space != Space::shared || floating) decoder.refuse("of this space or type");
    one.barrier = address_of(decoder, instruction.operands.back(), Space::shared);
  }
  if (space != Space::shared) {
    decoder.program().has_atomics = true;
    if (floating && one.what == Atomic::add) decoder.program().order_matters = true;
  }
  const auto* details = decoder.keep(std::move(one));
  Op& op = decoder.emit(run_atomic);
  op.details = details;
  op.c = c;
}

// --- cp.async

struct CopyDetails {
  int bytes = 16;
  Address to = {}, from = {};
  bool has_size = false, has_predicate = false;
};

void run_copy(Warp& warp, const Op& op, Mask mask) {
  const auto& one = *static_cast<const CopyDetails*>(op.details);
  Cta& cta = *warp.cta;
  for_each_lane(mask, [&](int lane) {
    const uint64_t to = one.to.of(warp, lane), from = one.from.of(warp, lane);
    int size = one.bytes;
    if (one.has_size) {
      const uint32_t asked = warp.lanes_of<const uint32_t>(op.c)[lane];
      if (asked > static_cast<uint32_t>(one.bytes))
        fault(ViolationCode::undefined_by_ptx, lane, fmt::format("src-size {}", asked),
              fmt::format("at most {}", one.bytes));
      size = static_cast<int>(asked);
    }
    if (one.has_predicate && (warp.mask_of(op.c) >> lane & 1) != 0) size = 0;
    AsyncCopy copy{.lane = lane, .bytes = one.bytes};
    if (from % static_cast<uint64_t>(one.bytes) != 0) {
      fault(ViolationCode::misaligned, lane, fmt::format("{} bytes at address {:#x}", one.bytes, from),
            fmt::format("a multiple of {}", one.bytes));
    }
    // Bytes beyond the source size are not read.
    if (size == one.bytes) {
      std::memcpy(copy.data.data(), locate(warp, op, lane, Space::global, from, size, AccessKind::read),
                  static_cast<size_t>(size));
    } else {
      for (int i = 0; i < size; ++i)
        copy.data[static_cast<size_t>(i)] =
            *locate(warp, op, lane, Space::global, from + static_cast<uint64_t>(i), 1, AccessKind::read);
    }
    uint8_t* const place = locate(warp, op, lane, Space::shared, to & 0xFFFFFFFF, one.bytes, AccessKind::write);
    if (owner_of(*cta.cluster, place) != &cta) {
      fault(ViolationCode::out_of_bounds, lane, "a cp.async to shared memory of another block",
            "the block's own shared memory, .shared::cta");
    }
    copy.to = static_cast<uint32_t>(place - cta.shared.data());
    if (cta.launch->checks) {
      std::memset(cta.shared_states.data() + copy.to, in_flight, static_cast<size_t>(one.bytes));
      // Triton omits the fence between cp.async and wgmma, and the GPU's bits are right.
      for (int i = 0; i < one.bytes; ++i) cta.uses[copy.to + static_cast<uint32_t>(i)].is_generic = false;
    }
    warp.open_group.push_back(copy);
  });
}
void commit_copies(Warp& warp, const Op&, Mask) {
  warp.groups.push_back(std::move(warp.open_group));
  warp.open_group.clear();
}
void wait_for_copies(Warp& warp, const Op& op, Mask) {
  if (op.flag) commit_copies(warp, op, all_lanes);
  complete_copies(warp, static_cast<size_t>(op.immediate));
}

void decode_cp(Decoder& decoder, const Instruction& instruction, Words& words) {
  if (!words.take("async")) decoder.refuse("not supported");
  if (words.take("bulk")) return decode_bulk_copy(decoder, instruction, words);
  if (words.take("mbarrier")) return decode_copy_arrives(decoder, instruction, words);
  if (words.take("commit_group")) {
    decoder.emit(commit_copies);
    return;
  }
  const bool all = words.take("wait_all");
  if (all || words.take("wait_group")) {
    int64_t left = 0;
    if (!all) {
      decoder.require_operands(instruction, 1, 1);
      if (instruction.operands[0].kind != Kind::integer) decoder.refuse("with a number that is not constant");
      left = static_cast<int64_t>(instruction.operands[0].value);
    }
    Op& op = decoder.emit(wait_for_copies);
    op.immediate = left;
    op.flag = all;
    return;
  }
  if (words.take_one({"ca", "cg"}).empty()) decoder.refuse("not supported");
  if (!words.take("shared") && !words.take("shared::cta")) decoder.refuse("with another destination");
  words.take("global");
  for (const std::string_view hint : {"L2::64B", "L2::128B", "L2::256B"}) words.take(hint);
  const bool has_policy = words.take("L2::cache_hint");
  const size_t count = instruction.operands.size() - (has_policy ? 1 : 0);
  decoder.require_operands(instruction, 3, 5);
  if (instruction.operands[2].kind != Kind::integer) decoder.refuse("with a size that is not constant");
  CopyDetails one{.bytes = static_cast<int>(instruction.operands[2].value)};
  if (one.bytes != 4 && one.bytes != 8 && one.bytes != 16) decoder.refuse("of another size than 4, 8 and 16");
  one.to = address_of(decoder, instruction.operands[0], Space::shared);
  one.from = address_of(decoder, instruction.operands[1], Space::global);
  if (!one.from.wide) decoder.refuse("with a global address of 32 bits");
  uint32_t c = 0;
  if (count == 4) {
    const Operand& last = instruction.operands[3];
    const bool is_mask = last.kind == Kind::reg && decoder.type_of(last) == Type::pred;
    one.has_predicate = is_mask, one.has_size = !is_mask;
    c = is_mask ? decoder.read_mask(last) : decoder.read(last, Type::u32);
  }
  const auto* details = decoder.keep(one);
  Op& op = decoder.emit(run_copy);
  op.details = details;
  op.c = c;
}

void decode_policy(Decoder& decoder, const Instruction& instruction, Words& words) {
  for (size_t i = 1; i < instruction.words.size(); ++i) words.take(instruction.words[i]);
  decoder.require_operands(instruction, 1, 3);
  const uint32_t d = decoder.write(instruction.operands[0], Type::b64), zero = decoder.constant(0, 8);
  Op& op = decoder.emit(map<add_64>);
  op.d = d, op.a = zero, op.b = zero;
}

constexpr auto memory_rows = std::to_array<Opcode>({
    {"ld", decode_access},
    {"ldu", decode_access},
    {"st", decode_access},
    {"cvta", decode_cvta},
    {"isspacep", decode_isspacep},
    {"atom", decode_atomic},
    {"red", decode_atomic},
    {"cp", decode_cp},
    {"membar", decode_nothing},
    {"fence", decode_fence},
    {"prefetch", decode_nothing},
    {"prefetchu", decode_nothing},
    {"discard", decode_nothing},
    {"applypriority", decode_nothing},
    {"nanosleep", decode_nothing},
    {"griddepcontrol", decode_nothing},
    {"setmaxnreg", decode_nothing},
    {"pmevent", decode_nothing},
    {"createpolicy", decode_policy},
    {"mapa", decode_mapa},
    {"getctarank", decode_getctarank},
});

}  // namespace

Address address_of(Decoder& decoder, const Operand& operand, Space space) {
  if (operand.kind != Kind::address || operand.elements.size() != 1) decoder.refuse("without an address in brackets");
  const Operand& base = operand.elements[0];
  Address address{.space = space, .offset = operand.offset};
  if (base.kind == Kind::reg) {
    address.wide = info(decoder.type_of(base)).bits > 32;
    address.slot = decoder.read(base, address.wide ? Type::b64 : Type::b32);
    return address;
  }
  if (base.kind == Kind::integer) {
    address.slot = decoder.constant(base.value, 8);
    return address;
  }
  if (base.kind == Kind::symbol) {
    const Space own = decoder.module().variables[static_cast<size_t>(base.variable)].space;
    if (space == Space::param && own == Space::local) address.space = own;  // a parameter of a call
    if (address.space != own && !(space == Space::generic && own == Space::global)) {
      decoder.refuse(fmt::format("of .{} with a variable of .{}", print(space), print(own)));
    }
    address.slot = decoder.variable_address(base.variable, 0, 8);
    return address;
  }
  decoder.refuse("with an address of this kind");
}

std::optional<Atomic> take_atomic(Words& words) {
  for (const AtomicInfo& row : atomics) {
    if (words.take(row.name)) return row.id;
  }
  return std::nullopt;
}

uint64_t combined(Atomic what, Type type, uint64_t old, uint64_t b, uint64_t c, AtomicPlace place) {
  const bool flushes = place == AtomicPlace::global;
  if (is_floating(type) && (what == Atomic::min || what == Atomic::max))
    return least_or_greatest(type, what == Atomic::max, old, b);
  const int bits = info(type).bits;
  const auto as_signed = [bits](uint64_t x) { return static_cast<int64_t>(x << (64 - bits)) >> (64 - bits); };
  switch (what) {
    case Atomic::add:
      switch (type) {
        case Type::f64:
          if (place != AtomicPlace::shared) {
            for (const uint64_t one : {b, old}) {
              if ((one & ~(uint64_t{1} << 63)) > 0x7FF0000000000000) return one;
            }
          }
          return add_f64(b, old);
        case Type::f32: {
          const auto flushed = [flushes](uint64_t x) { return flushes && (x & 0x7F800000) == 0 ? x & 0x80000000 : x; };
          return ieee_add(Format::f32, flushed(old), flushed(b), Rounding::nearest_even,
                          flushes ? Underflow::flush : Underflow::gradual);
        }
        case Type::f16: return ieee_add(Format::f16, old, b);
        case Type::bf16: return ieee_add(Format::bf16, old, b);
        case Type::f16x2:
        case Type::bf16x2: {
          const Format format = type == Type::f16x2 ? Format::f16 : Format::bf16;
          return ieee_add(format, old & 0xFFFF, b & 0xFFFF) | ieee_add(format, old >> 16 & 0xFFFF, b >> 16 & 0xFFFF)
                                                                  << 16;
        }
        default: return old + b;
      }
    case Atomic::min: return is_signed(type) ? (as_signed(b) < as_signed(old) ? b : old) : std::min(old, b);
    case Atomic::max: return is_signed(type) ? (as_signed(b) > as_signed(old) ? b : old) : std::max(old, b);
    case Atomic::inc: return old >= b ? 0 : old + 1;
    case Atomic::dec: return old == 0 || old > b ? b : old - 1;
    case Atomic::and_: return old & b;
    case Atomic::or_: return old | b;
    case Atomic::xor_: return old ^ b;
    case Atomic::exch: return b;
    default: return old == b ? c : old;
  }
}

std::span<const Opcode> memory_opcodes() { return memory_rows; }

}  // namespace bitmma::kernel
