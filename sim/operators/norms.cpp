// SPDX-License-Identifier: MIT
// layer_norm_kernel.cu of PyTorch 2.11, as nvcc joins its products and sums (SASS for sm_90).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bitmma/core/error.hpp"
#include "bitmma/operators/c_function.hpp"
#include "row_lanes.hpp"

namespace bitmma {
namespace {

using namespace operators;

/// Welford's moments of some numbers.
struct Moments {
  float mean = 0, squares = 0, count = 0;
};

float rstd_of(float variance, float eps, Notes* notes) {
  static const CFunction& rsqrtf = parse_c_function("rsqrtf@cuda_13");
  const float shifted = variance + eps, rstd = value(compute(rsqrtf, word(shifted)));
  if (notes) {
    notes->add("shifted", fmt::format("v + eps, eps = {}", eps), to_nearest, words_of(shifted));
    notes->add("rstd", "rsqrtf(shifted)", print(rsqrtf), words_of(rstd));
  }
  return rstd;
}

/// RMS norm in vectors counts nothing and has no means.
void note_joined(Notes& notes, const std::string& what, const std::string& operation,
                 std::span<const Moments> moments) {
  std::vector<float> means, squares;
  for (const Moments& moment : moments) means.push_back(moment.mean), squares.push_back(moment.squares);
  if (std::ranges::any_of(moments, [](const Moments& moment) { return moment.count > 0; }))
    notes.add(what + ": mean", operation, notes.join_rounding(), words_of(means));
  notes.add(what + ": squares", operation, notes.join_rounding(), words_of(squares));
}

/// What a row is scaled by.
struct Scale {
  float mean = 0, rstd = 0;
};

// vectorized_layer_norm_kernel: 4 warps, four numbers a thread at once.
constexpr std::size_t vector_threads = 128;

Moments joined(const Moments& own, const Moments& other) {
  const float count = own.count + other.count;
  if (!(count > 0)) return {};
  const float inverse = 1.0F / count, delta = own.mean - other.mean, share = own.count * inverse;
  return {.mean = std::fma(other.mean, other.count * inverse, share * own.mean),
          .squares = std::fma(share, other.count * (delta * delta), other.squares + own.squares),
          .count = count};
}

Scale vectorized(std::span<const float> x, float eps, bool rms, Notes* notes) {
  std::array<Moments, vector_threads> threads{};
  // All threads but those behind the end have seen as many numbers: of each its place in a vector of four.
  float count = 0;
  for (std::size_t first = 0; first < x.size(); first += 4 * vector_threads) {
    const std::size_t last = std::min(vector_threads, (x.size() - first) / 4);
    for (std::size_t place = 0; place < 4; ++place) {
      count += 1;
      const float inverse = 1.0F / count;
      for (std::size_t thread = 0; thread < last; ++thread) {
        Moments& own = threads[thread];
        const float element = x[first + 4 * thread + place];
        if (rms) {
          own.squares = std::fma(element, element, own.squares);
          continue;
        }
        const float delta = element - own.mean;
        own.count = count;
        own.mean = std::fma(delta, inverse, own.mean);
        own.squares = std::fma(delta, element - own.mean, own.squares);
      }
    }
  }
  const auto join = [&](const Moments& own, const Moments& other) {
    return rms ? Moments{.squares = own.squares + other.squares} : joined(own, other);
  };
  if (notes) {
    notes->choose("kernel", "vectorized_layer_norm_kernel, 128 threads");
    notes->join_by(
        rms ? "squares = a + b"
            : "n = na + nb, r = 1 / n, delta = mean a - mean b; mean = fma(mean b, nb * r, na * r * mean a); "
              "squares = fma(na * r, nb * (delta * delta), squares b + squares a)",
        each_to_nearest);
    notes->choose("thread", rms ? "squares = fma(x, x, squares)"
                                : "delta = x - mean, mean = fma(delta, 1 / n, mean), squares = fma(delta, x - mean, "
                                  "squares)");
    note_joined(*notes, "threads", "thread i takes four columns from 4 i on, then 512 further, ...",
                std::span<const Moments>(threads));
  }
  std::array<Moments, vector_threads / 32> warps;
  for (std::size_t warp = 0; warp < warps.size(); ++warp)
    warps[warp] = shuffle_down(std::span(threads).subspan(32 * warp, 32), 32, join);
  if (notes) note_joined(*notes, "warps", each_warp, std::span<const Moments>(warps));
  const Moments all = shuffle_down(std::span<Moments>(warps), warps.size(), join, notes);
  const float variance = all.squares / static_cast<float>(x.size());
  if (notes) notes->add("v", fmt::format("squares / {} columns", x.size()), to_nearest, words_of(variance));
  return {.mean = all.mean, .rstd = rstd_of(variance, eps, notes)};
}

// RowwiseMomentsCUDAKernel, where the columns are no multiple of four.
constexpr std::size_t moments_threads = 512;

Moments welford_joined(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const float delta = b.mean - a.mean, count = a.count + b.count, share = b.count / count;
  return {.mean = std::fma(delta, share, a.mean),
          .squares = std::fma((delta * delta) * a.count, share, a.squares + b.squares),
          .count = count};
}

Scale by_moments(std::span<const float> x, float eps, bool rms, Notes* notes) {
  std::array<Moments, moments_threads> threads{};
  for (std::size_t i = 0; i < x.size(); ++i) {
    Moments& own = threads[i % moments_threads];
    const float delta = x[i] - own.mean;
    own.count += 1;
    own.mean = own.mean + delta / own.count;
    own.squares = std::fma(delta, x[i] - own.mean, own.squares);
  }
  if (notes) {
    notes->choose("kernel", "RowwiseMomentsCUDAKernel, 512 threads");
    notes->join_by(
        "n = na + nb, share = nb / n, delta = mean b - mean a; mean = fma(delta, share, mean a); squares = "
        "fma(delta * delta * na, share, squares a + squares b)",
        each_to_nearest);
    notes->choose("thread", "delta = x - mean, mean = mean + delta / n, squares = fma(delta, x - mean, squares)");
    note_joined(*notes, "threads", "thread i takes columns i, i + 512, ...", std::span<const Moments>(threads));
  }
  const Moments all = block_reduce(std::span<Moments>(threads), welford_joined, Moments{}, notes);
  const float variance = all.squares / all.count, v = rms ? std::fma(all.mean, all.mean, variance) : variance;
  if (notes) {
    notes->add(rms ? "variance" : "v", "squares / n", to_nearest, words_of(variance));
    if (rms) notes->add("v", "fma(mean, mean, variance)", to_nearest, words_of(v));
  }
  return {.mean = all.mean, .rstd = rstd_of(v, eps, notes)};
}

void require_like(std::string_view name, const Matrix* weight, const Matrix& x) {
  if (weight && (weight->format() != x.format() || weight->rows() != 1 || weight->cols() != x.cols()))
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = std::string(name),
                 .seen = fmt::format("{} x {} of {}", weight->rows(), weight->cols(), info(weight->format()).name),
                 .expected = fmt::format("1 x {} of {}, as x", x.cols(), info(x.format()).name)});
}

