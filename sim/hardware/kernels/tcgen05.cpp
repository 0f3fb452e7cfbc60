// SPDX-License-Identifier: MIT
// tcgen05.mma: loads its operands, inside the frame that all tcgen05 instructions share.
#include <fmt/format.h>

#include "text.hpp"
#include "tmem_frame.hpp"

namespace bitmma::kernels {
namespace {

/// Loads the operands that the statement names.
std::string load_operands(const Tcgen05Mma& instruction, const Request& request) {
  std::string text = instruction.a_source == OperandSource::tmem
                         ? load_address(Field::a_tmem)
                         : load_descriptor(Field::a_desc, "a_desc", *request.shape.target);
  text += load_descriptor(Field::b_desc, "b_desc", *request.shape.target);
  text += load_address(Field::d_tmem);
  if (instruction.sparse) text += load_address(Field::metadata_tmem);
  if (info(instruction.kind).has_block_scales)
    text += load_address(Field::scale_a_tmem) + load_address(Field::scale_b_tmem);
  text += load_immediate("idesc", "idesc");
  text += load_immediate("enable_input_d", "flag") + "  setp.ne.u32 enable_input_d, flag, 0;\n";
  if (instruction.weight_stationary) text += load_word(Field::zero_column_mask, "zero_column_mask");
  const int masks = registers_of(request.statement, "disable-output-lane");
  for (int i = 0; i < masks; ++i) text += load_word(Field::disable_output_lane, fmt::format("mask{}", i), i);
  return text;
}

}  // namespace

Kernel kernel_of(const Tcgen05Mma& instruction, const Request& request) {
  Kernel kernel = tmem_parameters(request, instruction.cta_group);
  kernel.text = tmem_kernel_text(kernel, request, {.load = load_operands(instruction, request)});
  return kernel;
}

}  // namespace bitmma::kernels
