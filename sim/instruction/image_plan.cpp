#include "image_plan.hpp"

#include <fmt/format.h>

#include "bitmma/core/bits.hpp"

namespace bitmma {

void ImagePlan::add(std::string_view operand, const OperandLayout& layout, SmemMatrix matrix) {
  const SwizzleInfo& swizzle = info(layout.swizzle);
  if (layout.padding_bytes < 0 || layout.padding_bytes % 16 != 0 || layout.padding_bytes >= window_bytes) {
    violations_.push_back({.field = fmt::format("padding of {}", operand),
                           .seen = std::to_string(layout.padding_bytes),
                           .expected = fmt::format("a multiple of 16 bytes, 0..{}", window_bytes - 16),
                           .fix = "strides are stored in units of 16 bytes"});
    return;
  }
  matrix.major = layout.major;
  matrix.descriptor = {.target = target_,
                       .start_address_bytes = end_ + layout.start_bytes,
                       .strides = minimal_strides(layout.major, swizzle, matrix.element_bits, matrix.rows, matrix.cols,
                                                  layout.padding_bytes),
                       .base_offset = layout.base_offset,
                       .swizzle = layout.swizzle};
  // The 48 bytes of K = 96: rows that pass the end of their 128 bytes go on in a second buffer, where the target can.
  const int64_t row_bytes = int64_t{matrix.cols} * matrix.element_bits / 8;
  if (matrix.cols == 96 && layout.major == Major::k && layout.swizzle == Swizzle::b128 &&
      layout.start_bytes % 128 + row_bytes > 128) {
    matrix.descriptor.strides.leading_dim_byte_offset = round_up(end_byte(SmemMap(matrix)), alignment);
    matrix.descriptor.leading_dim_absolute = true;
  }
  matrices_.push_back(matrix);
  end_ = round_up(end_byte(SmemMap(matrix)), alignment);
}

void ImagePlan::require_fits() const {
  std::vector<Violation> violations = violations_;
  if (end_ > window_bytes) {
    violations.push_back({.field = "image",
                          .seen = fmt::format("{} bytes", end_),
                          .expected = fmt::format("at most {} bytes, the reach of a descriptor", window_bytes),
                          .fix = "use less padding"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

}  // namespace bitmma
