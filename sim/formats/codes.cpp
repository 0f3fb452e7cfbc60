// SPDX-License-Identifier: MIT
#include "bitmma/formats/codes.hpp"

#include <cstring>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/interrupt.hpp"
#include "matrix_inside.hpp"

namespace bitmma {
namespace {

template <typename Word>
void read(const CodeView& from, Matrix& to) {
  const auto mask = static_cast<uint32_t>(low_mask(info(to.format()).bits));
  const bool is_bit = to.format() == Format::b1;
  const auto* first = static_cast<const uint8_t*>(from.data);
  for (int row = 0; row < to.rows(); ++row, first += from.row_stride) {
    if (row % 64 == 63) check_interrupt();
    const uint8_t* place = first;
    for (uint32_t& code : to.row(row)) {
      Word word;
      std::memcpy(&word, place, sizeof word);
      code = is_bit ? word != 0 : word & mask;
      place += from.col_stride;
    }
  }
}

void read_wide(const CodeView& from, Matrix& to) {
  const auto* first = static_cast<const uint8_t*>(from.data);
  for (int row = 0; row < to.rows(); ++row, first += from.row_stride) {
    for (int col = 0; col < to.cols(); ++col) {
      uint64_t code = 0;
      std::memcpy(&code, first + col * from.col_stride, sizeof code);
      to.set_code(row, col, code);
    }
  }
}

template <typename Word>
void write(const Matrix& from, void* to) {
  auto* place = static_cast<uint8_t*>(to);
  size_t count = 0;
  for (const uint32_t code : from.words()) {
    if (++count % (1 << 18) == 0) check_interrupt();
    const auto word = static_cast<Word>(code);
    std::memcpy(place, &word, sizeof word);
    place += sizeof word;
  }
}

}  // namespace

void read_codes(const CodeView& from, Matrix& to) {
  switch (code_bytes(to.format())) {
    case 1: return read<uint8_t>(from, to);
    case 2: return read<uint16_t>(from, to);
    case 4: return read<uint32_t>(from, to);
    default: return read_wide(from, to);
  }
}

Matrix matrix_of(Format format, int rows, int cols, const CodeView& from) {
  Matrix matrix(format, rows, cols);
  read_codes(from, matrix);
  return matrix;
}

void write_codes(const Matrix& from, void* to) {
  switch (code_bytes(from.format())) {
    case 1: return write<uint8_t>(from, to);
    case 2: return write<uint16_t>(from, to);
    default:
      // Words of one code, or of half a code with the low half first: in little-endian order without conversion.
      if (from.size() > 0) std::memcpy(to, from.words().data(), from.words().size_bytes());
  }
}

}  // namespace bitmma
