#include "bitmma/arithmetic/multiply_accumulate.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <limits>

// One source, compiled for three generations of x86-64 and chosen when the program starts.
// Not a language feature, hence the only macro: other processors and compilers take the plain loop.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define BITMMA_TARGET_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define BITMMA_TARGET_CLONES
#endif

namespace bitmma {
namespace {

/// Exponent of a zero operand: far below every floor, so that a zero product never sets e_max.
constexpr int32_t exponent_of_zero = -4096;

/// An operand decoded once, as arrays. Row-major: A as M x L, B as K x N.
struct DecodedMatrix {
  int rows = 0, cols = 0;
  std::vector<int32_t> significand;  // signed
  std::vector<int32_t> exponent;     // exponent_of_zero for zeros
  std::vector<uint8_t> row_special;  // NaN or infinity somewhere in the row (A)
  std::vector<uint8_t> col_special;  // ... in the column (B)

  size_t at(int row, int col) const { return static_cast<size_t>(row) * cols + col; }
};

DecodedMatrix decode_matrix(const BitMatrix& matrix, bool negate) {
  const FormatInfo format = info(matrix.format);
  DecodedMatrix decoded{.rows = matrix.rows(), .cols = matrix.cols(), .significand = {}, .exponent = {},
                        .row_special = {}, .col_special = {}};
  const size_t count = static_cast<size_t>(decoded.rows) * decoded.cols;
  decoded.significand.resize(count);
  decoded.exponent.resize(count);
  decoded.row_special.resize(decoded.rows);
  decoded.col_special.resize(decoded.cols);
  for (int row = 0; row < decoded.rows; ++row) {
    for (int col = 0; col < decoded.cols; ++col) {
      const Decoded value = decode(format, matrix(row, col));
      if (value.number != NumberClass::finite) {
        decoded.row_special[row] = decoded.col_special[col] = 1;
        decoded.exponent[decoded.at(row, col)] = exponent_of_zero;  // the vector loop's result is replaced later
        continue;
      }
      const auto significand = static_cast<int32_t>(value.significand);
      decoded.significand[decoded.at(row, col)] = value.negative != negate ? -significand : significand;
      decoded.exponent[decoded.at(row, col)] = significand == 0 ? exponent_of_zero : value.exponent;
    }
  }
  return decoded;
}

constexpr int lane_count = 64;     // outputs of one row computed side by side
constexpr int terms_per_part = 8;  // products summed in 32 bits before they are widened

/// Lanes [first, first + lane_count) of one row of D.
struct LaneBlock {
  std::array<int32_t, lane_count> max_exponent;
  std::array<int64_t, lane_count> sum;  // in units of 2^(max_exponent - fraction_bits)
};

/// One row of A against `lanes` columns of B from `first` on: maximum exponent, align and truncate, sum.
BITMMA_TARGET_CLONES
void sum_row(const int32_t* a_significand, const int32_t* a_exponent, const DecodedMatrix& b,
             const uint16_t* selected_k, int terms, int first, int lanes, int product_shift, LaneBlock& block) {
  int32_t* const max_exponent = block.max_exponent.data();
  int64_t* const sum = block.sum.data();
  for (int term = 0; term < terms; ++term) {
    const int32_t* const b_exponent = b.exponent.data() + b.at(selected_k[term], first);
    const int32_t exponent = a_exponent[term];
    for (int lane = 0; lane < lanes; ++lane) {
      max_exponent[lane] = std::max(max_exponent[lane], exponent + b_exponent[lane]);
    }
  }
  for (int part = 0; part < terms; part += terms_per_part) {
    std::array<int32_t, lane_count> partial{};
    for (int term = part; term < std::min(terms, part + terms_per_part); ++term) {
      const int32_t* const b_exponent = b.exponent.data() + b.at(selected_k[term], first);
      const int32_t* const b_significand = b.significand.data() + b.at(selected_k[term], first);
      const int32_t exponent = a_exponent[term], significand = a_significand[term];
      for (int lane = 0; lane < lanes; ++lane) {
        const int32_t product = significand * b_significand[lane];
        const int32_t sign = product >> 31;
        const int32_t drop = std::min(max_exponent[lane] - exponent - b_exponent[lane], 31);
        const int32_t aligned = (((product ^ sign) - sign) << product_shift) >> drop;  // toward zero, as measured
        partial[lane] += (aligned ^ sign) - sign;
      }
    }
    for (int lane = 0; lane < lanes; ++lane) sum[lane] += partial[lane];
  }
}

/// `c`, aligned like the products. Its exponent has been in the maximum already.
int64_t align_c(const Decoded& c, int mantissa_bits, int fraction_bits, int max_exponent) {
  const int drop = std::min(max_exponent - c.exponent + mantissa_bits, 63);
  const auto kept = static_cast<int64_t>(uint64_t{c.significand} << fraction_bits >> drop);
  return c.negative ? -kept : kept;
}

uint32_t round_sum(const FormatInfo& output, const AccumulatorModel& model, int64_t sum, int max_exponent) {
  const uint32_t code = round_to(output,
                                 {.negative = sum < 0,
                                  .magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum),
                                  .exponent = max_exponent - model.fraction_bits},
                                 model.rounding, model.output_fraction_bits);
  return (code & ~output.sign_bit()) == 0 ? 0 : code;  // a zero result is +0, always
}

/// The terms of output (row, col), for the slow path.
std::vector<Term> terms_of(const Operands& operands, int row, int col) {
  std::vector<Term> terms(operands.a.cols());
  for (int j = 0; j < operands.a.cols(); ++j) {
    const int k = operands.selected_k.empty() ? j : operands.selected_k[static_cast<size_t>(row) * operands.a.cols() + j];
    terms[j] = {.a = decode(operands.a.format, operands.a(row, j)), .b = decode(operands.b.format, operands.b(k, col))};
  }
  const auto [first, last] = std::ranges::equal_range(operands.mixed, row, {}, &MixedTerm::row);
  for (auto mixed = first; mixed != last; ++mixed) {
    const auto half = [&](int h) { return operands.b(h / 2, col) >> 16 * (h % 2) & 0xFFFF; };
    terms[mixed->stored].b = decode(operands.b.format, half(mixed->high_half) << 16 | half(mixed->low_half));
  }
  for (Term& term : terms) {
    term.a.negative ^= operands.negate_a;
    term.b.negative ^= operands.negate_b;
  }
  return terms;
}

uint32_t slow_output(const AccumulatorModel& model, const Operands& operands, int row, int col) {
  const std::vector<Term> terms = terms_of(operands, row, col);
  return fused_sum(model, operands.a.format, operands.b.format, terms,
                   operands.c ? std::optional((*operands.c)(row, col)) : std::nullopt);
}

std::vector<uint16_t> row_numbers(int count) {
  std::vector<uint16_t> k(count);
  for (int i = 0; i < count; ++i) k[i] = static_cast<uint16_t>(i);
  return k;
}

BitMatrix fused_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols();
  BitMatrix d(model.output, rows, cols);
  if (model.deviations != Deviations{}) {
    for (int row = 0; row < rows; ++row) {
      for (int col = 0; col < cols; ++col) d(row, col) = slow_output(model, operands, row, col);
    }
    return d;
  }

