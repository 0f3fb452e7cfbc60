// SPDX-License-Identifier: MIT
#include "bitmma/instruction/case.hpp"

#include <fmt/format.h>

#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/instruction/statement.hpp"
#include "copies.hpp"
#include "family.hpp"

namespace bitmma {
namespace {

/// The matrix `name`, after checking that it has the shape and format of the instruction.
const Matrix& require_matrix(const std::optional<Matrix>& matrix, std::string_view name, Format format, int rows,
                             int cols) {
  const std::string expected = fmt::format("{} x {} {}", rows, cols, info(format).name);
  if (!matrix)
    throw Error(
        {.code = ViolationCode::missing_input, .field = std::string(name), .seen = "(missing)", .expected = expected});
  if (matrix->rows() != rows || matrix->cols() != cols || matrix->format() != format) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = std::string(name),
                 .seen = fmt::format("{} x {} {}", matrix->rows(), matrix->cols(), info(matrix->format()).name),
                 .expected = expected});
  }
  return *matrix;
}

}  // namespace

Operands operands_of(const Instruction& instruction, const LogicalMatrices& logical) {
  const Mma mma = mma_of(instruction);
  Operands operands = family::options_of(mma);
  operands.b = require_matrix(logical.b, "b", mma.b, mma.k, mma.n);
  compress_a(instruction, require_matrix(logical.a, "a", mma.a, mma.m, mma.a_cols()), operands);
  if (mma.scale_count > 0) {
    operands.scales = BlockScales{.a = require_matrix(logical.scale_a, "sfa", mma.scale_type, mma.m, mma.scale_count),
                                  .b = require_matrix(logical.scale_b, "sfb", mma.scale_type, mma.scale_count, mma.n)};
  }
  if (mma.enable_input_d) {
    operands.c = require_matrix(logical.c, "c", mma.c, mma.m, mma.n);
  }
  return operands;
}

LogicalMatrices logical_of(const Instruction& instruction, const Operands& operands) {
  LogicalMatrices logical{.a = logical_a(instruction, operands), .b = operands.b, .c = operands.c};
  if (operands.scales) logical.scale_a = operands.scales->a, logical.scale_b = operands.scales->b;
  return logical;
}

Operands operands_of(const Case& this_case) {
  return this_case.has_state() ? gather_operands(this_case.instruction, this_case.target, this_case.before)
                               : operands_of(this_case.instruction, this_case.logical);
}

Matrix computed_d(const Case& this_case, const AccumulatorModel* model) {
  if (this_case.has_state()) return result_of(this_case.instruction, this_case.target, this_case.before, model);
  return multiply_accumulate(model ? *model : model_for(this_case.instruction, this_case.target),
                             operands_of(this_case.instruction, this_case.logical));
}

Matrix recorded_d(const Case& this_case) {
  if (!this_case.has_recorded_d()) {
    throw Error({.code = ViolationCode::missing_input, .field = "d", .seen = "(missing)", .expected = "a recorded D"});
  }
  if (!this_case.after) return *this_case.logical.d;
  // Addresses and other numbers do not change.
  State after = *this_case.after;
  for (const Buffer& buffer : this_case.before.buffers()) {
    if (info(buffer.field()).is_number && !after.has(buffer.field())) after.set(buffer.field(), buffer.number());
  }
  return recorded_result(this_case.instruction, after);
}

namespace {

/// The first difference between a plain matrix and the state; nothing if they are equal.
std::optional<DifferentCopy> difference(std::string_view name, const std::optional<Matrix>& plain,
                                        const std::optional<Matrix>& read) {
  if (!plain || !read || *plain == *read) return std::nullopt;
  if (plain->format() != read->format() || plain->rows() != read->rows() || plain->cols() != read->cols()) return {};
  DifferentCopy first{.name = name, .format = plain->format(), .of = static_cast<int64_t>(plain->size())};
  for (int row = 0; row < plain->rows(); ++row) {
    for (int col = 0; col < plain->cols(); ++col) {
      if (plain->code(row, col) == read->code(row, col)) continue;
      if (first.codes++ > 0) continue;
      first.row = row, first.col = col, first.plain = plain->code(row, col), first.read = read->code(row, col);
    }
  }
  return first;
}

}  // namespace

std::string DifferentCopy::print(uint64_t code) const {
  return fmt::format("{:#0{}x}", code, (info(format).bits + 3) / 4 + 2);
}

std::vector<DifferentCopy> different_copies(const Case& this_case) {
  const LogicalMatrices& plain = this_case.logical;
  if (!this_case.has_state() || !is_mma(this_case.instruction)) return {};
  if (!plain.a && !plain.b && !plain.c && !plain.scale_a && !plain.scale_b) return {};
  std::vector<DifferentCopy> copies;
  const LogicalMatrices read =
      logical_of(this_case.instruction, gather_operands(this_case.instruction, this_case.target, this_case.before));
  for (const auto& [name, member] :
       {std::pair("a", &LogicalMatrices::a), std::pair("b", &LogicalMatrices::b), std::pair("c", &LogicalMatrices::c),
        std::pair("sfa", &LogicalMatrices::scale_a), std::pair("sfb", &LogicalMatrices::scale_b)}) {
    if (const auto different = difference(name, plain.*member, read.*member)) copies.push_back(*different);
  }
  return copies;
}

std::vector<Violation> warnings_of(const Case& this_case) {
  if (!this_case.has_state()) return {};
  std::vector<Violation> violations = warnings_of(this_case.instruction, this_case.target, this_case.before);
  for (const DifferentCopy& copy : different_copies(this_case)) {
    violations.push_back(
        {.code = ViolationCode::contradiction,
         .field = fmt::format("tensor {}", copy.name),
         .seen = fmt::format("{} at ({}, {})", copy.print(copy.plain), copy.row, copy.col),
         .expected = fmt::format("{}, the values that the instruction reads there", copy.print(copy.read)),
         .fix = fmt::format("{} of {} elements differ; the images, registers and Tensor Memory take precedence",
                            copy.codes, copy.of),
         .severity = Severity::warning});
  }
  return violations;
}

}  // namespace bitmma
