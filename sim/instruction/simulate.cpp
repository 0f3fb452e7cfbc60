#include "bitmma/instruction/simulate.hpp"

#include <fmt/format.h>

#include "bitmma/core/bits.hpp"
#include "bitmma/instruction/legality.hpp"
#include "bitmma/instruction/mma_sync.hpp"

namespace bitmma {
namespace {

Selection select_mma_sync(const Instruction& instruction, const Machine& machine) {
  if (machine.metadata.size() != 32) {
    throw Error({.field = "metadata registers",
                 .seen = std::to_string(machine.metadata.size()),
                 .legal = "32, one a thread of the warp"});
  }
  return select(sparse_pattern(instruction.container_bits(instruction.a)), instruction.m, instruction.stored_k(),
                [&](int row, int chunk) {
                  const RegisterPlace place = ordered_metadata_place(row, chunk);
                  return machine.metadata[static_cast<size_t>(place.thread)] >> place.bit & 0xF;
                });
}

SmemMatrix operand_matrix(Format format, uint64_t descriptor, Major major, int rows, int cols) {
  return {.descriptor = decode_smem_descriptor(Arch::sm_90a, descriptor),
          .major = major,
          .element_bits = info(format).bits,
          .rows = rows,
          .cols = cols};
}

/// Codes out of their containers: e2m1 sits in the middle of its byte, the others at the bottom.
BitMatrix codes_of(BitMatrix containers, int container_bits) {
  const FormatInfo& format = info(containers.format);
  const int shift = container_shift(format.id, container_bits);
  containers.bits = containers.bits.unaryExpr(
      [&](uint32_t word) { return word >> shift & static_cast<uint32_t>(low_mask(format.bits)); });
  return containers;
}

void require_words(std::span<const uint32_t> words, std::string_view name) {
  if (words.size() != 32)
    throw Error({.field = std::string(name),
                 .seen = std::to_string(words.size()),
                 .legal = "32 registers, one a thread of the warp"});
}

Operands gather_mma_sync(const Instruction& instruction, const Machine& machine) {
  const int a_bits = instruction.container_bits(instruction.a), b_bits = instruction.container_bits(instruction.b);
  Operands operands{
      .a = codes_of(gather(machine.a_regs, a_fragment(instruction), instruction.a, "a_regs"), a_bits),
      .b = transposed(codes_of(gather(machine.b_regs, b_fragment(instruction), instruction.b, "b_regs"), b_bits)),
      .c = gather(machine.c_regs, d_fragment(instruction), instruction.d, "c_regs"),
      .selected_k = {}};
  require_words(machine.scale_a, "scale_a");
  require_words(machine.scale_b, "scale_b");
  const int count = instruction.scale_count();
  operands.scales = BlockScales{.a = BitMatrix(instruction.scale_type, instruction.m, count),
                                .b = BitMatrix(instruction.scale_type, count, instruction.n)};
  const auto byte_at = [](std::span<const uint32_t> words, const RegisterPlace& place) {
    return words[static_cast<size_t>(place.thread)] >> place.bit & 0xFF;
  };
  for (int j = 0; j < count; ++j) {
    for (int row = 0; row < instruction.m; ++row)
      operands.scales->a(row, j) = byte_at(machine.scale_a, scale_a_place(instruction, row, j));
    for (int col = 0; col < instruction.n; ++col)
      operands.scales->b(j, col) = byte_at(machine.scale_b, scale_b_place(instruction, col, j));
  }
  if (instruction.sparse) operands.selected_k = select_mma_sync(instruction, machine).k;
  return operands;
}

BitMatrix gather_a(const Instruction& instruction, const Machine& machine) {
  if (instruction.a_source == OperandSource::registers) {
    return gather(machine.a_regs, a_fragment(instruction), instruction.a, "a_regs");
  }
  return gather(machine.smem, SmemMap(a_matrix(instruction, machine.a_desc)), instruction.a, "A");
}

BitMatrix gather_b(const Instruction& instruction, const Machine& machine) {
  return gather_transposed(machine.smem, SmemMap(b_matrix(instruction, machine.b_desc)), instruction.b, "B");
}

/// D^T, from operands gathered as they are multiplied: see is_better_turned.
BitMatrix simulate_turned(const Instruction& instruction, const Machine& machine, const AccumulatorModel& model) {
  Operands operands{
      .a = gather(machine.smem, SmemMap(b_matrix(instruction, machine.b_desc)), instruction.b, "B"),
      .b = gather_transposed(machine.smem, SmemMap(a_matrix(instruction, machine.a_desc)), instruction.a, "A"),
      .c = std::nullopt,
      .selected_k = {},
      .negate_a = instruction.imm_scale_b == -1,
      .negate_b = instruction.imm_scale_a == -1,
      .saturate = instruction.satfinite};
  if (instruction.scale_d == 1)
    operands.c = gather_transposed(machine.c_regs, d_fragment(instruction), instruction.d, "c_regs");
  return multiply_accumulate(model, operands);
}

}  // namespace

SmemMatrix a_matrix(const Instruction& instruction, uint64_t a_desc) {
  return operand_matrix(instruction.a, a_desc, instruction.a_major(), instruction.m, instruction.stored_k());
}

SmemMatrix b_matrix(const Instruction& instruction, uint64_t b_desc) {
  return operand_matrix(instruction.b, b_desc, instruction.b_major(), instruction.n, instruction.k);
}

Fragment a_fragment(const Instruction& instruction) {
  if (instruction.family == Family::mma_sync)
    return mma_a_fragment(instruction.container_bits(instruction.a), instruction.stored_k());
  return wgmma_a_fragment(instruction.a, instruction.stored_k());
}

Fragment b_fragment(const Instruction& instruction) {
  return mma_b_fragment(instruction.container_bits(instruction.b), instruction.k);
}

Fragment d_fragment(const Instruction& instruction) {
  return instruction.family == Family::mma_sync ? mma_d_fragment() : wgmma_d_fragment(instruction.d, instruction.n);
}

Operands gather_operands(const Instruction& instruction, const Machine& machine) {
  if (instruction.family == Family::mma_sync) return gather_mma_sync(instruction, machine);
  Operands operands{.a = gather_a(instruction, machine),
                    .b = gather_b(instruction, machine),
                    .c = std::nullopt,
                    .selected_k = {},
                    .negate_a = instruction.imm_scale_a == -1,
                    .negate_b = instruction.imm_scale_b == -1,
                    .saturate = instruction.satfinite};
  if (instruction.scale_d == 1) {
    operands.c = gather(machine.c_regs, d_fragment(instruction), instruction.d, "c_regs");
  }
  if (instruction.sparse) {
    Selection selection = select(metadata_layout(info(instruction.a).bits), machine.metadata, instruction.m,
                                 instruction.sparsity_selector);
    operands.selected_k = std::move(selection.k);
    operands.mixed = std::move(selection.mixed);
  }
  return operands;
}

Scaling scaling_of(const Instruction& instruction) {
  if (!instruction.has_block_scales()) return Scaling::none;
  return instruction.kind == MmaKind::mxf8f6f4 ? Scaling::whole_k : Scaling::groups_of_16;
}

const AccumulatorModel& model_for(const Instruction& instruction) {
  const AccumulatorModel* model =
      find_accumulator_model(instruction.family, instruction.a, instruction.b, instruction.d, scaling_of(instruction));
  if (!model) {
    throw Error({.field = "accumulator model", .seen = print(instruction), .legal = "an instruction with a model row"});
  }
  return *model;
}

BitMatrix simulate_d(const Instruction& instruction, const Machine& machine, const AccumulatorModel* model) {
  require_legal(instruction);
  return multiply_accumulate(model ? *model : model_for(instruction), gather_operands(instruction, machine));
}

std::vector<uint32_t> simulate(const Instruction& instruction, const Machine& machine, const AccumulatorModel* model) {
  require_legal(instruction);
  const AccumulatorModel& row = model ? *model : model_for(instruction);
  const bool turn = instruction.family == Family::wgmma && instruction.a_source == OperandSource::smem &&
                    !instruction.sparse && is_better_turned(row, instruction.m, instruction.n);
  const Fragment fragment = d_fragment(instruction);
  std::vector<uint32_t> d_regs(fragment.words());
  if (turn)
    scatter_transposed(simulate_turned(instruction, machine, row), fragment, d_regs, "d_regs");
  else
    scatter(multiply_accumulate(row, gather_operands(instruction, machine)), fragment, d_regs, "d_regs");
  return d_regs;
}

std::vector<Violation> warnings(const Instruction& instruction, const Machine& machine) {
  std::vector<Violation> found;
  if (instruction.family == Family::mma_sync) {
    if (const int64_t undefined = instruction.sparse ? select_mma_sync(instruction, machine).undefined_chunks : 0;
        undefined > 0) {
      found.push_back({.field = "metadata",
                       .seen = fmt::format("{} undefined chunks", undefined),
                       .legal = "two rising positions per chunk",
                       .fix = "the result is what an H200 would do with them, not what PTX promises",
                       .source = "PTX ISA 9.7.14.6; docs/evidence.md"});
    }
    return found;
  }
  if (instruction.a_source == OperandSource::smem) append_warnings(found, "A", a_matrix(instruction, machine.a_desc));
  append_warnings(found, "B", b_matrix(instruction, machine.b_desc));
  if (instruction.sparse) {
    const MetadataLayout& layout = metadata_layout(info(instruction.a).bits);
    const int64_t undefined =
        select(layout, machine.metadata, instruction.m, instruction.sparsity_selector).undefined_chunks;
    if (undefined > 0) {
      found.push_back({.field = "metadata",
                       .seen = fmt::format("{} undefined chunks", undefined),
                       .legal = layout.field_bits == 4 ? "0x4 and 0xE" : "two rising positions per chunk",
                       .fix = "the result is what an H200 does, not what PTX promises",
                       .source = "PTX ISA 9.7.15.6.2; docs/evidence.md"});
    }
  }
  return found;
}

}  // namespace bitmma
