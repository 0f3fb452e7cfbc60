// SPDX-License-Identifier: MIT
// Faults of an instruction descriptor with the wrong M or N. The instruction reads and writes by its descriptor, while
// the program reads D with the tile's shape: from cells that hold another row, or that nothing wrote.
#include <algorithm>
#include <array>
#include <optional>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "fault_rows.hpp"

namespace bitmma::faults {
namespace {

/// The shape of D in an instruction descriptor.
struct Extent {
  int m = 0, n = 0;
};

/// The instruction whose descriptor has this shape; nothing if the target has none.
std::optional<Instruction> with_shape(const Subject& s, Extent shape) {
  const Form* const form = find_form(s.instruction());
  if (!form || !form->kind) return std::nullopt;
  try {
    const auto word = static_cast<uint32_t>(immediate_of(s.instruction(), "idesc"));
    InstructionDescriptor descriptor = decode_instruction_descriptor(*form->kind, word);
    descriptor.m = shape.m, descriptor.n = shape.n;
    Instruction changed = with_immediate(s.instruction(), "idesc", encode(descriptor));
    return violations_of(changed, s.this_case().target).empty() ? std::optional(std::move(changed)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Adds zeros after the images, and all columns of Tensor Memory, because a larger tile reads and writes there.
State with_room(const State& before, int ctas) {
  constexpr int64_t room = 64 << 10;
  State state = before;
  if (state.has(Field::smem)) {
    std::vector<uint8_t> images;
    for (int cta = 0; cta < ctas; ++cta) {
      std::ranges::copy(before.image(cta, ctas), std::back_inserter(images));
      images.resize(images.size() + room);
    }
    const auto bytes = static_cast<int64_t>(images.size());
    if (ctas == 1) state.set(Field::smem, std::move(images), {bytes});
    else state.set(Field::smem, std::move(images), {ctas, bytes / ctas});
  }
  std::vector<uint32_t> cells(static_cast<size_t>(ctas) * tmem_lanes * tmem_columns);
  const std::span<const uint32_t> own = before.words(Field::tmem);
  const auto columns = static_cast<size_t>(before.columns());
  for (size_t lane = 0; columns > 0 && lane < own.size() / columns; ++lane)
    std::ranges::copy(own.subspan(lane * columns, columns), cells.begin() + static_cast<int64_t>(lane) * tmem_columns);
  state.set(Field::tmem, std::move(cells), {ctas, tmem_lanes, tmem_columns});
  return state;
}

/// What the program reads as D after an instruction with another shape ran; nothing if that one cannot run.
std::optional<Matrix> left_in_state(const Subject& s, const Instruction& other) {
  const Mma own = s.mma(), wrong = mma_of(other);
  const bool is_larger = wrong.m > own.m || wrong.n > own.n;
  try {
    State state = is_larger ? with_room(s.this_case().before, own.cta_group) : s.this_case().before;
    execute(other, s.this_case().target, state);
    return recorded_result(s.instruction(), state);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Maps D, at column 0 of Tensor Memory.
PlaceMap places_of_d(const Subject& s, const Instruction& instruction) {
  State state;
  state.set(Field::d_tmem, 0);
  return {instruction, s.this_case().target, state, Role::d};
}

/// The same for a whole tile, block by block. Unwritten cells hold C, or zero. A CTA pair's instruction takes the first
/// rows and columns of each CTA.
std::optional<Matrix> left_in_tile(const Subject& s, const Instruction& other) {
  const Mma own = mma_of(s.instruction()), wrong = mma_of(other);
  const int ctas = own.cta_group;
  if (s.mma().scale_count > 0 && ctas > 1) return std::nullopt;  // it would use the scales of other rows
  const PlaceMap places = places_of_d(s, s.instruction()), others = places_of_d(s, other);
  const auto cell_of = [](const PlaceMap& map, int row, int col) {
    const auto place = std::get<TmemPlace>(map.place_of(row, col));
    return (static_cast<size_t>(place.cta) * tmem_lanes + static_cast<size_t>(place.lane)) * tmem_columns +
           static_cast<size_t>(place.column);
  };
  // For each cell: the position in the right D of the output that the wrong instruction writes there.
  std::vector<std::optional<Position>> written(static_cast<size_t>(ctas) * tmem_lanes * tmem_columns);
  const auto in_tile = [&](int at, int of_wrong, int of_own) {
    const int cta = at / (of_wrong / ctas), local = at % (of_wrong / ctas);
    return local < of_own / ctas ? std::optional(cta * (of_own / ctas) + local) : std::nullopt;
  };
  for (int row = 0; row < wrong.m; ++row) {
    for (int col = 0; col < wrong.n; ++col) {
      const std::optional<int> r = in_tile(row, wrong.m, own.m), c = in_tile(col, wrong.n, own.n);
      if (!r || !c) return std::nullopt;  // the row or column is not in the block
      written[cell_of(others, row, col)] = Position{*r, *c};
    }
  }
  const Matrix right = evaluate(s, true_parts(s));
  Matrix left = s.truth().c ? *s.truth().c : Matrix(right.format(), right.rows(), right.cols());
  if (left.format() != right.format()) return std::nullopt;
  for (int row = 0; row < right.rows(); ++row) {
    for (int col = 0; col < right.cols(); ++col) {
      const int top = row / own.m * own.m, first = col / own.n * own.n;
      const std::optional<Position>& from = written[cell_of(places, row - top, col - first)];
      if (from) left.set_code(row, col, right.code(top + from->row, first + from->col));
    }
  }
  return left;
}

/// "bits 17-22 of the instruction descriptor are N >> 3".
std::string bits_of_field(const Subject& s, std::string_view name) {
  const auto fields = instruction_descriptor_fields(*find_form(s.instruction())->kind);
  const auto field = std::ranges::find(fields, name, [](const auto& row) { return row.bits.name; });
  return fmt::format("bits {}-{} of the instruction descriptor are {}", field->bits.low_bit,
                     field->bits.low_bit + field->bits.width_bits - 1, field->meaning);
}

void add_shape(Rows& rows, const Subject& s, std::string id, const std::string& what, const std::string& fix,
               Extent shape) {
  if (!with_shape(s, shape)) return;
  add(rows, std::move(id), FaultStage::output, what, fix, [shape](const Subject& subject, Parts& parts) {
    const std::optional<Instruction> other = with_shape(subject, shape);
    if (!other) return false;
    std::optional<Matrix> d =
        subject.this_case().has_state() ? left_in_state(subject, *other) : left_in_tile(subject, *other);
    if (!d) return false;
    parts.outcome = Left{std::move(*d)};
    return true;
  });
}

}  // namespace

void add_shape_faults(Rows& rows, const Subject& s) {
  if (!has_instruction_descriptor(s.instruction())) return;
  const Mma own = mma_of(s.instruction());
  const std::string_view of = s.is_tile() ? "an instruction of this tile has" : "the instruction descriptor says";
  for (int n = 8; n <= 256; n += 8) {
    if (n == own.n) continue;
    add_shape(rows, s, fmt::format("idesc.n.{}", n), fmt::format("D was computed with N = {}, {} N = {}", n, of, own.n),
              bits_of_field(s, "n"), {own.m, n});
  }
  for (const int m : {32, 64, 128, 256}) {
    if (m == own.m) continue;
    add_shape(rows, s, fmt::format("idesc.m.{}", m), fmt::format("D was computed with M = {}, {} M = {}", m, of, own.m),
              bits_of_field(s, "m") + ", rows of all CTAs of the group", {m, own.n});
  }
  if (own.m == own.n) return;
  add_shape(rows, s, "idesc.m_n_exchanged",
            fmt::format("D was computed with M = {} and N = {}, {} M = {}, N = {}", own.n, own.m, of, own.m, own.n),
            bits_of_field(s, "m") + ", " + bits_of_field(s, "n"), {own.n, own.m});
}

}  // namespace bitmma::faults
