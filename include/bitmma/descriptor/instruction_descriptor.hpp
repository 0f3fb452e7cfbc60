// SPDX-License-Identifier: MIT
// Instruction descriptors of tcgen05.mma: the 32-bit word that sets shape, types, signs and major-ness at run time.
//
//   kind::f16   31..30 shift | 28..24 M>>4 | 22..17 N>>3 | 16 tB | 15 tA | 14 -B | 13 -A | 12..10 B | 9..7 A | 5..4 D
//               3 sat | 2 sp | 1..0 sel        0x08100010 is M = 128, N = 64, A and B f16 K-major, D f32
//
// Three tables by kind: Table 42 (f16, tf32, f8f6f4, i8), 43 (mxf8f6f4), 44 (mxf4, mxf4nvf4). The same tables encode,
// decode and print. Source: PTX ISA 9.7.16.4.2; checked against CUTLASS in data/oracle.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/target.hpp"
#include "bitmma/formats/format.hpp"

namespace bitmma {

enum class MmaKind : uint8_t { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4, ti16 };

struct MmaKindInfo {
  MmaKind id;
  std::string_view name = {};   // as in kind::NAME
  Format input = Format::f16;   // an input type of A and B of this kind
  Format output = Format::f32;  // a type of D that is legal with all of them
  int table = 42;               // table of the PTX ISA with its descriptor, for citations
  bool has_block_scales = false;
  bool is_fp4 = false;    // only packed 4-bit elements: K in units of 64, a scale for every 16 or 32
  bool in_bytes = false;  // 4- and 6-bit types occupy a byte in memory and registers
  bool has_twice_k = false;
  bool has_negate = true;
  bool has_transpose = true;
  bool has_saturate = false;
  bool has_scale_input_d = false;
  int sparsity_selectors = 1;
};

inline constexpr auto mma_kinds = std::to_array<MmaKindInfo>({
    {.id = MmaKind::f16, .name = "f16", .has_scale_input_d = true, .sparsity_selectors = 4},
    {.id = MmaKind::tf32, .name = "tf32", .input = Format::tf32, .has_scale_input_d = true, .sparsity_selectors = 4},
    {.id = MmaKind::f8f6f4, .name = "f8f6f4", .input = Format::e4m3, .in_bytes = true, .has_twice_k = true},
    {.id = MmaKind::i8,
     .name = "i8",
     .input = Format::s8,
     .output = Format::s32,
     .has_negate = false,
     .has_saturate = true},
    {.id = MmaKind::mxf8f6f4,
     .name = "mxf8f6f4",
     .input = Format::e4m3,
     .table = 43,
     .has_block_scales = true,
     .in_bytes = true,
     .has_twice_k = true},
    {.id = MmaKind::mxf4,
     .name = "mxf4",
     .input = Format::e2m1,
     .table = 44,
     .has_block_scales = true,
     .is_fp4 = true,
     .has_transpose = false},
    {.id = MmaKind::mxf4nvf4,
     .name = "mxf4nvf4",
     .input = Format::e2m1,
     .table = 44,
     .has_block_scales = true,
     .is_fp4 = true,
     .has_transpose = false},
    // Table 51 of ISA 9.4 requires both transpose bits 0; its Table 62 lists transposed ti16. Accept what both allow.
    {.id = MmaKind::ti16,
     .name = "ti16",
     .input = Format::s1z4m11,
     .output = Format::s32,
     .has_transpose = false,
     .sparsity_selectors = 4},
});

/// Returns the first row for a cast number that is not a kind; legality checks refuse it.
constexpr const MmaKindInfo& info(MmaKind kind) {
  return mma_kinds[static_cast<size_t>(kind) < mma_kinds.size() ? static_cast<size_t>(kind) : 0];
}

/// "f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 or ti16".
std::string print_mma_kinds();
std::optional<MmaKind> mma_kind_named(std::string_view name);

/// Bits of an element in shared memory, Tensor Memory or registers: the f8f6f4 kinds keep 4- and 6-bit types in bytes.
constexpr int kind_container_bits(MmaKind kind, Format format) { return info(kind).in_bytes ? 8 : bits_of(format); }

/// An input type of the kind, and a type of D that is legal with all of them.
constexpr Format natural_input(MmaKind kind) { return info(kind).input; }
constexpr Format natural_output(MmaKind kind) { return info(kind).output; }

/// K of one instruction for 32 bytes of a dense A in containers of `container_bits`: 16 for f16, 256 for b1. 0 for
/// containers of 0 bits.
constexpr int natural_k(int container_bits, bool sparse) {
  return container_bits == 0 ? 0 : 256 / container_bits * (sparse ? 2 : 1);
}

/// K for the K bits of a kind's descriptor: code 0 is the natural K. The mxf4 kinds have 96 (sparse 192) as code 1 and
/// a dense 128 as code 2, the f8f6f4 kinds twice the natural K as code 1. 0: the code is reserved. Source: PTX ISA
/// 9.7.18.2.1, Table 48.
constexpr int k_of_code(MmaKind kind, bool sparse, int code) {
  const int natural = natural_k(kind_container_bits(kind, natural_input(kind)), sparse);
  if (code == 0) return natural;
  if (info(kind).is_fp4) return code == 1 ? natural / 2 * 3 : code == 2 && !sparse ? 2 * natural : 0;
  return code == 1 && info(kind).has_twice_k ? 2 * natural : 0;
}
/// The inverse; 0 for a K that the kind does not have.
constexpr int k_code_of(MmaKind kind, bool sparse, int k) {
  for (const int code : {1, 2}) {
    if (k_of_code(kind, sparse, code) == k) return code;
  }
  return 0;
}

/// The code of a K. Throws Error with the kind's legal K values if this one is not legal.
int require_k_code(MmaKind kind, bool sparse, int k);

struct [[nodiscard]] InstructionDescriptor {
  MmaKind kind = MmaKind::f16;
  int m = 128, n = 8;
  Format d = Format::f32, a = Format::f16, b = Format::f16;
  bool sparse = false;
  int sparsity_selector = 0;
  bool saturate = false;
  bool negate_a = false, negate_b = false;
  bool transpose_a = false, transpose_b = false;  // true: MN-major
  int max_shift_code = 0;                         // .ws: 0 none, 1, 2, 3 = B is shifted by up to 8, 16, 32 columns
  Format scale_type = Format::ue8m0;              // only for block-scaled kinds
  int scale_a_id = 0, scale_b_id = 0;
  int k_code = 0;             // the K bits, see k_of_code
  int sparsity_version = 0;   // for sparse e2m1 of the mxf4 kinds: 1 on sm_107a
  bool wide_scale_a = false;  // scale_A in a layout over 128 lanes; encode and decode refuse it

  int k() const { return k_of_code(kind, sparse, k_code); }

  bool operator==(const InstructionDescriptor&) const = default;
};

struct InstructionDescriptorField {
  BitField bits = {};
  std::string_view meaning = {};
  uint32_t sm_107_bits = 0;  // bits that only sm_107 defines; other targets reserve them
};

/// The rows of the kind's table, lowest bits first. Bits in no row are reserved and must be 0.
std::span<const InstructionDescriptorField> instruction_descriptor_fields(MmaKind kind);

/// Decodes the word. Throws Error with every violation: reserved bits, reserved type codes, values that the kind does
/// not allow. It does not check M and N against cta_group or .ws, which are not in the descriptor.
InstructionDescriptor decode_instruction_descriptor(MmaKind kind, uint32_t word);

/// Encodes the descriptor; the inverse of decode, with the same errors.
uint32_t encode(const InstructionDescriptor& descriptor);

/// Warnings about legal fields that are often unintended; without a target also about bits that most targets reserve.
std::vector<Violation> warnings(const InstructionDescriptor& descriptor, std::optional<Target> target = {});

}  // namespace bitmma
