#include "bitmma/memory/tmem.hpp"

#include <set>

#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

TEST_CASE("every accumulator element in Tensor Memory is where CUTLASS puts it", "[rule:tensor-memory]") {
  const int64_t every = test::amount(61, 1, 1);
  int64_t elements_without_form = 0;
  const int64_t elements = test::for_each_csv_row(
      test::oracle_path("tmem_c.csv"),
      [&](const test::CsvRow& row) {
        const auto number = [&](const char* name) { return std::stoi(row.at(name)); };
        const std::string& variant = row.at("variant");
        if (variant == "2sm_m64_noatom") {  // CUTLASS's function called with a shape that no instruction has
          ++elements_without_form;
          return;
        }
        const TmemD d{.layout = find_tmem_layout(number("M"), variant.starts_with("2sm") ? 2 : 1,
                                                 variant.starts_with("ws"), false),
                      .n = number("N")};
        REQUIRE(d.place_of(number("m"), number("n")) ==
                TmemPlace{number("cta"), number("lane"), number("col"), number("bit")});
      },
      every);
  CHECK(elements == 415232);
  CHECK(elements_without_form == (4096 + every - 1) / every);
}

TEST_CASE("no two elements share a cell, and f16 takes a cell of its own") {
  for (const TmemLayoutInfo& layout : tmem_layouts) {
    const TmemD d{.layout = layout, .n = 64};
    CHECK_NOTHROW(require_fits(d));
    std::set<std::tuple<int, int, int>> cells;
    for (int row = 0; row < layout.m; ++row) {
      for (int col = 0; col < 64; ++col) {
        const TmemPlace place = d.place_of(row, col);
        REQUIRE(place.lane < tmem_lanes);
        REQUIRE(place.column < d.columns());
        cells.emplace(place.cta, place.lane, place.column);
      }
    }
    CHECK(cells.size() == static_cast<size_t>(layout.m) * 64);
  }
}

TEST_CASE("each part of N finds its copy of A in the lanes of its own part of D", "[rule:tensor-memory]") {
  for (const TmemLayoutInfo& layout : tmem_layouts) {
    const TmemD d{.layout = layout, .n = 64};
    const TmemA a{.layout = layout, .element_bits = 16};
    for (int row = 0; row < layout.m; ++row) {
      for (int col = 0; col < 64; ++col) {
        const TmemPlace out = d.place_of(row, col), in = a.place_of(row, 3, col / d.columns());
        REQUIRE(in.lane == out.lane);
        REQUIRE(in.cta == out.cta);
      }
    }
    CHECK(a.place_of(0, 3).column == 1);
    CHECK(a.place_of(0, 3).bit == 16);
  }
}

TEST_CASE("scales behind byte 3 of a cell are where tcgen05.cp puts the next tile, with one CTA and with two") {
  // A tile has four scales of up to 128 rows, and takes four columns; B of more than 128 columns is two tiles wide.
  for (const auto& [m, cta_group] : {std::pair(128, 1), std::pair(256, 2), std::pair(128, 2)}) {
    const TmemLayoutInfo& layout = find_tmem_layout(m, cta_group, false, false);
    for (int id = 0; id < 4; ++id) {
      for (const int n : {16, 64, 128, 192, 256}) {
        const TmemScales a = scales_of_a(layout, 0, id), b = scales_of_b(layout, n, 0, id);
        const int tile_of_b = b.parts == 2 || n <= 128 ? 4 : 8;
        for (int j = 0; j < 6; ++j) {
          INFO(m << " " << cta_group << " " << n << " " << id << " " << j);
          CHECK(a.place_of(33, j, 0).column == 1 + 4 * ((id + j) / 4));
          CHECK(b.place_of(3, j, 0).column == tile_of_b * ((id + j) / 4));
        }
      }
    }
  }
}

TEST_CASE("row 17 at M = 64 is in lane 33, or 49 of the upper half") {
  const TmemLayoutInfo& layout = find_tmem_layout(64, 1, false, false);
  CHECK(layout.name == 'F');
  CHECK(TmemD{.layout = layout, .n = 8}.place_of(17, 0).lane == 33);
  CHECK(TmemD{.layout = layout, .n = 8, .address = {16, 0}}.place_of(17, 0).lane == 49);
}

