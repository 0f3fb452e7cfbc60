// The loops over the host's operations against single operations in integers (fma_steps).
#include "../../sim/arithmetic/fma.hpp"

#include <fmt/format.h>

#include <cfenv>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "../../sim/arithmetic/chain.hpp"
#include "bitmma/arithmetic/cpu_target.hpp"
#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/core/random.hpp"
#include "support/catch.hpp"

using namespace bitmma;

namespace {

constexpr Rounding roundings[]{Rounding::nearest_even, Rounding::toward_zero, Rounding::toward_positive,
                               Rounding::toward_negative};

const AccumulatorModel& f64_model() {
  return *find_accumulator_model(Target::sm_90a, Family::mma_sync, Format::f64, Format::f64, Format::f64);
}
const AccumulatorModel& quad_model(Format output) {
  return *find_accumulator_model(Target::sm_90a, Family::mma_sync, Format::f16, Format::f16, output, Scaling::none,
                                 true);
}

/// Codes at the edges of a format, both signs: zeros, subnormal numbers, the largest and smallest ones, infinity, quiet
/// and signalling NaNs with payloads.
std::vector<uint64_t> edge_codes(Format format) {
  const FormatInfo& row = info(format);
  const uint64_t smallest_normal = uint64_t{1} << row.mantissa_bits, infinity = *row.infinity();
  const uint64_t quiet = smallest_normal >> 1, one = static_cast<uint64_t>(row.bias) << row.mantissa_bits;
  std::vector<uint64_t> codes;
  for (const uint64_t code : {uint64_t{0}, uint64_t{1}, smallest_normal - 1, smallest_normal, one, one + 1, one - 1,
                              infinity - 1, infinity, infinity | 1, infinity | quiet, infinity | quiet | 5}) {
    codes.push_back(code), codes.push_back(code | row.sign_bit());
  }
  return codes;
}

/// What the numbers of a product are like.
enum class Kind : uint8_t { near_one, any_code, tiny, edges };
constexpr Kind kinds[]{Kind::near_one, Kind::any_code, Kind::tiny, Kind::edges};

Matrix random_matrix(Format format, int rows, int cols, Kind kind, RandomStream& random) {
  const FormatInfo& row = info(format);
  const std::vector<uint64_t> edges = edge_codes(format);
  Matrix matrix(format, rows, cols);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      const uint64_t any = (uint64_t{random.word()} << 32 | random.word()) & low_mask(row.bits),
                     fraction = any & (row.sign_bit() | row.mantissa_mask());
      uint64_t code = any;
      // Exponents near the bias: sums cancel. Near half of it: products are subnormal.
      if (kind == Kind::near_one)
        code = fraction | (static_cast<uint64_t>(row.bias - 1) + random.below(3)) << row.mantissa_bits;
      if (kind == Kind::tiny)
        code = fraction | (static_cast<uint64_t>(row.bias) / 2 + random.below(2)) << row.mantissa_bits;
      if (kind == Kind::edges && random.one_in(2)) code = edges[random.below(static_cast<uint32_t>(edges.size()))];
      matrix.set_code(i, j, code);
    }
  }
  return matrix;
}

/// Of sums of products of this kind, so that C and the products meet: the edges have subnormal numbers.
Kind of_c(Kind kind) { return kind == Kind::tiny ? Kind::edges : kind; }

struct BestAgain {
  ~BestAgain() { use_cpu_target(cpu_targets().front()); }
};

void require_same(const AccumulatorModel& model, const Operands& operands) {
  const Matrix expected = fma_product_by_steps(model, operands);
  for (const std::string_view set : cpu_targets()) {
    use_cpu_target(set);
    INFO(set << ", " << operands.a.rows() << " x " << operands.b.cols() << " x " << operands.a.cols() << ", rounding "
             << static_cast<int>(operands.rounding));
    REQUIRE(multiply_accumulate(model, operands) == expected);
  }
}

struct Shape {
  int m, n, k;
};

}  // namespace

TEST_CASE("Products of f64 are single operations of IEEE 754 in every rounding mode, NaN words included", "[fma]") {
  const BestAgain best_again;
  RandomStream random(41, 0);
  for (const Shape shape : {Shape{8, 8, 4}, Shape{16, 8, 16}, Shape{5, 11, 3}, Shape{1, 1, 1}}) {
    for (const Rounding rounding : roundings) {
      for (const Kind kind : kinds) {
        for (int round = 0; round < 6; ++round) {
          Operands operands{.a = random_matrix(Format::f64, shape.m, shape.k, kind, random),
                            .b = random_matrix(Format::f64, shape.k, shape.n, kind, random),
                            .c = random_matrix(Format::f64, shape.m, shape.n, of_c(kind), random),
                            .negate_a = round == 1 || round == 3,
                            .negate_b = round == 2 || round == 3,
                            .rounding = rounding,
                            .swapped = round == 4};
          if (round == 5) operands.c.reset();
          require_same(f64_model(), operands);
        }
      }
    }
  }
}

