// SPDX-License-Identifier: MIT
// One output, term by term: where every factor was read, what it is worth, which bits of its product are kept, the sum,
// the rounding; beside it the exact result and what other adders would give.
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

#include "bitmma/files/whole_tile.hpp"
#include "bitmma/formats/round.hpp"
#include "bitmma/instruction/case.hpp"
#include "bitmma/instruction/evidence.hpp"
#include "bitmma/instruction/place.hpp"

namespace bitmma {

/// The code that is computed with: of tf32 the lowest 13 bits are dropped first.
uint64_t used_bits(Format format, uint64_t bits);

/// A pair of factors, as they were read.
struct ExplainedTerm {
  int k = 0;                                        // row of B
  uint64_t a_bits = 0, b_bits = 0;                  // before negation
  std::optional<Place> a_place = {}, b_place = {};  // nothing without a state
  std::optional<Place> b_high_place =
      {};                // where metadata mixes two halves of B: of the upper one, b_place of the lower
  bool special = false;  // NaN or infinity takes part
  Exact product = {};    // signs and scales applied; 0 where something is special, and for integers
};

/// A number as an aligned sum takes it: whole units of 2^quantum, the rest dropped.
struct AlignedNumber {
  std::optional<int> exponent = {};  // by which it is aligned; nothing for what is zero
  int64_t kept = 0;
  bool loses_bits = false;
  double dropped = 0;  // the exact value less what is kept, in units of 2^quantum: its sign is that of the value
};

/// What a step loses, exactly: what was dropped when its numbers were aligned, and when their sum became D. Positive
/// where D is smaller than what was summed.
struct StepLoss {
  double aligning = 0;                                         // in units of 2^quantum
  std::optional<double> aligning_ulp = {}, rounding_ulp = {};  // of the step's D; nothing when it is not finite
};

/// What the numbers of a sum are aligned to.
struct Alignment {
  int max_exponent = 0;
  std::string by = {};  // who has it: "k = 3", "C", "the scales of group 2", "the floor"
  int quantum = 0;      // numbers are multiples of 2^quantum
};

/// The scale of a row of A and the one of a column of B.
struct ExplainedScales {
  Format format = Format::ue8m0;
  uint32_t a = 0, b = 0;  // codes
};

/// Those of a part of K.
struct ScaledPart {
  int first_k = 0, last_k = 0;
  ExplainedScales scales = {};
};

/// Products that are aligned one by one.
struct SumOfProducts {
  Alignment alignment = {};
  std::vector<AlignedNumber> terms = {};  // in the order of the step's terms
  AlignedNumber c = {};
  int64_t sum = 0;  // of all that is kept
};

/// Products that are added exactly, and then aligned together.
struct ExplainedGroup {
  int first_term = 0;
  int64_t sum_quarters = 0;
  ExplainedScales scales = {};
  AlignedNumber aligned = {};  // its exponent is that of both scales; nothing when the group counts as nothing
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
  int64_t sum = 0;  // before it wraps or is clamped
};

/// NaN or infinity among the operands decides.
struct SpecialResult {
  uint64_t code = 0;
};

/// One IEEE operation: a multiply-add of the step's term and C, an addition to C, or a conversion.
struct IeeeOperation {
  std::string what = {};               // "fma, to nearest even"
  std::optional<uint64_t> other = {};  // what is added to C, or converted; of the step's c_format
};

using ExplainedSum = std::variant<SumOfProducts, SumOfGroups, SumOfIntegers, SpecialResult, IeeeOperation>;

/// Terms that are summed at once.
struct ExplainedStep {
  std::vector<ExplainedTerm> terms = {};
  std::optional<uint64_t> c_bits = {};  // C; after the first step, mostly D of the step before
  Format c_format = Format::f32, d_format = Format::f32;
  std::optional<Place> c_place = {};  // of C
  ExplainedSum sum = SpecialResult{};
  std::optional<StepLoss> loss = {};  // of sums that align
  uint64_t d = 0;
};

/// The real result of all terms and C.
struct ExactResult {
  std::string text = {};  // "0x5 * 2^-3", exactly
  double value = 0;
  std::optional<double> error_ulp = {};  // of D, in units of its last place; nothing when D is not finite
};

/// What another adder makes of the same operands.
struct Alternative {
  std::string name = {};
  uint64_t d = 0;
  bool same = false;
  std::optional<double> error_ulp = {};
};

struct Explanation {
  std::string instruction = {}, rule = {};
  Target target = Target::sm_90a;
  Evidence evidence = Evidence::model_choice;
  Format a = Format::f16, b = Format::f16, d_format = Format::f32;
  int row = 0, col = 0;
  std::vector<ScaledPart> scales = {};    // whose exponents are added to those of products; groups have their own
  std::vector<ExplainedStep> steps = {};  // one, or as many as the model takes for K
  uint64_t d = 0;
  std::optional<uint64_t> recorded_d = {};  // where the case has one
  std::optional<ExactResult> exact = {};    // nothing for integers, and where NaN or infinity decides
  std::vector<Alternative> alternatives = {};
};

/// Explains output (row, col) of a case. Throws Error when there is no such row or column, the instruction moves data
/// and computes nothing, or it cannot run. `model` replaces the target's row of arithmetic, for what-if questions.
Explanation explain(const Case& one, int row, int col, const AccumulatorModel* model = nullptr);

/// Output (row, col) of case `index` of a whole tile: an explanation of every instruction along K. Throws Error when
/// there is no such case, row or column.
std::vector<Explanation> explain(const WholeTile& tile, int64_t index, int row, int col);

/// As text for people.
std::string print(const Explanation& explanation);

}  // namespace bitmma
