// SPDX-License-Identifier: MIT
// Executes tcgen05.ld, .ld.red, .st, .cp and .shift: registers of one warp <-> its 32 lanes, shared memory -> Tensor
// Memory, and lanes shifted by one. Sources: PTX ISA 9.7.16.8 and 9.7.16.9, CUTLASS, TVM. No Blackwell GPU was measured
// for this project.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../family.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/memory/smem.hpp"
#include "reduction.hpp"
#include "source.hpp"

namespace bitmma::family {
namespace {

constexpr int partition_lanes = 32, shift_columns = 8, warp_threads = 32;

std::string_view section(MoveKind kind) {
  return kind == MoveKind::cp       ? "PTX ISA 9.7.16.9.1"
         : kind == MoveKind::shift  ? "PTX ISA 9.7.16.9.3"
         : kind == MoveKind::ld_red ? "PTX ISA 9.4, 9.7.18.8.3"
                                    : "PTX ISA 9.7.16.8";
}

/// The cells of the registers of an ld or st.
class RegisterCells {
 public:
  RegisterCells(const TmemMove& move, const State& state)
      : move_(move), base_(decode_tmem_address(state.word(Field::taddr))), columns_(state.columns()) {}

  TmemAddress place_of(int thread, int reg, int half) const {
    TmemAddress place = move_.ldst.place_of(thread, reg, half);
    place.lane += base_.lane;
    place.column += base_.column;
    if (move_.ldst.shape == LdStShape::s16x32bx2 && thread >= 16) {
      place.lane += static_cast<int>(move_.half_split_offset >> 16);
      place.column += static_cast<int>(move_.half_split_offset & 0xFFFF);
    }
    return place;
  }
  size_t cell_of(int thread, int reg, int half) const {
    const TmemAddress place = place_of(thread, reg, half);
    return static_cast<size_t>(place.lane) * static_cast<size_t>(columns_) + static_cast<size_t>(place.column);
  }
  const TmemAddress& base() const { return base_; }

