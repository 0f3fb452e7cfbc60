// SPDX-License-Identifier: MIT
// Loads, stores, addresses, atomics, cp.async copies and fences.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "bitmma/core/bits.hpp"
#include "bitmma/formats/ieee.hpp"
#include "decode.hpp"
#include "lane_access.hpp"
#include "lanes.hpp"
#include "matrix.hpp"
#include "unwritten.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

/// st.bulk: zeros in a range of shared memory.
struct BulkZeros {
  Address address = {};
};
void store_zeros(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const BulkZeros*>(op.details);
  constexpr uint64_t most = 16 << 20;  // PTX ISA, st.bulk
  for_each_lane(mask, [&](int lane) {
    const uint64_t size = warp.lanes_of<const uint64_t>(op.a)[lane], address = details.address.of(warp, lane);
    if (size % 8 != 0 || size > most)
      fault(ViolationCode::undefined_by_ptx, lane, fmt::format("{} bytes", size),
            fmt::format("a multiple of 8, at most {}", most));
    if (details.address.space == Space::generic && (address & ~(window_bytes - 1)) != shared_window)
      fault(ViolationCode::out_of_bounds, lane, fmt::format("address {:#x}", address), "shared memory");
    constexpr std::array<uint8_t, 8> zeros{};
    for (uint64_t at = 0; at < size; at += zeros.size())
      std::memcpy(locate(warp, op, lane, details.address.space, address + at, 8, AccessKind::write, zeros.data()),
                  zeros.data(), zeros.size());
  });
}

void decode_bulk_zeros(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (decoder.target() < Target::sm_100) decoder.refuse("before sm_100");
  words.take(Word::weak);
  const Space space = words.take(Word::shared_cta) || words.take(Word::shared) ? Space::shared : Space::generic;
  decoder.require_operands(instruction, 3, 3);
  const Operand& value = instruction.operands[2];
  if (value.kind != Kind::integer || value.value != 0) decoder.refuse("of another value than 0");
  const auto* details = decoder.keep(BulkZeros{address_of(decoder, instruction.operands[0], space)});
  const uint32_t size = decoder.read(instruction.operands[1], Type::u64);
  Op& op = decoder.emit(store_zeros);
  op.details = details, op.a = size;
}

Space space_of(Words& words) {
  // The address encodes the block of the cluster.
  for (const Word name : {Word::shared_cta, Word::shared_cluster, Word::shared}) {
    if (words.take(name)) return Space::shared;
  }
  if (words.take(Word::param_entry) || words.take(Word::param)) return Space::param;
  if (words.take(Word::const_)) return Space::constant;
  if (words.take(Word::global)) return Space::global;
  if (words.take(Word::local)) return Space::local;
  return Space::generic;
}

/// Hints that change no value.
void take_hints(Words& words, bool is_store) {
  if (is_store) words.take_one({Word::wb, Word::cg, Word::cs, Word::wt});
  else words.take_one({Word::ca, Word::cg, Word::cs, Word::lu, Word::cv});
  words.take_one({Word::L1_evict_normal, Word::L1_evict_unchanged, Word::L1_evict_first, Word::L1_evict_last,
                  Word::L1_no_allocate});
  words.take_one({Word::L2_evict_normal, Word::L2_evict_first, Word::L2_evict_last});
  words.take(Word::L2_cache_hint);
  if (!is_store) words.take_one({Word::L2_64B, Word::L2_128B, Word::L2_256B});
}

/// Orders change no value here: the warps of a block run one after another, and blocks share memory. Refuses orders
/// that PTX does not have (PTX ISA, ld and st), but takes .volatile in .local, which nvJitLink 13.5 writes and
/// ptxas 13.0 refuses. True if the access has an order.
bool take_order(const Decoder& decoder, Words& words, bool is_store, Space space) {
  const Word order =
      words.take_one({Word::weak, Word::volatile_, Word::relaxed, is_store ? Word::release : Word::acquire});
  words.take(Word::mmio);
  const bool has_scope = words.take_one({Word::cta, Word::cluster, Word::gpu, Word::sys}) != Word::none;
  const bool needs_scope = order == Word::relaxed || order == Word::acquire || order == Word::release;
  if (has_scope != needs_scope) decoder.refuse("with a scope but no order, or without its scope");
  const bool is_ordered = needs_scope || (order == Word::volatile_ && space != Space::local);
  if (is_ordered && space != Space::generic && space != Space::global && space != Space::shared)
    decoder.refuse(fmt::format("ordered in .{}", print(space)));
  return is_ordered;
}

/// PTX ISA, ld: the types of memory; the packed and narrow floating-point types are those of registers alone.
bool is_memory_type(Type type) {
  return type == Type::f32 || type == Type::f64 || (info(type).kind != TypeClass::floating && type != Type::pred);
}

/// The number of elements: .v2, .v4 or .v8.
size_t take_vector(Words& words) {
  return words.take(Word::v2) ? 2 : words.take(Word::v4) ? 4 : words.take(Word::v8) ? 8 : 1;
}

