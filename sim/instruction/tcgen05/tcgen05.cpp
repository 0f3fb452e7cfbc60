// SPDX-License-Identifier: MIT
// tcgen05.mma: reads operands from shared and Tensor Memory, and writes D.
//
//   D[m x n] = A[m x k] * B[k x n] (+ D * 2^-scale_input_d)
//
// With cta_group::2 each CTA of the pair holds its half of the rows of A and of the columns of B, under the same
// descriptor values, its own scales of A and metadata, and all scales of B. Several parts of D may read their own
// copies of A, metadata and scales; D is split into tiles that read the same copies, usually a single tile. Evidence:
// PTX ISA 9.7.16.10, CUTLASS; no Blackwell GPU was measured for this project.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "../../arithmetic/accumulator_blocks.hpp"
#include "../../formats/matrix_inside.hpp"
#include "../../memory/wide_copies.hpp"
#include "../family.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/memory/metadata.hpp"
#include "operands.hpp"

namespace bitmma::family {
namespace {

bool reads(CollectorOperation operation) {
  return operation == CollectorOperation::use || operation == CollectorOperation::lastuse;
}

/// D in Tensor Memory: a row is adjacent cells in each part of N.
class Cells {
 public:
  Cells(const Tcgen05Mma& instruction, const State& state)
      : rows_(instruction.m),
        all_columns_(instruction.n),
        lane_cells_(static_cast<uint32_t>(state.columns())),
        used_(static_cast<uint32_t>(low_mask(info(instruction.d).bits))) {
    const TmemD map = d_in_tmem(instruction, state.word(Field::d_tmem));
    const std::span<const uint32_t> disable_output_lane = state.words(Field::disable_output_lane);
    part_columns_ = map.columns();
    const int rows_per_cta = map.layout.rows_per_cta, columns = state.columns();
    read_.resize(static_cast<size_t>(map.layout.n_parts * rows_));
    uint32_t* to = read_.data();
    for (int part = 0; part < map.layout.n_parts; ++part) {
      for (int cta = 0; cta < rows_ / rows_per_cta; ++cta) {
        for (int row = 0; row < rows_per_cta; ++row) {
          const int lane = cta * tmem_lanes + map.address.lane + lane_of(map.layout, row, part);
          *to++ = static_cast<uint32_t>(lane * columns + map.address.column);
        }
      }
    }
    written_ = read_;
    for (uint32_t& first : written_) {
      const auto lane = static_cast<int>(first) / columns;
      const TmemPlace place{.cta = lane / tmem_lanes, .lane = lane % tmem_lanes};
      if (is_disabled(disable_output_lane, place)) first = CellCopy::no_row;
    }
  }

  /// Rows [row, row + rows).
  void read(const uint32_t* tmem, int row, int rows, uint32_t* codes, int stride) const {
    copy({.first = read_.data(), .cells = const_cast<uint32_t*>(tmem), .codes = codes, .stride = stride}, row, rows,
         {0, all_columns_}, wide_copies().gather_cells);
  }
  /// The same, of columns [cols.first, cols.second). f16 results replace the lower half of a cell and keep the upper
  /// one (model choice: no source specifies it).
  void write(const uint32_t* codes, int stride, int row, int rows, std::pair<int, int> cols, uint32_t* tmem) const {
    copy({.first = written_.data(), .cells = tmem, .codes = const_cast<uint32_t*>(codes), .stride = stride}, row, rows,
         cols, wide_copies().scatter_cells);
  }
  /// The first cell, if D is rows of whole cells, a lane apart, all of which are written.
  std::optional<uint32_t> first_of_rows() const {
    if (part_columns_ != all_columns_ || ~used_ != 0) return std::nullopt;
    for (size_t row = 0; row < written_.size(); ++row) {
      if (written_[row] != read_[0] + static_cast<uint32_t>(row) * lane_cells_) return std::nullopt;
    }
    return read_[0];
  }

