// SPDX-License-Identifier: MIT
// Computes the descriptors of the instructions that read a layout in shared memory.
//
//   ((8,8),(8,8)):((64,512),(1,8)) under Swizzle<3,4,3>, 16-bit      T = 8, m = 8, k = 4, LBO not used, SBO 1024
//     0x4000004000010000, then + 2, + 4, + 6 in the start field for the next k
//
// A layout has a descriptor if the rows and columns that one instruction reads form one of PTX's canonical layouts
// (layout/canonical.hpp), however the layout is written. Otherwise the answer gives the reasons.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/layout/cute.hpp"

namespace bitmma {

/// The part of a layout that an instruction reads.
struct DescriptorRequest {
  Target target = Target::sm_90a;
  std::optional<Major> major = {};  // nothing: follows from the coordinate that is contiguous in memory
  int64_t instruction_rows = 0;     // M or N of one instruction; 0: all rows
  int64_t instruction_cols = 0;     // K of one instruction; 0: 32 bytes of it
};

/// One instruction's share of a layout: its first element and its descriptor.
struct DescriptorStep {
  int64_t stage = 0, row = 0, col = 0;
  uint64_t descriptor = 0;
  int64_t start_bytes = 0;

  bool operator==(const DescriptorStep&) const = default;
};

/// The descriptors of a layout. `m` and `k` count the canonical layout's patterns along rows and columns, k as in PTX:
/// T 2 columns in K-major, those of an atom in MN-major.
struct [[nodiscard]] LayoutDescriptor {
  Major major = Major::k;
  SmemDescriptor first = {};
  int64_t t = 0, m = 0, k = 0;
  bool leading_counts = false, stride_counts = false;  // the extent exceeds one core matrix, so that the stride is used
  std::vector<DescriptorStep> steps = {};              // K fastest, then rows, then stages
};

/// The descriptors, or the reasons why there are none. Warnings concern a layout with descriptors: elements that share
/// bytes, or a form that no instruction reads.
struct [[nodiscard]] DescriptorAnswer {
  std::optional<LayoutDescriptor> descriptors = {};
  std::vector<Violation> reasons = {}, warnings = {};
};

/// Throws Error for a meaningless request: a target without such descriptors, element bits that do not fill 16 bytes,
/// rows or K of no instruction, more than 65536 descriptors.
DescriptorAnswer descriptors_of(const CuteLayout& cute, const DescriptorRequest& request = {});

/// Whether an instruction can read elements of this width and major-ness from shared memory under a swizzle.
struct [[nodiscard]] SwizzleUse {
  std::string_view instruction = {};  // "wgmma", "tcgen05.mma"
  Target target = Target::sm_90a;
  int element_bits = 16;  // of the container
  Major major = Major::k;
  Swizzle swizzle = Swizzle::none;
  bool is_accepted = false;
  std::vector<Violation> reasons = {};  // why it cannot
};
/// Every combination, as descriptors_of judges a tile with it.
std::vector<SwizzleUse> swizzle_uses();

/// The first two elements that share bytes, in order of their offset; nothing if no elements overlap.
struct SharedBytes {
  int64_t row = 0, col = 0, other_row = 0, other_col = 0;
  int64_t first_byte = 0;  // before the swizzle
  int64_t elements = 0;    // number of elements that share bytes with an earlier one
};
std::optional<SharedBytes> shared_bytes_of(const CuteLayout& cute);

}  // namespace bitmma
