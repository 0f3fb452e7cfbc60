// Sizes and indices that nobody means, before the public functions of layouts and memory: Error, never a read outside.
#include <functional>
#include <limits>

#include "bitmma/layout/canonical.hpp"
#include "bitmma/layout/cute.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "bitmma/memory/fragment.hpp"
#include "bitmma/memory/ldmatrix.hpp"
#include "bitmma/memory/map.hpp"
#include "bitmma/memory/metadata.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;

namespace {

constexpr int lowest = std::numeric_limits<int>::min(), highest = std::numeric_limits<int>::max();

struct Row {
  std::string what, value;  // a part of "field = seen" of a violation; empty where any will do
  std::function<void()> call;
};

void check_all(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK_THROWS_AS(row.call(), Error);
    const std::vector<Violation> violations = test::refusal_of(row.call);
    for (const Violation& violation : violations) test::note_message(print(violation));
    CHECK(std::ranges::any_of(violations, [&](const Violation& violation) {
      return (violation.field + " = " + violation.seen).find(row.value) != std::string::npos;
    }));
  }
}

SmemMatrix matrix_of(int rows, int cols, int element_bits = 16) {
  return {.descriptor = decode_smem_descriptor(Target::sm_90a, 0x4000'0040'0001'0000),
          .element_bits = element_bits,
          .rows = rows,
          .cols = cols};
}

SmemMatrix with_strides(int64_t leading, int64_t stride, int64_t start = 0) {
  SmemMatrix matrix = matrix_of(8, 16);
  matrix.descriptor.strides = {leading, stride};
  matrix.descriptor.start_address_bytes = start;
  return matrix;
}

}  // namespace

TEST_CASE("matrices of shared memory without elements, and elements outside them, are refused") {
  const std::vector<uint8_t> image(4096);
  const auto gathered = [&](const SmemMatrix& matrix, Format format) {
    return [&image, matrix, format] { static_cast<void>(gather(image, SmemMap(matrix), format, "A")); };
  };
  const SmemMap map(matrix_of(8, 16));
  std::vector<Row> rows{
      {"no columns", "columns = 0", gathered(matrix_of(8, 0), Format::f16)},
      {"no rows", "rows = 0", gathered(matrix_of(0, 16), Format::f16)},
      {"negative rows", "rows = -1", gathered(matrix_of(-1, 16), Format::f16)},
      {"too many", "columns = 2147483647", gathered(matrix_of(8, highest), Format::f16)},
      {"wider elements", "A elements = 16 bits", gathered(matrix_of(8, 16), Format::e2m1)},
      {"narrower elements", "A elements = 8 bits", gathered(matrix_of(8, 16, 8), Format::f16)},
      {"wider than a word", "A elements = 32 bits", gathered(matrix_of(8, 16, 32), Format::f16)},
      {"strides", "leading_dim_byte_offset", gathered(with_strides(int64_t{1} << 62, 16), Format::f16)},
      {"negative strides", "stride_dim_byte_offset = -16", gathered(with_strides(16, -16), Format::f16)},
      {"start", "start address", gathered(with_strides(16, 16, -1), Format::f16)},
      {"far away", "byte", gathered(with_strides(int64_t{1} << 32, int64_t{1} << 32, int64_t{1} << 32), Format::f16)},
      {"another shape", "A = 8 x 8",
       [&] {
         std::vector<uint8_t> to(4096);
         scatter(Matrix(Format::f16, 8, 8), map, to, "A");
       }},
      {"cute", "rows = 0", [] { static_cast<void>(print_cute(matrix_of(0, 1))); }},
      {"hardware cute", "element bits = 0", [] { static_cast<void>(print_hardware_cute(matrix_of(8, 8, 0))); }},
  };
  for (const int bits : {0, -8, 3, 64, lowest, highest})
    rows.push_back({"element bits", "element bits", gathered(matrix_of(8, 16, bits), Format::f16)});
  for (const auto& [row, col] : {std::pair(8, 0), std::pair(0, 16), std::pair(-1, 0), std::pair(0, lowest)}) {
    rows.push_back(
        {"place", "element = row", [&map, row = row, col = col] { static_cast<void>(map.place_of(row, col)); }});
    rows.push_back(
        {"linear", "element = row", [&map, row = row, col = col] { static_cast<void>(map.linear_of(row, col)); }});
  }
  check_all(rows);
  CHECK_FALSE(map.units(0));
  CHECK_FALSE(map.units(-8));
  CHECK_FALSE(map.units(32));  // more than there are
  CHECK(map.elements_at(-1).empty());
}

