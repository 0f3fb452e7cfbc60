// SPDX-License-Identifier: MIT
// Quantisers: how a library rounds a matrix before it multiplies it, bit for bit. A recipe is a row with its project,
// the shape of a block, the formats, and every f32 operation in order.
//
//   const Matrix x = from_floats(Format::f32, rows, cols, values);  // a span of floats
//   const Quantized q = quantize(recipe_named("te_nvfp4"), x);      q.codes e2m1, q.scales ue4m3, q.tensor_scale f32
//   q.codes.words(), q.scales.words()                               spans of codes, one a word
//   value of element (row, col) = codes * scales(row / block_rows, col / block_cols) * tensor_scale
//
//   te_nvfp4   encode = min(div(2688, tensor_amax), 3.40282e+38); ...     print(recipe) shows all steps
//
// Facts are taken from the sources that a row names; `evidence` tells whether the project's own code was compared.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/formats/format.hpp"
#include "bitmma/formats/matrix.hpp"

namespace bitmma {

/// The values that a step reads or writes, all f32. The last one is a literal constant.
enum class QuantizeValue : uint8_t {
  amax,          // the largest magnitude of the block
  tensor_amax,   // the largest magnitude of the whole matrix
  encode,        // the factor for the matrix, in two-level recipes
  tensor_scale,  // the factor of a decoded element, in two-level recipes
  scale,         // of the block, before rounding to the scale's format
  stored,        // the scale rounded to its format
  factor,        // the factor or divisor of an element
  temporary,
  constant,
};

enum class QuantizeOp : uint8_t {
  mov,                // a
  mul,                // a * b, rounded once
  div,                // a / b, rounded once
  div_number,         // a / b in PyTorch with b a Python number: on CUDA a * (1 / b)
  div_full,           // div.full.f32
  rcp_approx,         // rcp.approx.ftz.f32 of a
  ex2_approx,         // ex2.approx.ftz.f32 of a
  exponent_of,        // the exponent of the power of two a
  sub,                // a - b, rounded once
  min,                // the smaller number; a if a is NaN
  max,                // the larger number; a if a is NaN
  round_to_input,     // a rounded to the format of x
  input_max_if_inf,   // a; for infinity the largest number of the format of x
  one_if_zero,        // a, or 1 if b is 0
  zero_if_zero,       // a, or 0 if b is 0
  one_if_code_zero,   // a, or 1 if the code of the stored scale is 0
  inverse_in_double,  // 1 / max(a, 1e-12) * the largest number of the element format, in f64, then rounded to f32
  power_below,        // the largest power of two that is at most a
  power_of_log2,      // 2^floor(log2 a), with the logarithm rounded to f32
};

struct QuantizeOperand {
  QuantizeValue value = QuantizeValue::constant;
  float constant = 0;

  constexpr QuantizeOperand() = default;
  constexpr QuantizeOperand(QuantizeValue v) : value(v) {}       // NOLINT: the table reads better
  constexpr QuantizeOperand(float number) : constant(number) {}  // NOLINT
  bool operator==(const QuantizeOperand&) const = default;
};

/// result = op(a, b).
struct QuantizeStep {
  QuantizeValue result = QuantizeValue::constant;  // constant: no step
  QuantizeOp op = QuantizeOp::mov;
  QuantizeOperand a = {}, b = {};

