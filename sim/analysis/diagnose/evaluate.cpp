// SPDX-License-Identifier: MIT
#include "evaluate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "../../formats/matrix_inside.hpp"
#include "../../instruction/family.hpp"
#include "../../instruction/tcgen05/operands.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/instruction/place_operands.hpp"
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

/// Outputs in disabled lanes of Tensor Memory keep their old value.
void keep_disabled_lanes(const Subject& subject, Matrix& d) {
  const State& state = subject.this_case().before;
  const std::span<const uint32_t> disabled = state.words(Field::disable_output_lane);
  if (std::ranges::all_of(disabled, [](uint32_t word) { return word == 0; })) return;
  const PlaceMap places(subject.instruction(), subject.this_case().target, state, Role::d);
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
    throw Error(
        {.field = "case",
         .seen = std::to_string(index),
         .expected = cases.empty() ? "a case of a list that is not empty" : fmt::format("0..{}", cases.size() - 1)});
  }
  mma_ = mma_of(instruction());
  step_k_ = mma_.k;
  if (!this_case().has_state()) {
    take_tile();
    return;
  }
  truth_ = operands_of(this_case());
  smem_ = smem_operands(instruction(), this_case().target, this_case().before);
  for (int cta = 0; cta < mma_.cta_group && !smem_.empty(); ++cta) {
    const std::span<const uint8_t> image = this_case().before.image(cta, mma_.cta_group);
    image_bytes_ = static_cast<int64_t>(image.size());
    images_.push_back(with_room_behind(image));
  }
}

void Subject::take_tile() {
  const LogicalMatrices& logical = this_case().logical;
  const bool is_whole = logical.a && logical.b;
  is_tile_ = is_whole && (logical.a->rows() != mma_.m || logical.b->cols() != mma_.n || logical.b->rows() != mma_.k);
  if (!is_tile_) {
    truth_ = operands_of(this_case());
    return;
  }
  const auto whole = [](int extent, int of_one) { return extent >= of_one && extent % of_one == 0; };
  const bool fits = whole(logical.a->rows(), mma_.m) && whole(logical.b->cols(), mma_.n) &&
                    whole(logical.b->rows(), mma_.k) && logical.a->cols() == logical.b->rows();
  if (!fits || mma_.products > 1) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "tile",
                 .seen = fmt::format("{} x {} x {}", logical.a->rows(), logical.b->cols(), logical.b->rows()),
                 .expected = fmt::format("multiples of {} x {} x {}", mma_.m, mma_.n, mma_.k)});
  }
  const Mma of_one = mma_;
  truth_ = family::options_of(mma_);
  mma_.m = logical.a->rows(), mma_.n = logical.b->cols(), mma_.k = logical.b->rows();
  mma_.scale_count *= mma_.k / step_k_;
  truth_.b = *logical.b;
  if (mma_.sparse) compress_tile(of_one, *logical.a);
  else truth_.a = *logical.a;
  if (mma_.enable_input_d) truth_.c = logical.c ? *logical.c : Matrix(mma_.c, mma_.m, mma_.n);
  if (logical.scale_a && logical.scale_b) truth_.scales = BlockScales{.a = *logical.scale_a, .b = *logical.scale_b};
}

void Subject::compress_tile(const Mma& of_one, const Matrix& a) {
  const int stored = of_one.stored_k();
  truth_.a = Matrix(a.format(), mma_.m, mma_.stored_k());
  truth_.selected_k.resize(truth_.a.size());
  for (int row = 0; row < mma_.m; row += of_one.m) {
    for (int step = 0; step < mma_.k / of_one.k; ++step) {
      Operands part;
      compress_a(instruction(), block_of(a, row, of_one.m, step * of_one.k, of_one.k), part);
      set_block(truth_.a, row, step * stored, part.a);
      for (size_t i = 0; i < part.selected_k.size(); ++i) {
        const size_t at =
            (static_cast<size_t>(row) + i / static_cast<size_t>(stored)) * static_cast<size_t>(mma_.stored_k()) +
            static_cast<size_t>(step * stored) + i % static_cast<size_t>(stored);
        truth_.selected_k[at] = static_cast<uint16_t>(step * of_one.k + part.selected_k[i]);
      }
    }
  }
}

