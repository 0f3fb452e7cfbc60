// SPDX-License-Identifier: MIT
// wgmma.mma_async: its description, its buffers, and the conversion of operands and D.
#include "wgmma.hpp"

#include <fmt/format.h>

#include "../../arithmetic/accumulator_blocks.hpp"
#include "../../memory/fragment_rows.hpp"
#include "../family.hpp"
#include "../image_plan.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/metadata.hpp"
#include "bitmma/memory/smem.hpp"

namespace bitmma::family {
namespace {

constexpr Target descriptors_of = Target::sm_90a;

SmemMatrix operand_matrix(Format format, uint64_t descriptor, bool transpose, int rows, int cols) {
  return {.descriptor = decode_smem_descriptor(descriptors_of, descriptor),
          .major = transpose ? Major::mn : Major::k,
          .element_bits = info(format).bits,
          .rows = rows,
          .cols = cols};
}

Selection selection_of(const Wgmma& instruction, const State& state) {
  return select(metadata_layout(info(instruction.a).bits), state.words(Field::metadata), instruction.m,
                instruction.sparsity_selector);
}

/// The operands of D^T, gathered in multiplication order; see Operands::swapped.
Operands gather_swapped(const Wgmma& instruction, const State& state) {
  const std::span<const uint8_t> smem = state.bytes(Field::smem);
  Operands operands{.a = gather(smem, SmemMap(b_matrix(instruction, state)), instruction.b, "B"),
                    .b = gather_transposed(smem, SmemMap(a_matrix(instruction, state)), instruction.a, "A"),
                    .negate_a = instruction.negate_b,
                    .negate_b = instruction.negate_a,
                    .saturate = instruction.saturate,
                    .swapped = true};
  if (instruction.enable_input_d) {
    operands.c = gather_transposed(state.words(Field::accumulator), d_fragment(instruction), instruction.d, "c_regs");
  }
  return operands;
}

/// Everything but C.
Operands gather_factors(const Wgmma& instruction, const State& state) {
  const std::span<const uint8_t> smem = state.bytes(Field::smem);
  Operands operands{
      .a = instruction.a_source == OperandSource::registers
               ? bitmma::gather(state.words(Field::a_regs), a_fragment(instruction), instruction.a, "a_regs")
               : bitmma::gather(smem, SmemMap(a_matrix(instruction, state)), instruction.a, "A"),
      .b = gather_transposed(smem, SmemMap(b_matrix(instruction, state)), instruction.b, "B"),
      .negate_a = instruction.negate_a,
      .negate_b = instruction.negate_b,
      .saturate = instruction.saturate};
  if (instruction.sparse) {
    Selection selection = selection_of(instruction, state);
    operands.selected_k = std::move(selection.k);
    operands.mixed = std::move(selection.mixed);
  }
  return operands;
}

}  // namespace

SmemMatrix a_matrix(const Wgmma& instruction, const State& state) {
  return operand_matrix(instruction.a, state.number(Field::a_desc), instruction.transpose_a, instruction.m,
                        describe(instruction).stored_k());
}

SmemMatrix b_matrix(const Wgmma& instruction, const State& state) {
  return operand_matrix(instruction.b, state.number(Field::b_desc), instruction.transpose_b, instruction.n,
                        instruction.k);
}

Fragment a_fragment(const Wgmma& instruction) {
  return wgmma_a_fragment(instruction.a, describe(instruction).stored_k());
}

Fragment d_fragment(const Wgmma& instruction) { return wgmma_d_fragment(instruction.d, instruction.n); }

Mma describe(const Wgmma& instruction) {
  return {.family = Family::wgmma,
          .m = instruction.m,
          .n = instruction.n,
          .k = instruction.k,
          .d = instruction.d,
          .a = instruction.a,
          .b = instruction.b,
          .sparse = instruction.sparse,
          .a_source = instruction.a_source,
          .b_source = OperandSource::smem,
          .a_container_bits = info(instruction.a).bits,
          .b_container_bits = info(instruction.b).bits,
          .a_major = instruction.transpose_a ? Major::mn : Major::k,
          .b_major = instruction.transpose_b ? Major::mn : Major::k,
          .enable_input_d = instruction.enable_input_d,
          .negate_a = instruction.negate_a,
          .negate_b = instruction.negate_b,
          .saturate = instruction.saturate,
          .sparsity_selector = instruction.sparsity_selector,
          .bit_operation = instruction.bit_operation};
}

FieldRules fields(const Wgmma& instruction) {
  FieldRules rules{{.field = Field::smem, .extents = {-1}, .meaning = "shared memory of the CTA, from address 0"}};
  if (instruction.a_source == OperandSource::registers) {
    rules.push_back(
        {.field = Field::a_regs, .extents = {128, 4}, .meaning = "A: four registers of each thread of the warpgroup"});
  } else {
    rules.push_back({.field = Field::a_desc, .meaning = "the shared-memory descriptor of A"});
  }
  rules.push_back({.field = Field::b_desc, .meaning = "the shared-memory descriptor of B"});
  if (instruction.sparse) {
    rules.push_back(
        {.field = Field::metadata, .extents = {128}, .meaning = "sparse metadata: one register per thread"});
  }
  rules.push_back({.field = Field::accumulator,
                   .access = Access::read_write,
                   .required = instruction.enable_input_d,
                   .extents = {128, d_fragment(instruction).registers()},
                   .meaning = "the accumulator registers of each thread of the warpgroup"});
  return rules;
}

std::vector<Violation> state_violations(const Wgmma&, const State&) { return {}; }

std::vector<Tile> gather(const Wgmma& instruction, const State& state, const AccumulatorModel* model) {
  const bool swap = model && instruction.a_source == OperandSource::smem && !instruction.sparse &&
                    prefers_swapped(*model, instruction.m, instruction.n);
  std::vector<Tile> tiles(1);
  tiles.front().operands = swap    ? gather_swapped(instruction, state)
                           : model ? gather_factors(instruction, state)
                                   : gather_whole(instruction, state);
  return tiles;
}

Operands gather_whole(const Wgmma& instruction, const State& state) {
  Operands operands = gather_factors(instruction, state);
  if (instruction.enable_input_d) operands.c = recorded(instruction, state);
  return operands;
}

AccumulatorBlocks accumulator(const Wgmma& instruction, State& state) {
  const Fragment fragment = d_fragment(instruction);
  uint32_t* const registers = instruction.enable_input_d
                                  ? state.writable_words(Field::accumulator).data()
                                  : state.overwrite_words(Field::accumulator, {128, fragment.registers()}).data();
  AccumulatorBlocks blocks{.write = [=](int row, int rows, const uint32_t* codes, int stride) {
    scatter_rows(codes, stride, fragment, row, rows, registers);
  }};
  if (instruction.enable_input_d) {
    blocks.read = [=](int row, int rows, uint32_t* codes, int stride) {
      gather_rows(registers, fragment, row, rows, codes, stride);
    };
  }
  if (fragment.element_bits == 32)
    blocks.in_place = {.words = registers, .stride = fragment.registers(), .is_fragment = true};
  return blocks;
}

void scatter(const Wgmma& instruction, const Tile& tile, const Matrix& d, State& state) {
  const Fragment fragment = d_fragment(instruction);
  const std::span<uint32_t> d_regs = state.overwrite_words(Field::accumulator, {128, fragment.registers()});
  if (tile.operands.swapped) scatter_transposed(d, fragment, d_regs, "d_regs");
  else bitmma::scatter(d, fragment, d_regs, "d_regs");
}

Matrix recorded(const Wgmma& instruction, const State& state) {
  return bitmma::gather(state.words(Field::accumulator), d_fragment(instruction), instruction.d, "c_regs");
}

std::vector<Violation> warnings(const Wgmma& instruction, Target, const State& state) {
  std::vector<Violation> violations;
  for (const SmemOperand& operand : smem_operands(instruction, state)) {
    append_warnings(violations, operand.role == Role::a ? "A" : "B", operand.matrix);
  }
  if (!instruction.sparse) return violations;
  if (const int64_t undefined = selection_of(instruction, state).undefined_chunks; undefined > 0) {
    violations.push_back(
        {.field = "metadata",
         .seen = fmt::format("{} undefined {}", undefined, undefined == 1 ? "chunk" : "chunks"),
         .expected = info(instruction.a).bits == 32 ? "0x4 and 0xE" : "two ascending positions per chunk",
         .fix = "bitmma computes what an H200 does; PTX does not define the result",
         .source = "PTX ISA 9.7.15.6.2; docs/evidence.md"});
  }
  return violations;
}

std::vector<Choice> choices(const Wgmma&, Target, const State*) { return {}; }

Places places(const Wgmma& instruction, const State& state, Role role) {
  if (role == Role::metadata) {
    return [layout = metadata_layout(info(instruction.a).bits), selector = instruction.sparsity_selector](int row,
                                                                                                          int chunk) {
      return Place(metadata_place_of(layout, row, chunk * layout.pattern.stored_per_chunk, selector));
    };
  }
  const bool in_registers = role == Role::d || (role == Role::a && instruction.a_source == OperandSource::registers);
  if (in_registers) {
    return [fragment = role == Role::d ? d_fragment(instruction) : a_fragment(instruction)](int row, int col) {
      return Place(place_of(fragment, row, col));
    };
  }
  const bool is_a = role == Role::a;
  const SmemMap map(is_a ? a_matrix(instruction, state) : b_matrix(instruction, state));
  return [map, is_a, bits = info(is_a ? instruction.a : instruction.b).bits](int row, int col) {
    return Place(smem_read(map, 0, is_a ? row : col, is_a ? col : row, bits));
  };
}

ResultAsA result_as_a(const Wgmma& instruction) { return {.d = d_fragment(instruction), .a = a_fragment(instruction)}; }

std::vector<SmemOperand> smem_operands(const Wgmma& instruction, const State& state) {
  std::vector<SmemOperand> operands;
  if (instruction.a_source == OperandSource::smem) {
    operands.push_back({.role = Role::a, .matrix = a_matrix(instruction, state)});
  }
  operands.push_back({.role = Role::b, .matrix = b_matrix(instruction, state)});
  return operands;
}

State place(const Wgmma& instruction, const Placement& placement, const Operands& operands, RandomStream& filler) {
  const bool a_in_smem = instruction.a_source == OperandSource::smem;
  const Mma mma = describe(instruction);
  ImagePlan plan(descriptors_of);
  if (a_in_smem) {
    plan.add("A", placement.a, {.element_bits = mma.a_container_bits, .rows = mma.m, .cols = mma.stored_k()});
  }
  plan.add("B", placement.b, {.element_bits = mma.b_container_bits, .rows = mma.n, .cols = mma.k});
  plan.require_fits();
  State state;
  std::vector<uint8_t> smem(static_cast<size_t>(plan.image_bytes()));
  for (size_t i = 0; i < smem.size(); i += 4) {
    const uint32_t word = filler.word();
    for (size_t byte = 0; byte < 4; ++byte) smem[i + byte] = static_cast<uint8_t>(word >> 8 * byte);
  }
  if (a_in_smem) {
    state.set(Field::a_desc, encode(plan.matrix(0).descriptor));
    bitmma::scatter(operands.a, SmemMap(a_matrix(instruction, state)), smem, "A");
  } else {
    const Fragment fragment = a_fragment(instruction);
    std::vector<uint32_t> a_regs(static_cast<size_t>(fragment.words()));
    bitmma::scatter(operands.a, fragment, a_regs, "a_regs");
    state.set(Field::a_regs, std::move(a_regs), {128, 4});
  }
  state.set(Field::b_desc, encode(plan.matrix(a_in_smem ? 1 : 0).descriptor));
  bitmma::scatter(transposed(operands.b), SmemMap(b_matrix(instruction, state)), smem, "B");
  const auto image_bytes = static_cast<int64_t>(smem.size());
  state.set(Field::smem, std::move(smem), {image_bytes});
  if (instruction.sparse) {
    state.set(Field::metadata,
              encode_metadata(metadata_layout(info(instruction.a).bits), operands.selected_k, instruction.m,
                              instruction.sparsity_selector),
              {128});
  }
  const Fragment fragment = d_fragment(instruction);
  std::vector<uint32_t> c_regs(static_cast<size_t>(fragment.words()));
  if (operands.c) {
    bitmma::scatter(*operands.c, fragment, c_regs, "c_regs");
  } else {
    for (uint32_t& word : c_regs) word = filler.word();  // never read
  }
  state.set(Field::accumulator, std::move(c_regs), {128, fragment.registers()});
  return state;
}

}  // namespace bitmma::family
