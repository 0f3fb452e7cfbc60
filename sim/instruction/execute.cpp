// SPDX-License-Identifier: MIT
#include "bitmma/instruction/execute.hpp"

#include <fmt/format.h>

#include "../arithmetic/accumulator_blocks.hpp"
#include "../arithmetic/checks.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/statement.hpp"
#include "family.hpp"
#include "mma_sync/warp_execution.hpp"

namespace bitmma {
namespace {

/// Descriptors of sm_107 reach twice as far as bitmma's images of shared memory: 15 address bits in units of 16.
void refuse_far_addresses(Target target, const State& state, std::vector<Violation>& violations) {
  if (info(target).smem_descriptor != SmemDescriptorVersion::sm_107) return;
  constexpr int64_t window_bytes = 1 << 18;
  for (const Field field : {Field::a_desc, Field::b_desc, Field::s_desc}) {
    if (!state.has(field)) continue;
    const SmemDescriptor far = decode_smem_descriptor(target, state.number(field));
    const int64_t leading = far.strides.leading_dim_byte_offset;
    if (far.start_address_bytes < window_bytes && leading < window_bytes) continue;
    violations.push_back(
        {.code = ViolationCode::too_large,
         .field = std::string(info(field).name),
         .seen = fmt::format("start {:#x}, leading dimension {:#x}", far.start_address_bytes, leading),
         .expected = fmt::format("below {:#x}, the largest shared memory image of bitmma", window_bytes),
         .fix = "legal in PTX, but bitmma supports only 256 KiB of the 327 KiB of a block",
         .source = "PTX ISA 9.4, Table 49"});
  }
}

/// Checks that the instruction is legal on the target and that the state has the buffers it reads.
void require_runnable(const Instruction& instruction, Target target, const State& state) {
  require_legal(instruction, target);
  family::require_readable(instruction, target, fields_of(instruction), state);
}

/// Reads A and B of everything before writing anything. A single product reads C and writes D in place, in blocks.
template <typename I>
void run(const I& instruction, const AccumulatorModel& model, State& state) {
  if (model.output != instruction.d) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = "model",
                 .seen = fmt::format("D of type {}", info(model.output).name),
                 .expected = fmt::format("{}, the type of the instruction's D", info(instruction.d).name)});
  }
  if constexpr (requires { family::execute_again(instruction, model, state); }) {
    if (family::execute_again(instruction, model, state)) return;
  }
  std::vector<family::Tile> tiles = family::gather(instruction, state, &model);
  if constexpr (requires { family::accumulator(instruction, state); }) {
    Operands& operands = tiles.front().operands;
    if (tiles.size() == 1 && !operands.swapped) {
      require_agreement(model, operands, Inputs::of_model);
      return multiply_accumulate(model, std::move(operands), family::accumulator(instruction, state));
    }
  }
  if (tiles.size() == 1) {
    family::scatter(instruction, tiles.front(), multiply_accumulate(model, tiles.front().operands), state);
    return;
  }
  std::vector<Matrix> results;
  for (const family::Tile& tile : tiles) results.push_back(multiply_accumulate(model, tile.operands));
  for (size_t i = 0; i < tiles.size(); ++i) family::scatter(instruction, tiles[i], results[i], state);
}

}  // namespace

void family::require_readable(const Instruction& instruction, Target target, const FieldRules& rules,
                              const State& state) {
  std::vector<Violation> violations = violations_of_read(instruction, rules, state);
  if (violations.empty()) refuse_far_addresses(target, state, violations);
  if (!violations.empty()) throw Error(std::move(violations));
}

void family::run(const Instruction& instruction, const AccumulatorModel* model, State& state) {
  dispatch(
      [&](const auto& alternative) {
        if constexpr (requires { family::move(alternative, state); }) family::move(alternative, state);
        else bitmma::run(alternative, *model, state);
      },
      instruction);
}

void execute(const Instruction& instruction, Target target, State& state, const AccumulatorModel* model) {
  require_runnable(instruction, target, state);
  family::run(instruction, model || !is_mma(instruction) ? model : &model_for(instruction, target), state);
}

Matrix result_of(const Instruction& instruction, Target target, const State& state, const AccumulatorModel* model) {
  require_runnable(instruction, target, state);
  const AccumulatorModel* row = model || !is_mma(instruction) ? model : &model_for(instruction, target);
  return family::dispatch(
      [&](const auto& alternative) -> Matrix {
        if constexpr (requires { family::gather(alternative, state, row); }) {
          // In registers D is exactly the product. In Tensor Memory disabled lanes keep their old values.
          if (!state.has(Field::tmem)) {
            return multiply_accumulate(*row, family::gather(alternative, state, nullptr).front().operands);
          }
        }
        State after = state;
        if constexpr (requires { family::move(alternative, after); }) family::move(alternative, after);
        else run(alternative, *row, after);
        return family::recorded(alternative, after);
      },
      instruction);
}

Matrix recorded_result(const Instruction& instruction, const State& state) {
  std::vector<Violation> violations = family::violations_of_written(instruction, state);
  if (!violations.empty()) throw Error(std::move(violations));
  return family::dispatch([&](const auto& alternative) { return family::recorded(alternative, state); }, instruction);
}

Operands gather_operands(const Instruction& instruction, Target target, const State& state) {
  require_runnable(instruction, target, state);
  return family::dispatch(
      [&](const auto& alternative) -> Operands {
        if constexpr (requires { family::gather_whole(alternative, state); })
          return family::gather_whole(alternative, state);
        throw Error({.code = ViolationCode::wrong_instruction,
                     .field = "instruction",
                     .seen = print(instruction),
                     .expected = "a matrix instruction"});
      },
      instruction);
}

Matrix multiply(const Instruction& instruction, const Matrix& a, const Matrix& b) {
  return multiply(instruction, default_target(instruction), a, b);
}

Matrix multiply(const Instruction& instruction, Target target, const Matrix& a, const Matrix& b, const Matrix* c,
                const BlockScales* scales) {
  require_legal(instruction, target);
  LogicalMatrices logical{.a = a, .b = b};
  const Instruction statement = with_enable_input_d(instruction, c != nullptr);
  const Mma mma = mma_of(statement);
  if (c) logical.c = *c;
  else if (mma.enable_input_d) logical.c = Matrix(mma.c, mma.m, mma.n);  // C is always read: +0 adds nothing
  if (scales && mma.scale_count == 0) {
    throw Error({.code = ViolationCode::no_effect,
                 .field = "scales",
                 .seen = "given",
                 .expected = "none: " + print(statement) + " has no block scales"});
  }
  if (scales) logical.scale_a = scales->a, logical.scale_b = scales->b;
  return multiply_accumulate(model_for(instruction, target), operands_of(statement, logical));
}

const AccumulatorModel& model_for(const Instruction& instruction, Target target) {
  const Mma mma = mma_of(instruction);
  const AccumulatorModel* model =
      find_accumulator_model(target, mma.family, mma.a, mma.b, mma.d, mma.scaling, mma.products > 1);
  if (!model) {
    throw Error({.code = ViolationCode::unsupported_target,
                 .field = "accumulator model",
                 .seen = fmt::format("{} on {}", print(instruction), print(target)),
                 .expected = "an instruction with a model row on this target"});
  }
  return *model;
}

std::vector<Violation> warnings_of(const Instruction& instruction, Target target, const State& state) {
  require_runnable(instruction, target, state);
  return as_warnings(family::dispatch(
      [&](const auto& alternative) { return family::warnings(alternative, target, state); }, instruction));
}

}  // namespace bitmma
