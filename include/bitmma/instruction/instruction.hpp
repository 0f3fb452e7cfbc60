// SPDX-License-Identifier: MIT
// One instruction as a value: a variant of four families, each with its own fields and complete by construction.
//
//   Wgmma{.n = 128, .d = Format::f32, .a = Format::e4m3, .b = Format::e5m2}     K = 32 follows from the types
//   Tcgen05Mma{.kind = MmaKind::f16, .m = 128, .n = 64}                         D f32, A and B f16, K = 16
//
// The value holds everything that is fixed before the instruction runs: qualifiers, shape, types, immediates, and for
// tcgen05.mma the fields of the instruction descriptor. The data that it reads and writes is in a State (state.hpp).
// Parsing and printing are in statement.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/layout/canonical.hpp"
#include "bitmma/memory/tmem.hpp"

namespace bitmma {

enum class OperandSource : uint8_t { smem, registers, tmem };
inline constexpr std::array<std::string_view, 3> operand_sources{"smem", "registers", "tmem"};
constexpr std::string_view print(OperandSource source) { return operand_sources[static_cast<std::size_t>(source)]; }

/// The b1 product: `.and.popc` or `.xor.popc`. Other types have none.
enum class BitOperation : uint8_t { none, and_popc, xor_popc };

/// The scale-vector size as written; unwritten if it may be omitted.
enum class ScaleVec : uint8_t { unwritten, x1, x2, x4, block16, block32 };

/// ".and.popc", ".scale_vec::4X"; empty if unwritten.
constexpr std::string_view print(BitOperation operation) {
  return operation == BitOperation::none ? "" : operation == BitOperation::and_popc ? ".and.popc" : ".xor.popc";
}
inline constexpr std::array<std::string_view, 6> scale_vec_spellings{
    "", ".scale_vec::1X", ".scale_vec::2X", ".scale_vec::4X", ".block16", ".block32"};
constexpr std::string_view print(ScaleVec scale_vec) {
  return scale_vec_spellings[static_cast<std::size_t>(scale_vec)];
}

/// tcgen05's collector buffers for A, and for B with .ws, with their operation: a hint that changes no result.
enum class CollectorBuffer : uint8_t { a, b0, b1, b2, b3 };
enum class CollectorOperation : uint8_t { fill, use, lastuse, discard };
struct Collector {
  CollectorBuffer buffer = CollectorBuffer::a;
  CollectorOperation operation = CollectorOperation::fill;

  bool operator==(const Collector&) const = default;
};

/// wgmma.mma_async: a warpgroup, A in shared memory or registers, B in shared memory, D in registers.
struct Wgmma {
  int m = 64, n = 8;
  Format d = Format::f32, a = Format::f16, b = Format::f16;
  bool sparse = false;
  int k = natural_k(bits_of(a), sparse);  // logical: twice the stored columns of a sparse A
  BitOperation bit_operation = a == Format::b1 ? BitOperation::and_popc : BitOperation::none;
  bool saturate = false;
  OperandSource a_source = OperandSource::smem;
  bool enable_input_d = true;  // false: D = A * B, and C is not read. PTX calls it scale-d
  bool negate_a = false, negate_b = false;
  bool transpose_a = false, transpose_b = false;  // true: MN-major
  int sparsity_selector = 0;

  bool operator==(const Wgmma&) const = default;
};

/// The default K of an mma.sync: the largest of its shape; m8 has only one.
constexpr int natural_warp_k(int m, Format a, int container_bits, bool sparse) {
  if (a == Format::f64) return m == 8 ? 4 : 16;
  if (m == 8) return a == Format::f16 ? 4 : natural_k(container_bits, false) / 2;
  return natural_k(container_bits, sparse);
}

/// mma.sync and mma.sp: one warp, all operands in registers. Without a kind, or with kind::f8f6f4, there are no scales.
///
///   MmaSync{}                                            m16n8k16, D and C f32, A and B f16
///   MmaSync{.d = Format::f16, .k = 8}                    m16n8k8, D and C f16
///   MmaSync{.kind = MmaKind::mxf4nvf4}                   m16n8k64, e2m1, .scale_vec::4X with ue4m3
///   MmaSync{.m = 8, .a_col = true}                       m8n8k4.col.col: four products, one a quad pair
struct MmaSync {
  std::optional<MmaKind> kind = {};
  int m = 16, n = 8;
  Format d = Format::f32;
  Format a = kind ? natural_input(*kind) : Format::f16, b = a;
  Format c = d;
  bool sparse = false;
  int k = natural_warp_k(m, a, kind ? kind_container_bits(*kind, a) : bits_of(a), sparse);
  bool ordered_metadata = sparse;     // .sp::ordered_metadata; false: .sp, with positions in any order
  bool a_col = false, b_row = false;  // column-major A, row-major B: only m8n8k4 of f16. Others have a column-major B
  BitOperation bit_operation = a == Format::b1 ? BitOperation::and_popc : BitOperation::none;
  bool saturate = false;
  std::optional<Rounding> rounding = {};  // for f64, as written; unwritten is .rn
  ScaleVec scale_vec = kind == MmaKind::mxf4nvf4 ? ScaleVec::x4 : ScaleVec::unwritten;
  Format scale_type = scale_vec == ScaleVec::x4 ? Format::ue4m3 : Format::ue8m0;
  int byte_id_a = 0, thread_id_a = 0;  // the byte and the threads whose registers contain the first scale
  int byte_id_b = 0, thread_id_b = 0;
  int sparsity_selector = 0;

