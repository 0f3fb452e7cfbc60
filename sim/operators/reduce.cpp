// SPDX-License-Identifier: MIT
// Reduce.cuh of PyTorch 2.11: how setReduceConfig spreads a reduction over threads and blocks, and the order in which
// reduce_kernel adds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "bitmma/core/error.hpp"
#include "bitmma/core/text.hpp"
#include "row_lanes.hpp"

namespace bitmma {
namespace {

using namespace operators;

constexpr std::array<std::string_view, 4> reduction_names{"sum", "mean", "amax", "argmax"};  // in the enum's order

constexpr int64_t most_threads = 512, warp = 32;

int64_t largest_power_of_2(int64_t n) {
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
  const int64_t power0 = dim0 < most ? largest_power_of_2(dim0) : most,
                power1 = dim1 < most ? largest_power_of_2(dim1) : most;
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

/// Which elements the accumulators take, in words.
std::string print_share(const Spread& spread, int64_t shift, int64_t count) {
  const int64_t threads = spread.threads(), width = std::max<int64_t>(spread.vector, 1);
  if (spread.vector == 0)
    return fmt::format("accumulator a of thread i, at place {} a + i, takes elements {} a + i, then {} further, ...",
                       threads, threads, plain_accumulators * threads);
  const int64_t head = shift == 0 ? 0 : width - shift, tail = count - (count - head) % width;
  std::string text;
  if (head > 0) text += fmt::format("elements 0..{} one a thread, from thread {} on; ", head - 1, shift);
  text +=
      fmt::format("accumulator a of thread i, at place {} a + i, takes elements {} + {} i + a, then {} further, ...",
                  threads, head, width, threads * width);
  if (tail < count) text += fmt::format("; elements {}..{} one a thread", tail, count - 1);
  return text;
}

/// The result of one output. `shift`: elements between the last address that is a multiple of a vector and the first.
template <typename Op>
float reduced(std::span<const float> x, const Spread& spread, int64_t shift, float identity, const Op& op,
              Notes* notes) {
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
  if (notes) {
    notes->add("accumulators", print_share(spread, shift, count), notes->join_rounding(), words_of(sums));
  }
  for (int64_t accumulator = 1; accumulator < each; ++accumulator) {
    for (int64_t i = 0; i < threads; ++i) {
      float& sum = sums[static_cast<std::size_t>(i)];
      sum = op(sum, sums[static_cast<std::size_t>(accumulator * threads + i)]);
    }
  }
  if (notes)
    note_joined(*notes, "threads", fmt::format("the {} accumulators of a thread, in order", each),
                std::span<const float>(sums).first(static_cast<std::size_t>(threads)));
  // Threads of a block along x, then along y; then the blocks, over the threads of the last one.
  const auto x_count = static_cast<std::size_t>(spread.x()), y_count = static_cast<std::size_t>(spread.y());
  std::vector<float> blocks(static_cast<std::size_t>(spread.blocks));
  Notes* const of_block = blocks.size() == 1 ? notes : nullptr;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    std::vector<float> rows(y_count);
    for (std::size_t y = 0; y < y_count; ++y)
      rows[y] = shuffle_down(std::span(sums).subspan((block * y_count + y) * x_count, x_count), x_count, op,
                             y_count == 1 ? of_block : nullptr);
    if (of_block && y_count > 1)
      note_joined(*notes, "rows", fmt::format("the {} threads of each row of the block, by halves", x_count),
                  std::span<const float>(rows));
    blocks[block] = shuffle_down(std::span<float>(rows), y_count, op, of_block);
  }
  if (blocks.size() == 1) return blocks[0];
  if (notes)
    note_joined(*notes, "blocks", fmt::format("the {} threads of each, rows first, by halves", x_count * y_count),
                std::span<const float>(blocks));
  const auto height = static_cast<std::size_t>(spread.height);
  std::vector<float> last(height * x_count, identity);
  for (std::size_t i = 0; i < blocks.size(); ++i) last[i % last.size()] = op(last[i % last.size()], blocks[i]);
  if (notes)
    note_joined(*notes, "last block", fmt::format("thread i joins blocks i, i + {}, ...", last.size()),
                std::span<const float>(last));
  std::vector<float> columns(x_count), column(height);
  for (std::size_t at = 0; at < x_count; ++at) {
    for (std::size_t y = 0; y < height; ++y) column[y] = last[y * x_count + at];
    columns[at] = shuffle_down(std::span<float>(column), height, op);
  }
  if (notes && height > 1)
    note_joined(*notes, "columns", fmt::format("the {} threads of each column of the last block, by halves", height),
                std::span<const float>(columns));
  return shuffle_down(std::span<float>(columns), x_count, op, notes);
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

/// A reduction of checked arguments.
class Reduction {
 public:
  Reduction(const Matrix& matrix, const ReduceOptions& options)
      : options_(options),
        turned_(options.over_rows ? transposed(matrix) : Matrix()),
        x_(options.over_rows ? turned_ : matrix) {
    require_floats("x", matrix);
    if (options.over_rows) options_.of = {};
    require_rows(options_.of, x_);
    if (options.multiprocessors < 1)
      throw Error(
          {.field = "multiprocessors", .seen = std::to_string(options.multiprocessors), .expected = "1 or more"});
    const Format to = options.to.value_or(x_.format());
    if (to != x_.format() && !(adds() && to == Format::f32))
      throw Error({.code = ViolationCode::wrong_type,
                   .field = "type of the result",
                   .seen = std::string(info(to).name),
                   .expected = "that of x, or f32 of a sum or mean"});
    bytes_ = x_.format() == Format::f32 ? 4 : 2;
    vector_ = adds() && bytes_ == 2 ? 8 : 4, outputs_ = std::max<int64_t>(options_.of.whole, x_.rows());
    spread_ = spread_of(outputs_, x_.cols(), !options.over_rows, vector_, options.multiprocessors);
    out = Matrix(options.what == RowReduction::argmax ? Format::s32 : to, x_.rows(), 1);
  }
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  void compute(int row, Notes* notes) {
    const std::vector<float> values = row_of(x_, row);
    if (options_.what == RowReduction::argmax) {
      out(row, 0) = static_cast<uint32_t>(first_largest(values));
      if (notes)
        notes->add("largest", fmt::format("the first NaN, or the first largest of {} elements", values.size()),
                   is_exact, words_of(values[out(row, 0)]));
      return;
    }
    if (notes) {
      notes->choose("kernel", fmt::format("reduce_kernel, {} x {} threads, {}", spread_.width, spread_.height,
                                          counted(spread_.blocks, "block")));
      notes->join_by(adds() ? "a + b" : "a if a is NaN or a > b, else b", adds() ? to_nearest : is_exact);
    }
    const int64_t shift = misalignment(number_of(options_.of, row), x_.cols(), bytes_, vector_ * bytes_) / bytes_;
    float result = adds() ? reduced(values, spread_, shift, 0, add, notes)
                          : reduced(values, spread_, shift, -std::numeric_limits<float>::infinity(), larger, notes);
    if (notes) notes->add(adds() ? "sum" : "largest", "what the joins leave", is_exact, words_of(result));
    if (options_.what == RowReduction::mean) {
      const float factor = static_cast<float>(outputs_) / static_cast<float>(outputs_ * x_.cols());
      result *= factor;
      if (notes) {
        notes->add("factor", fmt::format("{} / {}", outputs_, outputs_ * x_.cols()), each_to_nearest, words_of(factor));
        notes->add("mean", "sum * factor", to_nearest, words_of(result));
      }
    }
    store_row(out, row, std::span(&result, 1));
    if (options_.what == RowReduction::amax && result != result) out(row, 0) = code_of_nan(x_.format(), word(result));
  }

 private:
  bool adds() const { return options_.what == RowReduction::sum || options_.what == RowReduction::mean; }

  ReduceOptions options_;
  Matrix turned_;
  const Matrix& x_;  // each row gives one output
  int64_t bytes_ = 4, vector_ = 4, outputs_ = 1;
  Spread spread_;

 public:
  Matrix out;
};

}  // namespace

std::string_view print(RowReduction what) { return reduction_names[static_cast<std::size_t>(what)]; }

RowReduction parse_row_reduction(std::string_view name) {
  const auto row = std::ranges::find(reduction_names, name);
  if (row == reduction_names.end())
    throw Error({.field = "reduction",
                 .seen = shortened(name),
                 .expected = fmt::format("{}", fmt::join(reduction_names, ", "))});
  return static_cast<RowReduction>(row - reduction_names.begin());
}

Matrix reduce(const Matrix& x, const ReduceOptions& options) {
  Reduction reduction(x, options);
  for_each_row(reduction.out.rows(), options.threads, [&](int row) { reduction.compute(row, nullptr); });
  return std::move(reduction.out);
}

OperatorTrace trace_reduce(const Matrix& x, const ReduceOptions& options, int output) {
  Reduction reduction(x, options);
  require_place("output", output, reduction.out.rows());
  OperatorTrace trace =
      trace_of(print(options.what), reduction.out, output, 0, [&](Notes& notes) { reduction.compute(output, &notes); });
  trace.output = {output};
  return trace;
}

}  // namespace bitmma
