#include "bitmma/analysis/shown_layout.hpp"

#include "support/catch.hpp"

using namespace bitmma;

namespace {

template <typename Act>
std::string refused_field(const Act& act) {
  try {
    (void)act();
  } catch (const Error& error) {
    return error.violations().front().field;
  }
  return "";
}

}  // namespace

TEST_CASE("a layout's map is that of its kind, with a title and what JSON has beside the elements") {
  const ShownLayout move = shown_layout(LdMatrix{.count = 2});
  CHECK(move.map.axes == map_of(LdMatrix{.count = 2}).axes);
  CHECK_THAT(move.map.title, ContainsSubstring("2 matrices of 8 rows of 16 bytes, 2 registers per thread"));
  REQUIRE(move.header.find("addresses"));
  CHECK(std::get<Report::List>(move.header.find("addresses")->value).size() == 16);

  const ShownLayout d = shown_layout(TmemRequest{.m = 64, .operand = TmemRequest::D{.n = 32}});
  CHECK(d.map.place_of({17, 5}) ==
        map_of(TmemD{.layout = find_tmem_layout(64, 1, false, false), .n = 32}).place_of({17, 5}));
  CHECK_THAT(d.map.title, ContainsSubstring("32 columns of cells"));

  const SmemMatrix matrix{
      .descriptor = decode_smem_descriptor(Target::sm_90a, 0x4000004000010000), .rows = 64, .cols = 16};
  const ShownLayout smem = shown_layout(matrix);
  CHECK(smem.map.place_of({9, 3}) == map_of(matrix).place_of({9, 3}));
  CHECK(*smem.header.find("target") == Report("sm_90a"));
}

TEST_CASE("a layout that does not exist is refused by the field that is wrong") {
  CHECK(refused_field([] { return shown_layout(LdStRequest{.split_columns = 4}); }) == "split");
  CHECK(refused_field([] { return shown_layout(LdStRequest{.shape = "8x8b"}); }) == "shape");
  CHECK(refused_field([] { return shown_layout(TmemRequest{.operand = TmemRequest::A{.element_bits = 2}}); }) ==
        "element bits, cols");
  CHECK(refused_field([] { return shown_layout(ScalesRequest{.rows = 257}); }) == "rows");
  CHECK(refused_field([] { return shown_layout(ScalesRequest{.blocks = 9}); }) == "blocks");
  CHECK(refused_field([] { return shown_layout(ScalesRequest{.id = 4}); }) == "id");
  CHECK(refused_field([] { return shown_layout(ScaleImage{0, 4}, true); }) == "rows, blocks");
  CHECK(refused_field([] { return shown_atom(Swizzle::b128_atom32, Major::mn, 32, Target::sm_90a); }) == "atom");
  CHECK(refused_field([] { return shown_atom(Swizzle::b128_atom32, Major::k, 32); }) == "atom, major");
  CHECK(shown_atom(Swizzle::b128_atom32, Major::mn, 32, Target::sm_100a).map.title.size() > 0);
}

TEST_CASE("the sizes of a matrix in shared memory are checked together") {
  CHECK(size_violations_of({.element_bits = 16, .rows = 4096, .cols = 1}).empty());
  const std::vector<Violation> violations = size_violations_of({.element_bits = 3, .rows = 0, .cols = 4097});
  REQUIRE(violations.size() == 3);
  CHECK(violations[0].field == "element bits");
  CHECK(violations[1].field == "rows");
  CHECK(violations[2].field == "cols");
}

TEST_CASE("a box has one or two extents of 1 to 65536 elements") {
  TmaTile tile;
  read_box(tile, "box", "64x16");
  CHECK(tile.box_inner == 64);
  CHECK(tile.box_outer == 16);
  TmaTile inner;
  read_box(inner, "box", "65536");
  CHECK(inner.box_inner == 65536);
  CHECK(inner.box_outer == 0);
  for (const char* wrong : {"", "0", "64x", "x64", "64x0", "65537", "8x8x8", "-1", "64X16"})
    CHECK(refused_field([&] { return read_box(tile, "box", wrong), 0; }) == "box");
}

TEST_CASE("a tile is atoms side by side at the smallest strides, and a stride without effect is refused") {
  const TileRequest tile{.swizzle = Swizzle::b128, .rows = 64, .cols = 64};
  const DescriptorAnswer answer = descriptors_of(tile_layout(tile));
  REQUIRE(answer.descriptors);
  CHECK(answer.descriptors->first.strides.stride_dim_byte_offset == 1024);
  TileRequest wide = tile;
  wide.sbo = 2048;
  CHECK(descriptors_of(tile_layout(wide)).descriptors->first.strides.stride_dim_byte_offset == 2048);
  TileRequest staged = tile;
  staged.stages = 3;
  CHECK(tile_layout(staged).stages() == 3);
  TileRequest unused = tile;
  unused.lbo = 64;
  CHECK(refused_field([&] { return tile_layout(unused); }) == "lbo");
  TileRequest large = tile;
  large.rows = 65536;
  CHECK(refused_field([&] { return tile_layout(large); }) == "rows, cols");
  CHECK(warnings_of_extents(tile_layout(tile), {}).empty());
  CHECK(warnings_of_extents(tile_layout(tile), {.instruction_rows = 12, .instruction_cols = 5}).size() == 2);
}

TEST_CASE("entries are objects of JSON and lines of CSV with the axes that these show") {
  const Map map = map_of(LdMatrix{.count = 1});
  const MapEntry entry = map.place_of({0, 1, 2});
  CHECK(csv_heading(map) == "matrix,row,col,thread,register,bit\n");
  CHECK(csv_line(map, entry) == "0,1,2,5,0,0\n");
  CHECK(*describe_entry(map, entry).find("thread") == Report(int64_t{5}));
}
