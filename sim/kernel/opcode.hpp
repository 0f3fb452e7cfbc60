// SPDX-License-Identifier: MIT
// A row an opcode: everything that the kernel layer knows of an instruction by its name. The rows stand beside their
// decoders (ops_*.cpp); the flow of control, folding, fusion, the trace and the decoder read them. An opcode without a
// row is refused.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "type.hpp"
#include "word.hpp"

namespace bitmma::kernel {

class Decoder;
class Words;
struct PtxInstruction;

using DecodeFunction = void (*)(Decoder&, const PtxInstruction&, Words&);

/// Where a thread goes from the instruction.
enum class Jump : uint8_t { none, branch, table, call, ret, exit };

/// The result is the operand itself, or the operand with another sign: ptxas looks through such instructions.
enum class Passes : uint8_t { nothing, value, negated, absolute };

/// The part of the instruction in a contraction to fma. Quotients and reciprocals take part if they are approximate:
/// they end with a product.
enum class Contraction : uint8_t { none, product, quotient, reciprocal, sum, difference };

/// What a thread does at the address of the operand.
enum class Access : uint8_t { none, load, uniform_load, store };

struct Opcode {
  Word name = Word::other;
  std::string_view does = {};  // what it computes, for `bitmma decode`. PTX ISA
  DecodeFunction decode = nullptr;
  bool acts = false;       // has effects beyond its registers: on memory, on other lanes, on the flow of control
  bool exchanges = false;  // its result comes from the registers of other lanes
  bool is_async = false;   // it may read and write its registers until a wait
  Access access = Access::none;
  /// The types that PTX has for it: of its last word that names one. Empty: the decoder alone decides.
  TypeSet types = {};
  /// Of how many operands, from the first source on, the bits pass one by one to the result: each bit of that depends
  /// on one bit of each of them, and on the other operands.
  uint8_t passing_operands = 0;
  bool selects = false;           // the result is operand 1 or 2, as predicate 3 says
  bool scales_subnormal = false;  // its approximation without .ftz scales a subnormal operand first
  bool is_idempotent = false;     // of two equal operands the result is the operand
  bool may_drop = false;          // `_` may stand for its whole result
  bool is_matrix = false;         // layer instruction reads the mnemonic and the texts of the operands
  Jump jump = Jump::none;
  Passes passes = Passes::nothing;
  Contraction contraction = Contraction::none;
  /// The types for which ptxas computes it at compile time if all its operands are constants. Those of an approximation
  /// (.approx, .full) are not listed: it folds all of f32.
  TypeSet folds = {};
  /// A further condition on folding; of an opcode without `folds` the only one.
  bool (*folds_if)(const PtxInstruction&) = nullptr;
  /// Whether ptxas begins a basic block behind the instruction before it contracts; nullptr: never.
  bool (*ends_block)(const PtxInstruction&) = nullptr;
};
constexpr bool acts = true, exchanges = true, may_drop = true;

bool has_rounding(const PtxInstruction& instruction);

// Opcode::ends_block. ptxas puts a slow path in a branch: of integer division except that of u32; of quotients and of
// reciprocals and roots that are rounded, but for a reciprocal or root of a number; of rsqrt in f64. And a fence ends a
// block.
bool is_slow_division(const PtxInstruction& instruction);
bool is_slow_root(const PtxInstruction& instruction);
bool is_slow_rsqrt(const PtxInstruction& instruction);
bool is_fence(const PtxInstruction& instruction);
bool always(const PtxInstruction& instruction);
/// Whether its row says so.
bool ends_block(const PtxInstruction& instruction);

// Opcode::folds_if. Read from SASS of ptxas 13.0, one instruction per kernel: tests/kernel/fold_test.cpp.
/// Conversions, but for those from 64-bit integers and most of those from 16-bit floats.
bool is_folded_conversion(const PtxInstruction& instruction);
/// Products, but for the high halves of 16-bit and 64-bit integers.
bool is_folded_product(const PtxInstruction& instruction);
/// Not the minimum or maximum of three numbers.
bool has_two_sources(const PtxInstruction& instruction);

/// The row of an opcode. For a name that no row has: a row whose decoder refuses.
const Opcode& opcode_named(Word name);

/// All rows.
std::span<const Opcode* const> opcodes();

std::span<const Opcode> integer_opcodes();
std::span<const Opcode> float_opcodes();
std::span<const Opcode> memory_opcodes();
std::span<const Opcode> warp_opcodes();
std::span<const Opcode> matrix_opcodes();
std::span<const Opcode> mbarrier_opcodes();
std::span<const Opcode> tensormap_opcodes();
std::span<const Opcode> tcgen05_opcodes();
std::span<const Opcode> system_opcodes();
std::span<const Opcode> video_opcodes();
std::span<const Opcode> wmma_opcodes();
std::span<const Opcode> texture_opcodes();

}  // namespace bitmma::kernel
