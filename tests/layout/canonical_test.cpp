#include "bitmma/layout/canonical.hpp"

#include <set>

#include "support/catch.hpp"

using namespace bitmma;

namespace {
struct Example {
  const char* cute;
  Major major;
  Swizzle swizzle;
  int element_bits, rows, cols;
  int64_t lbo, sbo;
};
}  // namespace

// The five worked examples of PTX ISA 9.7.15.5.1.2.1.3, with their strides in bytes.
TEST_CASE("canonical layouts print the exact layouts of the PTX examples", "[rule:canonical]") {
  for (const Example& example : {
           Example{"Swizzle<0,4,3> o ((8,2),(4,4)):((4,32),(1,64))", Major::k, Swizzle::none, 32, 16, 16, 64 * 4,
                   32 * 4},
           Example{"Swizzle<1,4,3> o ((8,2),(4,4)):((8,64),(1,4))", Major::k, Swizzle::b32, 32, 16, 16, 16, 64 * 4},
           Example{"Swizzle<0,4,3> o ((8,1,2),(8,2)):((1,8,64),(8,128))", Major::mn, Swizzle::none, 16, 16, 16, 128 * 2,
                   64 * 2},
           Example{"Swizzle<1,4,3> o ((8,2,2),(8,2)):((1,8,128),(16,256))", Major::mn, Swizzle::b32, 16, 32, 16,
                   128 * 2, 256 * 2},
           Example{"Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))", Major::mn, Swizzle::b64, 16, 64, 16,
                   256 * 2, 512 * 2},
       }) {
    INFO(example.cute);
    const SwizzleInfo& swizzle = info(example.swizzle);
    const Layout layout = canonical_layout(example.major, swizzle, {example.lbo, example.sbo}, example.element_bits,
                                           example.rows, example.cols);
    CHECK(print(swizzle) + " o " + print(layout) == example.cute);
    // One-to-one, but for the 32B example, where a row of 64 bytes runs over the 32-byte rows of its neighbours.
    const int one_to_one_cols =
        is_wider_than_swizzle(example.major, swizzle, example.element_bits, example.cols) ? 8 : example.cols;
    CHECK((one_to_one_cols == example.cols) == (example.swizzle != Swizzle::b32 || example.major == Major::mn));
    const Layout hardware = hardware_layout(example.major, swizzle, {example.lbo, example.sbo}, example.element_bits,
                                            example.rows, one_to_one_cols);
    std::set<int64_t> offsets;
    for (int row = 0; row < example.rows; ++row) {
      for (int col = 0; col < one_to_one_cols; ++col) {
        offsets.insert(offset_of(layout, row, col));
        CHECK(offset_of(hardware, row, col) == offset_of(layout, row, col));
      }
    }
    CHECK(offsets.size() == static_cast<size_t>(example.rows * one_to_one_cols));
  }
}

TEST_CASE("minimal strides keep all elements apart, in every mode, major-ness, width and padding") {
  for (const SwizzleInfo& swizzle : swizzles) {
    for (const Major major : {Major::k, Major::mn}) {
      for (const int bits : {1, 8, 16, 32}) {
        for (const int rows : {8, 24, 64, 256}) {
          for (const int64_t padding : {0, 16, 272}) {
            const int cols = (padding == 16 ? 512 : 256) / bits;  // 64 or 32 bytes of K
            const Strides strides = minimal_strides(major, swizzle, bits, rows, cols, padding);
            const Layout layout = hardware_layout(major, swizzle, strides, bits, rows, cols);
            std::set<int64_t> offsets;
            for (int row = 0; row < rows; ++row) {
              for (int col = 0; col < cols; ++col) offsets.insert(offset_of(layout, row, col));
            }
            INFO(swizzle.name << " " << print(major) << " " << bits << " bits, " << rows << " rows, padding "
                              << padding);
            REQUIRE(offsets.size() == static_cast<size_t>(rows) * static_cast<size_t>(cols));
          }
        }
      }
    }
  }
}

TEST_CASE("a row of K wider than the swizzle goes on at LBO, as an H200 reads it", "[rule:lbo-of-wide-rows]") {
  // 64 bytes of K of a sparse e4m3 B under the 32B swizzle: LBO 3904, SBO 3872 (data/golden/sm_90a/probes/sparse_b_32).
  const Layout layout = hardware_layout(Major::k, info(Swizzle::b32), {3904, 3872}, 8, 16, 64);
  CHECK(print(layout) == "((8,2),(16,2,2)):((32,3872),(1,16,3904))");
  CHECK(offset_of(layout, 7, 48) == 4144);
  CHECK(offset_of(layout, 8, 32) == 7776);
  CHECK(hardware_layout(Major::k, info(Swizzle::b64), {3904, 3872}, 8, 16, 64) ==
        canonical_layout(Major::k, info(Swizzle::b64), {3904, 3872}, 8, 16, 64));
}
