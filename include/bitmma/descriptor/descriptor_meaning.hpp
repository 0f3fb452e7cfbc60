// SPDX-License-Identifier: MIT
// What the fields of one shared-memory descriptor mean: LBO and SBO step over different things by major-ness and
// swizzle mode, and one of them may mean nothing.
//
//              none                         swizzled, W bytes wide
//   K-major    LBO 16 bytes of K            LBO not used while a row of K fits into W bytes
//              SBO 8 rows                   SBO 8 rows
//   MN-major   LBO 8 values of k            LBO W bytes of M or N
//              SBO 16 bytes of M or N       SBO 8 values of k, 4 with 32-byte atoms
//
// Source: PTX ISA 9.7.15.5.1.2.1.3 and 9.7.16.3.3.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bitmma/descriptor/smem_descriptor.hpp"

namespace bitmma {

/// The meaning of field `name` in this descriptor, in words. Without `major`, both meanings of a stride are given.
/// Throws Error if the target's descriptors lack this field.
std::string meaning_of(const SmemDescriptor& descriptor, std::string_view name,
                       std::optional<Major> major = std::nullopt);

/// What is known of rows of K of `row_bytes` that are wider than the swizzle on this target: that they go on at LBO is
/// measured where an H200's wgmma reads such rows, 64 bytes under the 32B swizzle, and a model choice elsewhere.
std::string_view evidence_of_wide_rows(Target target, const SwizzleInfo& swizzle, int row_bytes);

/// The base offset of a pattern that begins where the descriptor starts: (start >> 7) & 7, as far as the mode looks at
/// it. 0 without swizzling.
int base_offset_of_start(const SmemDescriptor& descriptor);

}  // namespace bitmma
