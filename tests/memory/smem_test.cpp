#include "bitmma/memory/smem.hpp"

#include <map>
#include <sstream>

#include "bitmma/core/random.hpp"
#include "bitmma/layout/cute.hpp"
#include "support/amount.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

struct Tile {
  int unit_bits = 8;
  std::vector<std::vector<int64_t>> addresses;  // [mn][k]
};

std::map<std::string, Tile> read_tiles() {
  std::map<std::string, Tile> tiles;
  test::for_each_csv_row(test::oracle_path("gmma_layout.csv"), [&](const test::CsvRow& row) {
    Tile& tile = tiles[row.at("case")];
    tile.unit_bits = std::stoi(row.at("unit_bits"));
    std::istringstream numbers(row.at("addresses"));
    std::vector<int64_t> line;
    for (int64_t number = 0; numbers >> number;) line.push_back(number);
    REQUIRE(std::stoi(row.at("mn")) == static_cast<int>(tile.addresses.size()));
    tile.addresses.push_back(std::move(line));
  });
  return tiles;
}

}  // namespace

TEST_CASE("every element of every Hopper tile is where CUTLASS puts it") {
  const std::map<std::string, Tile> tiles = read_tiles();
  int64_t elements = 0, whole_tiles = 0, first_bytes_only = 0;
  const int64_t descriptors = test::for_each_csv_row(test::oracle_path("gmma_desc.csv"), [&](const test::CsvRow& row) {
    const SmemMatrix matrix{
        .descriptor = decode_smem_descriptor(Target::sm_90a, std::stoull(row.at("desc"), nullptr, 16)),
        .major = row.at("major") == "K" ? Major::k : Major::mn,
        .element_bits = std::stoi(row.at("bits")),
        .rows = std::stoi(row.at("inst_mn")),
        .cols = std::stoi(row.at("inst_k"))};
    const SmemMap map(matrix);
    REQUIRE(map.place_of(0, 0).byte == std::stoll(row.at("first_elem_byte")));
    const auto tile = tiles.find(row.at("case"));
    if (tile == tiles.end()) {
      ++first_bytes_only;
      return;
    }
    const int first_row = std::stoi(row.at("mn_blk")) * matrix.rows,
              first_col = std::stoi(row.at("k_blk")) * matrix.cols;
    ++whole_tiles;
    bool same = true;
    for (int r = 0; r < matrix.rows; ++r) {
      for (int c = 0; c < matrix.cols; ++c) {
        same &= map.place_of(r, c).byte == tile->second.addresses.at(first_row + r).at(first_col + c);
        ++elements;
      }
    }
    INFO(row.at("case") << " " << row.at("desc"));
    REQUIRE(same);
  });
  CHECK(descriptors == 12246);
  CHECK(whole_tiles > 1000);
  CHECK(whole_tiles + first_bytes_only == descriptors);
  CHECK(elements > 1000000);
}

TEST_CASE("every Blackwell matrix begins at CUTLASS's byte") {
  const int64_t descriptors = test::for_each_csv_row(test::oracle_path("umma_desc.csv"), [](const test::CsvRow& row) {
    const SmemMap map({.descriptor = decode_smem_descriptor(Target::sm_100a, std::stoull(row.at("desc"), nullptr, 16)),
                       .major = row.at("major") == "K" ? Major::k : Major::mn,
                       .element_bits = std::stoi(row.at("bits")),
                       .rows = 8,
                       .cols = 8});
    REQUIRE(map.place_of(0, 0).byte == std::stoll(row.at("first_elem_byte")));
  });
  CHECK(descriptors == 17110);
}

TEST_CASE("gather reads what scatter wrote, in every mode and width, and touches nothing else") {
  // What a byte holds is looked for among all elements: under sanitizers these are a sixteenth.
  const int rows = test::amount(8, 64, 64), row_bytes = test::amount(16, 32, 32);
  RandomStream random(3, 0);
  for (const SwizzleInfo& swizzle : swizzles) {
    if (swizzle.code_sm_90a < 0) continue;
    for (const Major major : {Major::k, Major::mn}) {
      for (const auto& [format, bits] : {std::pair(Format::b1, 1), std::pair(Format::e4m3, 8),
                                         std::pair(Format::f16, 16), std::pair(Format::tf32, 32)}) {
        const int cols = 8 * row_bytes / bits;
        const Strides strides = minimal_strides(major, swizzle, bits, rows, cols, 16);
        const SmemMap map({.descriptor = {.start_address_bytes = 1024 + 48,
                                          .strides = strides,
                                          .base_offset = 3,
                                          .swizzle = swizzle.id},
                           .major = major,
                           .element_bits = bits,
                           .rows = rows,
                           .cols = cols});
        Matrix values(format, rows, cols);
        for (int row = 0; row < rows; ++row) {
          for (int col = 0; col < cols; ++col) values(row, col) = random.word() & static_cast<uint32_t>(low_mask(bits));
        }
        std::vector<uint8_t> image(static_cast<size_t>(end_byte(map)) + 64, 0xA5);
        scatter(values, map, image, "A");
        REQUIRE(gather(image, map, format, "A") == values);
        REQUIRE(gather_transposed(image, map, format, "A") == transposed(values));
        int64_t used = 0;
        for (size_t byte = 0; byte < image.size(); ++byte) {
          const bool holds = !map.elements_at(static_cast<int64_t>(byte)).empty();
          used += holds;
          if (!holds) REQUIRE(image[byte] == 0xA5);
        }
        REQUIRE(used == rows * row_bytes);
      }
    }
  }
}

