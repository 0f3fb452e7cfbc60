// SPDX-License-Identifier: MIT
#include "chain.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "../formats/matrix_inside.hpp"
#include "accumulator_blocks.hpp"
#include "bitmma/arithmetic/multiply_accumulate.hpp"
#include "budget.hpp"
#include "fma.hpp"
#include "group_operands.hpp"
#include "kernels/kernels.hpp"
#include "product.hpp"
#include "slow_path.hpp"
#include "steps.hpp"

namespace bitmma {
namespace {

/// True if a step of zeros leaves the previous result unchanged because alignment drops none of its bits. The loops
/// then skip such steps.
bool zeros_change_nothing(const AccumulatorModel& model) {
  const int lowest_bit = info(model.output).min_exponent() - model.output_fraction_bits;
  return model.terms_per_step == 0 ||
         (model.fraction_bits >= model.output_fraction_bits &&
          (!model.floor_exponent || *model.floor_exponent - model.fraction_bits <= lowest_bit));
}

/// The loop for whole chains; groups, widened types and other roundings are computed update by update.
kernels::LoopId chain_loop_of(const AccumulatorModel& model) {
  const bool is_chain = model.scaling != Scaling::exact_groups && !model.c_last &&
                        model.step_order == StepOrder::ascending && zeros_change_nothing(model);
  return is_chain ? kernels::loop_of(model) : kernels::LoopId::none;
}

/// Splits the updates into the model's steps. Returns the largest number of terms in a step.
int find_steps(const AccumulatorModel& model, std::span<const ChainUpdate> updates,
               std::vector<kernels::ChainStep>& steps) {
  steps.clear();
  int most = 0;
  for (const ChainUpdate& update : updates) {
    for_each_step(model, update.count, [&](const KStep& step) {
      if (step.count == 0) return;
      steps.push_back({.first = update.first + step.first, .terms = step.count});
      most = std::max(most, step.count);
    });
  }
  return most;
}

/// One operand, for some steps.
struct DecodedSide {
  kernels::Array<int32_t> number, exponent;
  kernels::Array<uint32_t> negative;
  kernels::Array<uint32_t> special;  // for all steps so far
  kernels::Array<int32_t> scales;    // the exponent of every line's; empty: there are none
  kernels::ExponentRange range{4096, -4096};

  void begin(int lines) {
    special.assign(static_cast<size_t>(lines), 0);
    scales.clear();
    range = {4096, -4096};
  }
  /// One scale of each line. A line whose scale is NaN is special.
  void take_scales(const Matrix& codes) {
    const std::array<kernels::Scale, 256>& of_codes = scales_of(codes.format());
    scales.assign(special.size(), 0);
    for (size_t i = 0; i < codes.size(); ++i) {
      const kernels::Scale& scale = of_codes[codes.words()[i]];
      scales[i] = scale.exponent, special[i] |= static_cast<uint32_t>(scale.nan);
    }
  }
  const int32_t* scales_or_null() const { return scales.empty() ? nullptr : scales.data(); }
  void resize(size_t numbers, size_t exponents, size_t words) {
    number.resize(numbers), exponent.resize(exponents), negative.resize(words);
  }
};

struct DecodedSides {
  DecodedSide a, b;

  bool has_special() const {
    const auto any = [](const kernels::Array<uint32_t>& lines) {
      return std::ranges::any_of(lines, [](uint32_t line) { return line != 0; });
    };
    return any(a.special) || any(b.special);
  }
};

/// All steps of K that have so many terms.
struct DecodedK {
  DecodedSides sides;
  int steps = 0;  // 0: not decoded
};

/// Buffers for successive chains, one set per thread.
struct Workspace {
  std::vector<kernels::ChainStep> steps;
  DecodedSides sides;
  kernels::Array<uint8_t> special;  // for every strip and chain_rows rows
};

class FusedChain {
 public:
  FusedChain(const AccumulatorModel& model, const ChainBlock& block, int strip, const kernels::ChainLoop& loop,
             const Budget& budget, Workspace& workspace)
      : model_(model), block_(block), strip_(strip), loop_(loop), budget_(budget), at_(workspace) {
    rows_ = kernels::round_up(block.rows, kernels::chain_rows);
    stride_ = kernels::round_up(block.cols, strip);
    groups_ = rows_ / kernels::chain_rows;
    begin_sides();
    at_.special.assign(static_cast<size_t>(groups_) * static_cast<size_t>(stride_ / strip), 0);
  }

