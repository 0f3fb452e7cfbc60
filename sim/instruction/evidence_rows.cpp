// SPDX-License-Identifier: MIT
// Sources for the rule of each GPU. A row covers only its GPUs, types and K; anything else is a model choice.
// data/published has the words and statements, and a test derives every level from them.
#include "bitmma/instruction/evidence.hpp"
#include "table_sets.hpp"

namespace bitmma {
namespace {

using enum Evidence;
using enum Format;
using table_sets::f8f6f4, table_sets::fp8, table_sets::from_ampere, table_sets::from_turing;

constexpr TargetSet v100{Target::sm_70}, volta{Target::sm_70, Target::sm_72}, turing{Target::sm_75},
    a100_a2{Target::sm_80, Target::sm_86}, ampere{Target::sm_80, Target::sm_86, Target::sm_87}, ada{Target::sm_89},
    h100_h200{Target::sm_90}, b200{Target::sm_100}, rtx_50{Target::sm_120},
    rtx_blackwell{Target::sm_120, Target::sm_121};

constexpr FormatSet integers{s8, u8, s4, u4};
constexpr FormatSet f32_or_f16{f32, f16};

// A row covers all boards of its targets; a source with several boards names the target of each.
constexpr std::string_view matlab_v100 = "outputs of a V100, MATLAB-tensor-core, data/published",
                           matlab_ada = "outputs of an L40S and an RTX Ada, MATLAB-tensor-core, data/published",
                           matlab_ampere_ada =
                               "outputs of an A100 (sm_80), an A2 (sm_86), an L40S and an RTX Ada "
                               "(sm_89), MATLAB-tensor-core, data/published",
                           matlab_b200 = "outputs of a B200, MATLAB-tensor-core, data/published",
                           b200_words = "NVIDIA B200 words of sf-tensor/tcgen05, data/published/b200_words.txt",
                           rtx_5070_ti = "RTX 5070 Ti words of sass-king, data/published/sm120_words.txt",
                           verity = "danielreuter/verity, data/published/statements.csv",
                           mmasim = "MMA-Sim 2.1.1, arXiv 2511.10909",
                           mmasim_f64 = "MMA-Sim, arXiv 2511.10909, Algorithm 4; PTX ISA 9.7.14.5.14",
                           sass = "SASS that ptxas 12.9, 13.0 and 13.5 write",
                           isa = "PTX ISA 9.7.14.5.14: an exact sum; it does not say where the sum is clamped";

constexpr EvidenceSparsity sparse = EvidenceSparsity::sparse, both = EvidenceSparsity::both;
constexpr Family wgmma = Family::wgmma, tcgen05 = Family::tcgen05;
constexpr MmaKind kind_f16 = MmaKind::f16, kind_tf32 = MmaKind::tf32, kind_i8 = MmaKind::i8,
                  kind_f8f6f4 = MmaKind::f8f6f4, mxf8f6f4 = MmaKind::mxf8f6f4, mxf4 = MmaKind::mxf4,
                  mxf4nvf4 = MmaKind::mxf4nvf4;

// one line per row if it fits; rows without a family are for mma.sync
// clang-format off
constexpr auto evidence_table = std::to_array<EvidenceRow>({
    {.level = measured, .chips = h100_h200, .family = wgmma, .sparsity = both, .source = "NVIDIA H200, data/golden/sm_90a"},
    {.level = measured, .chips = h100_h200, .sparsity = both, .source = "NVIDIA H100 and H200, data/golden/sm_90a/mma_sync"},

    // Words that refute F - 1 and F + 1.
    {.level = published_words, .chips = v100, .a = {f16}, .d = {f32}, .k = {4}, .source = matlab_v100},
    {.level = published_words, .chips = a100_a2 | ada, .a = {f16}, .d = {f32}, .k = {8}, .source = matlab_ampere_ada},
    {.level = published_words, .chips = a100_a2 | ada, .a = {bf16}, .d = {f32}, .k = {8}, .source = matlab_ampere_ada},
    {.level = published_words, .chips = a100_a2 | ada, .a = {tf32}, .d = {f32}, .k = {4}, .source = matlab_ampere_ada},
    {.level = published_words, .chips = ada, .a = {e4m3}, .b = {e4m3}, .d = f32_or_f16, .k = {32}, .source = matlab_ada},
    {.level = published_words, .chips = ada, .a = {e5m2}, .b = {e5m2}, .d = f32_or_f16, .k = {32}, .source = matlab_ada},
    {.level = published_words, .chips = b200, .a = {f16}, .d = {f32}, .k = {16}, .source = matlab_b200},
    {.level = published_words, .chips = b200, .a = {bf16}, .d = {f32}, .k = {16}, .source = matlab_b200},

    {.level = published_words, .chips = b200, .a = {tf32}, .d = {f32}, .k = {4}, .source = matlab_b200},
    {.level = published_words, .chips = b200, .family = tcgen05, .kind = kind_f16, .a = {bf16}, .b = {bf16}, .k = {16}, .source = b200_words},

    // Blocks of fp4 and scales on a B200 and RTX 50; 8-, 6- and 4-bit types without scales on RTX 50.
    {.level = measured_by_others, .chips = b200, .family = tcgen05, .kind = mxf4nvf4, .k = {64}, .scale_count = 4, .scale_types = {ue4m3}, .source = verity},
    {.level = measured_by_others, .chips = b200, .family = tcgen05, .kind = mxf4nvf4, .k = {64}, .scale_count = 2, .scale_types = {ue8m0}, .source = verity},
    {.level = measured_by_others, .chips = b200, .family = tcgen05, .kind = mxf4, .k = {64}, .scale_count = 2, .scale_types = {ue8m0}, .source = verity},
    {.level = measured_by_others, .chips = rtx_50, .kind = mxf4nvf4, .k = {64, 128}, .sparsity = both, .scale_count = 4, .scale_types = {ue4m3}, .source = verity},
    {.level = measured_by_others, .chips = rtx_50, .kind = mxf4, .k = {64, 128}, .sparsity = both, .scale_count = 2, .scale_types = {ue8m0}, .source = verity},
    {.level = measured_by_others, .chips = rtx_50, .kind = mxf8f6f4, .a = {e4m3}, .b = {e4m3}, .k = {32}, .source = verity},
    {.level = measured_by_others, .chips = rtx_50, .kind = kind_f8f6f4, .a = {e2m1}, .b = {e2m1}, .d = {f32}, .k = {32}, .source = verity},
    {.level = measured_by_others, .chips = rtx_50, .kind = kind_f8f6f4, .a = {e4m3}, .b = fp8, .d = {f32}, .k = {32}, .source = verity},
    {.level = measured_by_others, .chips = rtx_50, .kind = kind_f8f6f4, .a = {e5m2}, .b = {e5m2}, .d = {f32}, .k = {32}, .source = verity},
    {.level = measured_by_others, .chips = rtx_50, .kind = kind_f8f6f4, .a = {e4m3}, .b = {e4m3}, .d = {f32}, .k = {64}, .sparsity = sparse, .source = verity},

    // Words that agree with other rules too.
    {.level = consistent_words, .chips = v100, .a = {f16}, .d = {f16}, .k = {4}, .source = matlab_v100},
    {.level = consistent_words, .chips = a100_a2 | ada, .a = {f16}, .d = {f16}, .k = {8}, .source = matlab_ampere_ada},
    {.level = consistent_words, .chips = b200, .a = {f16}, .d = {f16}, .k = {16}, .source = matlab_b200},
    {.level = consistent_words, .chips = b200, .a = {e4m3}, .b = {e4m3}, .d = {f32, f16}, .k = {32}, .source = matlab_b200},
    {.level = consistent_words, .chips = b200, .a = {e5m2}, .b = {e5m2}, .d = {f32, f16}, .k = {32}, .source = matlab_b200},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = kind_tf32, .k = {8}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = kind_f16, .a = {f16}, .b = {f16}, .d = {f32}, .k = {16}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = kind_f8f6f4, .a = {e4m3}, .b = {e4m3}, .d = {f32}, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = kind_f8f6f4, .a = {e5m2}, .b = {e5m2}, .d = {f32}, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = kind_f8f6f4, .a = {e2m3}, .b = {e2m3}, .d = {f32}, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = kind_f8f6f4, .a = {e3m2}, .b = {e3m2}, .d = {f32}, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = kind_f8f6f4, .a = {e2m1}, .b = {e2m1}, .d = {f32}, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = kind_f8f6f4, .a = {e2m1}, .b = {e4m3}, .d = {f16}, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = kind_i8, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = mxf8f6f4, .a = {e4m3}, .b = {e4m3}, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = mxf8f6f4, .a = {e5m2}, .b = {e5m2}, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = mxf8f6f4, .a = {e2m3}, .b = {e2m3}, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = mxf8f6f4, .a = {e3m2}, .b = {e3m2}, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = mxf8f6f4, .a = {e2m1}, .b = {e2m1}, .k = {32}, .source = b200_words},
    {.level = consistent_words, .chips = b200, .family = tcgen05, .kind = mxf4nvf4, .k = {64}, .scale_count = 4, .scale_types = {ue8m0}, .source = b200_words},
    {.level = consistent_words, .chips = rtx_50, .kind = kind_f8f6f4, .a = {e4m3}, .b = {e4m3}, .d = {f16}, .k = {32}, .source = rtx_5070_ti},
    {.level = consistent_words, .chips = rtx_50, .kind = mxf4nvf4, .k = {64}, .scale_count = 2, .scale_types = {ue8m0}, .source = rtx_5070_ti},

    // Published models, the ISA, and code emitted by ptxas.
    {.level = published_model, .chips = volta | turing, .a = {f16}, .d = f32_or_f16, .c = f32_or_f16, .k = {4}, .source = mmasim},
    {.level = published_model, .chips = turing | ampere | ada | b200 | rtx_blackwell, .a = {f16}, .d = f32_or_f16, .k = {8}, .source = mmasim},
    {.level = published_model, .chips = ampere | ada | b200 | rtx_blackwell, .a = {f16}, .d = f32_or_f16, .k = {16}, .source = mmasim},
    {.level = published_model, .chips = ampere | ada | b200 | rtx_blackwell, .a = {bf16}, .d = {f32}, .k = {8, 16}, .source = mmasim},
    {.level = published_model, .chips = ampere | ada | b200 | rtx_blackwell, .a = {tf32}, .d = {f32}, .k = {4, 8}, .source = mmasim},
    {.level = published_model, .chips = ada | rtx_blackwell, .a = fp8, .b = fp8, .d = f32_or_f16, .k = {16, 32}, .source = mmasim},
    {.level = published_model, .chips = b200, .a = fp8, .b = fp8, .d = f32_or_f16, .k = {16, 32}, .source = sass},
    {.level = published_model, .chips = b200, .kind = kind_f8f6f4, .a = fp8, .b = fp8, .d = f32_or_f16, .k = {32}, .source = sass},
    {.level = published_model, .chips = rtx_blackwell, .kind = kind_f8f6f4, .a = f8f6f4, .b = f8f6f4, .d = f32_or_f16, .k = {32}, .source = mmasim},
    {.level = published_model, .chips = rtx_blackwell, .kind = mxf8f6f4, .k = {32}, .source = mmasim},
    {.level = published_model, .chips = rtx_blackwell, .kind = mxf4, .k = {64}, .source = mmasim},
    {.level = published_model, .chips = rtx_blackwell, .kind = mxf4nvf4, .k = {64}, .scale_types = {ue8m0, ue4m3}, .source = mmasim},
    {.level = published_model, .chips = from_ampere, .a = {f16}, .d = f32_or_f16, .c = f32_or_f16, .k = {4}, .source = sass},
    {.level = published_model, .chips = from_ampere, .a = {f64}, .source = mmasim_f64},
    {.level = published_model, .chips = from_turing, .a = integers, .source = isa},
    {.level = published_model, .chips = from_turing, .a = {b1}, .source = isa},
    {.level = published_model, .chips = b200, .family = tcgen05, .kind = kind_f16, .a = {f16}, .b = {f16}, .k = {16}, .source = mmasim},
    {.level = published_model, .chips = b200, .family = tcgen05, .kind = kind_f8f6f4, .k = {32}, .source = mmasim},
    {.level = published_model, .chips = b200, .family = tcgen05, .kind = mxf8f6f4, .k = {32}, .source = mmasim},
});
// clang-format on

consteval bool rows_are_surest_first() {
  for (size_t i = 1; i < evidence_table.size(); ++i) {
    if (evidence_table[i].level < evidence_table[i - 1].level) return false;
  }
  return true;
}
static_assert(rows_are_surest_first());

}  // namespace

std::span<const EvidenceRow> evidence_rows() { return evidence_table; }

}  // namespace bitmma
