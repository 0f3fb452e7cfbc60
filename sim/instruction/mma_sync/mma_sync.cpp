// mma.sync with block scales: one warp, everything in registers, no descriptors and no Tensor Memory.
//
//   A 4 registers, B 2, C and D 4; scales of A in lanes 4 (m % 8) + 2 thread_id_a + m / 8, of B in 4 n + thread_id_b
//
// Sources: PTX ISA 9.7.14.3 and 9.7.14.5.14, CUTLASS for every lane and value. No sm_120 GPU was measured for this
// project, and no result word of one is known: the arithmetic is tcgen05's, by choice.
#include <fmt/format.h>

#include "../family.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/metadata.hpp"

namespace bitmma::family {
namespace {

constexpr int warp = 32;

Fragment a_fragment(const MmaSync& instruction) {
  const Mma mma = describe(instruction);
  return mma_a_fragment(mma.a_container_bits, mma.stored_k());
}

Fragment b_fragment(const MmaSync& instruction) {
  const Mma mma = describe(instruction);
  return mma_b_fragment(mma.b_container_bits, mma.k);
}

Selection selection_of(const MmaSync& instruction, const State& state) {
  const Mma mma = describe(instruction);
  const std::span<const uint32_t> metadata = state.words(Field::metadata);
  return select(sparse_pattern(mma.a_container_bits), mma.m, mma.stored_k(), [&](int row, int chunk) {
    const RegisterPlace place = ordered_metadata_place(row, chunk);
    return metadata[static_cast<size_t>(place.thread)] >> place.bit & 0xF;
  });
}

RegisterPlace scale_place(const MmaSync& instruction, Role role, int row, int j) {
  return role == Role::a ? mma_scale_a_place(row, j, instruction.byte_id_a, instruction.thread_id_a)
                         : mma_scale_b_place(row, j, instruction.byte_id_b, instruction.thread_id_b);
}

FieldRule registers(Field field, const Fragment& fragment, std::string_view meaning) {
  return {.field = field, .extents = {warp, fragment.registers()}, .meaning = meaning};
}

}  // namespace

Mma describe(const MmaSync& instruction) {
  return {.family = Family::mma_sync,
          .m = instruction.m,
          .n = instruction.n,
          .k = instruction.k,
          .d = instruction.d,
          .a = instruction.a,
          .b = instruction.b,
          .sparse = instruction.sparse,
          .a_source = OperandSource::registers,
          .b_source = OperandSource::registers,
          .a_container_bits = kind_container_bits(instruction.kind, instruction.a),
          .b_container_bits = kind_container_bits(instruction.kind, instruction.b),
          .sparsity_selector = instruction.sparsity_selector,
          .scaling = instruction.kind == MmaKind::mxf8f6f4 ? Scaling::whole_k : Scaling::groups_of_16,
          .scale_count = scale_count_of(instruction.kind, instruction.scale_vec, instruction.k, instruction.sparse),
          .scale_type = instruction.scale_type};
}

FieldRules fields(const MmaSync& instruction) {
  FieldRules rules{registers(Field::a_regs, a_fragment(instruction), "A: registers of each lane"),
                   registers(Field::b_regs, b_fragment(instruction), "B: registers of each lane")};
  FieldRule c = registers(Field::accumulator, mma_d_fragment(), "C before and D after: registers of each lane");
  c.access = Access::read_write;
  rules.push_back(c);
  rules.push_back({.field = Field::scale_a, .extents = {warp, 1}, .meaning = "scales of A: a register a lane"});
  rules.push_back({.field = Field::scale_b, .extents = {warp, 1}, .meaning = "scales of B: a register a lane"});
  if (instruction.sparse) {
    rules.push_back({.field = Field::metadata, .extents = {warp, 1}, .meaning = "sparse metadata: a register a lane"});
  }
  return rules;
}

std::vector<Violation> state_violations(const MmaSync&, const State&) { return {}; }

std::vector<Tile> gather(const MmaSync& instruction, const State& state, const AccumulatorModel*) {
  std::vector<Tile> tiles(1);
  tiles.front().operands = gather_whole(instruction, state);
  return tiles;
}

Operands gather_whole(const MmaSync& instruction, const State& state) {
  const Mma mma = describe(instruction);
  Operands operands{
      .a = codes_of(bitmma::gather(state.words(Field::a_regs), a_fragment(instruction), instruction.a, "a_regs"),
                    mma.a_container_bits),
      .b = transposed(
          codes_of(bitmma::gather(state.words(Field::b_regs), b_fragment(instruction), instruction.b, "b_regs"),
                   mma.b_container_bits)),
      .c = recorded(instruction, state)};
  operands.scales = BlockScales{.a = Matrix(mma.scale_type, mma.m, mma.scale_count),
                                .b = Matrix(mma.scale_type, mma.scale_count, mma.n)};
  const auto byte_at = [](std::span<const uint32_t> words, const RegisterPlace& place) {
    return words[static_cast<size_t>(place.thread)] >> place.bit & 0xFF;
  };
  for (int j = 0; j < mma.scale_count; ++j) {
    for (int row = 0; row < mma.m; ++row) {
      operands.scales->a(row, j) = byte_at(state.words(Field::scale_a), scale_place(instruction, Role::a, row, j));
    }
    for (int col = 0; col < mma.n; ++col) {
      operands.scales->b(j, col) = byte_at(state.words(Field::scale_b), scale_place(instruction, Role::b, col, j));
    }
  }
  if (instruction.sparse) operands.selected_k = selection_of(instruction, state).k;
  return operands;
}

void scatter(const MmaSync&, const Tile&, const Matrix& d, State& state) {
  const Fragment fragment = mma_d_fragment();
  bitmma::scatter(d, fragment, state.overwrite_words(Field::accumulator, {warp, fragment.registers()}), "d_regs");
}

Matrix recorded(const MmaSync& instruction, const State& state) {
  return bitmma::gather(state.words(Field::accumulator), mma_d_fragment(), instruction.d, "c_regs");
}

std::vector<Violation> warnings(const MmaSync& instruction, const State& state) {
  if (!instruction.sparse) return {};
  const int64_t undefined = selection_of(instruction, state).undefined_chunks;
  if (undefined == 0) return {};
  return {{.field = "metadata",
           .seen = fmt::format("{} undefined {}", undefined, undefined == 1 ? "chunk" : "chunks"),
           .expected = "two rising positions per chunk",
           .fix = "the result is what an H200 would do with them, not what PTX promises",
           .source = "PTX ISA 9.7.14.6; docs/evidence.md"}};
}

std::vector<Choice> choices(const MmaSync& instruction, const State*) {
  std::vector<Choice> found;
  if (instruction.sparse) found.push_back({"undefined metadata selects as on an H200"});
  const auto has_padding = [&](Format format) {
    return instruction.kind == MmaKind::mxf8f6f4 && info(format).bits < 8;
  };
  if (has_padding(instruction.a) || has_padding(instruction.b)) {
    found.push_back({"padding bits of registers are ignored"});
  }
  return found;
}

Places places(const MmaSync& instruction, const State&, Role role) {
  const Mma mma = describe(instruction);
  const Fragment fragment = role == Role::a   ? a_fragment(instruction)
                            : role == Role::b ? b_fragment(instruction)
                                              : mma_d_fragment();
  const int shift = role == Role::a   ? container_shift(mma.a, mma.a_container_bits)
                    : role == Role::b ? container_shift(mma.b, mma.b_container_bits)
                                      : 0;
  return [=](int row, int col) {
    RegisterPlace place = role == Role::b ? place_of(fragment, col, row) : place_of(fragment, row, col);
    place.bit += shift;
    return Place(place);
  };
}

std::vector<SmemOperand> smem_operands(const MmaSync&, const State&) { return {}; }

State place(const MmaSync& instruction, const Placement&, const Operands& operands, RandomStream& filler) {
  const Mma mma = describe(instruction);
  const Fragment a = a_fragment(instruction), b = b_fragment(instruction), d = mma_d_fragment();
  std::vector<uint32_t> a_regs = filled(a.words(), filler), b_regs = filled(b.words(), filler),
                        c_regs = filled(d.words(), filler), scale_a = filled(warp, filler),
                        scale_b = filled(warp, filler);
  bitmma::scatter(containers_of(operands.a, mma.a_container_bits, filler), a, a_regs, "a_regs");
  bitmma::scatter(containers_of(transposed(operands.b), mma.b_container_bits, filler), b, b_regs, "b_regs");
  if (operands.c) bitmma::scatter(*operands.c, d, c_regs, "c_regs");
  for (int j = 0; j < mma.scale_count; ++j) {
    for (int row = 0; row < mma.m; ++row) {
      set_bits(scale_a, scale_place(instruction, Role::a, row, j), 8, operands.scales->a(row, j));
    }
    for (int col = 0; col < mma.n; ++col) {
      set_bits(scale_b, scale_place(instruction, Role::b, col, j), 8, operands.scales->b(j, col));
    }
  }
  State state;
  state.set(Field::a_regs, std::move(a_regs), {warp, a.registers()});
  state.set(Field::b_regs, std::move(b_regs), {warp, b.registers()});
  state.set(Field::accumulator, std::move(c_regs), {warp, d.registers()});
  state.set(Field::scale_a, std::move(scale_a), {warp, 1});
  state.set(Field::scale_b, std::move(scale_b), {warp, 1});
  if (!instruction.sparse) return state;
  std::vector<uint32_t> metadata = filled(warp, filler);
  const SparsePattern& pattern = sparse_pattern(mma.a_container_bits);
  const auto per_chunk = static_cast<size_t>(pattern.stored_per_chunk);
  for (int row = 0; row < mma.m; ++row) {
    for (int chunk = 0; chunk * pattern.chunk < mma.k; ++chunk) {
      const size_t first =
          static_cast<size_t>(row) * static_cast<size_t>(mma.stored_k()) + static_cast<size_t>(chunk) * per_chunk;
      set_bits(metadata, ordered_metadata_place(row, chunk), 4,
               nibble_of(pattern, std::span(operands.selected_k).subspan(first, per_chunk)));
    }
  }
  state.set(Field::metadata, std::move(metadata), {warp, 1});
  return state;
}

}  // namespace bitmma::family
