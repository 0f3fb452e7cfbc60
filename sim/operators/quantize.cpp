// SPDX-License-Identifier: MIT
#include "bitmma/operators/quantize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/interrupt.hpp"
#include "bitmma/core/parallel.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/formats/ieee.hpp"
#include "bitmma/layout/scale_image.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/rows.hpp"

namespace bitmma {
namespace {

constexpr uint32_t one_f32 = 0x3F800000, infinity_f32 = 0x7F800000, sign_f32 = 0x80000000;

struct OpInfo {
  QuantizeOp id;
  std::string_view name;
  int operands;
};
constexpr auto ops = std::to_array<OpInfo>({
    {QuantizeOp::mov, "mov", 1},
    {QuantizeOp::mul, "mul", 2},
    {QuantizeOp::div, "div", 2},
    {QuantizeOp::div_number, "div_number", 2},
    {QuantizeOp::div_full, "div.full", 2},
    {QuantizeOp::rcp_approx, "rcp.approx.ftz", 1},
    {QuantizeOp::ex2_approx, "ex2.approx.ftz", 1},
    {QuantizeOp::exponent_of, "exponent", 1},
    {QuantizeOp::sub, "sub", 2},
    {QuantizeOp::min, "min", 2},
    {QuantizeOp::max, "max", 2},
    {QuantizeOp::round_to_input, "round_to_input", 1},
    {QuantizeOp::input_max_if_inf, "input_max_if_inf", 1},
    {QuantizeOp::one_if_zero, "one_if_zero", 2},
    {QuantizeOp::zero_if_zero, "zero_if_zero", 2},
    {QuantizeOp::one_if_code_zero, "one_if_code_zero", 1},
    {QuantizeOp::inverse_in_double, "inverse_in_double", 1},
    {QuantizeOp::power_below, "power_below", 1},
    {QuantizeOp::power_of_log2, "power_of_log2", 1},
});
static_assert(are_in_enum_order(ops));

constexpr auto value_names = std::to_array<std::string_view>(
    {"amax", "tensor_amax", "encode", "tensor_scale", "scale", "stored", "factor", "temporary", ""});

constexpr auto scale_rounding_names = std::to_array<std::string_view>(
    {"nearest even, saturating", "up, saturating", "2^floor(log2 scale)",
     "2^floor(log2 scale), the scale rounded to the element's mantissa", "2^ceil(log2 scale)",
     "2^floor(log2 scale), the logarithm rounded to f32", "2^ceil(log2 scale), the logarithm rounded to f32"});
constexpr auto code_rounding_names = std::to_array<std::string_view>(
    {"nearest even, saturating", "nearest, halves away from zero, saturating",
     "compared with the midpoints, halves to even; -0 becomes +0",
     "compared with the midpoints, halves toward zero; zeros become -0",
     "compared with the midpoints, halves to even; -0 becomes +0, 7 and above become -0"});

constexpr auto block_error_names = std::to_array<std::string_view>(
    {"", "the largest |value - x|", "the sum of |value - x|", "the sum of (value - x)^2"});

bool is_zero(uint32_t word) { return (word & ~sign_f32) == 0; }
bool is_nan(uint32_t word) { return (word & ~sign_f32) > infinity_f32; }
uint32_t flushed(uint32_t word) { return (word & infinity_f32) == 0 ? word & sign_f32 : word; }

/// The f32 operations of one recipe, on words.
struct Arithmetic {
  bool ftz = false;

  uint32_t round(uint64_t word) const {
    return ftz ? flushed(static_cast<uint32_t>(word)) : static_cast<uint32_t>(word);
  }
  uint32_t take(uint32_t word) const { return ftz ? flushed(word) : word; }
  uint32_t mul(uint32_t a, uint32_t b) const { return round(ieee_mul(Format::f32, take(a), take(b))); }
  uint32_t div(uint32_t a, uint32_t b) const { return round(ieee_div(Format::f32, take(a), take(b))); }
  uint32_t sub(uint32_t a, uint32_t b) const { return round(ieee_add(Format::f32, take(a), take(b) ^ sign_f32)); }
};

/// The values that the steps for one block read and write.
struct Values {
  std::array<uint32_t, 8> words = {};
  uint32_t code = 0;  // of the stored scale

