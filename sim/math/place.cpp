// SPDX-License-Identifier: MIT
#include "place.hpp"

#include <span>

#include "mufu.hpp"

namespace bitmma::math {
namespace {

Place in(std::string_view table, std::span<const Quadratic> quadratics, uint32_t index, uint32_t x, int unit) {
  return {.quadratic = &quadratics[index], .table = table, .index = static_cast<int>(index), .x = x, .unit = unit};
}

}  // namespace

std::optional<Place> place_of(MathOperation operation, uint32_t argument) {
  const Fields f(argument);
  const uint32_t upper = f.mantissa >> 17, lower = f.mantissa & 0x1FFFF;
  const bool positive_normal = f.exponent != 0 && f.sign == 0;
  if (f.exponent == 255) return std::nullopt;
  switch (operation) {
    case MathOperation::ex2: {
      const Ex2Argument at(f);
      if (f.exponent >= 127 + 8 || at.power < -126 || at.power > 127) return std::nullopt;
      return in("ex2", ex2_quadratics, at.index, at.x, 58);
    }
    case MathOperation::rcp:
      if (f.exponent == 0 || f.exponent + (f.mantissa != 0) >= 254) return std::nullopt;
      return in("rcp", rcp_quadratics, f.mantissa >> 16, 2 * (f.mantissa & 0xFFFF), 59);
    case MathOperation::rsqrt:
      if (!positive_normal) return std::nullopt;
      return in("rsqrt", rsqrt_quadratics, root_index(f), lower, 59);
    case MathOperation::sqrt:
      if (!positive_normal) return std::nullopt;
      return in("sqrt", sqrt_quadratics, root_index(f), lower, 58);
    case MathOperation::lg2:
      if (!positive_normal) return std::nullopt;
      return in("lg2", lg2_quadratics, upper, lower, 58);
    case MathOperation::sin:
    case MathOperation::cos: {
      const uint32_t turns = quarters_of(f) + (operation == MathOperation::cos ? hidden_bit : 0);
      const uint32_t inside = turns & (hidden_bit - 1), i = turns >> 23 & 1 ? hidden_bit - 1 - inside : inside;
      return in("sin", sin_quadratics, i >> 17, i & 0x1FFFF, 59);
    }
    case MathOperation::tanh: {
      if (f.exponent < 127 - 8 || f.exponent >= 127 + 3) return std::nullopt;
      const TanhBinade& binade = tanh_binades[static_cast<std::size_t>(f.exponent - 127 + 8)];
      const uint32_t i = f.mantissa >> binade.dropped_bits;
      return in("tanh", tanh_quadratics, binade.first + (i >> 17), i & 0x1FFFF, binade.unit);
    }
    default: return std::nullopt;
  }
}

}  // namespace bitmma::math
