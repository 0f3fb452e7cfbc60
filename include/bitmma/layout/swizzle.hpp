// SPDX-License-Identifier: MIT
// Swizzle modes of shared-memory matrices: three integers each, CuTe's Swizzle<bits, base, shift>.
//
//   128B:  address  ...a9 a8 a7 a6 a5 a4 a3..a0
//                      \______/ XOR into a6..a4      16-byte units move, bytes inside a unit never do
//
// The XOR acts on the absolute shared-memory address, not on the offset in the matrix, and the descriptor's base offset
// is subtracted from the row phase (address >> 7) first. Both measured on an H200, see data/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bitmma/core/target.hpp"

namespace bitmma {

enum class Swizzle : uint8_t { none, b32, b64, b128, b128_atom32 };

struct SwizzleInfo {
  Swizzle id;
  std::string_view name;  // the name in bitmma's options
  int width_bytes = 16;   // bytes per row of the pattern; 16, a core-matrix row, without swizzling
  int bits = 0, base = 4, shift = 3;
  int code_sm_90a = -1;   // descriptor bits 62-63; -1: the architecture lacks the mode
  int code_sm_100a = -1;  // descriptor bits 61-63
  int rows_per_atom = 8;  // MN-major: number of k after which the next stride applies

  /// Period of the XOR pattern in bytes; patterns that start at a multiple of it have base offset 0.
  constexpr int pattern_bytes() const { return bits == 0 ? 16 : 128 << bits; }
  /// The code of this mode in the target's shared-memory descriptors; -1 if they lack the mode.
  constexpr int code(Target target) const {
    const SmemDescriptorVersion version = bitmma::info(target).smem_descriptor;
    return version == SmemDescriptorVersion::none    ? -1
           : version == SmemDescriptorVersion::sm_90 ? code_sm_90a
                                                     : code_sm_100a;
  }
};

inline constexpr auto swizzles = std::to_array<SwizzleInfo>({
    {.id = Swizzle::none, .name = "none", .code_sm_90a = 0, .code_sm_100a = 0},
    {.id = Swizzle::b32, .name = "32", .width_bytes = 32, .bits = 1, .code_sm_90a = 3, .code_sm_100a = 6},
    {.id = Swizzle::b64, .name = "64", .width_bytes = 64, .bits = 2, .code_sm_90a = 2, .code_sm_100a = 4},
    {.id = Swizzle::b128, .name = "128", .width_bytes = 128, .bits = 3, .code_sm_90a = 1, .code_sm_100a = 2},
    {.id = Swizzle::b128_atom32,
     .name = "128-atom32",
     .width_bytes = 128,
     .bits = 2,
     .base = 5,
     .shift = 2,
     .code_sm_100a = 1,
     .rows_per_atom = 4},
});

constexpr const SwizzleInfo& info(Swizzle swizzle) { return swizzles[static_cast<size_t>(swizzle)]; }

/// The physical byte address of linear byte address `address`. Its own inverse for a fixed base offset.
constexpr int64_t apply(const SwizzleInfo& swizzle, int64_t address, int base_offset = 0) {
  const int64_t phase = (address >> (swizzle.base + swizzle.shift)) - base_offset;
  return address ^ ((phase & ((int64_t{1} << swizzle.bits) - 1)) << swizzle.base);
}

consteval bool is_involution(const SwizzleInfo& swizzle) {
  for (int64_t address = 0; address < 4096; address += 16) {
    if (apply(swizzle, apply(swizzle, address, 3), 3) != address) return false;
  }
  return true;
}
static_assert(is_involution(swizzles[0]) && is_involution(swizzles[1]) && is_involution(swizzles[2]) &&
              is_involution(swizzles[3]) && is_involution(swizzles[4]));

/// The mode with this descriptor code, or nothing if the code is reserved.
std::optional<Swizzle> swizzle_of_code(Target target, int code);
std::optional<Swizzle> swizzle_named(std::string_view name);

/// "Swizzle<3,4,3>".
std::string print(const SwizzleInfo& swizzle);

}  // namespace bitmma
