// One matrix instruction as a value: everything that is fixed before it runs. Text stops at the parser below.
//
//   wgmma.mma_async.sp.sync.aligned.m64n128k32.f32.bf16.bf16
//                   ^ sparse        ^ m  n   k  ^ d  ^ a  ^ b
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/descriptor/instruction_descriptor.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/layout/canonical.hpp"

namespace bitmma {

enum class OperandSource : uint8_t { smem, registers, tmem };

struct Instruction {
  Family family = Family::wgmma;
  bool sparse = false;
  int m = 64, n = 0, k = 0;  // k is logical: twice the stored columns when sparse
  Format d = Format::f32, a = Format::f16, b = Format::f16;
  bool satfinite = false;
  std::string bit_operation;  // ".and.popc" for b1, else empty

  // tcgen05.mma: shape, types, signs and major-ness below and above come from the instruction descriptor.
  MmaKind kind = MmaKind::f16;
  int cta_group = 1;
  bool weight_stationary = false;  // .ws
  std::string collector;           // ".collector::a::fill": a hint, kept for printing
  bool ashift = false;             // A in Tensor Memory is read one row further down
  int scale_input_d = 0;           // D counts D * 2^-scale_input_d
  int max_shift_code = 0;          // .ws: 0 none, 1, 2, 3 = B may be shifted by up to 8, 16, 32 columns

  // Block scales, of tcgen05.mma and mma.sync.
  std::string scale_vec;  // ".scale_vec::4X", ".block16", ... as written, or empty
  Format scale_type = Format::ue8m0;
  int scale_a_id = 0, scale_b_id = 0;    // byte of the first scale in its cell or register
  int thread_a_id = 0, thread_b_id = 0;  // mma.sync: which threads of a quad supply scales

  // Immediates and operand forms, which PTX writes after the mnemonic.
  OperandSource a_source = OperandSource::smem;
  int imm_scale_a = 1, imm_scale_b = 1;  // -1 negates
  int imm_trans_a = 0, imm_trans_b = 0;  // 1 = MN-major
  int scale_d = 1;                       // 0: C is not read; enable-input-d of tcgen05
  int sparsity_selector = 0;

  bool operator==(const Instruction&) const = default;

  /// Columns of A that are stored: k, or k/2 when sparse.
  int stored_k() const { return sparse ? k / 2 : k; }
  bool has_block_scales() const { return family != Family::wgmma && info(kind).table != 42; }
  /// Bits of an element in shared memory, Tensor Memory or registers: the f8f6f4 kinds keep 4- and 6-bit types in
  /// bytes.
  int container_bits(Format format) const {
    const bool in_bytes = family != Family::wgmma && (kind == MmaKind::f8f6f4 || kind == MmaKind::mxf8f6f4);
    return in_bytes ? 8 : info(format).bits;
  }
  /// Scales of a row of A or a column of B; 0 without block scales.
  int scale_count() const;
  Major a_major() const { return imm_trans_a == 1 ? Major::mn : Major::k; }
  Major b_major() const { return imm_trans_b == 1 ? Major::mn : Major::k; }
};

/// Lowest bit of a code in its container in registers or Tensor Memory: e2m1 sits in bits 5:2 of its byte, the others
/// from bit 0. PTX ISA 9.7.14.5.14 says so of registers; for Tensor Memory it is a model choice.
constexpr int container_shift(Format format, int container_bits) {
  return format == Format::e2m1 && container_bits == 8 ? 2 : 0;
}

/// The mnemonic with all qualifiers, without operands.
std::string print(const Instruction& instruction);

/// Reads a mnemonic. `.satfinite` may stand after the shape or after the types, as ptxas takes it. Throws Error naming
/// every qualifier that is unknown, missing or out of place; numbers and type pairs that are merely illegal are left to
/// require_legal. Immediates keep their defaults.
Instruction parse_instruction(std::string_view text);

}  // namespace bitmma
