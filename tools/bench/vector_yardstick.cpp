// SPDX-License-Identifier: MIT
// Compiled with -ffast-math, which lets g++ call glibc's libmvec.
#include <cmath>

#include "yardstick.hpp"

namespace bitmma {

void exp2_of_vectors(const float* words, float* results, int64_t count) {
  for (int64_t i = 0; i < count; ++i) results[i] = std::exp2(words[i]);
}
void reciprocal_of_vectors(const float* words, float* results, int64_t count) {
  for (int64_t i = 0; i < count; ++i) results[i] = 1 / words[i];
}
void reciprocal_root_of_vectors(const float* words, float* results, int64_t count) {
  for (int64_t i = 0; i < count; ++i) results[i] = 1 / std::sqrt(words[i]);
}

}  // namespace bitmma
