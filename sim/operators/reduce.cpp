// SPDX-License-Identifier: MIT
// Reduce.cuh of PyTorch 2.11: how setReduceConfig spreads a reduction over threads and blocks, and the order in which
// reduce_kernel adds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bitmma/core/error.hpp"
#include "row_lanes.hpp"

namespace bitmma {
namespace {

using namespace operators;

constexpr int64_t most_threads = 512, warp = 32;

int64_t power_below(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

/// Threads of a block along x and y, blocks of an output, and whether each of them shares one output's elements.
struct Spread {
  int64_t width = 1, height = 1, blocks = 1;
  bool x_reduces = false, y_reduces = false;
  int64_t vector = 0;  // elements that a thread loads at once; 0: one after the other

  int64_t x() const { return x_reduces ? width : 1; }
  int64_t y() const { return y_reduces ? height : 1; }
  int64_t threads() const { return x() * y() * blocks; }
};

Spread spread_of(int64_t outputs, int64_t inputs, bool is_contiguous, int64_t vector, int64_t multiprocessors) {
  Spread spread;
  const bool fast = inputs == 1 ? outputs == 1 : is_contiguous || outputs == 1;
  int64_t dim0 = fast ? inputs : outputs, together = 1;
  const int64_t dim1 = fast ? outputs : inputs;
  if (fast) {
    if (dim0 >= 128) spread.vector = vector, dim0 /= vector;
  } else {
    together = 4;  // outputs of a thread
    while (outputs % together != 0) together /= 2;
    dim0 /= together;
  }
  const int64_t most = most_threads / together;
  const int64_t power0 = dim0 < most ? power_below(dim0) : most, power1 = dim1 < most ? power_below(dim1) : most;
  spread.width = std::min(power0, warp);
  spread.height = std::min(power1, most / spread.width);
  spread.width = std::min(power0, most / spread.height);
  spread.x_reduces = fast;
  int64_t outputs_of_block = fast ? 1 : spread.width;
  const int64_t values = ceil_div(inputs, spread.x());
  if (values >= std::min<int64_t>(spread.height * 16, 256)) spread.y_reduces = true;
  else outputs_of_block *= spread.height;
  const int64_t values_of_thread = ceil_div(inputs, spread.x() * spread.y());
  const int64_t target = multiprocessors * (2048 / (spread.width * spread.height));
  const int64_t grid = ceil_div(outputs / together, outputs_of_block);
  if (spread.y_reduces && values_of_thread >= 256 && grid <= target)
    spread.blocks =
        std::max(std::min(ceil_div(target, grid), ceil_div(values_of_thread, 16)), ceil_div(values_of_thread, 256));
  return spread;
}

/// Accumulators of a thread that does not load vectors.
constexpr int64_t plain_accumulators = 4;

/// The result of one output. `shift`: elements between the last address that is a multiple of a vector and the first.
template <typename Op>
float reduced(std::span<const float> x, const Spread& spread, int64_t shift, float identity, const Op& op) {
  const int64_t threads = spread.threads(), count = std::ssize(x);
  const int64_t each = spread.vector > 0 ? spread.vector : plain_accumulators;
  std::vector<float> sums(static_cast<std::size_t>(threads * each), identity);
  const auto take = [&](int64_t accumulator, int64_t thread, int64_t i) {
    float& sum = sums[static_cast<std::size_t>(accumulator * threads + thread)];
    sum = op(sum, x[static_cast<std::size_t>(i)]);
  };
  // Elements [first, last), one after the other: `width` of a thread, each for an accumulator of its own.
  const auto take_rounds = [&](int64_t first, int64_t last, int64_t width) {
    for (; first < last; first += threads * width) {
      const int64_t busy = std::min(threads, (last - first) / width);
      for (int64_t thread = 0; thread < busy; ++thread) {
        for (int64_t place = 0; place < width; ++place) take(place, thread, first + thread * width + place);
      }
    }
  };
  if (spread.vector > 0) {
    const int64_t head = shift == 0 ? 0 : spread.vector - shift;
    const int64_t tail = count - (count - head) % spread.vector;
    for (int64_t i = 0; i < head; ++i) take(0, shift + i, i);
    take_rounds(head, tail, spread.vector);
    for (int64_t i = tail; i < count; ++i) take(0, i - tail, i);
  } else {
    int64_t accumulator = 0;
    for (int64_t first = 0; first < count; first += threads, accumulator = (accumulator + 1) % plain_accumulators) {
      for (int64_t i = first; i < std::min(first + threads, count); ++i) take(accumulator, i - first, i);
    }
  }
  for (int64_t accumulator = 1; accumulator < each; ++accumulator) {
    for (int64_t i = 0; i < threads; ++i) {
      float& sum = sums[static_cast<std::size_t>(i)];
      sum = op(sum, sums[static_cast<std::size_t>(accumulator * threads + i)]);
    }
  }
  // Threads of a block along x, then along y; then the blocks, over the threads of the last one.
  const auto x_count = static_cast<std::size_t>(spread.x()), y_count = static_cast<std::size_t>(spread.y());
  std::vector<float> blocks(static_cast<std::size_t>(spread.blocks));
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    std::vector<float> rows(y_count);
    for (std::size_t y = 0; y < y_count; ++y)
      rows[y] = shuffle_down(std::span(sums).subspan((block * y_count + y) * x_count, x_count), x_count, op);
    blocks[block] = shuffle_down(std::span<float>(rows), y_count, op);
  }
  if (blocks.size() == 1) return blocks[0];
  const auto height = static_cast<std::size_t>(spread.height);
  std::vector<float> last(height * x_count, identity);
  for (std::size_t i = 0; i < blocks.size(); ++i) last[i % last.size()] = op(last[i % last.size()], blocks[i]);
  std::vector<float> columns(x_count), column(height);
  for (std::size_t at = 0; at < x_count; ++at) {
    for (std::size_t y = 0; y < height; ++y) column[y] = last[y * x_count + at];
    columns[at] = shuffle_down(std::span<float>(column), height, op);
  }
  return shuffle_down(std::span<float>(columns), x_count, op);
}

/// Of equal numbers the second; a NaN wins.
float larger(float a, float b) { return a != a || a > b ? a : b; }

/// A NaN that row_of widened, as it was.
uint32_t code_of_nan(Format format, uint32_t word) {
  if (format == Format::f32) return word;
  if (format == Format::bf16) return word >> 16;
  return (word >> 16 & 0x8000) | 0x7C00 | (word >> 13 & 0x3FF);
}

int first_largest(std::span<const float> x) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < x.size() && x[best] == x[best]; ++i) {
    if (x[i] != x[i] || x[i] > x[best]) best = i;
  }
  return static_cast<int>(best);
}

}  // namespace

