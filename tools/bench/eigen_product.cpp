// SPDX-License-Identifier: MIT
// Compiled twice, for the processors of BuiltFor.
#include <benchmark/benchmark.h>

#include <Eigen/Core>

#include "yardstick.hpp"

namespace bitmma {

#ifdef BITMMA_YARDSTICK_AVX2
constexpr BuiltFor built_for = BuiltFor::avx2;
#else
constexpr BuiltFor built_for = BuiltFor::native;
#endif

template <>
struct EigenProduct<built_for>::Matrices {
  Eigen::MatrixXf a, b, d;
};

template <BuiltFor processor>
EigenProduct<processor>::EigenProduct(int m, int n, int k)
    : matrices_(new Matrices{
          .a = Eigen::MatrixXf::Random(m, k), .b = Eigen::MatrixXf::Random(k, n), .d = Eigen::MatrixXf::Zero(m, n)}) {}
template <BuiltFor processor>
EigenProduct<processor>::~EigenProduct() {
  delete matrices_;
}

template <BuiltFor processor>
void EigenProduct<processor>::run() {
  matrices_->d.noalias() += matrices_->a * matrices_->b;
  benchmark::DoNotOptimize(matrices_->d.data());
  benchmark::ClobberMemory();
}

template class EigenProduct<built_for>;

}  // namespace bitmma