  const FormatInfo output = info(model.output);
  const DecodedMatrix a = decode_matrix(operands.a, operands.negate_a);
  const DecodedMatrix b = decode_matrix(operands.b, operands.negate_b);
  const int product_shift =
      model.fraction_bits - info(operands.a.format).mantissa_bits - info(operands.b.format).mantissa_bits;
  assert(product_shift >= 0);
  const std::vector<uint16_t> every_k = row_numbers(terms);
  std::array<Decoded, lane_count> c;
  LaneBlock block;
  for (int row = 0; row < rows; ++row) {
    const bool row_mixed = std::ranges::binary_search(operands.mixed, row, {}, &MixedTerm::row);
    const uint16_t* const selected_k =
        operands.selected_k.empty() ? every_k.data() : operands.selected_k.data() + static_cast<size_t>(row) * terms;
    for (int first = 0; first < cols; first += lane_count) {
      const int lanes = std::min(lane_count, cols - first);
      for (int lane = 0; lane < lanes; ++lane) {
        c[lane] = operands.c ? decode(output, (*operands.c)(row, first + lane)) : Decoded{};
        const bool counts = c[lane].number == NumberClass::finite && c[lane].significand != 0;
        block.max_exponent[lane] = counts ? std::max(model.floor_exponent, c[lane].exponent) : model.floor_exponent;
        block.sum[lane] = 0;
      }
      sum_row(a.significand.data() + a.at(row, 0), a.exponent.data() + a.at(row, 0), b, selected_k, terms, first,
              lanes, product_shift, block);
      for (int lane = 0; lane < lanes; ++lane) {
        const int col = first + lane;
        if (row_mixed || a.row_special[row] || b.col_special[col] || c[lane].number != NumberClass::finite) {
          d(row, col) = slow_output(model, operands, row, col);
          continue;
        }
        const int max_exponent = block.max_exponent[lane];
        const int64_t aligned_c =
            c[lane].significand == 0 ? 0 : align_c(c[lane], output.mantissa_bits, model.fraction_bits, max_exponent);
        d(row, col) = round_sum(output, model, block.sum[lane] + aligned_c, max_exponent);
      }
    }
  }
  return d;
}

