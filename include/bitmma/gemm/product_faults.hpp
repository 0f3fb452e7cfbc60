// SPDX-License-Identifier: MIT
// Which mistake of a program explains the wrong D of a whole product? Each fault changes what the product reads: scales
// of another row, a stale tile of K, a missing bias. D is computed with the fault, and compared bit by bit.
//
//   const ProductDiagnosis diagnosis = diagnose_product(std::array{plan}, inputs, d);
//   diagnosis.findings.front().fault.what      "scale_a: that of row r + 8"
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bitmma/gemm/gemm.hpp"

namespace bitmma {

struct ProductFault {
  std::string id = {};    // "scale_a.row.+8"
  std::string what = {};  // what the wrong program reads
  std::string fix = {};   // what to check

  bool operator==(const ProductFault&) const = default;
};

struct ProductFinding {
  ProductFault fault = {};
  int64_t wrong_explained = 0, right_broken = 0;
  bool explains_all = false;

  bool operator==(const ProductFinding&) const = default;
};

enum class FactorOf : uint8_t { product, rows, cols };

/// D is the right one times a constant, up to the rounding of both.
struct ConstantFactor {
  FactorOf of = FactorOf::product;
  std::vector<double> factors = {};  // one, or one for each row or column
  /// If a vector of scales explains the factors: the row (or column) whose scale each row has; else empty.
  std::vector<int> scale_from = {};

  bool operator==(const ConstantFactor&) const = default;
};

struct [[nodiscard]] ProductDiagnosis {
  GemmPlan plan = {};                         // of the findings; without findings the first plan
  int64_t outputs = 0, wrong = 0;             // compared with D of `plan`
  std::vector<ProductFinding> findings = {};  // best first; if one explains every bit, only such
  std::optional<ConstantFactor> factor = {};  // if no fault explains every bit
  int64_t tried = 0;                          // faults, in all plans

  bool operator==(const ProductDiagnosis&) const = default;
};

/// The faults that a product with these operands can have.
std::vector<ProductFault> product_faults(const GemmInputs& inputs);

/// D (M x N) of a program with this fault. Throws Error (field fault) if the product cannot have it.
Matrix faulty_product(const GemmPlan& plan, const GemmInputs& inputs, std::string_view fault_id, int threads = 1);

/// The first of the plans that find_plans tries for this D: those to diagnose if the plan of the program is unknown.
std::vector<GemmPlan> usual_plans(const GemmInputs& inputs, const Matrix& d, Target target);

/// Tries every fault in every plan until one explains all of D, the first plan first. Throws Error if there is no plan,
/// or if D is not M x N.
ProductDiagnosis diagnose_product(std::span<const GemmPlan> plans, const GemmInputs& inputs, const Matrix& d,
                                  int threads = 1);

}  // namespace bitmma
