// SPDX-License-Identifier: MIT
// Canonical layouts: the meaning of a matrix descriptor's two strides, by major-ness and swizzle mode.
//
// With T = 128 / element bits (elements in 16 bytes) and W = swizzle width / 16 bytes (1 without swizzling):
//
//   K-major   none      ((8,m),(T,2k)) : ((T,SBO),(1,LBO))
//   K-major   swizzled  ((8,m),(T,2k)) : ((W*T,SBO),(1,T))          LBO unused according to PTX; but see below
//   MN-major  none      ((T,1,m),(8,k)): ((1,T,SBO),(T,LBO))        SBO steps along M/N, LBO along K
//   MN-major  swizzled  ((T,W,m),(8,k)): ((1,T,LBO),(W*T,SBO))      LBO steps along M/N, SBO along K
//
// One fact is not in PTX but measured on an H200 (data/golden/sm_90a/probes/sparse_b_32): in K-major a row of K that is
// wider than the swizzle continues at LBO, ((8,m),(T,W,k)):((W*T,SBO),(1,T,LBO)). wgmma has only one such case, the 64
// bytes of K of a sparse B under the 32B swizzle. Otherwise LBO has no effect in swizzled K-major.
//
// Source: PTX ISA 9.7.15.5.1.2.1.3 and 9.7.16.3.3; checked against CUTLASS in data/oracle and measured on an H200.
#pragma once

#include <cstdint>

#include "bitmma/layout/layout.hpp"
#include "bitmma/layout/swizzle.hpp"

namespace bitmma {

/// The coordinate that is contiguous in memory: PTX's transpose bits are 0 for K-major and 1 for MN-major.
enum class Major : uint8_t { k, mn };

constexpr std::string_view print(Major major) { return major == Major::k ? "k-major" : "mn-major"; }

/// The two byte strides of a descriptor, decoded.
struct [[nodiscard]] Strides {
  int64_t leading_dim_byte_offset = 0;
  int64_t stride_dim_byte_offset = 0;

  bool operator==(const Strides&) const = default;
};

/// The canonical layout in PTX's form, in elements, of a rows x cols matrix (M or N by K), before the swizzle acts on
/// the address.
Layout canonical_layout(Major major, const SwizzleInfo& swizzle, const Strides& strides, int element_bits, int rows,
                        int cols);

/// The layout that the hardware reads: the canonical one, except for rows of K wider than the swizzle.
Layout hardware_layout(Major major, const SwizzleInfo& swizzle, const Strides& strides, int element_bits, int rows,
                       int cols);

/// The smallest strides with which the elements of a rows x cols matrix do not overlap, each plus `padding_bytes`.
/// Swizzled K-major keeps the conventional leading byte offset 16 (encoded 1) if the hardware ignores it.
Strides minimal_strides(Major major, const SwizzleInfo& swizzle, int element_bits, int rows, int cols,
                        int64_t padding_bytes = 0);

/// True if a K-major row of K is wider than the swizzle, so that LBO matters.
bool is_wider_than_swizzle(Major major, const SwizzleInfo& swizzle, int element_bits, int cols);

}  // namespace bitmma
