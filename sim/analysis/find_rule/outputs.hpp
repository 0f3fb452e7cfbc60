// SPDX-License-Identifier: MIT
// Outputs that a device computed, prepared so that many models can be asked about each: terms are found and decoded
// once, and those that no model sees are left out.
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

/// One case as the device answered it.
class AnsweredCase {
 public:
  /// `d` may be anything where only predictions are asked for.
  AnsweredCase(const AccumulatorModel& blank, Operands operands, Matrix d);
  AnsweredCase(const AnsweredCase&) = delete;  // the factors refer to the operands
  AnsweredCase& operator=(const AnsweredCase&) = delete;

  const Operands& operands() const { return operands_; }
  const Matrix& d() const { return d_; }
  /// Of a floating-point case: the terms in the order in which steps of `order` take them.
  void find_terms(StepOrder order, int row, int col, std::vector<ExactTerm>& terms) const;

 private:
  Operands operands_;
  Matrix d_;
  std::optional<Operands> in_pairs_ = {};  // terms in the order of byte pairs, fp8 widened
  std::optional<Factors> factors_ = {}, factors_in_pairs_ = {};
};

struct Prediction {
  uint32_t code = 0;
  int highest_idle_floor = 0;  // no floor up to it changes a step
};

/// One output of a fused sum. It refers to its case.
class AnsweredOutput {
 public:
  AnsweredOutput(const AnsweredCase& one, const AccumulatorModel& blank, int row, int col);

  uint32_t d() const { return d_; }
  /// Something is NaN or infinite.
  bool is_special() const { return special_; }
  /// What `model` gives.
  Prediction predict(const AccumulatorModel& model) const;

 private:
  struct Variant {
    std::vector<AlignedTerm> terms = {};
    std::vector<uint16_t> place = {};  // of each in the order of its steps
    int length = 0;
  };
  const Variant& variant_of(const AccumulatorModel& model) const;
  uint32_t spelled_out(const AccumulatorModel& model) const;

  const AnsweredCase* case_;
  int row_, col_;
  uint32_t d_ = 0;
  std::optional<uint32_t> c_code_ = {};  // of D's format
  Decoded c_ = {};
  bool special_ = false;
  std::array<Variant, 8> variants_ = {};  // of products: their steps' order and overrides
  std::map<int, Variant> grouped_ = {};   // by the terms of a group
};

}  // namespace bitmma