  uint32_t& operator[](QuantizeValue value) { return words[static_cast<size_t>(value)]; }
};

struct Settings {
  const QuantizeRecipe& recipe;
  Arithmetic f32;
  Format input;
  TorchDevice torch;
};

constexpr MathInstruction approximate_rcp{
    .operation = MathOperation::rcp, .accuracy = MathAccuracy::approx, .ftz = true};
constexpr MathInstruction approximate_ex2{
    .operation = MathOperation::ex2, .accuracy = MathAccuracy::approx, .ftz = true};
constexpr MathInstruction full_division{.operation = MathOperation::div, .accuracy = MathAccuracy::full};

uint32_t converted(Format from, uint64_t code, Format to, Rounding rounding = Rounding::nearest_even,
                   Overflow overflow = Overflow::infinity) {
  return static_cast<uint32_t>(convert(from, code, to, rounding, overflow));
}

/// Let x be the logarithm of a number at distance `distance` * 2^-24 from a power of two. True if exponent +- x rounds
/// to the exponent itself in f32. `outward` means away from zero.
bool is_absorbed(int exponent, uint64_t distance, bool outward) {
  if (exponent == 0) return false;
  const auto magnitude = static_cast<unsigned>(std::abs(exponent));
  // Half the spacing of f32 on that side, in units of 2^-24: 2^j in [2^j, 2^(j+1)), and half of that below 2^j.
  const double half =
      std::ldexp(1.0, std::bit_width(magnitude) - 1) * (!outward && std::has_single_bit(magnitude) ? 0.5 : 1);
  return static_cast<double>(distance) * 1.4426950408889634 < half;
}

/// Rounds a positive f32 number to a power of two and returns its exponent.
int power_of(ScaleRounding rounding, Format element, uint32_t scale) {
  constexpr int mantissa_bits = 23;
  uint32_t word = scale;
  if (rounding == ScaleRounding::rounded_power)
    word = (word + (uint32_t{1} << (mantissa_bits - info(element).mantissa_bits - 1))) & infinity_f32;
  const Decoded value = decode(Format::f32, word);
  if (value.is_zero()) return -info(Format::f32).bias - mantissa_bits;
  const int width = static_cast<int>(std::bit_width(value.significand));
  const uint64_t significand = value.significand << (mantissa_bits + 1 - width);
  const int floor = value.exponent - (mantissa_bits + 1 - width);
  const uint64_t above = significand - (uint64_t{1} << mantissa_bits);
  const bool is_power = above == 0;
  switch (rounding) {
    case ScaleRounding::ceil_power: return floor + (is_power ? 0 : 1);
    case ScaleRounding::ceil_log2_f32: return floor + (is_power || is_absorbed(floor, 2 * above, floor > 0) ? 0 : 1);
    case ScaleRounding::floor_log2_f32: {
      const uint64_t below = (uint64_t{2} << mantissa_bits) - significand;  // from the next power, in 2^-24 of it
      return floor + (is_absorbed(floor + 1, below, floor + 1 < 0) ? 1 : 0);
    }
    default: return floor;
  }
}

/// f32(largest * (1 / max(a, 1e-12))) with every operation in f64.
uint32_t f64_inverse(Format element, uint32_t a) {
  const auto wide = [](Format from, uint64_t code) {
    return convert(from, code, Format::f64, Rounding::nearest_even, Overflow::infinity);
  };
  const uint64_t divisor = std::max(wide(Format::f32, a), std::bit_cast<uint64_t>(1e-12));
  const uint64_t inverse = ieee_div(Format::f64, std::bit_cast<uint64_t>(1.0), divisor);
  const uint64_t product = ieee_mul(Format::f64, inverse, wide(element, info(element).max_finite()));
  return converted(Format::f64, product, Format::f32);
}

uint32_t result_of(const Settings& settings, const QuantizeStep& step, Values& values) {
  const auto word_of = [&](const QuantizeOperand& operand) {
    return operand.value == QuantizeValue::constant ? std::bit_cast<uint32_t>(operand.constant) : values[operand.value];
  };
  const Arithmetic& f32 = settings.f32;
  const uint32_t a = word_of(step.a), b = word_of(step.b);
  switch (step.op) {
    case QuantizeOp::mov: return a;
    case QuantizeOp::mul: return f32.mul(a, b);
    case QuantizeOp::div: return f32.div(a, b);
    case QuantizeOp::div_number:
      return settings.torch == TorchDevice::cuda ? f32.mul(a, f32.div(one_f32, b)) : f32.div(a, b);
    case QuantizeOp::div_full: return static_cast<uint32_t>(compute(full_division, a, b));
    case QuantizeOp::rcp_approx: return static_cast<uint32_t>(compute(approximate_rcp, a));
    case QuantizeOp::ex2_approx: return static_cast<uint32_t>(compute(approximate_ex2, a));
    case QuantizeOp::exponent_of: {
      const int exponent = power_of(ScaleRounding::floor_power, settings.recipe.element, a);
      return std::bit_cast<uint32_t>(static_cast<float>(exponent));
    }
    case QuantizeOp::sub: return f32.sub(a, b);
    // For a NaN and a number, PyTorch's clamp gives the NaN. All numbers here are positive, so their words are ordered.
    case QuantizeOp::min: return is_nan(a) ? a : std::min(f32.take(a), f32.take(b));
    case QuantizeOp::max: return is_nan(a) ? a : std::max(f32.take(a), f32.take(b));
    case QuantizeOp::round_to_input:
      return converted(settings.input, converted(Format::f32, a, settings.input), Format::f32);
    case QuantizeOp::input_max_if_inf:
      return a == infinity_f32 ? converted(settings.input, info(settings.input).max_finite(), Format::f32) : a;
    case QuantizeOp::one_if_zero: return is_zero(f32.take(b)) ? one_f32 : a;
    case QuantizeOp::zero_if_zero: return is_zero(f32.take(b)) ? 0 : a;
    case QuantizeOp::one_if_code_zero: return values.code == 0 ? one_f32 : a;
    case QuantizeOp::inverse_in_double: return f64_inverse(settings.recipe.element, a);
    case QuantizeOp::power_below: return a & infinity_f32;
    case QuantizeOp::power_of_log2: {
      const int exponent = power_of(ScaleRounding::floor_log2_f32, settings.recipe.element, a);
      return static_cast<uint32_t>(exponent + info(Format::f32).bias) << info(Format::f32).mantissa_bits;
    }
  }
  return 0;
}

void take_steps(const Settings& settings, const QuantizeSteps& steps, Values& values) {
  for (const QuantizeStep& step : steps) {
    if (step.result == QuantizeValue::constant) return;
    values[step.result] = result_of(settings, step, values);
  }
}

/// The code of a scale.
uint32_t code_of_scale(const QuantizeRecipe& recipe, uint32_t scale) {
  if (recipe.scale_format == Format::f32) return scale;
  if (recipe.scale_format == Format::ue8m0) {
    const int bias = info(Format::ue8m0).bias;
    return static_cast<uint32_t>(
        std::clamp(power_of(recipe.scale_rounding, recipe.element, scale) - recipe.exponent_offset, -bias, bias) +
        bias);
  }
  const Rounding rounding =
      recipe.scale_rounding == ScaleRounding::up ? Rounding::toward_positive : Rounding::nearest_even;
  return converted(Format::f32, scale, recipe.scale_format, rounding, Overflow::saturate);
}

[[noreturn]] void refuse_nan(const QuantizeRecipe& recipe, std::string_view what) {
  throw Error({.field = fmt::format("{} of {}", what, recipe.name),
               .seen = "NaN",
               .expected = fmt::format("a number: {} has no NaN", info(recipe.element).name),
               .fix = "the project's arithmetic divides by zero here: use a matrix with elements other than zero"});
}

constexpr uint32_t code_of_8 = 16;  // of no format: e2m1 ends at 6

/// Finds a code of e2m1: counts the midpoints below the magnitude.
uint32_t compared_code(const QuantizeRecipe& recipe, uint32_t y) {
  // The words of 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.
  constexpr std::array<uint32_t, 7> midpoints{0x3E800000, 0x3F400000, 0x3FA00000, 0x3FE00000,
                                              0x40200000, 0x40600000, 0x40A00000};
  const bool down = recipe.code_rounding == CodeRounding::comparisons_down;
  const uint32_t magnitude = y & ~sign_f32;
  if (recipe.code_rounding == CodeRounding::comparisons_wrap && magnitude >= std::bit_cast<uint32_t>(7.0F))
    return code_of_8;
  uint32_t code = 0;
  for (size_t i = 0; i < midpoints.size(); ++i) {
    const bool half_up = !down && i % 2 == 1;
    code += magnitude > midpoints[i] || (half_up && magnitude == midpoints[i]);
  }
  const bool negative = is_zero(y) ? down : (y & sign_f32) != 0;
  return code | (negative ? 8u : 0u);
}

uint32_t code_of_element(const Settings& settings, uint32_t y) {
  const QuantizeRecipe& recipe = settings.recipe;
  const FormatInfo& element = info(recipe.element);
  if (is_nan(y) && recipe.is_torch) {
    if (element.non_finite == NonFinite::none) refuse_nan(recipe, "an element");
    // The NaN from 0 / 0: negative on x86, positive on a GPU.
    const auto sign = static_cast<uint32_t>(settings.torch == TorchDevice::cpu ? element.sign_bit() : 0);
    return sign | static_cast<uint32_t>(*element.canonical_nan());
  }
  if (recipe.code_rounding >= CodeRounding::comparisons) return compared_code(recipe, y);
  const Rounding rounding =
      recipe.code_rounding == CodeRounding::nearest_away ? Rounding::nearest_away : Rounding::nearest_even;
  return converted(Format::f32, y, recipe.element, rounding, Overflow::saturate);
}

uint32_t scaled(const Settings& settings, uint32_t x, uint32_t factor) {
  switch (settings.recipe.element_op) {
    case QuantizeOp::div: return settings.f32.div(x, factor);
    case QuantizeOp::div_full: return static_cast<uint32_t>(compute(full_division, x, factor));
    default: return settings.f32.mul(x, factor);
  }
}

/// The words of x as f32, which holds every number of x's format.
Matrix as_f32(const Matrix& x) {
  Matrix words(Format::f32, x.rows(), x.cols());
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % (1 << 16) == 0) check_interrupt();
    words.words()[i] = converted(x.format(), x.words()[i], Format::f32);
  }
  return words;
}

