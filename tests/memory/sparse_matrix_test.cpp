#include "bitmma/memory/sparse_matrix.hpp"

#include <cmath>

#include "bitmma/core/random.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

namespace {

/// The nibble of one chunk of f16, or of two floats, with these fills.
uint8_t nibble(const std::vector<float>& chunk, SparseFill fill) {
  const bool is_pair = chunk.size() == 2;
  const Matrix a = from_floats(is_pair ? Format::f32 : Format::f16, 1, static_cast<int>(chunk.size()), chunk);
  return compress(a, is_pair ? one_of_two : two_of_four, fill).nibbles.at(0);
}

}  // namespace

// The comments of PyTorch's sparse_semi_structured_from_dense_cutlass, and the corner cases of CUTLASS's compressor.
TEST_CASE("chunks with fewer elements than they store have the libraries' metadata") {
  using enum SparseFill;
  CHECK(nibble({1, 2, 0, 0}, pytorch) == 0b0100);
  CHECK(nibble({1, 0, 2, 0}, pytorch) == 0b1000);
  CHECK(nibble({0, 1, 2, 0}, pytorch) == 0b1001);
  CHECK(nibble({0, 0, 0, 0}, pytorch) == 0b1110);
  CHECK(nibble({0, 0, 0, 1}, pytorch) == 0b1110);
  CHECK(nibble({0, 0, 1, 0}, pytorch) == 0b1110);
  CHECK(nibble({0, 1, 0, 0}, pytorch) == 0b1001);
  CHECK(nibble({1, 0, 0, 0}, pytorch) == 0b1000);
  CHECK(nibble({0, 0}, pytorch) == 0b1110);
  CHECK(nibble({1, 0}, pytorch) == 0b0100);
  CHECK(nibble({0, 1}, pytorch) == 0b1110);
  CHECK(nibble({0, 0, 0, 1}, cutlass) == 0b1100);
  CHECK(nibble({0, 0, 1, 0}, cutlass) == 0b1110);
  CHECK(nibble({0, 1, 0, 0}, cutlass) == 0b1101);
  CHECK(nibble({1, 0, 0, 0}, cutlass) == 0b1100);
  CHECK(nibble({0, 0, 0, 0}, cutlass) == 0b0000);
  CHECK(nibble({0, 0}, cutlass) == 0b0100);
  CHECK(nibble({0, 0, 0, 0}, lowest) == 0b0100);
  CHECK(nibble({0, -0.0F, 3, 4}, cutlass) == 0b1110);  // -0 is zero there
}

TEST_CASE("pruned matrices compress, and decompress to themselves, in every pattern and with every fill") {
  struct Subject {
    Format format;
    SparsePattern pattern;
  };
  for (const auto& [format, pattern] :
       {Subject{Format::f16, two_of_four}, Subject{Format::e4m3, two_of_four}, Subject{Format::s8, two_of_four},
        Subject{Format::f32, one_of_two}, Subject{Format::e2m1, two_pairs_of_eight}}) {
    RandomStream random(3, static_cast<uint64_t>(format));
    Matrix a(format, 16, 64);
    for (uint32_t& code : a.words())
      code = random.below(3) == 0 ? 0 : random.below(0x78) & (format == Format::e2m1 ? 7 : 0x7F);
    const Matrix pruned = prune(a, pattern);
    for (const SparseFillInfo& fill : sparse_fills) {
      const CompressedMatrix compressed = compress(pruned, pattern, fill.id);
      CHECK(compressed.stored.cols() == 32);
      CHECK(decompress(compressed.stored, compressed.nibbles, pattern) == pruned);
    }
    CHECK(prune(pruned, pattern) == pruned);
  }
}

TEST_CASE("prune keeps the largest magnitudes, of equal ones the first, and pairs together") {
  const auto pruned = [](Format format, const SparsePattern& pattern, const std::vector<float>& row) {
    return to_floats(prune(from_floats(format, 1, static_cast<int>(row.size()), row), pattern));
  };
  CHECK(pruned(Format::f16, two_of_four, {1, -3, 2, 0}) == std::vector<float>{0, -3, 2, 0});
  CHECK(pruned(Format::f16, two_of_four, {1, 1, -1, 1}) == std::vector<float>{1, 1, 0, 0});
  CHECK(pruned(Format::f32, one_of_two, {1, -1.5F, 4, 4}) == std::vector<float>{0, -1.5F, 4, 0});
  CHECK(pruned(Format::e2m1, two_pairs_of_eight, {1, 0, 2, 0, 0.5F, 0.5F, 0, 1.5F}) ==
        std::vector<float>{0, 0, 2, 0, 0, 0, 0, 1.5F});
  CHECK(std::isnan(pruned(Format::f16, two_of_four, {9, 8, 7, std::nanf("")})[3]));
}

TEST_CASE("compress and decompress refuse what is not sparse, and wrong sizes") {
  const Matrix dense = from_floats(Format::f16, 1, 8, std::vector<float>(8, 1));
  CHECK_THROWS_MATCHES(compress(dense, two_of_four, SparseFill::cutlass), Error,
                       refused(contradiction, "a row 0, columns 0..3"));
  CHECK_THROWS_MATCHES(compress(Matrix(Format::f16, 1, 6), two_of_four, SparseFill::cutlass), Error,
                       refused(wrong_shape, "columns of a"));
  CHECK_THROWS_MATCHES(decompress(Matrix(Format::f16, 2, 4), std::vector<uint8_t>(3), two_of_four), Error,
                       refused(wrong_shape, "metadata"));
  CHECK_THROWS_MATCHES(decompress(Matrix(Format::f32, 1, 1), std::vector<uint8_t>{0b1000}, one_of_two), Error,
                       refused(illegal_value, "metadata row 0, chunk 0"));
  CHECK_THROWS_MATCHES(sparse_fill_named("vllm"), Error, refused(unknown_name, "fill"));
  CHECK_THROWS_MATCHES(sparse_pattern_named("3:4"), Error, refused(unknown_name, "pattern"));
}
