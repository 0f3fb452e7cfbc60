// SPDX-License-Identifier: MIT
// PTX cvt, bit for bit: between floating-point formats, between integers, and between the two.
//
//   compute(parse_cvt("cvt.rn.satfinite.e4m3x2.f32"), {.a = 0x43E40000, .b = 0x3F800000})   456 and 1: 0x7E38
//   compute(parse_cvt("cvt.rzi.u8.f32"), {.a = 0xBF800000})                                 -1: 0
//
// Packed results have the value of a in their uppermost lane, then b, e and f. Packed sources are one word, a. Source:
// PTX ISA 9.7.9.21; ptxas 13.0 and 13.5 for the forms and their targets. Points that the ISA leaves open follow the
// SASS that ptxas emits; see cvt.cpp. data/math lists the forms that were compared with a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/target.hpp"
#include "bitmma/formats/format.hpp"

namespace bitmma {

/// One lane of an operand or a result. s2f6 is not supported: the ISA does not say where its negative values saturate.
enum class CvtType : uint8_t {
  // clang-format off
  s8, u8, s16, u16, s32, u32, s64, u64,
  f16, bf16, tf32, f32, f64, e4m3, e5m2, e3m2, e2m3, e2m1, ue8m0, ue5m3,
  // clang-format on
};

struct CvtTypeInfo {
  CvtType id;
  std::string_view name;         // as PTX spells it
  int bits;                      // per lane in a word: 8 for e3m2 and e2m3, whose upper two bits are 0
  std::optional<Format> format;  // nothing for integers
  bool is_signed = true;
};
const CvtTypeInfo& info(CvtType type);

enum class CvtRounding : uint8_t {
  none,
  // Floating-point roundings. rs adds random bits to the dropped bits, and keeps the carry.
  // clang-format off
  rn, rz, rm, rp, rna, rs,
  // To an integer, also within a floating-point format.
  rni, rzi, rmi, rpi,
  // clang-format on
};

struct [[nodiscard]] CvtInstruction {
  CvtType to = CvtType::f32, from = CvtType::f32;
  int lanes = 1;  // of the result: 1, 2 or 4
  CvtRounding rounding = CvtRounding::none;
  bool ftz = false;        // subnormal f32 sources and results become zeros of the same sign
  bool sat = false;        // clamps floating-point results to [0, 1], NaN to +0; integers to the type's range
  bool relu = false;       // negative results become +0
  bool satfinite = false;  // results that are too large become the largest finite value
  int scales = 0;          // operands of type ue8m0: 1 with .scaled::n1::ue8m0, 2 with .scaled::n2::ue8m0

  bool operator==(const CvtInstruction&) const = default;
};

/// All supported forms, in the order of the rows.
const std::vector<CvtInstruction>& cvt_instructions();

/// "cvt.rn.relu.satfinite.e4m3x2.f32".
std::string print(const CvtInstruction& instruction);
/// The inverse; modifiers between rounding and types may be in any order. Throws Error, which suggests near names.
CvtInstruction parse_cvt(std::string_view ptx);

/// The requirements of a form, and their source. Each throws Error if the form is not one of cvt_instructions().
TargetSet targets_of(const CvtInstruction& instruction);
PtxVersion ptx_version_of(const CvtInstruction& instruction);
std::string_view source_of(const CvtInstruction& instruction);

struct CvtOperands {
  uint64_t a = 0, b = 0, e = 0, f = 0;
  uint32_t random_bits = 0;  // for .rs
  uint16_t scale = 0x7F7F;   // ue8m0; with n2 the upper byte scales a, or the upper lane
};

/// One operand: its name in CvtOperands, and its register width in bits.
struct CvtOperand {
  std::string_view name;
  int bits;

  bool operator==(const CvtOperand&) const = default;
};
/// The operands of a form, in PTX's order.
std::vector<CvtOperand> operands_of(const CvtInstruction& instruction);
/// Bits of a result with all lanes. A register of an 8-bit integer has 16, beside bf16 8: st.u8 stores it.
int result_bits(const CvtInstruction& instruction);
/// "cvt.rs.f16x2.f32 %d, %a, %b, %random_bits;", with registers named after the operands.
std::string cvt_statement(const CvtInstruction& instruction);

/// The result, in result_bits() bits. Operands that the form lacks are ignored, and so are bits above its types. Throws
/// Error if the instruction is not one of cvt_instructions().
uint64_t compute(const CvtInstruction& instruction, const CvtOperands& operands);

/// The computation of one lane of a result.
struct [[nodiscard]] CvtLane {
  std::string_view operand = {};  // "a"; of a packed source all lanes are those of a
  uint64_t source = 0;            // its code
  int scale_exponent = 0;         // the value is first multiplied by 2^this
  uint32_t random_bits = 0;       // for .rs: added to the dropped bits,
  int random_width = 0;           // in this many of their uppermost bits
  bool is_number = true;          // a finite number, with a scale that is a number
  bool is_exact = false;          // `below` is the value itself
  uint64_t below = 0, above = 0;  // the codes on either side of the value
  uint64_t rounded = 0;           // the code selected by the rounding
  uint64_t result = 0;            // after .sat and .relu

  bool operator==(const CvtLane&) const = default;
};
/// The lanes of compute(instruction, operands), that of a first; words in the order of operands_of(). Throws Error if
/// the number of words is wrong, or if the instruction is not one of cvt_instructions().
std::vector<CvtLane> lanes_of(const CvtInstruction& instruction, std::span<const uint64_t> words);

/// results[i] for operands[i]. Throws Error as above, or if the lengths differ.
void compute(const CvtInstruction& instruction, std::span<const CvtOperands> operands, std::span<uint64_t> results);

/// The same for arrays of words, one per operand in the order of operands_of(). Throws Error as above, if the number of
/// arrays is wrong, or if a length differs from that of `results`.
void compute(const CvtInstruction& instruction, std::span<const std::span<const uint64_t>> operands,
             std::span<uint64_t> results);

}  // namespace bitmma