struct Block {
  int row, rows, col, cols;
};

uint32_t amax_of(const Matrix& words, const Block& block) {
  uint32_t amax = 0;
  for (int row = block.row; row < block.row + block.rows; ++row) {
    if (row % 64 == 63) check_interrupt();
    for (int col = block.col; col < block.col + block.cols; ++col) amax = std::max(amax, words(row, col) & ~sign_f32);
  }
  return amax;
}

void require_input(const QuantizeRecipe& recipe, const Matrix& x) {
  if (!recipe.inputs.contains(x.format())) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = "type of x",
                 .seen = std::string(info(x.format()).name),
                 .legal = row_names(rows_of(recipe.inputs)),
                 .fix = recipe.inputs.contains(Format::f32) ? "convert it to f32, which is exact" : "",
                 .source = fmt::format("{}, {}", recipe.project, recipe.path)});
  }
  for (int row = 0; row < x.rows(); ++row) {
    if (row % 64 == 63) check_interrupt();
    for (int col = 0; col < x.cols(); ++col) {
      if (decode(x.format(), x(row, col)).number == NumberClass::finite) continue;
      throw Error({.field = fmt::format("x({}, {})", row, col),
                   .seen = print_value(x.format(), x(row, col)),
                   .expected = "finite numbers: the recipe's results for other values are not known"});
    }
  }
}

