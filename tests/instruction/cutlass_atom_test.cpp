#include "bitmma/instruction/cutlass_atom.hpp"

#include "bitmma/core/error.hpp"
#include "bitmma/instruction/form.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace bitmma;
using enum bitmma::ViolationCode;
using bitmma::test::refused;

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
           {"SM120_16x8x32_TN", "the types are template arguments"},
           {"SM90", "a shape and types"},
           {"SM100_MMA_F16BF16_SS_FAST", "= FAST"},
       }) {
    INFO(name);
    CHECK_THROWS_MATCHES(parse_cutlass_atom(name), Error, refused(malformed, "name of an MMA operation of CUTLASS"));
  }
  CHECK_FALSE(looks_like_cutlass_atom("SMEM"));
  CHECK_FALSE(looks_like_cutlass_atom("sm_90a"));
}

namespace {

Violation refusal_of(const std::string& name) {
  try {
    (void)parse_cutlass_atom(name);
  } catch (const Error& error) {
    return error.violations().front();
  }
  FAIL(name << " is not refused");
  return {};
}

const std::string mxf4_types = "<float_e2m1_t, float_e2m1_t, float, ";
const std::string k_major = ", UMMA::Major::K, UMMA::Major::K>";

}  // namespace

TEST_CASE("the vector size of a block-scaled operation of CUTLASS decides the kind, as in its headers") {
  for (const auto& [name, mnemonic] : std::vector<std::pair<std::string, std::string>>{
           {"SM100_MMA_MXF4_SS" + mxf4_types + "float_ue4m3_t, 128, 256, 16" + k_major,
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16"},
           {"SM100_MMA_MXF4_SS" + mxf4_types + "float_ue8m0_t, 128, 256, 16" + k_major,
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16"},
           {"SM100_MMA_MXF4_SS" + mxf4_types + "float_ue8m0_t, 128, 256, 32" + k_major,
            "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32"},
           {"SM100_MMA_MXF4_2x1SM_SS" + mxf4_types + "float_ue4m3_t, 256, 256, 16" + k_major,
            "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16"},
           {"SM100_MMA_MXF4_2x1SM_SS" + mxf4_types + "float_ue8m0_t, 256, 256, 32" + k_major,
            "tcgen05.mma.cta_group::2.kind::mxf4.block_scale.block32"},
           {"SM100_MMA_MXF4NVF4_SS_SPARSE" + mxf4_types + "float_ue4m3_t, 128, 64, 32" + k_major,
            "tcgen05.mma.sp.cta_group::1.kind::mxf4nvf4.block_scale.block16"},
           {"SM100_MMA_MXF4NVF4_2x1SM_SS_SPARSE" + mxf4_types + "float_ue8m0_t, 256, 64, 64" + k_major,
            "tcgen05.mma.sp.cta_group::2.kind::mxf4.block_scale.block32"},
           {"cute::SM103::SM103_MXF4_ULTRA_SS_VS" + mxf4_types + "float_ue4m3_t, 128, 64, 16" + k_major,
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16"},
           {"SM103_MXF4_ULTRA_2x1SM_SS_VS" + mxf4_types + "float_ue8m0_t, 256, 64, 32" + k_major,
            "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block32"},
           {"SM100_MMA_MXF8F6F4_SS<float_e4m3_t, float_e2m1_t, float, float_ue8m0_t, 128, 64" + k_major,
            "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale"},
           {"SM120::BLOCKSCALED::SM120_16x8x64_TN_VS" + mxf4_types + "float_ue4m3_t, 16>",
            "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"},
           {"SM120::BLOCKSCALED::SM120_16x8x64_TN_VS" + mxf4_types + "float_ue8m0_t, 32>",
            "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"},
           {"SM120_16x8x32_TN_VS<float_e3m2_t, float_e5m2_t, float, float_ue8m0_t, 32>",
            "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e3m2.e5m2.f32.ue8m0"},
           {"SM120::BLOCKSCALED::SPARSE::SM120_SPARSE_16x8x128_TN_VS" + mxf4_types + "float_ue4m3_t, 32>",
            "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1."
            "e2m1.f32.ue4m3"},
           {"SM120::BLOCKSCALED::SPARSE::SM120_SPARSE_16x8x64_TN_VS<float_e4m3_t, float_e4m3_t, float, float_ue8m0_t, "
            "64>",
            "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3."
            "e4m3.f32.ue8m0"},
       }) {
    INFO(name);
    const CutlassAtom atom = read_cutlass_atom(name);
    CHECK(print(atom.instruction) == mnemonic);
    REQUIRE(atom.target);
    CHECK(violations_of(atom.instruction, *atom.target).empty());
  }
  const auto ultra = std::get<Tcgen05Mma>(
      parse_cutlass_atom("SM103_MXF4_ULTRA_SS_VS" + mxf4_types + "float_ue8m0_t, 128, 64, 32" + k_major));
  CHECK(ultra.k == 96);
  CHECK(ultra.scale_type == Format::ue8m0);
}

TEST_CASE("every template argument of an operation of CUTLASS sets its field") {
  const auto wgmma = std::get<Wgmma>(
      parse_cutlass_atom("SM90::GMMA::SPARSE::GMMA_64x32x32_F32F16F16_SS<GMMA::Major::MN, GMMA::Major::K, "
                         "GMMA::ScaleIn::One, GMMA::ScaleIn::Neg, GMMA::SparseSel::One>"));
  CHECK(wgmma == Wgmma{.n = 32, .sparse = true, .negate_b = true, .transpose_a = true, .sparsity_selector = 1});
  // Types of 8 bits have no majors, integers no signs.
  CHECK(std::get<Wgmma>(parse_cutlass_atom("SM90_64x8x32_F32E4M3E4M3_SS_TN<GMMA::ScaleIn::Neg>")).negate_a);
  CHECK(std::get<Wgmma>(parse_cutlass_atom("SM90::GMMA::SPARSE::GMMA_64x8x64_S32S8S8_SS_TN<GMMA::SparseSel::Zero>"))
            .sparse);
  const auto tcgen05 = std::get<Tcgen05Mma>(
      parse_cutlass_atom("SM100_MMA_F16BF16_2x1SM_TS_SCALED<bfloat16_t, bfloat16_t, float, 128, 96, UMMA::Major::K, "
                         "UMMA::Major::MN, 4u, UMMA::ScaleIn::Neg, UMMA::ScaleIn::One, UMMA::Saturate::False>"));
  CHECK(tcgen05 == Tcgen05Mma{.cta_group = 2,
                              .m = 128,
                              .n = 96,
                              .a = Format::bf16,
                              .a_source = OperandSource::tmem,
                              .scale_input_d = 4,
                              .negate_a = true,
                              .transpose_b = true});
  const auto s8 = std::get<Tcgen05Mma>(parse_cutlass_atom(
      "SM100_MMA_S8_SS<uint8_t, int8_t, int32_t, 64, 32, UMMA::Major::K, UMMA::Major::MN, UMMA::Saturate::True>"));
  CHECK(s8 == Tcgen05Mma{.kind = MmaKind::i8,
                         .m = 64,
                         .n = 32,
                         .a = Format::u8,
                         .b = Format::s8,
                         .saturate = true,
                         .transpose_b = true});
  CHECK(violations_of(s8, Target::sm_100a).empty());
  const auto complex = std::get<Tcgen05Mma>(parse_cutlass_atom(
      "SM100_MMA_TF32_TS_INTERLEAVED_CF32CTF32CTF32CF32_TN<64, 32, UMMA::Major::K, UMMA::Major::K, UMMA::ScaleIn::One, "
      "UMMA::ScaleIn::Neg>"));
  CHECK(complex ==
        Tcgen05Mma{.kind = MmaKind::tf32, .m = 64, .n = 32, .a_source = OperandSource::tmem, .negate_b = true});
  CHECK(print(parse_cutlass_atom("SM120_16x8x32_TN<float_e4m3_t, float_e2m1_t, half_t>")) ==
        "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f16.e4m3.e2m1.f16");
}

TEST_CASE("template arguments are read as C++ code and as compilers spell them") {
  const Instruction wgmma = parse_cutlass_atom(
      "SM90_64x128x16_F32BF16BF16_SS<GMMA::Major::K, GMMA::Major::MN, GMMA::ScaleIn::One, GMMA::ScaleIn::Neg>");
  CHECK(immediate_of(wgmma, "imm_trans_b") == 1);
  CHECK(immediate_of(wgmma, "imm_scale_b") == -1);
  for (const char* name :
       {"cute::SM90::GMMA::MMA_64x128x16_F32BF16BF16_SS<(cute::SM90::GMMA::Major)0, (cute::SM90::GMMA::Major)1, "
        "(cute::SM90::GMMA::ScaleIn)1, (cute::SM90::GMMA::ScaleIn)-1>",
        "cute::SM90::GMMA::MMA_64x128x16_F32BF16BF16_SS<(cute::SM90::GMMA::Major)0,(cute::SM90::GMMA::Major)1,"
        "(cute::SM90::GMMA::ScaleIn)(1),(cute::SM90::GMMA::ScaleIn)(-1)>{}",
        "SM90::GMMA::MMA_64x128x16_F32BF16BF16_SS<static_cast<cute::SM90::GMMA::Major>(0), Major::MN, ScaleIn::One, "
        "cute::SM90::GMMA::ScaleIn::Neg>",
        "cute::MMA_Atom<cute::MMA_Traits<cute::SM90::GMMA::MMA_64x128x16_F32BF16BF16_SS<GMMA::Major::K, "
        "GMMA::Major::MN, GMMA::ScaleIn::One, GMMA::ScaleIn::Neg>>>"}) {
    INFO(name);
    CHECK(looks_like_cutlass_atom(name));
    CHECK(parse_cutlass_atom(name) == wgmma);
    CHECK(target_of_cutlass_atom(name) == Target::sm_90a);
  }
  // UMMA::ScaleIn and GMMA::ScaleIn have different numbers for Neg.
  const std::string umma =
      "SM100_MMA_F16BF16_SS<cutlass::half_t, cutlass::half_t, float, 128, 64, "
      "(cute::UMMA::Major)1, (cute::UMMA::Major)0, (cute::UMMA::ScaleIn)";
  CHECK(std::get<Tcgen05Mma>(parse_cutlass_atom(umma + "1>")).negate_a);
  CHECK_FALSE(std::get<Tcgen05Mma>(parse_cutlass_atom(umma + "0, (cute::UMMA::ScaleIn)0>")).negate_a);
  CHECK(std::get<Tcgen05Mma>(parse_cutlass_atom(umma + "0>")).transpose_a);
}

TEST_CASE("words and template arguments that an operation of CUTLASS does not have are refused") {
  const std::string name = "name of an MMA operation of CUTLASS";
  for (const auto& [text, field, seen] : std::vector<std::array<std::string, 3>>{
           {"SM80_64x128x16_F32F16F16_SS", name, "SM80"},
           {"SM99_64x128x16_F32F16F16_SS", name, "SM99"},
           {"SM100_16x8x16_F32F16F16F32_TN", name, "SM100"},
           {"SM90_64x128x16_F32F16F16_TS", name, "TS"},
           {"SM90_64x128x16_F32F16F16_2x1SM_SS", name, "2x1SM"},
           {"SM90_64x128x16_F32F16F16_SS_NT", name, "NT"},
           {"SM90_64x128x16_F32F16F16_SS_TN", name, "TN"},
           {"SM90_64x128x16_F32F16F16_SS_RS", name, "RS"},
           {"SM90_64x128x16_64x8x16_F32F16F16_SS", name, "64x8x16"},
           {"SM80_16x8x16_F32F16F16F32_TN_SS", name, "SS"},
           {"SM80_16x8x16_F32F16F16F32_TN_WS", name, "WS"},
           {"SM80_16x8x16_F32F16F16F32_TN_VS", name, "VS"},
           {"SM90::SM80_16x8x16_F32F16F16F32_TN", name, "SM80"},
           {"SM100_MMA_F16BF16_SS_SATURATE", name, "SATURATE"},
           {"SM100_MMA_F8F6F4_SS_SCALED", name, "SCALED"},
           {"SM100_MMA_F16BF16_TF32_SS", name, "TF32"},
           {"SM120::BLOCKSCALED::SM120_16x8x32_TN<float_e4m3_t, float_e4m3_t, float>", name, "BLOCKSCALED"},
           {"SM90_64x8x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K", name, "<GMMA::Major::K, GMMA::Major::K"},
           {"SM90_64x8x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>x", name, "x"},
           {"SM90_64x8x16_F32F16F16_SS<GMMA::Major::K, , GMMA::Major::K>", name, "<GMMA::Major::K, , GMMA::Major::K>"},
           {"SM90_64x8x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::Q>", "template argument b_major", "GMMA::Major::Q"},
           {"SM90_64x8x16_F32F16F16_SS<GMMA::Major::K, (GMMA::Major)2>", "template argument b_major", "(GMMA::Major)2"},
           {"SM90_64x8x16_F32F16F16_SS<UMMA::Major::K, GMMA::Major::K>", "template argument a_major", "UMMA::Major::K"},
           {"SM90_64x8x16_F32F16F16_SS<GMMA::ScaleIn::One, GMMA::Major::K>", "template argument a_major",
            "GMMA::ScaleIn::One"},
           {"SM90_64x8x32_F32E4M3E4M3_SS_TN<GMMA::Major::K>", "template argument a_neg", "GMMA::Major::K"},
           {"SM90_64x8x32_F32E4M3E4M3_SS_TN<(GMMA::ScaleIn)0>", "template argument a_neg", "(GMMA::ScaleIn)0"},
           {"SM90_64x8x32_S32S8S8_SS_TN<GMMA::ScaleIn::One>", "template arguments", "GMMA::ScaleIn::One"},
           {"SM80_16x8x16_F32F16F16F32_TN<float>", "template arguments", "float"},
           {"SM100_MMA_MXF4_SS" + mxf4_types + "float_ue4m3_t, 128, 256, 64" + k_major, "template argument VS", "64"},
           {"SM100_MMA_MXF4NVF4_SS_SPARSE" + mxf4_types + "float_ue4m3_t, 128, 256, 16" + k_major,
            "template argument VS", "16"},
           {"SM120_16x8x32_TN_VS<float_e4m3_t, float_e4m3_t, float, float_ue8m0_t, 16>", "template argument VS", "16"},
           {"SM100_MMA_F16BF16_SS<type_erased_dynamic_float8_t, half_t, float, 128, 64>", "template argument a_type",
            "type_erased_dynamic_float8_t"},
           {"SM100_MMA_F16BF16_SS<half_t, half_t, float, half_t, 64>", "template argument M", "half_t"},
       }) {
    INFO(text);
    const Violation violation = refusal_of(text);
    CHECK(violation.field == field);
    CHECK(violation.seen == seen);
  }
  // What CUTLASS asserts, the instruction's own rules refuse.
  for (const char* illegal :
       {"SM90_64x8x16_F32F16F16_RS<GMMA::Major::MN, GMMA::Major::K>",
        "SM100_MMA_F16BF16_TS<half_t, half_t, float, 128, 64, UMMA::Major::MN, UMMA::Major::K>",
        "SM100_MMA_F16BF16_SS<half_t, half_t, float, 256, 64, UMMA::Major::K, UMMA::Major::K>",
        "SM100_MMA_F16BF16_SS<half_t, bfloat16_t, float, 128, 64, UMMA::Major::K, UMMA::Major::K>",
        "SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 32>"}) {
    INFO(illegal);
    const CutlassAtom atom = read_cutlass_atom(illegal);
    CHECK_FALSE(violations_of(atom.instruction, *atom.target).empty());
  }
}