  /// For a single step: a scale of each row of A and each column of B.
  void take_scales(const BlockScales& scales) { sides_->a.take_scales(scales.a), sides_->b.take_scales(scales.b); }

  /// Takes operands from `decoded`, and decodes them the first time. All steps of the chain must be among its steps.
  void use(DecodedK& decoded, int terms) {
    sides_ = &decoded.sides;
    if (decoded.steps == 0) decoded.steps = decode_all(terms);
    // It does not say which k are special.
    if (decoded.sides.has_special()) sides_ = &at_.sides;
    else all_ = &decoded;
  }

  /// Reads C, if there is one.
  void run(const std::optional<Matrix>& c) {
    plain_ = model_.output == Format::f32, any_c_ = c.has_value();
    d_ = unfilled_matrix(model_.output, rows_, stride_);
    std::optional<Matrix> whole_c;
    if (c && (c->rows() != rows_ || c->cols() != stride_)) whole_c = filled_up(*c, rows_, stride_);
    c_ = whole_c ? whole_c->words().data() : c ? c->words().data() : nullptr;
    const int most = kernels::most_chain_terms / loop_.number_words;
    for (size_t first = 0; first < at_.steps.size();) {
      int terms = 0;
      size_t end = first;
      for (; end < at_.steps.size() && (terms == 0 || terms + at_.steps[end].terms <= most); ++end) {
        kernels::ChainStep& step = at_.steps[end];
        step.number = all_ ? static_cast<int>(step.first / step.terms) : static_cast<int>(end - first);
        step.at = all_ ? static_cast<int>(step.first) : terms;
        terms += step.terms;
      }
      run_chunk(std::span(at_.steps).subspan(first, end - first), terms);
      first = end;
    }
  }

  /// A single step by blocks, or in place. Those with a C that is NaN, infinite or of a size that the loop does not
  /// support become redo(their operands). Returns false, and writes nothing, if it needs another way: operands with NaN
  /// or infinity do.
  template <typename Redo>
  bool run_step(const Operands& operands, const AccumulatorBlocks& blocks, const Redo& redo) {
    plain_ = model_.output == Format::f32, any_c_ = blocks.read != nullptr;
    const bool is_in_place = blocks.in_place && model_.output == Format::f32 && block_.cols == stride_;
    in_fragment_ = is_in_place && blocks.in_place->is_fragment;
    const Chunk chunk = decode_steps(at_.steps, at_.steps.front().terms);
    if (has_special_operand()) return false;
    if (is_in_place) {
      in_place_ = true;
      uint32_t* const words = blocks.in_place->words;
      sum_strips(chunk, 0, rows_, blocks.read ? words : nullptr, words, blocks.in_place->stride);
      if (has_special_c()) redo_special_c(operands, blocks, redo);
      return true;
    }
    const auto sum = [&](const AccumulatorBlock& block) {
      sum_strips(chunk, block.row, block.rows, block.c(), block.codes, block.stride);
      return has_special_c(block.row, block.rows);
    };
    sum_by_blocks(blocks, model_.output, operands, sum, redo);
    return true;
  }

  Matrix take_d() {
    return block_.rows == rows_ && block_.cols == stride_ ? std::move(d_)
                                                          : block_of(d_, 0, block_.rows, 0, block_.cols);
  }

  bool has_special_operand() const { return sides_->has_special(); }
  /// True if some C is NaN, infinite or of a size that the loop does not support.
  bool has_special_c() const { return has_special_c(0, rows_); }

  /// Calls redo(row, rows, col, cols), within the block, for all outputs that a NaN or an infinity may affect.
  template <typename Redo>
  void for_special(const Redo& redo) const {
    for (int row = 0; row < block_.rows; ++row) {
      if (sides_->a.special[static_cast<size_t>(row)] != 0) redo(row, 1, 0, block_.cols);
    }
    for (int col = 0; col < block_.cols; ++col) {
      if (sides_->b.special[static_cast<size_t>(col)] != 0) redo(0, block_.rows, col, 1);
    }
    for (size_t i = 0; i < at_.special.size(); ++i) {
      if (at_.special[i] == 0) continue;
      const int row = static_cast<int>(i) % groups_ * kernels::chain_rows, col = static_cast<int>(i) / groups_ * strip_;
      redo(row, std::min(kernels::chain_rows, block_.rows - row), col, std::min(strip_, block_.cols - col));
    }
  }

 private:
  void begin_sides() { sides_->a.begin(rows_), sides_->b.begin(stride_); }

