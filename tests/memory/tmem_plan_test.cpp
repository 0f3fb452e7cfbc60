#include "bitmma/memory/tmem_plan.hpp"

#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

TEST_CASE("a plan of Tensor Memory: D, A, scales and metadata one after the other, a power of two allocated") {
  const TmemPlan plan = plan_tmem({.layout = find_tmem_layout(128, 1, false, false), .n = 256, .scale_count = 4});
  REQUIRE(plan.pieces.size() == 3);
  CHECK(plan.pieces[0] == TmemPiece{"D", 0, 256, 0});
  CHECK(plan.pieces[1] == TmemPiece{"scale_A", 256, 4, 256});
  CHECK(plan.pieces[2] == TmemPiece{"scale_B", 260, 8, 260});
  CHECK(plan.columns == 268);
  CHECK(plan.allocation == 512);
  CHECK(plan.ctas_per_sm == 1);
  const TmemPlan small = plan_tmem({.layout = find_tmem_layout(128, 1, false, false), .n = 8}, 64);
  CHECK(small.pieces[0].address == 64);
  CHECK(small.allocation == 32);
  CHECK(small.ctas_per_sm == 16);
  // Sparse f16: A in Tensor Memory, 16 stored elements a row, and a column of metadata; two Ds.
  const TmemPlan sparse = plan_tmem({.layout = find_tmem_layout(64, 1, true, true),
                                     .n = 64,
                                     .accumulators = 2,
                                     .k_blocks = 4,
                                     .a_row_bits = 256,
                                     .metadata_columns = 1});
  CHECK(sparse.columns == 32 + 32 + 32 + 4);
  CHECK(sparse.allocation == 128);
}

TEST_CASE("every scale of a plan lies inside its piece, as the instruction reads them") {
  for (const TmemLayoutInfo& layout : tmem_layouts) {
    if (!layout.plain || !layout.dense || layout.half_lanes) continue;
    for (const int n : {16, 64, 128, 256}) {
      for (const int count : {1, 2, 4, 3, 6}) {
        const TmemPlan plan = plan_tmem({.layout = layout, .n = n, .scale_count = count});
        const TmemPiece &a = plan.pieces.at(1), &b = plan.pieces.at(2);
        const TmemScales scales_a = scales_of_a(find_tmem_layout(128, 1, false, false), a.address, 0),
                         scales_b = scales_of_b(layout, n, b.address, 0);
        for (int j = 0; j < count; ++j) {
          CHECK(scales_a.place_of(127, j, 0).column < a.column + a.columns);
          CHECK(scales_b.place_of(n - 1, j, 0).column < b.column + b.columns);
        }
      }
    }
  }
}

TEST_CASE("what does not fit 512 columns has no allocation, and needs of no kernel are refused") {
  const TmemLayoutInfo& layout = find_tmem_layout(128, 1, false, false);
  CHECK(plan_tmem({.layout = layout, .n = 256, .accumulators = 2}).allocation == 512);
  const TmemPlan large = plan_tmem({.layout = layout, .n = 256, .accumulators = 2, .scale_count = 1});
  CHECK(large.allocation == 0);
  CHECK(large.ctas_per_sm == 0);
  CHECK_THROWS_MATCHES(plan_tmem({.layout = layout, .n = 12}), Error, refused(illegal_value, "N"));
  CHECK_THROWS_MATCHES(plan_tmem({.layout = layout, .accumulators = 0}), Error, refused(illegal_value, "accumulators"));
  CHECK_THROWS_MATCHES(plan_tmem({.layout = layout}, 33), Error, refused(illegal_value, "base column"));
}

TEST_CASE("an exclusive plan takes multiples of 32 columns, up to 576, and the whole SM") {
  const TmemLayoutInfo& layout = find_tmem_layout(128, 1, false, false);
  const TmemPlan large =
      plan_tmem({.layout = layout, .n = 256, .accumulators = 2, .scale_count = 4, .exclusive = true});
  CHECK(large.columns == 512 + 4 + 8);
  CHECK(large.allocation == 544);
  CHECK(large.ctas_per_sm == 1);
  const TmemPlan small = plan_tmem({.layout = layout, .n = 72, .exclusive = true});
  CHECK(small.allocation == 96);
  CHECK(small.ctas_per_sm == 1);
  const TmemPlan whole = plan_tmem({.layout = layout, .n = 192, .accumulators = 3, .exclusive = true});
  CHECK(whole.allocation == 576);
  CHECK(plan_tmem({.layout = layout, .n = 200, .accumulators = 3, .exclusive = true}).allocation == 0);
}
