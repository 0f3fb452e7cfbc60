// C before the instruction and D after it.
#include <array>

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
      "scale-d, or enable-input-d, must be 1 here",
      [](const Subject&, Parts& parts) { return parts.operands.c.reset(), true; });
}

void add_not_cleared(Rows& rows) {
  add(rows, "c.not_cleared", FaultStage::c, "C is added: the accumulator was not cleared",
      "scale-d, or enable-input-d, must be 0 in the first step of K", [](const Subject& s, Parts& parts) {
        std::optional<Operands> read = s.read_as(with_enable_input_d(s.instruction(), true), s.one().before);
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
     .what = "D: rows in blocks of 64 exchanged",
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
     .what = "D: rows 16 further on: a lane offset of 16, or another warp",
     .fix = "M = 64 uses 16 lanes of every 32",
     .applies = [](const Mma& mma) { return mma.m >= 32; },
     .from = [](const Mma& mma, Position at) -> Position {
       return {(at.row + 16) % mma.m, at.col};
     }},
    {.id = "d.rows_32_off",
     .what = "D: rows 32 further on: the lanes of the next warp",
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
     .what = "D: columns 8 further on",
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

}  // namespace

void add_accumulator_faults(Rows& rows, const Subject& s) {
  const bool reads_c = s.truth().c.has_value();
  if (reads_c) add_cleared(rows);
  else if (s.one().has_state()) add_not_cleared(rows);
  if (reads_c && s.cases() > 1) {
    add(rows, "c.other_case", FaultStage::c,
        "C of the next case: instructions in another order, or another accumulator",
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
    add(rows, "c.no_scale", FaultStage::c, "scale-input-d left out", "the immediate after enable-input-d",
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
  if (s.truth().c && s.mma().c == s.mma().d) {
    add(rows, "d.not_written", FaultStage::output,
        "D: still what it was before: read too early, or the instruction did not run", "the wait before D is read",
        [](const Subject&, Parts& parts) { return parts.outcome = Unwritten{}, true; });
  }
  for (const int distance : {1, -1}) {
    if (s.cases() < 2 || (s.cases() == 2 && distance < 0)) continue;
    add(rows, fmt::format("d.case.{:+}", distance), FaultStage::output,
        fmt::format("D: that of the {} case", distance > 0 ? "next" : "previous"),
        "the order of instructions or of stores", [distance](const Subject& subject, Parts& parts) {
          parts.outcome = OtherCase{distance};
          return subject.has_same_d(distance);
        });
  }
}

}  // namespace bitmma::faults
