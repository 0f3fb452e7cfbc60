// SPDX-License-Identifier: MIT
#include "bitmma/layout/scale_image.hpp"

#include <fmt/format.h>

#include "bitmma/core/error.hpp"

namespace bitmma {
namespace {

/// Checks the range first: only then do the products fit.
void require_countable(const ScaleImage& image) {
  if (image.rows >= 1 && image.blocks >= 1 && image.rows <= 1 << 24 && image.blocks <= 1 << 20) return;
  throw Error({.field = "scale matrix",
               .seen = fmt::format("{} x {}", image.rows, image.blocks),
               .expected = "1..16777216 rows, 1..1048576 blocks"});
}

void require_size(const ScaleImage& image, size_t seen, int64_t expected, std::string_view what) {
  if (static_cast<int64_t>(seen) == expected) return;
  throw Error({.code = ViolationCode::wrong_shape,
               .field = fmt::format("bytes of the {}", what),
               .seen = std::to_string(seen),
               .expected = fmt::format("{} for {} rows and {} blocks", expected, image.rows, image.blocks)});
}

}  // namespace

std::vector<uint8_t> pack_scales(const ScaleImage& image, std::span<const uint8_t> scales) {
  require_countable(image);
  require_size(image, scales.size(), image.rows * image.blocks, "row-major matrix");
  std::vector<uint8_t> packed(static_cast<size_t>(image.bytes()));
  for (int64_t row = 0; row < image.rows; ++row) {
    for (int64_t block = 0; block < image.blocks; ++block)
      packed[static_cast<size_t>(image.offset_of(row, block))] =
          scales[static_cast<size_t>(row * image.blocks + block)];
  }
  return packed;
}

std::vector<uint8_t> unpack_scales(const ScaleImage& image, std::span<const uint8_t> packed) {
  require_countable(image);
  require_size(image, packed.size(), image.bytes(), "image");
  std::vector<uint8_t> scales(static_cast<size_t>(image.rows * image.blocks));
  for (int64_t row = 0; row < image.rows; ++row) {
    for (int64_t block = 0; block < image.blocks; ++block)
      scales[static_cast<size_t>(row * image.blocks + block)] =
          packed[static_cast<size_t>(image.offset_of(row, block))];
  }
  return scales;
}

}  // namespace bitmma
