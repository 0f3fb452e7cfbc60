// Everything that can be asked about a vector file.
#pragma once

#include "bitmma/files/vector_file.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "fuzz.hpp"

namespace bitmma::fuzz {

/// What to look at: small where the file is small.
struct Point {
  int row = 0, col = 0;
  int64_t case_index = 0;
  bool diagnosed = false;  // it takes long
  uint8_t layout = 0;
};
Point any_point(Bytes& in);

/// The layouts that the low bits of a byte name.
Placement placement_of(uint8_t layout);

/// Asks; each question may be refused.
void analyse(const VectorFile& vectors, const Point& point);

}  // namespace bitmma::fuzz