std::string print(const QuantizeOperand& operand) {
  if (operand.value == QuantizeValue::constant)
    return in_ieee_environment([&] { return fmt::format("{}", operand.constant); });
  return std::string(value_names[static_cast<size_t>(operand.value)]);
}

void print_steps(const QuantizeSteps& steps, std::string& text) {
  for (const QuantizeStep& step : steps) {
    if (step.result == QuantizeValue::constant) return;
    const OpInfo& op = ops[static_cast<size_t>(step.op)];
    text += fmt::format("{} = {}({}{})\n", value_names[static_cast<size_t>(step.result)], op.name, print(step.a),
                        op.operands == 2 ? ", " + print(step.b) : "");
  }
}

}  // namespace

std::string print(const QuantizeRecipe& recipe) {
  std::string text;
  print_steps(recipe.of_tensor, text);
  print_steps(recipe.of_block, text);
  text += fmt::format("stored = {}(scale)  {}", info(recipe.scale_format).name,
                      recipe.scale_format == Format::f32
                          ? "unchanged"
                          : scale_rounding_names[static_cast<size_t>(recipe.scale_rounding)]);
  if (recipe.exponent_offset != 0) text += fmt::format(" - {}", recipe.exponent_offset);
  text += "\n";
  print_steps(recipe.of_factor, text);
  text += fmt::format("code = {}({}(x, factor))  {}\n", info(recipe.element).name,
                      ops[static_cast<size_t>(recipe.element_op)].name,
                      code_rounding_names[static_cast<size_t>(recipe.code_rounding)]);
  if (recipe.block_error != BlockError::none)
    text += fmt::format(
        "each block also with 1.5 * scale, which is kept if {} is smaller; value = code * stored * "
        "tensor_amax / {}\n",
        block_error_names[static_cast<size_t>(recipe.block_error)], recipe.error_divisor);
  return text;
}

