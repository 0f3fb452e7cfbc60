// tcgen05.mma as a value: what its instruction descriptor says, and which forms are legal. What it reads and writes is
// in tcgen05_machine.hpp.
//
//   tcgen05.mma.cta_group::2.kind::f16  +  idesc 0x10100010  =  M 256, N 64, K 16, D f32, A and B f16
//
// Sources: PTX ISA 9.7.16; ptxas 13.0 for what stands in the mnemonic.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// The instruction with everything its descriptor says: m, n, k, types, signs, major-ness, saturation, scale ids.
/// Throws Error when the word is not a legal descriptor of the instruction's kind.
Instruction with_idesc(Instruction instruction, uint32_t idesc);

/// The inverse: the descriptor that says what `instruction` is.
uint32_t idesc_of(const Instruction& instruction);

/// A set of kinds as a value that tables can hold.
class KindSet {
 public:
  constexpr KindSet(std::initializer_list<MmaKind> members) {
    for (const MmaKind member : members) mask_ |= 1u << static_cast<int>(member);
  }
  constexpr bool contains(MmaKind kind) const { return mask_ >> static_cast<int>(kind) & 1; }

 private:
  uint32_t mask_ = 0;
};

/// Which M and N a form takes; one row each. PTX ISA 9.7.16.2.1, Table 39.
struct Tcgen05Form {
  KindSet kinds;
  bool ws = false;
  int cta_group = 1;
  bool dense = true, sparse = true;  // which of the two the row is for
  std::array<int, 3> m{};            // 0 fills up
  int n_first = 8, n_step = 8, n_last = 256;
  bool n_is_i8_list = false;  // 8, 16, 24, 32, then steps of 16
  bool n_is_power = false;    // n_first, 2 n_first, ... n_last
  std::string_view n_text;
};
std::span<const Tcgen05Form> tcgen05_forms();

/// All violations of a tcgen05.mma instruction, none when it is legal.
std::vector<Violation> tcgen05_violations(const Instruction& instruction);

/// Every legal mnemonic, with one shape, types and source of A that go with it; A in Tensor Memory where .ashift needs
/// it.
std::vector<Instruction> all_tcgen05_mnemonics();

/// The PTX targets that have it, "sm_100a" or "sm_103a" first: integers are on sm_100a only, K = 96 on sm_103a only.
std::vector<std::string_view> tcgen05_targets(const Instruction& instruction);

}  // namespace bitmma