  /// Returns the number of steps.
  int decode_all(int terms) {
    begin_sides();
    const int count = block_.a.cols() / terms;
    resize_sides(static_cast<size_t>(count), count * terms);
    std::vector<kernels::ChainStep> steps;
    for (int i = 0; i < count; ++i) {
      steps.push_back({.first = int64_t{i} * terms, .terms = terms, .at = i * terms, .number = i});
      if (i + 1 < count && (std::ssize(steps) + 1) * terms <= kernels::most_chain_terms) continue;
      decode(steps, static_cast<size_t>(count), count * terms);
      steps.clear();
    }
    return count;
  }

  /// Number of words of a strip of B.
  struct Words {
    size_t number, exponent, negative;
  };
  Words words_of_strip(size_t steps, int stride) const {
    const auto strip = static_cast<size_t>(strip_), numbers = strip * static_cast<size_t>(stride);
    return {.number = numbers * static_cast<size_t>(loop_.number_words),
            .exponent = numbers / 2,
            .negative = strip * steps * static_cast<size_t>(loop_.sign_words)};
  }

  void decode_b(std::span<const kernels::ChainStep> steps, size_t decoded_steps, int stride) {
    loop_.decode_b({.format = kernels::DecodeConstants(info(block_.b.format())),
                    .codes = block_.b.words().data() + block_.col,
                    .codes_stride = static_cast<size_t>(block_.b.cols()),
                    .lines = block_.cols,
                    .scales = sides_->b.scales_or_null(),
                    .steps = steps,
                    .decoded_steps = static_cast<int>(decoded_steps),
                    .shift = budget_.b_shift,
                    .stride = stride,
                    .number = sides_->b.number.data(),
                    .exponent = sides_->b.exponent.data(),
                    .negative = sides_->b.negative.data(),
                    .special = sides_->b.special.data(),
                    .range = &sides_->b.range});
  }

  void decode_a(std::span<const kernels::ChainStep> steps, size_t decoded_steps, int stride) {
    loop_.decode_a(
        {.format = kernels::DecodeConstants(info(block_.a.format())),
         .codes = block_.a.words().data() + static_cast<size_t>(block_.row) * static_cast<size_t>(block_.a.cols()),
         .codes_stride = static_cast<size_t>(block_.a.cols()),
         .lines = block_.rows,
         .pairs_rows = in_fragment_,
         .scales = sides_->a.scales_or_null(),
         .steps = steps,
         .decoded_steps = static_cast<int>(decoded_steps),
         .shift = budget_.a_shift,
         .stride = stride,
         .number = sides_->a.number.data(),
         .exponent = sides_->a.exponent.data(),
         .negative = sides_->a.negative.data(),
         .special = sides_->a.special.data(),
         .range = &sides_->a.range});
  }

  /// If this holds, results are normal or zero: a result is a multiple of 2^(e_max - F), and the sum of all terms is
  /// below 2^128.
  bool stays_plain(int terms) {
    terms_ += terms;
    const kernels::ExponentRange &a = sides_->a.range, &b = sides_->b.range;
    return a.lowest + b.lowest - model_.fraction_bits >= -126 &&
           a.highest + b.highest + 2 + std::bit_width(static_cast<uint64_t>(terms_)) <= 126;
  }

  /// Some steps of which the operands are decoded.
  struct Chunk {
    std::span<const kernels::ChainStep> steps;
    size_t decoded_steps;
    int a_stride;
    Words words;
    bool two_parts;  // some step needs two parts
  };

  // Of so many decoded terms. Every row of A has room for whole vectors after its last number.
  static int a_stride_of(int terms) { return kernels::round_up(terms, 16) + 16; }
  static int b_stride_of(int terms) { return terms + 1; }

  void resize_sides(size_t steps, int terms) {
    const auto strips = static_cast<size_t>(stride_ / strip_), rows = static_cast<size_t>(rows_),
               numbers = rows * static_cast<size_t>(a_stride_of(terms));
    const Words words = words_of_strip(steps, b_stride_of(terms));
    sides_->a.resize(numbers * static_cast<size_t>(loop_.number_words), numbers,
                     rows * steps * static_cast<size_t>(loop_.sign_words));
    sides_->b.resize(strips * words.number, strips * words.exponent, strips * words.negative);
  }

  /// Some steps, into arrays for so many steps and terms.
  void decode(std::span<const kernels::ChainStep> steps, size_t decoded_steps, int decoded_terms) {
    decode_b(steps, decoded_steps, b_stride_of(decoded_terms));
    decode_a(steps, decoded_steps, a_stride_of(decoded_terms));
  }