 private:
  /// Copies one part of N after another.
  void copy(CellCopy job, int row, int rows, std::pair<int, int> cols, void (*copy_cells)(const CellCopy&)) const {
    const uint32_t* const first = job.first;
    job.rows = rows, job.used = used_;
    for (int col = cols.first; col < cols.second; col += job.cols, job.codes += job.cols) {
      job.first = first + col / part_columns_ * rows_ + row;
      job.offset = col % part_columns_, job.cols = std::min(cols.second - col, part_columns_ - job.offset);
      copy_cells(job);
    }
  }

  int rows_, all_columns_, part_columns_;
  uint32_t lane_cells_;                   // of Tensor Memory
  uint32_t used_;                         // the bits of a cell that D has
  std::vector<uint32_t> read_, written_;  // the first cell of row r in part p: [p * rows + r]
};

/// The operands of one instruction in one state, part by part.
class Tcgen05Reader {
 public:
  Tcgen05Reader(const Tcgen05Mma& instruction, const State& state)
      : instruction_(instruction),
        mma_(describe(instruction)),
        state_(state),
        tmem_(state.words(Field::tmem)),
        columns_(state.columns()) {}

  Matrix a(int copy) const {
    if (instruction_.a_source == OperandSource::tmem) return a_of_tmem(copy);
    const SmemMatrix part = a_matrix(instruction_, state_);
    if (instruction_.cta_group == 1) return bitmma::gather(image(0), SmemMap(part), instruction_.a, "A");
    Matrix whole = unfilled_matrix(instruction_.a, mma_.m, mma_.stored_k());
    for (int cta = 0; cta < instruction_.cta_group; ++cta) {
      set_block(whole, cta * part.rows, 0,
                bitmma::gather(image(cta), SmemMap(part), instruction_.a, cta ? "A (odd CTA)" : "A"));
    }
    return whole;
  }

  Matrix b() const {
    const SmemMatrix part = b_matrix(instruction_, state_);
    const ZeroColumnMask mask = mask_of(instruction_, state_);
    const int columns = mma_.n / instruction_.cta_group;
    const SmemMap map(part);
    Matrix whole;
    for (int cta = 0; cta < instruction_.cta_group; ++cta) {
      Matrix stored = gather_transposed(image(cta), map, instruction_.b, cta ? "B (odd CTA)" : "B");
      if (instruction_.cta_group == 1 && mask.column_shift == 0) {
        whole = std::move(stored);
        break;
      }
      if (cta == 0) whole = unfilled_matrix(instruction_.b, mma_.k, mma_.n);
      set_block(whole, 0, cta * columns, block_of(stored, 0, mma_.k, mask.column_shift, columns));
    }
    const std::vector<bool> zeroed = zeroed_columns(mask, mma_.m, mma_.n);
    for (int col = 0; col < mma_.n; ++col) {
      if (!zeroed[static_cast<size_t>(col)]) continue;
      for (int row = 0; row < mma_.k; ++row) whole(row, col) = 0;
    }
    return whole;
  }

  Selection selection(int copy) const {
    if (!mma_.sparse) return {};
    const TmemMetadata map = metadata_in_tmem(instruction_, state_.word(Field::metadata_tmem));
    const SparsePattern& pattern = sparse_pattern(map.element_bits, instruction_.sparsity_version);
    return select(
        pattern, mma_.m, mma_.stored_k(),
        [&](int row, int chunk) { return read_bits(map.place_of(row, chunk * pattern.chunk, copy), 4); },
        mma_.ordered_metadata, mma_.a);
  }

  /// Scales of A for the rows of D in part `part` of N: each row reads the replica in its own 32 lanes.
  Matrix scale_a(int part) const {
    const TmemScales map = scale_a_in_tmem(instruction_, state_.word(Field::scale_a_tmem));
    const TmemLayoutInfo& layout = layout_of(instruction_);
    const TmemD d{.layout = layout, .n = mma_.n};
    Matrix scales(mma_.scale_type, mma_.m, mma_.scale_count);
    for (int row = 0; row < mma_.m; ++row) {
      const TmemPlace of_d = d.place_of(row, part * d.columns());
      take_scales(map, row % layout.rows_per_cta, of_d.lane / 32, of_d.cta,
                  [&](int j, uint32_t code) { scales(row, j) = code; });
    }
    return scales;
  }

