// SPDX-License-Identifier: MIT
// Each family of instructions supplies overloads of these functions, in the folder with its name. The public
// functions of the layer visit the variant once and call these; no other code asks for the family of an
// instruction.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bitmma/core/random.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/instruction.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/state.hpp"

namespace bitmma {
struct AccumulatorBlocks;
}

namespace bitmma::family {

/// Rejects values outside of their enumerations. Call it first: tables are indexed by these values.
std::vector<Violation> unknown_values(const Instruction& instruction);
void require_known_values(const Instruction& instruction);

/// Calls body with the instruction as its own type. Only this function visits the variant: bodies call functions that
/// every family supplies, and never ask for the family. Throws Error for unknown values.
template <typename Body, typename AnyInstruction>
decltype(auto) dispatch(Body&& body, AnyInstruction&& instruction) {
  require_known_values(instruction);
  return std::visit(std::forward<Body>(body), std::forward<AnyInstruction>(instruction));
}

/// A block of D with the operands of its outputs: all of D, unless copies in Tensor Memory differ.
struct Tile {
  int row = 0, col = 0;
  Operands operands = {};
};

/// Collects violations through refuse(field, seen, legal, fix, source).
class InstructionChecker {
 public:
  explicit InstructionChecker(std::string_view source) : source_(source) {}

  void refuse(std::string_view field, std::string seen, std::string expected, std::string fix = {},
              std::optional<std::string_view> source = std::nullopt) {
    found_.push_back({.field = std::string(field),
                      .seen = std::move(seen),
                      .expected = std::move(expected),
                      .fix = std::move(fix),
                      .source = std::string(source.value_or(source_))});
  }
  void require(bool holds, std::string_view field, std::string seen, std::string expected, std::string fix = {},
               std::optional<std::string_view> source = std::nullopt) {
    if (!holds) refuse(field, std::move(seen), std::move(expected), std::move(fix), source);
  }
  std::vector<Violation> take() { return std::move(found_); }
  void throw_if_refused() {
    if (!found_.empty()) throw Error(std::move(found_));
  }

