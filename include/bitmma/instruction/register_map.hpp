// SPDX-License-Identifier: MIT
// The map of an operand in registers, for the instruction that reads or writes it.
#pragma once

#include <string_view>

#include "bitmma/instruction/instruction.hpp"
#include "bitmma/memory/map.hpp"

namespace bitmma {

/// The numbers in a statement that select sparse metadata and scales.
struct RegisterSelectors {
  int sparsity_selector = 0, byte_id = 0, thread_id = 0;
};

/// The bits of a code in its container in registers or Tensor Memory.
constexpr CodeBits code_bits_of(Format format, int container_bits) {
  return {.first = container_shift(format, container_bits), .bits = bits_of(format)};
}

/// The same for a number of bits: 4 is e2m1, 6 e2m3 and e3m2; 0, or the width of the container, fills it. Throws Error
/// for other numbers.
CodeBits code_bits_in_container(int code_bits, int container_bits);

/// The titled map of operand "a", "b", "c", "d", "metadata", "scale_a" or "scale_b" of wgmma or mma.sync. Throws Error
/// for an illegal instruction, and for an operand that is not in registers.
Map register_map(const Instruction& instruction, Target target, std::string_view operand,
                 const RegisterSelectors& selectors = {});

}  // namespace bitmma
