// SPDX-License-Identifier: MIT
// Functions of single elements, as PyTorch's eager kernels compute them: f16 and bf16 are widened, and the result is
// rounded once.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/math/math_instruction.hpp"
#include "bitmma/operators/c_function.hpp"
#include "row_lanes.hpp"

namespace bitmma {
namespace {

using namespace operators;

const ElementwiseFunction& function_named(std::string_view name) {
  const auto& all = elementwise_functions();
  const auto row = std::ranges::find(all, name, &ElementwiseFunction::name);
  if (row != all.end()) return *row;
  std::vector<std::string_view> names;
  for (const ElementwiseFunction& function : all) names.push_back(function.name);
  throw Error(
      {.field = "function", .seen = shortened(name), .expected = fmt::format("one of {}", fmt::join(names, ", "))});
}

using Words = std::vector<uint32_t>;

/// "expf@cuda_13", "mul.rn.f32".
std::string print_code(const ElementwiseFunction& function) {
  const bool is_c = function.computed_by.find_first_of(" .") == std::string_view::npos;
  return fmt::format("{}{}", function.computed_by, is_c ? "@cuda_13" : "");
}

/// results[i] of a[i] and b[i]; `results` may be `a`.
using Loop = std::function<void(std::span<const uint32_t> a, std::span<const uint32_t> b, std::span<uint32_t> results)>;

Loop loop_of(const ElementwiseFunction& function) {
  if (function.name == "relu") {
    return [](auto a, auto, auto results) {
      for (std::size_t i = 0; i < a.size(); ++i) results[i] = value(a[i]) > 0 ? a[i] : 0;
    };
  }
  if (function.name == "softplus") {
    return [&expf = parse_c_function("expf@cuda_13"), &log1pf = parse_c_function("log1pf@cuda_13")](auto a, auto,
                                                                                                    auto results) {
      Words y(a.size());
      compute(expf, a, {}, y);
      compute(log1pf, y, {}, y);
      for (std::size_t i = 0; i < a.size(); ++i) results[i] = value(a[i]) > 20 ? a[i] : y[i];
    };
  }
  if (function.computed_by.find('.') != std::string_view::npos) {
    return [instruction = parse_math_instruction(function.computed_by), is_square = function.operands == 1](
               auto a, auto b, auto results) { compute(instruction, a, is_square ? a : b, {}, results); };
  }
  return [&c_function = parse_c_function(print_code(function))](auto a, auto b, auto results) {
    compute(c_function, a, b, results);
  };
}

}  // namespace

const std::vector<ElementwiseFunction>& elementwise_functions() {
  static const std::vector<ElementwiseFunction> all{
      {.name = "exp", .computed_by = "expf"},
      {.name = "exp2", .computed_by = "exp2f"},
      {.name = "expm1", .computed_by = "expm1f"},
      {.name = "log", .computed_by = "logf"},
      {.name = "log2", .computed_by = "log2f"},
      {.name = "log1p", .computed_by = "log1pf"},
      {.name = "sqrt", .computed_by = "sqrtf"},
      {.name = "rsqrt", .computed_by = "rsqrtf"},
      {.name = "reciprocal", .computed_by = "reciprocal"},
      {.name = "sin", .computed_by = "sinf"},
      {.name = "cos", .computed_by = "cosf"},
      {.name = "tanh", .computed_by = "tanhf"},
      {.name = "erf", .computed_by = "erff"},
      {.name = "sigmoid", .computed_by = "sigmoid"},
      {.name = "silu", .computed_by = "silu"},
      {.name = "gelu", .computed_by = "gelu"},
      {.name = "gelu_tanh", .computed_by = "gelu_tanh"},
      {.name = "relu", .computed_by = "x > 0 ? x : 0"},
      {.name = "softplus", .computed_by = "x > 20 ? x : log1pf(expf(x))"},
      {.name = "square", .computed_by = "mul.rn.f32"},
      {.name = "add", .operands = 2, .computed_by = "add.rn.f32"},
      {.name = "sub", .operands = 2, .computed_by = "sub.rn.f32"},
      {.name = "mul", .operands = 2, .computed_by = "mul.rn.f32"},
      {.name = "div", .operands = 2, .computed_by = "division"},
  };
  return all;
}

namespace {

/// A function of checked arguments.
struct Call {
  const ElementwiseFunction& function;
  const Matrix& x;
  const Matrix* y;
  Loop loop;
  Matrix out;
};

Call call_of(std::string_view name, const Matrix& x, const Matrix* y) {
  const ElementwiseFunction& function = function_named(name);
  require_floats("x", x);
  if ((function.operands == 2) != (y != nullptr))
    throw Error({.field = "y",
                 .seen = y ? "a matrix" : "none",
                 .expected = y ? "absent: a function of one operand" : "a matrix"});
  if (y && (y->format() != x.format() || y->rows() != x.rows() || y->cols() != x.cols()))
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "y",
                 .seen = fmt::format("{} x {} of {}", y->rows(), y->cols(), info(y->format()).name),
                 .expected = fmt::format("{} x {} of {}, as x", x.rows(), x.cols(), info(x.format()).name)});
  return {
      .function = function, .x = x, .y = y, .loop = loop_of(function), .out = Matrix(x.format(), x.rows(), x.cols())};
}

void compute_row(Call& call, int row, int col, Notes* notes) {
  const Words a = words_of(row_of(call.x, row)), b = call.y ? words_of(row_of(*call.y, row)) : Words{};
  Words results(a.size());
  call.loop(a, b, results);
  narrow(results, call.out.format(), call.out.row(row));
  // relu is a clamp, which gives a NaN back as it is.
  const bool keeps_nan = call.function.name == "relu";
  for (std::size_t i = 0; keeps_nan && i < a.size(); ++i) {
    if (value(a[i]) != value(a[i])) call.out.row(row)[i] = call.x.row(row)[i];
  }
  if (!notes) return;
  const auto at = static_cast<std::size_t>(col);
  notes->add("x", "of the column, widened to f32", is_exact, {a[at]});
  if (call.y) notes->add("y", "of the column, widened to f32", is_exact, {b[at]});
  notes->add("result", fmt::format("{}({})", call.function.name, call.y ? "x, y" : "x"),
             keeps_nan ? is_exact : print_code(call.function), {results[at]});
}

}  // namespace

Matrix elementwise(std::string_view name, const Matrix& x, const Matrix* y, int threads) {
  Call call = call_of(name, x, y);
  for_each_row(x.rows(), threads, [&](int row) { compute_row(call, row, 0, nullptr); });
  return std::move(call.out);
}

OperatorTrace trace_elementwise(std::string_view name, const Matrix& x, const Matrix* y, int row, int col) {
  Call call = call_of(name, x, y);
  return trace_of(name, call.out, row, col, [&](Notes& notes) { compute_row(call, row, col, &notes); });
}

}  // namespace bitmma
