// SPDX-License-Identifier: MIT
// layer_norm_kernel.cu of PyTorch 2.11, as nvcc joins its products and sums (SASS for sm_90).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bitmma/core/error.hpp"
#include "bitmma/math/c_function.hpp"
#include "row_lanes.hpp"

namespace bitmma {
namespace {

using namespace operators;

/// Welford's moments of some numbers.
struct Moments {
  float mean = 0, squares = 0, count = 0;
};

float rsqrt_of(float x) {
  static const CFunction& rsqrtf = parse_c_function("rsqrtf@cuda_13");
  return value(compute(rsqrtf, word(x)));
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

Scale vectorized(std::span<const float> x, float eps, bool rms) {
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
        const float one = x[first + 4 * thread + place];
        if (rms) {
          own.squares = std::fma(one, one, own.squares);
          continue;
        }
        const float delta = one - own.mean;
        own.count = count;
        own.mean = std::fma(delta, inverse, own.mean);
        own.squares = std::fma(delta, one - own.mean, own.squares);
      }
    }
  }
  const auto join = [&](const Moments& own, const Moments& other) {
    return rms ? Moments{.squares = own.squares + other.squares} : joined(own, other);
  };
  std::array<Moments, vector_threads / 32> warps;
  for (std::size_t warp = 0; warp < warps.size(); ++warp)
    warps[warp] = shuffle_down(std::span(threads).subspan(32 * warp, 32), 32, join);
  const Moments all = shuffle_down(std::span<Moments>(warps), warps.size(), join);
  return {.mean = all.mean, .rstd = rsqrt_of(all.squares / static_cast<float>(x.size()) + eps)};
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

Scale by_moments(std::span<const float> x, float eps, bool rms) {
  std::array<Moments, moments_threads> threads{};
  for (std::size_t i = 0; i < x.size(); ++i) {
    Moments& own = threads[i % moments_threads];
    const float delta = x[i] - own.mean;
    own.count += 1;
    own.mean = own.mean + delta / own.count;
    own.squares = std::fma(delta, x[i] - own.mean, own.squares);
  }
  const Moments all = block_reduce(std::span<Moments>(threads), welford_joined, Moments{});
  const float variance = all.squares / all.count;
  return {.mean = all.mean, .rstd = rsqrt_of((rms ? std::fma(all.mean, all.mean, variance) : variance) + eps)};
}

void require_like(std::string_view name, const Matrix* weight, const Matrix& x) {
  if (weight && (weight->format() != x.format() || weight->rows() != 1 || weight->cols() != x.cols()))
    throw Error({.field = std::string(name),
                 .seen = fmt::format("{} x {} of {}", weight->rows(), weight->cols(), info(weight->format()).name),
                 .expected = fmt::format("1 x {} of {}, as x", x.cols(), info(x.format()).name)});
}

Norm norm(const Matrix& x, const Matrix* weight, const Matrix* bias, float eps, bool rms, int threads) {
  require_floats("x", x);
  require_like("weight", weight, x);
  require_like("bias", bias, x);
  if (bias && !weight)
    throw Error({.field = "bias",
                 .seen = "no weight",
                 .expected = "a weight with the bias: a bias without a weight was not measured"});
  const std::vector<float> weights = weight ? row_of(*weight, 0) : std::vector<float>{},
                           biases = bias ? row_of(*bias, 0) : std::vector<float>{};
  const bool in_vectors = x.cols() % 4 == 0 && x.cols() <= 1 << 24;
  Norm result{.out = Matrix(x.format(), x.rows(), x.cols()), .rstd = Matrix(Format::f32, x.rows(), 1)};
  if (!rms) result.mean = Matrix(Format::f32, x.rows(), 1);
  for_each_row(x.rows(), threads, [&](int row) {
    std::vector<float> y = row_of(x, row);
    const Scale scale = in_vectors ? vectorized(y, eps, rms) : by_moments(y, eps, rms);
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = scale.rstd * (rms ? y[i] : y[i] - scale.mean);
      if (rms || (in_vectors && !bias)) {
        if (weight) y[i] *= weights[i];
      } else {  // the kernel without vectors has 1 and 0 where there are none
        y[i] = std::fma(y[i], weight ? weights[i] : 1.0F, bias ? biases[i] : 0.0F);
      }
    }
    store_row(result.out, row, y);
    store_row(result.rstd, row, std::span(&scale.rstd, 1));
    if (result.mean) store_row(*result.mean, row, std::span(&scale.mean, 1));
  });
  return result;
}

}  // namespace

Norm layer_norm(const Matrix& x, const Matrix* weight, const Matrix* bias, float eps, int threads) {
  return norm(x, weight, bias, eps, false, threads);
}
Norm rms_norm(const Matrix& x, const Matrix* weight, float eps, int threads) {
  return norm(x, weight, nullptr, eps, true, threads);
}

}  // namespace bitmma
