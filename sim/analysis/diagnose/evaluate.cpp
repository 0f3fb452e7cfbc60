#include "evaluate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "../../formats/matrix_inside.hpp"
#include "../../instruction/tcgen05/operands.hpp"
#include "bitmma/core/error.hpp"
#include "catalogue.hpp"

namespace bitmma {
namespace {

std::vector<uint8_t> with_room_behind(std::span<const uint8_t> image) {
  constexpr size_t reach = size_t{1} << 20;
  std::vector<uint8_t> padded(image.begin(), image.end());
  padded.resize(std::max(padded.size(), reach));
  return padded;
}

bool same_shape(const Matrix& x, const Matrix& y) {
  return x.rows() == y.rows() && x.cols() == y.cols() && x.format() == y.format();
}

Matrix moved(const Matrix& before, const std::function<Position(Position)>& from) {
  Matrix after = unfilled_matrix(before.format(), before.rows(), before.cols());
  for (int row = 0; row < after.rows(); ++row) {
    for (int col = 0; col < after.cols(); ++col) {
      const auto [r, c] = from({row, col});
      after.set_code(row, col, before.code(r, c));
    }
  }
  return after;
}

/// Outputs in disabled lanes of Tensor Memory keep what they had.
void keep_disabled_lanes(const Subject& subject, Matrix& d) {
  const State& state = subject.one().before;
  const std::span<const uint32_t> disabled = state.words(Field::disable_output_lane);
  if (std::ranges::all_of(disabled, [](uint32_t word) { return word == 0; })) return;
  const PlaceMap places(subject.instruction(), subject.one().target, state, Role::d);
  const Matrix before = recorded_result(subject.instruction(), state);
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) {
      const Place place = places.place_of(row, col);
      const auto* const cell = std::get_if<TmemPlace>(&place);
      if (cell && family::is_disabled(disabled, *cell)) d(row, col) = before(row, col);
    }
  }
}

}  // namespace

Subject::Subject(std::span<const Case> cases, int64_t index) : cases_(cases), index_(index) {
  if (index < 0 || index >= this->cases()) {
    throw Error({.field = "case",
                 .seen = std::to_string(index),
                 .expected = cases.empty() ? "one of at least 1 case" : fmt::format("0..{}", cases.size() - 1)});
  }
  mma_ = mma_of(instruction());
  truth_ = operands_of(one());
  if (!one().has_state()) return;
  smem_ = smem_operands(instruction(), one().target, one().before);
  for (int cta = 0; cta < mma_.cta_group && !smem_.empty(); ++cta) {
    images_.push_back(with_room_behind(one().before.image(cta, mma_.cta_group)));
  }
}

bool Subject::has_same_d(int distance) const {
  const Instruction& other = cases_[static_cast<size_t>(neighbour(distance))].instruction;
  if (!is_mma(other)) return false;
  const Mma mma = mma_of(other);
  return mma.m == mma_.m && mma.n == mma_.n && mma.d == mma_.d;
}

std::optional<Operands> Subject::next_operands() const {
  const Case& next = cases_[static_cast<size_t>(neighbour(1))];
  if (!is_mma(next.instruction)) return std::nullopt;
  Operands operands = operands_of(next);
  const bool alike = same_shape(operands.a, truth_.a) && same_shape(operands.b, truth_.b) &&
                     (!operands.c || !truth_.c || same_shape(*operands.c, *truth_.c));
  return alike ? std::optional(std::move(operands)) : std::nullopt;
}

const SmemMatrix* Subject::in_smem(Role operand) const {
  const auto found = std::ranges::find(smem_, operand, &SmemOperand::role);
  return found == smem_.end() ? nullptr : &found->matrix;
}

