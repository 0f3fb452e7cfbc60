// SPDX-License-Identifier: MIT
#include "operands.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../family.hpp"

namespace bitmma::family {
namespace {

/// Table 54: tf32 in MN-major has only the mode with 32-byte atoms; the other types have every other mode. An absolute
/// leading dimension requires the plain 128B mode, K-major, without base offset.
void require_layout(const Tcgen05Mma& instruction, std::string_view operand, const SmemMatrix& matrix) {
  constexpr std::string_view table_54 = "PTX ISA 9.7.16.10, Table 54";
  const bool tf32 = instruction.kind == MmaKind::tf32, packed_fp4 = matrix.element_bits == 4;
  const bool atom32 = matrix.descriptor.swizzle == Swizzle::b128_atom32;
  InstructionChecker check(table_54);
  if (matrix.major == Major::k ? atom32 : atom32 != tf32) {
    check.refuse(fmt::format("{} swizzle", operand), std::string(info(matrix.descriptor.swizzle).name),
                 matrix.major == Major::mn && tf32 ? "128-atom32 (code 1)" : "none, 32, 64 or 128 (codes 0, 6, 4, 2)");
  }
  if (packed_fp4 && matrix.major == Major::mn) {
    check.refuse(fmt::format("{} major", operand), "mn-major", "k-major", "packed fp4 is K-major only");
  }
  const bool plain =
      matrix.descriptor.swizzle == Swizzle::b128 && matrix.major == Major::k && matrix.descriptor.base_offset == 0;
  if (matrix.descriptor.leading_dim_absolute && !plain) {
    check.refuse(fmt::format("{} leading_dim_mode", operand), "1 (absolute address)",
                 "0, or 128B swizzle, K-major, base offset 0", "the absolute mode is for the 48 bytes of K = 96",
                 "PTX ISA 9.7.16.3.1.2.1");
  }
  check.throw_if_refused();
}

SmemMatrix operand_matrix(const Tcgen05Mma& instruction, uint64_t descriptor, Format format, bool transpose, int rows,
                          int cols) {
  return {.descriptor = decode_smem_descriptor(Target::sm_100a, descriptor),
          .major = transpose ? Major::mn : Major::k,
          .element_bits = kind_container_bits(instruction.kind, format),
          .rows = rows,
          .cols = cols};
}

}  // namespace

const TmemLayoutInfo& layout_of(const Tcgen05Mma& instruction) {
  return find_tmem_layout(instruction.m, instruction.cta_group, instruction.weight_stationary, instruction.sparse);
}

SmemMatrix a_matrix(const Tcgen05Mma& instruction, const State& state) {
  const SmemMatrix matrix =
      operand_matrix(instruction, state.number(Field::a_desc), instruction.a, instruction.transpose_a,
                     instruction.m / instruction.cta_group, describe(instruction).stored_k());
  require_layout(instruction, "A", matrix);
  return matrix;
}

SmemMatrix b_matrix(const Tcgen05Mma& instruction, const State& state) {
  const int rows = instruction.n / instruction.cta_group + mask_of(instruction, state).column_shift;
  const SmemMatrix matrix = operand_matrix(instruction, state.number(Field::b_desc), instruction.b,
                                           instruction.transpose_b, rows, instruction.k);
  require_layout(instruction, "B", matrix);
  return matrix;
}

TmemD d_in_tmem(const Tcgen05Mma& instruction, uint32_t d_tmem) {
  const TmemD d{.layout = layout_of(instruction), .n = instruction.n, .address = decode_tmem_address(d_tmem)};
  require_fits(d);
  return d;
}

TmemA a_in_tmem(const Tcgen05Mma& instruction, uint32_t a_tmem) {
  const Mma mma = describe(instruction);
  const TmemA a{
      .layout = layout_of(instruction), .element_bits = mma.a_container_bits, .address = decode_tmem_address(a_tmem)};
  require_fits(a, mma.stored_k());
  return a;
}

TmemMetadata metadata_in_tmem(const Tcgen05Mma& instruction, uint32_t metadata_tmem) {
  const TmemMetadata metadata{.layout = layout_of(instruction),
                              .element_bits = describe(instruction).a_container_bits,
                              .address = decode_tmem_address(metadata_tmem),
                              .selector = instruction.sparsity_selector,
                              .k = instruction.k,
                              .single_elements = instruction.sparsity_version == 1};
  require_fits(metadata);
  return metadata;
}

TmemScales scale_a_in_tmem(const Tcgen05Mma& instruction, uint32_t scale_a_tmem) {
  const TmemLayoutInfo& layout = layout_of(instruction);
  const TmemScales scales = scales_of_a(layout, scale_a_tmem, instruction.scale_a_id);
  require_fits(scales, layout.rows_per_cta, describe(instruction).scale_count, "scale_A");
  return scales;
}

TmemScales scale_b_in_tmem(const Tcgen05Mma& instruction, uint32_t scale_b_tmem) {
  const TmemScales scales = scales_of_b(layout_of(instruction), instruction.n, scale_b_tmem, instruction.scale_b_id);
  require_fits(scales, instruction.n, describe(instruction).scale_count, "scale_B");
  return scales;
}

ZeroColumnMask mask_of(const Tcgen05Mma& instruction, const State& state) {
  if (!state.has(Field::zero_column_mask)) return {};
  const uint64_t word = state.number(Field::zero_column_mask);
  const ZeroColumnMask mask = decode_zero_column_mask(word);
  const int allowed = std::min(max_shift_columns(instruction.max_shift_code), instruction.m == 32 ? 16 : 32);
  InstructionChecker check("PTX ISA 9.7.16.4.3, Table 45");
  if (!instruction.weight_stationary && word != 0) {
    check.refuse("zero_column_mask", "present", "absent or 0 without .ws", "", "PTX ISA 9.7.16.10.9");
  }
  if (mask.column_shift > allowed) {
    check.refuse("column_shift", std::to_string(mask.column_shift), fmt::format("0..{}", allowed),
                 "bits 30-31 of the instruction descriptor allow 0, 8, 16 or 32; M = 32 at most 16");
  }
  check.throw_if_refused();
  return mask;
}

bool is_disabled(std::span<const uint32_t> disable_output_lane, const TmemPlace& place) {
  const auto word = static_cast<size_t>(4 * place.cta + place.lane / 32);
  return word < disable_output_lane.size() && (disable_output_lane[word] >> place.lane % 32 & 1) != 0;
}

bool has_lane_masks(const Tcgen05Mma& instruction) {
  return !instruction.weight_stationary && !info(instruction.kind).has_block_scales;
}

}  // namespace bitmma::family
