// SPDX-License-Identifier: MIT
#include "bitmma/instruction/place.hpp"

#include <fmt/format.h>

#include "bitmma/instruction/form.hpp"
#include "bitmma/memory/metadata.hpp"
#include "family.hpp"

namespace bitmma {
namespace {

struct Printer {
  std::string operator()(const SmemRead& smem) const {
    return fmt::format("{}byte {:#x}{}{}", smem.cta ? "odd CTA, " : "", smem.place.byte,
                       smem.place.bit ? fmt::format(" bit {}", smem.place.bit) : "",
                       smem.linear == smem.place.byte ? "" : fmt::format(" (unswizzled {:#x})", smem.linear));
  }
  std::string operator()(const RegisterPlace& place) const {
    return fmt::format("thread {} register {} bit {}", place.thread, place.reg, place.bit);
  }
  std::string operator()(const TmemPlace& place) const {
    return fmt::format("{}lane {} column {} bit {}", place.cta ? "odd CTA, " : "", place.lane, place.column, place.bit);
  }
};

}  // namespace

std::string print(const Place& place) { return std::visit(Printer{}, place); }

PlaceMap::PlaceMap(const Instruction& instruction, Target target, const State& state, Role role) {
  require_legal(instruction, target);
  if (is_mma(instruction)) {
    const Mma mma = mma_of(instruction);
    if (role == Role::metadata && !mma.sparse)
      throw Error({.code = ViolationCode::wrong_instruction,
                   .field = "operand",
                   .seen = "metadata",
                   .expected = "a, b or d: the instruction is not sparse"});
    rows_ = role == Role::b ? mma.k : mma.m;
    cols_ = role == Role::a          ? mma.stored_k()
            : role == Role::metadata ? mma.k / sparse_pattern(mma.a_container_bits, mma.sparsity_version).chunk
                                     : mma.n;
  } else if (role == Role::d) {
    cols_ = 0;
    for (const FieldRule& rule : fields_of(instruction)) {
      if (rule.access == Access::read) continue;
      // (threads, registers) followed by redval, or lanes of all CTAs and columns.
      const bool is_tmem = rule.field == Field::tmem;
      rows_ = static_cast<int>(is_tmem ? rule.extents[0] * rule.extents[1] : rule.extents[0]);
      cols_ += static_cast<int>(is_tmem ? tmem_columns : rule.extents.size() > 1 ? rule.extents[1] : 1);
    }
  } else {
    throw Error({.code = ViolationCode::wrong_instruction,
                 .field = "operand",
                 .seen = role == Role::a ? "A" : "B",
                 .expected = "the result: the instruction moves data"});
  }
  place_of_ =
      family::dispatch([&](const auto& alternative) { return family::places(alternative, state, role); }, instruction);
}

Place PlaceMap::place_of(int row, int col) const {
  if (row < 0 || row >= rows_ || col < 0 || col >= cols_) {
    throw Error({.field = "element",
                 .seen = fmt::format("row {}, column {}", row, col),
                 .expected = fmt::format("rows 0..{}, columns 0..{}", rows_ - 1, cols_ - 1)});
  }
  return place_of_(row, col);
}

ResultAsA result_as_a(const Instruction& instruction) {
  return family::dispatch([](const auto& alternative) { return family::result_as_a(alternative); }, instruction);
}

std::vector<SmemOperand> smem_operands(const Instruction& instruction, Target target, const State& state) {
  require_legal(instruction, target);
  return family::dispatch([&](const auto& alternative) { return family::smem_operands(alternative, state); },
                          instruction);
}

}  // namespace bitmma