 private:
  const TmemMove& move_;
  TmemAddress base_;
  int columns_;
};

void check_registers(const TmemMove& move, const State& state, InstructionChecker& check) {
  const RegisterCells cells(move, state);
  const auto warp = static_cast<int>(state.number(Field::warp));
  const TmemAddress& base = cells.base();
  check.require(warp < 4, "warp", std::to_string(warp), "0..3", "the index of the warp in its warpgroup");
  check.require(warp >= 4 || base.lane / partition_lanes == warp, "taddr lane", std::to_string(base.lane),
                fmt::format("{}..{}", partition_lanes * warp, partition_lanes * warp + partition_lanes - 1),
                fmt::format("warp {} of a warpgroup can access only these lanes", warp));
  const bool whole = move.ldst.shape == LdStShape::s32x32b;
  check.require(base.lane % (whole ? partition_lanes : 16) == 0, "taddr lane", std::to_string(base.lane),
                whole ? "a multiple of 32" : "a multiple of 16");
  if (warp >= 4 || base.lane / partition_lanes != warp) return;
  int64_t last_column = 0;
  bool lanes_fit = true;
  const int half = move.ldst.pack_16b ? 1 : 0;
  for (int thread = 0; thread < warp_threads; ++thread) {
    for (int reg = 0; reg < move.ldst.registers(); ++reg) {
      const TmemAddress place = cells.place_of(thread, reg, half);
      last_column = std::max<int64_t>(last_column, place.column);
      lanes_fit &= place.lane / partition_lanes == warp;
    }
  }
  check.require(lanes_fit, "half-split offset", fmt::format("{:#x}", move.half_split_offset), "lanes of the same warp",
                "the upper half of the offset counts lanes");
  check.require(last_column < state.columns(), "columns", fmt::format("{}..{}", base.column, last_column),
                fmt::format("inside the {} given columns of Tensor Memory", state.columns()));
}

void check_copy(const TmemMove& move, const State& state, InstructionChecker& check) {
  const CpShape& shape = move.shape();
  const TmemAddress base = decode_tmem_address(state.word(Field::taddr));
  const int columns = shape.row_bytes / 4, last_lane = lane_of(shape, shape.rows - 1, shape.copies - 1);
  const int room = tmem_lanes - 1 - last_lane;
  check.require(base.lane <= room, "taddr lane", std::to_string(base.lane),
                room == 0 ? "0" : fmt::format("0..{}", room),
                fmt::format("{} also accesses the {} following lanes", shape.name, last_lane));
  check.require(base.column + columns <= state.columns(), "columns",
                fmt::format("{}..{}", base.column, base.column + columns - 1),
                fmt::format("inside the {} given columns of Tensor Memory", state.columns()));
}

void check_shift(const State& state, InstructionChecker& check) {
  const TmemAddress base = decode_tmem_address(state.word(Field::taddr));
  check.require(base.lane % partition_lanes == 0, "taddr lane", std::to_string(base.lane), "a multiple of 32");
  check.require(base.column + shift_columns <= state.columns(), "columns",
                fmt::format("{}..{}", base.column, base.column + shift_columns - 1),
                fmt::format("inside the {} given columns of Tensor Memory", state.columns()),
                "it moves 32 bytes of every lane");
}

void load(const TmemMove& move, State& state) {
  const RegisterCells cells(move, state);
  const std::span<const uint32_t> tmem = state.words(Field::tmem);
  std::vector<uint32_t> regs;
  for (int thread = 0; thread < warp_threads; ++thread) {
    for (int reg = 0; reg < move.ldst.registers(); ++reg) {
      uint32_t word = tmem[cells.cell_of(thread, reg, 0)];
      if (move.ldst.pack_16b) word = (word & 0xFFFF) | tmem[cells.cell_of(thread, reg, 1)] << 16;
      regs.push_back(word);
    }
  }
  if (move.kind == MoveKind::ld_red) {
    const auto registers = static_cast<size_t>(move.ldst.registers());
    std::vector<uint32_t> redval;
    for (size_t thread = 0; thread < warp_threads; ++thread)
      redval.push_back(reduced(move.reduction, std::span(regs).subspan(thread * registers, registers)));
    state.set(Field::redval, std::move(redval), {warp_threads});
  }
  state.set(Field::regs, std::move(regs), {warp_threads, move.ldst.registers()});
}

void store(const TmemMove& move, State& state) {
  const RegisterCells cells(move, state);
  const std::span<const uint32_t> regs = state.words(Field::regs);
  const std::span<uint32_t> tmem = state.writable_words(Field::tmem);
  for (int thread = 0; thread < warp_threads; ++thread) {
    for (int reg = 0; reg < move.ldst.registers(); ++reg) {
      const uint32_t word = regs[static_cast<size_t>(thread * move.ldst.registers() + reg)];
      uint32_t& first = tmem[cells.cell_of(thread, reg, 0)];
      if (!move.ldst.pack_16b) {
        first = word;
        continue;
      }
      uint32_t& second = tmem[cells.cell_of(thread, reg, 1)];
      first = (first & 0xFFFF0000) | (word & 0xFFFF);
      second = (second & 0xFFFF0000) | word >> 16;
    }
  }
}

/// Unpacks sixteen packed codes into bytes, as A in Tensor Memory needs them (model choice, see container_shift).
std::array<uint8_t, 16> unpacked(CpSourceFormat format, const std::array<uint8_t, 16>& packed) {
  if (format == CpSourceFormat::none) return packed;
  const int code_bits = format == CpSourceFormat::b4x16_p64 ? 4 : 6, shift = code_bits == 4 ? 2 : 0;
  std::array<uint8_t, 16> bytes{};
  for (int i = 0; i < 16; ++i) {
    const int bit = i * code_bits;
    const uint32_t word =
        packed[static_cast<size_t>(bit / 8)] | uint32_t{packed[static_cast<size_t>(std::min(bit / 8 + 1, 15))]} << 8;
    bytes[static_cast<size_t>(i)] = static_cast<uint8_t>((word >> bit % 8 & low_mask(code_bits)) << shift);
  }
  return bytes;
}

void copy(const TmemMove& move, State& state) {
  const CpShape& shape = move.shape();
  const TmemAddress base = decode_tmem_address(state.word(Field::taddr));
  const int columns = state.columns();
  const SmemMap map(source_matrix(move, state.number(Field::s_desc)));
  std::vector<Matrix> sources;  // read before anything is written
  for (int cta = 0; cta < move.cta_group; ++cta) {
    sources.push_back(bitmma::gather(state.image(cta, move.cta_group), map, Format::u8,
                                     cta ? "the source of the odd CTA" : "the source"));
  }
  const std::span<uint32_t> tmem = state.writable_words(Field::tmem);
  for (int cta = 0; cta < move.cta_group; ++cta) {
    for (int row = 0; row < shape.rows; ++row) {
      for (int group = 0; group < shape.row_bytes; group += 16) {
        std::array<uint8_t, 16> bytes{};
        for (int i = 0; i < 16; ++i) {
          bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(sources[static_cast<size_t>(cta)](row, group + i));
        }
        bytes = unpacked(move.source_format, bytes);
        for (int copy = 0; copy < shape.copies; ++copy) {
          const int lane = base.lane + lane_of(shape, row, copy);
          for (int word = 0; word < 4; ++word) {
            uint32_t value = 0;
            for (int byte = 0; byte < 4; ++byte)
              value |= uint32_t{bytes[static_cast<size_t>(4 * word + byte)]} << 8 * byte;
            tmem[static_cast<size_t>((cta * tmem_lanes + lane) * columns + base.column + group / 4 + word)] = value;
          }
        }
      }
    }
  }
}

void shift_down(const TmemMove& move, State& state) {
  const TmemAddress base = decode_tmem_address(state.word(Field::taddr));
  const int columns = state.columns();
  const std::span<uint32_t> tmem = state.writable_words(Field::tmem);
  for (int cta = 0; cta < move.cta_group; ++cta) {
    // Ascending, so that a lane is read before it is written.
    for (int lane = base.lane; lane < base.lane + partition_lanes; ++lane) {
      for (int column = base.column; column < base.column + shift_columns; ++column) {
        tmem[static_cast<size_t>((cta * tmem_lanes + lane) * columns + column)] =
            tmem[static_cast<size_t>((cta * tmem_lanes + shifted_lane(lane)) * columns + column)];
      }
    }
  }
}

}  // namespace

SmemMatrix source_matrix(const TmemMove& move, uint64_t s_desc) {
  return {.descriptor = decode_smem_descriptor(Target::sm_100a, s_desc),
          .major = Major::k,
          .element_bits = 8,
          .rows = move.shape().rows,
          .cols = move.shape().row_bytes};
}

FieldRules fields(const TmemMove& move) {
  const int64_t ctas = move.cta_group, registers = move.has_registers() ? move.ldst.registers() : 0;
  const Access access = move.loads() ? Access::read : Access::read_write;
  FieldRules rules{{.field = Field::taddr, .meaning = "the Tensor Memory address"},
                   {.field = Field::tmem,
                    .access = access,
                    .extents = {ctas, tmem_lanes, -1},
                    .meaning = "Tensor Memory of the CTAs: 128 lanes of 1..512 columns"}};
  if (move.kind == MoveKind::cp) {
    rules.push_back({.field = Field::s_desc, .meaning = "the shared-memory descriptor of the source"});
    rules.push_back({.field = Field::smem,
                     .extents = ctas == 2 ? Extents{2, -1} : Extents{-1},
                     .meaning = "shared memory of the CTA from address 0, or of the even and the odd CTA"});
  }
  if (!move.has_registers()) return rules;
  rules.push_back({.field = Field::warp, .meaning = "the index of the warp in its warpgroup, 0..3"});
  rules.push_back({.field = Field::regs,
                   .access = move.kind == MoveKind::st ? Access::read : Access::write,
                   .extents = {warp_threads, registers},
                   .meaning = "registers of each thread of the warp"});
  if (move.kind == MoveKind::ld_red) {
    rules.push_back({.field = Field::redval,
                     .access = Access::write,
                     .extents = {warp_threads},
                     .meaning = "the least or largest register of each thread"});
  }
  return rules;
}

std::vector<Violation> state_violations(const TmemMove& move, const State& state) {
  InstructionChecker check(section(move.kind));
  check.require(state.columns() <= tmem_columns, "Tensor Memory", fmt::format("{} columns", state.columns()),
                "1..512 columns", "", "PTX ISA 9.7.16.1");
  try {
    if (move.has_registers()) check_registers(move, state, check);
    else if (move.kind == MoveKind::cp) check_copy(move, state, check);
    else check_shift(state, check);
  } catch (const Error& error) {
    return error.violations();
  }
  return check.take();
}

void move(const TmemMove& instruction, State& state) {
  switch (instruction.kind) {
    case MoveKind::ld:
    case MoveKind::ld_red: return load(instruction, state);
    case MoveKind::st: return store(instruction, state);
    case MoveKind::cp: return copy(instruction, state);
    default: return shift_down(instruction, state);
  }
}

Matrix recorded(const TmemMove& instruction, const State& state) {
  const std::span<const uint32_t> words = state.words(instruction.loads() ? Field::regs : Field::tmem),
                                  redval = state.words(Field::redval);
  const int rows = instruction.loads() ? warp_threads : tmem_lanes * instruction.cta_group;
  const int cols = static_cast<int>(words.size()) / rows;
  const bool reduces = instruction.kind == MoveKind::ld_red;
  Matrix matrix(Format::u32, rows, reduces ? cols + 1 : cols);
  if (!reduces) {
    std::ranges::copy(words.first(matrix.size()), matrix.words().begin());
    return matrix;
  }
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) matrix(row, col) = words[static_cast<size_t>(row * cols + col)];
    matrix(row, cols) = redval[static_cast<size_t>(row)];
  }
  return matrix;
}