template <Access access>
void decode_access(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  constexpr bool is_store = access == Access::store, is_uniform = access == Access::uniform_load;
  if (is_store && words.take(Word::async)) return decode_async_store(decoder, instruction, words);
  if (is_store && words.take(Word::bulk)) return decode_bulk_zeros(decoder, instruction, words);
  const bool has_hint = has_word(instruction, Word::L2_cache_hint);
  MemoryDetails memory_details;
  const Space space = space_of(words);
  const bool is_ordered = take_order(decoder, words, is_store, space);
  take_hints(words, is_store);
  if (!is_store && words.take(Word::nc) && space != Space::global) decoder.refuse("with .nc but without .global");
  if (is_uniform && space != Space::global && space != Space::generic) decoder.refuse("there");
  const size_t count = take_vector(words);
  const auto type = words.take_type();
  if (!type || !is_memory_type(*type)) decoder.refuse("without a type that memory holds");
  memory_details.type = *type;
  memory_details.bytes = bytes_of(*type);
  const size_t total = static_cast<size_t>(memory_details.bytes) * count;
  // PTX ISA, ld and st: vectors have up to 128 bits; since sm_100 256, of 32-bit or 64-bit elements in global memory.
  const bool is_long = total == most_access_bytes && (memory_details.bytes == 4 || memory_details.bytes == 8) &&
                       has_tensor_memory(decoder.target()) && (space == Space::global || space == Space::generic);
  // ptxas 13.0 also takes eight elements of 8 and 16 bits, but ends with an internal error for some loads of the
  // latter.
  const bool is_fixed = space == Space::constant || space == Space::param;
  const bool is_unknown = count == 8 && !is_store && ((memory_details.bytes == 2 && !is_fixed) || is_uniform);
  if (count > 1 && (memory_details.bytes == 16 || is_unknown || (total > 16 && !is_long)))
    decoder.refuse("with a vector of this size");
  const size_t operands = has_hint ? 3 : 2;
  decoder.require_operands(instruction, operands, operands);
  const Operand& address = instruction.operands[is_store ? 0 : 1];
  const Operand& data = instruction.operands[is_store ? 1 : 0];
  memory_details.address = address_of(decoder, address, space);
  const std::span<const Operand> registers = parts_of(data);
  if (registers.size() != count) decoder.refuse("with a vector of another size");
  for (const Operand& reg : registers) {
    MemoryDetails::Part part;
    part.slot = is_store ? decoder.read_wide(reg, *type, part.bits) : decoder.write_wide(reg, *type, part.bits);
    if (!is_store && reg.kind == Kind::reg && part.bits <= 32) part.bits = info(decoder.type_of(reg)).bits;
    if ((part.bits > 64) != (memory_details.bytes == 16)) decoder.refuse("with a register of another width");
    if (part.bits < 8 * memory_details.bytes) decoder.refuse("with a register that is too narrow");
    memory_details.parts.push_back(part);
  }
  if (is_store && (memory_details.address.space == Space::param || memory_details.address.space == Space::constant))
    decoder.refuse("a store there");
  const auto* details = decoder.keep(std::move(memory_details));
  Op& op = decoder.emit(is_store ? store_run() : load_run());
  op.details = details;
  op.orders_blocks = is_ordered && space != Space::shared;
  // A loop that waits for another block reads so.
  if (!is_store && op.orders_blocks) op.control = Control::yield;
}

// --- instructions that change no value here, and fences

/// The words of which an opcode has one at a place; Word::none where it may have none.
struct Choice {
  constexpr Choice() = default;
  constexpr Choice(Word word) : Choice({word}) {}
  constexpr Choice(std::initializer_list<Word> choices) {
    for (const Word word : choices) words[count++] = word;
  }
  std::array<Word, 5> words = {};
  size_t count = 0;
};

bool matches(std::span<const Word> words, std::span<const Choice> grammar) {
  if (grammar.empty() || grammar.front().count == 0) return words.empty();
  return std::ranges::any_of(std::span(grammar.front().words).first(grammar.front().count), [&](Word choice) {
    if (choice == Word::none) return matches(words, grammar.subspan(1));
    return !words.empty() && words.front() == choice && matches(words.subspan(1), grammar.subspan(1));
  });
}

/// An operand of an instruction that changes no value: an address, a number in a range, or any operand of a type.
struct IgnoredOperand {
  enum class Kind : uint8_t { address, number, word } kind = Kind::address;
  uint64_t least = 0, most = 0, multiple = 1;
};
constexpr IgnoredOperand address_operand{};
constexpr IgnoredOperand word_operand{.kind = IgnoredOperand::Kind::word};
constexpr IgnoredOperand number_from(uint64_t least, uint64_t most, uint64_t multiple = 1) {
  return {.kind = IgnoredOperand::Kind::number, .least = least, .most = most, .multiple = multiple};
}

