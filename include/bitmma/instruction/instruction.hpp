// SPDX-License-Identifier: MIT
// One instruction as a value: a variant of four families, each with its own fields and complete by construction.
//
//   Wgmma{.n = 128, .d = Format::f32, .a = Format::e4m3, .b = Format::e5m2}     K = 32 follows from the types
//   Tcgen05Mma{.kind = MmaKind::f16, .m = 128, .n = 64}                         D f32, A and B f16, K = 16
//
// Everything that is fixed before it runs is in the value: qualifiers, shape, types, immediates, and of tcgen05.mma
// what the instruction descriptor says. What it reads and writes is in a State (state.hpp). Text stops at
// statement.hpp.
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

/// What b1 products are: `.and.popc` or `.xor.popc`. Other types have none.
enum class BitOperation : uint8_t { none, and_popc, xor_popc };

/// The size of a scale vector as it is written; unwritten if it may be omitted.
enum class ScaleVec : uint8_t { unwritten, x1, x2, x4, block16, block32 };

/// ".and.popc", ".scale_vec::4X"; empty if nothing is written.
constexpr std::string_view print(BitOperation operation) {
  return operation == BitOperation::none ? "" : operation == BitOperation::and_popc ? ".and.popc" : ".xor.popc";
}
inline constexpr std::array<std::string_view, 6> scale_vec_spellings{
    "", ".scale_vec::1X", ".scale_vec::2X", ".scale_vec::4X", ".block16", ".block32"};
constexpr std::string_view print(ScaleVec scale_vec) {
  return scale_vec_spellings[static_cast<std::size_t>(scale_vec)];
}

/// tcgen05's collector buffers of A, and of B with .ws, and what happens to them: a hint, which changes no result.
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
  bool enable_input_d = true;  // false: D = A * B, C is not read. PTX calls it scale-d
  bool negate_a = false, negate_b = false;
  bool transpose_a = false, transpose_b = false;  // true: MN-major
  int sparsity_selector = 0;

  bool operator==(const Wgmma&) const = default;
};

/// K of one mma.sync when nothing says it: the largest of its shape. Of m8 the only one.
constexpr int natural_warp_k(int m, Format a, int container_bits, bool sparse) {
  if (a == Format::f64) return m == 8 ? 4 : 16;
  if (m == 8) return a == Format::f16 ? 4 : natural_k(container_bits, false) / 2;
  return natural_k(container_bits, sparse);
}

/// mma.sync and mma.sp: a warp, everything in registers. Without a kind, or with kind::f8f6f4, there are no scales.
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
  bool ordered_metadata = sparse;     // .sp::ordered_metadata; false: .sp, whose positions come in any order
  bool a_col = false, b_row = false;  // column-major A, row-major B: only m8n8k4 of f16. Otherwise B is column-major
  BitOperation bit_operation = a == Format::b1 ? BitOperation::and_popc : BitOperation::none;
  bool saturate = false;
  std::optional<Rounding> rounding = {};  // of f64, as it is written; unwritten is .rn
  ScaleVec scale_vec = kind == MmaKind::mxf4nvf4 ? ScaleVec::x4 : ScaleVec::unwritten;
  Format scale_type = scale_vec == ScaleVec::x4 ? Format::ue4m3 : Format::ue8m0;
  int byte_id_a = 0, thread_id_a = 0;  // the byte and the threads whose registers hold the first scale
  int byte_id_b = 0, thread_id_b = 0;
  int sparsity_selector = 0;

  bool operator==(const MmaSync&) const = default;
  bool has_scales() const { return kind && info(*kind).has_block_scales; }
  /// Four products of 8 x 8 x 4, one a quad pair.
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
  int k = natural_k(kind_container_bits(kind, a), sparse);  // or one that the descriptor says apart, 96 of fp4
  bool saturate = false;
  OperandSource a_source = OperandSource::smem;
  bool enable_input_d = true;  // false: D = A * B, D is not read
  int scale_input_d = 0;       // D counts D * 2^-scale_input_d
  bool negate_a = false, negate_b = false;
  bool transpose_a = false, transpose_b = false;  // true: MN-major
  int sparsity_selector = 0;
  int max_shift_code = 0;  // .ws: 0 none, 1, 2, 3 = B may be shifted by up to 8, 16, 32 columns
  ScaleVec scale_vec = kind == MmaKind::mxf4nvf4 ? ScaleVec::x4 : ScaleVec::unwritten;
  Format scale_type = Format::ue8m0;
  int scale_a_id = 0, scale_b_id = 0;  // byte of the cell that holds the first scale
  bool ashift = false;                 // A in Tensor Memory is read one row further down
  std::optional<Collector> collector = {};
  std::optional<CollectorOperation> collector_b = {};  // of B without .ws: sm_107
  int sparsity_version = 0;  // of a sparse fp4: 0 pairs, four of eight; 1 single elements, two of four, as sm_107a has

  bool operator==(const Tcgen05Mma&) const = default;
};