TEST_CASE("fragments that do not fill registers, and places that they do not have, are refused") {
  const Fragment good = wgmma_d_fragment(Format::f32, 8);
  std::vector<Row> rows;
  const auto add = [&](std::string what, Fragment fragment) {
    rows.push_back({what, "fragment = role", [fragment] { static_cast<void>(place_of(fragment, 0, 0)); }});
    rows.push_back({what, "fragment = role", [fragment] { static_cast<void>(element_at(fragment, 0, 0, 0)); }});
    rows.push_back({what, "fragment = role", [fragment] { static_cast<void>(print_cute(fragment)); }});
    rows.push_back({what, "fragment = role", [fragment] {
                      const std::vector<uint32_t> registers(1024);
                      static_cast<void>(gather(registers, fragment, Format::f32, "d"));
                    }});
  };
  for (const int n : {0, -8, 4, 12, highest}) add("n", wgmma_d_fragment(Format::f32, n));
  for (const int threads : {0, -32, 33, 96, highest}) {
    Fragment fragment = good;
    fragment.threads = threads;
    add("threads", fragment);
  }
  for (const int bits : {0, -1, 3, 128, lowest}) {
    Fragment fragment = good;
    fragment.element_bits = bits;
    add("bits", fragment);
  }
  for (const int extent : {0, -1, 8, 63, highest}) {
    Fragment fragment = good;
    fragment.rows = extent;
    add("rows", fragment);
  }
  Fragment unknown = good;
  unknown.role = static_cast<FragmentRole>(200);
  add("role", unknown);
  add("a", wgmma_a_fragment(Format::f16, 4));
  add("b", mma_b_fragment(16, 3));
  for (const auto& [row, col] : {std::pair(64, 0), std::pair(-1, 0), std::pair(0, 8), std::pair(0, lowest)})
    rows.push_back({"place", "", [good, row = row, col = col] { static_cast<void>(place_of(good, row, col)); }});
  for (const auto& [thread, reg, bit] : {std::tuple(128, 0, 0), std::tuple(-1, 0, 0), std::tuple(0, 4, 0),
                                         std::tuple(0, -1, 0), std::tuple(0, 0, 32), std::tuple(0, 0, -1)}) {
    rows.push_back({"element", "", [good, thread = thread, reg = reg, bit = bit] {
                      static_cast<void>(element_at(good, thread, reg, bit));
                    }});
  }
  rows.push_back({"format", "d elements", [good] {
                    const std::vector<uint32_t> registers(512);
                    static_cast<void>(gather(registers, good, Format::f64, "d"));
                  }});
  rows.push_back({"size", "d registers = 3", [good] {
                    const std::vector<uint32_t> registers(3);
                    static_cast<void>(gather_transposed(registers, good, Format::f32, "d"));
                  }});
  rows.push_back({"shape", "d = 64 x 16", [good] {
                    std::vector<uint32_t> registers(512);
                    scatter(Matrix(Format::f32, 64, 16), good, registers, "d");
                  }});
  rows.push_back({"transposed shape", "d = 64 x 8", [good] {
                    std::vector<uint32_t> registers(512);
                    scatter_transposed(Matrix(Format::f32, 64, 8), good, registers, "d");
                  }});
  check_all(rows);
}