struct IgnoredForm {
  std::array<Choice, 6> words = {};  // the first is the name
  std::array<IgnoredOperand, 2> operands = {};
  size_t operand_count = 0;
  bool fences_async = false;
  bool yields = false;
  bool releases = false;
};

constexpr Choice scopes{Word::cta, Word::cluster, Word::gpu, Word::sys};
// PTX ISA, sections of these instructions.
constexpr auto ignored_forms = std::to_array<IgnoredForm>({
    {.words = {Word::fence, Word::acquire, scopes}},
    {.words = {Word::fence, {Word::none, Word::sc, Word::acq_rel, Word::release}, scopes}, .releases = true},
    {.words = {Word::fence, Word::acquire, Word::sync_restrict_shared_cluster, Word::cluster}},
    {.words = {Word::fence, Word::release, Word::sync_restrict_shared_cta, Word::cluster}, .releases = true},
    {.words = {Word::fence, Word::mbarrier_init, Word::release, Word::cluster}},
    {.words = {Word::fence, Word::proxy, Word::alias}},
    {.words =
         {Word::fence, Word::proxy, Word::async, {Word::none, Word::global, Word::shared_cta, Word::shared_cluster}},
     .fences_async = true},
    {.words = {Word::fence, Word::proxy, Word::async_generic, Word::acquire, Word::sync_restrict_shared_cluster,
               Word::cluster},
     .fences_async = true},
    {.words = {Word::fence, Word::proxy, Word::async_generic, Word::release, Word::sync_restrict_shared_cta,
               Word::cluster},
     .fences_async = true},
    {.words = {Word::fence, Word::proxy, Word::tensormap_generic, Word::release, scopes}},
    {.words = {Word::fence, Word::proxy, Word::tensormap_generic, Word::acquire, scopes},
     .operands = {address_operand, number_from(128, 128)},
     .operand_count = 2},
    {.words = {Word::membar, {Word::cta, Word::gl, Word::sys}}, .releases = true},
    {.words = {Word::membar, Word::proxy, Word::alias}},
    {.words =
         {Word::membar, Word::proxy, Word::async, {Word::none, Word::global, Word::shared_cta, Word::shared_cluster}},
     .fences_async = true},
    {.words = {Word::prefetch, {Word::none, Word::global, Word::local}, {Word::L1, Word::L2}},
     .operands = {address_operand},
     .operand_count = 1},
    {.words = {Word::prefetch, Word::global, {Word::L2_evict_last, Word::L2_evict_normal}},
     .operands = {address_operand},
     .operand_count = 1},
    {.words = {Word::prefetch, {Word::none, Word::const_, Word::param}, Word::tensormap},
     .operands = {address_operand},
     .operand_count = 1},
    {.words = {Word::prefetchu, Word::L1}, .operands = {address_operand}, .operand_count = 1},
    {.words = {Word::discard, {Word::none, Word::global}, Word::L2},
     .operands = {address_operand, number_from(128, 128)},
     .operand_count = 2},
    {.words = {Word::applypriority, {Word::none, Word::global}, Word::L2_evict_normal},
     .operands = {address_operand, number_from(128, 128)},
     .operand_count = 2},
    {.words = {Word::nanosleep, Word::u32}, .operands = {word_operand}, .operand_count = 1, .yields = true},
    {.words = {Word::griddepcontrol, {Word::launch_dependents, Word::wait}}},
    {.words = {Word::setmaxnreg, {Word::inc, Word::dec}, Word::sync, Word::aligned, Word::u32},
     .operands = {number_from(24, 256, 8)},
     .operand_count = 1},
    {.words = {Word::pmevent}, .operands = {number_from(0, 15)}, .operand_count = 1},
    {.words = {Word::pmevent, Word::mask}, .operands = {number_from(0, 0xFFFF)}, .operand_count = 1},
});

void fence_proxy(Warp& warp, const Op&, Mask) { fence_async(warp); }
void fence_release(Warp& warp, const Op&, Mask) { warp.released_epoch = warp.epoch++; }

void decode_ignored(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const auto form = std::ranges::find_if(ignored_forms,
                                         [&](const IgnoredForm& row) { return matches(instruction.words, row.words); });
  if (form == ignored_forms.end()) decoder.refuse("not a form that PTX has");
  decoder.require_operands(instruction, form->operand_count, form->operand_count);
  for (size_t i = 0; i < form->operand_count; ++i) {
    const IgnoredOperand& rule = form->operands[i];
    const Operand& operand = instruction.operands[i];
    switch (rule.kind) {
      case IgnoredOperand::Kind::address:
        if (operand.kind != Kind::address) decoder.refuse("without an address in brackets");
        break;
      case IgnoredOperand::Kind::number:
        if (operand.kind != Kind::integer || operand.value < rule.least || operand.value > rule.most ||
            operand.value % rule.multiple != 0)
          decoder.refuse(fmt::format("without a number from {} to {}", rule.least, rule.most));
        break;
      case IgnoredOperand::Kind::word: decoder.read(operand, Type::u32); break;
    }
  }
  words.take_all();
  Op& op = decoder.emit(form->fences_async ? fence_proxy : form->releases ? fence_release : nothing);
  if (form->yields) op.control = Control::yield;
}

