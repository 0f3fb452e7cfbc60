// SPDX-License-Identifier: MIT
// The kernel around one tcgen05 instruction: allocates and fills Tensor Memory, copies the image, issues the
// instruction and waits for it, writes out Tensor Memory (or the registers of an ld), and frees everything.
#pragma once

#include <string>
#include <string_view>

#include "kernels.hpp"

namespace bitmma::kernels {

/// The part between filling and reading Tensor Memory: loads operands, issues the statement and waits for it.
struct Body {
  std::string load = {};
  bool by_one_thread = true;  // with commit and mbarrier; otherwise one warp issues it and waits
  std::string after = {};     // statements of the warp that follow
  bool result_is_tmem = true;
};

/// The kernel without its text. Single-number operands are words of words64_in and words32_in.
Kernel tmem_parameters(const Request& request, int cta_group);

/// Loads one operand into the register `name`. Adds the image's address to the start field of a descriptor, and to the
/// leading dimension if that is also an address.
std::string load_descriptor(Field field, std::string_view name, Target target);
/// Loads an address into the register with the same name, relative to the columns that the kernel allocated.
std::string load_address(Field field);
/// Loads word `index` of a field, or an immediate, unchanged.
std::string load_word(Field field, std::string_view name, int index = 0);
std::string load_immediate(std::string_view immediate, std::string_view name);

std::string tmem_kernel_text(const Kernel& kernel, const Request& request, const Body& body);

}  // namespace bitmma::kernels
