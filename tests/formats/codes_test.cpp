#include "bitmma/formats/codes.hpp"

#include <cstring>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

/// Random bytes, those above a code included.
std::vector<uint8_t> random_bytes(size_t count, uint64_t seed) {
  RandomStream random(seed, 0);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.word());
  return bytes;
}

/// The code at `place`, byte by byte with the lowest first.
uint64_t code_at(Format format, const uint8_t* place) {
  uint64_t word = 0;
  for (int i = code_bytes(format) - 1; i >= 0; --i) word = word << 8 | place[i];
  return format == Format::b1 ? word != 0 : word & low_mask(info(format).bits);
}

}  // namespace

TEST_CASE("a code takes 1, 2, 4 or 8 bytes, as many as hold its bits") {
  for (const FormatInfo& format : formats) {
    INFO(format.name);
    const int bytes = code_bytes(format.id);
    CHECK((bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8));
    CHECK(8 * bytes >= format.bits);
    CHECK((bytes == 1 || 4 * bytes < format.bits));
  }
}

TEST_CASE("codes of every format are read with any strides from any address, and bits above a code are ignored") {
  constexpr int rows = 5, cols = 7;
  for (const FormatInfo& format : formats) {
    const int64_t bytes = code_bytes(format.id);
    const std::vector<uint8_t> memory = random_bytes(4096, 7 + static_cast<uint64_t>(format.id));
    struct Strides {
      int64_t row, col;
    };
    for (const Strides& strides :
         {Strides{cols * bytes, bytes}, Strides{bytes, rows * bytes}, Strides{-cols * bytes, bytes},
          Strides{cols * bytes + 3, -bytes}, Strides{0, bytes}, Strides{bytes, 0}, Strides{0, 0}, Strides{1, 13}}) {
      INFO(format.name << " row stride " << strides.row << " column stride " << strides.col);
      const uint8_t* first = memory.data() + 2001;  // odd: no code is aligned
      const Matrix read = matrix_of(format.id, rows, cols, {first, strides.row, strides.col});
      bool same = true;
      for (int row = 0; row < rows; ++row) {
        for (int col = 0; col < cols; ++col)
          same &= read.code(row, col) == code_at(format.id, first + row * strides.row + col * strides.col);
      }
      CHECK(same);
    }
  }
}

TEST_CASE("codes are written row by row without gaps, the bits above them 0, and read back as they were") {
  for (const FormatInfo& format : formats) {
    INFO(format.name);
    const auto bytes = static_cast<size_t>(code_bytes(format.id));
    const std::vector<uint8_t> memory = random_bytes(6 * 9 * bytes, 3);
    const CodeView view{memory.data(), static_cast<int64_t>(9 * bytes), static_cast<int64_t>(bytes)};
    const Matrix matrix = matrix_of(format.id, 6, 9, view);
    std::vector<uint8_t> written(memory.size() + 1, 0xAB);
    write_codes(matrix, written.data());
    CHECK(written.back() == 0xAB);
    for (size_t i = 0; i < matrix.size(); ++i) {
      uint64_t word = 0;
      std::memcpy(&word, written.data() + i * bytes, bytes);
      CHECK(word == matrix.code(static_cast<int>(i) / 9, static_cast<int>(i) % 9));
    }
    CHECK(matrix_of(format.id, 6, 9, {written.data(), view.row_stride, view.col_stride}) == matrix);
  }
}

TEST_CASE("a matrix without elements reads and writes nothing, and a negative extent is refused") {
  CHECK(matrix_of(Format::f16, 0, 5, {}).size() == 0);
  CHECK(matrix_of(Format::f64, 5, 0, {}).rows() == 5);
  write_codes(Matrix(Format::f32, 0, 3), nullptr);
  CHECK_THROWS_AS(matrix_of(Format::f16, -1, 5, {}), Error);
}
