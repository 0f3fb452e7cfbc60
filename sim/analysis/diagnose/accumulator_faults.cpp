// SPDX-License-Identifier: MIT
// Faults of C before the instruction and of D after it.
#include <array>

#include "bitmma/instruction/immediates.hpp"
#include "fault_rows.hpp"

namespace bitmma::faults {
namespace {

struct CRow {
  std::string_view id, what;
  int row_flip = 0, col_flip = 0;
};
constexpr auto c_rows = std::to_array<CRow>({
    {.id = "c.rows_8", .what = "C: rows r and r + 8 exchanged: registers 0, 1 and 2, 3", .row_flip = 8},
    {.id = "c.cols_1", .what = "C: neighbouring columns exchanged", .col_flip = 1},
    {.id = "c.cols_8", .what = "C: columns in groups of 8 exchanged", .col_flip = 8},
});

void add_cleared(Rows& rows) {
  add(rows, "c.cleared", FaultStage::c, "C is not added: the accumulator was cleared",
      "scale-d or enable-input-d must be 1 here",
      [](const Subject&, Parts& parts) { return parts.operands.c.reset(), true; });
}

void add_not_cleared(Rows& rows) {
  add(rows, "c.not_cleared", FaultStage::c, "C is added: the accumulator was not cleared",
      "scale-d or enable-input-d must be 0 in the first step of K", [](const Subject& s, Parts& parts) {
        std::optional<Operands> read = s.read_as(with_enable_input_d(s.instruction(), true), s.this_case().before);
        if (read) parts.operands.c = std::move(read->c);
        return read.has_value();
      });
}

struct OutputRow {
  std::string_view id, what, fix;
  bool (*applies)(const Mma&);
  Position (*from)(const Mma&, Position);
};

constexpr auto output_rows = std::to_array<OutputRow>({
    {.id = "d.rows_8",
     .what = "D: rows r and r + 8 of every 16 exchanged: registers 0, 1 and 2, 3",
     .fix = "register 2 of a thread is row + 8",
     .applies = [](const Mma& mma) { return mma.m % 16 == 0; },
     .from = [](const Mma&, Position at) -> Position {
       return {at.row ^ 8, at.col};
     }},
    {.id = "d.cols_1",
     .what = "D: neighbouring columns exchanged: registers 0 and 1",
     .fix = "registers 0 and 1 are neighbouring columns; in f16 the low half comes first",
     .applies = [](const Mma& mma) { return mma.n % 2 == 0; },
     .from = [](const Mma&, Position at) -> Position {
       return {at.row, at.col ^ 1};
     }},
    {.id = "d.cols_8",
     .what = "D: columns in groups of 8 exchanged",
     .fix = "four registers go to the next 8 columns",
     .applies = [](const Mma& mma) { return mma.n % 16 == 0; },
     .from = [](const Mma&, Position at) -> Position {
       return {at.row, at.col ^ 8};
     }},
    {.id = "d.rows_64",
     .what = "D: blocks of 64 rows exchanged",
     .fix = "which warpgroup or CTA holds which half",
     .applies = [](const Mma& mma) { return mma.m > 64; },
     .from = [](const Mma&, Position at) -> Position {
       return {at.row ^ 64, at.col};
     }},
    {.id = "d.rows_128",
     .what = "D: rows of the other CTA",
     .fix = "the even CTA holds the lower half of the rows",
     .applies = [](const Mma& mma) { return mma.m > 128; },
     .from = [](const Mma&, Position at) -> Position {
       return {at.row ^ 128, at.col};
     }},
    {.id = "d.rows_16_off",
     .what = "D: shifted by 16 rows: a lane offset of 16, or another warp",
     .fix = "M = 64 uses 16 lanes of every 32",
     .applies = [](const Mma& mma) { return mma.m >= 32; },
     .from = [](const Mma& mma, Position at) -> Position {
       return {(at.row + 16) % mma.m, at.col};
     }},
    {.id = "d.rows_32_off",
     .what = "D: shifted by 32 rows: the lanes of the next warp",
     .fix = "warp w reads lanes 32 w and up",
     .applies = [](const Mma& mma) { return mma.m >= 32; },
     .from = [](const Mma& mma, Position at) -> Position {
       return {(at.row + 32) % mma.m, at.col};
     }},
    {.id = "d.cols_half",
     .what = "D: the two halves of N exchanged",
     .fix = "in two-by-two layouts columns from N / 2 on are in lanes 64 and up",
     .applies = [](const Mma& mma) { return mma.n % 2 == 0 && mma.n > 16; },
     .from = [](const Mma& mma, Position at) -> Position {
       return {at.row, (at.col + mma.n / 2) % mma.n};
     }},
    {.id = "d.cols_8_off",
     .what = "D: shifted by 8 columns",
     .fix = "the column of the address",
     .applies = [](const Mma& mma) { return mma.n > 8; },
     .from = [](const Mma& mma, Position at) -> Position {
       return {at.row, (at.col + 8) % mma.n};
     }},
    {.id = "d.transposed",
     .what = "D: transposed",
     .fix = "row and column of the output",
     .applies = [](const Mma& mma) { return mma.m == mma.n; },
     .from = [](const Mma&, Position at) -> Position {
       return {at.col, at.row};
     }},
});

/// Rows of D per warp and per warpgroup: 16 and 64; in the 128 lanes of Tensor Memory a warp has 32.
int rows_of_warp(const Subject& s) {
  const bool in_tmem = has_instruction_descriptor(s.instruction());
  return in_tmem && s.mma().m % 128 == 0 ? 32 : 16;
}

/// Exchanges two warps of each warpgroup, and two blocks of 64 rows.
void add_exchanged_rows(Rows& rows, const Subject& s) {
  const int m = s.mma().m;
  const auto add_exchange = [&](std::string id, std::string what, std::string_view fix, int block, int x, int y,
                                int whole) {
    add(rows, std::move(id), FaultStage::output, std::move(what), fix,
        [block, x, y, whole](const Subject&, Parts& parts) {
          parts.outcome = Moved{[block, x, y, whole](Position at) -> Position {
            const int own = at.row % whole / block;
            return {at.row + (own == x ? y - x : own == y ? x - y : 0) * block, at.col};
          }};
          return true;
        });
  };
  const int warp = rows_of_warp(s), group = 4 * warp;
  for (int x = 0; x < 4 && m % group == 0; ++x) {
    for (int y = x + 1; y < 4; ++y) {
      add_exchange(fmt::format("d.warps.{}_{}", x, y), fmt::format("D: warps {} and {} exchanged", x, y),
                   "which warp stores which rows, and which lanes of Tensor Memory it may read", warp, x, y, group);
    }
  }
  constexpr int block = 64, most = 8;
  const int blocks = m / block;
  for (int x = 0; x < blocks && m % block == 0 && blocks <= most; ++x) {
    for (int y = x + 1; y < blocks; ++y) {
      if (blocks == 2) continue;  // the same as d.rows_64
      add_exchange(fmt::format("d.blocks.{}_{}", x, y),
                   fmt::format("D: rows from {} and from {} exchanged, in blocks of 64", x * block, y * block),
                   "which warpgroup or CTA holds which rows", block, x, y, m);
    }
  }
}

/// The matrix with its first `rows` x `cols` block in place of every other block of that size.
Matrix repeated(const Matrix& matrix, int rows, int cols) {
  Matrix all = matrix;
  for (int row = 0; row < all.rows(); ++row) {
    for (int col = 0; col < all.cols(); ++col) all.set_code(row, col, matrix.code(row % rows, col % cols));
  }
  return all;
}

/// Faults in the K steps of a whole tile.
void add_steps(Rows& rows, const Subject& s) {
  if (!s.is_tile() || s.mma().k == s.step_k()) return;
  constexpr int most = 16;
  const int steps = s.mma().k / s.step_k();
  constexpr std::string_view fix = "the loop over K: its bounds, and the stage that each step reads";
  for (const Role x : {Role::a, Role::b}) {
    add(rows, fmt::format("{}.not_advanced", letter(x)), stage_of(x),
        fmt::format("{}: every step reads the tile of the first step: the descriptor does not advance along K",
                    upper(x)),
        "advance the start field by (bytes of K) >> 4 for every instruction",
        [x, step = s.step_k()](const Subject&, Parts& parts) {
          Matrix& operand = operand_of(parts, x);
          operand = x == Role::a ? repeated(operand, operand.rows(), stored_of_k(parts.operands, step))
                                 : repeated(operand, step, operand.cols());
          return true;
        });
  }
  const Mma mma = mma_of(s.instruction());
  for (const Role x : {Role::a, Role::b}) {
    const int lines = x == Role::a ? mma.m : mma.n, all = x == Role::a ? s.mma().m : s.mma().n;
    if (lines >= all) continue;
    add(rows, fmt::format("{}.same_block", letter(x)), stage_of(x),
        fmt::format("{}: every instruction reads the first {} {}", upper(x), lines, x == Role::a ? "rows" : "columns"),
        x == Role::a ? "the start field of A for each block of rows" : "the start field of B for each block of columns",
        [x, lines](const Subject&, Parts& parts) {
          Matrix& operand = operand_of(parts, x);
          operand = x == Role::a ? repeated(operand, lines, operand.cols()) : repeated(operand, operand.rows(), lines);
          return true;
        });
  }
  for (int stale = 1; stale < steps && steps <= most; ++stale) {
    add(rows, fmt::format("d.stale_step.{}", stale), FaultStage::output,
        fmt::format("D: step {} of K reads A and B of step {} again", stale, stale - 1),
        "the wait for the stage's barrier, and its phase, before the step",
        [stale](const Subject& subject, Parts& parts) {
          Operands read = subject.truth();
          const int step = subject.step_k(), first = stale * step;
          const Operands before = part_of_k(read, first - step, step);
          set_block(read.a, 0, stored_of_k(read, first), before.a);  // a sparse A keeps its own metadata
          set_block(read.b, first, 0, before.b);
          parts.outcome = Accumulated{.first = std::move(read)};
          return !subject.truth().scales;  // each step's scales have their own place
        });
  }
  add(rows, "d.loop_twice", FaultStage::output, "D: all of K is added twice", fix,
      [](const Subject& subject, Parts& parts) {
        parts.outcome = Accumulated{.products = {subject.truth()}};
        return true;
      });
  add(rows, "c.cleared_in_every_step", FaultStage::output,
      "D: only the last step: the accumulator is cleared before every step",
      "scale-d or enable-input-d must be 1 in every step except the first", [](const Subject& subject, Parts& parts) {
        const int last = subject.mma().k - subject.step_k();
        Operands alone = part_of_k(subject.truth(), last, subject.step_k());
        alone.c.reset();
        parts.outcome = Accumulated{.first = std::move(alone)};
        return true;
      });
  for (int missing = 0; missing < steps && steps <= most; ++missing) {
    add(rows, fmt::format("d.without_step.{}", missing), FaultStage::output,
        fmt::format("D: without step {} of K", missing), fix, [missing](const Subject& subject, Parts& parts) {
          Operands rest = subject.truth();
          const int count = stored_of_k(rest, subject.step_k()), first = missing * count;
          for (int row = 0; row < rest.a.rows(); ++row)
            for (int col = first; col < first + count; ++col) rest.a.set_code(row, col, 0);
          parts.outcome = Accumulated{.first = std::move(rest)};
          return true;
        });
  }
  for (int count = 1; count < steps && steps <= most; ++count) {
    add(rows, fmt::format("d.first_steps.{}", count), FaultStage::output,
        fmt::format("D: {} of K alone", count == 1 ? "the first step" : fmt::format("the first {} steps", count)), fix,
        [count](const Subject& subject, Parts& parts) {
          parts.outcome = Accumulated{.first = part_of_k(subject.truth(), 0, count * subject.step_k())};
          return true;
        });
  }
}

/// Faults in sums over K: the steps are the file's cases in order, or the blocks that follow the descriptors.
void add_loops(Rows& rows, const Subject& s) {
  if (s.mma().c != s.mma().d || s.is_tile()) return;
  constexpr std::string_view fix = "how many instructions add to D, and which of them the file records";
  for (const int count : {2, 3, 4, 6, 8}) {
    if (s.blocks_of_k(count).empty()) continue;
    add(rows, fmt::format("d.blocks_of_k.{}", count), FaultStage::output,
        fmt::format("D: the sum over {} blocks of K, with descriptors that advance along K; the case contains only the "
                    "first block",
                    count),
        fix, [count](const Subject& subject, Parts& parts) {
          std::vector<Operands> blocks = subject.blocks_of_k(count);
          if (blocks.empty()) return false;
          parts.outcome = Accumulated{.products = {blocks.begin() + 1, blocks.end()}};
          return true;
        });
  }
  if (s.cases() < 2) return;
  // The cases from `first` to `last` are the steps; their sum is C, or D.
  const auto running = [](const Subject& subject, Parts& parts, int64_t first, int64_t last) {
    Accumulated sum{.first = subject.operands_of_case(first)};
    if (!sum.first) return false;
    for (int64_t index = first + 1; index <= last; ++index) {
      std::optional<Operands> next = subject.operands_of_case(index);
      if (!next) return false;
      sum.products.push_back(std::move(*next));
    }
    parts.outcome = std::move(sum);
    return true;
  };
  add(rows, "d.running_sum", FaultStage::output,
      "D: the sum of this case and all before it: steps of one loop over K, or an accumulator that is never cleared",
      fix, [running](const Subject& subject, Parts& parts) { return running(subject, parts, 0, subject.index()); });
  std::vector<int64_t> counts;
  for (const int64_t count : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
    if (count <= s.cases()) counts.push_back(count);
  }
  if (s.cases() < 64 && counts.back() != s.cases()) counts.push_back(s.cases());
  for (const int64_t count : counts) {
    add(rows, fmt::format("d.sum_of_cases.{}", count), FaultStage::output,
        fmt::format("D: the sum of cases 0 to {}: the whole loop over K, in every case", count - 1), fix,
        [running, count](const Subject& subject, Parts& parts) { return running(subject, parts, 0, count - 1); });
  }
}

}  // namespace

void add_accumulator_faults(Rows& rows, const Subject& s) {
  const bool reads_c = s.truth().c.has_value();
  if (reads_c) add_cleared(rows);
  else if (s.this_case().has_state()) add_not_cleared(rows);
  if (reads_c && s.cases() > 1) {
    add(rows, "c.other_case", FaultStage::c,
        "C: the C of the next case: instructions in another order, or another accumulator",
        "which accumulator each instruction adds to", [](const Subject& subject, Parts& parts) {
          std::optional<Operands> next = subject.next_operands();
          if (next) parts.operands.c = std::move(next->c);
          return parts.operands.c.has_value() && next.has_value();
        });
  }
  for (const CRow& row : c_rows) {
    const bool fits = (!row.col_flip || s.mma().n % (2 * row.col_flip) == 0) &&
                      (!row.row_flip || s.mma().m % (2 * row.row_flip) == 0);
    if (!reads_c || !fits) continue;
    add(rows, std::string(row.id), FaultStage::c, std::string(row.what),
        "how the accumulator was loaded into registers", [row](const Subject&, Parts& parts) {
          const Matrix before = *parts.operands.c;
          for (int r = 0; r < before.rows(); ++r) {
            for (int c = 0; c < before.cols(); ++c) {
              parts.operands.c->set_code(r, c, before.code(r ^ row.row_flip, c ^ row.col_flip));
            }
          }
          return true;
        });
  }
  if (s.mma().scale_input_d != 0) {
    add(rows, "c.no_scale", FaultStage::c, "scale-input-d is missing", "the immediate after enable-input-d",
        [](const Subject&, Parts& parts) { return parts.operands.scale_input_d = 0, true; });
  }
}

void add_output_faults(Rows& rows, const Subject& s) {
  for (const OutputRow& row : output_rows) {
    if (!row.applies(s.mma())) continue;
    add(rows, std::string(row.id), FaultStage::output, std::string(row.what), row.fix,
        [from = row.from](const Subject& subject, Parts& parts) {
          parts.outcome = Moved{[from, mma = subject.mma()](Position at) { return from(mma, at); }};
          return true;
        });
  }
  add_exchanged_rows(rows, s);
  add_steps(rows, s);
  for (const Format narrow : {Format::f16, Format::bf16}) {
    if (s.mma().d != Format::f32) continue;
    add(rows, fmt::format("d.rounded.{}", info(narrow).name), FaultStage::output,
        fmt::format("D: rounded to {} and widened again", info(narrow).name),
        "the types of the epilogue and of the store",
        [narrow](const Subject&, Parts& parts) { return parts.outcome = Accumulated{.rounded_to = narrow}, true; });
  }
  if (s.truth().c && s.mma().c == s.mma().d) {
    add(rows, "d.not_written", FaultStage::output,
        "D: unchanged: it was read too early, or the instruction did not run", "the wait before D is read",
        [](const Subject&, Parts& parts) { return parts.outcome = Unwritten{}, true; });
  }
  add_loops(rows, s);
  for (const int distance : {1, -1}) {
    if (s.cases() < 2 || (s.cases() == 2 && distance < 0)) continue;
    add(rows, fmt::format("d.case.{:+}", distance), FaultStage::output,
        fmt::format("D: the D of the {} case", distance > 0 ? "next" : "previous"),
        "the order of instructions or of stores", [distance](const Subject& subject, Parts& parts) {
          parts.outcome = OtherCase{distance};
          return subject.has_same_d(distance);
        });
  }
}

}  // namespace bitmma::faults