TEST_CASE("m8n8k4 of f16 without a tensor core is single operations of IEEE 754", "[fma]") {
  const BestAgain best_again;
  RandomStream random(42, 0);
  std::vector<uint16_t> selected_k;  // four products
  for (int row = 0; row < 32; ++row) {
    for (int j = 0; j < 4; ++j) selected_k.push_back(static_cast<uint16_t>(row / 8 * 4 + j));
  }
  for (const Format output : {Format::f32, Format::f16}) {
    for (const Format c_format : {Format::f16, output}) {
      for (const Kind kind : kinds) {
        for (int round = 0; round < 20; ++round) {
          Operands operands{.a = random_matrix(Format::f16, 32, 4, kind, random),
                            .b = random_matrix(Format::f16, 16, round % 4 == 3 ? 5 : 8, kind, random),
                            .selected_k = selected_k,
                            .negate_a = round % 5 == 1,
                            .negate_b = round % 7 == 1};
          if (round % 3 != 1) operands.c = random_matrix(c_format, 32, operands.b.cols(), of_c(kind), random);
          INFO(info(output).name << ", C " << info(c_format).name << ", " << round);
          require_same(quad_model(output), operands);
        }
        const Operands alone{.a = random_matrix(Format::f16, 8, 4, kind, random),
                             .b = random_matrix(Format::f16, 4, 8, kind, random),
                             .c = random_matrix(c_format, 8, 8, of_c(kind), random)};
        require_same(quad_model(output), alone);
      }
    }
  }
}

TEST_CASE("A chain of f64 over K is its updates one after the other", "[fma]") {
  const BestAgain best_again;
  RandomStream random(43, 0);
  const std::vector<std::vector<ChainUpdate>> chains{{{0, 4}, {4, 4}, {8, 4}, {12, 4}},
                                                     {{0, 4}, {4, 4}, {8, 2}},
                                                     {{8, 4}, {0, 4}},
                                                     {{0, 1}, {1, 4}, {5, 3}, {12, 4}},
                                                     {}};
  for (const Kind kind : kinds) {
    const Matrix a = random_matrix(Format::f64, 7, 16, kind, random),
                 b = random_matrix(Format::f64, 16, 12, kind, random);
    const ChainBlock block{.a = a, .b = b, .row = 1, .rows = 6, .col = 2, .cols = 9};
    Matrix minus_zero(Format::f64, 6, 9);
    minus_zero.fill(uint64_t{1} << 63);
    for (const std::optional<Matrix>& c :
         {std::optional<Matrix>(), std::optional(random_matrix(Format::f64, 6, 9, of_c(kind), random)),
          std::optional(minus_zero)}) {
      for (const std::vector<ChainUpdate>& updates : chains) {
        for (const std::string_view set : cpu_targets()) {
          use_cpu_target(set);
          REQUIRE(chain(f64_model(), block, updates, 4, c) == chain_by_updates(f64_model(), block, updates, 4, c));
        }
      }
    }
  }
}

TEST_CASE("The caller's rounding mode and flushing change no bit of chains of operations, and stay", "[fma]") {
  struct NearestAgain {
    ~NearestAgain() { std::fesetround(FE_TONEAREST); }
  } nearest_again;
  RandomStream random(44, 0);
  for (const Kind kind : kinds) {
    Operands wide{.a = random_matrix(Format::f64, 8, 4, kind, random),
                  .b = random_matrix(Format::f64, 4, 8, kind, random),
                  .c = random_matrix(Format::f64, 8, 8, of_c(kind), random)};
    const Operands narrow{.a = random_matrix(Format::f16, 8, 4, kind, random),
                          .b = random_matrix(Format::f16, 4, 8, kind, random),
                          .c = random_matrix(Format::f16, 8, 8, of_c(kind), random)};
    for (const Rounding rounding : roundings) {
      wide.rounding = rounding;
      std::fesetround(FE_TONEAREST);
      const Matrix of_wide = multiply_accumulate(f64_model(), wide),
                   of_narrow = multiply_accumulate(quad_model(Format::f16), narrow);
      for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        std::fesetround(mode);
        REQUIRE(multiply_accumulate(f64_model(), wide) == of_wide);
        REQUIRE(multiply_accumulate(quad_model(Format::f16), narrow) == of_narrow);
        REQUIRE(std::fegetround() == mode);
      }
      std::fesetround(FE_TONEAREST);
      std::feclearexcept(FE_ALL_EXCEPT);
      REQUIRE(multiply_accumulate(f64_model(), wide) == of_wide);
      REQUIRE(std::fetestexcept(FE_ALL_EXCEPT) == 0);
#if defined(__SSE2__)
      const unsigned before = _mm_getcsr(), flushing = before | 0x8040;  // flush to zero, denormals are zeros
      _mm_setcsr(flushing);
      const Matrix of_flushing = multiply_accumulate(f64_model(), wide);
      const unsigned after = _mm_getcsr();
      _mm_setcsr(before);
      REQUIRE(of_flushing == of_wide);
      REQUIRE(after == flushing);
#endif
    }
  }
}
