// SPDX-License-Identifier: MIT
// The kernel around one tcgen05 instruction: Tensor Memory allocated and filled, image copied, the instruction issued
// and awaited, Tensor Memory (or the registers of an ld) written out, everything freed.
#pragma once

#include <string>
#include <string_view>

#include "kernels.hpp"

namespace bitmma::kernels {

/// What comes between filling Tensor Memory and reading it: operands loaded, the statement issued and awaited.
struct Body {
  std::string load = {};
  bool by_one_thread = true;  // with commit and mbarrier; otherwise by one warp, which waits itself
  std::string after = {};     // of the warp
  bool result_is_tmem = true;
};

/// The kernel without its text. Operands of one number are words of words64_in and words32_in.
Kernel tmem_parameters(const Request& request, int cta_group);

/// Loads one operand into the register `name`. A descriptor gets the image's address added to its start field, and to
/// the leading dimension where that is an address too.
std::string load_descriptor(Field field, std::string_view name, Target target);
/// Loads an address into the register of its own name, counted from the columns that the kernel allocated.
std::string load_address(Field field);
/// Loads word `index` of a field, or an immediate, as it is.
std::string load_word(Field field, std::string_view name, int index = 0);
std::string load_immediate(std::string_view immediate, std::string_view name);

std::string tmem_kernel_text(const Kernel& kernel, const Request& request, const Body& body);

}  // namespace bitmma::kernels
