// SPDX-License-Identifier: MIT
// Where matrices go in an image of shared memory: one after the other, each on the next 1024 bytes, so that base offset
// 0 is right in every swizzle mode.
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
  static constexpr int64_t window_bytes = 1 << 18;  // the range of the 14 stored bits of an address

  explicit ImagePlan(Target target) : target_(target) {}

  /// The next matrix; `matrix` says its extents and its element's bits.
  void add(std::string_view operand, const OperandLayout& layout, SmemMatrix matrix);
  /// Throws Error with what add found wrong, and when the image passes the window.
  void require_fits() const;

  const SmemMatrix& matrix(size_t index) const { return matrices_[index]; }
  int64_t image_bytes() const { return end_; }

 private:
  /// Notes strides with which two elements share a place.
  void require_apart(std::string_view operand, const SmemMap& map);

  Target target_;
  int64_t end_ = 0;
  std::vector<SmemMatrix> matrices_;
  std::vector<Violation> violations_;
};

}  // namespace bitmma
