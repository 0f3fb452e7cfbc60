#include "bitmma/instruction/cutlass_atom.hpp"

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"

using namespace bitmma;

TEST_CASE("names of CUTLASS's MMA operations are the instructions that its headers write") {
  // The statements in include/cute/arch/mma_sm*.hpp.
  for (const auto& [name, mnemonic] : std::vector<std::pair<std::string, std::string>>{
           {"SM90_64x128x16_F32F16F16_SS", "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"},
           {"SM90::GMMA::MMA_64x8x16_F16F16F16_RS", "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16"},
           {"SM90_64x8x8_F32TF32TF32_SS_TN", "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32"},
           {"SM90_64x256x32_F32E4M3E5M2_SS_TN", "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e5m2"},
           {"SM90_64x8x32_S32S8U8_SS_TN_SATURATE", "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8.satfinite"},
           {"cute::SM90::GMMA::SPARSE::GMMA_64x32x32_F32BF16BF16_SS<GMMA::Major::K, GMMA::Major::K>",
            "wgmma.mma_async.sp.sync.aligned.m64n32k32.f32.bf16.bf16"},
           {"SM70_8x8x4_F32F16F16F32_NT", "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32"},
           {"SM75_8x8x16_S32S8S8S32_TN", "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"},
           {"SM80_16x8x16_F32F16F16F32_TN", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"},
           {"SM80_16x8x8_F32TF32TF32F32_TN", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"},
           {"SM80_8x8x4_F64F64F64F64_TN", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"},
           {"SM80_16x8x256_S32U1U1S32_TN_XORPOPC", "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc"},
           {"SM89_16x8x32_F32E4M3E5M2F32_TN", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32"},
           {"SM90_16x8x16_F64F64F64F64_TN", "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64"},
           {"SM100_MMA_F16BF16_SS", "tcgen05.mma.cta_group::1.kind::f16"},
           {"SM100_MMA_TF32_TS", "tcgen05.mma.cta_group::1.kind::tf32"},
           {"SM100_MMA_F16BF16_2x1SM_SS<half_t, half_t, float, 256, 64>", "tcgen05.mma.cta_group::2.kind::f16"},
           {"SM100_MMA_S8_SS_SPARSE", "tcgen05.mma.sp.cta_group::1.kind::i8"},
           {"SM100_MMA_MXF8F6F4_2x1SM_SS", "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale"},
           {"SM100_MMA_MXF4_SS", "tcgen05.mma.cta_group::1.kind::mxf4.block_scale"},
       }) {
    INFO(name);
    CHECK(looks_like_cutlass_atom(name));
    const Instruction instruction = parse_cutlass_atom(name);
    CHECK(print(instruction) == mnemonic);
    CHECK(violations_of(instruction, default_target(instruction)).empty());
  }
  CHECK(target_of_cutlass_atom("cute::SM80_16x8x16_F32F16F16F32_TN") == Target::sm_80);
  CHECK(target_of_cutlass_atom("SM90::GMMA::MMA_64x8x16_F16F16F16_RS") == Target::sm_90a);
  CHECK(target_of_cutlass_atom("SM99_X") == std::nullopt);
  CHECK(std::get<Wgmma>(parse_cutlass_atom("SM90_64x8x16_F32F16F16_RS")).a_source == OperandSource::registers);
}

TEST_CASE("a name of CUTLASS that is not understood is refused by the word") {
  for (const auto& [name, message] : std::vector<std::pair<std::string, std::string>>{
           {"SM90_64x8x16_F32F16_SS", "= F32F16: must be a shape"},
           {"SM90_64x8x16_F32F15F16_SS", "= F32F15F16"},
           {"SM90_64x8_F32F16F16_SS", "= 64x8: must be"},
           {"SM90_64x8x16x1_F32F16F16_SS", "= 64x8x16x1"},
           {"SM90_99999999999x8x16_F32F16F16_SS", "= 99999999999x8x16"},
           {"SM90_F32F16F16_SS", "a shape and types"},
           {"SM120_16x8x32_TN<float_e4m3_t, float_e4m3_t, float>", "the types are template arguments"},
           {"SM90", "a shape and types"},
           {"SM100_MMA_F16BF16_SS_FAST", "= FAST"},
       }) {
    INFO(name);
    CHECK_THROWS_WITH(parse_cutlass_atom(name), ContainsSubstring(message));
  }
  CHECK_FALSE(looks_like_cutlass_atom("SMEM"));
  CHECK_FALSE(looks_like_cutlass_atom("sm_90a"));
}