std::vector<Violation> warnings(const TmemMove& instruction, Target target, const State& state) {
  std::vector<Violation> violations;
  if (instruction.kind != MoveKind::cp) return violations;
  SmemMatrix source = source_matrix(instruction, state.number(Field::s_desc));
  source.descriptor = decode_smem_descriptor(target, state.number(Field::s_desc));
  append_warnings(violations, "source", source);
  if (const int column = decode_tmem_address(state.word(Field::taddr)).column; column % 4 != 0) {
    violations.push_back({.field = "taddr column",
                          .seen = std::to_string(column),
                          .expected = "a multiple of 4, as in known kernels",
                          .fix = "no source describes other values",
                          .source = "TVM"});
  }
  return violations;
}

Places places(const TmemMove& instruction, const State&, Role) {
  if (instruction.loads()) {  // redval counts as the register after the last
    return [](int row, int col) { return Place(RegisterPlace{.thread = row, .reg = col, .bit = 0}); };
  }
  return [](int row, int col) {
    return Place(TmemPlace{.cta = row / tmem_lanes, .lane = row % tmem_lanes, .column = col, .bit = 0});
  };
}

ResultAsA result_as_a(const TmemMove&) {
  throw Error({.code = ViolationCode::wrong_instruction,
               .field = "instruction",
               .seen = "a move",
               .expected = "a matrix instruction"});
}

std::vector<SmemOperand> smem_operands(const TmemMove&, const State&) { return {}; }

}  // namespace bitmma::family
