// SPDX-License-Identifier: MIT
#include "bitmma/gemm/accuracy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <mutex>
#include <vector>

#include "../core/ieee_environment.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "exact_sum.hpp"

namespace bitmma {
namespace {

__extension__ using Wide128 = __int128;

/// A row of A or a column of B: signed significands, and powers of two.
struct Line {
  std::vector<int32_t> significands, exponents;
  bool is_finite = true;
  int first = 0, last = 0;  // range of the exponents of nonzero numbers
};

std::vector<Line> decoded(const Matrix& matrix, bool by_column) {
  // tf32 operands are f32 words: dropping bits in the instruction counts as error.
  const FormatInfo& format = info(matrix.format() == Format::tf32 ? Format::f32 : matrix.format());
  const int outer = by_column ? matrix.cols() : matrix.rows(), inner = by_column ? matrix.rows() : matrix.cols();
  std::vector<Line> lines(static_cast<size_t>(outer));
  for (int i = 0; i < outer; ++i) {
    Line& line = lines[static_cast<size_t>(i)];
    line.significands.reserve(static_cast<size_t>(inner)), line.exponents.reserve(static_cast<size_t>(inner));
    bool is_first = true;
    for (int j = 0; j < inner; ++j) {
      const Decoded element = decode(format, by_column ? matrix.code(j, i) : matrix.code(i, j));
      if (element.number != NumberClass::finite) line.is_finite = false;
      const auto significand = static_cast<int32_t>(element.significand);
      line.significands.push_back(element.negative ? -significand : significand);
      line.exponents.push_back(element.exponent);
      if (significand == 0) continue;
      line.first = is_first ? element.exponent : std::min(line.first, element.exponent);
      line.last = is_first ? element.exponent : std::max(line.last, element.exponent);
      is_first = false;
    }
    // A zero contributes zero, whatever its shift.
    for (size_t j = 0; j < line.significands.size(); ++j)
      if (line.significands[j] == 0) line.exponents[j] = line.first;
  }
  return lines;
}

/// The sum of products in units of two to the sum of the lines' least exponents; `Wide` must be wide enough.
template <typename Wide>
Wide sum_of(const Line& a, const Line& b) {
  Wide sum = 0;
  const int least = a.first + b.first;
  for (size_t i = 0; i < a.significands.size(); ++i) {
    const int64_t product = int64_t{a.significands[i]} * b.significands[i];
    sum += static_cast<Wide>(product) * (Wide{1} << (a.exponents[i] + b.exponents[i] - least));
  }
  return sum;
}

/// The exact sum of a row times a column, whose significands together have `fraction` fraction bits.
ExactSum exact_sum(const Line& a, const Line& b, int fraction) {
  ExactSum exact;
  const auto add = [&](auto sum, int exponent) {
    const bool negative = sum < 0;
    auto left = negative ? -sum : sum;
    for (; left != 0; left >>= 32, exponent += 32) exact.add(negative, static_cast<uint32_t>(left), exponent);
  };
  const int base = a.first + b.first - fraction, span = a.last - a.first + b.last - b.first,
            bits = span + fraction + 2 + std::bit_width(a.significands.size());
  if (bits <= 62 && base + bits < 240) {
    add(sum_of<int64_t>(a, b), base);
  } else if (bits <= 126 && base + bits < 240) {
    add(sum_of<Wide128>(a, b), base);
  } else {
    for (size_t i = 0; i < a.significands.size(); ++i) {
      const int64_t product = int64_t{a.significands[i]} * b.significands[i];
      exact.add(product < 0, static_cast<uint64_t>(std::abs(product)), a.exponents[i] + b.exponents[i] - fraction);
    }
  }
  return exact;
}

/// Adds the error of an output: `d` against the exact sum.
void add_error(Accuracy& sum, ExactSum exact, const Decoded& d, const FormatInfo& output) {
  ExactSum error = exact;
  error.add(!d.negative, d.significand, d.exponent - output.mantissa_bits);
  const double value = exact.value(), off = -error.value();
  const int exponent = value == 0 ? output.min_exponent() : std::max(std::ilogb(value), output.min_exponent());
  const double ulps = std::ldexp(off, output.mantissa_bits - exponent);
  ++sum.outputs;
  sum.max_ulp = std::max(sum.max_ulp, std::abs(ulps));
  sum.mean_ulp += std::abs(ulps);
  sum.bias_ulp += value < 0 ? -ulps : ulps;
  if (value != 0) sum.max_relative_error = std::max(sum.max_relative_error, std::abs(off / value));
}

/// The errors of all rows, added in order: the result does not depend on the number of threads.
Accuracy total(const std::vector<Accuracy>& of_row) {
  Accuracy all;
  for (const Accuracy& row : of_row) {
    all.outputs += row.outputs, all.not_finite += row.not_finite;
    all.max_ulp = std::max(all.max_ulp, row.max_ulp);
    all.max_relative_error = std::max(all.max_relative_error, row.max_relative_error);
    all.mean_ulp += row.mean_ulp, all.bias_ulp += row.bias_ulp;
  }
  if (all.outputs > 0)
    all.mean_ulp /= static_cast<double>(all.outputs), all.bias_ulp /= static_cast<double>(all.outputs);
  return all;
}

void require_float(const Matrix& matrix, std::string_view name) {
  const FormatInfo& format = info(matrix.format());
  if (format.kind == NumberKind::floating && format.bits <= 32) return;
  throw Error({.field = std::string(name),
               .seen = std::string(format.name),
               .expected = "a floating-point type of at most 32 bits"});
}

}  // namespace

Accuracy accuracy_of(const GemmInputs& inputs, const Matrix& d, int threads, const GemmProgress& progress) {
  const Matrix &a = inputs.a, &b = inputs.b;
  require_float(a, "a"), require_float(b, "b"), require_float(d, "d");
  if (a.cols() != b.rows() || d.rows() != a.rows() || d.cols() != b.cols()) {
    throw Error(
        {.code = ViolationCode::wrong_shape,
         .field = "a, b, d",
         .seen = fmt::format("{} x {}, {} x {}, {} x {}", a.rows(), a.cols(), b.rows(), b.cols(), d.rows(), d.cols()),
         .expected = "M x K, K x N, M x N"});
  }
  const std::vector<Line> of_a = decoded(a, false), of_b = decoded(b, true);
  const FormatInfo &format_a = info(a.format() == Format::tf32 ? Format::f32 : a.format()),
                   &format_b = info(b.format() == Format::tf32 ? Format::f32 : b.format()), &output = info(d.format());
  const int fraction = format_a.mantissa_bits + format_b.mantissa_bits;
  std::atomic<int64_t> done = 0;
  std::vector<Accuracy> of_row(static_cast<size_t>(d.rows()));
  parallel_for(of_row.size(), threads, [&](size_t row) {
    Accuracy& sum = of_row[row];
    for (int col = 0; col < d.cols(); ++col) {
      if (progress && col % 64 == 0) progress(done += 64);
      const Line &line_a = of_a[row], &line_b = of_b[static_cast<size_t>(col)];
      const Decoded result = decode(output, d.code(static_cast<int>(row), col));
      if (result.number != NumberClass::finite || !line_a.is_finite || !line_b.is_finite) {
        ++sum.not_finite;
        continue;
      }
      const ExactSum exact = exact_sum(line_a, line_b, fraction);
      in_ieee_environment([&] { add_error(sum, exact, result, output); });
    }
  });
  return in_ieee_environment([&] { return total(of_row); });
}

}  // namespace bitmma
