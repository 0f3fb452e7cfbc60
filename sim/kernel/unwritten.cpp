// SPDX-License-Identifier: MIT
#include "unwritten.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "flow.hpp"
#include "matrix.hpp"

namespace bitmma::kernel {
namespace {

[[noreturn]] void report(const Warp& warp, Mask decided, std::string_view decides) {
  fault(ViolationCode::unwritten_read, __builtin_ctz(decided),
        fmt::format("{}: it has not been written, and its value {}", warp.unwritten->origin, decides),
        "initialised memory", "write it first, or run without checks to read it anyway");
}

Mask lanes_of(const Warp& warp, int reg) { return warp.unwritten->lanes_of_register[static_cast<size_t>(reg)]; }

Mask lanes_of(const Warp& warp, std::span<const Operand> operands) {
  Mask affected = 0;
  for_each_register(operands, [&](const Operand& operand) {
    if (operand.role != Operand::Role::out) affected |= lanes_of(warp, operand.reg);
  });
  return affected;
}

/// The lanes whose result has such a value.
Mask lanes_of_result(const Warp& warp, const PtxInstruction& instruction, Mask mask) {
  const std::span<const Operand> operands = instruction.operands;
  if (instruction.row->selects && operands.size() == 4 && operands[3].kind == Operand::Kind::reg) {
    const Mask chosen = warp.mask_of(warp.cta->program->register_slots[static_cast<size_t>(operands[3].reg)]),
               takes_a = operands[3].negated ? ~chosen : chosen;
    return (lanes_of(warp, operands.subspan(1, 1)) & takes_a) | (lanes_of(warp, operands.subspan(2, 1)) & ~takes_a) |
           lanes_of(warp, operands.subspan(3));
  }
  const Mask affected = lanes_of(warp, operands) & mask;
  if (instruction.row->exchanges) return affected != 0 ? mask : 0;
  return affected;
}

void forget_if_over(Warp& warp) {
  const bool is_over = std::ranges::all_of(warp.unwritten->lanes_of_register, [](Mask lane) { return lane == 0; });
  if (is_over && warp.unwritten->stored == 0) warp.unwritten.reset();
}

}  // namespace

void note_unwritten(Warp& warp, const Op& op, int lane, std::string where) {
  if (!warp.unwritten) {
    warp.unwritten = std::make_unique<UnwrittenValues>();
    warp.unwritten->lanes_of_register.resize(warp.cta->program->entry.registers.size());
  }
  UnwrittenValues& values = *warp.unwritten;
  if (values.loaded == 0)
    values.origin = fmt::format("{}, which {} loaded at PTX line {}", where, print_thread(*warp.cta, warp.index, lane),
                                instruction_of(warp, op).line);
  values.loaded |= Mask{1} << lane;
  std::optional<Violation>& warning = warp.cta->cluster->warnings.unwritten_read;
  if (warning) return;
  warning = Violation{
      .code = ViolationCode::unwritten_read,
      .field = fmt::format("{}, {}, PTX line {}, {}", print_block(*warp.cta), print_thread(*warp.cta, warp.index, lane),
                           instruction_of(warp, op).line, instruction_of(warp, op).text),
      .seen = fmt::format("{}: it has not been written; no output depends on it", where),
      .expected = "initialised memory",
      .severity = Severity::warning};
}

void mark_loaded(Warp& warp, const Op& op, Mask mask) {
  if (!warp.unwritten || warp.unwritten->loaded == 0) return;
  const Mask loaded = std::exchange(warp.unwritten->loaded, 0);
  for (const int reg : effects_of(instruction_of(warp, op)).writes) {
    Mask& of_register = warp.unwritten->lanes_of_register[static_cast<size_t>(reg)];
    of_register = (of_register & ~mask) | loaded;
  }
}

void follow_unwritten(Warp& warp, const Op& op, Mask mask) {
  const Op* const first = warp.cta->program->ops.data();
  if (op.instruction < 0 || mask == 0 || (&op != first && (&op - 1)->instruction == op.instruction)) return;
  const PtxInstruction& instruction = instruction_of(warp, op);
  if (instruction.guard >= 0) {
    const Mask decided = lanes_of(warp, instruction.guard) & warp.active;
    if (decided != 0) report(warp, decided, "decides a branch");
  }
  if (instruction.row->name == Word::mma) {
    follow_product(warp, op);
    return forget_if_over(warp);
  }
  const std::span<const Operand> operands = instruction.operands;
  Mask result = 0;
  const Opcode& row = *instruction.row;
  if (row.access != Access::none) {
    for (const Operand& operand : operands) {
      if (operand.kind != Operand::Kind::address) continue;
      if (const Mask decided = lanes_of(warp, {&operand, 1}) & mask; decided != 0)
        report(warp, decided, "decides an address");
    }
    if (row.access == Access::store) warp.unwritten->stored = lanes_of(warp, operands) & mask;
  } else if (instruction.acts && !row.exchanges) {
    if (const Mask decided = lanes_of(warp, operands) & mask; decided != 0) report(warp, decided, "has an effect");
  } else {
    result = lanes_of_result(warp, instruction, mask);
  }
  for (const int reg : effects_of(instruction).writes) {
    Mask& of_register = warp.unwritten->lanes_of_register[static_cast<size_t>(reg)];
    of_register = (of_register & ~mask) | (result & mask);
  }
  forget_if_over(warp);
}

void mark_stored(Warp& warp, std::span<uint8_t* const, lanes> places, size_t bytes) {
  if (!warp.unwritten || warp.unwritten->stored == 0) return;
  Cta& cta = *warp.cta;
  for_each_lane(std::exchange(warp.unwritten->stored, 0), [&](int lane) {
    const uint8_t* const place = places[static_cast<size_t>(lane)];
    if (Cta* const owner = owner_of(*cta.cluster, place)) {
      std::fill_n(&owner->shared_states[static_cast<size_t>(place - owner->shared.data())], bytes, uint8_t{unwritten});
    } else if (place >= cta.local.data() && place < cta.local.data() + cta.local.size()) {
      std::fill_n(&cta.local_states[static_cast<size_t>(place - cta.local.data())], bytes, uint8_t{unwritten});
    } else {
      report(warp, Mask{1} << lane, "reaches global memory");
    }
  });
}

}  // namespace bitmma::kernel
