// SPDX-License-Identifier: MIT
// The shared memory of a K loop: A and B of all steps in one image, where each step's descriptor starts at its part of
// K.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "bitmma/core/random.hpp"
#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/place_operands.hpp"

namespace bitmma {

/// One operand of a tile, with the K of all steps.
class MainloopOperand {
 public:
  /// `of_one_step` is laid out as in an instruction's own image; the tile starts at `first_byte` of the common image.
  MainloopOperand(const SmemMatrix& of_one_step, const OperandLayout& layout, int64_t steps, int64_t first_byte);

  int64_t end() const { return end_byte(SmemMap(matrix_)); }
  /// Step `step` in the tile, as its descriptor describes it.
  SmemMatrix part(int64_t step) const;

 private:
  int step_cols_;
  int64_t leading_of_one_step_;
  SmemMatrix matrix_;
};

/// Merges the images of steps that were placed one by one.
class MainloopTile {
 public:
  /// `steps` are cases from place_operands, each with its own image. Throws Error if they exceed the range of a
  /// descriptor. Bytes that no step reads are drawn from `filler`.
  MainloopTile(const std::vector<Case>& steps, const Placement& placement, RandomStream filler);

  /// True if the instruction reads nothing from shared memory.
  bool empty() const { return operands_.empty(); }
  /// Replaces the case's own image by the tile and the descriptors of step `step`.
  void move_in(Case& this_case, int64_t step) const;

 private:
  void add(const Case& this_case, int64_t step);

  std::map<Role, MainloopOperand> operands_;
  int64_t image_bytes_ = 0;
  std::vector<uint8_t> image_;
  Extents extents_;
};

}  // namespace bitmma
