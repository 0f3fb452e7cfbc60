#include "bitmma/layout/cute.hpp"

#include <limits>
#include <set>

#include "bitmma/core/error.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

TEST_CASE("CuTe notation as people write it: element swizzles, nesting, spaces, plain layouts", "[rule:cute]") {
  CHECK(print(parse_cute("Swizzle<3,3,3> o ((8,8),(8,2)):((64,512),(1,8))", 16)) ==
        "Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))");
  CHECK(print(parse_cute("Sw<2,2,3> o ((_8,_4),(_4,_2)) : ((_16, _128), (_1, _4))", 32)) ==
        "Swizzle<2,4,3> o ((8,4),(4,2)):((16,128),(1,4))");
  CHECK(print(parse_cute("(8,16):(16,1)", 16)) == "Swizzle<0,4,3> o ((8),(16)):((16),(1))");
  CHECK(print(parse_cute("(((2,4),3),16):(((1,2),8),32)", 16)) == "Swizzle<0,4,3> o ((2,4,3),(16)):((1,2,8),(32))");
  CHECK(parse_cute("Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))", 16).rows == 64);
  for (const auto& [text, refusal] : std::vector<std::pair<std::string, test::Refusal>>{
           {"", {malformed, "CuTe layout, character 1"}},
           {"(8,16)", {malformed, "CuTe layout, character 7"}},
           {"(8,16):(16)", {wrong_shape, "CuTe layout"}},
           {"(8,(4,4)):(16,1)", {wrong_shape, "CuTe layout"}},
           {"(8,16,2):(1,8)", {wrong_shape, "CuTe layout"}},
           {"Swizzle<3,4> o (8,8):(8,1)", {malformed, "CuTe layout, character 12"}},
           {"Swizzle<3,4,3> (8,8):(8,1)", {malformed, "CuTe layout, character 16"}},
           {"(8,8):(8,1) x", {malformed, "CuTe layout, character 13"}},
           {"(8,-8):(8,1)", {malformed, "CuTe layout, character 4"}},
           {"(0,8):(8,1)", {illegal_value, "CuTe shape"}},
           {"(65536,65536):(1,1)", {too_large, "CuTe layout"}},
           {"Swizzle<9,4,3> o (8,8):(8,1)", {malformed, "CuTe layout, character 16"}},
           {"((((((((((8)))))))))):1", {malformed, "CuTe layout, character 10"}},
           {"(8,99999999999999999999):(1,1)", {malformed, "CuTe layout, character 4"}}}) {
    INFO(text);
    CHECK_THROWS_MATCHES(parse_cute(text, 16), Error, refused(refusal));
  }
}

TEST_CASE("the byte of an element is its offset from the start, swizzled as an address") {
  const CuteLayout cute = parse_cute("Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))", 16);
  CHECK(cute.rows == 64);
  CHECK(cute.cols == 16);
  CHECK(cute.byte_of(0, 0, 16) == 0);
  CHECK(cute.byte_of(1, 0, 16) == 128 + 16);
  CHECK(cute.byte_of(7, 8, 16) == 7 * 128 + (16 ^ 7 * 16));
  CHECK(cute.byte_of(0, 0, 16, 128) == 128 + 16);
}

TEST_CASE("a layout with more rows or columns than can be counted is refused") {
  CHECK_THROWS_AS(parse_cute("((65536,65536,65536,32768),1):((1,1,1,1),1)", 16), Error);
  CHECK_THROWS_AS(parse_cute("((65536,65536,65536,65536),1):((1,1,1,1),1)", 16), Error);
  CHECK_THROWS_AS(parse_cute("(1,(65536,65536,65536,65536,16)):(1,(1,1,1,1,1))", 16), Error);
}

TEST_CASE("element bits that no element has are refused") {
  for (const int bits : {std::numeric_limits<int>::min(), -8, 0, 129, std::numeric_limits<int>::max()}) {
    CHECK_THROWS_MATCHES(parse_cute("(8,8):(8,1)", bits), Error, refused(illegal_value, "element bits"));
  }
}

