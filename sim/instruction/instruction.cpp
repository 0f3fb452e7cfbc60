// SPDX-License-Identifier: MIT
#include "bitmma/instruction/instruction.hpp"

#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "family.hpp"

namespace bitmma {
namespace {

Instruction legal(Instruction instruction) {
  require_legal(instruction, default_target(instruction));
  return instruction;
}

/// A copy of the instruction after `change`, which has an overload for each family with that property.
template <typename Change>
Instruction changed(Instruction instruction, const Change& change) {
  family::dispatch([&](auto& alternative) { change(alternative); }, instruction);
  return instruction;
}

}  // namespace

Instruction wgmma(const Wgmma& fields) { return legal(fields); }
Instruction mma_sync(const MmaSync& fields) { return legal(fields); }
Instruction tcgen05(const Tcgen05Mma& fields) { return legal(fields); }
Instruction tmem_move(const TmemMove& fields) { return legal(fields); }

bool is_mma(const Instruction& instruction) {
  return family::dispatch(
      [](const auto& alternative) {
        return requires { family::describe(alternative); };
      },
      instruction);
}

Family family_of(const Instruction& instruction) {
  static constexpr std::array order{Family::wgmma, Family::mma_sync, Family::tcgen05, Family::tmem_move};
  static_assert(order.size() == std::variant_size_v<Instruction>);
  return order[instruction.index()];
}

Mma mma_of(const Instruction& instruction) {
  return family::dispatch(
      [&](const auto& alternative) -> Mma {
        if constexpr (requires { family::describe(alternative); }) return family::describe(alternative);
        throw Error({.code = ViolationCode::wrong_instruction,
                     .field = "instruction",
                     .seen = print(instruction),
                     .expected = "a matrix instruction",
                     .fix = "it moves bits and does no arithmetic"});
      },
      instruction);
}

Instruction with_majors(const Instruction& instruction, Major a, Major b) {
  return changed(instruction, [&](auto& alternative) {
    if constexpr (requires { alternative.transpose_a; }) {
      if (alternative.a_source == OperandSource::smem) alternative.transpose_a = a == Major::mn;
      alternative.transpose_b = b == Major::mn;
    }
  });
}

Instruction with_a_source(const Instruction& instruction, OperandSource source) {
  return changed(instruction, [&](auto& alternative) {
    if constexpr (requires { alternative.a_source; }) alternative.a_source = source;
  });
}

Instruction with_enable_input_d(const Instruction& instruction, bool enable) {
  return changed(instruction, [&](auto& alternative) {
    if constexpr (requires { alternative.enable_input_d; }) alternative.enable_input_d = enable;
  });
}

Instruction with_sparsity_selector(const Instruction& instruction, int selector) {
  return changed(instruction, [&](auto& alternative) {
    if constexpr (requires { alternative.sparsity_selector; }) alternative.sparsity_selector = selector;
  });
}

Instruction without_ashift(const Instruction& instruction) {
  return changed(instruction, [&](auto& alternative) {
    if constexpr (requires { alternative.ashift; }) alternative.ashift = false;
  });
}

}  // namespace bitmma
