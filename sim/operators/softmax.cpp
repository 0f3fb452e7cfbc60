// SPDX-License-Identifier: MIT
// PersistentSoftmax.cuh and SoftMax.cu of PyTorch 2.11. Every kernel subtracts the largest number, adds up the
// exponentials in each thread, joins the threads, and divides; they differ in which thread takes which element.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bitmma/core/error.hpp"
#include "bitmma/operators/c_function.hpp"
#include "row_lanes.hpp"

namespace bitmma {
namespace {

using namespace operators;

/// How the threads of a block share the elements of a row.
struct Threads {
  std::string_view kernel = {};
  int64_t count = 0;
  int64_t head = 0;     // elements before the first address that is a multiple of 16 bytes, one a thread
  int64_t shift = 0;    // the thread of the first of them
  int64_t vectors = 0;  // elements after those, in vectors
  int64_t width = 1;    // of a vector
};

/// Bytes of shared memory that a block has without asking for more.
constexpr int64_t shared_bytes = 49152;

Threads threads_for(int64_t cols, int64_t bytes, int64_t row, bool half_to_float) {
  const int64_t count = std::min<int64_t>(ceil_div(cols, 32) * 32, 1024), width = 16 / bytes;
  // cunn_SoftMaxForwardReg: up to nine elements a thread, in registers.
  if (!half_to_float && ceil_div(cols, count) < 10)
    return {.kernel = "cunn_SoftMaxForwardReg", .count = count, .vectors = cols};
  // cunn_SoftMaxForwardSmem.
  if (cols < (shared_bytes - count / 32 * 4) / bytes && cols % width == 0)
    return {.kernel = "cunn_SoftMaxForwardSmem", .count = count, .vectors = cols, .width = width};
  // cunn_SoftMaxForward.
  const int64_t shift = misalignment(row, cols, bytes, 16) / bytes;
  const int64_t head = shift == 0 ? 0 : count - shift, rest = cols - head;
  return {.kernel = "cunn_SoftMaxForward",
          .count = count,
          .head = head,
          .shift = shift,
          .vectors = rest - rest % (width * count),
          .width = width};
}

/// The sum of a warp's kernel: element i is of lane i mod width.
float warp_sum(std::span<const float> e, Notes* notes) {
  const std::size_t width = std::min<std::size_t>(std::bit_ceil(e.size()), 32);
  std::vector<float> lanes(width, 0);
  for (std::size_t i = 0; i < e.size(); ++i) lanes[i % width] += e[i];
  if (notes) {
    notes->choose("kernel", fmt::format("softmax_warp_forward, {} lanes", width));
    notes->add("lanes", fmt::format("lane i adds the exponentials of columns i, i + {}, ...", width), each_to_nearest,
               words_of(lanes));
    notes->join_by("a + b", to_nearest);
  }
  return shuffle_down(std::span<float>(lanes), width, add, notes);
}

/// Which exponentials a thread adds up, in words.
std::string print_share(const Threads& threads, int64_t cols) {
  const int64_t tail = threads.head + threads.vectors, step = threads.count * threads.width;
  std::string text;
  if (threads.head > 0)
    text += fmt::format("columns 0..{} one a thread, from thread {} on; ", threads.head - 1, threads.shift);
  text += threads.width == 1
              ? fmt::format("thread i adds the exponentials of columns i, i + {}, ...", step)
              : fmt::format("thread i adds those of columns {} + {} i to {} + {} i, then {} further, ...", threads.head,
                            threads.width, threads.head + threads.width - 1, threads.width, step);
  if (tail < cols) text += fmt::format("; columns {}..{} one a thread", tail, cols - 1);
  return text;
}

float block_sum(std::span<const float> e, const Threads& threads, Notes* notes) {
  const auto count = static_cast<std::size_t>(threads.count), width = static_cast<std::size_t>(threads.width),
             head = static_cast<std::size_t>(threads.head), shift = static_cast<std::size_t>(threads.shift),
             tail = head + static_cast<std::size_t>(threads.vectors);
  std::vector<float> sums(count, 0);
  for (std::size_t i = 0; i < head; ++i) sums[shift + i] += e[i];
  for (std::size_t first = head; first < tail; first += count * width) {
    const std::size_t last = std::min(tail - first, count * width) / width;
    for (std::size_t thread = 0; thread < last; ++thread) {
      for (std::size_t i = 0; i < width; ++i) sums[thread] += e[first + thread * width + i];
    }
  }
  for (std::size_t first = tail; first < e.size(); first += count) {
    for (std::size_t thread = 0; thread < std::min(count, e.size() - first); ++thread)
      sums[thread] += e[first + thread];
  }
  if (notes) {
    notes->choose("kernel", fmt::format("{}, {} threads", threads.kernel, count));
    notes->add("threads", print_share(threads, static_cast<int64_t>(e.size())), each_to_nearest, words_of(sums));
    notes->join_by("a + b", to_nearest);
  }
  return block_reduce(std::span<float>(sums), add, 0.0F, notes);
}

void all_of(const CFunction& function, std::vector<float>& values) {
  std::vector<uint32_t> words(values.size());
  std::ranges::transform(values, words.begin(), word);
  compute(function, words, {}, words);
  std::ranges::transform(words, values.begin(), value);
}

/// One row. f16 to f32 is one kernel; bf16 is copied to f32 first.
void softmax_row(const Matrix& x, const SoftmaxOptions& options, int row, Matrix& out, int col, Notes* notes) {
  static const CFunction &expf = parse_c_function("expf@cuda_13"), &logf = parse_c_function("logf@cuda_13");
  const bool half_to_float = x.format() == Format::f16 && out.format() == Format::f32;
  const int64_t bytes = (half_to_float || out.format() != Format::f32) ? 2 : 4;
  const bool is_warp = x.cols() <= (half_to_float ? 1024 : 2048);
  const auto at = static_cast<std::size_t>(col);
  const std::vector<float> values = row_of(x, row);
  float largest = is_warp ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::lowest();
  for (const float value : values) largest = std::fmax(largest, value);
  std::vector<float> e(values.size());
  std::ranges::transform(values, e.begin(), [&](float element) { return element - largest; });
  const std::vector<float> differences = options.logarithm ? e : std::vector<float>{};
  if (notes) {
    notes->add("x", fmt::format("row {}, column {}, widened to f32", row, col), is_exact, words_of(values[at]));
    notes->add("largest", fmt::format("the largest number of {} columns", x.cols()), is_exact, words_of(largest));
    notes->add("difference", "x - largest", to_nearest, words_of(e[at]));
  }
  all_of(expf, e);
  if (notes) notes->add("exponential", "expf(difference)", print(expf), words_of(e[at]));
  const float sum = is_warp
                        ? warp_sum(e, notes)
                        : block_sum(e, threads_for(x.cols(), bytes, number_of(options.of, row), half_to_float), notes);
  if (notes) notes->add("sum", "what the joins leave", is_exact, words_of(sum));
  if (options.logarithm) {
    const float logarithm = value(compute(logf, word(sum)));
    std::ranges::transform(differences, e.begin(), [&](float difference) { return difference - logarithm; });
    if (notes) notes->add("logarithm", "logf(sum)", print(logf), words_of(logarithm));
  } else {
    for (float& exponential : e) exponential = exponential / sum;
  }
  if (notes)
    notes->add(options.logarithm ? "result" : "quotient",
               options.logarithm ? "difference - logarithm" : "exponential / sum", to_nearest, words_of(e[at]));
  store_row(out, row, e);
}

/// The result, still empty, of arguments that are right.
Matrix softmax_of(const Matrix& x, const SoftmaxOptions& options) {
  require_floats("x", x);
  require_rows(options.of, x);
  const Format to = options.to.value_or(x.format());
  if (to != x.format() && to != Format::f32)
    throw Error({.code = ViolationCode::wrong_type,
                 .field = "type of the result",
                 .seen = std::string(info(to).name),
                 .expected = "that of x, or f32"});
  return Matrix(to, x.rows(), x.cols());
}

}  // namespace

Matrix softmax(const Matrix& x, const SoftmaxOptions& options) {
  Matrix out = softmax_of(x, options);
  for_each_row(x.rows(), options.threads, [&](int row) { softmax_row(x, options, row, out, 0, nullptr); });
  return out;
}

OperatorTrace trace_softmax(const Matrix& x, const SoftmaxOptions& options, int row, int col) {
  Matrix out = softmax_of(x, options);
  return trace_of(options.logarithm ? "log_softmax" : "softmax", out, row, col,
                  [&](Notes& notes) { softmax_row(x, options, row, out, col, &notes); });
}

}  // namespace bitmma
