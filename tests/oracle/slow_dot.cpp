#include "oracle/slow_dot.hpp"

#include <gmpxx.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>

namespace oracle {
namespace {

constexpr int scale_bits = 600;  // every operand, product and quantum is an integer multiple of 2^-600

struct Layout {
  int width, exponent, mantissa, bias;
  char special;  // i: infinities and NaNs, n: one NaN, f: all finite
  int dropped;
};

const std::map<std::string, Layout> layouts = {
    {"f16", {16, 5, 10, 15, 'i', 0}},  {"bf16", {16, 8, 7, 127, 'i', 0}}, {"tf32", {32, 8, 10, 127, 'i', 13}},
    {"e2m3", {6, 2, 3, 1, 'f', 0}},    {"e3m2", {6, 3, 2, 3, 'f', 0}},    {"e2m1", {4, 2, 1, 1, 'f', 0}},
    {"f32", {32, 8, 23, 127, 'i', 0}}, {"e4m3", {8, 4, 3, 7, 'n', 0}},    {"e5m2", {8, 5, 2, 15, 'i', 0}},
};

struct Number {
  bool nan = false, infinite = false, negative = false, zero = false;
  mpz_class scaled;  // |value| * 2^scale_bits
  int align = 0;     // unbiased exponent; subnormals have the smallest normal one
};

Number read(const std::string& type, uint32_t code) {
  const Layout& layout = layouts.at(type);
  Number number;
  number.negative = (code >> (layout.width - 1)) % 2 == 1;
  code >>= layout.dropped;
  const uint32_t fraction = code % (1u << layout.mantissa);
  const uint32_t exponent = (code >> layout.mantissa) % (1u << layout.exponent);
  const uint32_t top = (1u << layout.exponent) - 1;
  if (exponent == top && layout.special == 'i') {
    number.nan = fraction != 0;
    number.infinite = fraction == 0;
    return number;
  }
  if (exponent == top && layout.special == 'n' && fraction == (1u << layout.mantissa) - 1) {
    number.nan = true;
    return number;
  }
  const uint32_t whole = exponent == 0 ? fraction : fraction + (1u << layout.mantissa);
  number.align = (exponent == 0 ? 1 : static_cast<int>(exponent)) - layout.bias;
  number.scaled = whole;
  number.scaled <<= scale_bits + number.align - layout.mantissa;
  number.zero = whole == 0;
  return number;
}

/// The code nearest to, or next toward zero from, total * 2^quantum.
uint32_t write(const Rule& rule, const mpz_class& total, int quantum) {
  const int smallest = rule.f16_result ? -14 : -126, largest = rule.f16_result ? 15 : 127;
  const int mantissa = rule.f16_result ? 10 : 23;
  const uint32_t sign = sgn(total) < 0 ? (rule.f16_result ? 0x8000u : 0x80000000u) : 0;
  const mpz_class magnitude = abs(total);
  if (magnitude == 0) return 0;
  int exponent = static_cast<int>(mpz_sizeinbase(magnitude.get_mpz_t(), 2)) - 1 + quantum;
  if (exponent < smallest) exponent = smallest;
  // How many multiples of the last kept bit's weight, and what is left over?
  const int last = exponent - rule.kept_bits;
  mpz_class units, rest, weight = 1;
  if (last <= quantum) {
    units = magnitude << (quantum - last);
  } else {
    weight <<= last - quantum;
    mpz_fdiv_qr(units.get_mpz_t(), rest.get_mpz_t(), magnitude.get_mpz_t(), weight.get_mpz_t());
  }
  if (rule.nearest) {
    const int side = cmp(mpz_class(2 * rest), weight);
    if (last > quantum && (side > 0 || (side == 0 && mpz_odd_p(units.get_mpz_t())))) units += 1;
  }
  if (units == 0) return 0;  // a result that rounds to zero is +0
  if (units == mpz_class(1) << (rule.kept_bits + 1)) {
    units >>= 1;
    ++exponent;
  }
  if (exponent > largest) return sign | (rule.f16_result ? 0x7C00u : 0x7F800000u);
  const uint32_t kept = static_cast<uint32_t>(units.get_ui()) << (mantissa - rule.kept_bits);
  const uint32_t hidden = 1u << mantissa;
  const uint32_t field = kept >= hidden ? static_cast<uint32_t>(exponent - smallest + 1) : 0;
  return sign | field << mantissa | kept % hidden;
}

}  // namespace

uint32_t fused_dot(const Rule& rule, const std::string& type_a, const std::string& type_b,
                   const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, bool negate_a, bool negate_b,
                   std::optional<uint32_t> c, bool narrow_c) {
  return scaled_dot(rule, {.narrow_c = narrow_c}, type_a, type_b, a, b, negate_a, negate_b, c);
}

namespace {

/// value * 2^power, exactly: the scale of the oracle is fine enough for every power that scales can have.
mpz_class times_power(const mpz_class& value, int power) {
  if (power >= 0) return value << power;
  mpz_class quotient, rest;
  mpz_fdiv_qr(quotient.get_mpz_t(), rest.get_mpz_t(), value.get_mpz_t(), mpz_class(mpz_class(1) << -power).get_mpz_t());
  if (rest != 0) throw std::logic_error("the scale of the oracle is too small");
  return quotient;
}

}  // namespace

uint32_t grouped_dot(const std::string& scale_type, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
                     bool negate, const std::vector<uint32_t>& scale_a, const std::vector<uint32_t>& scale_b,
                     std::optional<uint32_t> c, size_t group) {
  constexpr int absent = -139;  // exponent of what is zero
  constexpr Rule rule{35, absent, 23, false, false};
  static const int e2m1_halves[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  const size_t groups = a.size() / group;
  mpz_class total = 0;
  std::vector<mpz_class> values;
  std::vector<int> exponents;
  for (size_t g = 0; g < groups; ++g) {
    long quarters = 0;
    bool something = false;
    for (size_t j = group * g; j < group * (g + 1); ++j) {
      const int product = e2m1_halves[a[j] % 8] * e2m1_halves[b[j] % 8];
      something = something || product != 0;
      quarters += (a[j] / 8 % 2 != b[j] / 8 % 2) != negate ? -product : product;
    }
    const size_t chunk = g * scale_a.size() / groups;
    mpz_class value = quarters;
    int exponent = 0;
    for (const uint32_t code : {scale_a[chunk], scale_b[chunk]}) {
      if (scale_type == "ue8m0") {
        if (code == 255) return 0x7FFFFFFF;
        exponent += static_cast<int>(code) - 127;
      } else {
        const bool five = scale_type == "ue5m3";
        if (!five && scale_type != "ue4m3") throw std::logic_error("the oracle has no scales of " + scale_type);
        const uint32_t low = five ? code : code % 128, field = low / 8;
        if (low == (five ? 255 : 127)) return 0x7FFFFFFF;
        value *= field == 0 ? low : low % 8 + 8;
        something = something && low != 0;
        exponent += (field == 0 ? 1 : static_cast<int>(field)) - (five ? 15 : 7);
      }
    }
    // value * 2^(exponent - fraction): two bits of quarters, three of each significand of a scale
    const int fraction = scale_type == "ue8m0" ? 2 : 8;
    values.push_back(times_power(value << scale_bits, exponent - fraction));
    exponents.push_back(something ? exponent : absent);
  }
  int highest = absent;
  if (c) {
    const Number z = read("f32", *c);
    if (z.nan) return 0x7FFFFFFF;
    if (z.infinite) return *c;
    values.push_back(z.negative ? mpz_class(-z.scaled) : z.scaled);
    exponents.push_back(z.zero ? absent : z.align);
  }
  for (const int exponent : exponents) highest = std::max(highest, exponent);
  const int quantum = highest - rule.fraction_bits;
  for (const mpz_class& value : values) {
    const mpz_class kept = abs(value) >> (quantum + scale_bits);
    if (sgn(value) < 0) total -= kept;
    else total += kept;
  }
  return write(rule, total, quantum);
}

uint32_t scaled_dot(const Rule& rule, const Scaling& scaling, const std::string& type_a, const std::string& type_b,
                    const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, bool negate_a, bool negate_b,
                    std::optional<uint32_t> c) {
  const uint32_t nan_code = rule.f16_result ? 0x7FFF : 0x7FFFFFFF;
  const uint32_t infinity = rule.f16_result ? 0x7C00 : 0x7F800000, minus = rule.f16_result ? 0x8000 : 0x80000000;
  bool nan = scaling.nan, up = false, down = false;
  std::vector<mpz_class> values;
  std::vector<bool> negative;
  int highest = rule.floor;
  for (size_t k = 0; k < a.size(); ++k) {
    const Number x = read(type_a, a[k]), y = read(type_b, b[k]);
    const bool minus_sign = (x.negative != negate_a) != (y.negative != negate_b);
    if (x.nan || y.nan || (x.infinite && y.zero) || (x.zero && y.infinite)) nan = true;
    else if (x.infinite || y.infinite) (minus_sign ? down : up) = true;
    if (x.nan || y.nan || x.infinite || y.infinite || x.zero || y.zero) continue;
    if (x.align + y.align + scaling.power > highest) highest = x.align + y.align + scaling.power;
    values.push_back(
        times_power((x.scaled * y.scaled) >> scale_bits, scaling.power));  // exact: both factors end far above 2^-200
    negative.push_back(minus_sign);
  }
  if (c) {
    const Number z = read(rule.f16_result || scaling.narrow_c ? "f16" : "f32", *c);
    if (z.nan) nan = true;
    else if (z.infinite) (z.negative ? down : up) = true;
    else if (!z.zero) {
      if (z.align - scaling.c_shift > highest) highest = z.align - scaling.c_shift;
      values.push_back(times_power(z.scaled, -scaling.c_shift));
      negative.push_back(z.negative);
    }
  }
  if (nan || (up && down)) return nan_code;
  if (up) return infinity;
  if (down) return minus | infinity;
  mpz_class total = 0;
  const int quantum = highest - rule.fraction_bits;
  if (quantum + scale_bits < 0) throw std::logic_error("the scale of the oracle is too small");
  for (size_t i = 0; i < values.size(); ++i) {
    const mpz_class kept = values[i] >> (quantum + scale_bits);  // magnitudes, so this is toward zero
    if (negative[i]) total -= kept;
    else total += kept;
  }
  return write(rule, total, quantum);
}

std::string exact_dot(const Scaling& scaling, const std::string& type_a, const std::string& type_b,
                      const std::string& type_c, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
                      bool negate_a, bool negate_b, std::optional<uint32_t> c) {
  mpz_class total = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    const Number x = read(type_a, a[k]), y = read(type_b, b[k]);
    const mpz_class product = times_power((x.scaled * y.scaled) >> scale_bits, scaling.power);
    total += (x.negative != negate_a) != (y.negative != negate_b) ? mpz_class(-product) : product;
  }
  if (c) {
    const Number z = read(type_c, *c);
    const mpz_class value = times_power(z.scaled, -scaling.c_shift);
    total += z.negative ? mpz_class(-value) : value;
  }
  if (total == 0) return "0";
  const auto zeros = mpz_scan1(total.get_mpz_t(), 0);
  const mpz_class odd = abs(total) >> zeros;
  return (sgn(total) < 0 ? "-0x" : "0x") + odd.get_str(16) + " * 2^" +
         std::to_string(static_cast<long>(zeros) - scale_bits);
}

namespace {

/// The code of f16 with the value of an fp8.
uint32_t as_f16(const std::string& type, uint32_t code) {
  const Number number = read(type, code);
  const uint32_t sign = number.negative ? 0x8000 : 0;
  if (number.nan) return 0x7E00;
  if (number.infinite) return sign | 0x7C00;
  return sign | (write({0, 0, 10, true, true}, number.scaled, -scale_bits) & 0x7FFF);
}

/// x + y, to nearest even. Exact sums of f16 are f32, and the host adds those of f32 as IEEE 754 says.
uint32_t ieee_sum(bool f16, uint32_t x, uint32_t y) {
  const std::string type = f16 ? "f16" : "f32";
  const Number first = read(type, x), second = read(type, y);
  const uint32_t nan_code = f16 ? 0x7FFF : 0x7FFFFFFF;
  if (first.nan || second.nan || (first.infinite && second.infinite && first.negative != second.negative))
    return nan_code;
  if (first.infinite) return x;
  if (second.infinite) return y;
  const mpz_class left = first.negative ? mpz_class(-first.scaled) : first.scaled,
                  right = second.negative ? mpz_class(-second.scaled) : second.scaled;
  const mpz_class total = left + right;
  if (total == 0 && first.negative && second.negative) return f16 ? 0x8000 : 0x80000000;
  return write({0, 0, f16 ? 10 : 23, true, f16}, total, -scale_bits);
}

float as_float(uint32_t code) {
  float value;
  std::memcpy(&value, &code, sizeof value);
  return value;
}

uint32_t as_code(float value) {
  uint32_t code;
  std::memcpy(&code, &value, sizeof code);
  return std::isnan(value) ? 0x7FFFFFFF : code;
}

/// A code of f16 as float.
float widened(uint32_t code) {
  const Number number = read("f16", code);
  if (number.nan) return std::nanf("");
  const float value = number.infinite
                          ? std::numeric_limits<float>::infinity()
                          : std::ldexp(static_cast<float>(mpz_class(number.scaled >> (scale_bits - 24)).get_ui()), -24);
  return number.negative ? -value : value;
}

}  // namespace

uint32_t two_step_dot(const Rule& rule, const std::string& type_a, const std::string& type_b,
                      const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, bool negate_a, bool negate_b,
                      std::optional<uint32_t> c) {
  std::optional<uint32_t> sum;
  for (const size_t first : {0, 2}) {
    std::vector<uint32_t> x, y;
    for (size_t k = 0; k < a.size(); ++k) {
      if (k % 4 < first || k % 4 >= first + 2) continue;
      x.push_back(as_f16(type_a, a[k]));
      y.push_back(as_f16(type_b, b[k]));
    }
    sum = fused_dot(rule, "f16", "f16", x, y, negate_a, negate_b, sum);
  }
  return c ? ieee_sum(rule.f16_result, *sum, *c) : *sum;
}

uint64_t f64_chain(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b, uint64_t c, char mode) {
  const auto is_nan = [](uint64_t code) { return (code & ~(uint64_t{1} << 63)) > 0x7FF0000000000000; };
  const auto as_double = [](uint64_t code) {
    double value;
    std::memcpy(&value, &code, sizeof value);
    return value;
  };
  std::fesetround(mode == 'z' ? FE_TOWARDZERO : mode == 'p' ? FE_UPWARD : mode == 'm' ? FE_DOWNWARD : FE_TONEAREST);
  uint64_t sum = c;
  for (size_t k = 0; k < a.size(); ++k) {
    // The NaN that wins is that of b, then of the sum so far, then of a.
    uint64_t nan = 0;
    for (const uint64_t operand : {a[k], sum, b[k]}) nan = is_nan(operand) ? operand | uint64_t{1} << 51 : nan;
    if (nan != 0) {
      sum = nan;
      continue;
    }
    volatile double x = as_double(a[k]), y = as_double(b[k]), z = as_double(sum);
    const volatile double result = std::fma(x, y, z);
    const double value = result;
    std::memcpy(&sum, &value, sizeof sum);
    if (is_nan(sum)) sum = 0xFFF8000000000000;
  }
  std::fesetround(FE_TONEAREST);
  return sum;
}

uint32_t f16_quad(bool f16_result, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
                  std::optional<uint32_t> c) {
  const auto x = [&](size_t k) { return widened(a[k]); };
  const auto y = [&](size_t k) { return widened(b[k]); };
  if (!f16_result) {
    volatile float sum = 0;
    for (size_t k = 0; k < 4; ++k) sum = std::fma(x(k), y(k), sum);
    if (c) sum = as_float(*c) + sum;
    return as_code(sum);
  }
  volatile float low = x(0) * y(0), high = x(2) * y(2);
  low = std::fma(x(1), y(1), low);
  high = std::fma(x(3), y(3), high);
  if (c) low = as_float(*c) + low;
  low = low + high;
  const Number number = read("f32", as_code(low));
  const uint32_t sign = number.negative ? 0x8000 : 0;
  if (number.nan) return 0x7FFF;
  if (number.infinite) return sign | 0x7C00;
  return sign | (write({0, 0, 10, true, true}, number.scaled, -scale_bits) & 0x7FFF);
}

uint32_t integer_dot(const std::string& type_a, const std::string& type_b, const std::vector<uint32_t>& a,
                     const std::vector<uint32_t>& b, bool clamp, std::optional<uint32_t> c) {
  const auto value = [](const std::string& type, uint32_t code) -> long {
    if (type == "b1") return static_cast<long>(code & 1);
    if (type == "s1z4m11") return (code / 32768 == 1 ? -1 : 1) * static_cast<long>(code % 2048);
    const long size = type == "s4" || type == "u4" ? 16 : 256, low = static_cast<long>(code) % size;
    return type[0] == 's' && low >= size / 2 ? low - size : low;
  };
  mpz_class sum = c ? (*c >= 0x80000000u ? mpz_class(*c) - mpz_class("4294967296") : mpz_class(*c)) : mpz_class(0);
  for (size_t k = 0; k < a.size(); ++k) sum += mpz_class(value(type_a, a[k])) * value(type_b, b[k]);
  if (clamp && sum > 2147483647) sum = 2147483647;
  if (clamp && sum < -2147483648L) sum = -2147483648L;
  mpz_class wrapped;
  mpz_fdiv_r_2exp(wrapped.get_mpz_t(), sum.get_mpz_t(), 32);
  return static_cast<uint32_t>(wrapped.get_ui());
}

}  // namespace oracle
