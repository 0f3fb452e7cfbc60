// SPDX-License-Identifier: MIT
// The yardstick: Eigen's float product, compiled for the measuring processor, in its own file so that no other code
// is.
#pragma once

#include <cstdint>

namespace bitmma {

/// The processor that a yardstick is compiled for: the measuring one, or one with AVX2 and no AVX-512.
enum class BuiltFor : uint8_t { native, avx2 };

/// D = A * B + D for floats, m x k times k x n, repeatedly.
template <BuiltFor>
class [[gnu::visibility("default")]] EigenProduct {
 public:
  EigenProduct(int m, int n, int k);
  ~EigenProduct();
  EigenProduct(const EigenProduct&) = delete;
  EigenProduct& operator=(const EigenProduct&) = delete;
  void run();

 private:
  struct Matrices;
  Matrices* matrices_;
};
extern template class EigenProduct<BuiltFor::native>;
extern template class EigenProduct<BuiltFor::avx2>;

/// The same for int32, with a plain triple loop over rows: what a compiler makes of an integer product.
class [[gnu::visibility("default")]] PlainIntegerProduct {
 public:
  PlainIntegerProduct(int m, int n, int k);
  ~PlainIntegerProduct();
  PlainIntegerProduct(const PlainIntegerProduct&) = delete;
  PlainIntegerProduct& operator=(const PlainIntegerProduct&) = delete;
  void run();

 private:
  struct Matrices;
  Matrices* matrices_;
};

/// results[i] for words[i], as floats: C's function, called one by one, compiled without -ffast-math.
[[gnu::visibility("default")]] void exp2_of_c(const float* words, float* results, int64_t count);
[[gnu::visibility("default")]] void reciprocal_of_c(const float* words, float* results, int64_t count);
[[gnu::visibility("default")]] void reciprocal_root_of_c(const float* words, float* results, int64_t count);
/// The same with -ffast-math: glibc's vector library, libmvec, and the processor's approximate instructions.
[[gnu::visibility("default")]] void exp2_of_vectors(const float* words, float* results, int64_t count);
[[gnu::visibility("default")]] void reciprocal_of_vectors(const float* words, float* results, int64_t count);
[[gnu::visibility("default")]] void reciprocal_root_of_vectors(const float* words, float* results, int64_t count);

}  // namespace bitmma
