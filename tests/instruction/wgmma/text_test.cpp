#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE(".satfinite is taken in both places") {
  const Instruction after_types = parse_instruction("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8.satfinite");
  CHECK(std::get<Wgmma>(after_types).saturate);
  CHECK(parse_instruction("wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.s8.u8") == after_types);
  CHECK_THROWS_AS(parse_instruction("wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.s8.u8.satfinite"), Error);
}
