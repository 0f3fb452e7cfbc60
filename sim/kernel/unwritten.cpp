// SPDX-License-Identifier: MIT
#include "unwritten.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/bits.hpp"
#include "flow.hpp"
#include "lane_access.hpp"
#include "matrix.hpp"

namespace bitmma::kernel {
namespace {

constexpr LaneBits no_bits{};

[[noreturn]] void report(const Warp& warp, Mask decided, std::string_view decides) {
  fault(ViolationCode::unwritten_read, __builtin_ctz(decided),
        fmt::format("{}: it has not been written, and its value {}", warp.unwritten->origin, decides),
        "initialised memory", "write it first, or run without checks to read it anyway");
}

Type type_of_register(const Warp& warp, int reg) {
  return warp.cta->program->entry.registers[static_cast<size_t>(reg)].type;
}
uint8_t* slot_of(const Warp& warp, int reg) {
  return warp.file + warp.cta->program->register_slots[static_cast<size_t>(reg)];
}
/// Bytes of a lane in the register's slot; 0: the slot is a mask.
size_t lane_bytes_of(const Warp& warp, int reg) {
  const Type type = type_of_register(warp, reg);
  const int bits = info(type).bits;
  return type == Type::pred ? 0 : bits <= 32 ? 4 : bits <= 64 ? 8 : 16;
}
size_t slot_bytes_of(const Warp& warp, int reg) { return std::max<size_t>(lanes * lane_bytes_of(warp, reg), 4); }

/// A lane's bits in bytes that are laid out as the slot.
LaneBits lane_of(std::span<const uint8_t> slot, size_t lane_bytes, int lane) {
  LaneBits bits{};
  if (lane_bytes == 0) bits[0] = slot[static_cast<size_t>(lane) / 8] >> lane % 8 & 1;
  else std::memcpy(bits.data(), slot.data() + static_cast<size_t>(lane) * lane_bytes, lane_bytes);
  return bits;
}

LaneBits bits_of(const Warp& warp, int reg, int lane) {
  const auto known = warp.unwritten->bits_of_register.find(reg);
  return known == warp.unwritten->bits_of_register.end() ? no_bits
                                                         : lane_of(known->second, lane_bytes_of(warp, reg), lane);
}

void set_bits(Warp& warp, int reg, int lane, const LaneBits& bits) {
  UnwrittenValues& values = *warp.unwritten;
  Mask& of_register = values.lanes_of_register[static_cast<size_t>(reg)];
  const Mask bit = Mask{1} << lane;
  if (bits == no_bits && (of_register & bit) == 0) return;
  std::vector<uint8_t>& slot = values.bits_of_register[reg];
  slot.resize(slot_bytes_of(warp, reg));
  if (const size_t lane_bytes = lane_bytes_of(warp, reg); lane_bytes == 0) {
    uint8_t& byte = slot[static_cast<size_t>(lane) / 8];
    byte = static_cast<uint8_t>((byte & ~(1 << lane % 8)) | (bits[0] & 1) << lane % 8);
  } else {
    std::memcpy(slot.data() + static_cast<size_t>(lane) * lane_bytes, bits.data(), lane_bytes);
  }
  of_register = bits == no_bits ? of_register & ~bit : of_register | bit;
  if (of_register == 0) values.bits_of_register.erase(reg);
}

/// Every bit of the register.
void set_all_bits(Warp& warp, int reg, Mask mask) {
  const int bits = info(type_of_register(warp, reg)).bits;
  const LaneBits all{low_mask(std::min(bits, 64)), bits > 64 ? ~uint64_t{0} : 0};
  for_each_lane(mask, [&](int lane) { set_bits(warp, reg, lane, all); });
}

void clear(Warp& warp, int reg, Mask mask) {
  warp.unwritten->exchanged_of_register[static_cast<size_t>(reg)] &= ~mask;
  for_each_lane(warp.unwritten->lanes_of_register[static_cast<size_t>(reg)] & mask,
                [&](int lane) { set_bits(warp, reg, lane, no_bits); });
}

template <typename Body>
void for_each_source(std::span<const Operand> operands, const Body& body) {
  for_each_register(operands, [&](const Operand& operand) {
    if (operand.role != Operand::Role::out) body(operand.reg);
  });
}
template <typename Body>
void for_each_result(std::span<const Operand> operands, const Body& body) {
  for_each_register(operands, [&](const Operand& operand) {
    if (operand.role != Operand::Role::in) body(operand.reg);
  });
}

/// The lanes in which one of the operands has such bits.
Mask lanes_of(const Warp& warp, std::span<const Operand> operands) {
  Mask affected = 0;
  for_each_source(operands, [&](int reg) { affected |= warp.unwritten->lanes_of_register[static_cast<size_t>(reg)]; });
  return affected;
}
Mask exchanged_of(const Warp& warp, std::span<const Operand> operands) {
  Mask exchanged = 0;
  for_each_source(operands,
                  [&](int reg) { exchanged |= warp.unwritten->exchanged_of_register[static_cast<size_t>(reg)]; });
  return exchanged;
}

void forget_if_over(Warp& warp) {
  if (warp.unwritten->bits_of_register.empty() && warp.unwritten->stored == 0) warp.unwritten.reset();
}

/// Of how many operands from the first source on the bits pass one by one to the result: each bit of that depends on
/// one bit of each of them, and for the rest on the other operands. 0: on more.
size_t passing_operands(const PtxInstruction& instruction) {
  const std::vector<Word>& words = instruction.words;
  if (instruction.row->name == Word::cvt) {  // between integers, without saturation
    if (words.size() != 3) return 0;
    const auto to = type_of(words[1]), from = type_of(words[2]);
    return to && from && !is_floating(*to) && !is_floating(*from) ? 1 : 0;
  }
  if (instruction.row->name == Word::lop3 && words.size() != 2) return 0;  // with a predicate
  return instruction.row->passing_operands;
}

/// Whether all lanes of an exchange are here: then it runs now.
bool is_complete(const Warp& warp, const Op& op, Mask mask) {
  if (op.control != Control::converge) return true;
  const auto* const members = warp.lanes_of<const uint32_t>(op.e);
  bool are_here = true;
  for_each_lane(mask, [&](int lane) {
    are_here = are_here && (members[lane] & warp.live & ~mask) == 0 && (mask & ~members[lane]) == 0;
  });
  return are_here;
}

/// Sets the bits of the results of an instruction that passes the bits of `count` operands. It runs with their
/// unwritten bits as zeros and as ones: bits of the results that differ are unwritten.
void follow_passing(Warp& warp, const Op& op, Mask mask, size_t count) {
  const std::span<const Operand> operands = instruction_of(warp, op).operands;
  struct Source {
    int reg = -1;
    size_t operand = 0;  // among those with such bits
    std::vector<uint8_t> before = {}, bits = {};
  };
  std::vector<Source> sources;
  size_t varied = 0;
  for (size_t i = 1; i <= count && i < operands.size(); ++i) {
    const size_t before = sources.size();
    for_each_source(operands.subspan(i, 1), [&](int reg) {
      const auto bits = warp.unwritten->bits_of_register.find(reg);
      if (bits == warp.unwritten->bits_of_register.end() ||
          std::ranges::find(sources, reg, &Source::reg) != sources.end())
        return;
      const uint8_t* const slot = slot_of(warp, reg);
      sources.push_back({reg, varied, {slot, slot + bits->second.size()}, bits->second});
    });
    varied += sources.size() > before;
  }
  struct Result {
    int reg = -1;
    std::vector<uint8_t> first = {}, differing = {};
  };
  std::vector<Result> results;
  for_each_result(operands, [&](int reg) { results.push_back({.reg = reg}); });
  const Op* const end = warp.cta->program->ops.data() + warp.cta->program->ops.size();
  for (size_t choice = 0; choice < size_t{1} << varied; ++choice) {
    for (const Source& source : sources) {
      uint8_t* const slot = slot_of(warp, source.reg);
      const bool are_ones = (choice >> source.operand & 1) != 0;
      for (size_t i = 0; i < source.before.size(); ++i)
        slot[i] =
            static_cast<uint8_t>(are_ones ? source.before[i] | source.bits[i] : source.before[i] & ~source.bits[i]);
    }
    for (const Op* step = &op; step != end && step->instruction == op.instruction; ++step) step->run(warp, *step, mask);
    for (Result& result : results) {
      const uint8_t* const slot = slot_of(warp, result.reg);
      const size_t bytes = slot_bytes_of(warp, result.reg);
      if (choice == 0) result.first.assign(slot, slot + bytes), result.differing.assign(bytes, 0);
      for (size_t i = 0; i < bytes; ++i) result.differing[i] |= static_cast<uint8_t>(result.first[i] ^ slot[i]);
    }
  }
  for (const Source& source : sources) std::ranges::copy(source.before, slot_of(warp, source.reg));
  const Mask decided = count + 1 < operands.size() ? lanes_of(warp, operands.subspan(count + 1)) & mask : 0,
             exchanged = exchanged_of(warp, operands) & mask;
  for (const Result& result : results) {
    const size_t lane_bytes = lane_bytes_of(warp, result.reg);
    for_each_lane(mask,
                  [&](int lane) { set_bits(warp, result.reg, lane, lane_of(result.differing, lane_bytes, lane)); });
    set_all_bits(warp, result.reg, decided);
    Mask& of_register = warp.unwritten->exchanged_of_register[static_cast<size_t>(result.reg)];
    of_register = (of_register & ~mask) | exchanged;
  }
}

/// The lanes of the results of setp: `and` with false and `or` with true do not depend on the comparison. A loop of
/// atom.cas compares what the memory had with what it has, and is right whatever that is.
Mask lanes_of_comparison(const Warp& warp, const PtxInstruction& instruction) {
  const std::span<const Operand> operands = instruction.operands;
  const Mask compared = lanes_of(warp, operands.subspan(1, 2)) & ~exchanged_of(warp, operands.subspan(1, 2));
  if (operands.size() < 4 || operands[3].kind != Operand::Kind::reg)
    return compared | lanes_of(warp, operands.subspan(3));
  const Mask value = warp.mask_of(warp.cta->program->register_slots[static_cast<size_t>(operands[3].reg)]),
             holds = operands[3].negated ? ~value : value, unknown = lanes_of(warp, operands.subspan(3));
  if (has_word(instruction, Word::and_)) return (compared & holds) | unknown;
  if (has_word(instruction, Word::or_)) return (compared & ~holds) | unknown;
  return compared | unknown;
}

/// The states of the bytes from `place` on; nullptr: they have none, and may be read by the caller of the launch.
uint8_t* states_at(const Warp& warp, const uint8_t* place) {
  Cta& cta = *warp.cta;
  if (Cta* const owner = owner_of(*cta.cluster, place))
    return &owner->shared_states[static_cast<size_t>(place - owner->shared.data())];
  if (place >= cta.local.data() && place < cta.local.data() + cta.local.size())
    return &cta.local_states[static_cast<size_t>(place - cta.local.data())];
  const std::vector<GlobalRegion>& regions = *cta.regions;
  const auto has_place = [&](const GlobalRegion& region) {
    return place >= region.data && place < region.data + region.size;
  };
  auto region = regions.begin() + static_cast<std::ptrdiff_t>(cta.last_region);
  if (region >= regions.end() || !has_place(*region)) region = std::ranges::find_if(regions, has_place);
  if (region == regions.end() || region->is_output || !region->states) return nullptr;
  return region->states + (place - region->data);
}

uint8_t state_of_bits(uint8_t bits) {
  if (bits == 0) return written;
  return (bits & 0x0F) == 0 ? low_half_written : (bits & 0xF0) == 0 ? high_half_written : unwritten;
}

/// Throws KernelFault if memory at `place` cannot have such bits.
void require_states(const Warp& warp, int lane, const uint8_t* place, std::span<const uint8_t> bits) {
  const bool has_bits = std::ranges::any_of(bits, [](uint8_t byte) { return byte != 0; });
  if (has_bits && !states_at(warp, place)) report(warp, Mask{1} << lane, "reaches global memory");
}

void write_state(const Warp& warp, const uint8_t* place, std::span<const uint8_t> bits) {
  if (uint8_t* const states = states_at(warp, place)) std::ranges::transform(bits, states, state_of_bits);
}

void warn(Warp& warp, const Op& op, int lane, std::string seen) {
  std::optional<Violation>& warning = warp.cta->cluster->warnings.unwritten_read;
  if (warning) return;
  warning = Violation{
      .code = ViolationCode::unwritten_read,
      .field = fmt::format("{}, {}, PTX line {}, {}", print_block(*warp.cta), print_thread(*warp.cta, warp.index, lane),
                           instruction_of(warp, op).line, instruction_of(warp, op).text),
      .seen = std::move(seen),
      .expected = "initialised memory",
      .severity = Severity::warning};
}

}  // namespace

void note_unwritten(Warp& warp, const Op& op, int lane, std::span<const uint8_t> states, const std::string& where) {
  if (!warp.unwritten) {
    warp.unwritten = std::make_unique<UnwrittenValues>();
    warp.unwritten->lanes_of_register.resize(warp.cta->program->entry.registers.size());
    warp.unwritten->exchanged_of_register.resize(warp.cta->program->entry.registers.size());
  }
  UnwrittenValues& values = *warp.unwritten;
  if (values.loaded == 0)
    values.origin = fmt::format("{}, which {} loaded at PTX line {}", where, print_thread(*warp.cta, warp.index, lane),
                                instruction_of(warp, op).line);
  values.loaded |= Mask{1} << lane;
  std::ranges::transform(states, values.loaded_bits[static_cast<size_t>(lane)].begin(), bits_of_state);
  // A structure with padding is loaded as a whole.
  if (std::ranges::all_of(states, [](uint8_t state) { return state == unwritten; }))
    warn(warp, op, lane, fmt::format("{}: it has not been written", where));
}

void mark_loaded(Warp& warp, const Op& op, Mask mask) {
  if (!warp.unwritten || warp.unwritten->loaded == 0) return;
  const Mask loaded = std::exchange(warp.unwritten->loaded, 0) & mask;
  const auto& details = *static_cast<const MemoryDetails*>(op.details);
  const std::span<const Operand> registers = parts_of(instruction_of(warp, op).operands[0]);
  const auto bytes = static_cast<size_t>(details.bytes);
  for (size_t i = 0; i < registers.size(); ++i) {
    if (registers[i].kind != Operand::Kind::reg) continue;
    const int reg = registers[i].reg;
    clear(warp, reg, mask);
    for_each_lane(loaded, [&](int lane) {
      LaneBits bits{};
      std::memcpy(bits.data(), warp.unwritten->loaded_bits[static_cast<size_t>(lane)].data() + i * bytes, bytes);
      // As the value is: the sign fills the register.
      if (bytes < 8 && is_signed(details.type) && (bits[0] >> (8 * bytes - 1) & 1) != 0)
        bits[0] |= ~low_mask(static_cast<int>(8 * bytes));
      if (details.parts[i].bits < 64) bits[0] &= low_mask(details.parts[i].bits);
      set_bits(warp, reg, lane, bits);
    });
  }
  forget_if_over(warp);
}

uint64_t unwritten_bits(const Warp& warp, int reg, int lane) {
  return (warp.unwritten->lanes_of_register[static_cast<size_t>(reg)] >> lane & 1) != 0 ? bits_of(warp, reg, lane)[0]
                                                                                        : 0;
}
void set_unwritten_bits(Warp& warp, int reg, int lane, uint64_t bits) { set_bits(warp, reg, lane, {bits, 0}); }

void follow_unwritten(Warp& warp, const Op& op, Mask mask) {
  const Op* const first = warp.cta->program->ops.data();
  if (op.instruction < 0 || mask == 0 || (&op != first && (&op - 1)->instruction == op.instruction)) return;
  const PtxInstruction& instruction = instruction_of(warp, op);
  const Opcode& row = *instruction.row;
  const std::span<const Operand> operands = instruction.operands;
  UnwrittenValues& values = *warp.unwritten;
  if (instruction.guard >= 0) {
    const Mask decided = values.lanes_of_register[static_cast<size_t>(instruction.guard)] & warp.active;
    if (decided != 0) report(warp, decided, "decides a branch");
  }
  const bool is_atomic = row.name == Word::atom || row.name == Word::red;
  const Mask all = lanes_of(warp, operands), affected = row.exchanges ? all : all & mask;
  if (affected == 0 && exchanged_of(warp, operands) == 0) {
    if (!is_atomic) for_each_result(operands, [&](int reg) { clear(warp, reg, mask); });
    return forget_if_over(warp);
  }
  for (const Operand& operand : operands) {
    if (operand.kind != Operand::Kind::address) continue;
    if (const Mask decided = lanes_of(warp, {&operand, 1}) & mask; decided != 0)
      report(warp, decided, "decides an address");
  }
  if (row.name == Word::mma) {
    follow_product(warp, op);
  } else if (row.access == Access::store || row.name == Word::stmatrix) {
    values.stored = affected;
  } else if (is_atomic) {
    return;  // mark_atomic
  } else if (instruction.acts && !row.exchanges) {
    if (affected != 0 && row.access == Access::none) report(warp, affected, "has an effect");
    for_each_result(operands, [&](int reg) { clear(warp, reg, mask); });
  } else if (const size_t count = passing_operands(instruction);
             count > 0 && (!row.exchanges || is_complete(warp, op, mask))) {
    follow_passing(warp, op, mask, count);
  } else {
    const Mask result = row.name == Word::setp ? lanes_of_comparison(warp, instruction) & mask
                        : row.exchanges        ? mask
                                               : affected;
    const Mask exchanged = exchanged_of(warp, operands) & mask;
    for_each_result(operands, [&](int reg) {
      clear(warp, reg, mask & ~result);
      set_all_bits(warp, reg, result);
      Mask& of_register = values.exchanged_of_register[static_cast<size_t>(reg)];
      of_register = (of_register & ~mask) | exchanged;
    });
  }
  forget_if_over(warp);
}

AccessBits stored_bits(const Warp& warp, const Op& op, Mask mask) {
  AccessBits all{};
  const auto bytes = static_cast<size_t>(static_cast<const MemoryDetails*>(op.details)->bytes);
  const std::span<const Operand> registers = parts_of(instruction_of(warp, op).operands[1]);
  for (size_t i = 0; i < registers.size(); ++i) {
    if (registers[i].kind != Operand::Kind::reg) continue;
    for_each_lane(mask, [&](int lane) {
      const LaneBits bits = bits_of(warp, registers[i].reg, lane);
      std::memcpy(all[static_cast<size_t>(lane)].data() + i * bytes, bits.data(), bytes);
    });
  }
  return all;
}

void write_states(Warp& warp, Mask mask, std::span<uint8_t* const, lanes> places, const AccessBits& bits,
                  size_t bytes) {
  warp.unwritten->stored = 0;
  const auto bits_of_lane = [&](int lane) { return std::span(bits[static_cast<size_t>(lane)]).first(bytes); };
  const auto place_of = [&](int lane) { return places[static_cast<size_t>(lane)]; };
  for_each_lane(mask, [&](int lane) { require_states(warp, lane, place_of(lane), bits_of_lane(lane)); });
  for_each_in_write_order(mask, bytes, [&](int lane) { write_state(warp, place_of(lane), bits_of_lane(lane)); });
}

void mark_atomic(Warp& warp, const Op& op, int lane, Atomic what, uint8_t* place, size_t bytes, bool stores,
                 const LaneBits& changed) {
  const std::span<const Operand> operands = instruction_of(warp, op).operands;
  UnwrittenValues& values = *warp.unwritten;
  const Mask bit = Mask{1} << lane;
  const auto i = static_cast<size_t>(lane);
  if ((values.loaded & bit) == 0) values.loaded_bits[i] = {};
  values.loaded &= ~bit;
  const size_t address = operands[0].kind == Operand::Kind::address ? 0 : 1;
  const std::span<const Operand> sources = parts_of(operands[address + 1]);
  const auto bits_of_operand = [&](const Operand& operand) {
    return operand.kind == Operand::Kind::reg ? bits_of(warp, operand.reg, lane) : no_bits;
  };
  std::array<uint8_t, most_access_bytes> next{};
  bool compares = false;
  for (size_t element = 0; element < sources.size(); ++element) {
    LaneBits old{}, of_next = bits_of_operand(sources[element]);
    std::memcpy(old.data(), values.loaded_bits[i].data() + element * bytes, bytes);
    const LaneBits either{old[0] | of_next[0], old[1] | of_next[1]};
    switch (what) {
      case Atomic::exch: break;
      case Atomic::cas:
        compares = either != no_bits;
        of_next = stores ? bits_of_operand(operands[address + 2]) : old;
        // The value compared was that of memory: bits that were written and do not change stay written.
        for (size_t i = 0; i < of_next.size(); ++i) of_next[i] &= old[i] | changed[i];
        break;
      case Atomic::and_:
      case Atomic::or_:
      case Atomic::xor_: of_next = either; break;
      default: of_next[0] = either == no_bits ? 0 : low_mask(static_cast<int>(8 * bytes));
    }
    std::memcpy(next.data() + element * bytes, of_next.data(), bytes);
    if (address == 0) continue;
    const Operand& result = parts_of(operands[0])[element];
    if (result.kind != Operand::Kind::reg) continue;
    set_bits(warp, result.reg, lane, old);
    Mask& exchanged = values.exchanged_of_register[static_cast<size_t>(result.reg)];
    exchanged = compares ? exchanged | bit : exchanged & ~bit;
  }
  const auto of_next = std::span(next).first(bytes * sources.size());
  require_states(warp, lane, place, of_next);
  write_state(warp, place, of_next);
  if (compares) warn(warp, op, lane, fmt::format("{}: it has not been written, and is compared", values.origin));
}

}  // namespace bitmma::kernel