enum class MoveKind : uint8_t { ld, st, cp, shift, ld_red };

/// How tcgen05.cp unpacks 4- or 6-bit codes into bytes on the way.
enum class CpSourceFormat : uint8_t { none, b4x16_p64, b6x16_p32 };

/// What tcgen05.ld.red makes of the registers that a thread loads: its redval, the least or largest of them.
enum class ReduceOperation : uint8_t { min, max };
struct LoadReduction {
  ReduceOperation operation = ReduceOperation::min;
  bool absolute = false;       // .abs, of f32: of the absolute values
  bool propagate_nan = false;  // .NaN, of f32: one NaN makes redval NaN
  Format type = Format::f32;   // or u32, s32

  bool operator==(const LoadReduction&) const = default;
};

/// tcgen05.ld, .ld.red, .st, .cp and .shift: data to, from and inside Tensor Memory.
struct TmemMove {
  MoveKind kind = MoveKind::ld;
  int cta_group = 1;                                               // cp and shift
  LdSt ldst = kind == MoveKind::ld_red ? LdSt{.num = 2} : LdSt{};  // ld, ld.red and st
  /// 16x32bx2: added to the address of threads 16..31, lanes in bits 31:16 and columns below; directly behind by
  /// default.
  uint32_t half_split_offset =
      ldst.shape == LdStShape::s16x32bx2 ? static_cast<uint32_t>(ldst.num << ldst.pack_16b) : 0;
  int cp_shape = 0;  // cp: index into cp_shapes
  CpSourceFormat source_format = CpSourceFormat::none;
  LoadReduction reduction = {};  // ld.red

  bool operator==(const TmemMove&) const = default;
  const CpShape& shape() const { return cp_shapes.at(static_cast<std::size_t>(cp_shape)); }
  bool loads() const { return kind == MoveKind::ld || kind == MoveKind::ld_red; }
  bool has_registers() const { return loads() || kind == MoveKind::st; }
};

/// A new family is a new alternative here and a folder in sim/instruction; sim/instruction/family.hpp lists what it
/// supplies.
using Instruction = std::variant<Wgmma, MmaSync, Tcgen05Mma, TmemMove>;

/// Complete and legal instructions. Throw Error with every violation; `fields` that are left out follow from the
/// others.
Instruction wgmma(const Wgmma& fields);
Instruction mma_sync(const MmaSync& fields);
Instruction tcgen05(const Tcgen05Mma& fields);
Instruction tmem_move(const TmemMove& fields);

/// What the matrix instructions of all families have in common: D[m x n] = A[m x k] * B[k x n] + C.
struct Mma {
  Family family = Family::wgmma;
  std::optional<MmaKind> kind = std::nullopt;
  int m = 0, n = 0, k = 0;
  Format d = Format::f32, a = Format::f16, b = Format::f16;
  Format c = d;
  bool sparse = false;
  /// Independent products, stacked: product p has rows p m / products and up of A, C and D, and rows p k / products and
  /// up of B. m8n8k4 of f16 has four, so that its m is 32 and its k 16; the others have one.
  int products = 1;
  OperandSource a_source = OperandSource::smem, b_source = OperandSource::smem;
  int a_container_bits = 16,
      b_container_bits = 16;  // of an element in memory or registers: f8f6f4 kinds keep all in bytes
  Major a_major = Major::k, b_major = Major::k;
  bool enable_input_d = true;
  bool negate_a = false, negate_b = false;
  bool saturate = false;
  int scale_input_d = 0;
  int sparsity_selector = 0;
  int sparsity_version = 0;      // of packed fp4, see Tcgen05Mma
  bool ordered_metadata = true;  // false: mma.sp, whose positions come in any order
  BitOperation bit_operation = BitOperation::none;
  Rounding rounding = Rounding::nearest_even;
  Scaling scaling = Scaling::none;
  int scale_count = 0;  // scales of a row of A and of a column of B
  Format scale_type = Format::ue8m0;
  int cta_group = 1;
  bool weight_stationary = false;
  bool names_collector = false;  // a hint: .collector::
  bool reads_collector = false;  // ::use or ::lastuse: an operand that an earlier instruction left there
  /// Rows of A that reach the instruction as copies of the row before: the last of every 32 with .ashift.
  bool repeats_last_rows = false;

