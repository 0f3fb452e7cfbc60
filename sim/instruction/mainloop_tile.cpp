// SPDX-License-Identifier: MIT
#include "mainloop_tile.hpp"

#include <fmt/format.h>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/layout/canonical.hpp"
#include "image_plan.hpp"

namespace bitmma {
namespace {

/// One image, or one per CTA: [2, bytes].
size_t ctas_of(const Instruction& instruction) {
  for (const FieldRule& rule : fields_of(instruction)) {
    if (rule.field == Field::smem && rule.extents.size() == 2) return static_cast<size_t>(rule.extents[0]);
  }
  return 1;
}

}  // namespace

MainloopOperand::MainloopOperand(const SmemMatrix& of_one_step, const OperandLayout& layout, int64_t steps,
                                 int64_t first_byte)
    : step_cols_(of_one_step.cols),
      leading_of_one_step_(of_one_step.descriptor.strides.leading_dim_byte_offset),
      matrix_(of_one_step) {
  matrix_.cols = static_cast<int>(of_one_step.cols * steps);
  matrix_.descriptor.start_address_bytes = first_byte + layout.start_bytes;
  matrix_.descriptor.strides = strides_of(layout, matrix_.element_bits, matrix_.rows, matrix_.cols);
}

SmemMatrix MainloopOperand::part(int64_t step) const {
  SmemMatrix matrix = matrix_;
  matrix.cols = step_cols_;
  matrix.descriptor.start_address_bytes = SmemMap(matrix_).linear_of(0, static_cast<int>(step) * step_cols_);
  // Within the swizzle the leading dimension has no effect; use the one of a single instruction's matrix.
  const SwizzleInfo& swizzle = info(matrix_.descriptor.swizzle);
  if (matrix_.major == Major::k && matrix_.descriptor.swizzle != Swizzle::none &&
      !is_wider_than_swizzle(matrix_.major, swizzle, matrix_.element_bits, step_cols_))
    matrix.descriptor.strides.leading_dim_byte_offset = leading_of_one_step_;
  return matrix;
}

MainloopTile::MainloopTile(const std::vector<Case>& steps, const Placement& placement, RandomStream filler) {
  const Case& first = steps.front();
  for (const SmemOperand& operand : smem_operands(first.instruction, first.target, first.before)) {
    if (operands_.contains(operand.role)) continue;  // the second CTA's operands are at the same places in its image
    const OperandLayout& layout = operand.role == Role::a ? placement.a : placement.b;
    operands_.emplace(operand.role,
                      MainloopOperand(operand.matrix, layout, static_cast<int64_t>(steps.size()), image_bytes_));
    image_bytes_ = round_up(operands_.at(operand.role).end(), ImagePlan::alignment);
  }
  if (image_bytes_ > ImagePlan::window_bytes) {
    throw Error({.code = ViolationCode::too_large,
                 .field = "tile",
                 .seen = fmt::format("{} bytes of shared memory", image_bytes_),
                 .expected = fmt::format("at most {}, the reach of a descriptor", ImagePlan::window_bytes),
                 .fix = "use a shorter K, and pass its D as c of the next part"});
  }
  if (empty()) return;
  const size_t ctas = ctas_of(first.instruction);
  extents_ = ctas == 2 ? Extents{2, image_bytes_} : Extents{image_bytes_};
  image_.resize(ctas * static_cast<size_t>(image_bytes_));
  for (uint8_t& byte : image_) byte = static_cast<uint8_t>(filler.word());
  for (size_t step = 0; step < steps.size(); ++step) add(steps[step], static_cast<int64_t>(step));
}

/// Copies the bytes that step `step` reads from its own image to their place in the tile.
void MainloopTile::add(const Case& this_case, int64_t step) {
  const size_t ctas = ctas_of(this_case.instruction);
  const Mma mma = mma_of(this_case.instruction);
  for (const SmemOperand& operand : smem_operands(this_case.instruction, this_case.target, this_case.before)) {
    const Format format = operand.role == Role::a ? mma.a : mma.b;
    for (size_t cta = 0; cta < ctas; ++cta) {
      const Matrix codes = gather(this_case.before.image(static_cast<int>(cta), static_cast<int>(ctas)),
                                  SmemMap(operand.matrix), format, "tile");
      scatter(codes, SmemMap(operands_.at(operand.role).part(step)),
              std::span(image_).subspan(cta * static_cast<size_t>(image_bytes_), static_cast<size_t>(image_bytes_)),
              "tile");
    }
  }
}

void MainloopTile::move_in(Case& this_case, int64_t step) const {
  if (empty()) return;
  this_case.before.set(Field::smem, image_, extents_);
  for (const auto& [role, operand] : operands_)
    this_case.before.set(role == Role::a ? Field::a_desc : Field::b_desc, encode(operand.part(step).descriptor));
}

}  // namespace bitmma
