// SPDX-License-Identifier: MIT
#include "bitmma/analysis/diagnose_files.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/analysis/describe.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "bitmma/instruction/statement.hpp"

namespace bitmma {
namespace {

/// The cases with their inputs, and the D to diagnose.
struct WrongCases {
  std::vector<Case> cases = {};
  std::vector<Matrix> wrong = {};
  Comparison outside = {};  // what the wrong program changed outside D
  std::vector<InputDifference> inputs = {};
};

void require_computes(const VectorFile& vectors) {
  if (is_mma(vectors.instruction)) return;
  throw Error({.field = "instruction",
               .seen = vectors.name(),
               .expected = "a matrix instruction",
               .fix = "bitmma verify names the first cell that differs"});
}

/// The recorded D at the place of the right D: the instruction descriptor of a wrong program may give another shape.
/// Other changes in Tensor Memory are added to `outside`.
Matrix d_at_place_of(const Case& right, const Case& recorded, int64_t index, Comparison& outside) {
  if (!recorded.after || !right.has_state() || !has_instruction_descriptor(right.instruction))
    return recorded_d(recorded);
  Case placed{.instruction = right.instruction, .target = right.target, .before = recorded.before};
  State after = *recorded.after;
  for (const Buffer& buffer : right.before.buffers()) {
    if (!info(buffer.field()).is_number) continue;
    placed.before.set(buffer.field(), buffer.number());
    if (!after.has(buffer.field())) after.set(buffer.field(), buffer.number());
  }
  Matrix d = recorded_result(right.instruction, after);
  outside += compare_outside_d(placed, index, recorded.before, after);
  return d;
}

/// The cases of `vectors` with the D of `other`, which may be the same file.
WrongCases wrong_cases(const VectorFile& vectors, const VectorFile& other) {
  require_computes(vectors);
  require_same_kind(vectors, other);
  require_consistent(vectors);
  if (&vectors != &other) require_consistent(other);
  if (!other.has_recorded_d())
    throw Error({.code = ViolationCode::missing_input,
                 .field = fmt::format("{}: tensor {}", other.file.path, other.d_tensor()),
                 .seen = "(missing)",
                 .expected = "the wrong D"});
  require_same_cases(other.file.path, vectors.name(), vectors.cases, other.name(), other.cases);
  WrongCases result;
  if (vectors.file.path != other.file.path) result.inputs = different_inputs(vectors, other);
  for (int64_t index = 0; index < vectors.cases; ++index) {
    Case right = case_at(vectors, index);
    if (right.has_state()) right.logical = {};  // the state takes precedence
    const Case recorded = case_at(other, index);
    Matrix wrong = d_at_place_of(right, recorded, index, result.outside);
    // A logical d beside a state is a separate result.
    if (recorded.after && recorded.logical.d && computed_d(right) == wrong) wrong = *recorded.logical.d;
    result.cases.push_back(std::move(right));
    result.wrong.push_back(std::move(wrong));
  }
  vectors.require_unchanged();
  other.require_unchanged();
  return result;
}

}  // namespace

DiagnosedFiles diagnose_files(const TensorFile& expected, const std::optional<TensorFile>& actual,
                              const DiagnoseRequest& request, const FileEvents& events) {
  require_inputs(expected, "diagnose");
  const bool is_d_alone = actual && d_alone(*actual);
  // The states of the cases are views into these files.
  const VectorFile right = is_d_alone ? with_d_of(expected, *actual, request.file, events)
                                      : as_recorded_file(expected, request.file, events);
  std::optional<VectorFile> other;
  if (actual && !is_d_alone) other = as_recorded_file(*actual, request.file, events);
  const WrongCases recorded = wrong_cases(right, other ? *other : right);
  DiagnosedFiles diagnosed{.comparison = {}, .inputs = recorded.inputs};
  diagnosed.diagnosis = diagnose(recorded.cases, recorded.wrong, request.options);
  for (size_t i = 0; i < recorded.wrong.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    diagnosed.comparison +=
        compare_case(recorded.cases[i].instruction, index, faulty_d(recorded.cases, index, {}), recorded.wrong[i]);
  }
  diagnosed.comparison += recorded.outside;
  Report& report = diagnosed.report;
  report.update({{"instruction", right.name()}, {"target", print(right.target)}});
  report.add_text(fmt::format("{}\ntarget: {}", right.name(), print(right.target)));
  report.update(describe(diagnosed.inputs, diagnosed.diagnosis.cases));
  report.update(describe(diagnosed.diagnosis, diagnosed.comparison, right.instruction));
  report.add("outside_d", diagnosed.comparison.outside_d);
  return diagnosed;
}

std::vector<Fault> faults_of_file(const TensorFile& file, const VectorFileDefaults& defaults,
                                  const FileEvents& events) {
  require_inputs(file, "diagnose");
  const VectorFile vectors = as_recorded_file(file, defaults, events);
  require_computes(vectors);
  std::vector<Case> cases;
  for (int64_t index = 0; index < std::min<int64_t>(vectors.cases, 64); ++index)
    cases.push_back(case_at(vectors, index));
  vectors.require_unchanged();
  return fault_catalogue(cases);
}

Report describe(const std::vector<Fault>& faults) {
  constexpr size_t columns = 80, id_columns = 26;
  Report list = Report::list();
  for (size_t i = 0; i < faults.size(); ++i) {
    const Fault& fault = faults[i];
    Report row = describe(fault);
    row.add_text(
        fmt::format("{:<{}}{}", fault.id + " ", id_columns, wrapped(fault.what, columns - id_columns, id_columns)));
    if (i + 1 == faults.size() || faults[i + 1].fix != fault.fix) {
      row.add_text(fmt::format("{:{}}look at: {}", "", id_columns,
                               wrapped(fault.fix, columns - id_columns - 9, id_columns + 9)));
    }
    list.append(std::move(row));
  }
  return list;
}

}  // namespace bitmma
