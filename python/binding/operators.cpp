// SPDX-License-Identifier: MIT
// Operators of libraries: attention, and those on the rows of a matrix. With an `output`, its place in the result, a
// function gives the steps of that output, as a dictionary and as text, instead of the result.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>

#include <array>

#include "binding.hpp"
#include "bitmma/acts/describe_operator.hpp"

namespace bitmma::python {
namespace {

using namespace nb::literals;

template <typename Run>
auto unlocked(const Run& run) {
  const Unlocked scope;
  return run();
}

using Place = std::array<int, 2>;

nb::object told(const OperatorTrace& trace) {
  const Report report = describe(trace);
  return nb::make_tuple(from_report(report), print(report));
}

nb::object attend(nb::handle q, nb::handle k, nb::handle v, int heads, int kv_heads, std::string_view backend,
                  bool causal, std::optional<float> scale, int window_left, int window_right, std::optional<int> splits,
                  int threads, std::optional<std::array<int, 3>> output) {
  const Matrix q_matrix = required_matrix_in(q, "q"), k_matrix = required_matrix_in(k, "k"),
               v_matrix = required_matrix_in(v, "v");
  const AttentionShape shape{.heads = heads,
                             .kv_heads = kv_heads,
                             .queries = q_matrix.rows() / heads,
                             .keys = k_matrix.rows() / kv_heads,
                             .head_size = q_matrix.cols()};
  const AttentionPlan plan = attention_plan(shape, {.kernel = parse_attention_kernel(backend),
                                                    .causal = causal,
                                                    .scale = scale,
                                                    .window_left = window_left,
                                                    .window_right = window_right,
                                                    .splits = splits});
  if (output) {
    const auto [head, query, col] = *output;
    return told(unlocked([&] { return trace_attention(plan, shape, q_matrix, k_matrix, v_matrix, head, query, col); }));
  }
  const Attention result = unlocked([&] { return attention(plan, shape, q_matrix, k_matrix, v_matrix, threads); });
  return nb::make_tuple(array_of(result.out), array_of(result.lse));
}

RowsOf rows_of_whole(std::optional<std::vector<int64_t>> rows, int64_t whole) {
  return {.rows = std::move(rows).value_or(std::vector<int64_t>{}), .whole = whole};
}

nb::object softmax_rows(nb::handle x, std::string_view to, bool logarithm, std::optional<std::vector<int64_t>> rows,
                        int64_t whole, int threads, std::optional<Place> output) {
  const Matrix matrix = required_matrix_in(x, "x");
  const SoftmaxOptions options{
      .to = parse_format(to), .logarithm = logarithm, .of = rows_of_whole(std::move(rows), whole), .threads = threads};
  if (output) return told(unlocked([&] { return trace_softmax(matrix, options, (*output)[0], (*output)[1]); }));
  return array_of(unlocked([&] { return softmax(matrix, options); }));
}

nb::object norm_rows(nb::handle x, nb::handle weight, nb::handle bias, float eps, bool rms, int threads,
                     std::optional<Place> output) {
  const Matrix matrix = required_matrix_in(x, "x");
  const std::optional<Matrix> weights = optional_matrix_in(weight, "weight"), biases = optional_matrix_in(bias, "bias");
  const Matrix *const w = weights ? &*weights : nullptr, *const b = biases ? &*biases : nullptr;
  if (output) {
    const auto [row, col] = *output;
    return told(unlocked([&] {
      return rms ? trace_rms_norm(matrix, w, eps, row, col) : trace_layer_norm(matrix, w, b, eps, row, col);
    }));
  }
  const Norm result =
      unlocked([&] { return rms ? rms_norm(matrix, w, eps, threads) : layer_norm(matrix, w, b, eps, threads); });
  return nb::make_tuple(array_of(result.out), result.mean ? array_of(*result.mean) : nb::none(), array_of(result.rstd));
}

nb::object reduce_rows(nb::handle x, std::string_view what, std::string_view to, bool over_rows,
                       std::optional<std::vector<int64_t>> rows, int64_t whole, int threads,
                       std::optional<int> output) {
  const Matrix matrix = required_matrix_in(x, "x");
  const ReduceOptions options{.what = parse_row_reduction(what),
                              .to = parse_format(to),
                              .over_rows = over_rows,
                              .of = rows_of_whole(std::move(rows), whole),
                              .threads = threads};
  if (output) return told(unlocked([&] { return trace_reduce(matrix, options, *output); }));
  return array_of(unlocked([&] { return reduce(matrix, options); }));
}

nb::object elementwise_rows(std::string_view name, nb::handle x, nb::handle y, int threads,
                            std::optional<Place> output) {
  const Matrix matrix = required_matrix_in(x, "x");
  const std::optional<Matrix> other = optional_matrix_in(y, "y");
  if (output) return told(trace_elementwise(name, matrix, other ? &*other : nullptr, (*output)[0], (*output)[1]));
  return array_of(unlocked([&] { return elementwise(name, matrix, other ? &*other : nullptr, threads); }));
}

nb::list functions() {
  nb::list rows;
  for (const ElementwiseFunction& function : elementwise_functions())
    rows.append(nb::make_tuple(function.name, function.operands, function.computed_by));
  return rows;
}

}  // namespace

void bind_operators(nb::module_& module) {
  module.def("attention", attend, "q"_a, "k"_a, "v"_a, "heads"_a, "kv_heads"_a, "backend"_a, "causal"_a,
             "scale"_a.none(), "window_left"_a, "window_right"_a, "splits"_a.none(), "threads"_a,
             "output"_a.none() = nb::none());
  module.def("softmax", softmax_rows, "x"_a, "to"_a, "logarithm"_a, "rows"_a.none(), "whole"_a, "threads"_a,
             "output"_a.none() = nb::none());
  module.def("norm", norm_rows, "x"_a, "weight"_a.none(), "bias"_a.none(), "eps"_a, "rms"_a, "threads"_a,
             "output"_a.none() = nb::none());
  module.def("reduce", reduce_rows, "x"_a, "what"_a, "to"_a, "over_rows"_a, "rows"_a.none(), "whole"_a, "threads"_a,
             "output"_a.none() = nb::none());
  module.def("elementwise", elementwise_rows, "name"_a, "x"_a, "y"_a.none(), "threads"_a,
             "output"_a.none() = nb::none());
  module.def("elementwise_functions", functions);
}

}  // namespace bitmma::python
