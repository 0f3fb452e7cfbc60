// SPDX-License-Identifier: MIT
// cvt of PTX, bit for bit: between floating formats, between integers, and from one to the other.
//
//   compute(parse_cvt("cvt.rn.satfinite.e4m3x2.f32"), {.a = 0x43E40000, .b = 0x3F800000})   456 and 1: 0x7E38
//   compute(parse_cvt("cvt.rzi.u8.f32"), {.a = 0xBF800000})                                 -1: 0
//
// Packed results hold the value of a in their uppermost lane, then b, e and f. Packed sources are one word, a.
// Source: PTX ISA 9.7.9.21; the forms and their targets as ptxas 13.0 and 13.5 take them. What the ISA leaves open is
// read from the SASS that ptxas makes; see cvt.cpp. data/math tells which forms were compared with a GPU.
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

/// One lane of an operand or a result. Of s2f6, which cvt has also, the ISA leaves open where negative values saturate.
enum class CvtType : uint8_t {
  // clang-format off
  s8, u8, s16, u16, s32, u32, s64, u64,
  f16, bf16, tf32, f32, f64, e4m3, e5m2, e3m2, e2m3, e2m1, ue8m0, ue5m3,
  // clang-format on
};

struct CvtTypeInfo {
  CvtType id;
  std::string_view name;         // as PTX spells it
  int bits;                      // of a lane in a word: 8 of e3m2 and e2m3, whose upper two are 0
  std::optional<Format> format;  // nothing of integers
  bool is_signed = true;
};
const CvtTypeInfo& info(CvtType type);

enum class CvtRounding : uint8_t {
  none,
  // Floating-point roundings. rs adds random bits to those that are dropped, and keeps the carry.
  // clang-format off
  rn, rz, rm, rp, rna, rs,
  // To an integer, also inside of a floating format.
  rni, rzi, rmi, rpi,
  // clang-format on
};

struct CvtInstruction {
  CvtType to = CvtType::f32, from = CvtType::f32;
  int lanes = 1;  // of the result: 1, 2 or 4
  CvtRounding rounding = CvtRounding::none;
  bool ftz = false;        // subnormal numbers of f32 become zeros of their sign, sources and results
  bool sat = false;        // floating results are clamped to [0, 1], NaN becomes +0; integers to what the type holds
  bool relu = false;       // negative results become +0
  bool satfinite = false;  // what is too large becomes the largest finite value
  int scales = 0;          // operands of type ue8m0: 1 of .scaled::n1::ue8m0, 2 of .scaled::n2::ue8m0

  bool operator==(const CvtInstruction&) const = default;
};

/// Every form that is known, in the order of the rows.
const std::vector<CvtInstruction>& cvt_instructions();

/// "cvt.rn.relu.satfinite.e4m3x2.f32".
std::string print(const CvtInstruction& instruction);
/// The other way; the modifiers between the rounding and the types come in any order. Throws Error, with near names.
CvtInstruction parse_cvt(std::string_view ptx);

/// What a form needs, and from where that is known. Each throws Error when it is not one of cvt_instructions().
TargetSet targets_of(const CvtInstruction& instruction);
PtxVersion ptx_version_of(const CvtInstruction& instruction);
std::string_view source_of(const CvtInstruction& instruction);

struct CvtOperands {
  uint64_t a = 0, b = 0, e = 0, f = 0;
  uint32_t random_bits = 0;  // of .rs
  uint16_t scale = 0x7F7F;   // ue8m0; of n2 the scale of a, or of the upper lane, in the upper byte
};

/// One operand: its name in CvtOperands, and the bits of its register.
struct CvtOperand {
  std::string_view name;
  int bits;

  bool operator==(const CvtOperand&) const = default;
};
/// Those that a form has, in PTX's order.
std::vector<CvtOperand> operands_of(const CvtInstruction& instruction);
/// Bits of a result, the lanes together. Registers of 8-bit integers have 16: store such a result with st.u8.
int result_bits(const CvtInstruction& instruction);
/// "cvt.rs.f16x2.f32 %d, %a, %b, %random_bits;", for registers that are called as the operands are.
std::string cvt_statement(const CvtInstruction& instruction);

/// The result, in result_bits() bits. Operands that the form has not are ignored, as are bits above its types. Throws
/// Error when the instruction is not one of cvt_instructions().
uint64_t compute(const CvtInstruction& instruction, const CvtOperands& operands);

/// How one lane of a result is made.
struct CvtLane {
  std::string_view operand = {};  // "a"; of a packed source all lanes are those of a
  uint64_t source = 0;            // its code
  int scale_exponent = 0;         // it is multiplied by 2^this first
  uint32_t random_bits = 0;       // of .rs: added to the bits that are dropped,
  int random_width = 0;           // in their uppermost bits, so many
  bool is_number = true;          // and a finite one, with a scale that is one
  bool is_exact = false;          // below is the value itself
  uint64_t below = 0, above = 0;  // the codes on either side of the value
  uint64_t rounded = 0;           // the code that the rounding takes
  uint64_t result = 0;            // after .sat and .relu

  bool operator==(const CvtLane&) const = default;
};
/// The lanes of compute(instruction, operands), that of a first; words in the order of operands_of(). Throws Error when
/// there are more or fewer words, or the instruction is not one of cvt_instructions().
std::vector<CvtLane> lanes_of(const CvtInstruction& instruction, std::span<const uint64_t> words);

/// results[i] of operands[i]. Throws Error as above, or when the lengths differ.
void compute(const CvtInstruction& instruction, std::span<const CvtOperands> operands, std::span<uint64_t> results);

/// The same of arrays of words, one an operand in the order of operands_of(). Throws Error as above, when there are
/// more or fewer arrays, or when a length is another than that of `results`.
void compute(const CvtInstruction& instruction, std::span<const std::span<const uint64_t>> operands,
             std::span<uint64_t> results);

}  // namespace bitmma