  bool operator==(const Mma&) const = default;
  /// Columns of A that are stored: k, or k/2 when sparse.
  int stored_k() const { return sparse ? k / 2 : k / products; }
  /// Columns of a logical A.
  int a_cols() const { return k / products; }
};

/// The common description of a matrix instruction. Throws Error for one that moves data.
Mma mma_of(const Instruction& instruction);
/// True for matrix instructions, false for those that move data.
bool is_mma(const Instruction& instruction);
Family family_of(const Instruction& instruction);

/// The instruction with K-major or MN-major matrices, if it reads them from shared memory.
Instruction with_majors(const Instruction& instruction, Major a, Major b);
/// The instruction with A from another source, where its family has the choice.
Instruction with_a_source(const Instruction& instruction, OperandSource source);
/// The instruction with this enable-input-d, if it has one: mma.sync always reads C.
Instruction with_enable_input_d(const Instruction& instruction, bool enable);
/// The instruction with another sparsity selector, legal or not.
Instruction with_sparsity_selector(const Instruction& instruction, int selector);

/// Lowest bit of a code in its container in registers or Tensor Memory: e2m1 sits in bits 5:2 of its byte, the others
/// from bit 0. PTX ISA 9.7.14.5.14 states this for registers; for Tensor Memory it is a model choice.
constexpr int container_shift(Format format, int container_bits) {
  return format == Format::e2m1 && container_bits == 8 ? 2 : 0;
}

/// Scales of a row of A for a kind with block scales, by the size of their vector.
constexpr int scale_count_of(MmaKind kind, ScaleVec scale_vec, int k, bool sparse) {
  if (!info(kind).has_block_scales) return 0;
  const int dense_k = sparse ? k / 2 : k;  // a sparse chunk is twice as long
  if (!info(kind).is_fp4) return dense_k == 64 ? 2 : 1;
  return dense_k / (scale_vec == ScaleVec::x4 || scale_vec == ScaleVec::block16 ? 16 : 32);
}

/// tcgen05: everything its instruction descriptor says put into `instruction`: m, n, k, types, signs, major-ness,
/// saturation, scale ids. Throws Error when the word is not a legal descriptor of the instruction's kind.
Tcgen05Mma with_idesc(Tcgen05Mma instruction, uint32_t idesc);
/// The inverse: the descriptor that says what `instruction` is.
uint32_t idesc_of(const Tcgen05Mma& instruction);

/// The properties that a tcgen05.mma has in its instruction descriptor and not in its mnemonic, as far as products need
/// them.
struct ShapeAndTypes {
  int m = 128, n = 64;
  int k = 0;  // 0: the K of the types
  Format d = Format::f32, a = Format::f16, b = Format::f16;
  Format scale_type = Format::ue8m0;  // of kinds with block scales

  bool operator==(const ShapeAndTypes&) const = default;
};
/// The instruction with this shape and these types, legal or not. Throws Error for all but tcgen05.mma: their mnemonics
/// say them.
Instruction with_shape_and_types(const Instruction& instruction, const ShapeAndTypes& fields);
/// The inverse; k = 0 if it is the K of the types. Nothing for other instructions than tcgen05.mma.
std::optional<ShapeAndTypes> shape_and_types_of(const Instruction& instruction);

/// The instruction that reads A of Tensor Memory where it lies: no row further down. Others have nothing to leave out.
Instruction without_ashift(const Instruction& instruction);

}  // namespace bitmma
