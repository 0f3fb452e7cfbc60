#include "bitmma/layout/scale_image.hpp"

#include "bitmma/core/random.hpp"
#include "bitmma/instruction/random_operands.hpp"
#include "bitmma/instruction/simulate.hpp"
#include "bitmma/instruction/tcgen05_machine.hpp"
#include "bitmma/instruction/tmem_move.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("every scale is where CUTLASS puts it in the image") {
  int64_t compared = 0;
  const int64_t rows = test::for_each_csv_row(test::oracle_path("sf_smem.csv"), [&](const test::CsvRow& row) {
    const auto number = [&](const char* name) { return std::stoll(row.at(name)); };
    const ScaleImage image{.rows = number("rows"), .blocks = number("K") / number("VS")};
    REQUIRE(image.offset_of(number("row"), number("j")) == number("byte_offset"));
    ++compared;
  });
  CHECK(rows == 12288);
  CHECK(compared == rows);
}

TEST_CASE("packing and unpacking scales are inverses, and padding is zero") {
  RandomStream random(1, 0);
  for (const auto& [rows, blocks] : {std::pair(128, 4), std::pair(1, 1), std::pair(200, 7), std::pair(257, 12)}) {
    const ScaleImage image{rows, blocks};
    std::vector<uint8_t> scales(static_cast<size_t>(rows * blocks));
    for (uint8_t& scale : scales) scale = static_cast<uint8_t>(1 + random.below(255));
    const std::vector<uint8_t> packed = pack_scales(image, scales);
    CHECK(static_cast<int64_t>(packed.size()) == image.bytes());
    CHECK(unpack_scales(image, packed) == scales);
    CHECK(static_cast<size_t>(std::count(packed.begin(), packed.end(), 0)) == packed.size() - scales.size());
    CHECK_THROWS_WITH(pack_scales(image, std::span(scales).first(scales.size() - 1)),
                      ContainsSubstring("bytes of the row-major matrix"));
    CHECK_THROWS_WITH(unpack_scales(image, std::span(packed).first(packed.size() - 1)),
                      ContainsSubstring("bytes of the image"));
  }
  CHECK_THROWS_WITH(pack_scales({0, 4}, {}), ContainsSubstring("scale matrix = 0 x 4"));
}

TEST_CASE(
    "row-major -> image -> cp .32x128b.warpx4 -> Tensor Memory is what the instruction reads, for A and for any N of "
    "B") {
  for (const int n : {8, 64, 128, 136, 256}) {
    Instruction instruction{.family = Family::tcgen05,
                            .m = 128,
                            .n = n,
                            .d = Format::f32,
                            .a = Format::e2m1,
                            .b = Format::e2m1,
                            .kind = MmaKind::mxf4nvf4,
                            .scale_vec = ".scale_vec::4X",
                            .scale_type = Format::ue4m3};
    instruction = with_idesc(instruction, idesc_of(instruction));
    const Operands operands = random_operands(instruction, Distribution::bits, 4, static_cast<uint64_t>(n));
    Tcgen05State state = place_tcgen05(instruction, {}, {}, operands, filler_stream(4, 0));
    const std::vector<uint32_t> expected = state.tmem;
    const auto deliver = [&](const BitMatrix& scales, uint32_t address) {
      const ScaleImage image{scales.rows(), scales.cols()};
      std::vector<uint8_t> row_major;
      for (int row = 0; row < scales.rows(); ++row) {
        for (int j = 0; j < scales.cols(); ++j) row_major.push_back(static_cast<uint8_t>(scales(row, j)));
      }
      const std::vector<uint8_t> packed = pack_scales(image, row_major);
      // Lines of 16 bytes: rows of the source without swizzle, 8 of them a group of 128 bytes.
      for (int64_t tile = 0; tile < image.row_tiles(); ++tile) {
        const uint64_t s_desc =
            encode(SmemDescriptor{.arch = Arch::sm_100a,
                                  .start_address_bytes = 512 * tile,
                                  .strides = {.leading_dim_byte_offset = 16, .stride_dim_byte_offset = 128},
                                  .reserved = uint64_t{1} << 46});
        const TmemMove cp = parse_tmem_move("tcgen05.cp.cta_group::1.32x128b.warpx4");
        state.tmem = simulate(cp, {.taddr = address + static_cast<uint32_t>(4 * tile),
                                   .s_desc = s_desc,
                                   .smem = {std::span<const uint8_t>(packed), {}},
                                   .tmem = state.tmem,
                                   .columns = state.columns})
                         .tmem;
      }
    };
    // Forget the scales, then bring them the usual way.
    const TmemScales map_b = scale_b_in_tmem(instruction, state.registers.scale_b_tmem);
    for (int lane = 0; lane < 128; ++lane) {
      for (int column = decode_tmem_address(state.registers.scale_a_tmem).column; column < state.columns; ++column)
        state.tmem[static_cast<size_t>(lane * state.columns + column)] = 0;
    }
    deliver(operands.scales->a, state.registers.scale_a_tmem);
    deliver(transposed(operands.scales->b), state.registers.scale_b_tmem);
    CHECK(gather_operands(instruction, state.view()).scales == operands.scales);
    for (int row = 0; row < n; ++row) {
      for (int replica = 0; replica < 4; ++replica) {
        const TmemPlace place = map_b.place_of(row, 3, replica);
        const auto cell = static_cast<size_t>(place.lane * state.columns + place.column);
        REQUIRE(state.tmem[cell] == expected[cell]);
      }
    }
  }
}
