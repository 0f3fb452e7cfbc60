// SPDX-License-Identifier: MIT
// Where the instruction reads an operand: a byte of shared memory, bits of a register, or a cell of Tensor Memory. All
// families use the same terms.
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

/// A byte of a CTA's shared memory, with its address before the swizzle.
struct SmemRead {
  int cta = 0;
  int64_t linear = 0;
  SmemPlace place = {};

  bool operator==(const SmemRead&) const = default;
};

/// Where the instruction reads a code of `code_bits` bits for element (row, col).
inline SmemRead smem_read(const SmemMap& map, int cta, int row, int col, int code_bits) {
  return {.cta = cta,
          .linear = map.linear_of(row, col),
          .place = code_place(map.place_of(row, col), map.matrix().element_bits, code_bits)};
}

using Place = std::variant<SmemRead, RegisterPlace, TmemPlace>;
/// "byte 0x480 (unswizzled 0x400)", "thread 38 register 3 bit 0", "lane 17 column 5 bit 0".
std::string print(const Place& place);

/// A, B or the accumulator (C before, D after), or the words that a move writes; the metadata of a sparse A.
enum class Role : uint8_t { a, b, d, metadata };

/// The places of all elements of one operand; build it once and query it often. Elements are (row, stored column) of A,
/// (k, col) of B, (row, col) of C and D, (row, chunk) of metadata, and (thread or lane, register or column) of a move's
/// result.
class PlaceMap {
 public:
  /// Throws Error if a descriptor or an address is illegal, for A and B of an instruction that moves data, and for
  /// metadata of a dense one.
  PlaceMap(const Instruction& instruction, Target target, const State& state, Role role);

  int rows() const { return rows_; }
  int cols() const { return cols_; }
  /// Throws Error if the element does not exist.
  Place place_of(int row, int col) const;

 private:
  int rows_ = 0, cols_ = 0;
  std::function<Place(int, int)> place_of_;
};

/// The fragment of an mma.sync operand: "a", "b" (as n x k), "c" or "d".
Fragment fragment_of(const MmaSync& instruction, std::string_view operand);
/// The same. Throws Error for an instruction that is no mma.sync.
Fragment register_fragment_of(const Instruction& instruction, std::string_view operand);

/// D of a matrix instruction, and A where the instruction can read it without shared memory: in registers or in Tensor
/// Memory.
struct ResultAsA {
  std::variant<Fragment, TmemD> d = {};
  std::variant<Fragment, TmemA> a = {};
};
/// Throws Error for an instruction that moves data.
ResultAsA result_as_a(const Instruction& instruction);

/// An operand in shared memory, as the instruction's descriptor places it.
struct SmemOperand {
  Role role = Role::a;
  SmemMatrix matrix = {};
};
/// The operands that the instruction reads from shared memory. Throws Error if a descriptor is illegal.
std::vector<SmemOperand> smem_operands(const Instruction& instruction, Target target, const State& state);

}  // namespace bitmma
