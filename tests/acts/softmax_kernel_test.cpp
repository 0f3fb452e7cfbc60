// A kernel that nvcc compiled, against the C function that it calls.
#include <algorithm>
#include <vector>

#include "bitmma/kernel/kernel.hpp"
#include "bitmma/operators/c_function.hpp"
#include "kernel/block_sums.hpp"
#include "kernel/run_kernel.hpp"
#include "support/catch.hpp"

using namespace bitmma;
using test::kernel_of_data;
using test::memory;
using test::number;
using test::random_floats;
using test::real;
using test::sum_of_block;
using test::word;
using test::words_of;

TEST_CASE("a softmax gives C's expf as nvcc compiles it, added in the kernel's order, and divided as IEEE 754 does") {
  constexpr int threads = 128, cols = 300, rows = 2;
  std::vector<float> x = random_floats(rows * cols, 5), y(x.size());
  launch(kernel_of_data("cuda.ptx", "softmax"),
         {.grid = {rows, 1, 1}, .block = {threads, 1, 1}, .arguments = {memory(x), memory(y), number(cols)}});
  const CFunction& expf = parse_c_function("expf@cuda_13");
  std::vector<float> expected;
  for (int row = 0; row < rows; ++row) {
    const float* const values = x.data() + row * cols;
    const float most = *std::max_element(values, values + cols);
    std::vector<float> of_thread(threads);
    for (int i = 0; i < cols; ++i) {
      float& sum = of_thread[static_cast<size_t>(i % threads)];
      sum = sum + real(compute(expf, word(values[i] - most)));
    }
    const float sum = sum_of_block(of_thread);
    for (int i = 0; i < cols; ++i) expected.push_back(real(compute(expf, word(values[i] - most))) / sum);
  }
  CHECK(words_of(y) == words_of(expected));
}