TEST_CASE("the reverse map finds exactly the elements whose bits a byte holds") {
  const SmemMap map(
      {.descriptor = {.strides = {16, 1024}, .swizzle = Swizzle::b128}, .element_bits = 16, .rows = 16, .cols = 16});
  for (int row = 0; row < 16; ++row) {
    for (int col = 0; col < 16; ++col) {
      const SmemPlace place = map.place_of(row, col);
      for (const int64_t byte : {place.byte, place.byte + 1}) {
        REQUIRE(map.elements_at(byte) == std::vector{std::pair(row, col)});
      }
    }
  }
  CHECK(map.elements_at(64).empty());
  const SmemMap bits({.descriptor = {.strides = {128, 256}}, .element_bits = 1, .rows = 8, .cols = 256});
  CHECK(bits.elements_at(0).size() == 8);
  CHECK(bits.place_of(1, 130) == SmemPlace{.byte = 144, .bit = 2});
}

TEST_CASE("reading outside the image names operand, row, k, address and size") {
  const SmemMap map({.descriptor = {.start_address_bytes = 512, .strides = {16, 1024}, .swizzle = Swizzle::b128},
                     .element_bits = 16,
                     .rows = 16,
                     .cols = 16});
  std::vector<uint8_t> image(1536);
  try {
    gather(image, map, Format::f16, "B");
    FAIL("inside?");
  } catch (const Error& error) {
    const Violation& violation = error.violations().at(0);
    CHECK(violation.field == "B element row 8, k 0");
    CHECK(violation.seen == "byte 0x640 (1600)");
    CHECK_THAT(violation.expected, ContainsSubstring("1536 bytes"));
  }
  const std::vector<uint8_t> before = image;
  CHECK_THROWS_AS(scatter(Matrix(Format::f16, 16, 16), map, image, "B"), Error);
  CHECK(image == before);
}

TEST_CASE("what print_cute writes, parse_cute reads, and it is the same layout: every mode, major-ness and width") {
  int layouts = 0;
  for (const Swizzle mode : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128, Swizzle::b128_atom32}) {
    for (const Major major : {Major::k, Major::mn}) {
      for (const int bits : {4, 8, 16, 32}) {
        const int cols = 256 / bits;
        SmemMatrix matrix{.descriptor = {.target = Target::sm_100a,
                                         .strides = minimal_strides(major, info(mode), bits, 64, cols, 16),
                                         .swizzle = mode},
                          .major = major,
                          .element_bits = bits,
                          .rows = 64,
                          .cols = cols};
        const CuteLayout cute = parse_cute(print_hardware_cute(matrix), bits);
        INFO(print_hardware_cute(matrix));
        REQUIRE(print(cute) == print_hardware_cute(matrix));
        const SmemMap map(matrix);
        for (int row = 0; row < 64; ++row) {
          for (int col = 0; col < cols; ++col) REQUIRE(cute.byte_of(row, col, bits) == map.place_of(row, col).byte);
        }
        ++layouts;
      }
    }
  }
  CHECK(layouts == 5 * 2 * 4);  // modes, major-nesses, widths
}

TEST_CASE("a matrix whose elements are too wide or too narrow for the format is refused") {
  std::vector<uint8_t> image(4096);
  const auto map = [](int element_bits) {
    return SmemMap({.descriptor = {.strides = {128, 256}}, .element_bits = element_bits, .rows = 8, .cols = 16});
  };
  for (const auto& [element_bits, format] :
       {std::pair(16, Format::e2m1), std::pair(32, Format::f16), std::pair(8, Format::f16), std::pair(16, Format::f32),
        std::pair(8, Format::b1)}) {
    INFO(element_bits << " bits, " << info(format).name);
    CHECK_THROWS_AS(gather(image, map(element_bits), format, "A"), Error);
    CHECK_THROWS_AS(gather_transposed(image, map(element_bits), format, "A"), Error);
    CHECK_THROWS_AS(scatter(Matrix(format, 8, 16), map(element_bits), image, "A"), Error);
  }
  CHECK_NOTHROW(gather(image, map(8), Format::e2m1, "A"));  // as the f8f6f4 kinds keep it
}

TEST_CASE("a packed MN-major matrix with an absolute leading dimension is read the same in both directions") {
  std::vector<uint8_t> image(65536);
  RandomStream random(5, 0);
  for (uint8_t& byte : image) byte = static_cast<uint8_t>(random.word());
  const SmemMap map({.descriptor = {.target = Target::sm_100a,
                                    .strides = {4096, 1024},
                                    .swizzle = Swizzle::b128,
                                    .leading_dim_absolute = true},
                     .major = Major::mn,
                     .element_bits = 4,
                     .rows = 64,
                     .cols = 69});
  CHECK(map.place_of(1, 0) == SmemPlace{.byte = 0, .bit = 4});
  CHECK(gather_transposed(image, map, Format::e2m1, "A") == transposed(gather(image, map, Format::e2m1, "A")));
}
