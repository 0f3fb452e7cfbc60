// Sums of a block as the kernels of data/kernels/cuda.cu add them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "bitmma/core/random.hpp"

namespace bitmma::test {

inline uint32_t word(float x) { return std::bit_cast<uint32_t>(x); }
inline float real(uint64_t word) { return std::bit_cast<float>(static_cast<uint32_t>(word)); }

inline std::vector<float> random_floats(size_t count, uint64_t seed) {
  RandomStream random(seed, 0);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random.word())) * 0x1p-29F;
  return values;
}

/// The sums of a butterfly of 32 lanes; all lanes hold the same bits.
inline float butterfly(std::array<float, 32> lanes) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const std::array<float, 32> before = lanes;
    for (int lane = 0; lane < 32; ++lane)
      lanes[static_cast<size_t>(lane)] = before[static_cast<size_t>(lane)] + before[static_cast<size_t>(lane ^ offset)];
  }
  return lanes[0];
}

/// all_sum of cuda.cu: butterflies, then the warps in their order.
inline float sum_of_block(const std::vector<float>& of_thread) {
  float sum = 0;
  for (size_t first = 0; first < of_thread.size(); first += 32) {
    std::array<float, 32> lanes;
    std::copy_n(of_thread.begin() + static_cast<std::ptrdiff_t>(first), 32, lanes.begin());
    sum = sum + butterfly(lanes);
  }
  return sum;
}

inline std::vector<uint32_t> words_of(const std::vector<float>& values) {
  std::vector<uint32_t> words(values.size());
  std::ranges::transform(values, words.begin(), word);
  return words;
}

}  // namespace bitmma::test
