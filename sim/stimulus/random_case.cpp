// SPDX-License-Identifier: MIT
#include "bitmma/stimulus/random_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "bitmma/core/bits.hpp"
#include "bitmma/instruction/statement.hpp"
#include "bitmma/memory/smem.hpp"
#include "bitmma/memory/tmem.hpp"

namespace bitmma {
namespace {

constexpr int partition_lanes = 32, warp_threads = 32, shift_columns = 8;

std::vector<uint32_t> random_words(int64_t count, RandomStream& random) {
  std::vector<uint32_t> words(static_cast<size_t>(count));
  for (uint32_t& word : words) word = random.word();
  return words;
}

/// Words for ld.red: every fourth one is at a limit of its format, which random bits never hit.
std::vector<uint32_t> words_to_reduce(int64_t count, RandomStream& random) {
  constexpr std::array<uint32_t, 8> corners{0x00000000, 0x80000000, 0x7F800000, 0xFF800000,
                                            0x7FC00000, 0xFF800001, 0x00000001, 0x80000001};
  std::vector<uint32_t> words = random_words(count, random);
  for (uint32_t& word : words) {
    if (random.below(4) == 0) word = corners[random.below(corners.size())];
  }
  return words;
}

std::optional<uint64_t> number_of(const StateNumbers& numbers, Field field) {
  const auto number = std::ranges::find(numbers, field, [](const auto& pair) { return pair.first; });
  return number == numbers.end() ? std::nullopt : std::optional(number->second);
}

/// The number of columns that an ld or st of the shape touches, counted from its address.
int columns_of(const TmemMove& move) {
  int columns = 0;
  for (int thread = 0; thread < warp_threads; ++thread) {
    for (int reg = 0; reg < move.ldst.registers(); ++reg) {
      columns = std::max(columns, move.ldst.place_of(thread, reg, move.ldst.pack_16b).column + 1);
    }
  }
  return columns + static_cast<int>(move.half_split_offset & 0xFFFF);
}

/// The number of columns that one repetition of the shape touches: a power of two.
int columns_of_one(const TmemMove& move) {
  if (!move.has_registers()) return move.kind == MoveKind::cp ? move.shape().row_bytes / 4 : shift_columns;
  TmemMove repetition = move;
  repetition.ldst.num = 1;
  repetition.half_split_offset = 0;
  return columns_of(repetition);
}

/// Sets the source of a cp: any place inside the swizzle pattern, with or without padding between groups of eight rows.
void set_source(const TmemMove& move, Swizzle swizzle, RandomStream& random, State& state) {
  const CpShape& shape = move.shape();
  SmemMatrix matrix{.major = Major::k, .element_bits = 8, .rows = shape.rows, .cols = shape.row_bytes};
  const int64_t start = 16 * static_cast<int64_t>(random.below(8));
  const int64_t padding = 16 * static_cast<int64_t>(random.below(2));
  matrix.descriptor = {
      .target = Target::sm_100a,
      .start_address_bytes = start,
      .strides = minimal_strides(Major::k, info(swizzle), 8, std::max(matrix.rows, 8), matrix.cols, padding),
      .swizzle = swizzle};
  state.set(Field::s_desc, encode(matrix.descriptor));
  const int64_t image_bytes = round_up(end_byte(SmemMap(matrix)), 1024);
  std::vector<uint8_t> images(static_cast<size_t>(move.cta_group * image_bytes));
  for (uint8_t& byte : images) byte = static_cast<uint8_t>(random.word());
  state.set(Field::smem, std::move(images), move.cta_group == 2 ? Extents{2, image_bytes} : Extents{image_bytes});
}

/// A case of an instruction that moves data. All images in a file have one size, so all cases share the start address
/// inside the pattern of the seed's first case.
State random_move_state(const TmemMove& move, const Placement& placement, uint64_t seed, uint64_t case_index) {
  State state = random_state(move, placement.a.swizzle, filler_stream(seed, case_index), placement.numbers);
  if (placement.aligned_columns && !number_of(placement.numbers, Field::taddr))
    state.set(Field::taddr, state.number(Field::taddr) & ~static_cast<uint64_t>(columns_of_one(move) - 1));
  if (move.kind != MoveKind::cp) return state;
  const State first = random_state(move, placement.a.swizzle, filler_stream(seed, 0), placement.numbers);
  state.set(Field::s_desc, first.number(Field::s_desc));
  const size_t ctas = static_cast<size_t>(move.cta_group), size = first.bytes(Field::smem).size() / ctas,
               own_size = state.bytes(Field::smem).size() / ctas;
  std::vector<uint8_t> images(size * ctas);
  for (size_t cta = 0; cta < ctas; ++cta) {
    const auto image = state.bytes(Field::smem).subspan(cta * own_size, std::min(size, own_size));
    std::ranges::copy(image, images.begin() + static_cast<std::ptrdiff_t>(cta * size));
  }
  const auto bytes = static_cast<int64_t>(size);
  state.set(Field::smem, std::move(images), ctas == 2 ? Extents{2, bytes} : Extents{bytes});
  return state;
}

}  // namespace

State random_state(const TmemMove& move, Swizzle swizzle, RandomStream random, const StateNumbers& numbers) {
  State state;
  TmemAddress base;
  int span = shift_columns;
  if (move.has_registers()) {
    const auto warp = static_cast<int>(random.below(4));
    state.set(Field::warp, static_cast<uint64_t>(warp));
    const bool whole = move.ldst.shape == LdStShape::s32x32b;
    base.lane = partition_lanes * warp + (whole ? 0 : 16 * static_cast<int>(random.below(2)));
    span = columns_of(move);
    if (span > tmem_columns) {
      throw Error({.field = "half-split offset",
                   .seen = fmt::format("{:#x}", move.half_split_offset),
                   .expected = fmt::format("at most {} columns in bits 15:0",
                                           tmem_columns - span + static_cast<int>(move.half_split_offset & 0xFFFF)),
                   .fix = "the second piece must be in Tensor Memory, too",
                   .source = "PTX ISA 9.7.16.8"});
    }
  } else if (move.kind == MoveKind::cp) {
    span = move.shape().row_bytes / 4;
    if (move.shape().rows == 4) base.lane = static_cast<int>(random.below(partition_lanes));
    set_source(move, swizzle, random, state);
  } else {
    base.lane = partition_lanes * static_cast<int>(random.below(4));
  }
  const int step = move.kind == MoveKind::cp ? 4 : 1;
  int columns = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(32, std::min(span + 8, tmem_columns)))));
  base.column = step * static_cast<int>(random.below(static_cast<uint32_t>((columns - span) / step + 1)));
  const std::optional<uint64_t> taddr = number_of(numbers, Field::taddr), warp = number_of(numbers, Field::warp);
  if (warp && !taddr) base.lane = partition_lanes * static_cast<int>(*warp % 4) + base.lane % partition_lanes;
  state.set(Field::taddr, taddr ? *taddr : encode(base));
  if (taddr) {
    base = decode_tmem_address(state.word(Field::taddr));
    const int end = std::clamp(base.column + span, columns, tmem_columns);
    columns = static_cast<int>(std::bit_ceil(static_cast<unsigned>(end)));
    if (move.has_registers()) state.set(Field::warp, static_cast<uint64_t>(base.lane / partition_lanes));
  }
  for (const auto& [field, number] : numbers) state.set(field, number);
  const int64_t cells = int64_t{move.cta_group} * tmem_lanes * columns;
  state.set(Field::tmem, move.kind == MoveKind::ld_red ? words_to_reduce(cells, random) : random_words(cells, random),
            {move.cta_group, tmem_lanes, columns});
  if (move.kind == MoveKind::st) {
    state.set(Field::regs, random_words(int64_t{warp_threads} * move.ldst.registers(), random),
              {warp_threads, move.ldst.registers()});
  }
  return state;
}

Case random_case(const Instruction& instruction, Target target, const Placement& placement, Distribution distribution,
                 uint64_t seed, uint64_t case_index) {
  require_legal(instruction, target);
  Case this_case{.instruction = instruction, .target = target};
  if (const TmemMove* move = std::get_if<TmemMove>(&instruction)) {
    this_case.before = random_move_state(*move, placement, seed, case_index);
    return this_case;
  }
  Operands operands = random_operands(instruction, target, distribution, seed, case_index);
  this_case.before = place_operands(instruction, placement, operands, filler_stream(seed, case_index));
  for (const auto& [field, number] : placement.numbers) this_case.before.set(field, number);
  // The operands as the instruction reads them: with columns that count as zero, and from the given addresses.
  if (placement.zero_column_mask || !placement.numbers.empty())
    operands = gather_operands(instruction, target, this_case.before);
  this_case.logical = logical_of(instruction, operands);
  return this_case;
}

}  // namespace bitmma
