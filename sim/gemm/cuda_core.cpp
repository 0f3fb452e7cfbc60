// SPDX-License-Identifier: MIT
// This file and gemm.cpp alone add with the host's f32; both are compiled without contraction (CMakeLists.txt).
#include "cuda_core.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "../core/cpu_level.hpp"
#include "f32.hpp"

namespace bitmma {
namespace {

/// The f32 value of every f16 code.
const std::vector<float>& f16_values() {
  static const std::vector<float> values = [] {
    std::vector<float> all(1 << 16);
    for (uint32_t code = 0; code < all.size(); ++code)
      all[code] = f32::value(
          static_cast<uint32_t>(convert(Format::f16, code, Format::f32, Rounding::nearest_even, Overflow::infinity)));
    return all;
  }();
  return values;
}

float float_of(Format format, uint32_t code) {
  if (format == Format::f16) return f16_values()[code];
  return f32::value(format == Format::bf16 ? code << 16 : code);
}

using Sums = std::vector<float>;  // one row of D

/// sums[i] = fma(factor, line[i], sums[i])
using AddProducts = void (*)(float factor, const float* __restrict line, float* __restrict sums, size_t count);
#define BITMMA_ADD_PRODUCTS(space, target)                                                                     \
  namespace space {                                                                                            \
  target void add_products(float factor, const float* __restrict line, float* __restrict sums, size_t count) { \
    for (size_t i = 0; i < count; ++i) sums[i] = __builtin_fmaf(factor, line[i], sums[i]);                     \
  }                                                                                                            \
  }
BITMMA_AT_CPU_LEVELS(BITMMA_ADD_PRODUCTS)
constexpr std::array<AddProducts, cpu_levels.size()> add_products{v4::add_products, v3::add_products,
                                                                  baseline::add_products};

void add(Sums& to, const Sums& from) {
  for (size_t col = 0; col < to.size(); ++col) to[col] += from[col];
}

/// Reduces the lanes' sums to their total.
Sums joined(std::vector<Sums> lanes, LaneJoin join) {
  if (join == LaneJoin::ascending) {
    for (size_t lane = 1; lane < lanes.size(); ++lane) add(lanes.front(), lanes[lane]);
    return std::move(lanes.front());
  }
  while (lanes.size() > 1) {
    const size_t half = lanes.size() / 2;
    for (size_t lane = 0; lane < half; ++lane) {
      if (join == LaneJoin::neighbours && lane > 0) lanes[lane] = std::move(lanes[2 * lane]);
      add(lanes[lane], lanes[join == LaneJoin::neighbours ? 2 * lane + 1 : lane + half]);
    }
    lanes.resize(half);
  }
  return std::move(lanes.front());
}

}  // namespace

uint32_t cuda_core_factor(Format format, uint32_t code) { return std::bit_cast<uint32_t>(float_of(format, code)); }

Matrix cuda_core_sums(const CudaCoreChain& lanes, const Matrix& a, const Matrix& b) {
  const int rows = a.rows(), cols = b.cols(), k_count = a.cols();
  std::vector<float> of_b(static_cast<size_t>(k_count) * static_cast<size_t>(cols));
  for (int k = 0; k < k_count; ++k) {
    for (int col = 0; col < cols; ++col) of_b[static_cast<size_t>(k) * cols + col] = float_of(b.format(), b(k, col));
  }
  const int tile = lanes.count * lanes.vector, tiles = (k_count + tile - 1) / tile,
            chunk = lanes.chunk == 0 ? std::max(tiles, 1) : lanes.chunk;
  Matrix sums(Format::f32, rows, cols);
  for (int row = 0; row < rows; ++row) {
    std::vector<Sums> totals;
    for (int lane = 0; lane < lanes.count; ++lane) {
      Sums total(static_cast<size_t>(cols));
      for (int begin = 0; begin < tiles; begin += chunk) {
        Sums chain(static_cast<size_t>(cols));
        for (int t = begin; t < std::min(tiles, begin + chunk); ++t) {
          const int from = t * tile + lane * lanes.vector;
          for (int k = from; k < std::min(k_count, from + lanes.vector); ++k) {
            const float factor = float_of(a.format(), a(row, k));
            const float* const line = of_b.data() + static_cast<size_t>(k) * cols;
            at_cpu_level(add_products)(factor, line, chain.data(), chain.size());
          }
        }
        if (begin == 0) total = std::move(chain);
        else add(total, chain);
      }
      totals.push_back(std::move(total));
    }
    const Sums sum = joined(std::move(totals), lanes.join);
    for (int col = 0; col < cols; ++col) sums(row, col) = f32::code(sum[static_cast<size_t>(col)]);
  }
  return sums;
}

}  // namespace bitmma