 private:
  std::string_view source_;
  std::vector<Violation> found_;
};

/// Missing or wrong buffers of the state that a legal instruction reads, and operands outside of their memory. `rules`:
/// its fields.
std::vector<Violation> violations_of_read(const Instruction& instruction, const FieldRules& rules, const State& state);
/// Throws Error with these violations, and for addresses that only the target has.
void require_readable(const Instruction& instruction, Target target, const FieldRules& rules, const State& state);
/// Executes an instruction on a state that has passed these checks. `model`: nullptr for an instruction that moves
/// data.
void run(const Instruction& instruction, const AccumulatorModel* model, State& state);

/// Missing or wrong buffers of the state that the instruction writes.
std::vector<Violation> violations_of_written(const Instruction& instruction, const State& state);

// The common description of the instruction.
Mma describe(const Wgmma& instruction);
Mma describe(const MmaSync& instruction);
Mma describe(const Tcgen05Mma& instruction);

/// Violations of rules beyond the table of forms, on a target that has the family.
std::vector<Violation> violations(const Wgmma& instruction, Target target);
std::vector<Violation> violations(const MmaSync& instruction, Target target);
std::vector<Violation> violations(const Tcgen05Mma& instruction, Target target);
std::vector<Violation> violations(const TmemMove& instruction, Target target);

/// The PTX version that the instruction needs beyond its form's, if a part of it was introduced later.
template <typename I>
PtxVersion ptx_version(const I&, const Form*) {
  return {};
}
template <>
PtxVersion ptx_version(const MmaSync& instruction, const Form* form);

/// A part of instructions that only some targets of their forms support.
template <typename I>
struct TargetRow {
  std::string_view what = {};  // "tcgen05.mma kind::mxf4 with WHAT exists there only"
  TargetSet targets = {};
  PtxVersion ptx = {};  // that introduced it
  std::string_view source = {};
  bool (*applies)(const I&) = nullptr;
};
template <typename I>
std::span<const TargetRow<I>> target_rows(const I&) {
  return {};
}
template <>
std::span<const TargetRow<Tcgen05Mma>> target_rows(const Tcgen05Mma&);
template <>
std::span<const TargetRow<MmaSync>> target_rows(const MmaSync&);

/// Calls body(row) for each row that applies to the instruction.
template <typename I, typename Body>
void for_each_target_row(const I& instruction, const Body& body) {
  for (const TargetRow<I>& row : target_rows(instruction)) {
    if (row.applies(instruction)) body(row);
  }
}

/// The instruction's form; nullptr if there is none.
const Form* find(const Wgmma& instruction);
const Form* find(const MmaSync& instruction);
const Form* find(const Tcgen05Mma& instruction);
const Form* find(const TmemMove& instruction);

/// The buffers that it reads and writes.
FieldRules fields(const Wgmma& instruction);
FieldRules fields(const MmaSync& instruction);
FieldRules fields(const Tcgen05Mma& instruction);
FieldRules fields(const TmemMove& instruction);

/// The operands of every block of D. Given a model, they are swapped if it prefers that and swapping saves work, and
/// operands of all of D that are not swapped lack C if accumulator() reads it.
std::vector<Tile> gather(const Wgmma& instruction, const State& state, const AccumulatorModel* model);
std::vector<Tile> gather(const MmaSync& instruction, const State& state, const AccumulatorModel* model);
std::vector<Tile> gather(const Tcgen05Mma& instruction, const State& state, const AccumulatorModel* model);

/// C and D of an instruction whose accumulator is read and written by blocks. References the words of the state.
AccumulatorBlocks accumulator(const Wgmma& instruction, State& state);
AccumulatorBlocks accumulator(const Tcgen05Mma& instruction, State& state);

/// The operands of all of D; if copies differ, as the first rows and columns of D read them.
Operands gather_whole(const Wgmma& instruction, const State& state);
Operands gather_whole(const MmaSync& instruction, const State& state);
Operands gather_whole(const Tcgen05Mma& instruction, const State& state);

/// Writes D of a tile.
void scatter(const Wgmma& instruction, const Tile& tile, const Matrix& d, State& state);
void scatter(const MmaSync& instruction, const Tile& tile, const Matrix& d, State& state);
void scatter(const Tcgen05Mma& instruction, const Tile& tile, const Matrix& d, State& state);

/// D in the state; for a move the words that it wrote.
Matrix recorded(const Wgmma& instruction, const State& state);
Matrix recorded(const MmaSync& instruction, const State& state);
Matrix recorded(const Tcgen05Mma& instruction, const State& state);
Matrix recorded(const TmemMove& instruction, const State& state);

/// Executes the move.
void move(const TmemMove& instruction, State& state);

/// Violations of descriptors, addresses and immediates in the state, beyond the sizes of buffers.
std::vector<Violation> state_violations(const Wgmma& instruction, const State& state);
std::vector<Violation> state_violations(const MmaSync& instruction, const State& state);
std::vector<Violation> state_violations(const Tcgen05Mma& instruction, const State& state);
std::vector<Violation> state_violations(const TmemMove& instruction, const State& state);

std::vector<Violation> warnings(const Wgmma& instruction, Target target, const State& state);
std::vector<Violation> warnings(const MmaSync& instruction, Target target, const State& state);
std::vector<Violation> warnings(const Tcgen05Mma& instruction, Target target, const State& state);
std::vector<Violation> warnings(const TmemMove& instruction, Target target, const State& state);

/// Points that no source settles; `state` may be nullptr.
std::vector<Choice> choices(const Wgmma& instruction, Target target, const State* state);
std::vector<Choice> choices(const MmaSync& instruction, Target target, const State* state);
std::vector<Choice> choices(const Tcgen05Mma& instruction, Target target, const State* state);
std::vector<Choice> choices(const TmemMove& instruction, Target target, const State* state);

/// Returns the place of an element of an operand.
using Places = std::function<Place(int row, int col)>;
Places places(const Wgmma& instruction, const State& state, Role role);
Places places(const MmaSync& instruction, const State& state, Role role);
Places places(const Tcgen05Mma& instruction, const State& state, Role role);
Places places(const TmemMove& instruction, const State& state, Role role);

ResultAsA result_as_a(const Wgmma& instruction);
ResultAsA result_as_a(const MmaSync& instruction);
ResultAsA result_as_a(const Tcgen05Mma& instruction);
ResultAsA result_as_a(const TmemMove& instruction);

std::vector<SmemOperand> smem_operands(const Wgmma& instruction, const State& state);
std::vector<SmemOperand> smem_operands(const MmaSync& instruction, const State& state);
std::vector<SmemOperand> smem_operands(const Tcgen05Mma& instruction, const State& state);
std::vector<SmemOperand> smem_operands(const TmemMove& instruction, const State& state);

/// A state that holds the operands.
State place(const Wgmma& instruction, const Placement& placement, const Operands& operands, RandomStream& filler);
State place(const MmaSync& instruction, const Placement& placement, const Operands& operands, RandomStream& filler);
State place(const Tcgen05Mma& instruction, const Placement& placement, const Operands& operands, RandomStream& filler);

/// Every mnemonic of a form with one of its shapes.
std::vector<Instruction> instances_of_wgmma(const Form& form);
std::vector<Instruction> instances_of_mma_sync(const Form& form);
std::vector<Instruction> instances_of_tcgen05(const Form& form);
std::vector<Instruction> instances_of_tmem_move(const Form& form);

/// Draws at random what a mnemonic leaves open: types, shape, operand sources, signs, selectors. `round` is the number
/// of earlier draws for the mnemonic. The result is legal on `target`.
Instruction vary(const Wgmma& mnemonic, Target target, int64_t round, RandomStream& random);
Instruction vary(const MmaSync& mnemonic, Target target, int64_t round, RandomStream& random);
Instruction vary(const Tcgen05Mma& mnemonic, Target target, int64_t round, RandomStream& random);
Instruction vary(const TmemMove& mnemonic, Target target, int64_t round, RandomStream& random);

/// Extracts codes from their containers; the inverse adds random padding bits. e2m1 is in the middle of its byte, other
/// types at the bottom.
Matrix codes_of(Matrix containers, int container_bits);
Matrix containers_of(Matrix codes, int container_bits, RandomStream& filler);
/// For several products: the row of B that each stored element of A multiplies, as in Operands::selected_k.
std::vector<uint16_t> positions_of_products(const Mma& mma);

/// Operands without matrices: the signs, saturation and rounding of the instruction.
inline Operands options_of(const Mma& mma) {
  return {.negate_a = mma.negate_a,
          .negate_b = mma.negate_b,
          .saturate = mma.saturate,
          .exclusive_or = mma.bit_operation == BitOperation::xor_popc,
          .rounding = mma.rounding,
          .scale_input_d = mma.scale_input_d};
}
/// Writes `width_bits` bits of a register.
void set_bits(std::span<uint32_t> words, const RegisterPlace& place, int width_bits, uint32_t value);
/// `count` words from `filler`.
std::vector<uint32_t> filled(int64_t count, RandomStream& filler);

}  // namespace bitmma::family
