// SPDX-License-Identifier: MIT
#include "bitmma/memory/fragment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../core/words.hpp"
#include "../formats/matrix_inside.hpp"
#include "bitmma/core/bits.hpp"
#include "bitmma/layout/layout.hpp"
#include "fragment_rows.hpp"
#include "wide_copies.hpp"

namespace bitmma {
namespace {

/// The formulas below hold for fragments whose elements fill whole registers of all threads.
void require_sound(const Fragment& fragment) {
  const auto [role, rows, cols, bits, threads] = fragment;
  const bool is_one_warp = threads == 32;
  const bool has_width = bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16 || bits == 32 || bits == 64;
  bool fits = has_width && (is_one_warp || threads == 128) && cols >= 1 && cols <= 1 << 16;
  if (fits) {
    const int per_thread = bits > 32 ? 1 : 32 / bits;
    const int warps = threads / 32;
    switch (role) {
      case FragmentRole::a:
        fits = (rows == 16 * warps || (rows == 8 && is_one_warp)) && cols % (4 * per_thread) == 0;
        break;
      case FragmentRole::b: fits = rows == 8 && is_one_warp && cols % (4 * per_thread) == 0; break;
      case FragmentRole::d:
        fits = (rows == 16 * warps || (rows == 8 && is_one_warp)) && cols % 8 == 0 && per_thread <= 2;
        break;
      case FragmentRole::quad_rows: fits = rows == 32 && (cols == 4 || cols == 8) && is_one_warp && bits == 16; break;
      case FragmentRole::quad_cols: fits = rows == 32 && cols == 4 && is_one_warp && bits == 16; break;
      case FragmentRole::quad_d_f32: fits = rows == 32 && cols == 8 && is_one_warp && bits == 32; break;
      case FragmentRole::quad_rows_b:
      case FragmentRole::quad_cols_b: fits = rows == 8 && cols == 16 && is_one_warp && bits == 16; break;
      default: fits = false;
    }
  }
  if (fits) return;
  throw Error({.field = "fragment",
               .seen = fmt::format("role {}, {} x {} elements of {} bits in {} threads", static_cast<int>(role), rows,
                                   cols, bits, threads),
               .expected = "a fragment that fills whole registers, as returned by wgmma_a_fragment() and the like"});
}

void require_within(std::string_view field, int value, int end) {
  if (value >= 0 && value < end) return;
  throw Error({.field = std::string(field), .seen = std::to_string(value), .expected = fmt::format("0..{}", end - 1)});
}

/// True if the fragment can hold codes of the format.
void require_format(const Fragment& fragment, Format format, std::string_view operand) {
  const int bits = info(format).bits;
  if ((bits > 32) == fragment.is_wide() && bits <= fragment.element_bits) return;
  throw Error({.code = ViolationCode::wrong_type,
               .field = fmt::format("{} elements", operand),
               .seen = fmt::format("{} bits", fragment.element_bits),
               .expected = fmt::format("{} bits for {}", bits, info(format).name)});
}

void require_shape(const Matrix& values, int rows, int cols, std::string_view operand) {
  if (values.rows() == rows && values.cols() == cols) return;
  throw Error({.code = ViolationCode::wrong_shape,
               .field = std::string(operand),
               .seen = fmt::format("{} x {}", values.rows(), values.cols()),
               .expected = fmt::format("{} x {}", rows, cols)});
}

void require_size(std::span<const uint32_t> registers, const Fragment& fragment, std::string_view operand) {
  require_sound(fragment);
  if (static_cast<int64_t>(registers.size()) == fragment.words()) return;
  throw Error({.code = ViolationCode::wrong_shape,
               .field = fmt::format("{} registers", operand),
               .seen = std::to_string(registers.size()),
               .expected = fmt::format("{} threads of {} registers", fragment.threads, fragment.registers())});
}

bool is_quad(FragmentRole role) { return role > FragmentRole::d; }

/// Element `i` of a thread; see FragmentRole.
MatrixPlace quad_element_of(FragmentRole role, int thread, int i) {
  const int product = thread % 16 / 4, t = thread % 4, upper = 4 * (thread / 16);
  switch (role) {
    case FragmentRole::quad_cols: return {.row = 8 * product + i + upper, .col = t};
    case FragmentRole::quad_rows_b: return {.row = t + upper, .col = 4 * product + i};
    case FragmentRole::quad_cols_b: return {.row = i + upper, .col = 4 * product + t};
    case FragmentRole::quad_d_f32:
      return {.row = 8 * product + (thread & 1) + (i & 2) + upper, .col = (i & 4) + (thread & 2) + (i & 1)};
    default: return {.row = 8 * product + t + upper, .col = i};
  }
}

struct QuadPlace {
  int thread = 0, i = 0;
};
/// The inverse of quad_element_of.
QuadPlace quad_place_of(FragmentRole role, int row, int col) {
  const bool is_b = role == FragmentRole::quad_rows_b || role == FragmentRole::quad_cols_b;
  const int product = is_b ? col / 4 : row / 8, upper = 16 * (row % 8 / 4), first = upper + 4 * product;
  switch (role) {
    case FragmentRole::quad_cols:
    case FragmentRole::quad_cols_b: return {first + col % 4, row % 4};
    case FragmentRole::quad_rows_b: return {first + row % 4, col % 4};
    case FragmentRole::quad_d_f32: return {first + (row & 1) + (col & 2), (col & 4) + (row & 2) + (col & 1)};
    default: return {first + row % 4, col};
  }
}

/// True for fragments that the loops below move sixteen bytes at a time: accumulators of 16 rows per warp and 16 or 32
/// bits, and A of 16 bits, whose elements are where those of such an accumulator are.
bool is_regular(const Fragment& fragment) {
  const bool is_like_d =
      fragment.role == FragmentRole::d || (fragment.role == FragmentRole::a && fragment.element_bits == 16);
  return is_like_d && fragment.rows % 16 == 0 && !fragment.is_wide();
}

/// The element at position `position` of a register. The public functions take bits and divide by the width of an
/// element; the loops below count positions.
MatrixPlace element_of(const Fragment& fragment, int per_register, int thread, int reg, int position) {
  const FragmentRole role = fragment.role;
  const int warp = thread / 32, g = thread % 32 / 4, q = thread % 4;
  if (is_quad(role)) return quad_element_of(role, thread, reg * per_register + position);
  if (role == FragmentRole::b) return {.row = g, .col = per_register * q + position + 4 * per_register * reg};
  if (role == FragmentRole::a && fragment.rows == 8)
    return {.row = g, .col = per_register * q + position + 4 * per_register * reg};
  if (role == FragmentRole::a) {
    return {.row = 16 * warp + g + 8 * (reg & 1), .col = per_register * q + position + 4 * per_register * (reg >> 1)};
  }
  const int element = reg * per_register + position;
  return {.row = 16 * warp + g + 8 * ((element >> 1) & 1), .col = 8 * (element >> 2) + 2 * q + (element & 1)};
}

// Accumulators are large and regular: in every 8 columns a thread holds two neighbours in row g and two in row g + 8,
// and the four threads that share two rows fill 8 columns of both. The loops move four threads at a time, with sixteen
// bytes of each; wide_copies.hpp has those for 32 bits.

/// Calls body(registers of the first of four threads, their words of row g, their words of row g + 8) for each group of
/// four threads of some warps.
template <typename Register, typename Word, typename Body>
void for_each_four(Register* registers, Word* values, int rows, int stride, const Fragment& fragment,
                   const Body& body) {
  for (int four = 0; four < 2 * rows; four += 4) {
    Word* const upper = values + static_cast<size_t>(16 * (four / 32) + four % 32 / 4) * stride;
    body(registers + static_cast<size_t>(four) * fragment.registers(), upper, upper + static_cast<size_t>(8) * stride);
  }
}

/// Calls body(registers of four threads, row, col) for four adjacent rows of D and columns col, col + 1: each thread
/// holds both columns of its row first, then both columns of the row eight below.
template <typename Register, typename Body>
void for_each_square(Register* registers, const Fragment& fragment, const Body& body) {
  const int count = fragment.registers();
  for (int col = 0; col < fragment.cols; col += 8) {
    for (int thread = 0; thread < fragment.threads; thread += 16) {
      for (int q = 0; q < 4; ++q) {
        std::array<Register*, 4> of_thread;
        for (int i = 0; i < 4; ++i)
          of_thread[static_cast<size_t>(i)] =
              registers + static_cast<size_t>(thread + 4 * i + q) * count + col / 2 / fragment.elements_per_register();
        body(of_thread, 16 * (thread / 32) + thread % 32 / 4, col + 2 * q);
      }
    }
  }
}

/// 16-bit accumulators, two per register: registers 2 j and 2 j + 1 hold columns 8 j ... of row g and of row g + 8.
/// Four registers of four threads make sixteen columns; if eight remain, the loop reads two registers twice.
void gather_halves(const uint32_t* registers, const Fragment& fragment, int rows, uint32_t* values, int stride) {
  const int count = fragment.registers();
  for_each_four(registers, values, rows, stride, fragment, [&](const uint32_t* four, uint32_t* upper, uint32_t* lower) {
    const auto put = [](const Words& pairs, uint32_t* to) { store_words(reinterpret_cast<Halves>(pairs), to); };
    if (count < 4) {
      put(Words{four[0], four[count], four[2 * count], four[3 * count]}, upper);
      put(Words{four[1], four[count + 1], four[2 * count + 1], four[3 * count + 1]}, lower);
      return;
    }
    for (int reg = 0; reg < count; reg += 4) {
      const int first = std::min(reg, count - 4);
      Words words[4];
      for (int thread = 0; thread < 4; ++thread) words[thread] = load<Words>(four + thread * count + first);
      transpose(words);
      put(words[0], upper + 4 * first);
      put(words[1], lower + 4 * first);
      put(words[2], upper + 4 * first + 8);
      put(words[3], lower + 4 * first + 8);
    }
  });
}

void scatter_halves(const uint32_t* values, int stride, const Fragment& fragment, int rows, uint32_t* registers) {
  const int count = fragment.registers();
  for_each_four(
      registers, values, rows, stride, fragment, [&](uint32_t* four, const uint32_t* upper, const uint32_t* lower) {
        const auto take = [](const uint32_t* from) {
          const auto x = load<Words>(from), y = load<Words>(from + 4);
          const Words even = __builtin_shufflevector(x, y, 0, 2, 4, 6), odd = __builtin_shufflevector(x, y, 1, 3, 5, 7);
          return (even & 0xFFFF) | odd << 16;
        };
        if (count < 4) {
          const Words above = take(upper), below = take(lower);
          for (int thread = 0; thread < 4; ++thread)
            four[thread * count] = above[thread], four[thread * count + 1] = below[thread];
          return;
        }
        for (int reg = 0; reg < count; reg += 4) {
          const int first = std::min(reg, count - 4);
          Words words[4]{take(upper + 4 * first), take(lower + 4 * first), take(upper + 4 * first + 8),
                         take(lower + 4 * first + 8)};
          transpose(words);
          for (int thread = 0; thread < 4; ++thread) store(words[thread], four + thread * count + first);
        }
      });
}

/// 32-bit accumulators: registers 4 j ... 4 j + 3 of a thread hold two columns of 8 j ... 8 j + 7 in row g, then two in
/// row g + 8.
FragmentCopy copy_of(const Fragment& fragment, int rows, uint32_t* registers, uint32_t* codes, int stride) {
  return {.fours = rows / 2,
          .count = fragment.registers(),
          .cols = fragment.cols,
          .registers = registers,
          .codes = codes,
          .stride = stride};
}

}  // namespace

Fragment wgmma_a_fragment(Format a, int stored_k) {
  return {.role = FragmentRole::a, .rows = 64, .cols = stored_k, .element_bits = info(a).bits};
}

Fragment wgmma_d_fragment(Format d, int n) {
  return {.role = FragmentRole::d, .rows = 64, .cols = n, .element_bits = info(d).bits};
}

Fragment mma_a_fragment(int element_bits, int stored_k, int m) {
  return {.role = FragmentRole::a, .rows = m, .cols = stored_k, .element_bits = element_bits, .threads = 32};
}

Fragment mma_b_fragment(int element_bits, int k) {
  return {.role = FragmentRole::b, .rows = 8, .cols = k, .element_bits = element_bits, .threads = 32};
}

Fragment mma_d_fragment(int element_bits, int m) {
  return {.role = FragmentRole::d, .rows = m, .cols = 8, .element_bits = element_bits, .threads = 32};
}

Fragment quad_a_fragment(bool column_major) {
  const FragmentRole role = column_major ? FragmentRole::quad_cols : FragmentRole::quad_rows;
  return {.role = role, .rows = 32, .cols = 4, .element_bits = 16, .threads = 32};
}

Fragment quad_b_fragment(bool row_major) {
  const FragmentRole role = row_major ? FragmentRole::quad_cols_b : FragmentRole::quad_rows_b;
  return {.role = role, .rows = 8, .cols = 16, .element_bits = 16, .threads = 32};
}

Fragment quad_d_fragment(Format d) {
  const FragmentRole role = d == Format::f16 ? FragmentRole::quad_rows : FragmentRole::quad_d_f32;
  return {.role = role, .rows = 32, .cols = 8, .element_bits = info(d).bits, .threads = 32};
}

MatrixPlace element_at(const Fragment& fragment, int thread, int reg, int bit) {
  require_sound(fragment);
  require_within("thread", thread, fragment.threads);
  require_within("register", reg, fragment.registers());
  require_within("bit", bit, fragment.is_wide() ? 64 : 32);
  return element_of(fragment, fragment.elements_per_register(), thread, reg, bit / fragment.element_bits);
}

RegisterPlace place_of(const Fragment& fragment, int row, int col) {
  require_sound(fragment);
  require_within("row", row, fragment.rows);
  require_within("column", col, fragment.cols);
  const int per_register = fragment.elements_per_register();
  if (is_quad(fragment.role)) {
    const auto [thread, i] = quad_place_of(fragment.role, row, col);
    return {.thread = thread, .reg = i / per_register, .bit = i % per_register * fragment.element_bits};
  }
  const int warp = row / 16, g = row % 8, upper_row = row / 8 % 2;
  if (fragment.role == FragmentRole::b) {
    return {.thread = 4 * g + col / per_register % 4,
            .reg = col / (4 * per_register),
            .bit = col % per_register * fragment.element_bits};
  }
  if (fragment.role == FragmentRole::a) {
    const int q = col / per_register % 4;
    return {.thread = 32 * warp + 4 * g + q,
            .reg = fragment.rows == 8 ? col / (4 * per_register) : upper_row + 2 * (col / (4 * per_register)),
            .bit = col % per_register * fragment.element_bits};
  }
  const int element = (fragment.rows == 8 ? 2 : 4) * (col / 8) + 2 * upper_row + col % 2;
  return {.thread = 32 * warp + 4 * g + col % 8 / 2,
          .reg = element / per_register,
          .bit = element % per_register * fragment.element_bits};
}

std::string print_cute(const Fragment& fragment) {
  require_sound(fragment);
  const int rows = fragment.rows, per_register = fragment.elements_per_register(), warps = fragment.threads / 32;
  LayoutMode thread{{4, int64_t{per_register} * rows}, {8, 1}}, value{{per_register, rows}};
  switch (fragment.role) {
    case FragmentRole::d:
      thread[0].stride = 2 * rows;
      value = {{2, rows}};
      if (rows > 8) value.push_back({2, 8});
      if (fragment.cols > 8 || rows > 8) value.push_back({fragment.cols / 8, 8 * rows});
      break;
    case FragmentRole::a:
      if (rows > 8) value.push_back({2, 8});
      value.push_back({fragment.registers() / (rows > 8 ? 2 : 1), int64_t{4} * per_register * rows});
      break;
    case FragmentRole::b: value.push_back({fragment.registers(), int64_t{4} * per_register * rows}); break;
    // The threads of a quad, the quad pairs, the upper half of the warp.
    case FragmentRole::quad_rows: thread = {{4, 1}, {4, 8}, {2, 4}}, value = {{fragment.cols, rows}}; break;
    case FragmentRole::quad_cols: thread = {{4, rows}, {4, 8}, {2, 4}}, value = {{4, 1}}; break;
    case FragmentRole::quad_rows_b: thread = {{4, 1}, {4, 4 * rows}, {2, 4}}, value = {{4, rows}}; break;
    case FragmentRole::quad_cols_b: thread = {{4, rows}, {4, 4 * rows}, {2, 4}}, value = {{4, 1}}; break;
    case FragmentRole::quad_d_f32:
      thread = {{2, 1}, {2, 2 * rows}, {4, 8}, {2, 4}}, value = {{2, rows}, {2, 2}, {2, 4 * rows}};
      break;
  }
  if (warps > 1) thread.push_back({warps, 16});
  return print(Layout{.row = thread, .col = value});
}

void gather_rows(const uint32_t* registers, const Fragment& fragment, int row, int rows, uint32_t* values, int stride) {
  registers += static_cast<ptrdiff_t>(2 * row) * fragment.registers();  // two threads for each row
  if (fragment.element_bits == 16) return gather_halves(registers, fragment, rows, values, stride);
  wide_copies().gather_fragment(copy_of(fragment, rows, const_cast<uint32_t*>(registers), values, stride));
}

void scatter_rows(const uint32_t* values, int stride, const Fragment& fragment, int row, int rows,
                  uint32_t* registers) {
  registers += static_cast<ptrdiff_t>(2 * row) * fragment.registers();
  if (fragment.element_bits == 16) return scatter_halves(values, stride, fragment, rows, registers);
  wide_copies().scatter_fragment(copy_of(fragment, rows, registers, const_cast<uint32_t*>(values), stride));
}

Matrix gather(std::span<const uint32_t> registers, const Fragment& fragment, Format format, std::string_view operand) {
  require_size(registers, fragment, operand);
  require_format(fragment, format, operand);
  Matrix values = unfilled_matrix(format, fragment.rows, fragment.cols);
  if (is_regular(fragment)) {
    gather_rows(registers.data(), fragment, 0, fragment.rows, values.words().data(), fragment.cols);
    return values;
  }
  const int count = fragment.registers(), per_register = fragment.elements_per_register();
  if (fragment.is_wide()) {
    for (int at = 0; at < fragment.threads * count; ++at) {
      const MatrixPlace place = element_of(fragment, 1, at / count, at % count, 0);
      const auto i = static_cast<size_t>(2 * at);
      values.set_code(place.row, place.col, registers[i] | uint64_t{registers[i + 1]} << 32);
    }
    return values;
  }
  const auto mask = static_cast<uint32_t>(low_mask(fragment.element_bits));
  for (int thread = 0; thread < fragment.threads; ++thread) {
    for (int reg = 0; reg < count; ++reg) {
      const uint32_t word = registers[static_cast<size_t>(thread) * count + reg];
      for (int position = 0; position < per_register; ++position) {
        const MatrixPlace place = element_of(fragment, per_register, thread, reg, position);
        values(place.row, place.col) = (word >> position * fragment.element_bits) & mask;
      }
    }
  }
  return values;
}

void scatter(const Matrix& values, const Fragment& fragment, std::span<uint32_t> registers, std::string_view operand) {
  require_size(registers, fragment, operand);
  require_format(fragment, values.format(), operand);
  require_shape(values, fragment.rows, fragment.cols, operand);
  if (is_regular(fragment)) {
    scatter_rows(values.words().data(), fragment.cols, fragment, 0, fragment.rows, registers.data());
    return;
  }
  const int count = fragment.registers(), per_register = fragment.elements_per_register();
  if (fragment.is_wide()) {
    for (int at = 0; at < fragment.threads * count; ++at) {
      const MatrixPlace place = element_of(fragment, 1, at / count, at % count, 0);
      const uint64_t code = values.code(place.row, place.col);
      const auto i = static_cast<size_t>(2 * at);
      registers[i] = static_cast<uint32_t>(code), registers[i + 1] = static_cast<uint32_t>(code >> 32);
    }
    return;
  }
  const auto mask = static_cast<uint32_t>(low_mask(fragment.element_bits));
  for (int thread = 0; thread < fragment.threads; ++thread) {
    for (int reg = 0; reg < count; ++reg) {
      uint32_t word = 0;
      for (int position = 0; position < per_register; ++position) {
        const MatrixPlace place = element_of(fragment, per_register, thread, reg, position);
        word |= (values(place.row, place.col) & mask) << position * fragment.element_bits;
      }
      registers[static_cast<size_t>(thread) * count + reg] = word;
    }
  }
}

Matrix gather_transposed(std::span<const uint32_t> registers, const Fragment& fragment, Format format,
                         std::string_view operand) {
  if (!is_regular(fragment)) return transposed(gather(registers, fragment, format, operand));
  require_size(registers, fragment, operand);
  require_format(fragment, format, operand);
  Matrix values = unfilled_matrix(format, fragment.cols, fragment.rows);
  for_each_square(registers.data(), fragment, [&](const auto& of_thread, int row, int col) {
    if (fragment.element_bits == 16) {
      for (int i = 0; i < 2; ++i) {
        const Words pairs{of_thread[0][i], of_thread[1][i], of_thread[2][i], of_thread[3][i]};
        store(pairs & 0xFFFF, &values(col, row + 8 * i));
        store(pairs >> 16, &values(col + 1, row + 8 * i));
      }
      return;
    }
    Words words[4];
    for (size_t i = 0; i < 4; ++i) words[i] = load<Words>(of_thread[i]);
    transpose(words);
    for (int i = 0; i < 4; ++i) store(words[i], &values(col + i % 2, row + 8 * (i / 2)));
  });
  return values;
}

void scatter_transposed(const Matrix& values, const Fragment& fragment, std::span<uint32_t> registers,
                        std::string_view operand) {
  if (!is_regular(fragment)) return scatter(transposed(values), fragment, registers, operand);
  require_size(registers, fragment, operand);
  require_format(fragment, values.format(), operand);
  require_shape(values, fragment.cols, fragment.rows, operand);
  for_each_square(registers.data(), fragment, [&](const auto& of_thread, int row, int col) {
    if (fragment.element_bits == 16) {
      for (int i = 0; i < 2; ++i) {
        const Words pairs =
            (load<Words>(&values(col, row + 8 * i)) & 0xFFFF) | load<Words>(&values(col + 1, row + 8 * i)) << 16;
        for (int thread = 0; thread < 4; ++thread) of_thread[static_cast<size_t>(thread)][i] = pairs[thread];
      }
      return;
    }
    Words words[4];
    for (int i = 0; i < 4; ++i) words[i] = load<Words>(&values(col + i % 2, row + 8 * (i / 2)));
    transpose(words);
    for (size_t i = 0; i < 4; ++i) store(words[i], of_thread[i]);
  });
}

}  // namespace bitmma