  /// Scales of B as read by the rows of D that share a CTA and 32 lanes with `row`.
  Matrix scale_b(int row) const {
    const TmemScales map = scale_b_in_tmem(instruction_, state_.word(Field::scale_b_tmem));
    const TmemD d{.layout = layout_of(instruction_), .n = mma_.n};
    const TmemPlace of_d = d.place_of(row, 0);
    Matrix scales(mma_.scale_type, mma_.scale_count, mma_.n);
    for (int lane = 0; lane < 32; ++lane) {  // columns n and n + 32 are adjacent in a lane
      for (int col = lane; col < mma_.n; col += 32) {
        take_scales(map, col, of_d.lane / 32 % map.replicas(), of_d.cta,
                    [&](int j, uint32_t code) { scales(j, col) = code; });
      }
    }
    return scales;
  }

 private:
  std::span<const uint8_t> image(int cta) const { return state_.image(cta, instruction_.cta_group); }
  uint32_t read_bits(const TmemPlace& place, int width_bits) const {
    return tmem_[cell_index(place, columns_)] >> place.bit & static_cast<uint32_t>(low_mask(width_bits));
  }

  Matrix a_of_tmem(int copy) const {
    const TmemA map = a_in_tmem(instruction_, state_.word(Field::a_tmem));
    Matrix whole = unfilled_matrix(instruction_.a, mma_.m, mma_.stored_k());
    const int code_bits = info(instruction_.a).bits;
    for (int row = 0; row < mma_.m; ++row) {
      for (int k = 0; k < mma_.stored_k(); ++k) {
        TmemPlace place = map.place_of(row, k, copy);
        if (instruction_.ashift) place.lane = shifted_lane(place.lane);
        place.bit += container_shift(instruction_.a, map.element_bits);
        whole(row, k) = read_bits(place, code_bits);
      }
    }
    return whole;
  }

  /// All scales of one row or column: a cell has four of them and is looked up once. Calls put(j, code).
  template <typename Put>
  void take_scales(const TmemScales& map, int row, int replica, int cta, const Put& put) const {
    uint32_t word = 0;
    for (int j = 0; j < mma_.scale_count; ++j) {
      const int byte = (map.id + j) % 4;
      if (j == 0 || byte == 0) {
        TmemPlace place = map.place_of(row, j, replica);
        place.cta = cta, place.bit = 0;
        word = read_bits(place, 32);
      }
      put(j, word >> (8 * byte) & 0xFF);
    }
  }

  const Tcgen05Mma& instruction_;
  Mma mma_;
  const State& state_;
  std::span<const uint32_t> tmem_;
  int columns_;
};

/// The operands that the columns of one part of N read.
struct PartOperands {
  Matrix a;
  Selection selection;
  Matrix scale_a;

