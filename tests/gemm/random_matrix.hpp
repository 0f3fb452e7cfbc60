// Operands of products that tests make.
#pragma once

#include <vector>

#include "bitmma/core/random.hpp"
#include "bitmma/formats/matrix.hpp"

namespace bitmma::test {

/// Multiples of 2^-12 between -5 and 5, rounded to the format.
inline Matrix random_matrix(Format format, int rows, int cols, RandomStream& random) {
  std::vector<float> values(static_cast<size_t>(rows) * static_cast<size_t>(cols));
  for (float& value : values) value = static_cast<float>(random.between(-20000, 20000)) / 4096;
  return from_floats(format, rows, cols, values);
}

}  // namespace bitmma::test
