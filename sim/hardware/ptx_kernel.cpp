// SPDX-License-Identifier: MIT
#include "bitmma/hardware/ptx_kernel.hpp"

#include <algorithm>
#include <bit>

#include "bitmma/instruction/form.hpp"
#include "kernels/kernels.hpp"

namespace bitmma {

int kernel_tmem_columns(int columns) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(columns, 32))));
}

KernelShape kernel_shape_of(std::span<const State> cases) {
  KernelShape shape{.columns = 0};
  for (const State& state : cases) {
    shape.image_bytes = std::max(shape.image_bytes, state.extent(Field::smem, -1));
    shape.columns = std::max(shape.columns, state.columns());
  }
  return shape;
}

bool reads_kept_operand(const Instruction& instruction) {
  return is_mma(instruction) && mma_of(instruction).reads_collector;
}

Kernel ptx_kernel(const Instruction& instruction, const KernelShape& shape) {
  const Target target = shape.target.value_or(default_target(instruction));
  const kernels::Request request{
      .instruction = instruction,
      .mnemonic = print(instruction),
      .statement = statement_of(instruction),
      .fields = fields_of(instruction),
      .shape = {.image_bytes = shape.image_bytes, .columns = shape.columns, .target = target},
      .target = print(target),
      .version = ptx_version_of(instruction, target)};
  return std::visit([&](const auto& alternative) { return kernels::kernel_of(alternative, request); }, instruction);
}

}  // namespace bitmma