TEST_CASE("metadata of other types, rows and selectors than there are is refused") {
  const MetadataLayout good = metadata_layout(16);
  const std::vector<uint32_t> registers(128);
  const std::vector<uint16_t> positions(64 * 16);
  MetadataLayout made_up = good;
  made_up.selectors = 0;
  std::vector<Row> rows{
      {"pattern", "sparse pattern",
       [] { static_cast<void>(select(SparsePattern{}, 16, 16, [](int, int) { return 0u; })); }},
      {"stored", "stored K", [] { static_cast<void>(select(two_of_four, 16, highest, [](int, int) { return 0u; })); }},
      {"rows", "rows", [] { static_cast<void>(select(two_of_four, -16, 16, [](int, int) { return 0u; })); }},
      {"made up", "metadata layout", [&] { static_cast<void>(select(made_up, registers, 64, 0)); }},
      {"made up place", "metadata layout", [&] { static_cast<void>(metadata_place_of(made_up, 0, 0, 0)); }},
      {"registers", "metadata registers",
       [&] { static_cast<void>(select(good, std::span(registers).first(1), 64, 0)); }},
      {"rows of no warp", "rows", [&] { static_cast<void>(select(good, registers, 63, 0)); }},
      {"positions", "positions of stored elements",
       [&] { static_cast<void>(encode_metadata(good, std::span(positions).first(1), 64, 0)); }},
      {"a chunk's positions", "positions of a chunk", [&] { static_cast<void>(nibble_of(two_of_four, {})); }},
  };
  for (const int selector : {-1, 2, 1000, lowest}) {
    rows.push_back(
        {"selector", "sparsity selector", [&, selector] { static_cast<void>(select(good, registers, 64, selector)); }});
    rows.push_back({"selector", "sparsity selector",
                    [&, selector] { static_cast<void>(encode_metadata(good, positions, 64, selector)); }});
  }
  for (const auto& [row, stored] : {std::pair(-1, 0), std::pair(0, 16), std::pair(0, -1), std::pair(highest, 0)})
    rows.push_back(
        {"place", "", [&, row = row, stored = stored] { static_cast<void>(metadata_place_of(good, row, stored, 0)); }});
  for (const int bits : {0, -8, 1, 12, 64})
    rows.push_back({"bits", "container bits", [bits] { static_cast<void>(metadata_layout(bits, 16)); }});
  for (const int stored : {0, -2, 3, highest})
    rows.push_back({"stored", "stored K", [stored] { static_cast<void>(metadata_layout(16, stored)); }});
  check_all(rows);
}

TEST_CASE("places of Tensor Memory are those of a layout and of indices of 0 or more") {
  const TmemLayoutInfo& layout = tmem_layouts[0];
  const TmemLayoutInfo nothing{};
  std::vector<Row> rows{
      {"layout of D", "Tensor Memory layout",
       [=] { static_cast<void>(TmemD{.layout = nothing, .n = 8}.place_of(0, 0)); }},
      {"layout of A", "Tensor Memory layout", [=] { static_cast<void>(TmemA{.layout = nothing}.place_of(0, 0)); }},
      {"metadata", "Tensor Memory layout", [=] { static_cast<void>(TmemMetadata{.layout = nothing}.place_of(0, 0)); }},
      {"cute", "Tensor Memory layout", [=] { static_cast<void>(print_cute(TmemD{.layout = nothing, .n = 8})); }},
      {"no columns", "N = 0", [=] { static_cast<void>(TmemD{.layout = layout}.place_of(0, 0)); }},
      {"element bits", "element bits", [=] { static_cast<void>(TmemA{.element_bits = highest}.place_of(0, 1)); }},
      {"fits", "element", [=] { require_fits(TmemA{.layout = layout}, -1); }},
      {"scales", "element", [=] { require_fits(TmemScales{}, 0, 1, "scale_A"); }},
      {"parts", "rows of a part", [=] { static_cast<void>(TmemScales{.parts = 2}.place_of(1, 0, 0)); }},
      {"shape", "shape of ld", [=] { static_cast<void>(LdSt{.shape = static_cast<LdStShape>(9)}.registers()); }},
      {"legal shape", "shape of ld", [=] { require_legal(LdSt{.shape = static_cast<LdStShape>(9)}); }},
      {"split", "split = 5", [=] { require_legal(LdSt{.split_columns = 5}); }},
  };
  for (const int index : {-1, lowest, highest}) {
    rows.push_back({"D", "element", [=] { static_cast<void>(TmemD{.layout = layout, .n = 8}.place_of(index, 0)); }});
    rows.push_back({"A", "element", [=] { static_cast<void>(TmemA{.layout = layout}.place_of(0, index)); }});
    rows.push_back(
        {"metadata", "element", [=] { static_cast<void>(TmemMetadata{.layout = layout}.place_of(0, 0, index)); }});
    rows.push_back({"scales", "element", [=] { static_cast<void>(TmemScales{}.place_of(0, index, 0)); }});
    rows.push_back({"ldst", "element", [=] { static_cast<void>(LdSt{}.place_of(index, 0, 0)); }});
    rows.push_back(
        {"split", "split", [=] { require_legal(LdSt{.shape = LdStShape::s16x32bx2, .split_columns = index}); }});
  }
  check_all(rows);
}

