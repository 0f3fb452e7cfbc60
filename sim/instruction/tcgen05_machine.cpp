#include "bitmma/instruction/tcgen05_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>

#include "bitmma/instruction/legality.hpp"

namespace bitmma {
namespace {

const TmemLayoutInfo& layout_of(const Instruction& instruction) {
  return find_tmem_layout(instruction.m, instruction.cta_group, instruction.weight_stationary, instruction.sparse);
}

size_t cell(const TmemPlace& place, int columns) {
  return (static_cast<size_t>(place.cta) * tmem_lanes + static_cast<size_t>(place.lane)) *
             static_cast<size_t>(columns) +
         static_cast<size_t>(place.column);
}

void require_columns(std::string_view operand, int first, int count, int columns) {
  if (first + count <= columns) return;
  throw Error({.field = fmt::format("{} columns", operand),
               .seen = fmt::format("{}..{}", first, first + count - 1),
               .legal = fmt::format("inside the {} columns of Tensor Memory that are given", columns),
               .fix = "give more columns"});
}

void require_tmem(const Instruction& instruction, const Tcgen05Machine& machine) {
  const size_t expected =
      static_cast<size_t>(instruction.cta_group) * tmem_lanes * static_cast<size_t>(machine.columns);
  if (machine.columns >= 1 && machine.columns <= tmem_columns && machine.tmem.size() == expected) return;
  throw Error({.field = "Tensor Memory",
               .seen = fmt::format("{} cells, {} columns", machine.tmem.size(), machine.columns),
               .legal = fmt::format("{} CTAs of 128 lanes of 1..512 columns", instruction.cta_group)});
}

/// Table 54: tf32 in MN-major has the mode with 32-byte atoms alone, the other types every mode but it. An absolute
/// leading dimension goes with the plain 128B mode, K-major, without base offset.
void require_layout(const Instruction& instruction, std::string_view operand, const SmemMatrix& matrix) {
  const bool tf32 = instruction.kind == MmaKind::tf32, packed_fp4 = matrix.element_bits == 4;
  const bool atom32 = matrix.descriptor.swizzle == Swizzle::b128_atom32;
  std::vector<Violation> violations;
  if (matrix.major == Major::k ? atom32 : atom32 != tf32) {
    violations.push_back(
        {.field = fmt::format("{} swizzle", operand),
         .seen = std::string(info(matrix.descriptor.swizzle).name),
         .legal = matrix.major == Major::mn && tf32 ? "128-atom32 (code 1)" : "none, 32, 64 or 128 (codes 0, 6, 4, 2)",
         .fix = "",
         .source = "PTX ISA 9.7.16.10, Table 54"});
  }
  if (packed_fp4 && matrix.major == Major::mn) {
    violations.push_back({.field = fmt::format("{} major", operand),
                          .seen = "mn-major",
                          .legal = "k-major",
                          .fix = "packed fp4 is K-major only",
                          .source = "PTX ISA 9.7.16.10, Table 54"});
  }
  const bool plain =
      matrix.descriptor.swizzle == Swizzle::b128 && matrix.major == Major::k && matrix.descriptor.base_offset == 0;
  if (matrix.descriptor.leading_dim_absolute && !plain) {
    violations.push_back({.field = fmt::format("{} leading_dim_mode", operand),
                          .seen = "1 (absolute address)",
                          .legal = "0, or 128B swizzle, K-major, base offset 0",
                          .fix = "the absolute mode is for the 48 bytes of K = 96",
                          .source = "PTX ISA 9.7.16.3.1.2.1"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

SmemMatrix operand_matrix(const Instruction& instruction, uint64_t descriptor, Format format, Major major, int rows,
                          int cols) {
  return {.descriptor = decode_smem_descriptor(Arch::sm_100a, descriptor),
          .major = major,
          .element_bits = instruction.container_bits(format),
          .rows = rows,
          .cols = cols};
}

/// The mask descriptor, checked against the form and the shift that the instruction descriptor allows.
ZeroColumnMask mask_of(const Instruction& instruction, const Tcgen05Registers& registers) {
  if (!registers.zero_column_mask) return {};
  const ZeroColumnMask mask = decode_zero_column_mask(*registers.zero_column_mask);
  const int allowed = std::min(max_shift_columns(instruction.max_shift_code), instruction.m == 32 ? 16 : 32);
  std::vector<Violation> violations;
  if (!instruction.weight_stationary && *registers.zero_column_mask != 0) {
    violations.push_back({.field = "zero_column_mask",
                          .seen = "present",
                          .legal = "absent without .ws",
                          .fix = "",
                          .source = "PTX ISA 9.7.16.10.9"});
  }
  if (mask.column_shift > allowed) {
    violations.push_back({.field = "column_shift",
                          .seen = std::to_string(mask.column_shift),
                          .legal = fmt::format("0..{}", allowed),
                          .fix = "bits 30-31 of the instruction descriptor allow 0, 8, 16 or 32; M = 32 at most 16",
                          .source = "PTX ISA 9.7.16.4.3, Table 45"});
  }
  if (!violations.empty()) throw Error(std::move(violations));
  return mask;
}

/// Reads and writes elements of Tensor Memory, or of a copy of it.
uint32_t read_bits(std::span<const uint32_t> tmem, int columns, const TmemPlace& place, int width_bits) {
  return tmem[cell(place, columns)] >> place.bit & static_cast<uint32_t>(low_mask(width_bits));
}

void write_bits(std::span<uint32_t> tmem, int columns, const TmemPlace& place, int width_bits, uint32_t value) {
  uint32_t& target = tmem[cell(place, columns)];
  const auto mask = static_cast<uint32_t>(low_mask(width_bits)) << place.bit;
  target = (target & ~mask) | (value << place.bit & mask);
}

/// Calls body(row, col, count, place) for every run of columns of a block of D that lie side by side in one lane:
/// TmemD::place_of, with the divisions outside.
template <typename Body>
void for_each_run(const TmemD& map, int first_row, int rows, int first_col, int cols, const Body& body) {
  const int columns = map.columns(), rows_per_cta = map.layout.rows_per_cta;
  for (int col = first_col; col < first_col + cols;) {
    const int part = col / columns, count = std::min(first_col + cols - col, columns - col % columns);
    for (int row = first_row; row < first_row + rows;) {
      const int cta = row / rows_per_cta, end = std::min(first_row + rows, (cta + 1) * rows_per_cta);
      for (; row < end; ++row) {
        body(row, col, count,
             TmemPlace{.cta = cta,
                       .lane = map.address.lane + lane_of(map.layout, row - cta * rows_per_cta, part),
                       .column = map.address.column + col % columns,
                       .bit = 0});
      }
    }
    col += count;
  }
}

BitMatrix gather_a(const Instruction& instruction, const Tcgen05Machine& machine, int copy) {
  const auto unfilled = [&] { return BitMatrix::unfilled(instruction.a, instruction.m, instruction.stored_k()); };
  if (instruction.a_source == OperandSource::tmem) {
    BitMatrix a = unfilled();
    const TmemA map = a_in_tmem(instruction, machine.registers.a_tmem);
    require_columns("A", map.address.column, instruction.stored_k() * map.element_bits / 32, machine.columns);
    const int code_bits = info(instruction.a).bits;
    for (int row = 0; row < instruction.m; ++row) {
      for (int k = 0; k < instruction.stored_k(); ++k) {
        TmemPlace place = map.place_of(row, k, copy);
        if (instruction.ashift) place.lane = shifted_lane(place.lane);
        place.bit += container_shift(instruction.a, map.element_bits);
        a(row, k) = read_bits(machine.tmem, machine.columns, place, code_bits);
      }
    }
    return a;
  }
  const SmemMatrix part = a_matrix(instruction, machine.registers);
  if (instruction.cta_group == 1) return gather(machine.smem.front(), SmemMap(part), instruction.a, "A");
  BitMatrix a = unfilled();
  for (int cta = 0; cta < instruction.cta_group; ++cta) {
    a.bits.middleRows(cta * part.rows, part.rows) =
        gather(machine.smem[static_cast<size_t>(cta)], SmemMap(part), instruction.a, cta ? "A (odd CTA)" : "A").bits;
  }
  return a;
}

BitMatrix gather_b(const Instruction& instruction, const Tcgen05Machine& machine) {
  const SmemMatrix part = b_matrix(instruction, machine.registers);
  const ZeroColumnMask mask = mask_of(instruction, machine.registers);
  const int columns = instruction.n / instruction.cta_group;
  const SmemMap map(part);
  BitMatrix b = BitMatrix::unfilled(instruction.b, instruction.k, instruction.n);
  for (int cta = 0; cta < instruction.cta_group; ++cta) {
    BitMatrix stored =
        gather_transposed(machine.smem[static_cast<size_t>(cta)], map, instruction.b, cta ? "B (odd CTA)" : "B");
    if (instruction.cta_group == 1 && mask.column_shift == 0)
      b = std::move(stored);
    else
      b.bits.middleCols(cta * columns, columns) = stored.bits.middleCols(mask.column_shift, columns);
  }
  const std::vector<bool> zeroed = zeroed_columns(mask, instruction.m, instruction.n);
  for (int col = 0; col < instruction.n; ++col) {
    if (zeroed[static_cast<size_t>(col)]) b.bits.col(col).setZero();
  }
  return b;
}

Selection gather_selection(const Instruction& instruction, const Tcgen05Machine& machine, int copy) {
  if (!instruction.sparse) return {};
  const TmemMetadata map = metadata_in_tmem(instruction, machine.registers.metadata_tmem);
  require_columns("sparse metadata", map.address.column, map.selector + map.columns(), machine.columns);
  const SparsePattern& pattern = sparse_pattern(map.element_bits);
  return select(pattern, instruction.m, instruction.stored_k(), [&](int row, int chunk) {
    return read_bits(machine.tmem, machine.columns, map.place_of(row, chunk * pattern.chunk, copy), 4);
  });
}

/// All scales of one row or column: four stand in a cell, which is looked up once. put(j, code) takes them.
template <typename Put>
void take_scales(const TmemScales& map, const Tcgen05Machine& machine, int row, int count, int replica, int cta,
                 const Put& put) {
  uint32_t word = 0;
  for (int j = 0; j < count; ++j) {
    const int byte = (map.id + j) % 4;
    if (j == 0 || byte == 0) {
      TmemPlace place = map.place_of(row, j, replica);
      place.cta = cta, place.bit = 0;
      word = read_bits(machine.tmem, machine.columns, place, 32);
    }
    put(j, word >> (8 * byte) & 0xFF);
  }
}

/// Scales of A for the rows of D in part `part` of N: each row reads the replica in its own 32 lanes.
BitMatrix gather_scale_a(const Instruction& instruction, const Tcgen05Machine& machine, int part) {
  const TmemScales map = scale_a_in_tmem(instruction, machine.registers.scale_a_tmem);
  const TmemLayoutInfo& layout = layout_of(instruction);
  const TmemD d{.layout = layout, .n = instruction.n};
  BitMatrix scales(instruction.scale_type, instruction.m, instruction.scale_count());
  for (int row = 0; row < instruction.m; ++row) {
    const TmemPlace of_d = d.place_of(row, part * d.columns());
    take_scales(map, machine, row % layout.rows_per_cta, scales.cols(), of_d.lane / 32, of_d.cta,
                [&](int j, uint32_t code) { scales(row, j) = code; });
  }
  return scales;
}

/// Scales of B as the rows of D see them that share a CTA and 32 lanes with `row`.
BitMatrix gather_scale_b(const Instruction& instruction, const Tcgen05Machine& machine, int row) {
  const TmemScales map = scale_b_in_tmem(instruction, machine.registers.scale_b_tmem);
  const TmemD d{.layout = layout_of(instruction), .n = instruction.n};
  const TmemPlace of_d = d.place_of(row, 0);
  BitMatrix scales(instruction.scale_type, instruction.scale_count(), instruction.n);
  for (int lane = 0; lane < 32; ++lane) {  // columns n and n + 32 are neighbours in a lane
    for (int col = lane; col < instruction.n; col += 32) {
      take_scales(map, machine, col, scales.rows(), of_d.lane / 32 % map.replicas(), of_d.cta,
                  [&](int j, uint32_t code) { scales(j, col) = code; });
    }
  }
  return scales;
}

/// A block of D whose outputs read the same copies of A, metadata and scales.
struct DataPath {
  int first_row = 0, rows = 0, first_col = 0, cols = 0;
  Operands operands;
};

/// What the columns of one part of N read.
struct PartOperands {
  BitMatrix a;
  Selection selection;
  BitMatrix scale_a;

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
    if (i > 0 && values[static_cast<size_t>(i)] == values[static_cast<size_t>(i) - 1])
      runs.back().second = i + 1;
    else
      runs.emplace_back(i, i + 1);
  }
  return runs;
}

BitMatrix block_of(const BitMatrix& matrix, int row, int rows, int col, int cols) {
  BitMatrix block(matrix.format, 0, 0);
  block.bits = matrix.bits.block(row, col, rows, cols);
  return block;
}

/// D cut into blocks by what they read. Where all copies are equal, as they should be, there is one.
std::vector<DataPath> data_paths(const Instruction& instruction, const Tcgen05Machine& machine) {
  const TmemD d = d_in_tmem(instruction, machine.registers.d_tmem);
  const bool scaled = instruction.has_block_scales();
  const bool has_copies = instruction.a_source == OperandSource::tmem || instruction.sparse || scaled;
  std::vector<PartOperands> parts;
  for (int part = 0; part < (has_copies ? d.layout.n_parts : 1); ++part) {
    parts.push_back({.a = gather_a(instruction, machine, part),
                     .selection = gather_selection(instruction, machine, part),
                     .scale_a = scaled ? gather_scale_a(instruction, machine, part) : BitMatrix{}});
  }
  constexpr int rows_of_group = 32;
  std::vector<BitMatrix> scale_b;
  for (int row = 0; row < instruction.m && scaled; row += rows_of_group)
    scale_b.push_back(gather_scale_b(instruction, machine, row));
  BitMatrix b = gather_b(instruction, machine);
  std::optional<BitMatrix> c;
  if (instruction.scale_d == 1) c = gather_d(instruction, machine.registers.d_tmem, machine.tmem, machine.columns);

  const auto col_runs = equal_runs(parts);
  const auto row_runs = scaled ? equal_runs(scale_b) : std::vector<std::pair<int, int>>{{0, 0}};
  const int part_columns = instruction.n / static_cast<int>(parts.size());
  const bool alone = col_runs.size() == 1 && row_runs.size() == 1;  // as it should be: then nothing is copied
  const auto take = [&](BitMatrix& matrix, int row, int rows, int col, int cols) {
    return alone ? std::move(matrix) : block_of(matrix, row, rows, col, cols);
  };
  std::vector<DataPath> paths;
  for (const auto& [first_part, end_part] : col_runs) {
    for (const auto& [first_group, end_group] : row_runs) {
      DataPath path{.first_row = first_group * rows_of_group,
                    .first_col = first_part * part_columns,
                    .cols = (end_part - first_part) * part_columns,
                    .operands = {}};
      path.rows = scaled ? (end_group - first_group) * rows_of_group : instruction.m;
      PartOperands& part = parts[static_cast<size_t>(first_part)];
      const size_t stored = static_cast<size_t>(instruction.stored_k()), first = static_cast<size_t>(path.first_row),
                   rows = static_cast<size_t>(path.rows);
      path.operands = {.a = take(part.a, path.first_row, path.rows, 0, part.a.cols()),
                       .b = take(b, 0, b.rows(), path.first_col, path.cols),
                       .c = std::nullopt,
                       .selected_k = {},
                       .mixed = {},
                       .negate_a = instruction.imm_scale_a == -1,
                       .negate_b = instruction.imm_scale_b == -1,
                       .saturate = instruction.satfinite,
                       .scales = std::nullopt,
                       .scale_input_d = instruction.scale_input_d};
      if (c) path.operands.c = take(*c, path.first_row, path.rows, path.first_col, path.cols);
      if (instruction.sparse) {
        path.operands.selected_k.assign(
            part.selection.k.begin() + static_cast<std::ptrdiff_t>(first * stored),
            part.selection.k.begin() + static_cast<std::ptrdiff_t>((first + rows) * stored));
        for (MixedTerm mixed : part.selection.mixed) {
          if (mixed.row < first || mixed.row >= first + rows) continue;
          mixed.row = static_cast<uint16_t>(mixed.row - first);
          path.operands.mixed.push_back(mixed);
        }
      }
      if (scaled) {
        path.operands.scales = BlockScales{.a = take(part.scale_a, path.first_row, path.rows, 0, part.scale_a.cols()),
                                           .b = take(scale_b[static_cast<size_t>(first_group)], 0,
                                                     instruction.scale_count(), path.first_col, path.cols)};
      }
      paths.push_back(std::move(path));
    }
  }
  return paths;
}

constexpr int64_t image_alignment = 1024;
int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

SmemMatrix a_matrix(const Instruction& instruction, const Tcgen05Registers& registers) {
  const SmemMatrix matrix = operand_matrix(instruction, registers.a_desc, instruction.a, instruction.a_major(),
                                           instruction.m / instruction.cta_group, instruction.stored_k());
  require_layout(instruction, "A", matrix);
  return matrix;
}

SmemMatrix b_matrix(const Instruction& instruction, const Tcgen05Registers& registers) {
  const int rows = instruction.n / instruction.cta_group + mask_of(instruction, registers).column_shift;
  const SmemMatrix matrix =
      operand_matrix(instruction, registers.b_desc, instruction.b, instruction.b_major(), rows, instruction.k);
  require_layout(instruction, "B", matrix);
  return matrix;
}

TmemD d_in_tmem(const Instruction& instruction, uint32_t d_tmem) {
  const TmemD d{.layout = layout_of(instruction), .n = instruction.n, .address = decode_tmem_address(d_tmem)};
  require_fits(d);
  return d;
}

TmemA a_in_tmem(const Instruction& instruction, uint32_t a_tmem) {
  const TmemA a{.layout = layout_of(instruction),
                .element_bits = instruction.container_bits(instruction.a),
                .address = decode_tmem_address(a_tmem)};
  require_fits(a, instruction.stored_k());
  return a;
}

TmemMetadata metadata_in_tmem(const Instruction& instruction, uint32_t metadata_tmem) {
  const TmemMetadata metadata{.layout = layout_of(instruction),
                              .element_bits = instruction.container_bits(instruction.a),
                              .address = decode_tmem_address(metadata_tmem),
                              .selector = instruction.sparsity_selector};
  require_fits(metadata);
  return metadata;
}

TmemScales scale_a_in_tmem(const Instruction& instruction, uint32_t scale_a_tmem) {
  const int rows = layout_of(instruction).rows_per_cta;
  const TmemScales scales{.address = decode_tmem_address(scale_a_tmem & tmem_address_mask),
                          .id = instruction.scale_a_id,
                          .group_columns = rows / 32};
  require_fits(scales, rows, instruction.scale_count(), "scale_A");
  return scales;
}

TmemScales scale_b_in_tmem(const Instruction& instruction, uint32_t scale_b_tmem) {
  const bool two_by_two = layout_of(instruction).n_parts == 2;
  const int n = instruction.n, half = n / 2;
  TmemScales scales{.address = decode_tmem_address(scale_b_tmem & tmem_address_mask),
                    .id = instruction.scale_b_id,
                    .group_columns = n <= 128 ? 4 : 8};
  if (two_by_two) scales.parts = 2, scales.rows_per_part = half, scales.group_columns = (half + 31) / 32;
  require_fits(scales, n, instruction.scale_count(), "scale_B");
  return scales;
}

Operands gather_operands(const Instruction& instruction, const Tcgen05Machine& machine) {
  std::vector<DataPath> paths = data_paths(instruction, machine);
  if (paths.size() == 1) return std::move(paths.front().operands);
  // Copies differ: A, metadata and scales as the first rows and columns of D see them, B and C whole.
  const Selection selection = gather_selection(instruction, machine, 0);
  Operands operands = paths.front().operands;
  operands.a = gather_a(instruction, machine, 0);
  operands.b = gather_b(instruction, machine);
  if (operands.c) operands.c = gather_d(instruction, machine.registers.d_tmem, machine.tmem, machine.columns);
  operands.selected_k = selection.k;
  operands.mixed = selection.mixed;
  if (operands.scales)
    operands.scales =
        BlockScales{.a = gather_scale_a(instruction, machine, 0), .b = gather_scale_b(instruction, machine, 0)};
  return operands;
}

BitMatrix gather_d(const Instruction& instruction, uint32_t d_tmem, std::span<const uint32_t> tmem, int columns) {
  const TmemD map = d_in_tmem(instruction, d_tmem);
  require_columns("D", map.address.column, map.columns(), columns);
  BitMatrix d = BitMatrix::unfilled(instruction.d, instruction.m, instruction.n);
  const auto mask = static_cast<uint32_t>(low_mask(info(instruction.d).bits));
  for_each_run(map, 0, instruction.m, 0, instruction.n, [&](int row, int col, int count, const TmemPlace& place) {
    const uint32_t* const cells = tmem.data() + cell(place, columns);
    uint32_t* const codes = &d.bits(row, col);
    if (mask == ~0u)
      std::copy_n(cells, count, codes);
    else
      std::transform(cells, cells + count, codes, [mask](uint32_t word) { return word & mask; });
  });
  return d;
}

std::vector<uint32_t> simulate(const Instruction& instruction, const Tcgen05Machine& machine,
                               const AccumulatorModel* model) {
  std::vector<uint32_t> after(machine.tmem.begin(), machine.tmem.end());
  simulate_in_place(instruction, machine, after, model);
  return after;
}

void simulate_in_place(const Instruction& instruction, const Tcgen05Machine& machine, std::span<uint32_t> tmem,
                       const AccumulatorModel* model) {
  require_legal(instruction);
  require_tmem(instruction, machine);
  const Tcgen05Registers& registers = machine.registers;
  const bool lanes_disabled =
      std::ranges::any_of(registers.disable_output_lane, [](uint32_t word) { return word != 0; });
  if (lanes_disabled && (instruction.weight_stationary || instruction.has_block_scales())) {
    throw Error({.field = "disable_output_lane",
                 .seen = "not zero",
                 .legal = "absent with .ws or block scales",
                 .fix = "",
                 .source = "PTX ISA 9.7.16.10.9; ptxas 13.0"});
  }
  const AccumulatorModel& row_model = model ? *model : model_for(instruction);
  const TmemD map = d_in_tmem(instruction, registers.d_tmem);
  require_columns("D", map.address.column, map.columns(), machine.columns);
  if (instruction.has_block_scales()) {
    const TmemScales a = scale_a_in_tmem(instruction, registers.scale_a_tmem),
                     b = scale_b_in_tmem(instruction, registers.scale_b_tmem);
    const int last = instruction.scale_count() - 1;
    require_columns("scale_A", a.address.column,
                    a.place_of(map.layout.rows_per_cta - 1, last, 0).column - a.address.column + 1, machine.columns);
    require_columns("scale_B", b.address.column, b.place_of(instruction.n - 1, last, 0).column - b.address.column + 1,
                    machine.columns);
  }
  assert(tmem.size() == machine.tmem.size());
  const uint32_t kept = ~static_cast<uint32_t>(low_mask(info(instruction.d).bits));  // the upper half of cells with f16
  for (const DataPath& path : data_paths(instruction, machine)) {
    const BitMatrix d = multiply_accumulate(row_model, path.operands);
    for_each_run(
        map, path.first_row, path.rows, path.first_col, path.cols,
        [&](int row, int col, int count, const TmemPlace& place) {
          if (registers.disable_output_lane[static_cast<size_t>(4 * place.cta + place.lane / 32)] >> place.lane % 32 &
              1)
            return;
          uint32_t* const cells = tmem.data() + cell(place, machine.columns);
          const uint32_t* const codes = &d.bits(row - path.first_row, col - path.first_col);
          if (kept == 0)
            std::copy_n(codes, count, cells);
          else
            std::transform(codes, codes + count, cells, cells,
                           [kept](uint32_t code, uint32_t word) { return (word & kept) | code; });
        });
  }
}

std::vector<Violation> warnings(const Instruction& instruction, const Tcgen05Machine& machine) {
  std::vector<Violation> found;
  for (Violation& warning : warnings(decode_instruction_descriptor(instruction.kind, idesc_of(instruction)))) {
    if (warning.field != "max_shift" || !instruction.weight_stationary) found.push_back(std::move(warning));
  }
  if (instruction.a_source == OperandSource::smem)
    append_warnings(found, "A", a_matrix(instruction, machine.registers));
  append_warnings(found, "B", b_matrix(instruction, machine.registers));
  if (data_paths(instruction, machine).size() > 1) {
    found.push_back({.field = "copies",
                     .seen = "different",
                     .legal = "equal copies of A, metadata and scales in all lanes that need them",
                     .fix = "each part of D reads its own copy; write all of them",
                     .source = "PTX ISA 9.7.16.10.4 and 9.7.16.10.7"});
  }
  if (const int64_t undefined = gather_selection(instruction, machine, 0).undefined_chunks; undefined > 0) {
    found.push_back({.field = "metadata",
                     .seen = fmt::format("{} undefined chunks", undefined),
                     .legal = instruction.kind == MmaKind::tf32 ? "0x4 and 0xE" : "two rising positions per chunk",
                     .fix = "the result is what an H200 would do with them, not what PTX promises",
                     .source = "PTX ISA 9.7.16.10.8; docs/evidence.md"});
  }
  return found;
}

Tcgen05State place_tcgen05(const Instruction& instruction, const OperandLayout& layout_a, const OperandLayout& layout_b,
                           const Operands& operands, RandomStream filler, std::optional<uint64_t> zero_column_mask) {
  const bool a_in_smem = instruction.a_source == OperandSource::smem;
  const auto plan = [&](const OperandLayout& layout, SmemMatrix matrix, int64_t start) {
    matrix.major = layout.major;
    matrix.descriptor = {.arch = Arch::sm_100a,
                         .start_address_bytes = start + layout.start_bytes,
                         .strides = minimal_strides(layout.major, info(layout.swizzle), matrix.element_bits,
                                                    matrix.rows, matrix.cols, layout.padding_bytes),
                         .base_offset = layout.base_offset,
                         .swizzle = layout.swizzle,
                         .reserved = uint64_t{1} << 46};
    const int64_t row_bytes = int64_t{matrix.cols} * matrix.element_bits / 8;
    if (instruction.k == 96 && layout.major == Major::k && layout.swizzle == Swizzle::b128 &&
        layout.start_bytes % 128 + row_bytes > 128) {
      matrix.descriptor.strides.leading_dim_byte_offset = round_up(end_byte(SmemMap(matrix)), image_alignment);
      matrix.descriptor.leading_dim_absolute = true;
    }
    return matrix;
  };
  Tcgen05State state;
  Tcgen05Registers& registers = state.registers;
  registers.zero_column_mask = zero_column_mask;
  const ZeroColumnMask mask = mask_of(instruction, registers);
  const int ctas = instruction.cta_group, b_columns = instruction.n / ctas;
  const SmemMatrix a = plan(layout_a,
                            {.element_bits = instruction.container_bits(instruction.a),
                             .rows = instruction.m / ctas,
                             .cols = instruction.stored_k()},
                            0);
  const int64_t b_start = a_in_smem ? round_up(end_byte(SmemMap(a)), image_alignment) : 0;
  const SmemMatrix b = plan(layout_b,
                            {.element_bits = instruction.container_bits(instruction.b),
                             .rows = b_columns + mask.column_shift,
                             .cols = instruction.k},
                            b_start);
  const int64_t image_bytes = round_up(end_byte(SmemMap(b)), image_alignment);
  if (a_in_smem) registers.a_desc = encode(a.descriptor);
  registers.b_desc = encode(b.descriptor);
  const std::vector<bool> zeroed = zeroed_columns(mask, instruction.m, instruction.n);
  for (int cta = 0; cta < ctas; ++cta) {
    std::vector<uint8_t>& image = state.smem[static_cast<size_t>(cta)];
    image.resize(static_cast<size_t>(image_bytes));
    for (uint8_t& byte : image) byte = static_cast<uint8_t>(filler.word());
    if (a_in_smem) scatter(block_of(operands.a, cta * a.rows, a.rows, 0, a.cols), SmemMap(a), image, "A");
    BitMatrix stored = gather(image, SmemMap(b), instruction.b, "B");  // what stays filler
    for (int col = 0; col < b_columns; ++col) {
      if (!zeroed[static_cast<size_t>(cta * b_columns + col)])
        stored.bits.row(mask.column_shift + col) = operands.b.bits.col(cta * b_columns + col).transpose();
    }
    scatter(stored, SmemMap(b), image, "B");
  }

  // Tensor Memory: D, A, metadata, scales of A and of B, from column 0. The addresses are known before it is allocated.
  const TmemD d = d_in_tmem(instruction, 0);
  int next_column = d.columns();
  const auto take = [&](int columns) {
    const int first = static_cast<int>(round_up(next_column, 4));
    next_column = first + columns;
    return encode(TmemAddress{0, first});
  };
  if (!a_in_smem) registers.a_tmem = take(instruction.stored_k() * a.element_bits / 32);
  if (instruction.sparse) registers.metadata_tmem = take(4);  // room for every selector
  if (instruction.has_block_scales()) {
    const auto columns_of = [&](const TmemScales& scales, int rows) {
      return scales.place_of(rows - 1, instruction.scale_count() - 1, 0).column + 1;
    };
    registers.scale_a_tmem = take(columns_of(scale_a_in_tmem(instruction, 0), d.layout.rows_per_cta));
    registers.scale_b_tmem = take(columns_of(scale_b_in_tmem(instruction, 0), instruction.n));
  }
  state.columns =
      static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(32, next_column))));  // as alloc gives them
  state.tmem.resize(static_cast<size_t>(ctas) * tmem_lanes * static_cast<size_t>(state.columns));
  for (uint32_t& word : state.tmem) word = filler.word();
  const auto write = [&](const TmemPlace& place, int width_bits, uint32_t value) {
    write_bits(state.tmem, state.columns, place, width_bits, value);
  };
  for (int row = 0; row < instruction.m && operands.c; ++row) {
    for (int col = 0; col < instruction.n; ++col)
      write(d.place_of(row, col), info(instruction.d).bits, (*operands.c)(row, col));
  }
  if (!a_in_smem) {
    const TmemA map = a_in_tmem(instruction, registers.a_tmem);
    for (int row = 0; row < instruction.m; ++row) {
      for (int k = 0; k < instruction.stored_k(); ++k) {
        for (int copy = 0; copy < map.copies(); ++copy) {
          TmemPlace place = map.place_of(row, k, copy);
          if (instruction.ashift) place.lane = shifted_lane(place.lane);
          write(place, map.element_bits, operands.a(row, k) << container_shift(instruction.a, map.element_bits));
        }
      }
    }
  }
  if (instruction.sparse) {
    const TmemMetadata map = metadata_in_tmem(instruction, registers.metadata_tmem);
    const SparsePattern& pattern = sparse_pattern(map.element_bits);
    const auto per_chunk = static_cast<size_t>(pattern.stored_per_chunk);
    for (int row = 0; row < instruction.m; ++row) {
      for (int chunk = 0; chunk * pattern.chunk < instruction.k; ++chunk) {
        const size_t first = static_cast<size_t>(row) * static_cast<size_t>(instruction.stored_k()) +
                             static_cast<size_t>(chunk) * per_chunk;
        const uint32_t nibble = nibble_of(pattern, std::span(operands.selected_k).subspan(first, per_chunk));
        for (int copy = 0; copy < d.layout.n_parts; ++copy)
          write(map.place_of(row, chunk * pattern.chunk, copy), 4, nibble);
      }
    }
  }
  if (operands.scales) {
    const TmemScales map_a = scale_a_in_tmem(instruction, registers.scale_a_tmem),
                     map_b = scale_b_in_tmem(instruction, registers.scale_b_tmem);
    const auto write_all = [&](const TmemScales& map, int cta, int row, int j, uint32_t code) {
      for (int replica = 0; replica < map.replicas(); ++replica) {
        TmemPlace place = map.place_of(row, j, replica);
        place.cta = cta;
        write(place, 8, code);
      }
    };
    for (int j = 0; j < instruction.scale_count(); ++j) {
      for (int row = 0; row < instruction.m; ++row)
        write_all(map_a, row / d.layout.rows_per_cta, row % d.layout.rows_per_cta, j, operands.scales->a(row, j));
      for (int cta = 0; cta < ctas; ++cta) {
        for (int col = 0; col < instruction.n; ++col) write_all(map_b, cta, col, j, operands.scales->b(j, col));
      }
    }
  }
  return state;
}

}  // namespace bitmma
