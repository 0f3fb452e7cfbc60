// SPDX-License-Identifier: MIT
// Faults of block scales.
#include <algorithm>
#include <array>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"
#include "bitmma/instruction/immediates.hpp"
#include "fault_rows.hpp"

namespace bitmma::faults {
namespace {

struct ScaleRow {
  std::string_view id, what, fix;
  bool along_k = false;  // moves scales between blocks of K; otherwise between rows of A or columns of B
  int (*from)(int position, int extent);
};

/// Exchanges rows r and r ^ flip, if both exist.
template <int flip>
int exchanged(int p, int n) {
  return (p ^ flip) < n ? p ^ flip : p;
}
template <int by>
int rotated(int p, int n) {
  return ((p + by) % n + n) % n;
}

constexpr std::string_view lane_of_row = "row % 32 is the lane, row / 32 the 4-byte word of a line, or the column",
                           first_row_of_copy = "the row at which the copy of the scales begins";
constexpr auto scale_rows = std::to_array<ScaleRow>({
    {.id = "next_row",
     .what = "the scales of the next row",
     .fix = "the row that a scale belongs to",
     .from = [](int p, int n) { return (p + 1) % n; }},
    {.id = "previous_row",
     .what = "the scales of the previous row",
     .fix = "the row that a scale belongs to",
     .from = [](int p, int n) { return (p + n - 1) % n; }},
    {.id = "rows_32",
     .what = "blocks of 32 rows exchanged",
     .fix = "row / 32 picks the 4-byte word of a line, or the column",
     .from = exchanged<32>},
    {.id = "rows_8", .what = "groups of 8 rows exchanged", .fix = lane_of_row, .from = exchanged<8>},
    {.id = "rows_1", .what = "neighbouring rows exchanged", .fix = lane_of_row, .from = exchanged<1>},
    {.id = "rows_2", .what = "pairs of rows exchanged", .fix = lane_of_row, .from = exchanged<2>},
    {.id = "rows_4", .what = "groups of 4 rows exchanged", .fix = lane_of_row, .from = exchanged<4>},
    {.id = "rows_16", .what = "the two halves of every 32 lanes exchanged", .fix = lane_of_row, .from = exchanged<16>},
    {.id = "rows_64", .what = "blocks of 64 rows exchanged", .fix = lane_of_row, .from = exchanged<64>},
    {.id = "rows_128", .what = "blocks of 128 rows exchanged", .fix = "the tile of 128 x 4", .from = exchanged<128>},
    {.id = "lanes_reversed", .what = "the 32 lanes in the other order", .fix = lane_of_row, .from = exchanged<31>},
    {.id = "rows_reversed", .what = "rows of every 8 in the other order", .fix = lane_of_row, .from = exchanged<7>},
    {.id = "rotated.+2", .what = "rotated by 2 rows", .fix = first_row_of_copy, .from = rotated<2>},
    {.id = "rotated.-2", .what = "rotated by 2 rows back", .fix = first_row_of_copy, .from = rotated<-2>},
    {.id = "rotated.+4", .what = "rotated by 4 rows", .fix = first_row_of_copy, .from = rotated<4>},
    {.id = "rotated.-4", .what = "rotated by 4 rows back", .fix = first_row_of_copy, .from = rotated<-4>},
    {.id = "rotated.+8", .what = "rotated by 8 rows", .fix = first_row_of_copy, .from = rotated<8>},
    {.id = "rotated.-8", .what = "rotated by 8 rows back", .fix = first_row_of_copy, .from = rotated<-8>},
    {.id = "rotated.+16", .what = "rotated by 16 rows", .fix = first_row_of_copy, .from = rotated<16>},
    {.id = "rotated.-16", .what = "rotated by 16 rows back", .fix = first_row_of_copy, .from = rotated<-16>},
    {.id = "rotated.+32", .what = "rotated by 32 rows", .fix = first_row_of_copy, .from = rotated<32>},
    {.id = "rotated.-32", .what = "rotated by 32 rows back", .fix = first_row_of_copy, .from = rotated<-32>},
    {.id = "rotated.+64", .what = "rotated by 64 rows", .fix = first_row_of_copy, .from = rotated<64>},
    {.id = "rotated.-64", .what = "rotated by 64 rows back", .fix = first_row_of_copy, .from = rotated<-64>},
    {.id = "rows_untiled",
     .what = "the image is row-major, not in tiles of 128 x 4",
     .fix = "pack them into tiles, as tcgen05.cp expects",
     .from = [](int p, int n) { return n == 128 ? p % 32 * 4 + p / 32 : p; }},
    {.id = "first_row",
     .what = "the scales of row 0 for all rows",
     .fix = "an unwanted broadcast",
     .from = [](int, int) { return 0; }},
    {.id = "first_block",
     .what = "the scale of the first block for all of K",
     .fix = "the ids, or the size of the scale vector",
     .along_k = true,
     .from = [](int, int) { return 0; }},
    {.id = "next_block",
     .what = "the scales of the next block",
     .fix = "the id in the instruction descriptor",
     .along_k = true,
     .from = [](int p, int n) { return (p + 1) % n; }},
    {.id = "previous_block",
     .what = "the scales of the previous block",
     .fix = "the id in the instruction descriptor",
     .along_k = true,
     .from = [](int p, int n) { return (p + n - 1) % n; }},
    {.id = "blocks_reversed",
     .what = "blocks in the other order",
     .fix = "byte 0 of a cell is the first block",
     .along_k = true,
     .from = [](int p, int n) { return n - 1 - p; }},
    {.id = "blocks_exchanged",
     .what = "neighbouring blocks exchanged",
     .fix = "byte 0 of a cell is the first block",
     .along_k = true,
     .from = [](int p, int n) { return (p ^ 1) < n ? p ^ 1 : p; }},
    {.id = "blocks_of_32",
     .what = "one scale for two blocks: a vector of 32 instead of 16",
     .fix = "scale_vec::4X or block16 has a scale for every 16 elements",
     .along_k = true,
     .from = [](int p, int) { return p / 2 * 2; }},
});

/// The scales of A, M x blocks, or of B, blocks x N.
Matrix& scales_of(Operands& operands, Role x) { return x == Role::a ? operands.scales->a : operands.scales->b; }

/// Applies `row` to the scales of A or B; returns whether they change.
bool exchange(Matrix& m, Role x, const ScaleRow& row) {
  const Matrix before = m;
  const bool along_rows = row.along_k == (x == Role::b);
  for (int r = 0; r < m.rows(); ++r) {
    for (int c = 0; c < m.cols(); ++c) {
      m(r, c) = along_rows ? before(row.from(r, m.rows()), c) : before(r, row.from(c, m.cols()));
    }
  }
  return m != before;
}

void add_scale_fault(Rows& rows, Role x, std::string_view id, std::string_view what, std::string_view fix,
                     std::function<bool(Matrix&)> change) {
  add(rows, fmt::format("scale_{}.{}", letter(x), id), FaultStage::scales,
      fmt::format("scales of {}: {}", upper(x), what), fix,
      [x, change = std::move(change)](const Subject&, Parts& parts) { return change(scales_of(parts.operands, x)); });
}

/// True if the form accepts more than one scale type.
bool has_choice_of_scale_types(const Instruction& instruction) {
  const Form* const form = find_form(instruction);
  const auto takes = [&](Format type) {
    return form && std::ranges::any_of(form->scales, [&](const LegalScales& row) { return row.types.contains(type); });
  };
  return takes(Format::ue8m0) && takes(Format::ue4m3);
}

/// The instruction with another scale id for A or B; nothing if its descriptor cannot encode the id.
std::optional<Instruction> with_scale_id(const Subject& s, Role x, int id) {
  const Form* const form = find_form(s.instruction());
  if (!form || !form->kind) return std::nullopt;
  const auto fields = instruction_descriptor_fields(*form->kind);
  const auto field = std::ranges::find(fields, x == Role::a ? "scale_a_id" : "scale_b_id",
                                       [](const InstructionDescriptorField& instruction_descriptor_field) {
                                         return instruction_descriptor_field.bits.name;
                                       });
  if (field == fields.end()) return std::nullopt;
  const auto before = static_cast<uint64_t>(immediate_of(s.instruction(), "idesc"));
  const uint64_t after = insert(before, field->bits, static_cast<uint64_t>(id));
  if (after == before) return std::nullopt;
  try {
    Instruction changed = with_immediate(s.instruction(), "idesc", static_cast<int64_t>(after));
    return violations_of(changed, s.this_case().target).empty() ? std::optional(std::move(changed)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void add_scale_ids(Rows& rows, const Subject& s, Role x) {
  if (!s.this_case().has_state()) return;
  for (int id = 0; id < 4; ++id) {
    if (!with_scale_id(s, x, id)) continue;
    add(rows, fmt::format("scale_{}.id.{}", letter(x), id), FaultStage::scales,
        fmt::format("scales of {}: data id {}", upper(x), id), "bits 29-30 and 4-5 of the instruction descriptor",
        [x, id](const Subject& subject, Parts& parts) {
          const std::optional<Instruction> other = with_scale_id(subject, x, id);
          std::optional<Operands> read = other ? subject.read_as(*other, subject.this_case().before) : std::nullopt;
          if (read) scales_of(parts.operands, x) = std::move(scales_of(*read, x));
          return read.has_value();  // false beyond the last column
        });
  }
}

/// Scales of wrong steps of a whole tile: of the first step, or of the first step that shares a 4-byte cell.
void add_scale_steps(Rows& rows, const Subject& s, Role x) {
  const int of_one = mma_of(s.instruction()).scale_count, steps = s.is_tile() ? s.mma().k / s.step_k() : 1;
  if (steps < 2) return;
  const auto add_from = [&](std::string_view id, std::string_view what, std::string_view fix, int steps_together) {
    add_scale_fault(rows, x, id, what, fix, [x, of_one, steps_together](Matrix& m) {
      const Matrix before = m;
      const auto from = [&](int block) {
        return block / of_one / steps_together * steps_together * of_one + block % of_one;
      };
      for (int r = 0; r < m.rows(); ++r)
        for (int c = 0; c < m.cols(); ++c) m(r, c) = x == Role::a ? before(r, from(c)) : before(from(r), c);
      return m != before;
    });
  };
  add_from("not_advanced", "every step reads the scales of the first step",
           "the columns to which each step's scales are copied", steps);
  const int in_a_cell = 4 / of_one;
  if (in_a_cell > 1 && in_a_cell < steps)
    add_from("id_not_advanced", fmt::format("groups of {} steps read the scales of their first step", in_a_cell),
             "the id in the instruction descriptor of each step", in_a_cell);
}

void add_scale_faults_of(Rows& rows, const Subject& s, Role x) {
  add_scale_fault(rows, x, "ignored", "not applied", "the scales were never copied to Tensor Memory", [](Matrix& m) {
    const FormatInfo& format = info(m.format());
    return m.fill(static_cast<uint64_t>(format.bias) << format.mantissa_bits), true;
  });
  if (has_choice_of_scale_types(s.instruction())) {
    add_scale_fault(rows, x, "type", "ue8m0 read as ue4m3, or the other way round",
                    "bit 23 of the instruction descriptor", [](Matrix& m) {
                      m = m.as(m.format() == Format::ue8m0 ? Format::ue4m3 : Format::ue8m0);
                      return true;
                    });
  }
  for (const ScaleRow& row : scale_rows) {
    if (row.along_k && s.mma().scale_count < 2) continue;
    add_scale_fault(rows, x, row.id, row.what, row.fix, [x, row](Matrix& m) { return exchange(m, x, row); });
  }
  add_scale_ids(rows, s, x);
  add_scale_steps(rows, s, x);
}

}  // namespace

void add_scale_faults(Rows& rows, const Subject& s) {
  if (s.mma().scale_count == 0) return;
  add_scale_faults_of(rows, s, Role::a);
  add_scale_faults_of(rows, s, Role::b);
  for (const ScaleRow& row : scale_rows) {
    if (row.along_k && s.mma().scale_count < 2) continue;
    add(rows, fmt::format("scales.{}", row.id), FaultStage::scales, fmt::format("scales of A and of B: {}", row.what),
        row.fix, [row](const Subject&, Parts& parts) {
          BlockScales& scales = *parts.operands.scales;
          const bool a = exchange(scales.a, Role::a, row), b = exchange(scales.b, Role::b, row);
          return a && b;  // otherwise a row of one side covers it
        });
  }
  if (s.mma().m != s.mma().n) return;
  add(rows, "scales.exchanged", FaultStage::scales, "scales of A and B exchanged", "the order of the two addresses",
      [](const Subject&, Parts& parts) {
        BlockScales& scales = *parts.operands.scales;
        scales = {.a = transposed(scales.b), .b = transposed(scales.a)};
        return true;
      });
}

}  // namespace bitmma::faults