/// A norm of checked arguments, with a result that is still empty.
struct NormCall {
  const Matrix& x;
  const Matrix *weight, *bias;
  float eps;
  bool rms;
  std::vector<float> weights, biases;
  Norm result;
};

NormCall call_of(const Matrix& x, const Matrix* weight, const Matrix* bias, float eps, bool rms) {
  require_floats("x", x);
  require_like("weight", weight, x);
  require_like("bias", bias, x);
  NormCall call{.x = x,
                .weight = weight,
                .bias = bias,
                .eps = eps,
                .rms = rms,
                .weights = weight ? row_of(*weight, 0) : std::vector<float>{},
                .biases = bias ? row_of(*bias, 0) : std::vector<float>{},
                .result = {.out = Matrix(x.format(), x.rows(), x.cols()), .rstd = Matrix(Format::f32, x.rows(), 1)}};
  if (!rms) call.result.mean = Matrix(Format::f32, x.rows(), 1);
  return call;
}

void norm_row(NormCall& call, int row, int col, Notes* notes) {
  const bool in_vectors = call.x.cols() % 4 == 0 && call.x.cols() <= 1 << 24, rms = call.rms;
  const std::vector<float> x = row_of(call.x, row);
  const Scale scale = in_vectors ? vectorized(x, call.eps, rms, notes) : by_moments(x, call.eps, rms, notes);
  const auto element = [&](std::size_t i, Notes* own) {
    const auto note = [own](const char* what, std::string_view operation, std::string_view rounding, float result) {
      if (own) own->add(what, std::string(operation), rounding, words_of(result));
      return result;
    };
    note("x", "of the column, widened to f32", is_exact, x[i]);
    const float centred = rms ? x[i] : note("difference", "x - mean", to_nearest, x[i] - scale.mean);
    // Without a weight the bias joins the product in an fma, except in the first element of each vector: there it is
    // added separately.
    const bool has_bias_alone = call.bias && !call.weight, adds = has_bias_alone && in_vectors && i % 4 == 0;
    if (has_bias_alone && !adds)
      return note("biased", "fma(rstd, difference, bias)", to_nearest, std::fma(scale.rstd, centred, call.biases[i]));
    const float scaled = note("scaled", rms ? "rstd * x" : "rstd * difference", to_nearest, scale.rstd * centred);
    if (adds) return note("biased", "scaled + bias", to_nearest, scaled + call.biases[i]);
    if (rms || (in_vectors && !call.bias))
      return call.weight ? note("weighted", "scaled * weight", to_nearest, scaled * call.weights[i]) : scaled;
    // The kernel without vectors has 1 and 0 where there are none.
    return note("weighted", "fma(scaled, weight or 1, bias or 0)", to_nearest,
                std::fma(scaled, call.weight ? call.weights[i] : 1.0F, call.bias ? call.biases[i] : 0.0F));
  };
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = element(i, nullptr);
  if (notes) y[static_cast<std::size_t>(col)] = element(static_cast<std::size_t>(col), notes);
  store_row(call.result.out, row, y);
  store_row(call.result.rstd, row, std::span(&scale.rstd, 1));
  if (call.result.mean) store_row(*call.result.mean, row, std::span(&scale.mean, 1));
}

Norm norm(NormCall call, int threads) {
  for_each_row(call.x.rows(), threads, [&](int row) { norm_row(call, row, 0, nullptr); });
  return std::move(call.result);
}

OperatorTrace trace_norm(NormCall call, int row, int col) {
  return trace_of(call.rms ? "rms_norm" : "layer_norm", call.result.out, row, col,
                  [&](Notes& notes) { norm_row(call, row, col, &notes); });
}

}  // namespace

Norm layer_norm(const Matrix& x, const Matrix* weight, const Matrix* bias, float eps, int threads) {
  return norm(call_of(x, weight, bias, eps, false), threads);
}
Norm rms_norm(const Matrix& x, const Matrix* weight, float eps, int threads) {
  return norm(call_of(x, weight, nullptr, eps, true), threads);
}
OperatorTrace trace_layer_norm(const Matrix& x, const Matrix* weight, const Matrix* bias, float eps, int row, int col) {
  return trace_norm(call_of(x, weight, bias, eps, false), row, col);
}
OperatorTrace trace_rms_norm(const Matrix& x, const Matrix* weight, float eps, int row, int col) {
  return trace_norm(call_of(x, weight, nullptr, eps, true), row, col);
}

}  // namespace bitmma