bool depends_on_device(const QuantizeRecipe& recipe) {
  const auto divides = [](const QuantizeSteps& steps) {
    return std::ranges::find(steps, QuantizeOp::div_number, &QuantizeStep::op) != steps.end();
  };
  return divides(recipe.of_tensor) || divides(recipe.of_block) || divides(recipe.of_factor);
}

TorchDevice torch_device_of(const QuantizeRecipe& recipe, std::optional<std::string_view> name) {
  if (!name) return TorchDevice::cuda;
  if (*name != "cuda" && *name != "cpu") {
    throw Error({.code = ViolationCode::unknown_name,
                 .field = "torch_device",
                 .seen = shortened(printable(*name)),
                 .legal = {"cuda", "cpu"}});
  }
  if (!depends_on_device(recipe)) {
    throw Error({.code = ViolationCode::no_effect,
                 .field = "torch_device",
                 .seen = std::string(*name),
                 .expected = "absent: no step of the recipe divides by a Python number",
                 .fix = fmt::format("{} gives the same result on every device", recipe.name)});
  }
  return *name == "cpu" ? TorchDevice::cpu : TorchDevice::cuda;
}

std::vector<Violation> warnings_of(const QuantizeRecipe& recipe, const Quantized& quantized) {
  std::vector<Violation> warnings;
  for (const auto& [what, matrix] : {std::pair("codes", &quantized.codes), std::pair("scales", &quantized.scales)}) {
    const auto is_not_a_number = [format = matrix->format()](uint32_t code) {
      return decode(format, code).number == NumberClass::nan;
    };
    const auto count = std::ranges::count_if(matrix->words(), is_not_a_number);
    if (count == 0) continue;
    warnings.push_back({.field = fmt::format("{} of {}", what, recipe.name),
                        .seen = fmt::format("{} of {} are NaN", count, matrix->size()),
                        .expected = "numbers",
                        .fix = "the project divides 0 by 0 in blocks of zeros, and bitmma does the same",
                        .source = fmt::format("{}, {}", recipe.project, recipe.path),
                        .severity = Severity::warning});
  }
  return warnings;
}