  Chunk decode_steps(std::span<const kernels::ChainStep> steps, int terms) {
    if (!all_) {
      resize_sides(steps.size(), terms);
      decode(steps, steps.size(), terms);
    }
    plain_ = plain_ && stays_plain(terms);
    const auto needs_two = [&](const kernels::ChainStep& step) { return step.terms > budget_.terms_per_part; };
    const size_t decoded_steps = all_ ? static_cast<size_t>(all_->steps) : steps.size();
    const int decoded_terms = all_ ? all_->steps * steps.front().terms : terms;
    return {.steps = steps,
            .decoded_steps = decoded_steps,
            .a_stride = a_stride_of(decoded_terms),
            .words = words_of_strip(decoded_steps, b_stride_of(decoded_terms)),
            .two_parts = std::ranges::any_of(steps, needs_two)};
  }

  /// All strips of some rows. C, if there is one, and D begin with these rows.
  void sum_strips(const Chunk& chunk, int row, int rows, const uint32_t* c, uint32_t* d, int d_stride) {
    for (int strip = 0; strip < stride_ / strip_; ++strip) {
      const auto at = static_cast<size_t>(strip), first = at * static_cast<size_t>(in_fragment_ ? strip_ / 2 : strip_);
      loop_.sum[kernels::loop_of(model_)](
          {.a_number = sides_->a.number.data(),
           .a_exponent = sides_->a.exponent.data(),
           .a_negative = sides_->a.negative.data(),
           .a_stride = chunk.a_stride,
           .b_number = sides_->b.number.data() + at * chunk.words.number,
           .b_exponent = sides_->b.exponent.data() + at * chunk.words.exponent,
           .b_negative = sides_->b.negative.data() + at * chunk.words.negative,
           .steps = chunk.steps,
           .decoded_steps = static_cast<int>(chunk.decoded_steps),
           .first_row = row,
           .rows = rows,
           .c = c ? c + first : nullptr,
           .plain = plain_,
           .any_c = any_c_,
           .terms_per_part = budget_.terms_per_part,
           .two_parts = chunk.two_parts,
           .fraction_bits = model_.fraction_bits,
           .floor_exponent = kernels::floor_of(model_),
           .output = kernels::OutputConstants(info(model_.output), model_.output_fraction_bits),
           .d = d + first,
           .d_stride = d_stride,
           .in_fragment = in_fragment_,
           .in_place = in_place_,
           .special = at_.special.data() + at * static_cast<size_t>(groups_)});
    }
  }

  void run_chunk(std::span<const kernels::ChainStep> steps, int terms) {
    sum_strips(decode_steps(steps, terms), 0, rows_, c_, d_.words().data(), stride_);
    c_ = d_.words().data();
  }

  /// The groups with a special C still hold it.
  template <typename Redo>
  void redo_special_c(Operands operands, const AccumulatorBlocks& blocks, const Redo& redo) {
    const kernels::Array<uint8_t> special = at_.special;
    Matrix mixed = unfilled_matrix(model_.output, rows_, stride_);
    blocks.read(0, rows_, mixed.words().data(), stride_);
    operands.c = mixed;
    const Matrix d = redo(operands);
    for (int row = 0; row < rows_; ++row) {
      // The row of A before pairs_rows ordered them.
      const int at = in_fragment_ ? row / 16 * 16 + row % 8 * 2 + row % 16 / 8 : row;
      for (int col = 0; col < stride_; ++col) {
        const int group = col / strip_ * groups_ + at / kernels::chain_rows;
        if (special[static_cast<size_t>(group)] != 0) mixed(row, col) = d(row, col);
      }
    }
    blocks.write(0, rows_, mixed.words().data(), stride_);
  }

  bool has_special_c(int row, int rows) const {
    const auto begin = at_.special.begin() + row / kernels::chain_rows;
    for (int strip = 0; strip < stride_ / strip_; ++strip) {
      const auto of_strip = begin + static_cast<std::ptrdiff_t>(strip) * groups_;
      if (std::any_of(of_strip, of_strip + rows / kernels::chain_rows, [](uint8_t group) { return group != 0; }))
        return true;
    }
    return false;
  }