constexpr uint64_t add_64(uint64_t a, uint64_t b) { return a + b; }

void decode_cvta(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const bool to_space = words.take(Word::to);
  const Space space = space_of(words);
  const auto type = words.take_type();
  if (type != Type::u64) decoder.refuse("of another type than .u64");
  if (space == Space::generic) decoder.refuse("without a space");
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

struct SpaceTest {
  uint64_t window = 0;  // 0: global memory, which has all addresses outside of the windows
  bool in_own_block = false;
};
void isspacep(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const SpaceTest*>(op.details);
  const auto* a = warp.lanes_of<const uint64_t>(op.a);
  Mask holds = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    const uint64_t window = a[lane] & ~(window_bytes - 1);
    const bool is_global =
        window != shared_window && window != local_window && window != constant_window && window != param_window;
    const bool is_in_reach =
        !details.in_own_block || (a[lane] >> shared_rank_bits & 0xFF) == static_cast<uint64_t>(warp.cta->rank);
    holds |= Mask{details.window == 0 ? is_global : window == details.window && is_in_reach} << lane;
  }
  set_mask(warp, op.d, mask, holds);
}

void decode_isspacep(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const bool in_cluster = words.take(Word::shared_cluster);
  const Space space = in_cluster ? Space::shared : space_of(words);
  if (space == Space::generic) decoder.refuse("without a space");
  decoder.require_operands(instruction, 2, 2);
  const uint32_t a = decoder.read(instruction.operands[1], Type::u64), d = decoder.write_mask(instruction.operands[0]);
  const auto* details = decoder.keep(SpaceTest{.window = space == Space::shared     ? shared_window
                                                         : space == Space::local    ? local_window
                                                         : space == Space::constant ? constant_window
                                                         : space == Space::param    ? param_window
                                                                                    : 0,
                                               .in_own_block = space == Space::shared && !in_cluster});
  Op& op = decoder.emit(isspacep);
  op.a = a, op.d = d, op.details = details;
}

// --- shared memory of the cluster's other blocks

template <typename W>
void mapa(Warp& warp, const Op& op, Mask mask) {
  const auto* a = warp.lanes_of<const W>(op.a);
  const auto* rank = warp.lanes_of<const uint32_t>(op.b);
  // An address in a block that the cluster does not have is a fault where a thread uses it.
  for_each_lane(mask, [&](int lane) {
    const int in_block = static_cast<int>(std::min<uint32_t>(rank[lane], most_shared_rank));
    warp.lanes_of<W>(op.d)[lane] = static_cast<W>(address_in(in_block, a[lane]));
  });
}

