// SPDX-License-Identifier: MIT
// Random operands that distinguish a right model from a wrong one. N(0,1) inputs expose few of the rules: they never
// reach a floor, a signed zero, a NaN, an overflow or a tie.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/core/random.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

enum class Distribution : uint8_t { bits, normal, wide, narrow, cancel, subnormal, ties, special, integers };

struct DistributionInfo {
  Distribution id;
  std::string_view name;
  std::string_view meaning;
};

inline constexpr auto distributions = std::to_array<DistributionInfo>({
    {Distribution::bits, "bits", "uniform bit patterns, NaN and infinity included"},
    {Distribution::normal, "normal",
     "N(0,1), for a first test; ties, cancel, wide and special show rules that it does not"},
    {Distribution::wide, "wide", "every finite exponent equally often"},
    {Distribution::narrow, "narrow", "exponents -3..3, random mantissas"},
    {Distribution::cancel, "cancel", "products that cancel in pairs, and C that cancels their sum"},
    {Distribution::subnormal, "subnormal", "subnormals, and products around the smallest exponent of D"},
    {Distribution::ties, "ties", "one large term and terms around the last kept bit, sparse mantissas"},
    {Distribution::special, "special", "ordinary numbers with NaN, infinity, signed zeros and extremes among them"},
    {Distribution::integers, "integers", "small integers, exact in every accumulator"},
});

std::optional<Distribution> distribution_named(std::string_view name);

/// Operands of case `case_index`: equal for equal arguments on every machine. A is M x stored_k, positions of a sparse
/// A are legal, C is always present; signs and saturation are set from the instruction.
Operands random_operands(const Instruction& instruction, Target target, Distribution distribution, uint64_t seed,
                         uint64_t case_index);

/// The stream of a case for bytes that belong to no operand; see place_operands.
RandomStream filler_stream(uint64_t seed, uint64_t case_index);

}  // namespace bitmma
