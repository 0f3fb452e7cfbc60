#include "bitmma/formats/matrix.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/random.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

Matrix random_matrix(Format format, int rows, int cols, RandomStream& random) {
  Matrix matrix(format, rows, cols);
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) matrix.set_code(row, col, random.word64() & low_mask(info(format).bits));
  }
  return matrix;
}

/// 1 x n codes as one row.
Matrix row_of(Format format, const std::vector<uint64_t>& codes) {
  Matrix matrix(format, 1, static_cast<int>(codes.size()));
  for (int i = 0; i < matrix.cols(); ++i) matrix.set_code(0, i, codes[static_cast<size_t>(i)]);
  return matrix;
}

uint64_t code_of(Format format, float value) { return from_floats(format, 1, 1, std::vector{value}).code(0, 0); }

std::vector<uint64_t> all_codes(const FormatInfo& format) {
  std::vector<uint64_t> codes;
  for (uint64_t code = 0; code < uint64_t{1} << format.bits; ++code) codes.push_back(code);
  return codes;
}

constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr int largest = std::numeric_limits<int>::max();

}  // namespace

TEST_CASE("a new matrix holds zeros, as many as it has elements, and a negative extent is refused") {
  for (const FormatInfo& format : formats) {
    const Matrix matrix(format.id, 3, 5);
    INFO(format.name);
    CHECK(matrix.format() == format.id);
    CHECK(matrix.rows() == 3);
    CHECK(matrix.cols() == 5);
    CHECK(matrix.size() == 15);
    CHECK(matrix.is_wide() == (format.id == Format::f64));
    CHECK(matrix.words().size() == (matrix.is_wide() ? 30 : 15));
    for (int row = 0; row < 3; ++row) {
      CHECK(matrix.row(row).size() == (matrix.is_wide() ? 10 : 5));
      for (int col = 0; col < 5; ++col) CHECK(matrix.code(row, col) == 0);
    }
  }
  CHECK(Matrix().size() == 0);
  CHECK(Matrix(Format::f16, 0, 7).size() == 0);
  CHECK_THROWS_MATCHES(Matrix(Format::f16, -1, 4), Error, refused(wrong_shape, "matrix"));
  CHECK_THROWS_AS(Matrix(Format::f64, 4, -1), Error);
  CHECK_THROWS_MATCHES(Matrix(static_cast<Format>(200), 4, 4), Error, refused(illegal_value, "format of a matrix"));
  CHECK_THROWS_MATCHES(Matrix(Format::f64, largest, largest), Error, refused(too_large, "matrix"));
}

TEST_CASE("an element's code is what was set, in its row and column and nowhere else") {
  RandomStream random(1, 0);
  for (const Format format : {Format::b1, Format::e2m1, Format::f16, Format::s32, Format::f64}) {
    const Matrix before = random_matrix(format, 5, 7, random);
    for (int row = 0; row < 5; ++row) {
      for (int col = 0; col < 7; ++col) {
        Matrix matrix = before;
        const uint64_t code = before.code(row, col) ^ low_mask(info(format).bits);
        matrix.set_code(row, col, code);
        for (int r = 0; r < 5; ++r) {
          for (int c = 0; c < 7; ++c) {
            REQUIRE(matrix.code(r, c) == (r == row && c == col ? code : before.code(r, c)));
          }
        }
        if (!matrix.is_wide()) REQUIRE(matrix(row, col) == code);
      }
    }
  }
}

TEST_CASE("a code of 64 bits takes two words of its row, the low one first") {
  Matrix matrix(Format::f64, 2, 2);
  matrix.set_code(1, 0, 0x0123456789ABCDEF);
  CHECK(matrix.row(1)[0] == 0x89ABCDEF);
  CHECK(matrix.row(1)[1] == 0x01234567);
  CHECK(matrix.words()[4] == 0x89ABCDEF);
  matrix.fill(0xFEDCBA9876543210);
  for (int row = 0; row < 2; ++row) {
    for (int col = 0; col < 2; ++col) CHECK(matrix.code(row, col) == 0xFEDCBA9876543210);
  }
}

TEST_CASE("matrices are equal when format, extents and all codes are") {
  const Matrix matrix(Format::f16, 2, 3);
  CHECK(matrix == Matrix(Format::f16, 2, 3));
  CHECK(matrix != Matrix(Format::bf16, 2, 3));
  CHECK(matrix != Matrix(Format::f16, 3, 2));
  Matrix other = matrix;
  other(1, 2) = 1;
  CHECK(matrix != other);
}