void decode_mapa(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  words.take(Word::shared_cluster);
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

void decode_getctarank(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  words.take(Word::shared_cluster);
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
  Word name;
};
constexpr auto atomics = std::to_array<AtomicInfo>({
    {Atomic::add, Word::add},
    {Atomic::min, Word::min},
    {Atomic::max, Word::max},
    {Atomic::inc, Word::inc},
    {Atomic::dec, Word::dec},
    {Atomic::and_, Word::and_},
    {Atomic::or_, Word::or_},
    {Atomic::xor_, Word::xor_},
    {Atomic::exch, Word::exch},
    {Atomic::cas, Word::cas},
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

/// atom.exch and atom.cas of 128 bits.
void run_wide_atomic(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const AtomicDetails*>(op.details);
  const auto word = [&](uint32_t slot, int lane) { return warp.lanes_of<uint64_t>(slot) + 2 * lane; };
  uint64_t& changes = warp.cta->cluster->changes;
  for_each_lane(mask, [&](int lane) {
    const uint64_t changes_before = changes;
    warp.takes_unwritten = true;
    uint8_t* const at = locate(warp, op, lane, details.address, 16, AccessKind::atomic);
    warp.takes_unwritten = false;
    std::array<uint64_t, 2> old, next;
    std::memcpy(old.data(), at, 16);
    const bool stores = details.what == Atomic::exch || std::memcmp(old.data(), word(details.b.front(), lane), 16) == 0;
    std::memcpy(next.data(), word(details.what == Atomic::exch ? details.b.front() : op.c, lane), 16);
    if (!stores || next == old) changes = changes_before;
    if (stores) std::memcpy(at, next.data(), 16);
    std::memcpy(word(details.d.front(), lane), old.data(), 16);
    if (warp.unwritten) mark_atomic(warp, op, lane, details.what, at, 16, stores, {old[0] ^ next[0], old[1] ^ next[1]});
  });
}

void run_atomic(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const AtomicDetails*>(op.details);
  const int bytes = bytes_of(details.type), total = bytes * static_cast<int>(details.b.size());
  const auto word = [&](uint32_t slot, int lane) -> uint64_t {
    return bytes == 8 ? warp.lanes_of<const uint64_t>(slot)[lane] : warp.lanes_of<const uint32_t>(slot)[lane];
  };
  if (bytes == 16) return run_wide_atomic(warp, op, mask);
  uint64_t& changes = warp.cta->cluster->changes;
  for_each_lane(mask, [&](int lane) {
    const uint64_t changes_before = changes;
    bool is_same = true;
    const uint64_t address = details.address.of(warp, lane);
    const bool is_shared = details.address.space == Space::shared || (details.address.space == Space::generic &&
                                                                      (address & ~(window_bytes - 1)) == shared_window);
    warp.takes_unwritten = true;
    uint8_t* at = locate(warp, op, lane, details.address.space, address, total, AccessKind::atomic);
    warp.takes_unwritten = false;
    bool is_equal = false;  // of cas
    uint64_t changed = 0;
    for (size_t i = 0; i < details.b.size(); ++i, at += bytes) {
      uint64_t old = 0;
      std::memcpy(&old, at, static_cast<size_t>(bytes));
      is_equal = old == (word(details.b[i], lane) & low_mask(8 * bytes));
      const uint64_t next =
          combined(details.what, details.type, old, word(details.b[i], lane) & low_mask(8 * bytes),
                   op.c == Op::no_slot ? 0 : word(op.c, lane), is_shared ? AtomicPlace::shared : AtomicPlace::global);
      changed = old ^ next;
      is_same = is_same && std::memcmp(at, &next, static_cast<size_t>(bytes)) == 0;
      std::memcpy(at, &next, static_cast<size_t>(bytes));
      if (!details.returns) continue;
      if (bytes == 8) warp.lanes_of<uint64_t>(details.d[i])[lane] = old;
      else warp.lanes_of<uint32_t>(details.d[i])[lane] = static_cast<uint32_t>(old);
    }
    if (warp.unwritten)
      mark_atomic(warp, op, lane, details.what, at - total, static_cast<size_t>(bytes), is_equal, {changed, 0});
    if (is_same && !details.barrier) changes = changes_before;
    if (!details.barrier) return;
    // The bytes become visible to the threads that wait for the barrier.
    if (Cta* const cta = owner_of(*warp.cta->cluster, at - total); cta->launch->checks)
      cta->uses.forget(static_cast<size_t>(at - total - cta->shared.data()), static_cast<size_t>(total));
    complete_bytes(warp, op, lane, *details.barrier, total);
  });
}

/// PTX ISA, atom, red and red.async: the types of each operation.
bool is_atomic_type(Atomic what, Type type, bool returns, bool is_async) {
  using enum Type;
  const auto is = [&](TypeSet types) { return types.contains(type); };
  switch (what) {
    case Atomic::add:
      return is({u32, s32, u64}) || (!is_async && is({f32, f64, f16, bf16, f16x2, bf16x2})) ||
             (is_async && type == s64);
    case Atomic::min:
    case Atomic::max: return is({u32, s32}) || (!is_async && is({u64, s64}));
    case Atomic::inc:
    case Atomic::dec: return type == u32;
    case Atomic::and_:
    case Atomic::or_:
    case Atomic::xor_: return type == b32 || (!is_async && type == b64);
    case Atomic::exch: return returns && is({b32, b64, b128});
    default: return returns && is({b16, b32, b64, b128});
  }
}

/// PTX ISA, atom and red: vectors of floating-point sums, and of min and max of 16-bit types, in global memory.
bool is_vector_atomic(Atomic what, Type type, size_t count) {
  const int bytes = bytes_of(type);
  if (!is_floating(type) || type == Type::f64 || static_cast<size_t>(bytes) * count > 16 || (count == 8 && bytes != 2))
    return false;
  return what == Atomic::add || ((what == Atomic::min || what == Atomic::max) && type != Type::f32);
}

void decode_atomic(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  AtomicDetails atomic_details;
  atomic_details.returns = words.name() == Word::atom;
  const bool is_async = words.take(Word::async);
  if (is_async && !words.take(Word::mbarrier_complete_tx_bytes)) decoder.refuse("with another completion");
  if (words.take(Word::L2_cache_hint)) decoder.refuse("with a cache policy");
  // .cta and .cluster scopes are more than hints, but with atomics blocks run one after another.
  for (const Word word :
       {Word::relaxed, Word::acquire, Word::release, Word::acq_rel, Word::cta, Word::cluster, Word::gpu, Word::sys})
    words.take(word);
  const Space space = space_of(words);
  if (space == Space::param || space == Space::constant || space == Space::local) decoder.refuse("there");
  const size_t count = take_vector(words);
  const auto type = words.take_type();
  if (!type) decoder.refuse("without a type");
  atomic_details.type = *type;
  const auto what = take_atomic(words);
  if (!what) decoder.refuse("without an operation");
  atomic_details.what = *what;
  const bool floating = is_floating(*type), has_noftz = words.take(Word::noftz);
  if (!is_atomic_type(atomic_details.what, *type, atomic_details.returns, is_async)) decoder.refuse("of this type");
  // PTX ISA, atom: 16-bit floating-point sums need .noftz, others have none.
  if (has_noftz != (floating && *type != Type::f32 && *type != Type::f64)) decoder.refuse("with or without .noftz");
  if (count > 1 && (space != Space::global || !is_vector_atomic(atomic_details.what, *type, count)))
    decoder.refuse("of this vector");
  const size_t operands =
      1 + (atomic_details.returns ? 1 : 0) + (atomic_details.what == Atomic::cas ? 2 : 1) + (is_async ? 1 : 0);
  decoder.require_operands(instruction, operands, operands);
  const size_t first = atomic_details.returns ? 1 : 0;
  atomic_details.address = address_of(decoder, instruction.operands[first], space);
  const auto slots = [&](const Operand& operand, bool writes) {
    std::vector<uint32_t> of_parts;
    for (const Operand& reg : parts_of(operand))
      of_parts.push_back(writes ? decoder.write(reg, *type) : decoder.read(reg, *type));
    if (of_parts.size() != count) decoder.refuse("with a vector of another size");
    return of_parts;
  };
  atomic_details.b = slots(instruction.operands[first + 1], false);
  const uint32_t c =
      atomic_details.what == Atomic::cas ? decoder.read(instruction.operands[first + 2], *type) : Op::no_slot;
  if (atomic_details.returns) atomic_details.d = slots(instruction.operands[0], true);
  if (is_async) {
    if (space != Space::shared || floating) decoder.refuse("of this space or type");
    atomic_details.barrier = address_of(decoder, instruction.operands.back(), Space::shared);
  }
  if (space != Space::shared) {
    decoder.program().has_atomics = true;
    if (floating && atomic_details.what == Atomic::add) decoder.program().order_matters = true;
  }
  const auto* details = decoder.keep(std::move(atomic_details));
  const bool yields = details->returns && space != Space::shared;
  Op& op = decoder.emit(run_atomic);
  op.details = details;
  op.c = c;
  op.orders_blocks = space != Space::shared;
  if (yields) op.control = Control::yield;
}

// --- cp.async

struct CopyDetails {
  int bytes = 16;
  Address to = {}, from = {};
  bool has_size = false, has_predicate = false;
};

void run_copy(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const CopyDetails*>(op.details);
  Cta& cta = *warp.cta;
  for_each_lane(mask, [&](int lane) {
    const uint64_t to = details.to.of(warp, lane), from = details.from.of(warp, lane);
    int size = details.bytes;
    if (details.has_size) {
      const uint32_t source_bytes = warp.lanes_of<const uint32_t>(op.c)[lane];
      if (source_bytes > static_cast<uint32_t>(details.bytes))
        fault(ViolationCode::undefined_by_ptx, lane, fmt::format("src-size {}", source_bytes),
              fmt::format("at most {}", details.bytes));
      size = static_cast<int>(source_bytes);
    }
    if (details.has_predicate && (warp.mask_of(op.c) >> lane & 1) != 0) size = 0;
    AsyncCopy copy{.lane = lane, .bytes = details.bytes};
    if (from % static_cast<uint64_t>(details.bytes) != 0) {
      fault(ViolationCode::misaligned, lane, fmt::format("{} bytes at address {:#x}", details.bytes, from),
            fmt::format("a multiple of {}", details.bytes));
    }
    // Bytes beyond the source size are not read.
    if (size == details.bytes) {
      std::memcpy(copy.data.data(), locate(warp, op, lane, Space::global, from, size, AccessKind::read),
                  static_cast<size_t>(size));
    } else {
      for (int i = 0; i < size; ++i)
        copy.data[static_cast<size_t>(i)] =
            *locate(warp, op, lane, Space::global, from + static_cast<uint64_t>(i), 1, AccessKind::read);
    }
    uint8_t* const place = locate(warp, op, lane, Space::shared, to & 0xFFFFFFFF, details.bytes, AccessKind::write);
    if (owner_of(*cta.cluster, place) != &cta) {
      fault(ViolationCode::out_of_bounds, lane, "a cp.async to shared memory of another block",
            "the block's own shared memory, .shared::cta");
    }
    copy.to = static_cast<uint32_t>(place - cta.shared.data());
    if (cta.launch->checks) {
      std::memset(cta.shared_states.data() + copy.to, in_flight, static_cast<size_t>(details.bytes));
      // Triton omits the fence between cp.async and wgmma, and the GPU's bits are right.
      cta.uses.for_each(copy.to, static_cast<size_t>(details.bytes),
                        [](SharedUse& use, const SharedUses::ReadEpochs&, size_t) { use.is_generic = false; });
    }
    warp.open_group.push_back(copy);
  });
}
void commit_copies(Warp& warp, const Op&, Mask) {
  warp.groups.push_back(std::move(warp.open_group));
  warp.open_group.clear();
}
void wait_for_groups(Warp& warp, const Op& op, Mask) { complete_copies(warp, static_cast<size_t>(op.immediate)); }
void wait_for_all_copies(Warp& warp, const Op& op, Mask) {
  commit_copies(warp, op, all_lanes);
  complete_copies(warp, 0);
}

void decode_cp(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  if (!words.take(Word::async)) decoder.refuse("not supported");
  if (words.take(Word::bulk)) return decode_bulk_copy(decoder, instruction, words);
  if (words.take(Word::mbarrier)) return decode_copy_arrives(decoder, instruction, words);
  if (words.take(Word::commit_group)) {
    decoder.require_operands(instruction, 0, 0);
    decoder.emit(commit_copies);
    return;
  }
  const bool all = words.take(Word::wait_all);
  if (all || words.take(Word::wait_group)) {
    int64_t left = 0;
    decoder.require_operands(instruction, all ? 0 : 1, all ? 0 : 1);
    if (!all) {
      if (instruction.operands[0].kind != Kind::integer || instruction.operands[0].value > INT32_MAX)
        decoder.refuse("with a number that is not constant, or negative");
      left = static_cast<int64_t>(instruction.operands[0].value);
    }
    decoder.emit(all ? wait_for_all_copies : wait_for_groups).immediate = left;
    return;
  }
  const Word cache = words.take_one({Word::ca, Word::cg});
  if (cache == Word::none) decoder.refuse("not supported");
  if (!words.take(Word::shared) && !words.take(Word::shared_cta)) decoder.refuse("with another destination");
  if (!words.take(Word::global)) decoder.refuse("with another source");
  for (const Word hint : {Word::L2_64B, Word::L2_128B, Word::L2_256B}) words.take(hint);
  const bool has_policy = words.take(Word::L2_cache_hint);
  const size_t count = instruction.operands.size() - (has_policy ? 1 : 0);
  decoder.require_operands(instruction, 3, 5);
  if (instruction.operands[2].kind != Kind::integer) decoder.refuse("with a size that is not constant");
  CopyDetails copy_details{.bytes = static_cast<int>(instruction.operands[2].value)};
  if (copy_details.bytes != 16 && (cache == Word::cg || (copy_details.bytes != 4 && copy_details.bytes != 8)))
    decoder.refuse("of another size than 4, 8 and 16, and with .cg 16");
  if (count > 4) decoder.refuse("with too many operands");
  copy_details.to = address_of(decoder, instruction.operands[0], Space::shared);
  copy_details.from = address_of(decoder, instruction.operands[1], Space::global);
  if (!copy_details.from.wide) decoder.refuse("with a global address of 32 bits");
  uint32_t c = 0;
  if (count == 4) {
    const Operand& last = instruction.operands[3];
    const bool is_mask = last.kind == Kind::reg && decoder.type_of(last) == Type::pred;
    copy_details.has_predicate = is_mask, copy_details.has_size = !is_mask;
    if (last.kind == Kind::integer && last.value > static_cast<uint64_t>(copy_details.bytes))
      decoder.refuse("with a source that is longer than the copy");
    c = is_mask ? decoder.read_mask(last) : decoder.read(last, Type::u32);
  }
  const auto* details = decoder.keep(copy_details);
  Op& op = decoder.emit(run_copy);
  op.details = details;
  op.c = c;
}

/// A cache policy, which changes no value. PTX ISA, createpolicy.
void decode_policy(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  constexpr Choice primary{Word::L2_evict_last, Word::L2_evict_normal, Word::L2_evict_first, Word::L2_evict_unchanged},
      secondary{Word::none, Word::L2_evict_first, Word::L2_evict_unchanged};
  const auto is_form = [&](std::initializer_list<Choice> grammar) {
    return matches(std::span(instruction.words).subspan(1), std::span(grammar.begin(), grammar.size()));
  };
  const bool is_fractional = is_form({Word::fractional, primary, secondary, Word::b64}),
             is_range = is_form({Word::range, {Word::none, Word::global}, primary, secondary, Word::b64}),
             is_cvt = is_form({Word::cvt, Word::L2, Word::b64});
  if (!is_fractional && !is_range && !is_cvt) decoder.refuse("not a form that PTX has");
  words.take_all();
  const size_t least = is_range ? 4 : is_cvt ? 2 : 1, most = is_range ? 4 : 2;
  decoder.require_operands(instruction, least, most);
  const uint32_t d = decoder.write(instruction.operands[0], Type::b64), zero = decoder.constant(0, 8);
  Op& op = decoder.emit(map<add_64>);
  op.d = d, op.a = zero, op.b = zero;
}

constexpr auto memory_rows = std::to_array<Opcode>({
    {.name = Word::ld,
     .does = "reads memory",
     .decode = decode_access<Access::load>,
     .acts = acts,
     .access = Access::load},
    {.name = Word::ldu,
     .does = "reads global memory that all threads read at one address",
     .decode = decode_access<Access::uniform_load>,
     .acts = acts,
     .access = Access::uniform_load},
    {.name = Word::st,
     .does = "writes memory",
     .decode = decode_access<Access::store>,
     .acts = acts,
     .access = Access::store},
    {.name = Word::cvta, .does = "a generic address of one in a state space, or back", .decode = decode_cvta},
    {.name = Word::isspacep,
     .does = "a predicate: whether a generic address is in a state space",
     .decode = decode_isspacep},
    {.name = Word::atom,
     .does = "changes memory by an operation that no other thread interrupts, and returns the value before",
     .decode = decode_atomic,
     .acts = acts,
     .may_drop = may_drop},
    {.name = Word::red, .does = "the same as atom, without a result", .decode = decode_atomic, .acts = acts},
    {.name = Word::cp,
     .does = "copies without waiting: cp.async, bulk copies and TMA",
     .decode = decode_cp,
     .acts = acts},
    {.name = Word::membar,
     .does = "orders the memory accesses before and after it",
     .decode = decode_ignored,
     .acts = acts,
     .ends_block = always},
    {.name = Word::fence,
     .does = "orders the memory accesses before and after it, also between proxies",
     .decode = decode_ignored,
     .acts = acts,
     .ends_block = is_fence},
    {.name = Word::prefetch, .does = "brings memory into a cache", .decode = decode_ignored, .acts = acts},
    {.name = Word::prefetchu, .does = "brings memory into the uniform cache", .decode = decode_ignored, .acts = acts},
    {.name = Word::discard, .does = "gives up the contents of a cache line", .decode = decode_ignored, .acts = acts},
    {.name = Word::applypriority,
     .does = "changes the priority of a cache line",
     .decode = decode_ignored,
     .acts = acts},
    {.name = Word::nanosleep, .does = "the thread sleeps", .decode = decode_ignored, .acts = acts},
    {.name = Word::griddepcontrol, .does = "orders dependent grids", .decode = decode_ignored, .acts = acts},
    {.name = Word::setmaxnreg,
     .does = "changes the number of registers of the warp",
     .decode = decode_ignored,
     .acts = acts},
    {.name = Word::pmevent, .does = "counts an event of the profiler", .decode = decode_ignored, .acts = acts},
    {.name = Word::createpolicy, .does = "a cache policy", .decode = decode_policy},
    {.name = Word::mapa,
     .does = "the same address in the shared memory of another block of the cluster",
     .decode = decode_mapa},
    {.name = Word::getctarank,
     .does = "the rank of the block that has an address of shared memory",
     .decode = decode_getctarank},
});

}  // namespace

void load_by_lanes(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MemoryDetails*>(op.details);
  const int total = details.total();
  warp.takes_unwritten = true;
  for_each_lane(mask, [&](int lane) {
    const uint8_t* from = locate(warp, op, lane, details.address, total, AccessKind::read);
    for (const MemoryDetails::Part& part : details.parts) {
      if (details.bytes == 16) {
        std::memcpy(warp.lanes_of<uint64_t>(part.slot) + 2 * lane, from, 16);
        from += 16;
        continue;
      }
      uint64_t value = 0;
      copy_element(&value, from, static_cast<size_t>(details.bytes));
      from += details.bytes;
      if (is_signed(details.type) && (value >> (8 * details.bytes - 1) & 1) != 0) value |= ~low_mask(8 * details.bytes);
      if (part.bits > 32) warp.lanes_of<uint64_t>(part.slot)[lane] = value;
      else warp.lanes_of<uint32_t>(part.slot)[lane] = static_cast<uint32_t>(value & low_mask(part.bits));
    }
  });
  warp.takes_unwritten = false;
  mark_loaded(warp, op, mask);
}

void store_by_lanes(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MemoryDetails*>(op.details);
  const int total = details.total();
  std::array<std::array<uint8_t, most_access_bytes>, lanes> data;
  std::array<uint8_t*, lanes> places;
  for_each_lane(mask, [&](int lane) {
    uint8_t* to = data[static_cast<size_t>(lane)].data();
    for (const MemoryDetails::Part& part : details.parts) {
      if (details.bytes == 16) {
        std::memcpy(to, warp.lanes_of<const uint64_t>(part.slot) + 2 * lane, 16);
      } else if (part.bits > 32) {
        copy_element(to, warp.lanes_of<const uint64_t>(part.slot) + lane, static_cast<size_t>(details.bytes));
      } else {
        copy_element(to, warp.lanes_of<const uint32_t>(part.slot) + lane, static_cast<size_t>(details.bytes));
      }
      to += details.bytes;
    }
  });
  for_each_lane(mask, [&](int lane) {
    places[static_cast<size_t>(lane)] =
        locate(warp, op, lane, details.address, total, AccessKind::write, data[static_cast<size_t>(lane)].data());
  });
  write_lanes(warp, op, mask, places, data.front().data(), most_access_bytes, static_cast<size_t>(total));
  if (warp.unwritten && warp.unwritten->stored != 0)
    write_states(warp, mask, places, stored_bits(warp, op, mask), static_cast<size_t>(total));
}

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
            for (const uint64_t operand : {b, old}) {
              if ((operand & ~(uint64_t{1} << 63)) > 0x7FF0000000000000) return operand;
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