Matrix reduce(const Matrix& given, const ReduceOptions& options) {
  require_floats("x", given);
  const bool over_rows = options.over_rows;
  const Matrix turned = over_rows ? transposed(given) : Matrix();
  const Matrix& x = over_rows ? turned : given;
  const RowsOf of = over_rows ? RowsOf{} : options.of;
  require_rows(of, x);
  if (options.multiprocessors < 1)
    throw Error({.field = "multiprocessors", .seen = std::to_string(options.multiprocessors), .expected = "1 or more"});
  const bool adds = options.what == RowReduction::sum || options.what == RowReduction::mean;
  const int64_t bytes = x.format() == Format::f32 ? 4 : 2;
  const int64_t vector = adds && bytes == 2 ? 8 : 4, outputs = std::max<int64_t>(of.whole, x.rows());
  const Spread spread = spread_of(outputs, x.cols(), !over_rows, vector, options.multiprocessors);
  const bool is_index = options.what == RowReduction::argmax;
  const Format to = options.to.value_or(x.format());
  if (to != x.format() && !(adds && to == Format::f32))
    throw Error({.field = "type of the result",
                 .seen = std::string(info(to).name),
                 .expected = "the type of x, or f32 for a sum or mean"});
  Matrix out(is_index ? Format::s32 : to, x.rows(), 1);
  for_each_row(x.rows(), options.threads, [&](int row) {
    const std::vector<float> values = row_of(x, row);
    if (is_index) {
      out(row, 0) = static_cast<uint32_t>(first_largest(values));
      return;
    }
    const int64_t shift = misalignment(number_of(of, row), x.cols(), bytes, vector * bytes) / bytes;
    float result = adds ? reduced(values, spread, shift, 0, add)
                        : reduced(values, spread, shift, -std::numeric_limits<float>::infinity(), larger);
    if (options.what == RowReduction::mean)
      result *= static_cast<float>(outputs) / static_cast<float>(outputs * x.cols());
    store_row(out, row, std::span(&result, 1));
    if (options.what == RowReduction::amax && result != result) out(row, 0) = code_of_nan(x.format(), word(result));
  });
  return out;
}

}  // namespace bitmma
