// SPDX-License-Identifier: MIT
#include "bitmma/descriptor/descriptor_meaning.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace bitmma {
namespace {

/// The distance that a stride covers. Without a swizzle, the major-ness exchanges the meanings of the two strides.
std::string step_of(bool is_leading, Major major, const SwizzleInfo& swizzle) {
  const bool swizzled = swizzle.bits != 0;
  if (major == Major::k) {
    if (!is_leading) return "between groups of 8 rows";
    return swizzled ? fmt::format("not used if a row of K fits into {} bytes; 16 by convention", swizzle.width_bytes)
                    : "between neighbouring 16 bytes of K";
  }
  if (is_leading)
    return swizzled ? fmt::format("between pieces of {} bytes along M or N", swizzle.width_bytes)
                    : "between groups of 8 values of k";
  return swizzled ? fmt::format("between groups of {} values of k", swizzle.rows_per_atom)
                  : "between neighbouring 16 bytes of M or N";
}

std::string stride_meaning(const SmemDescriptor& descriptor, bool is_leading, std::optional<Major> major) {
  const SwizzleInfo& swizzle = info(descriptor.swizzle);
  if (is_leading && descriptor.leading_dim_absolute)
    return "an address: where a row of K continues after its first 128 bytes";
  const std::string_view name = is_leading ? "LBO" : "SBO";
  if (major) return fmt::format("{}, {}", name, step_of(is_leading, *major, swizzle));
  return fmt::format("{}; K-major: {}; MN-major: {}", name, step_of(is_leading, Major::k, swizzle),
                     step_of(is_leading, Major::mn, swizzle));
}

}  // namespace

std::string meaning_of(const SmemDescriptor& descriptor, std::string_view name, std::optional<Major> major) {
  const auto fields = smem_descriptor_fields(descriptor.target);
  const auto field = std::ranges::find_if(fields, [&](const DescriptorField& row) { return row.bits.name == name; });
  if (field == fields.end()) {
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "descriptor field",
                 .seen = std::string(name),
                 .expected = fmt::format("a field of {}'s descriptors", print(descriptor.target))});
  }
  const SwizzleInfo& swizzle = info(descriptor.swizzle);
  if (name == "leading_dim_byte_offset") return stride_meaning(descriptor, true, major);
  if (name == "stride_dim_byte_offset") return stride_meaning(descriptor, false, major);
  if (name == "swizzle") return fmt::format("{}: {}", swizzle.name, print(swizzle));
  if (name == "base_offset") {
    return swizzle.bits == 0 ? "not used without swizzling"
                             : fmt::format("phase of the row in which the pattern begins; the start is in phase {}",
                                           base_offset_of_start(descriptor));
  }
  return std::string(field->meaning);
}

std::string_view evidence_of_wide_rows(Target target, const SwizzleInfo& swizzle, int row_bytes) {
  if (info(target).smem_descriptor != SmemDescriptorVersion::sm_90)
    return "assumption: an H200's wgmma does so; no Blackwell GPU was measured";
  return swizzle.width_bytes == 32 && row_bytes == 64
             ? "measured on an NVIDIA H200"
             : "assumption: no wgmma reads such rows; an H200 does so with 64 bytes under the 32B swizzle";
}

int base_offset_of_start(const SmemDescriptor& descriptor) {
  const SwizzleInfo& swizzle = info(descriptor.swizzle);
  return static_cast<int>((descriptor.start_address_bytes >> 7) & ((int64_t{1} << swizzle.bits) - 1));
}

}  // namespace bitmma
