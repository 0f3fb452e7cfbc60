// SPDX-License-Identifier: MIT
// Shared-memory matrix descriptors: the 64-bit word that tells wgmma (sm_90a) and tcgen05.mma (sm_100a) where a matrix
// is.
//
//   sm_90a   63..62 swizzle | 51..49 base offset | 45..32 stride | 29..16 leading | 13..0 start       (all >> 4)
//   sm_100a  63..61 swizzle | 52 leading mode | 51..49 base offset | 48..46 = 0b001 | 45..32 | 29..16 | 13..0
//   sm_107a  as sm_100a, but 30..16 leading and 14..0 start
//
//   0x4000004000010000 on sm_90a: 128B swizzle, start 0, leading 16 (ignored in K-major), stride 1024 bytes.
//
// One table encodes, decodes and prints. Sources: PTX ISA 9.7.15.5.1.2.2 and 9.7.16.4.1, Table 40; for sm_107a and
// sm_107f ISA 9.4, Table 49.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/layout/canonical.hpp"

namespace bitmma {

/// A descriptor with its byte quantities decoded.
struct [[nodiscard]] SmemDescriptor {
  Target target = Target::sm_90a;
  int64_t start_address_bytes = 0;
  Strides strides = {};
  int base_offset = 0;
  Swizzle swizzle = Swizzle::none;
  bool leading_dim_absolute = false;  // sm_100a bit 52: the leading field is an address
  /// The bits outside every field, in place; the default sets the bits that must be set.
  uint64_t reserved = info(target).smem_descriptor >= SmemDescriptorVersion::sm_100 ? uint64_t{1} << 46 : 0;

  bool operator==(const SmemDescriptor&) const = default;
};

/// One row of a descriptor's field table. Sizes in bytes are stored in units of 16.
struct DescriptorField {
  BitField bits = {};
  enum class Unit : uint8_t { plain, bytes_16 } unit = Unit::plain;
  std::string_view meaning = {};
  int fixed = -1;  // the only legal value; -1: any value
};

/// The rows of the target's descriptor, lowest bits first. Throws Error for a target without such descriptors.
std::span<const DescriptorField> smem_descriptor_fields(Target target);

/// Decodes the word. Throws Error if the architecture reserves the swizzle code.
SmemDescriptor decode_smem_descriptor(Target target, uint64_t word);

/// Encodes the descriptor; the inverse of decode. Throws Error with every violation: an address or stride that is not a
/// multiple of 16 bytes in [0, 2^18) (for start and leading field of sm_107a and sm_107f in [0, 2^19)), a base offset
/// outside 0..7, or a swizzle mode that the architecture lacks.
uint64_t encode(const SmemDescriptor& descriptor);

/// Warnings about legal fields that look wrong: reserved bits, fixed bits, a start inside the swizzle pattern, ignored
/// fields. If `major` is unknown, only warnings that hold for both are reported. `row_bytes`: bytes of K that the
/// instruction reads; 0 if unknown.
std::vector<Violation> warnings(const SmemDescriptor& descriptor, std::optional<Major> major = std::nullopt,
                                int row_bytes = 0);

}  // namespace bitmma