TEST_CASE("layouts that divide by nothing or go beyond 64 bits are refused") {
  const SwizzleInfo& none = info(Swizzle::none);
  SwizzleInfo flat = none;
  flat.width_bytes = 0;
  constexpr int64_t far = std::numeric_limits<int64_t>::max();
  std::vector<Row> rows{
      {"extent", "extent 0",
       [] {
         static_cast<void>(offset_of(LayoutMode{{0, 1}, {8, 1}}, 3));
       }},
      {"stride", "stride",
       [] {
         static_cast<void>(offset_of(LayoutMode{{8, far}}, 3));
       }},
      {"coordinate", "coordinate",
       [] {
         static_cast<void>(offset_of(LayoutMode{{8, 1}}, -1));
       }},
      {"count", "coordinate",
       [] {
         static_cast<void>(offsets_of(LayoutMode{{8, 1}}, -1));
       }},
      {"absurd count", "coordinate",
       [] {
         static_cast<void>(offsets_of(LayoutMode{{8, 1}}, far));
       }},
      {"element bits", "element bits = 0", [&] { static_cast<void>(canonical_layout(Major::k, none, {}, 0, 8, 8)); }},
      {"rows", "rows = -1", [&] { static_cast<void>(hardware_layout(Major::k, none, {}, 16, -1, 8)); }},
      {"strides", "stride or padding",
       [&] {
         static_cast<void>(canonical_layout(Major::mn, none, {far, 16}, 16, 8, 8));
       }},
      {"padding", "stride or padding", [&] { static_cast<void>(minimal_strides(Major::k, none, 16, 8, 8, far - 15)); }},
      {"swizzle", "swizzle", [&] { static_cast<void>(minimal_strides(Major::mn, flat, 16, 8, 8)); }},
      {"cute", "CuTe layout", [] { static_cast<void>(parse_cute("((65536,65536,65536,32768),1):((1,1,1,1),1)", 16)); }},
      {"scales", "scale matrix", [] { static_cast<void>(pack_scales({.rows = int64_t{1} << 62, .blocks = 4}, {})); }},
      {"unpacked", "scale matrix", [] { static_cast<void>(unpack_scales({.rows = -1, .blocks = 4}, {})); }},
  };
  check_all(rows);
}

TEST_CASE("places of a map that are none are refused") {
  const Map map = map_of(parse_cute("(8,8):(8,1)", 16));
  CuteLayout wide = parse_cute("(8,8):(8,1)", 16);
  wide.element_bits = 129;
  check_all({
      {"bits", "element bits = 129", [&] { static_cast<void>(map_of(wide)); }},
      {"coordinates", "element = 1 coordinates", [&] { static_cast<void>(map.place_of({1})); }},
      {"row", "row = 8",
       [&] {
         static_cast<void>(map.place_of({8, 0}));
       }},
      {"axis", "axis = lane", [&] { static_cast<void>(map.axis("lane")); }},
  });
}