  bool operator==(const MmaSync&) const = default;
  bool has_scales() const { return kind && info(*kind).has_block_scales; }
  /// Four products of 8 x 8 x 4, one per quad pair.
  bool is_quad_pairs() const { return m == 8 && a == Format::f16; }
  int container_bits(Format format) const { return kind ? kind_container_bits(*kind, format) : bits_of(format); }
};

/// tcgen05.mma: D in Tensor Memory, A in shared or Tensor Memory, B in shared memory.
struct Tcgen05Mma {
  MmaKind kind = MmaKind::f16;
  int cta_group = 1;
  bool weight_stationary = false;  // .ws
  int m = cta_group == 2 ? 256 : 128, n = 64;
  Format d = natural_output(kind);
  Format a = natural_input(kind), b = a;
  bool sparse = false;
  int k = natural_k(kind_container_bits(kind, a), sparse);  // or a K that the descriptor sets apart: 96 for fp4
  bool saturate = false;
  OperandSource a_source = OperandSource::smem;
  bool enable_input_d = true;  // false: D = A * B, and D is not read
  int scale_input_d = 0;       // D * 2^-scale_input_d is added
  bool negate_a = false, negate_b = false;
  bool transpose_a = false, transpose_b = false;  // true: MN-major
  int sparsity_selector = 0;
  int max_shift_code = 0;  // .ws: 0 none, 1, 2, 3 = B may be shifted by up to 8, 16, 32 columns
  ScaleVec scale_vec = kind == MmaKind::mxf4nvf4 ? ScaleVec::x4 : ScaleVec::unwritten;
  Format scale_type = Format::ue8m0;
  int scale_a_id = 0, scale_b_id = 0;  // byte of the cell that contains the first scale
  bool ashift = false;                 // A in Tensor Memory is read one row lower
  std::optional<Collector> collector = {};
  std::optional<CollectorOperation> collector_b = {};  // for B without .ws: sm_107
  int sparsity_version = 0;  // for sparse fp4: 0 pairs, four of eight; 1 single elements, two of four, as on sm_107a

  bool operator==(const Tcgen05Mma&) const = default;
};

enum class MoveKind : uint8_t { ld, st, cp, shift, ld_red };

/// How tcgen05.cp unpacks 4- or 6-bit codes into bytes during the copy.
enum class CpSourceFormat : uint8_t { none, b4x16_p64, b6x16_p32 };

/// The redval that tcgen05.ld.red computes from the registers that a thread loads: the least or the largest.
enum class ReduceOperation : uint8_t { min, max };
struct LoadReduction {
  ReduceOperation operation = ReduceOperation::min;
  bool absolute = false;       // .abs, for f32: compares absolute values
  bool propagate_nan = false;  // .NaN, for f32: a NaN makes redval NaN
  Format type = Format::f32;   // or u32, s32

  bool operator==(const LoadReduction&) const = default;
};

/// tcgen05.ld, .ld.red, .st, .cp and .shift: data to, from and inside Tensor Memory.
struct TmemMove {
  MoveKind kind = MoveKind::ld;
  int cta_group = 1;                                               // for cp and shift
  LdSt ldst = kind == MoveKind::ld_red ? LdSt{.num = 2} : LdSt{};  // for ld, ld.red and st
  /// 16x32bx2: offset of the address for threads 16..31, with lanes in bits 31:16 and columns below; by default the
  /// second piece follows the first.
  uint32_t half_split_offset =
      ldst.shape == LdStShape::s16x32bx2 ? static_cast<uint32_t>(ldst.num << ldst.pack_16b) : 0;
  int cp_shape = 0;  // for cp: index into cp_shapes
  CpSourceFormat source_format = CpSourceFormat::none;
  LoadReduction reduction = {};  // for ld.red

