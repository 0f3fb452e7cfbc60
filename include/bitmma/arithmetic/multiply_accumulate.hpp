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

/// Block scales: codes of ue8m0 or ue4m3. Chunk j of row m of A, L / c stored elements long, counts times a(m, j).
struct BlockScales {
  BitMatrix a;  // M x c
  BitMatrix b;  // c x N

  bool operator==(const BlockScales&) const = default;
};

/// What one instruction multiplies. A is M x L and B is K x N, raw codes; L = K unless A is sparse.
struct Operands {
  BitMatrix a;
  BitMatrix b;
  std::optional<BitMatrix> c;        // M x N codes of model.output; nothing: C is not read, NaN there included
  std::vector<uint16_t> selected_k;  // sparse: row of B that a(m, j) meets, entry m * L + j; empty: j itself
  std::vector<MixedTerm> mixed;      // sparse tf32 with undefined metadata, by row; the halves replace selected_k
  bool negate_a = false;
  bool negate_b = false;
  bool saturate = false;              // integers: clamp the exact final sum to int32 once
  std::optional<BlockScales> scales;  // models with scaling, and only those
  int scale_input_d = 0;  // c counts c * 2^-scale_input_d, exactly (model choice: no source says how it rounds)
};

/// D, M x N codes of model.output. Zero results are +0 and NaN results 0x7FFFFFFF or 0x7FFF. Operand shapes must agree
/// and their formats belong to the model; both are checked by require_legal and gather before. Source: model.source.
BitMatrix multiply_accumulate(const AccumulatorModel& model, const Operands& operands);

/// Whether D^T = B^T A^T + C^T is faster: sums treat A and B alike, and the loops run along the columns, so that few of
/// them are slow. multiply_accumulate turns dense operands by itself; who gathers them for one product may have them
/// turned from the start.
bool is_better_turned(const AccumulatorModel& model, int m, int n);

/// One term of a fused sum: +-significand * 2^(exponent - fraction_bits).
struct Term {
  Decoded a, b;
};

/// The largest magnitude of P_g * sig(sa) * sig(sb) in a group of 16, in units of 2^-2 * 2^-3 * 2^-3.
inline constexpr int group_size = 16, group_bits = 20;

/// One output by the rule spelled out step by step: specials, exponents, alignment, sum, rounding. The slow path: it
/// takes rows with deviations, and outputs that NaN or infinity reach. `c` holds a code of model.output and counts
/// c * 2^-scale_input_d.
uint32_t fused_sum(const AccumulatorModel& model, Format a, Format b, std::span<const Term> terms,
                   std::optional<uint32_t> c, int scale_input_d = 0);

/// The scales of 16 terms, and the mantissa bits of both their formats together.
struct GroupScales {
  Decoded a, b;
  int fraction_bits = 0;
};

/// The same for rows with exact groups of 16: `terms` of e2m1, 16 for every entry of `scales`.
uint32_t grouped_sum(const AccumulatorModel& model, std::span<const Term> terms, std::span<const GroupScales> scales,
                     std::optional<uint32_t> c, int scale_input_d = 0);

}  // namespace bitmma
