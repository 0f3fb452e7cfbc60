#include "bitmma/layout/scale_image.hpp"

#include <algorithm>

#include "bitmma/core/random.hpp"
#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/tmem.hpp"
#include "bitmma/stimulus/random_operands.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

TEST_CASE("every scale is where CUTLASS puts it in the image", "[rule:scale-image]") {
  const int64_t scales = test::for_each_csv_row(test::oracle_path("sf_smem.csv"), [](const test::CsvRow& row) {
    const auto number = [&](const char* name) { return std::stoll(row.at(name)); };
    const ScaleImage image{.rows = number("rows"), .blocks = number("K") / number("VS")};
    REQUIRE(image.offset_of(number("row"), number("j")) == number("byte_offset"));
  });
  CHECK(scales == 12288);
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
    CHECK_THROWS_MATCHES(pack_scales(image, std::span(scales).first(scales.size() - 1)), Error,
                         refused(wrong_shape, "bytes of the row-major matrix"));
    CHECK_THROWS_MATCHES(unpack_scales(image, std::span(packed).first(packed.size() - 1)), Error,
                         refused(wrong_shape, "bytes of the image"));
  }
  CHECK_THROWS_MATCHES(pack_scales({0, 4}, {}), Error, refused(illegal_value, "scale matrix"));
  constexpr int64_t too_many = int64_t{1} << 62;
  CHECK_THROWS_MATCHES(pack_scales({too_many, 4}, {}), Error, refused(illegal_value, "scale matrix"));
  CHECK_THROWS_MATCHES(unpack_scales({4, too_many}, {}), Error, refused(illegal_value, "scale matrix"));
}

TEST_CASE(
    "row-major -> image -> cp .32x128b.warpx4 -> Tensor Memory is what the instruction reads, for A and for any N of "
    "B") {
  const Instruction cp = parse_instruction("tcgen05.cp.cta_group::1.32x128b.warpx4");
  for (const int n : {8, 64, 128, 136, 256}) {
    const Instruction instruction =
        tcgen05({.kind = MmaKind::mxf4nvf4, .m = 128, .n = n, .scale_vec = ScaleVec::x4, .scale_type = Format::ue4m3});
    const Target target = default_target(instruction);
    const Operands operands = random_operands(instruction, target, Distribution::bits, 4, static_cast<uint64_t>(n));
    State state = place_operands(instruction, {}, operands, filler_stream(4, 0));
    const std::vector<uint32_t> expected(state.words(Field::tmem).begin(), state.words(Field::tmem).end());
    const int columns = state.columns();
    const auto deliver = [&](const Matrix& scales, uint32_t address) {
      const ScaleImage image{scales.rows(), scales.cols()};
      std::vector<uint8_t> row_major;
      for (int row = 0; row < scales.rows(); ++row) {
        for (int j = 0; j < scales.cols(); ++j) row_major.push_back(static_cast<uint8_t>(scales(row, j)));
      }
      const std::vector<uint8_t> packed = pack_scales(image, row_major);
      // Lines of 16 bytes: rows of the source without swizzle, 8 of them a group of 128 bytes.
      for (int64_t tile = 0; tile < image.row_tiles(); ++tile) {
        State copied;
        copied.set(Field::s_desc,
                   encode(SmemDescriptor{.target = Target::sm_100a,
                                         .start_address_bytes = 512 * tile,
                                         .strides = {.leading_dim_byte_offset = 16, .stride_dim_byte_offset = 128}}));
        copied.set(Field::taddr, address + static_cast<uint32_t>(4 * tile));
        copied.borrow(Field::smem, packed, {static_cast<int64_t>(packed.size())});
        copied.borrow(Field::tmem, state.words(Field::tmem), {1, tmem_lanes, columns});
        execute(cp, target, copied);
        std::ranges::copy(copied.words(Field::tmem), state.writable_words(Field::tmem).begin());
      }
    };
    // Forget the scales, then bring them the usual way.
    const uint32_t address_a = state.word(Field::scale_a_tmem), address_b = state.word(Field::scale_b_tmem);
    const TmemScales map_b = scales_of_b(find_tmem_layout(128, 1, false, false), n, address_b, 0);
    for (int lane = 0; lane < tmem_lanes; ++lane) {
      for (int column = decode_tmem_address(address_a).column; column < columns; ++column) {
        state.writable_words(Field::tmem)[static_cast<size_t>(lane * columns + column)] = 0;
      }
    }
    deliver(operands.scales->a, address_a);
    deliver(transposed(operands.scales->b), address_b);
    CHECK(gather_operands(instruction, target, state).scales == operands.scales);
    for (int row = 0; row < n; ++row) {
      for (int replica = 0; replica < 4; ++replica) {
        const TmemPlace place = map_b.place_of(row, 3, replica);
        const auto cell = static_cast<size_t>(place.lane * columns + place.column);
        REQUIRE(state.words(Field::tmem)[cell] == expected[cell]);
      }
    }
  }
}