QuantizeBlocks blocks_of(const QuantizeRecipe& recipe, int rows, int cols) {
  std::vector<Violation> violations;
  const auto require_blocks = [&](std::string_view what, int extent, int block) {
    const bool whole = recipe.partial_blocks || block == 0 || extent % block == 0;
    if (extent > 0 && whole) return;
    violations.push_back({.field = fmt::format("{} of x", what),
                          .seen = std::to_string(extent),
                          .expected = block == 0 ? "1 or more" : fmt::format("a multiple of {}", block),
                          .source = fmt::format("{}, {}", recipe.project, recipe.path)});
  };
  require_blocks("rows", rows, recipe.block_rows);
  require_blocks("columns", cols, recipe.block_cols);
  if (!violations.empty()) throw Error(violations);
  const int block_rows = recipe.block_rows == 0 ? rows : recipe.block_rows,
            block_cols = recipe.block_cols == 0 ? cols : recipe.block_cols;
  return {.rows = (rows + block_rows - 1) / block_rows,
          .cols = (cols + block_cols - 1) / block_cols,
          .block_rows = block_rows,
          .block_cols = block_cols};
}

namespace {

/// Quantises every block, with its scale times `expansion`.
Quantized quantize_blocks(const Settings& settings, const Matrix& words, const QuantizeBlocks& blocks,
                          const Values& of_tensor, float expansion, int threads) {
  const QuantizeRecipe& recipe = settings.recipe;
  Quantized result{.codes = Matrix(recipe.element, words.rows(), words.cols()),
                   .scales = Matrix(recipe.scale_format, blocks.rows, blocks.cols),
                   .block_rows = blocks.block_rows,
                   .block_cols = blocks.block_cols};
  const auto quantize_block = [&](int row_block, int col_block) {
    const int row = row_block * blocks.block_rows, col = col_block * blocks.block_cols;
    const Block block{row, std::min(blocks.block_rows, words.rows() - row), col,
                      std::min(blocks.block_cols, words.cols() - col)};
    Values values = of_tensor;
    values[QuantizeValue::amax] = amax_of(words, block);
    take_steps(settings, recipe.of_block, values);
    uint32_t& scale = values[QuantizeValue::scale];
    if (expansion != 1) scale = settings.f32.mul(scale, std::bit_cast<uint32_t>(expansion));
    if (is_nan(scale) && recipe.scale_format != Format::f32) refuse_nan(recipe, "a scale");
    values.code = code_of_scale(recipe, scale);
    result.scales(row_block, col_block) = values.code;
    values[QuantizeValue::stored] = converted(recipe.scale_format, values.code, Format::f32);
    take_steps(settings, recipe.of_factor, values);
    const uint32_t factor = values[QuantizeValue::factor];
    for (int i = block.row; i < block.row + block.rows; ++i) {
      if (i % 64 == 63) check_interrupt();
      for (int j = block.col; j < block.col + block.cols; ++j)
        result.codes(i, j) = code_of_element(settings, scaled(settings, words(i, j), factor));
    }
  };
  parallel_for(static_cast<size_t>(blocks.rows), threads, [&](size_t row_block) {
    in_ieee_environment([&] {
      for (int col_block = 0; col_block < blocks.cols; ++col_block)
        quantize_block(static_cast<int>(row_block), col_block);
    });
  });
  return result;
}

/// The f32 error of each block, [blocks, 1]. Blocks are parts of a row.
Matrix errors_of(const Settings& settings, const Matrix& words, const Quantized& quantized, uint32_t tensor_amax) {
  const QuantizeRecipe& recipe = settings.recipe;
  const int width = quantized.block_cols, blocks = quantized.scales.cols();
  Matrix terms(Format::f32, words.rows() * blocks, width);
  const auto divisor = std::bit_cast<uint32_t>(recipe.error_divisor);
  for (int row = 0; row < words.rows(); ++row) {
    if (row % 64 == 63) check_interrupt();
    for (int col = 0; col < words.cols(); ++col) {
      const uint32_t stored = converted(recipe.scale_format, quantized.scales(row, col / width), Format::f32);
      const uint32_t code = quantized.codes(row, col);
      // The sign of 8 is that of x.
      const uint32_t number = code == code_of_8 ? std::bit_cast<uint32_t>(8.0F) | (words(row, col) & sign_f32)
                                                : converted(recipe.element, code, Format::f32);
      const Arithmetic& f32 = settings.f32;
      const uint32_t value = f32.div(f32.mul(f32.mul(number, stored), tensor_amax), divisor);
      const uint32_t error = f32.sub(value, words(row, col)) & ~sign_f32;
      terms(row * blocks + col / width, col % width) =
          recipe.block_error == BlockError::squared ? f32.mul(error, error) : error;
    }
  }
  const RowReduction what = recipe.block_error == BlockError::largest ? RowReduction::amax : RowReduction::sum;
  return reduce(terms, {.what = what});
}

}  // namespace