TEST_CASE("the same bits can be read as another format of the same width, and of no other") {
  Matrix matrix(Format::f16, 1, 2);
  matrix(0, 0) = 0x3C00, matrix(0, 1) = 0xFFFF;
  const Matrix bf16 = matrix.as(Format::bf16);
  CHECK(bf16.format() == Format::bf16);
  CHECK(bf16(0, 0) == 0x3C00);
  CHECK(bf16(0, 1) == 0xFFFF);
  CHECK(bf16.as(Format::f16) == matrix);
  for (const FormatInfo& from : formats) {
    for (const FormatInfo& to : formats) {
      INFO(from.name << " as " << to.name);
      if (from.bits == to.bits) CHECK(Matrix(from.id, 2, 2).as(to.id) == Matrix(to.id, 2, 2));
      else CHECK_THROWS_MATCHES(Matrix(from.id, 2, 2).as(to.id), Error, refused(wrong_type, "format"));
    }
  }
}

TEST_CASE("a transposed matrix has element (row, col) at (col, row), whatever its size") {
  RandomStream random(6, 0);
  for (const Format format : {Format::u8, Format::u32, Format::f64}) {
    for (const auto& [rows, cols] :
         {std::pair(1, 1), std::pair(3, 9), std::pair(4, 8), std::pair(7, 64), std::pair(64, 6), std::pair(0, 5)}) {
      const Matrix matrix = random_matrix(format, rows, cols, random);
      const Matrix turned_around = transposed(matrix);
      REQUIRE(turned_around.format() == matrix.format());
      REQUIRE(turned_around.rows() == cols);
      REQUIRE(turned_around.cols() == rows);
      for (int row = 0; row < rows; ++row) {
        for (int col = 0; col < cols; ++col) REQUIRE(turned_around.code(col, row) == matrix.code(row, col));
      }
      REQUIRE(transposed(turned_around) == matrix);
    }
  }
}

TEST_CASE("a block has the elements from its first row and column on, and written back it changes those alone") {
  RandomStream random(7, 0);
  for (const Format format : {Format::e4m3, Format::f64}) {
    const Matrix matrix = random_matrix(format, 6, 9, random);
    for (const auto& [row, rows, col, cols] :
         {std::array{0, 6, 0, 9}, std::array{2, 3, 4, 5}, std::array{5, 1, 8, 1}, std::array{6, 0, 9, 0}}) {
      const Matrix block = block_of(matrix, row, rows, col, cols);
      REQUIRE(block.format() == format);
      REQUIRE(block.rows() == rows);
      REQUIRE(block.cols() == cols);
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < cols; ++c) REQUIRE(block.code(r, c) == matrix.code(row + r, col + c));
      }
      Matrix target = random_matrix(format, 6, 9, random);
      const Matrix before = target;
      set_block(target, row, col, block);
      for (int r = 0; r < 6; ++r) {
        for (int c = 0; c < 9; ++c) {
          const bool inside = r >= row && r < row + rows && c >= col && c < col + cols;
          REQUIRE(target.code(r, c) == (inside ? matrix : before).code(r, c));
        }
      }
    }
  }
}

TEST_CASE("a block that reaches outside is refused, extents that overflow an int included, and nothing is written") {
  for (const Format format : {Format::f16, Format::f64}) {
    const Matrix matrix(format, 6, 9);
    CHECK_THROWS_MATCHES(block_of(matrix, 2, 5, 0, 9), Error, refused(wrong_shape, "block of a matrix"));
    for (const auto& [row, rows, col, cols] :
         {std::array{0, 7, 0, 9}, std::array{0, 6, 0, 10}, std::array{-1, 2, 0, 1}, std::array{0, 1, -1, 2},
          std::array{0, -1, 0, 1}, std::array{0, 1, 0, -1}, std::array{7, 0, 0, 0}, std::array{1, largest, 0, 1},
          std::array{0, 1, 1, largest}, std::array{largest, 1, 0, 1}, std::array{0, 1, largest, largest}}) {
      INFO(row << " " << rows << " " << col << " " << cols);
      CHECK_THROWS_AS(block_of(matrix, row, rows, col, cols), Error);
    }
    Matrix target(format, 6, 9);
    Matrix block(format, 2, 2);
    block.fill(1);
    for (const auto& [row, col] : {std::pair(5, 0), std::pair(0, 8), std::pair(-1, 0), std::pair(0, -1),
                                   std::pair(largest, 0), std::pair(0, largest)}) {
      CHECK_THROWS_AS(set_block(target, row, col, block), Error);
    }
    CHECK_THROWS_AS(set_block(target, 0, 0, Matrix(Format::e4m3, 1, 1)), Error);
    CHECK(target == Matrix(format, 6, 9));
  }
}