TEST_CASE("layouts as CuTe prints them: pointers, offsets, static integers, any number of modes", "[rule:cute]") {
  const CuteLayout flag = parse_cute("Sw<3,4,3> o smem_ptr[16b](unset) o ((_8,_16),(_64,_1)):((_64,_512),(_1,_0))", 8);
  CHECK(print(flag) == "Swizzle<3,4,3> o ((8,16),(64,1)):((64,512),(1,0))");
  CHECK(flag.element_bits == 16);
  CHECK(flag.remarks.empty());
  const CuteLayout tensor = parse_cute("Sw<3,4,3>_smem_ptr[16b](0x7f46c0000400) o (_8,_64):(_64,_1)", 8);
  CHECK(tensor.start_bytes == 0x400);
  CHECK(tensor.byte_of(0, 0, 16) == 0x400);
  CHECK(print(parse_cute(print(tensor), 16)) == print(tensor));
  const CuteLayout offset = parse_cute("Sw<3,3,3> o _0 o (_8,_64):(_64,_1)", 16);
  CHECK(offset.swizzle.id == Swizzle::b128);
  REQUIRE(offset.remarks.size() == 1);
  CHECK(offset.remarks[0] == "Swizzle<3,3,3> counts elements of 16 bits; on byte addresses it is Swizzle<3,4,3>");
  CHECK(parse_cute("Swizzle<3,5,3> o (8,256):(256,1)", 4).swizzle.id == Swizzle::b128);
  CHECK(parse_cute("Swizzle<3,7,3> o (8,1024):(1024,1)", 1).swizzle.id == Swizzle::b128);
  CHECK(parse_cute("Swizzle<2,5,2> o (32,4):(1,32)", 4).swizzle.id == Swizzle::b128_atom32);
  const CuteLayout stages = parse_cute("((8,2),(4,4),3):((4,32),(1,64),256)", 32);
  CHECK(stages.stages() == 3);
  CHECK(stages.stage_offset(2) == 512);
  CHECK(print(stages) == "Swizzle<0,4,3> o ((8,2),(4,4),(3)):((4,32),(1,64),(256))");
  CHECK(parse_cute("(4,8,(2,3)):(1,4,(32,64))", 16).stage_offset(5) == 32 + 2 * 64);
  CHECK(print(parse_cute("8:2", 16)) == "Swizzle<0,4,3> o ((8),(1)):((2),(0))");
  CHECK(print(parse_cute("Layout<Shape<_8,_64>,Stride<_64,_1>>{}", 16)) == "Swizzle<0,4,3> o ((8),(64)):((64),(1))");
  CHECK(print(parse_cute("make_layout(make_shape(Int<8>{}, 64), make_stride(_64{}, _1{}))", 16)) ==
        "Swizzle<0,4,3> o ((8),(64)):((64),(1))");
  CHECK(parse_cute("((8,8),(128,2)):((128,1024),(1,8192))", 1).cols == 256);
  CHECK(parse_cute("Swizzle<3,4,3> o (8,8):(8,1)", 128).byte_of(1, 0, 128) == 128 + 16);
}

TEST_CASE("atoms by their names in CUTLASS, and tiles of them", "[rule:cute]") {
  CHECK(print(parse_cute("Layout_K_SW128", 16)) == "Swizzle<3,4,3> o ((8),(64)):((64),(1))");
  CHECK(print(parse_cute("Layout_K_INTER", 8)) == "Swizzle<0,4,3> o ((8),(16)):((16),(1))");
  CHECK(print(parse_cute("cute::SM90::GMMA::Layout_MN_SW64_Atom<cutlass::bfloat16_t>{}", 8)) ==
        "Swizzle<2,4,3> o ((32),(8)):((1),(32))");
  CHECK(print(parse_cute("UMMA::Layout_MN_SW128_32B_Atom<tfloat32_t>", 8)) == "Swizzle<2,5,2> o ((32),(4)):((1),(32))");
  CHECK(parse_cute("GMMA::Layout_K_SW128_Atom_Bits", 16).cols == 1024);
  CHECK(print(parse_cute("tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, Shape<_128,_64,_3>{})", 16)) ==
        "Swizzle<3,4,3> o ((8,16),(64,1),(3)):((64,512),(1,0),(8192))");
  CHECK(print(parse_cute("tile_to_shape(Layout_MN_SW128, (128,64), Step<_2,_1>{})", 16)) ==
        "Swizzle<3,4,3> o ((64,2),(8,8)):((1,4096),(64,512))");
  for (const SwizzleInfo& mode : swizzles) {
    for (const Major major : {Major::k, Major::mn}) {
      const CuteLayout atom = parse_cute(cute_atom_name(major, mode.id), 16);
      CHECK(atom.swizzle.id == mode.id);
      CHECK(atom.rows * atom.cols * 2 == int64_t{mode.width_bytes} * (major == Major::k ? 8 : mode.rows_per_atom));
    }
  }
  CHECK_THROWS_MATCHES(cute_atom(Major::k, Swizzle::b128, 6), Error, refused(illegal_value, "element bits"));
}

