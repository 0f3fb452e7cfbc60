// SPDX-License-Identifier: MIT
// Builds kernel parameters from the instruction's table of fields.
#pragma once

#include "kernels.hpp"

namespace bitmma::kernels {

/// "b_desc_in": contains only this field. It has no bytes if the instruction does not read the field.
KernelParameter input_of(const Request& request, Field field);

/// The fields that the instruction writes, one after the other.
KernelParameter output_of(const Request& request, std::string name);

/// Adds `field` to the parameter if the instruction reads it; bytes_per_case must include it.
void add(KernelParameter& parameter, const Request& request, Field field, int64_t offset_bytes);
/// Adds a 32-bit immediate, or 0 if the instruction does not have it.
void add_immediate(KernelParameter& parameter, const Request& request, std::string_view name, int64_t offset_bytes);

}  // namespace bitmma::kernels
