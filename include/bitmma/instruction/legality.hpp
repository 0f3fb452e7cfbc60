// Which instructions exist: *documented* facts, one row per type triple, each citing PTX. What they compute is measured
// and stands in arithmetic/accumulator_model.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// Legal values of N, as PTX lists them.
enum class NumberList : uint8_t {
  multiples_of_8,        // 8, 16, ..., 256
  multiples_of_16_or_24  // 8, 16, 24, 32, 48, 64, ..., 256
};

bool contains(NumberList list, int n);
/// "8..256 in steps of 8".
std::string_view print(NumberList list);

struct LegalForm {
  Family family = Family::wgmma;
  Format d, a, b;
  int m = 64;
  int k_dense = 0;
  int k_sparse = 0;  // 0: no .sp form
  NumberList n = NumberList::multiples_of_8;
  bool scale = false;      // imm-scale-a, imm-scale-b
  bool transpose = false;  // imm-trans-a, imm-trans-b
  bool satfinite = false;
  std::string_view bit_operation = "";
  int selectors = 0;  // sp-sel is 0 .. selectors-1
  std::string_view source;
};

/// Every row. No two have the same family and types.
std::span<const LegalForm> legal_forms();

/// The row for the instruction's types, or nullptr.
const LegalForm* find_legal_form(const Instruction& instruction);

/// All violations of `instruction`, none when it is legal.
std::vector<Violation> violations_of(const Instruction& instruction);

/// Throws Error with every violation at once.
void require_legal(const Instruction& instruction);

/// Every legal mnemonic: dense and sparse, all N, with and without .satfinite; immediates at their defaults.
std::vector<Instruction> all_legal_instructions();

}  // namespace bitmma
