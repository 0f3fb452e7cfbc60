#include "bitmma/layout/cute.hpp"

#include "bitmma/instruction/simulate.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

TEST_CASE("what print_cute writes, parse_cute reads, and it is the same layout: every mode, major-ness and width") {
  int count = 0;
  for (const Swizzle mode : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128, Swizzle::b128_atom32}) {
    for (const Major major : {Major::k, Major::mn}) {
      for (const int bits : {4, 8, 16, 32}) {
        const int cols = 256 / bits;
        SmemMatrix matrix{.descriptor = {.arch = Arch::sm_100a,
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
        ++count;
      }
    }
  }
  CHECK(count == 5 * 2 * 4);
}

TEST_CASE("CuTe notation as people write it: element swizzles, nesting, spaces, plain layouts") {
  CHECK(print(parse_cute("Swizzle<3,3,3> o ((8,8),(8,2)):((64,512),(1,8))", 16)) ==
        "Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))");
  CHECK(print(parse_cute("Sw<2,2,3> o ((_8,_4),(_4,_2)) : ((_16, _128), (_1, _4))", 32)) ==
        "Swizzle<2,4,3> o ((8,4),(4,2)):((16,128),(1,4))");
  CHECK(print(parse_cute("(8,16):(16,1)", 16)) == "Swizzle<0,4,3> o ((8),(16)):((16),(1))");
  CHECK(print(parse_cute("(((2,4),3),16):(((1,2),8),32)", 16)) == "Swizzle<0,4,3> o ((2,4,3),(16)):((1,2,8),(32))");
  CHECK(parse_cute("Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))", 16).rows == 64);
  for (const auto& [text, message] :
       {std::pair("", "a number"), std::pair("(8,16)", "legal is :"), std::pair("(8,16):(16)", "different form"),
        std::pair("(8,(4,4)):(16,1)", "different form"), std::pair("(8,16,2):(1,8,128)", "3 modes"),
        std::pair("Swizzle<3,4> o (8,8):(8,1)", "legal is ,"), std::pair("Swizzle<3,4,3> (8,8):(8,1)", "o between"),
        std::pair("(8,8):(8,1) x", "nothing more"), std::pair("(8,-8):(8,1)", "a number"),
        std::pair("(0,8):(8,1)", "CuTe shape = 0"), std::pair("(65536,65536):(1,1)", "at most 1048576"),
        std::pair("Swizzle<9,4,3> o (8,8):(8,1)", "0..4,0..8,0..8"),
        std::pair("((((((((((8)))))))))):1", "nested tuples"),
        std::pair("(8,99999999999999999999):(1,1)", "a number")}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_cute(text, 16), ContainsSubstring(message));
  }
}

TEST_CASE("the CuTe notation of fragments and of Tensor Memory says where every element is") {
  for (const Fragment& fragment :
       {wgmma_d_fragment(Format::f32, 32), wgmma_d_fragment(Format::f16, 16), wgmma_a_fragment(Format::f16, 16),
        wgmma_a_fragment(Format::tf32, 8), wgmma_a_fragment(Format::e4m3, 32), mma_a_fragment(8, 32),
        mma_a_fragment(4, 64), mma_b_fragment(8, 32), mma_b_fragment(4, 128), mma_d_fragment()}) {
    const CuteLayout cute = parse_cute(print_cute(fragment), 8);
    INFO(print_cute(fragment));
    REQUIRE(cute.rows == fragment.threads);
    REQUIRE(cute.cols == fragment.registers() * fragment.elements_per_register());
    for (int thread = 0; thread < fragment.threads; ++thread) {
      for (int value = 0; value < cute.cols; ++value) {
        const int per_register = fragment.elements_per_register();
        const MatrixPlace place =
            element_at(fragment, thread, value / per_register, value % per_register * fragment.element_bits);
        REQUIRE(offset_of(cute.layout, thread, value) == place.row + int64_t{fragment.rows} * place.col);
      }
    }
  }
  CHECK(print_cute(wgmma_d_fragment(Format::f32, 16)) ==
        "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))");  // as CUTLASS has it
  CHECK(print_cute(TmemD{.layout = find_tmem_layout(64, 1, false, false), .n = 32}) ==
        "((16,4),32):((1@lane,32@lane),1@column)");
  CHECK(print_cute(TmemD{.layout = find_tmem_layout(128, 2, false, false), .n = 32}) ==
        "((64,2),(16,2)):((1@lane,1@cta),(1@column,64@lane))");
  CHECK(print_cute(TmemD{.layout = find_tmem_layout(32, 1, true, false), .n = 64}) ==
        "(32,(16,4)):(1@lane,(1@column,32@lane))");
}
