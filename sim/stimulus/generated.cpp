// SPDX-License-Identifier: MIT
#include "bitmma/stimulus/generated.hpp"

#include <cstdlib>

#include "bitmma/core/random.hpp"
#include "bitmma/formats/round.hpp"

namespace bitmma {
namespace {

uint64_t code_of(Format format, uint32_t word) {
  if (format == Format::s8) return word >> 24;
  const bool whole = format == Format::f64;
  const int64_t value =
      whole ? static_cast<int32_t>(word) : static_cast<int64_t>(word & 0xFFFF) - static_cast<int64_t>(word >> 16);
  const Format rounded = format == Format::tf32 ? Format::f32 : format;
  return round_to(
      info(rounded),
      {.negative = value < 0, .magnitude = static_cast<uint64_t>(std::abs(value)), .exponent = whole ? -29 : -14},
      Rounding::nearest_even, info(rounded).mantissa_bits);
}

}  // namespace

Matrix generated_rows(Format format, std::span<const int64_t> rows, int cols, uint64_t seed, GeneratedStream stream) {
  Matrix matrix(format, static_cast<int>(rows.size()), cols);
  const std::array<uint32_t, 2> key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int row = 0; row < matrix.rows(); ++row) {
    const auto first = static_cast<uint64_t>(rows[static_cast<size_t>(row)]) * static_cast<uint64_t>(cols);
    std::array<uint32_t, 4> words{};
    for (int col = 0; col < cols; ++col) {
      const uint64_t element = first + static_cast<uint64_t>(col), block = element / 4;
      if (col == 0 || element % 4 == 0)
        words = philox4x32(
            {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(stream), 0}, key);
      matrix.set_code(row, col, code_of(format, words[element % 4]));
    }
  }
  return matrix;
}

}  // namespace bitmma
