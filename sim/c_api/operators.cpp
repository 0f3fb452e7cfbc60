// SPDX-License-Identifier: MIT
#include <limits>
#include <optional>

#include "bitmma/operators/attention.hpp"
#include "bitmma/operators/rows.hpp"
#include "c_api.hpp"

using namespace bitmma;
using namespace bitmma::c_api;

namespace {

std::optional<Matrix> matrix_or_none(const bitmma_matrix* from, std::string_view name) {
  return from ? std::optional(matrix_given(*from, name)) : std::nullopt;
}
const Matrix* pointer_to(const std::optional<Matrix>& matrix) { return matrix ? &*matrix : nullptr; }

/// Heads of a matrix, which have the same number of rows each.
int heads_of(int64_t heads, const Matrix& matrix, std::string_view name) {
  if (heads < 1 || heads > std::numeric_limits<int>::max() || matrix.rows() % heads != 0)
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = std::string(name),
                 .seen = std::to_string(heads),
                 .expected = "a divisor of the " + std::to_string(matrix.rows()) + " rows"});
  return static_cast<int>(heads);
}

}  // namespace

extern "C" {

bitmma_status bitmma_attention(const bitmma_matrix* q, const bitmma_matrix* k, const bitmma_matrix* v,
                               const bitmma_attention_call* call, int threads, void* out, float* lse) {
  return guarded([&] {
    const Matrix queries = matrix_given(pointee(q, "q"), "q"), keys = matrix_given(pointee(k, "k"), "k"),
                 values = matrix_given(pointee(v, "v"), "v");
    if (!out) refuse_null("out");
    const bitmma_attention_call options = call ? *call : bitmma_attention_call{};
    if (!options.has_window && (options.window_left != 0 || options.window_right != 0))
      throw Error({.code = ViolationCode::no_effect,
                   .field = "window_left, window_right",
                   .seen = "given",
                   .expected = "0, unless has_window is 1"});
    const int64_t given_heads = options.heads == 0 ? 1 : options.heads;
    const int heads = heads_of(given_heads, queries, "heads"),
              kv_heads = heads_of(options.kv_heads == 0 ? given_heads : options.kv_heads, keys, "kv_heads");
    const AttentionShape shape{.heads = heads,
                               .kv_heads = kv_heads,
                               .queries = queries.rows() / heads,
                               .keys = keys.rows() / kv_heads,
                               .head_size = queries.cols()};
    const AttentionPlan plan =
        attention_plan(shape, {.kernel = parse_attention_kernel(options.backend ? options.backend : "flash"),
                               .causal = options.causal != 0,
                               .scale = options.scale == 0 ? std::nullopt : std::optional(options.scale),
                               .window_left = options.has_window ? options.window_left : -1,
                               .window_right = options.has_window ? options.window_right : -1,
                               .splits = options.splits == 0 ? std::nullopt : std::optional(options.splits)});
    const Attention result = attention(plan, shape, queries, keys, values, threads_of(threads));
    write_codes(result.out, out);
    if (lse) write_codes(result.lse, lse);
  });
}

bitmma_status bitmma_softmax(const bitmma_matrix* x, bitmma_format to, int logarithm, int threads, void* out) {
  return guarded([&] {
    const Matrix from = matrix_given(pointee(x, "x"), "x");
    if (!out) refuse_null("out");
    SoftmaxOptions options;
    options.to = format_of(to, "to"), options.logarithm = logarithm != 0, options.threads = threads_of(threads);
    write_codes(softmax(from, options), out);
  });
}

bitmma_status bitmma_layer_norm(const bitmma_matrix* x, const bitmma_matrix* weight, const bitmma_matrix* bias,
                                float eps, int threads, void* out, float* mean, float* rstd) {
  return guarded([&] {
    const Matrix from = matrix_given(pointee(x, "x"), "x");
    const std::optional<Matrix> weights = matrix_or_none(weight, "weight"), biases = matrix_or_none(bias, "bias");
    if (!out) refuse_null("out");
    const Norm result = layer_norm(from, pointer_to(weights), pointer_to(biases), eps, threads_of(threads));
    write_codes(result.out, out);
    if (mean) write_codes(*result.mean, mean);
    if (rstd) write_codes(result.rstd, rstd);
  });
}

bitmma_status bitmma_rms_norm(const bitmma_matrix* x, const bitmma_matrix* weight, float eps, int threads, void* out,
                              float* rstd) {
  return guarded([&] {
    const Matrix from = matrix_given(pointee(x, "x"), "x");
    const std::optional<Matrix> weights = matrix_or_none(weight, "weight");
    if (!out) refuse_null("out");
    const Norm result = rms_norm(from, pointer_to(weights), eps, threads_of(threads));
    write_codes(result.out, out);
    if (rstd) write_codes(result.rstd, rstd);
  });
}

bitmma_status bitmma_reduce(const char* reduction, const bitmma_matrix* x, bitmma_format to, int over_rows, int threads,
                            void* out) {
  return guarded([&] {
    const RowReduction what = parse_row_reduction(text_given(reduction, "reduction"));
    const Matrix from = matrix_given(pointee(x, "x"), "x");
    if (!out) refuse_null("out");
    const Format format = format_of(to, "to");
    const bool is_index = what == RowReduction::argmax;
    if (is_index && format != Format::s32)
      throw Error({.code = ViolationCode::wrong_type,
                   .field = "to",
                   .seen = std::string(info(format).name),
                   .expected = "s32: argmax gives indices"});
    ReduceOptions options;
    options.what = what, options.over_rows = over_rows != 0, options.threads = threads_of(threads);
    if (!is_index) options.to = format;
    write_codes(reduce(from, options), out);
  });
}

bitmma_status bitmma_elementwise(const char* function, const bitmma_matrix* x, const bitmma_matrix* y, int threads,
                                 void* out) {
  return guarded([&] {
    const std::string_view name = text_given(function, "function");
    const Matrix from = matrix_given(pointee(x, "x"), "x");
    const std::optional<Matrix> other = matrix_or_none(y, "y");
    if (!out) refuse_null("out");
    write_codes(elementwise(name, from, pointer_to(other), threads_of(threads)), out);
  });
}

const char* bitmma_elementwise_name(size_t index) {
  const char* name = nullptr;
  static_cast<void>(guarded([&] {
    if (index < elementwise_functions().size()) name = elementwise_functions()[index].name.data();  // a literal
  }));
  return name;
}

}  // extern "C"
