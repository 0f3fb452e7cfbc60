#include "bitmma/layout/cute.hpp"

#include <limits>

#include "bitmma/analysis/draw.hpp"
#include "bitmma/core/error.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("CuTe notation as people write it: element swizzles, nesting, spaces, plain layouts", "[rule:cute]") {
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
    CHECK_THROWS_WITH(parse_cute("(8,8):(8,1)", bits), ContainsSubstring("element bits = " + std::to_string(bits)));
    CHECK_THROWS_WITH(placed_elements(parse_cute("(8,8):(8,1)", 16), bits), ContainsSubstring("element bits"));
  }
}
