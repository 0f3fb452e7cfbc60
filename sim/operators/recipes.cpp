// SPDX-License-Identifier: MIT
// The recipes of libraries, one per row. Divisions, products and approximate instructions have the order of the source.
// If a source repeats a step for the tensor and for each block, the row lists it once.
#include <algorithm>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/table.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/operators/quantize.hpp"

namespace bitmma {
namespace {

using enum QuantizeValue;
using enum QuantizeOp;

constexpr float f32_max = 3.40282346638528859812e+38F;
constexpr float smallest_normal = 1.17549435082228750797e-38F;
constexpr float e4m3_max = 448, e2m1_max = 6, both_max = e4m3_max * e2m1_max;

constexpr FormatSet torch_inputs{Format::f32, Format::bf16};
constexpr FormatSet f32_input{Format::f32};
constexpr FormatSet half_inputs{Format::f16, Format::bf16};

struct Source {
  std::string_view project, version, commit, licence;
};
constexpr Source ocp{"OCP Microscaling Formats (MX) Specification", "1.0", "", ""};
constexpr Source transformer_engine{"NVIDIA/TransformerEngine", "main of 2026-08-22",
                                    "d0067d0da6cb01811b8072a7d304f0e00344ce2b", "Apache-2.0"};
constexpr Source torchao{"pytorch/ao", "0.18.0", "5f2baf9d575cf732362594c998c399902942531f", "BSD-3-Clause"};
constexpr Source flashinfer{"flashinfer-ai/flashinfer", "main of 2026-08-22",
                            "fb28d7242b3506a2348265962041acc1fb56cca4", "Apache-2.0"};
constexpr Source modelopt{"NVIDIA/TensorRT-Model-Optimizer", "0.47.0", "nvidia-modelopt 0.47.0 of PyPI", "Apache-2.0"};
constexpr Source deepgemm{"deepseek-ai/DeepGEMM", "main of 2026-06-23", "54e22612409371d6364144b69086735beb54e98b",
                          "MIT"};
constexpr Source deepseek{"deepseek-ai/DeepSeek-V3", "main", "9b4e9788e4a3a731f7567338ed15d3ec549ce03b", "MIT"};
constexpr Source microxcaling{"microsoft/microxcaling", "1.1.0", "7bc41952de394f5cc5e782baf132e7c7542eb4e4", "MIT"};
constexpr Source fouroversix{"mit-han-lab/fouroversix", "1.1.0 and later, of 2026-04-21",
                             "dadfad6901d473a734fe71e0b082e70ee993e23a", "MIT"};
constexpr Source triton_kernels{"triton-lang/triton", "main, triton_kernels",
                                "0616e64515491718b6576b4cb3ba521f52a56d68", "MIT"};
constexpr Source cudnn{"NVIDIA cuDNN", "documentation of 2026, Block Scaling", "", ""};
constexpr Source vllm_kernels{"vllm-project/vllm", "main", "07c13c7bdc2a7adcf48a45361392854c50aca466", "Apache-2.0"};
constexpr Source vllm{"vllm-project/vllm", "main", "014af6b59c3db333ccbbe11b6921d78f46ef305c", "Apache-2.0"};

std::vector<QuantizeRecipe> recipes_of(const Source& source, std::string_view path,
                                       std::initializer_list<QuantizeRecipe> rows) {
  std::vector<QuantizeRecipe> recipes(rows);
  for (QuantizeRecipe& row : recipes) {
    row.project = source.project;
    row.version = source.version;
    row.commit = source.commit;
    row.licence = source.licence;
    row.path = path;
  }
  return recipes;
}

/// The exponent of the largest number, which OCP's floor rule subtracts.
constexpr int largest_exponent(Format format) { return decode(format, info(format).max_finite()).exponent; }
constexpr float largest(Format format) {
  const Decoded value = decode(format, info(format).max_finite());
  float power = 1;
  for (int i = 0; i < value.exponent - info(format).mantissa_bits; ++i) power *= 2;
  for (int i = 0; i > value.exponent - info(format).mantissa_bits; --i) power /= 2;
  return static_cast<float>(value.significand) * power;
}

/// MX with a scale made from the power of two of the block's largest magnitude.
constexpr QuantizeRecipe mx_floor(std::string_view name, Format element, std::string_view what) {
  return {.name = name,
          .what = what,
          .block_cols = 32,
          .element = element,
          .scale_format = Format::ue8m0,
          .of_block = {{{scale, mov, amax}}},
          .of_factor = {{{factor, mov, stored}}},
          .exponent_offset = largest_exponent(element),
          .scale_rounding = ScaleRounding::floor_power,
          .element_op = div};
}

constexpr QuantizeRecipe ocp_row(std::string_view name, Format element) {
  QuantizeRecipe row = mx_floor(name, element, "MX, the largest power of two not above the block's amax");
  row.evidence = QuantizeEvidence::document_read;
  row.partial_blocks = true;
  return row;
}

constexpr QuantizeRecipe microxcaling_row(std::string_view name, Format element) {
  QuantizeRecipe row = mx_floor(name, element, "MX emulation in PyTorch, its default rounding: halves away from zero");
  row.evidence = QuantizeEvidence::compared_on_cpu;
  row.partial_blocks = true;
  row.is_torch = true;
  row.inputs = f32_input;
  row.scale_rounding = ScaleRounding::floor_log2_f32;
  row.code_rounding = CodeRounding::nearest_away;
  return row;
}

constexpr QuantizeRecipe torchao_mx_row(std::string_view name, Format element, ScaleRounding rounding) {
  QuantizeRecipe row = mx_floor(name, element, "to_mx, ScaleCalculationMode.FLOOR");
  row.evidence = QuantizeEvidence::compared;
  row.is_torch = true;
  row.inputs = torch_inputs;
  row.of_factor = {{{factor, max, stored, smallest_normal}}};
  row.scale_rounding = rounding;
  if (rounding == ScaleRounding::rounded_power) row.what = "to_mx, ScaleCalculationMode.EVEN";
  if (rounding == ScaleRounding::ceil_log2_f32) {
    row.what = "to_mx, ScaleCalculationMode.RCEIL";
    row.of_block = {{{scale, div_number, amax, largest(element)}}};
    row.of_factor = {{{factor, div, 1.0F, stored}, {factor, one_if_code_zero, factor}}};
    row.exponent_offset = 0;
    row.element_op = mul;
  }
  return row;
}

constexpr QuantizeRecipe te_mx_row(std::string_view name, Format element) {
  return {.name = name,
          .what = "MXFP8BlockScaling: the smallest power of two that keeps the block below the largest number",
          .block_cols = 32,
          .element = element,
          .scale_format = Format::ue8m0,
          .of_block = {{{scale, mul, amax, 1.0F / largest(element)}}},
          .of_factor = {{{factor, div, 1.0F, stored}}},
          .scale_rounding = ScaleRounding::ceil_power};
}

constexpr QuantizeRecipe te_nvfp4_row(std::string_view name, int block_rows, std::string_view what) {
  return {
      .name = name,
      .what = what,
      .evidence = QuantizeEvidence::compared,
      .inputs = torch_inputs,
      .block_rows = block_rows,
      .block_cols = 16,
      .element = Format::e2m1,
      .scale_format = Format::ue4m3,
      .of_tensor = {{{encode, div, both_max, tensor_amax},
                     {encode, min, encode, f32_max},
                     {encode, one_if_zero, encode, tensor_amax},
                     {tensor_scale, div, 1.0F, encode}}},
      .of_block = {{{temporary, mul, encode, 1.0F / e2m1_max},
                    {scale, mul, amax, temporary},
                    {scale, min, scale, f32_max}}},
      .of_factor = {
          {{temporary, mul, stored, tensor_scale}, {factor, div, 1.0F, temporary}, {factor, min, factor, f32_max}}}};
}

constexpr QuantizeRecipe te_block_row(std::string_view name, int block_rows, bool power_of_two) {
  QuantizeRecipe row{
      .name = name,
      .what = power_of_two ? "Float8BlockScaling, scales that are powers of two" : "Float8BlockScaling, f32 scales",
      .evidence = QuantizeEvidence::compared,
      .block_rows = block_rows,
      .block_cols = 128,
      .partial_blocks = true,
      .of_factor = {{{factor, mov, encode}}}};
  row.of_block = {{{encode, div, e4m3_max, amax},
                   {encode, input_max_if_inf, encode},
                   {encode, one_if_zero, encode, amax},
                   {scale, div, 1.0F, encode}}};
  if (power_of_two) {
    row.of_block = {{{encode, div, e4m3_max, amax},
                     {encode, input_max_if_inf, encode},
                     {encode, power_below, encode},
                     {encode, one_if_zero, encode, amax},
                     {scale, div, 1.0F, encode}}};
  }
  return row;
}

constexpr QuantizeRecipe deepgemm_row(std::string_view name, int block_rows, bool power_of_two) {
  return {.name = name,
          .what = power_of_two ? "fp8 with ue8m0 scales" : "fp8 with f32 scales",
          .evidence = QuantizeEvidence::compared,
          .block_rows = block_rows,
          .block_cols = 128,
          .partial_blocks = true,
          .scale_format = power_of_two ? Format::ue8m0 : Format::f32,
          .is_torch = true,
          .of_block = {{{scale, max, amax, 1e-4F}, {scale, div_number, scale, e4m3_max}}},
          .of_factor = {{{factor, div, 1.0F, stored}}},
          .scale_rounding = power_of_two ? ScaleRounding::ceil_power : ScaleRounding::nearest};
}

constexpr QuantizeRecipe torchao_fp8_row(std::string_view name, int block_rows, Format element) {
  return {.name = name,
          .what = block_rows == 1 ? "Float8Tensor, PerRow, the form that torch._scaled_mm reads"
                                  : "Float8Tensor, PerTensor, the form that torch._scaled_mm reads",
          .evidence = QuantizeEvidence::compared,
          .block_rows = block_rows,
          .element = element,
          .is_torch = true,
          .of_block = {{{scale, div_number, amax, largest(element)}, {scale, round_to_input, scale}}},
          .of_factor = {{{factor, mov, stored}}},
          .element_op = div};
}

constexpr QuantizeRecipe torchao_training_row(std::string_view name, int block_rows, Format element, bool power) {
  QuantizeRecipe row{.name = name,
                     .what = power ? "Float8Linear, rowwise: scales that are powers of two"
                                   : "Float8Linear, tensorwise: amax and division in f64",
                     .evidence = QuantizeEvidence::compared,
                     .block_rows = block_rows,
                     .element = element,
                     .is_torch = true,
                     .of_block = {{{encode, inverse_in_double, amax}, {scale, div, 1.0F, encode}}},
                     .of_factor = {{{factor, mov, encode}}}};
  if (power) {
    row.of_block = {{{encode, inverse_in_double, amax}, {encode, power_of_log2, encode}, {scale, div, 1.0F, encode}}};
  }
  return row;
}

constexpr QuantizeRecipe vllm_row(std::string_view name, int block_rows) {
  return {.name = name,
          .what = block_rows == 1 ? "QuantFP8 in PyTorch, one scale per token"
                                  : "QuantFP8 in PyTorch, one scale per tensor",
          .evidence = QuantizeEvidence::compared,
          .block_rows = block_rows,
          .is_torch = true,
          .of_block = {{{scale, div_number, amax, e4m3_max}, {scale, max, scale, 1.0F / (e4m3_max * 512)}}},
          .of_factor = {{{factor, div, 1.0F, stored}}}};
}

constexpr QuantizeRecipe fouroversix_row(std::string_view name, BlockError error, std::string_view what) {
  constexpr float scale_max = 256;  // so that 1.5 times the largest scale is an e4m3 number
  return {.name = name,
          .what = what,
          .evidence = QuantizeEvidence::compared_on_cpu,
          .block_cols = 16,
          .element = Format::e2m1,
          .scale_format = Format::ue4m3,
          .is_torch = true,
          .of_tensor = {{{encode, div, e2m1_max * scale_max, tensor_amax}, {tensor_scale, div, 1.0F, encode}}},
          .of_block = {{{scale, div, amax, e2m1_max}, {scale, mul, scale, encode}}},
          .of_factor = {{{temporary, mul, tensor_scale, stored},
                         {factor, div, 1.0F, temporary},
                         {factor, zero_if_zero, factor, stored}}},
          .code_rounding = CodeRounding::comparisons_wrap,
          .block_error = error,
          .error_divisor = e2m1_max * scale_max};
}

constexpr QuantizeRecipe cudnn_row(std::string_view name, int block_cols, Format element, Format scale_format) {
  return {.name = name,
          .what = "block_scale_quantize as documented: the scale rounded up, elements to nearest even",
          .evidence = QuantizeEvidence::documented,
          .block_cols = block_cols,
          .element = element,
          .scale_format = scale_format,
          .of_block = {{{scale, div, amax, largest(element)}}},
          .of_factor = {{{factor, mov, stored}}},
          .scale_rounding = scale_format == Format::ue8m0 ? ScaleRounding::ceil_power : ScaleRounding::up,
          .element_op = div};
}

std::vector<QuantizeRecipe> all_recipes() {
  const std::vector<std::vector<QuantizeRecipe>> groups{
      recipes_of(ocp, "section 6.3",
                 {ocp_row("ocp_mxfp8_e4m3", Format::e4m3), ocp_row("ocp_mxfp8_e5m2", Format::e5m2),
                  ocp_row("ocp_mxfp6_e2m3", Format::e2m3), ocp_row("ocp_mxfp6_e3m2", Format::e3m2),
                  ocp_row("ocp_mxfp4", Format::e2m1)}),
      recipes_of(microxcaling, "mx/mx_ops.py",
                 {microxcaling_row("microxcaling_mxfp8_e4m3", Format::e4m3),
                  microxcaling_row("microxcaling_mxfp8_e5m2", Format::e5m2),
                  microxcaling_row("microxcaling_mxfp6_e2m3", Format::e2m3),
                  microxcaling_row("microxcaling_mxfp6_e3m2", Format::e3m2),
                  microxcaling_row("microxcaling_mxfp4", Format::e2m1)}),
      recipes_of(torchao, "torchao/prototype/mx_formats/mx_tensor.py",
                 {torchao_mx_row("torchao_mxfp8_e4m3", Format::e4m3, ScaleRounding::floor_power),
                  torchao_mx_row("torchao_mxfp8_e5m2", Format::e5m2, ScaleRounding::floor_power),
                  torchao_mx_row("torchao_mxfp8_e4m3_rceil", Format::e4m3, ScaleRounding::ceil_log2_f32),
                  torchao_mx_row("torchao_mxfp8_e5m2_rceil", Format::e5m2, ScaleRounding::ceil_log2_f32),
                  torchao_mx_row("torchao_mxfp6_e2m3", Format::e2m3, ScaleRounding::floor_power),
                  torchao_mx_row("torchao_mxfp6_e3m2", Format::e3m2, ScaleRounding::floor_power),
                  torchao_mx_row("torchao_mxfp4", Format::e2m1, ScaleRounding::floor_power),
                  torchao_mx_row("torchao_mxfp4_even", Format::e2m1, ScaleRounding::rounded_power),
                  torchao_mx_row("torchao_mxfp4_rceil", Format::e2m1, ScaleRounding::ceil_log2_f32)}),
      recipes_of(transformer_engine, "transformer_engine/common/cast/mxfp8/quantize_mxfp8.cuh",
                 {te_mx_row("te_mxfp8_e4m3", Format::e4m3), te_mx_row("te_mxfp8_e5m2", Format::e5m2)}),
      recipes_of(transformer_engine, "transformer_engine/common/cast/nvfp4/quantize_transpose_nvfp4.cuh",
                 {te_nvfp4_row("te_nvfp4", 1, "NVFP4BlockScaling without Hadamard transform or random rounding"),
                  te_nvfp4_row("te_nvfp4_16x16", 16, "the same for weights, with one scale for 16 x 16 elements")}),
      recipes_of(transformer_engine, "transformer_engine/common/recipe/recipe_common.cuh",
                 {te_block_row("te_fp8_1x128", 1, false), te_block_row("te_fp8_128x128", 128, false),
                  te_block_row("te_fp8_1x128_power", 1, true), te_block_row("te_fp8_128x128_power", 128, true)}),
      // Compiled with -use_fast_math; the caller computes the scale of the tensor, in PyTorch.
      recipes_of(flashinfer, "csrc/nv_internal/tensorrt_llm/kernels/quantization_utils.cuh",
                 {{.name = "flashinfer_nvfp4",
                   .what = "nvfp4_quantize, backend cuda: the kernel of TensorRT-LLM, with approximate reciprocals",
                   .inputs = half_inputs,
                   .block_cols = 16,
                   .element = Format::e2m1,
                   .scale_format = Format::ue4m3,
                   .ftz = true,
                   .of_tensor = {{{encode, div, 1.0F, tensor_amax},
                                  {encode, mul, encode, both_max},
                                  {tensor_scale, div, 1.0F, encode}}},
                   .of_block = {{{temporary, rcp_approx, e2m1_max},
                                 {temporary, mul, amax, temporary},
                                 {scale, mul, encode, temporary}}},
                   .of_factor = {{{temporary, rcp_approx, encode},
                                  {temporary, mul, stored, temporary},
                                  {factor, rcp_approx, temporary},
                                  {factor, zero_if_zero, factor, amax}}}},
                  {.name = "flashinfer_mxfp4",
                   .what = "mxfp4_quantize, backend cuda",
                   .inputs = half_inputs,
                   .block_cols = 32,
                   .element = Format::e2m1,
                   .scale_format = Format::ue8m0,
                   .ftz = true,
                   .of_block = {{{temporary, rcp_approx, e2m1_max}, {scale, mul, amax, temporary}}},
                   .of_factor = {{{temporary, exponent_of, stored},
                                  {temporary, sub, 0.0F, temporary},
                                  {factor, ex2_approx, temporary},
                                  {factor, one_if_code_zero, factor},
                                  {factor, zero_if_zero, factor, scale}}},
                   .scale_rounding = ScaleRounding::ceil_power},
                  {.name = "flashinfer_mxfp8",
                   .what = "mxfp8_quantize, backend cuda",
                   .inputs = half_inputs,
                   .block_cols = 32,
                   .scale_format = Format::ue8m0,
                   .ftz = true,
                   .of_block = {{{temporary, rcp_approx, e4m3_max}, {scale, mul, amax, temporary}}},
                   .of_factor = {{{factor, rcp_approx, stored}, {factor, zero_if_zero, factor, stored}}},
                   .scale_rounding = ScaleRounding::ceil_power}}),
      recipes_of(torchao, "torchao/prototype/mx_formats/nvfp4_tensor.py",
                 {{.name = "torchao_nvfp4",
                   .what = "nvfp4_quantize with the scale of the tensor",
                   .evidence = QuantizeEvidence::compared,
                   .inputs = torch_inputs,
                   .block_cols = 16,
                   .element = Format::e2m1,
                   .scale_format = Format::ue4m3,
                   .is_torch = true,
                   .of_tensor = {{{tensor_scale, div_number, tensor_amax, both_max}}},
                   .of_block = {{{scale, div_number, amax, e2m1_max},
                                 {scale, div, scale, tensor_scale},
                                 {scale, max, scale, 0x1p-6F},
                                 {scale, min, scale, e4m3_max}}},
                   .of_factor = {{{temporary, div, 1.0F, tensor_scale}, {factor, div, temporary, stored}}}},
                  {.name = "torchao_nvfp4_one_level",
                   .what = "nvfp4_quantize without a scale of the tensor",
                   .evidence = QuantizeEvidence::compared,
                   .inputs = torch_inputs,
                   .block_cols = 16,
                   .element = Format::e2m1,
                   .scale_format = Format::ue4m3,
                   .is_torch = true,
                   .of_block = {{{scale, div_number, amax, e2m1_max},
                                 {scale, max, scale, 0x1p-6F},
                                 {scale, min, scale, e4m3_max}}},
                   .of_factor = {{{factor, div, 1.0F, stored}}}}}),
      recipes_of(modelopt, "modelopt/torch/quantization/qtensor",
                 {{.name = "modelopt_nvfp4",
                   .what = "NVFP4QTensor.quantize, used to make checkpoints for TensorRT-LLM and vLLM",
                   .evidence = QuantizeEvidence::compared,
                   .block_cols = 16,
                   .element = Format::e2m1,
                   .scale_format = Format::ue4m3,
                   .is_torch = true,
                   .of_tensor = {{{tensor_scale, div_number, tensor_amax, both_max}}},
                   .of_block = {{{temporary, mul, tensor_scale, e2m1_max},
                                 {scale, div, amax, temporary},
                                 {scale, one_if_zero, scale, scale},
                                 {scale, max, scale, 0x1p-9F},
                                 {scale, min, scale, e4m3_max}}},
                   .of_factor = {{{factor, mul, stored, tensor_scale}}},
                   .element_op = div,
                   .code_rounding = CodeRounding::comparisons},
                  {.name = "modelopt_mxfp4",
                   .what = "MXFP4QTensor.quantize",
                   .evidence = QuantizeEvidence::compared,
                   .block_cols = 32,
                   .element = Format::e2m1,
                   .scale_format = Format::ue8m0,
                   .is_torch = true,
                   .of_block = {{{scale, div_number, amax, e2m1_max}}},
                   .of_factor = {{{factor, mov, stored}}},
                   .scale_rounding = ScaleRounding::ceil_log2_f32,
                   .element_op = div,
                   .code_rounding = CodeRounding::comparisons_down},
                  {.name = "modelopt_mxfp8",
                   .what = "MXFP8QTensor.quantize",
                   .evidence = QuantizeEvidence::compared,
                   .block_cols = 32,
                   .scale_format = Format::ue8m0,
                   .is_torch = true,
                   .of_block = {{{scale, div_number, amax, e4m3_max}}},
                   .of_factor = {{{factor, div, 1.0F, stored}}},
                   .scale_rounding = ScaleRounding::ceil_log2_f32}}),
      recipes_of(deepgemm, "deep_gemm/utils/math.py",
                 {deepgemm_row("deepgemm_1x128", 1, false), deepgemm_row("deepgemm_128x128", 128, false),
                  deepgemm_row("deepgemm_1x128_ue8m0", 1, true), deepgemm_row("deepgemm_128x128_ue8m0", 128, true)}),
      recipes_of(deepseek, "inference/kernel.py",
                 {{.name = "deepseek_v3_1x128",
                   .what = "act_quant, a kernel of Triton: its divisions are div.full",
                   .evidence = QuantizeEvidence::compared,
                   .block_cols = 128,
                   .of_block = {{{scale, max, amax, 1e-4F}, {scale, div_full, scale, e4m3_max}}},
                   .of_factor = {{{factor, mov, stored}}},
                   .element_op = div_full}}),
      recipes_of(
          torchao, "torchao/quantization/quant_primitives.py",
          {torchao_fp8_row("torchao_fp8_row", 1, Format::e4m3), torchao_fp8_row("torchao_fp8_tensor", 0, Format::e4m3),
           torchao_fp8_row("torchao_fp8_e5m2_row", 1, Format::e5m2),
           torchao_fp8_row("torchao_fp8_e5m2_tensor", 0, Format::e5m2)}),
      recipes_of(torchao, "torchao/float8/float8_utils.py",
                 {torchao_training_row("torchao_float8_tensorwise", 0, Format::e4m3, false),
                  torchao_training_row("torchao_float8_e5m2_tensorwise", 0, Format::e5m2, false),
                  torchao_training_row("torchao_float8_rowwise", 1, Format::e4m3, true)}),
      recipes_of(vllm, "vllm/model_executor/layers/quantization/input_quant_fp8.py",
                 {vllm_row("vllm_fp8_row", 1), vllm_row("vllm_fp8_tensor", 0)}),
      // The caller computes the scale of the tensor.
      recipes_of(vllm_kernels, "csrc/quantization/fp4/nvfp4_utils.cuh",
                 {{.name = "vllm_nvfp4",
                   .what = "scaled_fp4_quant with the scale 2688 / amax, with approximate reciprocals",
                   .inputs = half_inputs,
                   .block_cols = 16,
                   .element = Format::e2m1,
                   .scale_format = Format::ue4m3,
                   .of_tensor = {{{encode, div, both_max, tensor_amax}, {tensor_scale, div, 1.0F, encode}}},
                   .of_block = {{{temporary, rcp_approx, e2m1_max},
                                 {temporary, mul, amax, temporary},
                                 {scale, mul, encode, temporary}}},
                   .of_factor = {{{temporary, rcp_approx, encode},
                                  {temporary, mul, stored, temporary},
                                  {factor, rcp_approx, temporary},
                                  {factor, zero_if_zero, factor, stored}}}}}),
      // How weights become those of gpt-oss' kernels; OpenAI's own quantiser of its checkpoints is not public. Only
      // 16-bit inputs: of f32 the kernel drops bits before it decides ties below 1.
      recipes_of(
          triton_kernels, "python/triton_kernels/triton_kernels/numerics_details/mxfp_details/_downcast_to_mxfp.py",
          {{.name = "triton_kernels_mxfp4",
            .what = "downcast_to_mxfp, ROUND_UP, as vLLM and transformers make gpt-oss' MXFP4; a kernel of Triton",
            .inputs = half_inputs,
            .block_cols = 32,
            .partial_blocks = true,
            .element = Format::e2m1,
            .scale_format = Format::ue8m0,
            .of_block = {{{temporary, div_full, amax, e2m1_max},
                          {scale, max, temporary, smallest_normal},
                          {scale, zero_if_zero, scale, temporary}}},
            .of_factor = {{{factor, div, 1.0F, stored}, {factor, zero_if_zero, factor, scale}}},
            .scale_rounding = ScaleRounding::ceil_power}}),
      recipes_of(fouroversix, "src/fouroversix/quantize/pytorch/reference.py",
                 {fouroversix_row("fouroversix_nvfp4", BlockError::squared,
                                  "4/6, the default rule mse: the block's scale for 6 or for 4, in eager PyTorch"),
                  fouroversix_row("fouroversix_nvfp4_mae", BlockError::absolute, "the same with the rule mae"),
                  fouroversix_row("fouroversix_nvfp4_abs_max", BlockError::largest, "the same with the rule abs_max")}),
      recipes_of(cudnn, "operations/BlockScaling",
                 {cudnn_row("cudnn_nvfp4", 16, Format::e2m1, Format::ue4m3),
                  cudnn_row("cudnn_mxfp8_e4m3", 32, Format::e4m3, Format::ue8m0),
                  cudnn_row("cudnn_mxfp8_e5m2", 32, Format::e5m2, Format::ue8m0)}),
  };
  std::vector<QuantizeRecipe> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace

const std::vector<QuantizeRecipe>& quantize_recipes() {
  static const std::vector<QuantizeRecipe> all = in_ieee_environment(all_recipes);
  return all;
}

const QuantizeRecipe& recipe_named(std::string_view name) {
  const std::vector<QuantizeRecipe>& all = quantize_recipes();
  const auto row = std::ranges::find(all, name, &QuantizeRecipe::name);
  if (row != all.end()) return *row;
  std::vector<std::string> names = row_names(all), containing;
  for (const std::string& known : names) {
    if (!name.empty() && known.find(name) != std::string::npos) containing.push_back(known);
  }
  const std::string near = nearest(name, names);
  throw Error({.code = ViolationCode::unknown_name,
               .field = "recipe",
               .seen = shortened(printable(name)),
               .legal = containing.empty() ? names : containing,
               .fix = near.empty() ? "" : "did you mean " + near + "?"});
}

}  // namespace bitmma
