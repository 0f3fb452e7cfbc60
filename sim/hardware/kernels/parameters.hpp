// SPDX-License-Identifier: MIT
// Parameters of kernels, made from the instruction's table of fields.
#pragma once

#include "kernels.hpp"

namespace bitmma::kernels {

/// "b_desc_in": only this field. It has no bytes if the instruction does not read it.
KernelParameter input_of(const Request& request, Field field);

/// The fields that the instruction writes, one behind the other.
KernelParameter output_of(const Request& request, std::string name);

/// Adds `field` to the parameter, where the instruction reads it; bytes_per_case must have room.
void add(KernelParameter& parameter, const Request& request, Field field, int64_t offset_bytes);
/// Adds an immediate of 32 bits, 0 where the instruction has no such.
void add_immediate(KernelParameter& parameter, const Request& request, std::string_view name, int64_t offset_bytes);

}  // namespace bitmma::kernels
