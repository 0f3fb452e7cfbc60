// SPDX-License-Identifier: MIT
// The place where the instruction finds an operand: a byte of shared memory, bits of a register, a cell of Tensor
// Memory. One vocabulary over all families.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bitmma/instruction/state.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"

namespace bitmma {

/// A byte of a CTA's shared memory, and the address before the swizzle acted on it.
struct SmemRead {
  int cta = 0;
  int64_t linear = 0;
  SmemPlace place = {};

  bool operator==(const SmemRead&) const = default;
};

/// Where a code of `code_bits` bits of element (row, col) is read.
inline SmemRead smem_read(const SmemMap& map, int cta, int row, int col, int code_bits) {
  return {.cta = cta,
          .linear = map.linear_of(row, col),
          .place = code_place(map.place_of(row, col), map.matrix().element_bits, code_bits)};
}

using Place = std::variant<SmemRead, RegisterPlace, TmemPlace>;
/// "byte 0x480 (unswizzled 0x400)", "thread 38 register 3 bit 0", "lane 17 column 5 bit 0".
std::string print(const Place& place);

/// A, B or the accumulator (C before, D after), or the words that a move leaves.
enum class Role : uint8_t { a, b, d };

/// Where all elements of one operand are; made once, asked often. Element (row, stored column) of A, (k, col) of B,
/// (row, col) of C and D, (thread or lane, register or column) of a move's result.
class PlaceMap {
 public:
  /// Throws Error when a descriptor or an address is illegal, and for A and B of an instruction that moves data.
  PlaceMap(const Instruction& instruction, Target target, const State& state, Role role);

  int rows() const { return rows_; }
  int cols() const { return cols_; }
  /// Throws Error if there is no such element.
  Place place_of(int row, int col) const;

 private:
  int rows_ = 0, cols_ = 0;
  std::function<Place(int, int)> place_of_;
};

/// The fragment of an operand of mma.sync: "a", "b" (as n x k), "c" or "d".
Fragment fragment_of(const MmaSync& instruction, std::string_view operand);

/// An operand in shared memory as the instruction's descriptor says it lies.
struct SmemOperand {
  Role role = Role::a;
  SmemMatrix matrix = {};
};
/// The operands that the instruction reads from shared memory. Throws Error when a descriptor is illegal.
std::vector<SmemOperand> smem_operands(const Instruction& instruction, Target target, const State& state);

}  // namespace bitmma
