// D = A * B + C, bit for bit as an accumulator model computes it. Integers only; no host floating point.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/formats/bit_matrix.hpp"
#include "bitmma/memory/metadata.hpp"

namespace bitmma {

/// What one instruction multiplies. A is M x L and B is K x N, raw codes; L = K unless A is sparse.
struct Operands {
  BitMatrix a;
  BitMatrix b;
  std::optional<BitMatrix> c;        // M x N codes of model.output; nothing: C is not read, NaN there included
  std::vector<uint16_t> selected_k;  // sparse: row of B that a(m, j) meets, entry m * L + j; empty: j itself
  std::vector<MixedTerm> mixed;      // sparse tf32 with undefined metadata, by row; the halves replace selected_k
  bool negate_a = false;
  bool negate_b = false;
  bool saturate = false;  // integers: clamp the exact final sum to int32 once
};

/// D, M x N codes of model.output. Zero results are +0 and NaN results 0x7FFFFFFF or 0x7FFF. Operand shapes must agree
/// and their formats belong to the model; both are checked by require_legal and gather before. Source: model.source.
BitMatrix multiply_accumulate(const AccumulatorModel& model, const Operands& operands);

/// One term of a fused sum: +-significand * 2^(exponent - fraction_bits).
struct Term {
  Decoded a, b;
};

/// One output by the rule spelled out step by step: specials, exponents, alignment, sum, rounding. The slow path: it
/// takes rows with deviations, and outputs that NaN or infinity reach. `c` holds a code of model.output.
uint32_t fused_sum(const AccumulatorModel& model, Format a, Format b, std::span<const Term> terms,
                   std::optional<uint32_t> c);

}  // namespace bitmma
