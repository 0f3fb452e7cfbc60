#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

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
  for (const auto& [text, refusal] : std::vector<std::pair<std::string, test::Refusal>>{
           {"tcgen05.wait", {malformed, "instruction"}},
           {"tcgen05.mma.kind::f16", {malformed, "qualifier"}},
           {"tcgen05.mma.cta_group::3.kind::f16", {malformed, "qualifier"}},
           {"tcgen05.mma.cta_group::1.kind::bf16", {malformed, "kind"}},
           {"tcgen05.mma.cta_group::1.kind::mxf4", {malformed, ".block_scale"}},
           {"tcgen05.mma.cta_group::1.kind::f16.block_scale", {malformed, ".block_scale"}},
           {"tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::3X", {malformed, "qualifier"}},
           {"tcgen05.mma.cta_group::1.kind::f16.collector::b0::fill", {malformed, "collector"}}}) {
    CHECK_THROWS_MATCHES(parse_instruction(text), Error, refused(refusal));
  }
}
