// SPDX-License-Identifier: MIT
// What the row operators share: rows as f32, sums over the threads of a block in the order of shuffles.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "../gemm/f32.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/formats/matrix.hpp"
#include "bitmma/operators/rows.hpp"
#include "notes.hpp"

namespace bitmma::operators {

using f32::value;
inline uint32_t word(float value) { return std::bit_cast<uint32_t>(value); }

/// Throws Error for other types than f32, f16 and bf16, and for a matrix without elements.
void require_floats(std::string_view name, const Matrix& x);

/// One row, widened.
std::vector<float> row_of(const Matrix& x, int row);
/// The same, rounded to the type of `out` and stored there. A NaN becomes the type's own.
void store_row(Matrix& out, int row, std::span<const float> values);

/// The number of a row in the whole matrix.
inline int64_t number_of(const RowsOf& of, int row) {
  return of.rows.empty() ? row : of.rows[static_cast<std::size_t>(row)];
}

/// f32 words rounded to a type of f32, f16 or bf16; a NaN becomes the type's own.
void narrow(std::span<const uint32_t> from, Format format, std::span<uint32_t> to);

/// Bytes between the last address that is a multiple of `unit` bytes, a power of two, and the first of a row.
inline int64_t misalignment(int64_t row, int64_t cols, int64_t bytes, int64_t unit) {
  return row % unit * (cols % unit) * bytes % unit;
}

/// Throws Error when there are other rows than the matrix has.
void require_rows(const RowsOf& of, const Matrix& x);

/// body(row) for every row, on threads, each call inside an IeeeEnvironment.
void for_each_row(int rows, int threads, const std::function<void(int)>& body);

/// The first `width` values, a power of two, joined as `for (offset = width / 2; offset > 0; offset /= 2)
/// v = op(v, shfl_down(v, offset))` leaves them in the first.
template <typename T, typename Op>
T shuffle_down(std::span<T> values, std::size_t width, const Op& op, Notes* notes = nullptr) {
  for (std::size_t half = width / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) values[i] = op(values[i], values[i + half]);
    if (notes)
      note_joined(*notes, fmt::format("offset {}", half), fmt::format("lane i with lane i + {}", half),
                  std::span<const T>(values.first(half)));
  }
  return values[0];
}

/// cuda_utils::BlockReduce: every warp, then the first warp over the results, with `identity` for warps that are not
/// there.
template <typename T, typename Op>
T block_reduce(std::span<T> threads, const Op& op, const T& identity, Notes* notes = nullptr) {
  std::vector<T> warps(32, identity);
  for (std::size_t warp = 0; 32 * warp < threads.size(); ++warp)
    warps[warp] = shuffle_down(threads.subspan(32 * warp, 32), 32, op);
  if (notes) note_joined(*notes, "warps", each_warp, std::span<const T>(warps));
  return shuffle_down(std::span<T>(warps), 32, op, notes);
}

inline float add(float a, float b) { return a + b; }

}  // namespace bitmma::operators