TEST_CASE(
    "every code of the formats of up to 16 bits survives a trip through floats, and a NaN becomes the canonical one") {
  for (const FormatInfo& format : formats) {
    if (format.bits > 16) continue;
    const std::vector<uint64_t> codes = all_codes(format);
    const std::vector<float> values = to_floats(row_of(format.id, codes));
    const Matrix back = from_floats(format.id, 1, static_cast<int>(codes.size()), values);
    const uint64_t unused = format.id == Format::ue4m3 ? 0x80 : 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      INFO(format.name << " " << print_bits(format.id, codes[i]));
      const bool is_nan = format.kind == NumberKind::floating && decode(format, codes[i]).number == NumberClass::nan;
      REQUIRE(std::isnan(values[i]) == is_nan);
      if (format.id == Format::s1z4m11 && ((codes[i] & format.zero_bits) != 0 || codes[i] == 0x8000)) continue;
      REQUIRE(back.code(0, static_cast<int>(i)) == (is_nan ? *format.canonical_nan() : codes[i] & ~unused));
    }
  }
}

TEST_CASE("the floats of a matrix are its values, row by row") {
  Matrix matrix(Format::e2m1, 2, 3);
  for (int i = 0; i < 6; ++i) matrix(i / 3, i % 3) = static_cast<uint32_t>(i + 1);
  CHECK(to_floats(matrix) == std::vector<float>{0.5f, 1, 1.5f, 2, 3, 4});
  CHECK(from_floats(Format::e2m1, 2, 3, std::vector<float>{0.5f, 1, 1.5f, 2, 3, 4}) == matrix);
  CHECK(to_floats(row_of(Format::s8, {0x80, 0xFF, 0x7F})) == std::vector<float>{-128, -1, 127});
  CHECK(to_floats(row_of(Format::u8, {0x80, 0xFF})) == std::vector<float>{128, 255});
  CHECK(to_floats(row_of(Format::b1, {0, 1})) == std::vector<float>{0, 1});
  CHECK(to_floats(row_of(Format::s32, {0x80000000, 0xFFFFFFFF})) == std::vector<float>{-0x1p31f, -1});
  CHECK(to_floats(row_of(Format::s32, {0x01000001, 0x01000003})) == std::vector<float>{0x1p24f, 0x1.000004p24f});
  CHECK(to_floats(row_of(Format::u32, {0x80000000, 0xFFFFFFFF})) == std::vector<float>{0x1p31f, 0x1p32f});
  CHECK(to_floats(row_of(Format::tf32, {0x3F801FFF, 0x7F801FFF})) == std::vector<float>{1, infinity});
  CHECK(to_floats(row_of(Format::f32, {0x00000001, 0xFF7FFFFF})) == std::vector<float>{0x1p-149f, -0x1.fffffep127f});
  CHECK(std::signbit(to_floats(row_of(Format::e4m3, {0x80}))[0]));
  CHECK(to_floats(Matrix(Format::f16, 0, 4)).empty());
}

TEST_CASE("floats become the nearest code, ties to even, and what is too large becomes what cvt makes of it") {
  CHECK(code_of(Format::f16, 2049) == 0x6800);  // 2048, the even neighbour
  CHECK(code_of(Format::f16, 2051) == 0x6802);
  CHECK(code_of(Format::f16, 65519.99f) == 0x7BFF);
  CHECK(code_of(Format::f16, 65520) == 0x7C00);
  CHECK(code_of(Format::f16, -infinity) == 0xFC00);
  CHECK(code_of(Format::f16, not_a_number) == 0x7FFF);
  CHECK(code_of(Format::bf16, 0x1.01p0f) == 0x3F80);
  CHECK(code_of(Format::tf32, 0x1.002p0f) == 0x3F800000);
  CHECK(code_of(Format::tf32, 0x1.006p0f) == 0x3F804000);
  CHECK(code_of(Format::f32, 0x1p-149f) == 1);
  CHECK(code_of(Format::e4m3, 1e30f) == 0x7F);
  CHECK(code_of(Format::e4m3, -1e30f) == 0xFF);
  CHECK(code_of(Format::e5m2, 1e30f) == 0x7C);
  CHECK(code_of(Format::e2m1, 1e30f) == 0x7);
  CHECK(code_of(Format::e2m1, -1e30f) == 0xF);
  CHECK(code_of(Format::e3m2, 0.03125f) == 0);  // half the smallest number
  CHECK(code_of(Format::ue8m0, 1) == 127);
}