TEST_CASE("canonical layouts as PTX writes them, with values for their letters", "[rule:cute]") {
  const CuteSymbols symbols{.m = 2, .k = 2, .leading_dim_byte_offset = 256, .stride_dim_byte_offset = 128};
  CHECK(print(parse_cute("Swizzle<0,4,3> o ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))", 16, symbols)) ==
        "Swizzle<0,4,3> o ((8,1,2),(8,2)):((1,8,64),(8,128))");
  CHECK(print(parse_cute("((8,m),(T,2k)):((1T,SBO),(1,LBO))", 32, symbols)) ==
        "Swizzle<0,4,3> o ((8,2),(4,4)):((4,32),(1,64))");
  for (const SwizzleInfo& mode : swizzles) {
    for (const Major major : {Major::k, Major::mn}) {
      const CuteLayout cute = parse_cute(print_canonical(major, mode), 16, symbols);
      const Layout layout =
          canonical_layout(major, mode, {256, 128}, 16, static_cast<int>(cute.rows), static_cast<int>(cute.cols));
      CHECK(cute.layout == layout);
    }
  }
}

TEST_CASE("CuTe text that cannot be read says where") {
  for (const auto& [text, refusal] : std::vector<std::pair<std::string, test::Refusal>>{
           {"Swizzle<0,4,3> o ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))", {missing_input, "m of the CuTe layout"}},
           {"Layout_K_SW256", {unknown_name, "CuTe layout"}},
           {"Layout_K_SW128_Atom<double>", {unknown_name, "element type of the atom"}},
           {"tile_to_shape(Layout_K_SW128,(12,64))", {illegal_value, "mode 0 of tile_to_shape"}},
           {"tile_to_shape(Layout_K_SW128,(65536,65536))", {too_large, "CuTe layout"}},
           {"tile_to_shape((8,8):(8,1),(8,8))", {malformed, "CuTe layout, character 15"}},
           {"tile_to_shape(Layout_K_SW128,8)", {malformed, "CuTe layout, character 32"}},
           {"Sw<3,4,3> o smem_ptr[16b](here) o (8,8):(8,1)", {malformed, "CuTe layout, character 27"}},
           {"Sw<3,4,3> o smem_ptr[999b](unset) o (8,8):(8,1)", {malformed, "CuTe layout, character 25"}},
           {"Sw<3,4,3> o 5 o (8,8):(8,1)", {malformed, "CuTe layout, character 13"}},
           {"Sw<3,4,3> o 0 (8,8):(8,1)", {malformed, "CuTe layout, character 15"}},
           {"(8,8,65536,65536):(1,1,1,1)", {too_large, "CuTe layout"}},
           {"(99999999999999T,8):(1,1)", {malformed, "CuTe layout, character 2"}},
           {"(4294967296T,8):(1,1)", {malformed, "CuTe layout, character 13"}}}) {
    INFO(text);
    CHECK_THROWS_MATCHES(parse_cute(text, 16), Error, refused(refusal));
  }
  CHECK_THROWS_MATCHES(parse_cute("(m,8):(LBO,1)", 16, {.m = 8, .leading_dim_byte_offset = 3}), Error,
                       refused(illegal_value, "LBO of the CuTe layout"));
}

TEST_CASE("values are asked for the letters of a layout that stand in it, and for no other") {
  const auto letters_of = [](std::string_view text) {
    std::set<std::string, std::less<>> letters;
    parse_cute(text, 16, [&](std::string_view letter) -> std::optional<int64_t> {
      letters.emplace(letter);
      return 64;
    });
    return letters;
  };
  using Letters = std::set<std::string, std::less<>>;
  CHECK(letters_of("((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))") == Letters{"LBO", "SBO", "k", "m"});
  CHECK(letters_of("((T,1,m),(8,2)):((1,T,64),(1T,128))") == Letters{"m"});
  CHECK(letters_of("Swizzle<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)").empty());  // m is in a word
  CHECK(letters_of("GMMA::Layout_K_SW128_Atom<bfloat16_t>").empty());
  CHECK_THROWS_MATCHES(parse_cute("(8,k):(k,1)", 16), Error, refused(missing_input, "k of the CuTe layout"));
}
