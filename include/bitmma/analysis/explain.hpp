// SPDX-License-Identifier: MIT
// Explains one output term by term: where the instruction read each factor, its value, the bits of its product that are
// kept, the sum and the rounding; also the exact result and the results of other adders.
//
//   const Explanation e = explain(one, 17, 5);
//   e.steps[0].terms[3].a_place                                     "byte 0x480 (unswizzled 0x400)"
//   std::get<SumOfProducts>(e.steps[0].sum).terms[3].kept           the product in units of 2^quantum
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bitmma/files/tiling.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/place.hpp"

namespace bitmma {

/// The code that enters the computation: for tf32 the lowest 13 bits are dropped first.
uint64_t used_bits(Format format, uint64_t bits);

/// The four bits that select the rows of B for the stored elements of a chunk.
struct ExplainedMetadata {
  int chunk = 0;
  uint32_t bits = 0;
  Place place = {};
};

/// A pair of factors, as they were read.
struct ExplainedTerm {
  int k = 0;                                        // row of B
  uint64_t a_bits = 0, b_bits = 0;                  // before negation
  std::optional<Place> a_place = {}, b_place = {};  // nothing without a state
  std::optional<Place> b_high_place =
      {};  // if metadata mixes two halves of B: place of the upper half; b_place is the lower
  std::optional<ExplainedMetadata> metadata = {};  // of a sparse A
  bool special = false;                            // NaN or infinity is involved
  Exact product = {};                              // with signs and scales; 0 for special values and integers
};

/// A number in an aligned sum: whole units of 2^quantum, with the rest dropped.
struct AlignedNumber {
  std::optional<int> exponent = {};  // the exponent by which it is aligned; nothing for a zero
  int64_t kept = 0;
  bool loses_bits = false;
  double dropped = 0;  // exact value minus kept part, in units of 2^quantum; it has the sign of the value
};

/// The exact loss of a step: bits dropped by aligning its numbers, and by rounding their sum to D. Positive if D is
/// smaller than the exact sum.
struct StepLoss {
  double aligning = 0;                                         // in units of 2^quantum
  std::optional<double> aligning_ulp = {}, rounding_ulp = {};  // in ulps of the step's D; nothing if D is not finite
};

/// The alignment of the numbers of a sum.
struct Alignment {
  int max_exponent = 0;
  std::string by = {};  // its source: "k = 3", "C", "the scales of group 2", "the floor"
  int quantum = 0;      // numbers are multiples of 2^quantum
};

/// The scale of a row of A and of a column of B.
struct ExplainedScales {
  Format format = Format::ue8m0;
  uint32_t a = 0, b = 0;  // codes
};

/// The scales of a part of K.
struct ScaledPart {
  int first_k = 0, last_k = 0;
  ExplainedScales scales = {};
};

/// Products that are aligned individually.
struct SumOfProducts {
  Alignment alignment = {};
  std::vector<AlignedNumber> terms = {};  // in the order of the step's terms
  AlignedNumber c = {};
  int64_t sum = 0;  // of all kept parts
};

/// Products that are added exactly and then aligned together.
struct ExplainedGroup {
  int first_term = 0;
  int64_t sum_quarters = 0;
  ExplainedScales scales = {};
  AlignedNumber aligned = {};  // its exponent is that of both scales; nothing if the group contributes nothing
};
struct SumOfGroups {
  Alignment alignment = {};
  std::vector<ExplainedGroup> groups = {};
  AlignedNumber c = {};
  int64_t sum = 0;
};

/// Exact integers.
struct SumOfIntegers {
  std::vector<int64_t> products = {};
  int64_t c = 0;
  int64_t sum = 0;  // before wrapping or clamping
};

/// A NaN or infinity among the operands determines the result.
struct SpecialResult {
  uint64_t code = 0;
};

/// One IEEE operation: a fused multiply-add of the step's term and C, an addition to C, or a conversion.
struct IeeeOperation {
  std::string what = {};               // "fma, to nearest even"
  std::optional<uint64_t> other = {};  // the value that is added to C, or converted; in the step's c_format
};

using ExplainedSum = std::variant<SumOfProducts, SumOfGroups, SumOfIntegers, SpecialResult, IeeeOperation>;

/// Terms that are added in one step.
struct ExplainedStep {
  std::vector<ExplainedTerm> terms = {};
  std::optional<uint64_t> c_bits = {};  // C; after the first step usually the D of the previous step
  Format c_format = Format::f32, d_format = Format::f32;
  std::optional<Place> c_place = {};  // place of C
  ExplainedSum sum = SpecialResult{};
  std::optional<StepLoss> loss = {};  // for sums that align
  uint64_t d = 0;
};

/// The exact result for all terms and C.
struct ExactResult {
  std::string text = {};  // "0x5 * 2^-3", exactly
  double value = 0;
  std::optional<double> error_ulp = {};  // error of D in ulps; nothing if D is not finite
};

/// The result of another adder for the same operands.
struct Alternative {
  std::string name = {};
  uint64_t d = 0;
  bool same = false;
  std::optional<double> error_ulp = {};
};

struct [[nodiscard]] Explanation {
  std::string instruction = {}, rule = {};
  Target target = Target::sm_90a;
  Evidence evidence = Evidence::model_choice;
  Format a = Format::f16, b = Format::f16, d_format = Format::f32;
  int row = 0, col = 0;
  std::vector<ScaledPart> scales = {};    // their exponents add to those of products; groups have their own
  std::vector<ExplainedStep> steps = {};  // one, or as many as the model uses for K
  uint64_t d = 0;
  std::optional<uint64_t> recorded_d = {};  // if the case has one
  std::optional<ExactResult> exact = {};    // nothing for integers, and if NaN or infinity determines the result
  std::vector<Alternative> alternatives = {};
};

/// Explains output (row, col) of a case. Throws Error if the row or column does not exist, or if the instruction only
/// moves data or cannot run. `model` replaces the target's row of arithmetic, for what-if questions.
Explanation explain(const Case& this_case, int row, int col, const AccumulatorModel* model = nullptr);

/// Explains output (row, col) of a case of any tiling: an explanation for each instruction along K. Throws Error as
/// explain does.
std::vector<Explanation> explain_steps(const Case& whole, int row, int col);

/// Prints the explanation as text.
std::string print(const Explanation& explanation);

}  // namespace bitmma
