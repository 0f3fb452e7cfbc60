// SPDX-License-Identifier: MIT
#include "bitmma/core/error.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma {

Instruction with_shape_and_types(const Instruction& instruction, const ShapeAndTypes& fields) {
  const auto* before = std::get_if<Tcgen05Mma>(&instruction);
  if (!before) {
    throw Error({.code = ViolationCode::wrong_instruction,
                 .field = "instruction",
                 .seen = print(instruction),
                 .expected = "a tcgen05.mma",
                 .fix = "the mnemonics of all other instructions contain shape and types"});
  }
  constexpr int most = 1024;
  for (const auto& [name, value] : {std::pair("m", fields.m), std::pair("n", fields.n), std::pair("k", fields.k)}) {
    if (value < 0 || value > most)
      throw Error(
          {.field = name, .seen = std::to_string(value), .expected = "0 to 1024, and legal for the instruction"});
  }
  Tcgen05Mma mma = *before;
  mma.m = fields.m, mma.n = fields.n;
  mma.d = fields.d, mma.a = fields.a, mma.b = fields.b;
  if (info(mma.kind).has_block_scales) mma.scale_type = fields.scale_type;
  mma.k = fields.k != 0 ? fields.k : natural_k(kind_container_bits(mma.kind, mma.a), mma.sparse);
  return mma;
}

std::optional<ShapeAndTypes> shape_and_types_of(const Instruction& instruction) {
  const auto* mma = std::get_if<Tcgen05Mma>(&instruction);
  if (!mma) return std::nullopt;
  const bool is_natural = mma->k == natural_k(kind_container_bits(mma->kind, mma->a), mma->sparse);
  return ShapeAndTypes{.m = mma->m,
                       .n = mma->n,
                       .k = is_natural ? 0 : mma->k,
                       .d = mma->d,
                       .a = mma->a,
                       .b = mma->b,
                       .scale_type = mma->scale_type};
}

}  // namespace bitmma