Quantized quantize(const QuantizeRecipe& recipe, const Matrix& x, TorchDevice torch, int threads) {
  const QuantizeBlocks blocks = blocks_of(recipe, x.rows(), x.cols());
  require_input(recipe, x);
  const Settings settings{.recipe = recipe, .f32 = {recipe.ftz}, .input = x.format(), .torch = torch};
  const Matrix words = as_f32(x);
  Values of_tensor;
  if (recipe.has_two_levels()) {
    of_tensor[QuantizeValue::tensor_amax] = amax_of(words, {0, x.rows(), 0, x.cols()});
    in_ieee_environment([&] { take_steps(settings, recipe.of_tensor, of_tensor); });
  }
  Quantized result = quantize_blocks(settings, words, blocks, of_tensor, 1, threads);
  if (recipe.block_error != BlockError::none) {
    const Quantized other = quantize_blocks(settings, words, blocks, of_tensor, 1.5F, threads);
    in_ieee_environment([&] {
      const uint32_t amax = of_tensor[QuantizeValue::tensor_amax];
      const Matrix error = errors_of(settings, words, result, amax), of_other = errors_of(settings, words, other, amax);
      for (int row = 0; row < x.rows(); ++row) {
        for (int col = 0; col < x.cols(); ++col) {
          const int block = col / blocks.block_cols, index = row * blocks.cols + block;
          if (of_other(index, 0) >= error(index, 0)) continue;  // as words: errors are not negative
          result.codes(row, col) = other.codes(row, col), result.scales(row, block) = other.scales(row, block);
        }
      }
      constexpr uint32_t minus_0 = 8;
      std::ranges::replace(result.codes.words(), code_of_8, minus_0);
    });
  }
  if (recipe.has_two_levels()) {
    result.tensor_scale = Matrix(Format::f32, 1, 1);
    (*result.tensor_scale)(0, 0) = of_tensor[QuantizeValue::tensor_scale];
  }
  return result;
}

std::vector<uint8_t> packed_codes(const Matrix& codes) {
  if (bits_of(codes.format()) != 4 || codes.cols() % 2 != 0) {
    throw Error({.field = "codes",
                 .seen = fmt::format("{} columns of {}", codes.cols(), info(codes.format()).name),
                 .expected = "an even number of columns with a format of 4 bits"});
  }
  std::vector<uint8_t> packed(codes.size() / 2);
  for (size_t i = 0; i < packed.size(); ++i)
    packed[i] = static_cast<uint8_t>(codes.words()[2 * i] | codes.words()[2 * i + 1] << 4);
  return packed;
}

std::vector<uint8_t> tiled_scales(const Quantized& quantized) {
  const Matrix& scales = quantized.scales;
  if (bits_of(scales.format()) != 8) {
    throw Error({.code = ViolationCode::wrong_type,
                 .field = "type of the scales",
                 .seen = std::string(info(scales.format()).name),
                 .expected = "ue8m0 or ue4m3",
                 .source = "cuBLAS, 1D block scaling factors layout"});
  }
  const int rows = quantized.codes.rows();
  std::vector<uint8_t> bytes;
  for (int row = 0; row < rows; ++row) {
    for (const uint32_t code : scales.row(row / quantized.block_rows)) bytes.push_back(static_cast<uint8_t>(code));
  }
  return pack_scales({.rows = rows, .blocks = scales.cols()}, bytes);
}

}  // namespace bitmma