  bool operator==(const TmemMove&) const = default;
  const CpShape& shape() const { return cp_shapes.at(static_cast<std::size_t>(cp_shape)); }
  bool loads() const { return kind == MoveKind::ld || kind == MoveKind::ld_red; }
  bool has_registers() const { return loads() || kind == MoveKind::st; }
};

/// To add a family, add an alternative here and a folder in sim/instruction; sim/instruction/family.hpp lists its
/// functions.
using Instruction = std::variant<Wgmma, MmaSync, Tcgen05Mma, TmemMove>;

/// Complete and legal instructions. They throw Error with every violation; omitted `fields` follow from the
/// others.
Instruction wgmma(const Wgmma& fields);
Instruction mma_sync(const MmaSync& fields);
Instruction tcgen05(const Tcgen05Mma& fields);
Instruction tmem_move(const TmemMove& fields);

/// Common to the matrix instructions of all families: D[m x n] = A[m x k] * B[k x n] + C.
struct Mma {
  Family family = Family::wgmma;
  std::optional<MmaKind> kind = std::nullopt;
  int m = 0, n = 0, k = 0;
  Format d = Format::f32, a = Format::f16, b = Format::f16;
  Format c = d;
  bool sparse = false;
  /// Independent products, stacked: product p has rows from p m / products of A, C and D, and rows from p k / products
  /// of B. m8n8k4 of f16 has four, so its m is 32 and its k 16; other instructions have one.
  int products = 1;
  OperandSource a_source = OperandSource::smem, b_source = OperandSource::smem;
  int a_container_bits = 16,
      b_container_bits = 16;  // per element in memory or registers: f8f6f4 kinds store all types in bytes
  Major a_major = Major::k, b_major = Major::k;
  bool enable_input_d = true;
  bool negate_a = false, negate_b = false;
  bool saturate = false;
  int scale_input_d = 0;
  int sparsity_selector = 0;
  int sparsity_version = 0;      // for packed fp4, see Tcgen05Mma
  bool ordered_metadata = true;  // false: mma.sp with positions in any order
  BitOperation bit_operation = BitOperation::none;
  Rounding rounding = Rounding::nearest_even;
  Scaling scaling = Scaling::none;
  int scale_count = 0;  // scales per row of A and per column of B
  Format scale_type = Format::ue8m0;
  int cta_group = 1;
  bool weight_stationary = false;
  bool names_collector = false;  // a hint: .collector::
  bool reads_collector = false;  // ::use or ::lastuse: reads an operand that an earlier instruction left in the buffer
  /// Rows of A that arrive as copies of the previous row: the last of every 32 with .ashift.
  bool repeats_last_rows = false;

  bool operator==(const Mma&) const = default;
  /// Stored columns of A: k, or k/2 if sparse.
  int stored_k() const { return sparse ? k / 2 : k / products; }
  /// Columns of the logical A.
  int a_cols() const { return k / products; }
};

/// The common description of a matrix instruction. Throws Error for an instruction that moves data.
Mma mma_of(const Instruction& instruction);
/// True for matrix instructions, false for instructions that move data.
bool is_mma(const Instruction& instruction);
Family family_of(const Instruction& instruction);

/// The instruction with K-major or MN-major operands, if it reads them from shared memory.
Instruction with_majors(const Instruction& instruction, Major a, Major b);
/// The instruction with A from another source, if its family has the choice.
Instruction with_a_source(const Instruction& instruction, OperandSource source);
/// The instruction with this enable-input-d, if it has one: mma.sync always reads C.
Instruction with_enable_input_d(const Instruction& instruction, bool enable);
/// The instruction with another sparsity selector, legal or not.
Instruction with_sparsity_selector(const Instruction& instruction, int selector);

/// Lowest bit of a code in its container in registers or Tensor Memory: e2m1 occupies bits 5:2 of its byte, other types
/// start at bit 0. PTX ISA 9.7.14.5.14 states this for registers; for Tensor Memory it is a model choice.
constexpr int container_shift(Format format, int container_bits) {
  return format == Format::e2m1 && container_bits == 8 ? 2 : 0;
}

/// Scales per row of A for a kind with block scales, by scale-vector size.
constexpr int scale_count_of(MmaKind kind, ScaleVec scale_vec, int k, bool sparse) {
  if (!info(kind).has_block_scales) return 0;
  const int dense_k = sparse ? k / 2 : k;  // a sparse chunk is twice as long
  if (!info(kind).is_fp4) return dense_k == 64 ? 2 : 1;
  return dense_k / (scale_vec == ScaleVec::x4 || scale_vec == ScaleVec::block16 ? 16 : 32);
}

/// tcgen05: `instruction` with every field of its instruction descriptor: m, n, k, types, signs, major-ness,
/// saturation, scale ids. Throws Error if the word is not a legal descriptor of the instruction's kind.
Tcgen05Mma with_idesc(Tcgen05Mma instruction, uint32_t idesc);
/// The inverse: the descriptor of `instruction`.
uint32_t idesc_of(const Tcgen05Mma& instruction);

/// The properties of a tcgen05.mma that are in its instruction descriptor and not in its mnemonic, as far as products
/// need them.
struct ShapeAndTypes {
  int m = 128, n = 64;
  int k = 0;  // 0: the K implied by the types
  Format d = Format::f32, a = Format::f16, b = Format::f16;
  Format scale_type = Format::ue8m0;  // for kinds with block scales

  bool operator==(const ShapeAndTypes&) const = default;
};
/// The instruction with this shape and these types, legal or not. Throws Error for all but tcgen05.mma, whose mnemonics
/// already have them.
Instruction with_shape_and_types(const Instruction& instruction, const ShapeAndTypes& fields);
/// The inverse; k = 0 if the types imply it. Nothing for instructions other than tcgen05.mma.
std::optional<ShapeAndTypes> shape_and_types_of(const Instruction& instruction);

/// The instruction without .ashift; other instructions are unchanged.
Instruction without_ashift(const Instruction& instruction);

}  // namespace bitmma
