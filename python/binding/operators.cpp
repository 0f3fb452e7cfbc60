// SPDX-License-Identifier: MIT
// Operators of libraries: attention.
#include <nanobind/stl/optional.h>

#include "binding.hpp"
#include "bitmma/operators/attention.hpp"

namespace bitmma::python {
namespace {

using namespace nb::literals;

/// The matrix as an array of `extents`.
nb::object array_of(const Matrix& matrix, const Extents& extents) {
  nb::object array = numpy_array(extents, code_bytes(matrix.format()) == 2 ? "uint16" : "uint32");
  write_codes(matrix, Buffer(array, "codes", true).data());
  return array;
}

nb::tuple attend(nb::handle q, nb::handle k, nb::handle v, int heads, int kv_heads, bool efficient, bool causal,
                 std::optional<float> scale, int window_left, int window_right, std::optional<int> splits,
                 int threads) {
  const Matrix q_matrix = required_matrix_in(q, "q"), k_matrix = required_matrix_in(k, "k"),
               v_matrix = required_matrix_in(v, "v");
  const AttentionShape shape{.heads = heads,
                             .kv_heads = kv_heads,
                             .queries = q_matrix.rows() / heads,
                             .keys = k_matrix.rows() / kv_heads,
                             .head_size = q_matrix.cols()};
  const AttentionPlan plan =
      attention_plan(shape, {.kernel = efficient ? AttentionKernel::memory_efficient : AttentionKernel::flash_2,
                             .causal = causal,
                             .scale = scale,
                             .window_left = window_left,
                             .window_right = window_right,
                             .splits = splits});
  const Attention result = [&] {
    const nb::gil_scoped_release release;
    return attention(plan, shape, q_matrix, k_matrix, v_matrix, threads);
  }();
  return nb::make_tuple(array_of(result.out, {q_matrix.rows(), q_matrix.cols()}),
                        array_of(result.lse, {heads, shape.queries}), plan.splits);
}

}  // namespace

void bind_operators(nb::module_& module) {
  module.def("attention", attend, "q"_a, "k"_a, "v"_a, "heads"_a, "kv_heads"_a, "efficient"_a, "causal"_a,
             "scale"_a.none(), "window_left"_a, "window_right"_a, "splits"_a.none(), "threads"_a);
}

}  // namespace bitmma::python