TEST_CASE("codes of f64 come from floats exactly, and go back rounded once") {
  const std::vector<float> values{1, -0.0f, 0x1.fffffep127f, 0x1p-149f, -infinity, 3.5f};
  const Matrix matrix = from_floats(Format::f64, 2, 3, values);
  REQUIRE(matrix.words().size() == 12);
  for (int i = 0; i < 6; ++i) {
    CHECK(matrix.code(i / 3, i % 3) == std::bit_cast<uint64_t>(static_cast<double>(values[static_cast<size_t>(i)])));
  }
  CHECK(to_floats(matrix) == values);
  const auto bits = [](double value) { return std::bit_cast<uint64_t>(value); };
  CHECK(to_floats(row_of(Format::f64, {bits(0x1.000001p0), bits(0x1.000003p0), bits(1e300), bits(1e-300)})) ==
        std::vector<float>{1, 0x1.000004p0f, infinity, 0});
}

TEST_CASE("numbers that an integer format does not have are refused by name and value, not wrapped or cut") {
  for (const auto& [format, value] :
       {std::pair(Format::s8, 128.0f), std::pair(Format::s8, -129.0f), std::pair(Format::s8, 0.5f),
        std::pair(Format::u8, 256.0f), std::pair(Format::u8, -1.0f), std::pair(Format::b1, 2.0f),
        std::pair(Format::b1, -1.0f), std::pair(Format::s32, 0x1p31f), std::pair(Format::s32, -0x1.000002p31f),
        std::pair(Format::u32, 0x1p32f), std::pair(Format::u32, -1.0f), std::pair(Format::s8, infinity),
        std::pair(Format::s32, -infinity), std::pair(Format::u8, not_a_number)}) {
    INFO(info(format).name << " " << value);
    CHECK_THROWS_MATCHES(code_of(format, value), Error,
                         refused(illegal_value, "value for " + std::string(info(format).name)));
  }
  CHECK(code_of(Format::s8, -128) == 0x80);
  CHECK(code_of(Format::s8, -0.0f) == 0);
  CHECK(code_of(Format::u8, 255) == 255);
  CHECK(code_of(Format::b1, 1) == 1);
  CHECK(code_of(Format::s32, -0x1p31f) == 0x80000000);
  CHECK(code_of(Format::u32, 0x1.fffffep31f) == 0xFFFFFF00);
}

TEST_CASE("as many values as elements are asked for, and the message counts both") {
  const std::vector<float> five(5);
  CHECK_THROWS_MATCHES(from_floats(Format::f16, 2, 3, five), Error, refused(wrong_shape, "values"));
  CHECK_THROWS_AS(from_floats(Format::f64, 2, 3, std::vector<float>(12)), Error);
  CHECK_THROWS_AS(from_floats(Format::f16, -2, -3, std::vector<float>(6)), Error);
}

TEST_CASE("codes that differ are counted, of matrices of one shape and format") {
  for (const Format format : {Format::e4m3, Format::f64}) {
    Matrix x(format, 2, 3), y = x;
    CHECK(count_differing(x, y) == 0);
    y.set_code(1, 2, 1), y.set_code(0, 0, 0x80);
    CHECK(count_differing(x, y) == 2);
  }
  CHECK_THROWS_AS(count_differing(Matrix(Format::f16, 2, 3), Matrix(Format::f16, 3, 2)), Error);
  CHECK_THROWS_AS(count_differing(Matrix(Format::f16, 2, 3), Matrix(Format::bf16, 2, 3)), Error);
}

TEST_CASE("an empty block is read from and written to any place inside, also of an empty matrix") {
  for (const auto& [rows, cols] : {std::pair(0, 5), std::pair(5, 0), std::pair(0, 0), std::pair(5, 5)}) {
    INFO(rows << " x " << cols);
    Matrix matrix(Format::f16, rows, cols);
    const Matrix block = block_of(matrix, rows, 0, cols, 0);
    CHECK(block == Matrix(Format::f16, 0, 0));
    CHECK_NOTHROW(set_block(matrix, rows, cols, block));
    CHECK(matrix == Matrix(Format::f16, rows, cols));
    CHECK_THROWS_AS(block_of(matrix, rows, 1, cols, 0), Error);
  }
}
