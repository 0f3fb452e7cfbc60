#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("tcgen05 mnemonics print and parse back, and wrong ones are refused") {
  for (const char* text :
       {"tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma.cta_group::2.kind::tf32",
        "tcgen05.mma.ws.cta_group::1.kind::i8.collector::b2::fill", "tcgen05.mma.sp.cta_group::1.kind::f8f6f4",
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X",
        "tcgen05.mma.sp.cta_group::2.kind::mxf8f6f4.block_scale.block32.collector::a::use",
        "tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::lastuse",
        "tcgen05.mma.cta_group::1.kind::f16.collector::a::lastuse"}) {
    CHECK(print(parse_instruction(text)) == text);
  }
  for (const auto& [text, message] :
       {std::pair("tcgen05.wait", ".mma, .ld, .st, .cp or .shift after tcgen05"),
        std::pair("tcgen05.mma.kind::f16", "it is mandatory"),
        std::pair("tcgen05.mma.cta_group::3.kind::f16", "cta_group::3"),
        std::pair("tcgen05.mma.cta_group::1.kind::bf16", "kind = kind::bf16"),
        std::pair("tcgen05.mma.cta_group::1.kind::mxf4", "always has scales"),
        std::pair("tcgen05.mma.cta_group::1.kind::f16.block_scale", "only the mx kinds have scales"),
        std::pair("tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::3X", "the end of the text"),
        std::pair("tcgen05.mma.cta_group::1.kind::f16.collector::b0::fill", "collector::a::fill")}) {
    CHECK_THROWS_WITH(parse_instruction(text), ContainsSubstring(message));
  }
}
