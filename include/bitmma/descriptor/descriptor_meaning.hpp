// SPDX-License-Identifier: MIT
// The meaning of the fields of a shared-memory descriptor: the steps of LBO and SBO depend on major-ness and swizzle
// mode, and one of them may be unused.
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

/// The meaning of field `name` in this descriptor, in words. Without `major`, it gives both meanings of a stride.
/// Throws Error if the target's descriptors lack this field.
std::string meaning_of(const SmemDescriptor& descriptor, std::string_view name,
                       std::optional<Major> major = std::nullopt);

/// The evidence for rows of K of `row_bytes` that are wider than the swizzle on this target. That they continue at LBO
/// is measured for the rows that an H200's wgmma reads (64 bytes under the 32B swizzle), and a model choice elsewhere.
std::string_view evidence_of_wide_rows(Target target, const SwizzleInfo& swizzle, int row_bytes);

/// The base offset of a pattern that begins at the descriptor's start: (start >> 7) & 7, limited to the bits that the
/// mode uses. 0 without swizzling.
int base_offset_of_start(const SmemDescriptor& descriptor);

}  // namespace bitmma