  bool operator==(const QuantizeStep&) const = default;
};
using QuantizeSteps = std::array<QuantizeStep, 5>;

/// How a scale is rounded to its format.
enum class ScaleRounding : uint8_t {
  nearest,         // to nearest even, saturating; f32 is unchanged
  up,              // to the next number above, saturating
  floor_power,     // 2^floor(log2 scale), exactly
  rounded_power,   // the same, after rounding the scale to the element's mantissa, half up
  ceil_power,      // 2^ceil(log2 scale), exactly: cvt.rp.satfinite.ue8m0x2.f32
  floor_log2_f32,  // like floor_power, but log2 is rounded to f32: just below a power of two it returns that power
  ceil_log2_f32,   // like ceil_power, but log2 is rounded to f32: just above a power of two it returns that power
};

/// How a scaled element is rounded to a code.
enum class CodeRounding : uint8_t {
  nearest_even,      // saturating; zeros keep their sign
  nearest_away,      // the same, halves away from zero
  comparisons,       // e2m1 by comparison with the midpoints: halves to even, and -0 becomes +0
  comparisons_down,  // the same, halves toward zero; zeros of both signs get the code of -0
  comparisons_wrap,  // like comparisons, but 7 and above are 8 in errors of blocks, whose code wraps to that of -0
};

/// The error that decides between a block's scale and 1.5 times that scale, whose largest codes are 6 and 4 of e2m1
/// ("four over six"). A tie keeps the scale.
enum class BlockError : uint8_t {
  none,      // there is one scale
  largest,   // the largest |value - x|
  absolute,  // the sum of |value - x| in the order of PyTorch's sum on a GPU
  squared,   // the sum of (value - x)^2, in that order
};

enum class QuantizeEvidence : uint8_t {
  compared,         // with outputs of the project's own code on an NVIDIA H100, data/quantize
  compared_on_cpu,  // with its outputs on a CPU only
  document_read,    // a document without code; compared with another project's code on a CPU, data/quantize/README.md
  source_read,      // the project's source was read; nothing was run
  documented,       // the project's documentation was read: its code is not public
};
/// "compared with the project's code on an H100", "source read".
constexpr std::string_view print(QuantizeEvidence evidence) {
  switch (evidence) {
    case QuantizeEvidence::compared: return "compared with the project's code on an H100";
    case QuantizeEvidence::compared_on_cpu: return "compared with the project's code on a CPU";
    case QuantizeEvidence::document_read:
      return "document read; compared with microxcaling's code on a CPU where its f32 logarithm is exact";
    case QuantizeEvidence::documented: return "documentation read; the code is not public";
    default: return "source read";
  }
}

/// The input formats of a recipe, unless its project accepts fewer.
inline constexpr FormatSet quantize_inputs{Format::f32, Format::bf16, Format::f16};

struct QuantizeRecipe {
  std::string_view name = {};
  std::string_view what = {};  // one line for users
  std::string_view project = {}, version = {}, commit = {}, path = {}, licence = {};
  QuantizeEvidence evidence = QuantizeEvidence::source_read;
  FormatSet inputs = quantize_inputs;
  int block_rows = 1, block_cols = 0;  // 0: the whole extent
  bool partial_blocks = false;         // the last blocks may be incomplete
  Format element = Format::e4m3;
  Format scale_format = Format::f32;
  bool is_torch = false;  // eager PyTorch, whose divisions by Python numbers differ between CPU and CUDA
  bool ftz = false;       // steps and elements flush subnormal operands and results
  QuantizeSteps of_tensor = {}, of_block = {}, of_factor = {};
  int exponent_offset = 0;  // subtracted from the exponent of a power of two
  ScaleRounding scale_rounding = ScaleRounding::nearest;
  QuantizeOp element_op = QuantizeOp::mul;  // element op factor: mul, div or div_full
  CodeRounding code_rounding = CodeRounding::nearest_even;
  BlockError block_error = BlockError::none;
  float error_divisor = 1;  // of the error's value: code * stored * tensor_amax / divisor

  bool has_two_levels() const { return of_tensor[0].result != QuantizeValue::constant && scale_format != Format::f32; }
};

/// All recipes.
const std::vector<QuantizeRecipe>& quantize_recipes();

/// Throws Error, which lists the recipes whose names contain `name`, or all of them.
const QuantizeRecipe& recipe_named(std::string_view name);

/// "encode = min(div(2688, tensor_amax), 3.40282e+38)": the steps, one per line.
std::string print(const QuantizeRecipe& recipe);

/// Where eager PyTorch runs a recipe with is_torch.
enum class TorchDevice : uint8_t { cuda, cpu };

/// Whether a step divides by a Python number, which PyTorch computes differently on CUDA.
bool depends_on_device(const QuantizeRecipe& recipe);
/// The device with this name, "cuda" or "cpu"; cuda if there is no name. Throws Error for other names, and for any name
/// if the recipe does not depend on the device.
TorchDevice torch_device_of(const QuantizeRecipe& recipe, std::optional<std::string_view> name);

struct [[nodiscard]] Quantized {
  Matrix codes;                             // the shape of x
  Matrix scales;                            // blocks of rows x blocks of columns, in recipe.scale_format
  std::optional<Matrix> tensor_scale = {};  // 1 x 1, f32
  int block_rows = 1, block_cols = 1;       // elements per whole block

  bool operator==(const Quantized&) const = default;
};

/// Number of blocks of a matrix, and elements per whole block.
struct QuantizeBlocks {
  int rows = 1, cols = 1;
  int block_rows = 1, block_cols = 1;

  bool operator==(const QuantizeBlocks&) const = default;
};
/// The blocks of a matrix with these extents. Throws Error if they do not fill the recipe's blocks.
QuantizeBlocks blocks_of(const QuantizeRecipe& recipe, int rows, int cols);

/// Quantises `x` with the recipe; equal for any number of threads. Throws Error for a format that the recipe does not
/// accept, for columns or rows that do not fill its blocks, for infinity or NaN in `x`, and if the project's arithmetic
/// results in a NaN that its element format does not have.
Quantized quantize(const QuantizeRecipe& recipe, const Matrix& x, TorchDevice torch = TorchDevice::cuda,
                   int threads = 1);

/// Warns of NaN codes and scales for finite `x`: for blocks of zeros some projects divide 0 by 0.
std::vector<Violation> warnings_of(const QuantizeRecipe& recipe, const Quantized& quantized);

/// Two 4-bit codes per byte, the first in the lower half, row by row. Throws Error for other formats and odd columns.
std::vector<uint8_t> packed_codes(const Matrix& codes);

/// One-byte scales in tiles of 128 rows x 4 blocks, the layout of cuBLAS; each row of a block of several rows gets the
/// block's scale. Throws Error for f32 scales.
std::vector<uint8_t> tiled_scales(const Quantized& quantized);

}  // namespace bitmma