TEST_CASE("addresses and forms outside Tensor Memory are refused") {
  CHECK(decode_tmem_address(0x00100020) == TmemAddress{16, 32});
  CHECK(encode(TmemAddress{16, 32}) == 0x00100020);
  CHECK_THROWS_MATCHES(decode_tmem_address(0x00800000), Error, refused(illegal_value, "Tensor Memory address"));
  CHECK_THROWS_MATCHES(decode_tmem_address(0x00000200), Error, refused(illegal_value, "Tensor Memory address"));
  CHECK_THROWS_MATCHES(find_tmem_layout(32, 1, false, false), Error, refused(illegal_value, "M"));
  CHECK_THROWS_AS(find_tmem_layout(256, 1, false, false), Error);
  CHECK_THROWS_AS(find_tmem_layout(64, 2, false, false), Error);
  CHECK_THROWS_MATCHES(
      require_fits(TmemD{.layout = find_tmem_layout(128, 1, false, false), .n = 64, .address = {16, 0}}), Error,
      refused(illegal_value, "D lane"));
  CHECK_THROWS_MATCHES(
      require_fits(TmemD{.layout = find_tmem_layout(128, 1, false, false), .n = 64, .address = {0, 449}}), Error,
      refused(illegal_value, "D columns"));
  CHECK_THROWS_AS(require_fits(TmemD{.layout = find_tmem_layout(32, 1, true, false), .n = 24}), Error);
}

TEST_CASE("ld and st move every cell of their block once, in every shape and number, packed or not", "[rule:ldst]") {
  for (const LdStInfo& shape : ldst_shapes) {
    for (int num = 1; num <= shape.max_num; num *= 2) {
      for (const bool pack : {false, true}) {
        const LdSt move{.shape = shape.id,
                        .num = num,
                        .pack_16b = pack,
                        .split_columns = shape.id == LdStShape::s16x32bx2 ? 512 : 0};
        CHECK_NOTHROW(require_legal(move));
        CHECK(move.registers() <= 128);
        std::set<std::pair<int, int>> cells;
        for (int thread = 0; thread < 32; ++thread) {
          for (int reg = 0; reg < move.registers(); ++reg) {
            for (int half = 0; half < (pack ? 2 : 1); ++half) {
              const TmemAddress cell = move.place_of(thread, reg, half);
              cells.emplace(cell.lane, cell.column);
            }
          }
        }
        REQUIRE(cells.size() == static_cast<size_t>(32 * move.registers() * (pack ? 2 : 1)));
      }
    }
    CHECK_THROWS_AS(require_legal(LdSt{.shape = shape.id, .num = 2 * shape.max_num}), Error);
  }
  CHECK_THROWS_MATCHES(require_legal(LdSt{.num = 3}), Error, refused(illegal_value, ".num"));
  // The lanes and columns of the PTX figures, spot by spot.
  CHECK(LdSt{.shape = LdStShape::s16x64b}.place_of(5, 3, 0) == TmemAddress{9, 6});
  CHECK(LdSt{.shape = LdStShape::s16x128b, .num = 2}.place_of(6, 3, 0) == TmemAddress{9, 6});
  CHECK(LdSt{.shape = LdStShape::s16x256b, .num = 2}.place_of(5, 6, 0) == TmemAddress{9, 10});
}

TEST_CASE("the CuTe notation of D in Tensor Memory has lanes, columns and CTAs as basis vectors") {
  CHECK(print_cute(TmemD{.layout = find_tmem_layout(64, 1, false, false), .n = 32}) ==
        "((16,4),32):((1@lane,32@lane),1@column)");
  CHECK(print_cute(TmemD{.layout = find_tmem_layout(128, 2, false, false), .n = 32}) ==
        "((64,2),(16,2)):((1@lane,1@cta),(1@column,64@lane))");
  CHECK(print_cute(TmemD{.layout = find_tmem_layout(32, 1, true, false), .n = 64}) ==
        "(32,(16,4)):(1@lane,(1@column,32@lane))");
}

TEST_CASE("the second piece of a 16x32bx2 follows the first, which is twice as wide where registers are packed") {
  CHECK(ldst_of("16x32bx2", 4, false).split_columns == 4);
  CHECK(ldst_of("16x32bx2", 4, true).split_columns == 8);
  CHECK(ldst_of("16x32bx2", 4, true, 32).split_columns == 32);
  CHECK(ldst_of("32x32b", 4, true).split_columns == 0);
  CHECK_THROWS_AS(ldst_of("16x32b", 4, false), Error);
}
