#include "bitmma/gemm/accuracy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/parallel.hpp"
#include "exact_sum.hpp"

namespace bitmma {
namespace {

std::vector<Decoded> decoded(const Matrix& matrix, bool by_column) {
  // tf32 is given as f32 words: what the instruction drops of them is an error too.
  const Format format = matrix.format() == Format::tf32 ? Format::f32 : matrix.format();
  std::vector<Decoded> numbers;
  numbers.reserve(matrix.size());
  const int outer = by_column ? matrix.cols() : matrix.rows(), inner = by_column ? matrix.rows() : matrix.cols();
  for (int i = 0; i < outer; ++i) {
    for (int j = 0; j < inner; ++j)
      numbers.push_back(decode(info(format), by_column ? matrix.code(j, i) : matrix.code(i, j)));
  }
  return numbers;
}

void require_float(const Matrix& matrix, std::string_view name) {
  const FormatInfo& format = info(matrix.format());
  if (format.kind == NumberKind::floating && format.bits <= 32) return;
  throw Error({.field = std::string(name),
               .seen = std::string(format.name),
               .expected = "a floating-point type of at most 32 bits"});
}

}  // namespace

Accuracy accuracy_of(const GemmInputs& inputs, const Matrix& d, int threads) {
  const Matrix &a = inputs.a, &b = inputs.b;
  require_float(a, "a"), require_float(b, "b"), require_float(d, "d");
  if (a.cols() != b.rows() || d.rows() != a.rows() || d.cols() != b.cols()) {
    throw Error(
        {.field = "a, b, d",
         .seen = fmt::format("{} x {}, {} x {}, {} x {}", a.rows(), a.cols(), b.rows(), b.cols(), d.rows(), d.cols()),
         .expected = "M x K, K x N, M x N"});
  }
  const auto k = static_cast<size_t>(a.cols());
  const std::vector<Decoded> of_a = decoded(a, false), of_b = decoded(b, true);
  const FormatInfo &format_a = info(a.format() == Format::tf32 ? Format::f32 : a.format()),
                   &format_b = info(b.format() == Format::tf32 ? Format::f32 : b.format()), &output = info(d.format());
  const int fraction = format_a.mantissa_bits + format_b.mantissa_bits;
  // One entry a row, added up in order: the result does not depend on threads.
  std::vector<Accuracy> of_row(static_cast<size_t>(d.rows()));
  parallel_for(of_row.size(), threads, [&](size_t row) {
    Accuracy& sum = of_row[row];
    for (int col = 0; col < d.cols(); ++col) {
      const Decoded* const line_a = of_a.data() + row * k;
      const Decoded* const line_b = of_b.data() + static_cast<size_t>(col) * k;
      const Decoded result = decode(output, d.code(static_cast<int>(row), col));
      ExactSum exact, error;
      bool finite = result.number == NumberClass::finite;
      for (size_t i = 0; i < k && finite; ++i) {
        finite = line_a[i].number == NumberClass::finite && line_b[i].number == NumberClass::finite;
        if (finite)
          exact.add(line_a[i].negative != line_b[i].negative, line_a[i].significand * line_b[i].significand,
                    line_a[i].exponent + line_b[i].exponent - fraction);
      }
      if (!finite) {
        ++sum.not_finite;
        continue;
      }
      error = exact;
      error.add(!result.negative, result.significand, result.exponent - output.mantissa_bits);
      const double value = exact.value(), off = -error.value();
      const int exponent = value == 0 ? output.min_exponent() : std::max(std::ilogb(value), output.min_exponent());
      const double ulps = std::ldexp(off, output.mantissa_bits - exponent);
      ++sum.outputs;
      sum.max_ulp = std::max(sum.max_ulp, std::abs(ulps));
      sum.mean_ulp += std::abs(ulps);
      sum.bias_ulp += value < 0 ? -ulps : ulps;
      if (value != 0) sum.max_relative_error = std::max(sum.max_relative_error, std::abs(off / value));
    }
  });
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

}  // namespace bitmma
