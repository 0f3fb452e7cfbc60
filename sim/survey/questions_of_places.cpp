// SPDX-License-Identifier: MIT
// Questions about the places of operands of CTA pairs and .ws, and of scales beyond the fourth byte of a cell.
#include <algorithm>

#include "answers.hpp"
#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "bitmma/instruction/execute.hpp"
#include "bitmma/instruction/place.hpp"
#include "bitmma/instruction/place_operands.hpp"
#include "bitmma/memory/tmem.hpp"
#include "bitmma/stimulus/random_operands.hpp"

namespace bitmma::survey {
namespace {

constexpr TargetSet with_k_of_96{Target::sm_103a};

/// Small integers, whose sums are exact under every rule of addition, in the default layout.
Trial of_integers(const Question& question, Target target, RandomStream& random) {
  const Operands operands = random_operands(question.instruction, target, Distribution::integers, random.word64(), 0);
  return {question.instruction, target, place_operands(question.instruction, {}, operands, {random.word64(), 0})};
}

/// D if operands are read from other places: column `col` for the rows of `cta` uses column `slot_of(cta, col)` of B in
/// the model's layout.
template <typename SlotOf>
std::function<State(const Trial&)> with_b_from(SlotOf slot_of) {
  return [slot_of](const Trial& trial) {
    const Mma mma = mma_of(trial.instruction);
    const Operands operands = gather_operands(trial.instruction, trial.target, trial.before);
    const int rows = mma.m / mma.cta_group;
    State after = trial.before;
    for (int cta = 0; cta < mma.cta_group; ++cta) {
      Operands of_cta = operands;
      for (int col = 0; col < mma.n; ++col) {
        for (int k = 0; k < operands.b.rows(); ++k)
          of_cta.b.set_code(k, col, operands.b.code(k, slot_of(cta, col, mma.n)));
      }
      const Matrix d = multiply_accumulate(model_for(trial.instruction, trial.target), of_cta);
      for_cells_of_d(trial, after, [&](uint32_t& word, int row, int col) {
        if (row / rows == cta) word = d(row, col);
      });
    }
    return after;
  };
}

/// D, and C before it, in other cells: `place_of(row, col, place, mma)` returns the cell; `place` is the model's.
template <typename PlaceOf>
std::function<State(const Trial&)> with_d_at(PlaceOf place_of) {
  return [place_of](const Trial& trial) {
    const Mma mma = mma_of(trial.instruction);
    Operands operands = gather_operands(trial.instruction, trial.target, trial.before);
    const PlaceMap map(trial.instruction, trial.target, trial.before, Role::d);
    const auto index = [&](int row, int col) {
      return index_of(trial.before, place_of(row, col, std::get<TmemPlace>(map.place_of(row, col)),
                                             std::get<TmemPlace>(map.place_of(0, 0)), mma));
    };
    for (int row = 0; row < mma.m; ++row) {
      for (int col = 0; col < mma.n; ++col) (*operands.c)(row, col) = trial.before.words(Field::tmem)[index(row, col)];
    }
    const Matrix d = multiply_accumulate(model_for(trial.instruction, trial.target), operands);
    State after = trial.before;
    for (int row = 0; row < mma.m; ++row) {
      for (int col = 0; col < mma.n; ++col) after.writable_words(Field::tmem)[index(row, col)] = d(row, col);
    }
    return after;
  };
}

/// Part `part` of N, `column` columns into it, if the rows of a part occupy `rows` lanes.
TmemPlace in_part(TmemPlace first, int row, int part, int column, int rows) {
  return {.cta = row / rows, .lane = part * rows + row % rows, .column = first.column + column};
}

/// Sixteen rows per partition; the second half of N is in the other sixteen lanes.
TmemPlace in_half_partitions(int row, int col, const TmemPlace&, const TmemPlace& first, const Mma& mma) {
  const int half = mma.n / 2, in_cta = row % 64;
  return {.cta = row / 64,
          .lane = 32 * (in_cta / 16) + 16 * (col / half) + in_cta % 16,
          .column = first.column + col % half};
}

Question halves_of_b(std::string_view name, int m) {
  return {.name = name,
          .instruction = Tcgen05Mma{.cta_group = 2, .m = m, .n = 32},
          .targets = blackwell,
          .ask = of_integers,
          .answers = {
              model_answer("the even CTA has the first half of the columns, the odd CTA the second"),
              {"the even CTA has the second half", with_b_from([](int, int col, int n) { return (col + n / 2) % n; })},
              {"the even CTA has the even columns",
               with_b_from([](int, int col, int n) { return col % 2 * (n / 2) + col / 2; })},
              {"each CTA multiplies by its own half only",
               with_b_from([](int cta, int col, int n) { return cta * (n / 2) + col % (n / 2); })},
              {"both CTAs multiply by the half of the even one only",
               with_b_from([](int, int col, int n) { return col % (n / 2); })}}};
}

/// D with 64 rows per CTA, whose N is split in two.
Question halves_of_d(std::string_view name, Instruction instruction) {
  constexpr int rows = 64;
  return {.name = name,
          .instruction = std::move(instruction),
          .targets = blackwell,
          .ask = of_integers,
          .answers = {model_answer("the second half of the columns is in lanes 64 and up"),
                      {"the first half of the columns is in lanes 64 and up",
                       with_d_at([](int row, int col, const TmemPlace&, const TmemPlace& first, const Mma& mma) {
                         const int half = mma.n / 2;
                         return in_part(first, row, 1 - col / half, col % half, rows);
                       })},
                      {"odd columns are in lanes 64 and up",
                       with_d_at([](int row, int col, const TmemPlace&, const TmemPlace& first, const Mma&) {
                         return in_part(first, row, col % 2, col / 2, rows);
                       })},
                      {"16 rows in each 32 lanes, the second half of the columns in the other 16",
                       with_d_at(in_half_partitions)}}};
}

Question quarters_of_d() {
  constexpr int rows = 32;
  return {.name = "D of .ws, M = 32",
          .instruction = Tcgen05Mma{.weight_stationary = true, .m = rows, .n = 64},
          .targets = blackwell,
          .ask = of_integers,
          .answers = {model_answer("quarter q of the columns is in lanes 32 q and up"),
                      {"the quarters of the columns in falling order",
                       with_d_at([](int row, int col, const TmemPlace&, const TmemPlace& first, const Mma& mma) {
                         const int quarter = mma.n / 4;
                         return in_part(first, row, 3 - col / quarter, col % quarter, rows);
                       })},
                      {"column c is in lanes 32 (c modulo 4) and up",
                       with_d_at([](int row, int col, const TmemPlace&, const TmemPlace& first, const Mma&) {
                         return in_part(first, row, col % 4, col / 4, rows);
                       })},
                      {"the second and third quarter exchanged",
                       with_d_at([](int row, int col, const TmemPlace&, const TmemPlace& first, const Mma& mma) {
                         const int quarter = mma.n / 4, part = col / quarter;
                         return in_part(first, row, part % 2 * 2 + part / 2, col % quarter, rows);
                       })}}};
}

/// A of .ws in Tensor Memory: part p of N reads the copy of A in its own lanes, or another copy.
Question copies_of_a() {
  constexpr int rows = 32;
  const auto from_copy = [](auto copy_of) {
    return [copy_of](const Trial& trial) {
      Trial other = trial;
      const Mma mma = mma_of(trial.instruction);
      const int column = decode_tmem_address(trial.before.word(Field::a_tmem)).column, columns = mma.k / 2;
      const std::span<uint32_t> words = other.before.writable_words(Field::tmem);
      const auto word_at = [&](int lane, int at) {
        return index_of(trial.before, {.lane = lane, .column = column + at});
      };
      for (int lane = 0; lane < tmem_lanes; ++lane) {
        for (int at = 0; at < columns; ++at)
          words[word_at(lane, at)] =
              trial.before.words(Field::tmem)[word_at(copy_of(lane / rows) * rows + lane % rows, at)];
      }
      State after = executed(other);
      for (int lane = 0; lane < tmem_lanes; ++lane) {  // A is only read
        for (int at = 0; at < columns; ++at)
          after.writable_words(Field::tmem)[word_at(lane, at)] = trial.before.words(Field::tmem)[word_at(lane, at)];
      }
      return after;
    };
  };
  return {.name = "copies of A of .ws in Tensor Memory",
          .instruction = Tcgen05Mma{.weight_stationary = true, .m = rows, .n = 64, .a_source = OperandSource::tmem},
          .targets = blackwell,
          .ask = drawn(of_integers,
                       [](Trial& trial, RandomStream& random) {
                         const int column = decode_tmem_address(trial.before.word(Field::a_tmem)).column;
                         const std::span<uint32_t> words = trial.before.writable_words(Field::tmem);
                         // Small f16 integers, different in each copy: 1, 2, 4 and 8 with a sign.
                         for (int lane = 0; lane < tmem_lanes; ++lane) {
                           for (int at = 0; at < mma_of(trial.instruction).k / 2; ++at) {
                             const uint32_t word = random.word();
                             words[static_cast<size_t>(lane * trial.before.columns() + column + at)] =
                                 0x3C003C00 + (word & 0x8C008C00);
                           }
                         }
                       }),
          .answers = {model_answer("every quarter of the columns reads the copy in its own lanes"),
                      {"all read the copy in lanes 0..31", from_copy([](int) { return 0; })},
                      {"all read the copy in lanes 96..127", from_copy([](int) { return 3; })},
                      {"the second reads the first's copy, the fourth the third's",
                       from_copy([](int part) { return part / 2 * 2; })}}};
}

/// Scales 4 and 5 of a row with K = 96.
Question scales_behind_the_cell(std::string_view name, bool of_a) {
  const auto read_from = [of_a](auto place_of) {
    return [of_a, place_of](const Trial& trial) {
      const Mma mma = mma_of(trial.instruction);
      const TmemLayoutInfo& layout = find_tmem_layout(mma.m, mma.cta_group, false, false);
      const TmemScales scales = of_a ? scales_of_a(layout, trial.before.word(Field::scale_a_tmem), 0)
                                     : scales_of_b(layout, mma.n, trial.before.word(Field::scale_b_tmem), 0);
      Operands operands = gather_operands(trial.instruction, trial.target, trial.before);
      for (int row = 0; row < (of_a ? mma.m : mma.n); ++row) {
        for (int j = 4; j < mma.scale_count; ++j) {
          const TmemPlace place = place_of(scales, row, j);
          const uint32_t code = trial.before.words(Field::tmem)[index_of(trial.before, place)] >> place.bit & 0xFF;
          if (of_a) operands.scales->a.set_code(row, j, code);
          else operands.scales->b.set_code(j, row, code);
        }
      }
      const Matrix d = multiply_accumulate(model_for(trial.instruction, trial.target), operands);
      State after = trial.before;
      for_cells_of_d(trial, after, [&](uint32_t& word, int row, int col) { word = d(row, col); });
      return after;
    };
  };
  const auto columns_further = [read_from](int columns) {
    return read_from([columns](const TmemScales& scales, int row, int j) {
      TmemPlace place = scales.place_of(row, j - 4, 0);
      place.column += columns;
      return place;
    });
  };
  std::vector<Answer> answers{
      model_answer("four columns further, from byte 0 on, as if there were 128 rows"),
      {"in bytes 0 and 1 of the same cell", columns_further(0)},
      {"in bytes 2 and 3 of the same cell",
       read_from([](const TmemScales& scales, int row, int j) { return scales.place_of(row, j - 2, 0); })},
      {"in the next column", columns_further(1)},
      {"two columns further", columns_further(2)},
      {"eight columns further", columns_further(8)}};
  return {.name = name,
          .choice = Choice::scales_behind_byte_3,
          .instruction = Tcgen05Mma{.kind = MmaKind::mxf4nvf4, .n = 64, .k = 96},
          .targets = with_k_of_96,
          .ask = drawn(of_integers,
                       [](Trial& trial, RandomStream& random) {
                         const int first = std::min(decode_tmem_address(trial.before.word(Field::scale_a_tmem)).column,
                                                    decode_tmem_address(trial.before.word(Field::scale_b_tmem)).column);
                         const int width = trial.before.columns();
                         const std::span<uint32_t> words = trial.before.writable_words(Field::tmem);
                         // Powers of two from 2^-3 to 2^3 in every cell that any answer reads, equal in every
                         // partition.
                         for (int column = first; column < width; ++column) {
                           for (int lane = 0; lane < 32; ++lane) {
                             uint32_t word = 0;
                             for (int bit = 0; bit < 32; bit += 8)
                               word |= static_cast<uint32_t>(random.between(124, 130)) << bit;
                             for (int partition = 0; partition < 4; ++partition)
                               words[static_cast<size_t>((32 * partition + lane) * width + column)] = word;
                           }
                         }
                       }),
          .answers = std::move(answers)};
}

}  // namespace

std::vector<Question> questions_of_places() {
  return {halves_of_b("B over two CTAs, M = 256", 256),
          halves_of_b("B over two CTAs, M = 128", 128),
          halves_of_d("D over two CTAs, M = 128", Tcgen05Mma{.cta_group = 2, .m = 128, .n = 32}),
          halves_of_d("D of .ws, M = 64", Tcgen05Mma{.weight_stationary = true, .m = 64, .n = 64}),
          quarters_of_d(),
          copies_of_a(),
          scales_behind_the_cell("scales of A behind byte 3", true),
          scales_behind_the_cell("scales of B behind byte 3", false)};
}

}  // namespace bitmma::survey