  const AccumulatorModel& model_;
  const ChainBlock& block_;
  int strip_;
  const kernels::ChainLoop& loop_;
  Budget budget_;
  Workspace& at_;
  DecodedSides* sides_ = &at_.sides;
  const DecodedK* all_ = nullptr;  // the whole K is decoded there
  int rows_ = 0, stride_ = 0, groups_ = 0;
  int64_t terms_ = 0;
  Matrix d_;
  const uint32_t* c_ = nullptr;  // C, after some steps D; rows are stride_ apart
  bool plain_ = false, any_c_ = false, in_fragment_ = false, in_place_ = false;
};

/// The fastest of the loops that support such sums.
const kernels::ChainLoop& loop_for(const kernels::ChainLoops& loops, const AccumulatorModel& model, Format a, Format b,
                                   int terms) {
  if (!have_small_exponents(a, b)) return loops.any;
  return fits_floats(model.fraction_bits, model.output_fraction_bits, b, terms) ? loops.few_bits : loops.small;
}

/// Whether a line of A or B has a NaN in the updates.
bool meets_nan(const ChainBlock& block, std::span<const ChainUpdate> updates, bool of_a, int line) {
  const Matrix& matrix = of_a ? block.a : block.b;
  const FormatInfo& format = info(matrix.format());
  for (const ChainUpdate& update : updates) {
    for (int i = 0; i < update.count; ++i) {
      const int k = static_cast<int>(update.first) + i;
      const uint32_t code = of_a ? matrix(block.row + line, k) : matrix(k, block.col + line);
      if (decode(format, code).number == NumberClass::nan) return true;
    }
  }
  return false;
}

}  // namespace

Matrix chain_by_updates(const AccumulatorModel& model, const ChainBlock& block, std::span<const ChainUpdate> updates,
                        int k, std::optional<Matrix> c) {
  for (const ChainUpdate& update : updates) {
    const auto first = static_cast<int>(update.first);
    const Operands operands{
        .a = filled_up(block_of(block.a, block.row, block.rows, first, update.count), block.rows, k),
        .b = filled_up(block_of(block.b, first, update.count, block.col, block.cols), k, block.cols),
        .c = std::move(c)};
    c = multiply_accumulate(model, operands);
  }
  return c ? std::move(*c) : Matrix(model.output, block.rows, block.cols);
}

struct DecodedOperands::Entries {
  /// A loop decodes for itself, by these shifts, steps of so many terms.
  std::map<std::tuple<const kernels::ChainLoop*, int, int, int>, DecodedK> of = {};
};
DecodedOperands::DecodedOperands() : entries_(std::make_unique<Entries>()) {}
DecodedOperands::~DecodedOperands() = default;
DecodedOperands::DecodedOperands(DecodedOperands&&) noexcept = default;
DecodedOperands& DecodedOperands::operator=(DecodedOperands&&) noexcept = default;

namespace {

/// True if the whole K in steps of so many terms has all steps of a chain, and fits a cache.
bool fit_decoded_k(std::span<const kernels::ChainStep> steps, const ChainBlock& block, int terms) {
  constexpr int64_t most_numbers = 1 << 21;
  const int k = block.a.cols();
  return int64_t{k} * (block.rows + block.cols) <= most_numbers &&
         std::ranges::all_of(steps, [&](const kernels::ChainStep& step) {
           return step.terms == terms && step.first % terms == 0 && step.first + terms <= k;
         });
}

}  // namespace

Matrix chain(const AccumulatorModel& model, const ChainBlock& block, std::span<const ChainUpdate> updates, int k,
             std::optional<Matrix> c, DecodedOperands* decoded) {
  if (std::optional<Matrix> d = chain_of_f64(model, block, updates, k, c)) return std::move(*d);
  const kernels::Kernels& all = kernels::kernels();
  const kernels::ChainLoops& loops = block.cols <= all.narrow_chain.strip ? all.narrow_chain : all.chain;
  thread_local Workspace workspace;
  const bool is_chain = chain_loop_of(model) != kernels::LoopId::none && model.scaling == Scaling::none;
  const int most = is_chain ? find_steps(model, updates, workspace.steps) : 0;
  if (most == 0 || most > kernels::most_dense_terms) return chain_by_updates(model, block, updates, k, std::move(c));
  const Format of_a = block.a.format(), of_b = block.b.format();
  const std::optional<Budget> budget = find_budget(model.fraction_bits, of_a, of_b, most);
  if (!budget) return chain_by_updates(model, block, updates, k, std::move(c));
  const kernels::ChainLoop& loop = loop_for(loops, model, of_a, of_b, most);
  FusedChain fused(model, block, loops.strip, loop, *budget, workspace);
  if (decoded && fit_decoded_k(workspace.steps, block, most))
    fused.use(decoded->entries().of[{&loop, budget->a_shift, budget->b_shift, most}], most);
  fused.run(c);
  Matrix d = fused.take_d();
  const uint32_t nan = static_cast<uint32_t>(*info(model.output).canonical_nan());
  fused.for_special([&](int row, int rows, int col, int cols) {
    const bool is_row = rows == 1 && cols == block.cols, is_col = cols == 1 && rows == block.rows;
    Matrix part(model.output, rows, cols);
    if ((is_row && meets_nan(block, updates, true, row)) || (is_col && meets_nan(block, updates, false, col))) {
      part.fill(nan);
    } else {
      std::optional<Matrix> c_part;
      if (c) c_part = block_of(*c, row, rows, col, cols);
      part = chain_by_updates(
          model,
          {.a = block.a, .b = block.b, .row = block.row + row, .rows = rows, .col = block.col + col, .cols = cols},
          updates, k, std::move(c_part));
    }
    set_block(d, row, col, part);
  });
  return d;
}

namespace {

/// The loop for a single step, which `step_by_chain` runs; its workspace is not that of `chain`, which may be the
/// caller.
struct StepLoop {
  const kernels::ChainLoops& loops;
  const kernels::ChainLoop& loop;
  Budget budget;
  ChainBlock block;
  const std::optional<BlockScales>& scales;
  Workspace& workspace;

