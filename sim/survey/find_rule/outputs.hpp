// SPDX-License-Identifier: MIT
// Outputs of a device, prepared to test many models on each: terms are located and decoded once, and terms that cannot
// affect any model are left out.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "../../arithmetic/fused_sum.hpp"
#include "../../arithmetic/terms.hpp"
#include "bitmma/arithmetic/accumulator_model.hpp"
#include "bitmma/instruction/instruction.hpp"

namespace bitmma {

/// One case with the device's answer.
class AnsweredCase {
 public:
  /// `d` may be arbitrary if the caller needs only predictions.
  AnsweredCase(const AccumulatorModel& blank, Operands operands, Matrix d);
  AnsweredCase(const AnsweredCase&) = delete;  // the factors point into the operands
  AnsweredCase& operator=(const AnsweredCase&) = delete;

  const Operands& operands() const { return operands_; }
  const Matrix& d() const { return d_; }
  /// For floating-point cases: the terms, in the order of the steps of `order`.
  void find_terms(StepOrder order, int row, int col, std::vector<ExactTerm>& terms) const;

 private:
  Operands operands_;
  Matrix d_;
  std::optional<Operands> in_pairs_ = {};  // terms in byte-pair order, fp8 widened
  std::optional<Factors> factors_ = {}, factors_in_pairs_ = {};
};

struct Prediction {
  uint32_t code = 0;
  int highest_idle_floor = 0;  // a floor up to this value changes no step
};

/// One output of a fused sum. It points into its case.
class AnsweredOutput {
 public:
  AnsweredOutput(const AnsweredCase& answered_case, const AccumulatorModel& blank, int row, int col);

  uint32_t d() const { return d_; }
  /// True if an operand is NaN or infinite.
  bool is_special() const { return special_; }
  /// The output that `model` predicts.
  Prediction predict(const AccumulatorModel& model) const;

 private:
  struct Variant {
    std::vector<AlignedTerm> terms = {};
    std::vector<uint16_t> place = {};  // of each term in step order
    int length = 0;
  };
  const Variant& variant_of(const AccumulatorModel& model) const;
  uint32_t spelled_out(const AccumulatorModel& model) const;

  const AnsweredCase* case_;
  int row_, col_;
  uint32_t d_ = 0;
  std::optional<uint32_t> c_code_ = {};  // in D's format
  Decoded c_ = {};
  bool special_ = false;
  std::array<Variant, 8> variants_ = {};  // for products: by step order and overrides
  std::map<int, Variant> grouped_ = {};   // by the number of terms in a group
};

}  // namespace bitmma