uint32_t finish_integer(int64_t sum, bool saturate) {
  if (saturate) {
    sum = std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  }
  return static_cast<uint32_t>(sum);  // modulo 2^32
}

BitMatrix integer_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols();
  BitMatrix d(model.output, rows, cols);
  Eigen::Array<int32_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> b(operands.b.rows(), cols);
  for (int k = 0; k < operands.b.rows(); ++k) {
    for (int col = 0; col < cols; ++col) {
      b(k, col) = static_cast<int32_t>(decode_integer(operands.b.format, operands.b(k, col)));
    }
  }
  Eigen::Array<int32_t, 1, Eigen::Dynamic, Eigen::RowMajor> sums(cols);
  for (int row = 0; row < rows; ++row) {
    sums.setZero();  // 64 terms of 255 * 255 fit 32 bits; c does not, and is added in 64
    for (int j = 0; j < terms; ++j) {
      const int k = operands.selected_k.empty() ? j : operands.selected_k[static_cast<size_t>(row) * terms + j];
      sums += static_cast<int32_t>(decode_integer(operands.a.format, operands.a(row, j))) * b.row(k);
    }
    for (int col = 0; col < cols; ++col) {
      const int64_t c = operands.c ? decode_integer(model.output, (*operands.c)(row, col)) : 0;
      d(row, col) = finish_integer(sums(col) + c, operands.saturate);
    }
  }
  return d;
}

BitMatrix popcount_sums(const AccumulatorModel& model, const Operands& operands) {
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols();
  BitMatrix d(model.output, rows, cols);
  const int words = (terms + 63) / 64;
  std::vector<uint64_t> a(static_cast<size_t>(rows) * words), b(static_cast<size_t>(cols) * words);
  for (int k = 0; k < terms; ++k) {
    for (int row = 0; row < rows; ++row) {
      a[static_cast<size_t>(row) * words + k / 64] |= uint64_t{operands.a(row, k) & 1} << k % 64;
    }
    for (int col = 0; col < cols; ++col) {
      b[static_cast<size_t>(col) * words + k / 64] |= uint64_t{operands.b(k, col) & 1} << k % 64;
    }
  }
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      int64_t sum = operands.c ? decode_integer(model.output, (*operands.c)(row, col)) : 0;
      for (int word = 0; word < words; ++word) {
        sum += std::popcount(a[static_cast<size_t>(row) * words + word] & b[static_cast<size_t>(col) * words + word]);
      }
      d(row, col) = finish_integer(sum, operands.saturate);
    }
  }
  return d;
}

}  // namespace

BitMatrix multiply_accumulate(const AccumulatorModel& model, const Operands& operands) {
  switch (model.arithmetic) {
    case Arithmetic::integer: return integer_sums(model, operands);
    case Arithmetic::popcount: return popcount_sums(model, operands);
    default: return fused_sums(model, operands);
  }
}

}  // namespace bitmma