bool Subject::has_same_d(int distance) const {
  const Instruction& other = cases_[static_cast<size_t>(neighbour(distance))].instruction;
  if (!is_mma(other)) return false;
  if (is_tile_) return true;
  const Mma mma = mma_of(other);
  return mma.m == mma_.m && mma.n == mma_.n && mma.d == mma_.d;
}

std::optional<Operands> Subject::operands_of_case(int64_t index) const {
  const Case& other = cases_[static_cast<size_t>(index)];
  if (!is_mma(other.instruction)) return std::nullopt;
  Operands operands = is_tile_ ? Subject(cases_, index).truth() : operands_of(other);
  const bool alike = same_shape(operands.a, truth_.a) && same_shape(operands.b, truth_.b) &&
                     (!operands.c || !truth_.c || same_shape(*operands.c, *truth_.c));
  return alike ? std::optional(std::move(operands)) : std::nullopt;
}

std::optional<Operands> Subject::next_operands() const { return operands_of_case(neighbour(1)); }

const SmemMatrix* Subject::in_smem(Role operand) const {
  const auto smem_operand = std::ranges::find(smem_, operand, &SmemOperand::role);
  return smem_operand == smem_.end() ? nullptr : &smem_operand->matrix;
}

template <typename ReadCta>
std::optional<Matrix> Subject::put_together(Role operand, Format format, const ReadCta& read_cta) const {
  const bool is_a = operand == Role::a;
  const int rows = (is_a ? mma_.m : mma_.n) / mma_.cta_group;
  Matrix whole = unfilled_matrix(format, is_a ? mma_.m : mma_.k, is_a ? mma_.stored_k() : mma_.n);
  try {
    for (size_t cta = 0; cta < images_.size(); ++cta) {
      const int first = static_cast<int>(cta) * rows;
      const Matrix lines = read_cta(cta);
      // The lines of B start with the columns before its column shift: skip them.
      if (is_a) set_block(whole, first, 0, lines);
      else set_block(whole, 0, first, block_of(lines, 0, mma_.k, lines.cols() - rows, rows));
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return whole;
}

std::optional<Matrix> Subject::read(Role operand, const SmemMatrix& matrix, int64_t image_offset) const {
  const bool is_a = operand == Role::a;
  const Format format = is_a ? mma_.a : mma_.b;
  const SmemMap map(matrix);
  return put_together(operand, format, [&](size_t cta) {
    const auto image = std::span<const uint8_t>(images_[cta]).subspan(static_cast<size_t>(image_offset));
    return is_a ? gather(image, map, format, "A") : gather_transposed(image, map, format, "B");
  });
}

std::optional<Matrix> Subject::read_moved(Role operand, const std::function<int64_t(int64_t)>& from) const {
  const bool is_a = operand == Role::a;
  const Format format = is_a ? mma_.a : mma_.b;
  const SmemMap map(*in_smem(operand));
  return put_together(operand, format, [&](size_t cta) {
    constexpr int64_t unit = 16;
    const std::vector<uint8_t>& right = images_[cta];
    std::vector<uint8_t> image(right.size());
    for (int64_t at = 0; at + unit <= image_bytes_ + 1024 && at + unit <= static_cast<int64_t>(right.size());
         at += unit) {
      const int64_t source = from(at);
      if (source >= 0 && source + unit <= static_cast<int64_t>(right.size()))
        std::copy_n(right.begin() + source, unit, image.begin() + at);
    }
    return is_a ? gather(image, map, format, "A") : gather_transposed(image, map, format, "B");
  });
}

std::optional<Matrix> Subject::read_type(Role operand, Format format) const {
  const bool is_a = operand == Role::a;
  const SmemMap map(*in_smem(operand));
  return put_together(operand, format, [&](size_t cta) {
    return is_a ? gather(images_[cta], map, format, "A") : gather_transposed(images_[cta], map, format, "B");
  });
}

std::optional<Matrix> Subject::read_written(Role operand, const Writer& write) const {
  const bool is_a = operand == Role::a;
  const Format format = is_a ? mma_.a : mma_.b;
  const SmemMatrix& right = *in_smem(operand);
  if (right.descriptor.leading_dim_absolute) return std::nullopt;
  const SmemMap map(right);
  return put_together(operand, format, [&](size_t cta) {
    constexpr int64_t room = 128 << 10;  // enough for the widest of the wrong layouts
    std::vector<uint8_t> image(static_cast<size_t>(image_bytes_ + room));
    write(image, right, gather(images_[cta], map, format, is_a ? "A" : "B"));
    return is_a ? gather(image, map, format, "A") : gather_transposed(image, map, format, "B");
  });
}

std::vector<Operands> Subject::blocks_of_k(int count) const {
  std::vector<Operands> blocks(static_cast<size_t>(count), truth_);
  for (const Role operand : {Role::a, Role::b}) {
    const SmemMatrix* const own = in_smem(operand);
    if (!own || own->descriptor.leading_dim_absolute) return {};
    SmemMatrix wide = *own;
    wide.cols *= count;
    const SwizzleInfo& swizzle = info(wide.descriptor.swizzle);
    const bool is_a = operand == Role::a;
    if (is_wider_than_swizzle(wide.major, swizzle, wide.element_bits, wide.cols) ||
        !is_in_image(end_byte(SmemMap(wide)) - 1)) {
      return {};
    }
    // Blocks of K start at whole 16-byte units, so that each block has its own descriptor.
    for (int block = 0; block < count; ++block) {
      SmemMatrix matrix = *own;
      matrix.descriptor.start_address_bytes = SmemMap(wide).linear_of(0, block * own->cols);
      std::optional<Matrix> read = this->read(operand, matrix);
      if (!read) return {};
      Operands& operands = blocks[static_cast<size_t>(block)];
      (is_a ? operands.a : operands.b) = std::move(*read);
    }
  }
  return blocks;
}

std::optional<Operands> Subject::read_as(const Instruction& instruction, const State& state) const {
  try {
    return gather_operands(instruction, this_case().target, state);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Parts true_parts(const Subject& subject) {
  return {.operands = subject.truth(),
          .adder = {.kind = WhatIf::Kind::model, .model = subject.model()},
          .step_k = subject.is_tile() ? subject.step_k() : 0};
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
      model.scaling == Scaling::exact_groups) {
    return true;
  }
  const FormatInfo &a = info(parts.operands.a.format()), &b = info(parts.operands.b.format());
  return a.kind == NumberKind::floating && model.fraction_bits >= a.mantissa_bits + b.mantissa_bits;
}

Operands part_of_k(const Operands& operands, int first, int count) {
  Operands part = operands;
  const int k = operands.b.rows(), stored_first = stored_of_k(operands, first), stored = stored_of_k(operands, count);
  part.a = block_of(operands.a, 0, operands.a.rows(), stored_first, stored);
  part.b = block_of(operands.b, first, count, 0, operands.b.cols());
  if (!operands.selected_k.empty()) {
    part.selected_k.clear();
    for (size_t row = 0; row < static_cast<size_t>(operands.a.rows()); ++row) {
      const auto of_row = std::span(operands.selected_k)
                              .subspan(row * static_cast<size_t>(operands.a.cols()) + static_cast<size_t>(stored_first),
                                       static_cast<size_t>(stored));
      for (const uint16_t selected : of_row) part.selected_k.push_back(static_cast<uint16_t>(selected - first));
    }
  }
  if (!operands.scales) return part;
  const auto of_k = [&](int blocks) { return std::pair(blocks * first / k, blocks * count / k); };
  const Matrix &a = operands.scales->a, &b = operands.scales->b;
  const auto [first_a, count_a] = of_k(a.cols());
  const auto [first_b, count_b] = of_k(b.rows());
  part.scales =
      BlockScales{.a = block_of(a, 0, a.rows(), first_a, count_a), .b = block_of(b, first_b, count_b, 0, b.cols())};
  return part;
}

namespace {

/// D after the chain of instructions over K; each one's C is the D of its predecessor.
Matrix compute_steps(const Parts& parts, const Operands& operands, Format format) {
  if (parts.step_k == 0 || operands.b.rows() <= parts.step_k) return compute(parts.adder, operands, format);
  Operands step = part_of_k(operands, 0, parts.step_k);
  Matrix d = compute(parts.adder, step, format);
  for (int first = parts.step_k; first < operands.b.rows(); first += parts.step_k) {
    step = part_of_k(operands, first, parts.step_k);
    step.c = std::move(d);
    d = compute(parts.adder, step, format);
  }
  return d;
}

/// Adds `products` to the D of the parts; `block` selects the block of each operand.
template <typename Block>
Matrix compute_whole(const Parts& parts, Format format, const Block& block) {
  const auto* const more = std::get_if<Accumulated>(&parts.outcome);
  Matrix d = compute_steps(parts, block(more && more->first ? *more->first : parts.operands), format);
  if (!more) return d;
  for (const Operands& product : more->products) {
    Operands next = block(product);
    next.c = std::move(d);
    d = compute_steps(parts, next, format);
  }
  if (!more->rounded_to) return d;
  for (int row = 0; row < d.rows(); ++row) {
    for (int col = 0; col < d.cols(); ++col) {
      const uint64_t narrow =
          convert(format, d.code(row, col), *more->rounded_to, Rounding::nearest_even, Overflow::infinity);
      d.set_code(row, col, convert(*more->rounded_to, narrow, format, Rounding::nearest_even, Overflow::infinity));
    }
  }
  return d;
}

}  // namespace

Matrix compute_block(const Parts& parts, std::span<const int> rows, std::span<const int> cols, Format d) {
  return compute_whole(parts, d, [&](const Operands& operands) { return block_of(operands, rows, cols); });
}

Matrix evaluate(const Subject& subject, const Parts& parts) {
  if (std::holds_alternative<Unwritten>(parts.outcome)) return *subject.truth().c;
  if (const auto* const left = std::get_if<Left>(&parts.outcome)) return left->d;
  Matrix d = compute_whole(parts, subject.mma().d, [](const Operands& operands) { return operands; });
  keep_disabled_lanes(subject, d);
  if (const auto* const change = std::get_if<Moved>(&parts.outcome)) return moved(d, change->from);
  return d;
}

Parts faulty_parts(const Subject& subject, std::span<const std::string> fault_ids) {
  const std::vector<FaultRow> rows = catalogue_of(subject);
  Parts parts = true_parts(subject);
  for (const std::string& id : fault_ids) {
    const FaultRow* const row = find_fault(rows, id);
    Parts alone = true_parts(subject);
    if (!row || !row->apply(subject, alone)) {
      throw Error({.code = ViolationCode::unknown_name,
                   .field = "fault",
                   .seen = id,
                   .expected = "the id of a fault that is possible in this case",
                   .fix = "the catalogue of faults lists them"});
    }
    take_stage(parts, alone, row->fault.stage);
  }
  if (!computable(parts)) {
    throw Error({.code = ViolationCode::contradiction,
                 .field = "faults",
                 .seen = fmt::format("{}", fmt::join(fault_ids, ", ")),
                 .expected = "faults whose types and adder are compatible"});
  }
  return parts;
}

Matrix faulty_d(std::span<const Case> cases, int64_t index, std::span<const std::string> fault_ids) {
  const Subject subject(cases, index);
  const Parts parts = faulty_parts(subject, fault_ids);
  if (const auto* const other = std::get_if<OtherCase>(&parts.outcome)) {
    const Subject neighbour(cases, subject.neighbour(other->distance));
    return evaluate(neighbour, true_parts(neighbour));
  }
  return evaluate(subject, parts);
}

}  // namespace bitmma
