// SPDX-License-Identifier: MIT
// Faults of A and B in any memory: types, signs, moved elements, a missing operand.
#include <algorithm>
#include <array>

#include "bitmma/descriptor/zero_column_mask.hpp"
#include "fault_rows.hpp"

namespace bitmma::faults {
namespace {

/// An operand as lines along K: rows of A, columns of B.
struct Lines {
  int count = 0, k = 0;
  int code_bits = 0;
  bool sparse = false;
  bool in_registers = false;
};
struct LineElement {
  int line = 0, k = 0;
};

bool can_exchange_k(const Lines& lines, int flip) { return lines.k % (2 * flip) == 0 && !lines.sparse; }
bool is_power_of_2(int number) { return (number & (number - 1)) == 0; }

struct MoveRow {
  std::string_view id, what, fix;  // {} in `what` is replaced by the name of the lines
  bool (*applies)(const Lines&);
  LineElement (*from)(const Lines&, LineElement);
};

/// ldmatrix moves blocks of 8 rows of 16 bytes; .trans transposes them: eight 16-bit elements a side.
constexpr int block = 8;

constexpr std::string_view order_of_rows = "the order in which rows were written",
                           order_of_k = "the order along K must be the same in A and B";
constexpr auto move_rows = std::to_array<MoveRow>({
    {.id = "nibbles",
     .what = "the two nibbles of every byte exchanged",
     .fix = "element 2j is the low nibble of byte j",
     .applies = [](const Lines& lines) { return lines.code_bits == 4; },
     .from = [](const Lines&, LineElement e) -> LineElement {
       return {e.line, e.k ^ 1};
     }},
    {.id = "transposed",
     .what = "transposed",
     .fix = "check which of its two extents runs along K",
     .applies = [](const Lines& lines) { return lines.count == lines.k; },
     .from = [](const Lines&, LineElement e) -> LineElement {
       return {e.k, e.line};
     }},
    {.id = "blocks_transposed",
     .what = "every block of 8 x 8 transposed",
     .fix = "ldmatrix with an unwanted .trans, or without a required one",
     .applies = [](const Lines& lines) { return lines.in_registers && lines.code_bits == 16 && lines.k % block == 0; },
     .from = [](const Lines&, LineElement e) -> LineElement {
       return {e.line / block * block + e.k % block, e.k / block * block + e.line % block};
     }},
    {.id = "rows_8",
     .what = "{} r and r + 8 of every 16 exchanged",
     .fix = order_of_rows,
     .applies = [](const Lines& lines) { return lines.count % 16 == 0; },
     .from = [](const Lines&, LineElement e) -> LineElement {
       return {e.line ^ 8, e.k};
     }},
    {.id = "rows_1",
     .what = "neighbouring {} exchanged",
     .fix = order_of_rows,
     .applies = [](const Lines& lines) { return lines.count % 2 == 0; },
     .from = [](const Lines&, LineElement e) -> LineElement {
       return {e.line ^ 1, e.k};
     }},
    {.id = "rows_reversed",
     .what = "{} of every 8 in the other order",
     .fix = order_of_rows,
     .applies = [](const Lines& lines) { return lines.count % 8 == 0; },
     .from = [](const Lines&, LineElement e) -> LineElement {
       return {e.line ^ 7, e.k};
     }},
    {.id = "rows_64",
     .what = "{} in blocks of 64 exchanged",
     .fix = order_of_rows,
     .applies = [](const Lines& lines) { return lines.count % 128 == 0; },
     .from = [](const Lines&, LineElement e) -> LineElement {
       return {e.line ^ 64, e.k};
     }},
    {.id = "rows_128",
     .what = "{} in blocks of 128 exchanged",
     .fix = order_of_rows,
     .applies = [](const Lines& lines) { return lines.count % 256 == 0; },
     .from = [](const Lines&, LineElement e) -> LineElement {
       return {e.line ^ 128, e.k};
     }},
    {.id = "k_pairs",
     .what = "neighbouring elements of K exchanged",
     .fix = order_of_k,
     .applies = [](const Lines& lines) { return lines.code_bits != 4 && can_exchange_k(lines, 1); },
     .from = [](const Lines&, LineElement e) -> LineElement {
       return {e.line, e.k ^ 1};
     }},
    {.id = "k_halves",
     .what = "the two halves of K exchanged",
     .fix = order_of_k,
     .applies = [](const Lines& lines) { return is_power_of_2(lines.k / 2) && can_exchange_k(lines, lines.k / 2); },
     .from = [](const Lines& lines, LineElement e) -> LineElement {
       return {e.line, e.k ^ (lines.k / 2)};
     }},
});

struct PartRow {
  std::string_view id, what;
  bool second;  // which half of K is present
};
constexpr auto part_rows = std::to_array<PartRow>({
    {.id = "first_half_of_k", .what = "only the first half of K is present, the rest is zero", .second = false},
    {.id = "last_half_of_k", .what = "only the second half of K is present, the rest is zero", .second = true},
});

/// Moves elements within an operand. Does not apply if an element would come from outside.
void add_moved(Rows& rows, Role x, std::string_view id, std::string_view what, std::string_view fix,
               std::function<Position(Position)> from) {
  add(rows, fmt::format("{}.{}", letter(x), id), stage_of(x), fmt::format("{}: {}", upper(x), what), fix,
      [x, from = std::move(from)](const Subject&, Parts& parts) {
        Matrix& operand = operand_of(parts, x);
        const Matrix before = operand;
        for (int row = 0; row < before.rows(); ++row) {
          for (int col = 0; col < before.cols(); ++col) {
            const auto [r, c] = from({row, col});
            if (r < 0 || c < 0 || r >= before.rows() || c >= before.cols()) return false;
            operand.set_code(row, col, before.code(r, c));
          }
        }
        return true;
      });
}

void add_types(Rows& rows, Role x, const FormatInfo& own) {
  for (const FormatInfo& other : formats) {
    const bool can_be_taken_for_it = other.is_operand && other.bits == own.bits && other.id != own.id &&
                                     other.kind != NumberKind::bits &&
                                     (other.kind == NumberKind::integer) == (own.kind == NumberKind::integer);
    if (!can_be_taken_for_it) continue;
    add(rows, fmt::format("{}.type.{}", letter(x), other.name), stage_of(x),
        fmt::format("{}: {} taken for {}", upper(x), own.name, other.name),
        "the type in the mnemonic or the instruction descriptor", [x, id = other.id](const Subject&, Parts& parts) {
          operand_of(parts, x) = operand_of(parts, x).as(id);
          return true;
        });
  }
}

/// Types of another width in the same byte containers: the other operand's type, or that of a wrong descriptor.
void add_types_of_other_widths(Rows& rows, const Subject& s, Role x, const FormatInfo& own) {
  const SmemMatrix* const matrix = s.in_smem(x);
  if (!matrix || matrix->element_bits != 8 || own.kind != NumberKind::floating) return;
  for (const FormatInfo& other : formats) {
    const bool fits = other.is_operand && other.kind == NumberKind::floating && other.bits >= 4 && other.bits <= 8;
    if (!fits || other.bits == own.bits) continue;
    const bool is_others = other.id == (x == Role::a ? s.mma().b : s.mma().a);
    add(rows, fmt::format("{}.type.{}", letter(x), other.name), stage_of(x),
        fmt::format("{}: {} taken for {}{}", upper(x), own.name, other.name,
                    is_others ? fmt::format(", the type of {}", x == Role::a ? 'B' : 'A') : ""),
        "the types in the instruction descriptor: bits 7-9 are A's, bits 10-12 B's",
        [x, id = other.id](const Subject& subject, Parts& parts) {
          std::optional<Matrix> read = subject.read_type(x, id);
          if (read) operand_of(parts, x) = std::move(*read);
          return read.has_value();
        });
  }
}

void add_sign(Rows& rows, Role x) {
  add(rows, fmt::format("{}.negate", letter(x)), stage_of(x),
      fmt::format("{}: its sign is not flipped although it should be, or the other way round", upper(x)),
      "imm-scale, or the negate bit of the instruction descriptor", [x](const Subject&, Parts& parts) {
        bool& negate = x == Role::a ? parts.operands.negate_a : parts.operands.negate_b;
        negate = !negate;
        return true;
      });
}

void add_moves(Rows& rows, Role x, const Mma& mma, const FormatInfo& format) {
  const bool is_a = x == Role::a;
  const Lines lines{.count = is_a ? mma.m : mma.n,
                    .k = is_a ? mma.stored_k() : mma.k,
                    .code_bits = format.bits,
                    .sparse = mma.sparse,
                    .in_registers = mma.b_source == OperandSource::registers && mma.products == 1};
  for (const MoveRow& row : move_rows) {
    if (!row.applies(lines)) continue;
    add_moved(rows, x, row.id, fmt::format(fmt::runtime(row.what), is_a ? "rows" : "columns"), row.fix,
              [is_a, lines, from = row.from](Position at) {
                const LineElement e = from(lines, is_a ? LineElement{at.row, at.col} : LineElement{at.col, at.row});
                return is_a ? Position{e.line, e.k} : Position{e.k, e.line};
              });
  }
}

/// A in registers: exchanges two of the four warps, 16 rows each.
void add_exchanged_warps(Rows& rows, const Subject& s) {
  if (s.mma().a_source != OperandSource::registers || s.mma().m % 64 != 0) return;
  for (int x = 0; x < 4; ++x) {
    for (int y = x + 1; y < 4; ++y) {
      add_moved(rows, Role::a, fmt::format("warps.{}_{}", x, y), fmt::format("warps {} and {} exchanged", x, y),
                "which warp loads which rows of A", [x, y](Position at) -> Position {
                  const int own = at.row % 64 / 16;
                  return {at.row + (own == x ? y - x : own == y ? x - y : 0) * 16, at.col};
                });
    }
  }
}

void add_absent(Rows& rows, const Subject& s, Role x) {
  add(rows, fmt::format("{}.zero", letter(x)), stage_of(x),
      fmt::format("{}: all zero: not loaded yet, or the kernel waited for the wrong barrier", upper(x)),
      "the wait before the instruction",
      [x](const Subject&, Parts& parts) { return operand_of(parts, x).fill(0), true; });
  for (const PartRow& row : part_rows) {
    add(rows, fmt::format("{}.{}", letter(x), row.id), stage_of(x), fmt::format("{}: {}", upper(x), row.what),
        "the box of the copy, the tail of K, or the number of instructions per tile of K",
        [x, row](const Subject&, Parts& parts) {
          Matrix& operand = operand_of(parts, x);
          const int k = x == Role::a ? operand.cols() : operand.rows();
          for (int r = 0; r < operand.rows(); ++r) {
            for (int c = 0; c < operand.cols(); ++c) {
              const bool in_second = 2 * (x == Role::a ? c : r) >= k;
              if (in_second != row.second) operand.set_code(r, c, 0);
            }
          }
          return true;
        });
  }
  if (s.cases() < 2) return;
  add(rows, fmt::format("{}.other_case", letter(x)), stage_of(x),
      fmt::format("{}: the one of the next case: another stage or iteration", upper(x)),
      "the index of the pipeline stage", [x](const Subject& subject, Parts& parts) {
        std::optional<Operands> next = subject.next_operands();
        if (next) operand_of(parts, x) = std::move(x == Role::a ? next->a : next->b);
        return next.has_value();
      });
}

/// Omits what the instruction does to an operand before the product.
void add_left_out(Rows& rows, const Subject& s, Role x) {
  if (x == Role::a && s.this_case().has_state() && s.mma().repeats_last_rows) {
    add(rows, "a.no_ashift", FaultStage::a, "A: .ashift is missing", "the qualifier",
        [](const Subject& subject, Parts& parts) {
          std::optional<Operands> read =
              subject.read_as(without_ashift(subject.instruction()), subject.this_case().before);
          if (read) parts.operands.a = std::move(read->a);
          return read.has_value();
        });
  }
  if (x == Role::b && s.this_case().before.has(Field::zero_column_mask)) {
    add(rows, "b.no_mask", FaultStage::b, "B: the zero-column mask is missing", "bit 39 of the mask descriptor",
        [](const Subject& subject, Parts& parts) {
          State state = subject.this_case().before;
          ZeroColumnMask mask = decode_zero_column_mask(state.number(Field::zero_column_mask));
          mask.non_zero_mask = false;
          state.set(Field::zero_column_mask, encode(mask));
          std::optional<Operands> read = subject.read_as(subject.instruction(), state);
          if (read) parts.operands.b = std::move(read->b);
          return read.has_value();
        });
  }
}

}  // namespace

void add_operand_faults(Rows& rows, const Subject& s, Role x) {
  const FormatInfo& format = info(x == Role::a ? s.mma().a : s.mma().b);
  add_types(rows, x, format);
  add_types_of_other_widths(rows, s, x, format);
  if (format.kind == NumberKind::floating) add_sign(rows, x);
  add_moves(rows, x, s.mma(), format);
  if (x == Role::a) add_exchanged_warps(rows, s);
  add_absent(rows, s, x);
  add_left_out(rows, s, x);
}

}  // namespace bitmma::faults