  bool operator==(const PartOperands& other) const {
    return a == other.a && selection.k == other.selection.k && selection.mixed == other.selection.mixed &&
           scale_a == other.scale_a;
  }
};

/// Ranges [first, end) of equal neighbours.
template <typename T>
std::vector<std::pair<int, int>> equal_runs(const std::vector<T>& values) {
  std::vector<std::pair<int, int>> runs;
  for (int i = 0; i < static_cast<int>(values.size()); ++i) {
    const bool same = i > 0 && values[static_cast<size_t>(i)] == values[static_cast<size_t>(i) - 1];
    if (same) runs.back().second = i + 1;
    else runs.emplace_back(i, i + 1);
  }
  return runs;
}

bool has_scales(const Tcgen05Mma& instruction) { return info(instruction.kind).has_block_scales; }

}  // namespace

Mma describe(const Tcgen05Mma& instruction) {
  const MmaKindInfo& kind = info(instruction.kind);
  const Scaling scaling = !kind.has_block_scales ? Scaling::none
                          : kind.is_fp4          ? Scaling::exact_groups
                                                 : Scaling::whole_k;
  return {.family = Family::tcgen05,
          .kind = instruction.kind,
          .m = instruction.m,
          .n = instruction.n,
          .k = instruction.k,
          .d = instruction.d,
          .a = instruction.a,
          .b = instruction.b,
          .sparse = instruction.sparse,
          .a_source = instruction.a_source,
          .b_source = OperandSource::smem,
          .a_container_bits = kind_container_bits(instruction.kind, instruction.a),
          .b_container_bits = kind_container_bits(instruction.kind, instruction.b),
          .a_major = instruction.transpose_a ? Major::mn : Major::k,
          .b_major = instruction.transpose_b ? Major::mn : Major::k,
          .enable_input_d = instruction.enable_input_d,
          .negate_a = instruction.negate_a,
          .negate_b = instruction.negate_b,
          .saturate = instruction.saturate,
          .scale_input_d = instruction.scale_input_d,
          .sparsity_selector = instruction.sparsity_selector,
          .sparsity_version = instruction.sparsity_version,
          .scaling = scaling,
          .scale_count = scale_count_of(instruction.kind, instruction.scale_vec, instruction.k, instruction.sparse),
          .scale_type = instruction.scale_type,
          .cta_group = instruction.cta_group,
          .weight_stationary = instruction.weight_stationary,
          .names_collector = instruction.collector || instruction.collector_b,
          .reads_collector = (instruction.collector && reads(instruction.collector->operation)) ||
                             (instruction.collector_b && reads(*instruction.collector_b)),
          .repeats_last_rows = instruction.ashift};
}

FieldRules fields(const Tcgen05Mma& instruction) {
  const int64_t ctas = instruction.cta_group;
  FieldRules rules{{.field = Field::smem,
                    .extents = ctas == 2 ? Extents{2, -1} : Extents{-1},
                    .meaning = "shared memory of the CTA from address 0, or of the even and the odd CTA"}};
  if (instruction.a_source == OperandSource::tmem) {
    rules.push_back({.field = Field::a_tmem, .meaning = "the Tensor Memory address of A"});
  } else {
    rules.push_back({.field = Field::a_desc, .meaning = "the shared-memory descriptor of A"});
  }
  rules.push_back({.field = Field::b_desc, .meaning = "the shared-memory descriptor of B"});
  rules.push_back({.field = Field::d_tmem, .meaning = "the Tensor Memory address of D"});
  if (instruction.sparse) {
    rules.push_back({.field = Field::metadata_tmem, .meaning = "the Tensor Memory address of the sparse metadata"});
  }
  if (has_scales(instruction)) {
    rules.push_back({.field = Field::scale_a_tmem, .meaning = "the Tensor Memory address of the scales of A"});
    rules.push_back({.field = Field::scale_b_tmem, .meaning = "the Tensor Memory address of the scales of B"});
  }
  rules.push_back({.field = Field::tmem,
                   .access = Access::read_write,
                   .extents = {ctas, tmem_lanes, -1},
                   .meaning = "Tensor Memory of the CTAs: 128 lanes of 1..512 columns"});
  rules.push_back({.field = Field::disable_output_lane,
                   .required = false,
                   .extents = {4 * ctas},
                   .meaning = "bit j of word i: lane 32 i + j of D is not written, words 4..7 of the odd CTA"});
  rules.push_back(
      {.field = Field::zero_column_mask, .required = false, .meaning = ".ws: the columns of B that are treated as 0"});
  return rules;
}

std::vector<Violation> state_violations(const Tcgen05Mma& instruction, const State& state) {
  InstructionChecker check("PTX ISA 9.7.16.1");
  const int columns = state.columns();
  const auto require_columns = [&](std::string_view operand, int first, int count) {
    if (first + count <= columns) return;
    check.refuse(fmt::format("{} columns", operand), fmt::format("{}..{}", first, first + count - 1),
                 fmt::format("inside the {} given columns of Tensor Memory", columns), "pass more columns");
  };
  if (columns > tmem_columns) check.refuse("Tensor Memory", fmt::format("{} columns", columns), "1..512 columns");
  const bool lanes_disabled =
      std::ranges::any_of(state.words(Field::disable_output_lane), [](uint32_t word) { return word != 0; });
  if (lanes_disabled && !has_lane_masks(instruction)) {
    check.refuse("disable_output_lane", "not zero", "absent with .ws or block scales", "",
                 "PTX ISA 9.7.16.10.9; ptxas 13.0");
  }
  try {
    const TmemD d = d_in_tmem(instruction, state.word(Field::d_tmem));
    require_columns("D", d.address.column, d.columns());
    const Mma mma = describe(instruction);
    if (instruction.a_source == OperandSource::tmem) {
      const TmemA a = a_in_tmem(instruction, state.word(Field::a_tmem));
      require_columns("A", a.address.column, mma.stored_k() * a.element_bits / 32);
    }
    if (mma.sparse) {
      const TmemMetadata metadata = metadata_in_tmem(instruction, state.word(Field::metadata_tmem));
      require_columns("sparse metadata", metadata.address.column, metadata.selector + metadata.columns());
    }
    if (mma.scale_count > 0) {
      const TmemScales a = scale_a_in_tmem(instruction, state.word(Field::scale_a_tmem)),
                       b = scale_b_in_tmem(instruction, state.word(Field::scale_b_tmem));
      const auto last_column = [&](const TmemScales& scales, int rows) {
        int last = 0;
        for (int row = rows - 1; row >= 0 && row >= rows - 32; --row) {
          last = std::max(last, scales.place_of(row, mma.scale_count - 1, 0).column);
        }
        return last;
      };
      require_columns("scale_A", a.address.column, last_column(a, d.layout.rows_per_cta) - a.address.column + 1);
      require_columns("scale_B", b.address.column, last_column(b, mma.n) - b.address.column + 1);
    }
    static_cast<void>(mask_of(instruction, state));
  } catch (const Error& error) {
    std::vector<Violation> violations = check.take();
    violations.insert(violations.end(), error.violations().begin(), error.violations().end());
    return violations;
  }
  return check.take();
}

std::vector<Tile> gather(const Tcgen05Mma& instruction, const State& state, const AccumulatorModel* model) {
  const Tcgen05Reader reader(instruction, state);
  const Mma mma = describe(instruction);
  const bool scaled = mma.scale_count > 0;
  const bool has_copies = instruction.a_source == OperandSource::tmem || mma.sparse || scaled;
  const int n_parts = has_copies ? layout_of(instruction).n_parts : 1;
  std::vector<PartOperands> parts;
  for (int part = 0; part < n_parts; ++part) {
    parts.push_back({.a = reader.a(part),
                     .selection = reader.selection(part),
                     .scale_a = scaled ? reader.scale_a(part) : Matrix{}});
  }
  constexpr int rows_of_group = 32;
  std::vector<Matrix> scale_b;
  for (int row = 0; row < mma.m && scaled; row += rows_of_group) scale_b.push_back(reader.scale_b(row));
  const auto col_runs = equal_runs(parts);
  const auto row_runs = scaled ? equal_runs(scale_b) : std::vector<std::pair<int, int>>{{0, 0}};

  Operands common{.b = reader.b(),
                  .negate_a = mma.negate_a,
                  .negate_b = mma.negate_b,
                  .saturate = mma.saturate,
                  .scale_input_d = mma.scale_input_d};
  const bool alone = col_runs.size() == 1 && row_runs.size() == 1;  // the usual case: nothing is copied
  if (mma.enable_input_d && !(model && alone)) common.c = recorded(instruction, state);
  const int part_columns = mma.n / n_parts;
  std::vector<Tile> tiles;
  for (const auto& [first_part, end_part] : col_runs) {
    for (const auto& [first_group, end_group] : row_runs) {
      Tile tile{.operands = alone ? std::move(common) : common};
      PartOperands& part = parts[static_cast<size_t>(first_part)];
      tile.operands.a = alone ? std::move(part.a) : part.a;
      tile.operands.selected_k = part.selection.k;
      tile.operands.mixed = part.selection.mixed;
      if (scaled) tile.operands.scales = BlockScales{.a = part.scale_a, .b = scale_b[static_cast<size_t>(first_group)]};
      if (!alone) {
        tile.row = first_group * rows_of_group, tile.col = first_part * part_columns;
        const int rows = scaled ? (end_group - first_group) * rows_of_group : mma.m;
        tile.operands = block_of(tile.operands, tile.row, rows, tile.col, (end_part - first_part) * part_columns);
      }
      tiles.push_back(std::move(tile));
    }
  }
  return tiles;
}

Operands gather_whole(const Tcgen05Mma& instruction, const State& state) {
  std::vector<Tile> tiles = gather(instruction, state, nullptr);
  if (tiles.size() == 1) return std::move(tiles.front().operands);
  // If copies differ: A, metadata and scales as the first rows and columns of D read them, B and C as a whole.
  const Tcgen05Reader reader(instruction, state);
  Selection selection = reader.selection(0);
  Operands operands = std::move(tiles.front().operands);
  operands.a = reader.a(0);
  operands.b = reader.b();
  if (operands.c) operands.c = recorded(instruction, state);
  operands.selected_k = std::move(selection.k);
  operands.mixed = std::move(selection.mixed);
  if (operands.scales) operands.scales = BlockScales{.a = reader.scale_a(0), .b = reader.scale_b(0)};
  return operands;
}

void scatter(const Tcgen05Mma& instruction, const Tile& tile, const Matrix& d, State& state) {
  const Cells cells(instruction, state);
  cells.write(d.words().data(), d.cols(), tile.row, d.rows(), {tile.col, tile.col + d.cols()},
              state.writable_words(Field::tmem).data());
}

AccumulatorBlocks accumulator(const Tcgen05Mma& instruction, State& state) {
  const auto cells = std::make_shared<const Cells>(instruction, state);
  uint32_t* const tmem = state.writable_words(Field::tmem).data();
  AccumulatorBlocks blocks{.write = [=, n = instruction.n](int row, int rows, const uint32_t* codes, int stride) {
    cells->write(codes, stride, row, rows, {0, n}, tmem);
  }};
  if (instruction.enable_input_d)
    blocks.read = [=](int row, int rows, uint32_t* codes, int stride) { cells->read(tmem, row, rows, codes, stride); };
  if (const std::optional<uint32_t> first = cells->first_of_rows())
    blocks.in_place = {.words = tmem + *first, .stride = state.columns(), .is_fragment = false};
  return blocks;
}

Matrix recorded(const Tcgen05Mma& instruction, const State& state) {
  const TmemD map = d_in_tmem(instruction, state.word(Field::d_tmem));
  const int columns = state.columns();
  if (map.address.column + map.columns() > columns) {
    throw Error({.field = "D columns",
                 .seen = fmt::format("{}..{}", map.address.column, map.address.column + map.columns() - 1),
                 .expected = fmt::format("inside the {} given columns of Tensor Memory", columns)});
  }
  Matrix d = unfilled_matrix(instruction.d, instruction.m, instruction.n);
  Cells(instruction, state).read(state.words(Field::tmem).data(), 0, instruction.m, d.words().data(), instruction.n);
  return d;
}

std::vector<Violation> warnings(const Tcgen05Mma& instruction, Target target, const State& state) {
  std::vector<Violation> violations;
  for (Violation& warning :
       bitmma::warnings(decode_instruction_descriptor(instruction.kind, idesc_of(instruction)), target)) {
    if (warning.code == ViolationCode::shift_without_ws && instruction.weight_stationary) continue;
    // The descriptor does not contain the size of the scale vector. The mnemonic does, and it decides the legal ids.
    if (warning.code == ViolationCode::scale_id_of_vector) continue;
    // Nor whether A is in Tensor Memory, where CUTLASS asserts a larger N; it asserts the same of a sparse f8f6f4.
    const bool has_larger_n =
        instruction.a_source == OperandSource::tmem || (instruction.sparse && instruction.kind == MmaKind::f8f6f4);
    if (warning.field == "n" && instruction.kind != MmaKind::i8 && !has_larger_n) continue;
    violations.push_back(std::move(warning));
  }
  if (instruction.scale_a_id % 2 != 0 || instruction.scale_b_id % 2 != 0) {
    if (instruction.kind != MmaKind::mxf8f6f4)
      violations.push_back({.code = ViolationCode::odd_scale_id,
                            .field = "scale_a_id, scale_b_id",
                            .seen = fmt::format("{}, {}", instruction.scale_a_id, instruction.scale_b_id),
                            .expected = "0 or 2, as in the tables before ISA 9.4",
                            .fix = fmt::format("with K = {}, 3 scales of 32 may begin in any byte", instruction.k),
                            .source = "PTX ISA 9.4, Table 53"});
  }
  for (SmemOperand& operand : smem_operands(instruction, state)) {
    const Field field = operand.role == Role::a ? Field::a_desc : Field::b_desc;
    operand.matrix.descriptor = decode_smem_descriptor(target, state.number(field));
    append_warnings(violations, operand.role == Role::a ? "A" : "B", operand.matrix);
  }
  if (gather(instruction, state, nullptr).size() > 1) {
    violations.push_back({.code = ViolationCode::contradiction,
                          .field = "copies",
                          .seen = "different",
                          .expected = "equal copies of A, metadata and scales in all lanes that read them",
                          .fix = "each part of D reads its own copy; write all of them",
                          .source = "PTX ISA 9.7.16.10.4 and 9.7.16.10.7"});
  }
  if (const int64_t undefined = Tcgen05Reader(instruction, state).selection(0).undefined_chunks; undefined > 0) {
    violations.push_back(
        {.field = "metadata",
         .seen = fmt::format("{} undefined {}", undefined, undefined == 1 ? "chunk" : "chunks"),
         .expected = instruction.kind == MmaKind::tf32 ? "0x4 and 0xE" : "two ascending positions per chunk",
         .fix = "bitmma computes what an H200 would; PTX does not define the result",
         .source = "PTX ISA 9.7.16.10.8; docs/evidence.md"});
  }
  return violations;
}

Places places(const Tcgen05Mma& instruction, const State& state, Role role) {
  const Mma mma = describe(instruction);
  if (role == Role::d) {
    return [map = d_in_tmem(instruction, state.word(Field::d_tmem))](int row, int col) {
      return Place(map.place_of(row, col));
    };
  }
  if (role == Role::metadata) {
    const TmemMetadata map = metadata_in_tmem(instruction, state.word(Field::metadata_tmem));
    const int chunk_k = sparse_pattern(map.element_bits, instruction.sparsity_version).chunk;
    return [map, chunk_k](int row, int chunk) { return Place(map.place_of(row, chunk * chunk_k)); };
  }
  if (role == Role::a && instruction.a_source == OperandSource::tmem) {
    const TmemA map = a_in_tmem(instruction, state.word(Field::a_tmem));
    return [map, format = mma.a, ashift = instruction.ashift](int row, int stored) {
      TmemPlace place = map.place_of(row, stored);
      if (ashift) place.lane = shifted_lane(place.lane);
      place.bit += container_shift(format, map.element_bits);
      return Place(place);
    };
  }
  const bool is_a = role == Role::a;
  const SmemMap map(is_a ? a_matrix(instruction, state) : b_matrix(instruction, state));
  const int rows = (is_a ? mma.m : mma.n) / mma.cta_group;
  const int shift = map.matrix().rows - rows;  // columns of B before the column shift
  return [=, bits = info(is_a ? mma.a : mma.b).bits](int row, int col) {
    const int outer = is_a ? row : col, k = is_a ? col : row;
    return Place(smem_read(map, outer / rows, outer % rows + shift, k, bits));
  };
}

ResultAsA result_as_a(const Tcgen05Mma& instruction) {
  const Mma mma = describe(instruction);
  const TmemLayoutInfo& layout = layout_of(instruction);
  return {.d = TmemD{.layout = layout, .n = mma.n}, .a = TmemA{.layout = layout, .element_bits = mma.a_container_bits}};
}

std::vector<SmemOperand> smem_operands(const Tcgen05Mma& instruction, const State& state) {
  std::vector<SmemOperand> operands;
  if (instruction.a_source == OperandSource::smem) {
    operands.push_back({.role = Role::a, .matrix = a_matrix(instruction, state)});
  }
  operands.push_back({.role = Role::b, .matrix = b_matrix(instruction, state)});
  return operands;
}

}  // namespace bitmma::family
