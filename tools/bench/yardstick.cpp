// SPDX-License-Identifier: MIT
#include "yardstick.hpp"

#include <benchmark/benchmark.h>

#include <Eigen/Core>
#include <cmath>

namespace bitmma {

struct PlainIntegerProduct::Matrices {
  using Matrix = Eigen::Array<int32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Matrix a, b, d;
};

PlainIntegerProduct::PlainIntegerProduct(int m, int n, int k)
    : matrices_(new Matrices{.a = Matrices::Matrix::Random(m, k),
                             .b = Matrices::Matrix::Random(k, n),
                             .d = Matrices::Matrix::Zero(m, n)}) {}
PlainIntegerProduct::~PlainIntegerProduct() { delete matrices_; }

void PlainIntegerProduct::run() {
  auto& [a, b, d] = *matrices_;
  for (Eigen::Index row = 0; row < a.rows(); ++row) {
    for (Eigen::Index k = 0; k < a.cols(); ++k) {
      const auto factor = static_cast<uint32_t>(a(row, k));
      const int32_t* const of_b = &b(k, 0);
      int32_t* const of_d = &d(row, 0);
      for (Eigen::Index col = 0; col < b.cols(); ++col)
        of_d[col] = static_cast<int32_t>(static_cast<uint32_t>(of_d[col]) + factor * static_cast<uint32_t>(of_b[col]));
    }
  }
  benchmark::DoNotOptimize(d.data());
  benchmark::ClobberMemory();
}

void exp2_of_c(const float* words, float* results, int64_t count) {
  for (int64_t i = 0; i < count; ++i) results[i] = std::exp2(words[i]);
}
void reciprocal_of_c(const float* words, float* results, int64_t count) {
  for (int64_t i = 0; i < count; ++i) results[i] = 1 / words[i];
}
void reciprocal_root_of_c(const float* words, float* results, int64_t count) {
  for (int64_t i = 0; i < count; ++i) results[i] = 1 / std::sqrt(words[i]);
}

}  // namespace bitmma