  FusedChain chain(const AccumulatorModel& model, const kernels::ChainLoop& loop) const {
    FusedChain fused(model, block, loops.strip, loop, budget, workspace);
    if (scales) fused.take_scales(*scales);
    return fused;
  }
};

/// nullopt where the loops of fused.cpp are as fast, or where those of chains do not support the operands.
std::optional<StepLoop> step_loop_of(const AccumulatorModel& model, const Operands& operands) {
  const kernels::ChainLoops& loops = kernels::kernels().chain;
  const int rows = operands.a.rows(), cols = operands.b.cols(), terms = operands.a.cols();
  const bool is_dense = operands.selected_k.empty() && operands.mixed.empty();
  const bool is_plain = operands.scale_input_d == 0 && !operands.negate_a && !operands.negate_b;
  const bool fills_strips = rows >= 16 && 5 * cols >= 4 * kernels::round_up(cols, loops.strip);
  // A step of eight terms gains less than the conversions of C and D cost.
  if (!loops.win_single_steps || !is_dense || !is_plain || !fills_strips || !scales_fit(operands) || terms < 16 ||
      terms > kernels::most_dense_terms || chain_loop_of(model) == kernels::LoopId::none)
    return std::nullopt;
  const Format of_a = operands.a.format(), of_b = operands.b.format();
  const std::optional<Budget> budget = find_budget(model.fraction_bits, of_a, of_b, terms);
  if (!budget) return std::nullopt;
  thread_local Workspace workspace;
  workspace.steps = {{.first = 0, .terms = terms}};
  return StepLoop{.loops = loops,
                  .loop = operands.scales ? loops.any : loop_for(loops, model, of_a, of_b, terms),
                  .budget = *budget,
                  .block = {.a = operands.a, .b = operands.b, .row = 0, .rows = rows, .col = 0, .cols = cols},
                  .scales = operands.scales,
                  .workspace = workspace};
}

}  // namespace

std::optional<Matrix> step_by_chain(const AccumulatorModel& model, const Operands& operands) {
  const std::optional<StepLoop> step = step_loop_of(model, operands);
  if (!step) return std::nullopt;
  std::optional<FusedChain> fused;  // the last run, to which the workspace belongs
  const auto run = [&](const kernels::ChainLoop& loop) { fused.emplace(step->chain(model, loop)).run(operands.c); };
  run(step->loop);
  if (&step->loop == &step->loops.few_bits && fused->has_special_c()) run(step->loops.small);
  Matrix d = fused->take_d();
  if (fused->has_special_operand() || fused->has_special_c()) replace_special_outputs(model, operands, d);
  return d;
}

bool step_by_chain(const AccumulatorModel& model, const Operands& operands, const AccumulatorBlocks& blocks) {
  const std::optional<StepLoop> step = step_loop_of(model, operands);
  if (!step || operands.a.rows() % kernels::chain_rows != 0) return false;
  return step->chain(model, step->loop).run_step(operands, blocks, [&](const Operands& block) {
    return multiply_accumulate(model, block);
  });
}

}  // namespace bitmma