std::optional<Matrix> Subject::read(Role operand, const SmemMatrix& matrix, int64_t image_offset) const {
  const bool is_a = operand == Role::a;
  const int rows = (is_a ? mma_.m : mma_.n) / mma_.cta_group;
  const int shifted = matrix.rows - rows;  // columns of B before its column shift
  const Format format = is_a ? mma_.a : mma_.b;
  Matrix whole = unfilled_matrix(format, is_a ? mma_.m : mma_.k, is_a ? mma_.stored_k() : mma_.n);
  const SmemMap map(matrix);
  try {
    for (size_t cta = 0; cta < images_.size(); ++cta) {
      const auto image = std::span<const uint8_t>(images_[cta]).subspan(static_cast<size_t>(image_offset));
      const int first = static_cast<int>(cta) * rows;
      if (is_a) {
        set_block(whole, first, 0, gather(image, map, format, "A"));
      } else {
        set_block(whole, 0, first, block_of(gather_transposed(image, map, format, "B"), 0, mma_.k, shifted, rows));
      }
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return whole;
}

std::optional<Operands> Subject::read_as(const Instruction& instruction, const State& state) const {
  try {
    return gather_operands(instruction, one().target, state);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Parts true_parts(const Subject& subject) {
  return {.operands = subject.truth(), .adder = {.kind = WhatIf::Kind::model, .model = subject.model()}};
}

void take_stage(Parts& to, const Parts& from, FaultStage stage) {
  switch (stage) {
    case FaultStage::a: to.operands.a = from.operands.a, to.operands.negate_a = from.operands.negate_a; break;
    case FaultStage::b: to.operands.b = from.operands.b, to.operands.negate_b = from.operands.negate_b; break;
    case FaultStage::c: to.operands.c = from.operands.c, to.operands.scale_input_d = from.operands.scale_input_d; break;
    case FaultStage::scales: to.operands.scales = from.operands.scales; break;
    case FaultStage::metadata:
      to.operands.selected_k = from.operands.selected_k, to.operands.mixed = from.operands.mixed;
      break;
    case FaultStage::arithmetic: to.adder = from.adder, to.operands.saturate = from.operands.saturate; break;
    case FaultStage::output: to.outcome = from.outcome; break;
  }
}

bool computable(const Parts& parts) {
  const AccumulatorModel& model = parts.adder.model;
  if (parts.adder.kind == WhatIf::Kind::model && model.arithmetic == Arithmetic::fma_pairs)
    return parts.operands.a.format() == Format::f16 && parts.operands.b.format() == Format::f16;
  if (parts.adder.kind != WhatIf::Kind::model || model.arithmetic != Arithmetic::fused_sum ||
      model.scaling == Scaling::groups_of_16) {
    return true;
  }
  const FormatInfo &a = info(parts.operands.a.format()), &b = info(parts.operands.b.format());
  return a.kind == NumberKind::floating && model.fraction_bits >= a.mantissa_bits + b.mantissa_bits;
}

Matrix evaluate(const Subject& subject, const Parts& parts) {
  if (std::holds_alternative<Unwritten>(parts.outcome)) return *subject.truth().c;
  Matrix d = compute(parts.adder, parts.operands, subject.mma().d);
  keep_disabled_lanes(subject, d);
  if (const auto* const change = std::get_if<Moved>(&parts.outcome)) return moved(d, change->from);
  return d;
}

Matrix faulty_d(std::span<const Case> cases, int64_t index, std::span<const std::string> fault_ids) {
  const Subject subject(cases, index);
  const std::vector<FaultRow> rows = catalogue_of(subject);
  Parts parts = true_parts(subject);
  for (const std::string& id : fault_ids) {
    const FaultRow* const row = find_fault(rows, id);
    Parts alone = true_parts(subject);
    if (!row || !row->apply(subject, alone)) {
      throw Error({.field = "fault",
                   .seen = id,
                   .expected = "the id of a fault that this case can have",
                   .fix = "the catalogue of faults names them"});
    }
    take_stage(parts, alone, row->fault.stage);
  }
  if (!computable(parts)) {
    throw Error({.field = "faults",
                 .seen = fmt::format("{}", fmt::join(fault_ids, ", ")),
                 .expected = "faults whose types and adder go together"});
  }
  if (const auto* const other = std::get_if<OtherCase>(&parts.outcome)) {
    const Subject neighbour(cases, subject.neighbour(other->distance));
    return evaluate(neighbour, true_parts(neighbour));
  }
  return evaluate(subject, parts);
}

}  // namespace bitmma
