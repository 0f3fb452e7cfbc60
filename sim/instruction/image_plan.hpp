// SPDX-License-Identifier: MIT
// Arranges matrices in an image of shared memory: one after another, each at the next multiple of 1024 bytes, so that
// base offset 0 is correct in every swizzle mode.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/memory/smem.hpp"

namespace bitmma {

class ImagePlan {
 public:
  static constexpr int64_t alignment = 1024;
  static constexpr int64_t window_bytes = 1 << 18;  // the range of an address with 14 stored bits

  explicit ImagePlan(Target target) : target_(target) {}

  /// Adds the next matrix; `matrix` gives its extents and element bits.
  void add(std::string_view operand, const OperandLayout& layout, SmemMatrix matrix);
  /// Throws Error with the violations found by add, and if the image exceeds the window.
  void require_fits() const;

  const SmemMatrix& matrix(size_t index) const { return matrices_[index]; }
  int64_t image_bytes() const { return end_; }

 private:
  /// Records a violation if the strides make two elements share a place.
  void require_apart(std::string_view operand, const SmemMap& map);

  Target target_;
  int64_t end_ = 0;
  std::vector<SmemMatrix> matrices_;
  std::vector<Violation> violations_;
};

}  // namespace bitmma
