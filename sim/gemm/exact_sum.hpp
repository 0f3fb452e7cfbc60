// SPDX-License-Identifier: MIT
// Sums of products without rounding.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace bitmma {

/// An exact sum of numbers below 2^48 times powers of two: 32-bit digits in 64-bit words, so that carries can be
/// deferred.
class ExactSum {
 public:
  /// Wide enough for every product of two f32 numbers, and for their sum over any K.
  static constexpr int lowest = -320, digits = 20;

  void add(bool negative, uint64_t significand, int exponent) {
    if (significand == 0) return;
    const int place = exponent - lowest, shift = place % 32;
    int64_t* const at = digits_.data() + place / 32;
    const uint64_t low = (significand & 0xFFFFFFFF) << shift, high = (significand >> 32) << shift;
    const auto add_digit = [&](int i, uint64_t value) {
      at[i] += negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
    };
    add_digit(0, low & 0xFFFFFFFF);
    add_digit(1, (low >> 32) + (high & 0xFFFFFFFF));
    add_digit(2, high >> 32);
    if (++waiting_ == 1 << 29) carry();
  }

  /// The nearest double, with an error of at most a last place. Zero exactly if the sum is zero.
  double value() {
    carry();
    const bool negative = digits_.back() < 0;
    if (negative) {
      for (int64_t& digit : digits_) digit = -digit;
      carry();
    }
    double sum = 0;
    for (size_t i = digits_.size(); i-- > 0;)
      sum += std::ldexp(static_cast<double>(digits_[i]), 32 * static_cast<int>(i) + lowest);
    return negative ? -sum : sum;
  }

 private:
  /// Brings all digits but the last into 0..2^32 - 1; the last digit keeps the sign.
  void carry() {
    for (size_t i = 0; i + 1 < digits_.size(); ++i) {
      digits_[i + 1] += digits_[i] >> 32;
      digits_[i] &= 0xFFFFFFFF;
    }
    waiting_ = 0;
  }
  std::array<int64_t, digits> digits_{};
  int waiting_ = 0;
};

}  // namespace bitmma
