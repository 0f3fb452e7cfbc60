// SPDX-License-Identifier: MIT
#include "special_values.hpp"

namespace bitmma {

void SpecialValues::add(const ExactTerm& term) {
  const bool infinite = is_infinite(term.a) || is_infinite(term.b);
  nan |= is_nan(term.a) || is_nan(term.b) || (infinite && (term.a.is_zero() || term.b.is_zero()));
  nan |= (term.scale_a && is_nan(*term.scale_a)) || (term.scale_b && is_nan(*term.scale_b));
  if (infinite) (term.a.negative != term.b.negative ? to_negative : to_positive) = true;
}

std::optional<uint32_t> special_result(Format output, std::span<const ExactTerm> terms,
                                       const std::optional<Decoded>& c) {
  SpecialValues met;
  if (c) met.add_c(*c);
  for (const ExactTerm& term : terms) met.add(term);
  return met.code(info(output));
}

}  // namespace bitmma
