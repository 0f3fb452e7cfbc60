#include "bitmma/memory/fragment.hpp"

#include <cstring>

#include <fmt/format.h>

#include "bitmma/core/bits.hpp"
#include "bitmma/layout/layout.hpp"

namespace bitmma {
namespace {

void require_size(std::span<const uint32_t> registers, const Fragment& fragment, std::string_view operand) {
  if (static_cast<int64_t>(registers.size()) == fragment.words()) return;
  throw Error({.field = fmt::format("{} registers", operand), .seen = std::to_string(registers.size()),
               .legal = fmt::format("{} threads of {} registers", fragment.threads, fragment.registers())});
}

/// The element at position `position` of a register. The public functions speak of bits; dividing by the width of an
/// element is left to them, the loops below count positions.
MatrixPlace element_of(FragmentRole role, int per_register, int thread, int reg, int position) {
  const int warp = thread / 32, g = thread % 32 / 4, q = thread % 4;
  if (role == FragmentRole::b) return {.row = g, .col = per_register * q + position + 4 * per_register * reg};
  if (role == FragmentRole::a) {
    return {.row = 16 * warp + g + 8 * (reg & 1), .col = per_register * q + position + 4 * per_register * (reg >> 1)};
  }
  const int element = reg * per_register + position;
  return {.row = 16 * warp + g + 8 * ((element >> 1) & 1), .col = 8 * (element >> 2) + 2 * q + (element & 1)};
}

/// Accumulators are large and regular: in every 8 columns a thread holds two neighbours in row g and two in row g + 8.
/// Calls body(first register, row, col) for each such four.
template <typename Body>
void for_each_accumulator_block(const Fragment& fragment, const Body& body) {
  const int count = fragment.registers(), registers_per_block = 4 / fragment.elements_per_register();
  // The four threads that share two rows side by side: whole lines of the matrix are finished before the next are begun.
  for (int four = 0; four < fragment.threads; four += 4) {
    for (int block = 0; block < fragment.cols / 8; ++block) {
      for (int thread = 0; thread < 4; ++thread) {
        body(static_cast<size_t>(four + thread) * count + static_cast<size_t>(block * registers_per_block), 16 * (four / 32) + four % 32 / 4, 8 * block + 2 * thread);
      }
    }
  }
}

}  // namespace

Fragment wgmma_a_fragment(Format a, int stored_k) {
  return {.role = FragmentRole::a, .rows = 64, .cols = stored_k, .element_bits = info(a).bits};
}

Fragment wgmma_d_fragment(Format d, int n) {
  return {.role = FragmentRole::d, .rows = 64, .cols = n, .element_bits = info(d).bits};
}

Fragment mma_a_fragment(int element_bits, int stored_k) {
  return {.role = FragmentRole::a, .rows = 16, .cols = stored_k, .element_bits = element_bits, .threads = 32};
}

Fragment mma_b_fragment(int element_bits, int k) { return {.role = FragmentRole::b, .rows = 8, .cols = k, .element_bits = element_bits, .threads = 32}; }

Fragment mma_d_fragment() { return {.role = FragmentRole::d, .rows = 16, .cols = 8, .element_bits = 32, .threads = 32}; }

MatrixPlace element_at(const Fragment& fragment, int thread, int reg, int bit) {
  return element_of(fragment.role, fragment.elements_per_register(), thread, reg, bit / fragment.element_bits);
}

RegisterPlace place_of(const Fragment& fragment, int row, int col) {
  const int per_register = fragment.elements_per_register();
  const int warp = row / 16, g = row % 8, upper_row = row / 8 % 2;
  if (fragment.role == FragmentRole::b) {
    return {.thread = 4 * g + col / per_register % 4, .reg = col / (4 * per_register), .bit = col % per_register * fragment.element_bits};
  }
  if (fragment.role == FragmentRole::a) {
    const int q = col / per_register % 4;
    return {.thread = 32 * warp + 4 * g + q, .reg = upper_row + 2 * (col / (4 * per_register)),
            .bit = col % per_register * fragment.element_bits};
  }
  const int element = 4 * (col / 8) + 2 * upper_row + col % 2;
  return {.thread = 32 * warp + 4 * g + col % 8 / 2, .reg = element / per_register,
          .bit = element % per_register * fragment.element_bits};
}

std::string print_cute(const Fragment& fragment) {
  const int rows = fragment.rows, per_register = fragment.elements_per_register(), warps = fragment.threads / 32;
  LayoutMode thread{{4, int64_t{per_register} * rows}, {8, 1}}, value{{per_register, rows}};
  if (fragment.role == FragmentRole::d) {
    thread[0].stride = 2 * rows;
    value = {{2, rows}, {2, 8}, {fragment.cols / 8, 8 * rows}};
  } else if (fragment.role == FragmentRole::a) {
    value.push_back({2, 8});
    value.push_back({2, int64_t{4} * per_register * rows});
  } else {
    value.push_back({fragment.registers(), int64_t{4} * per_register * rows});
  }
  if (warps > 1) thread.push_back({warps, 16});
  return print(Layout{.row = thread, .col = value});
}

BitMatrix gather(std::span<const uint32_t> registers, const Fragment& fragment, Format format,
                 std::string_view operand) {
  require_size(registers, fragment, operand);
  BitMatrix values = BitMatrix::unfilled(format, fragment.rows, fragment.cols);
  if (fragment.role == FragmentRole::d) {
    const bool packed = fragment.element_bits == 16;
    for_each_accumulator_block(fragment, [&](size_t first, int row, int col) {
      uint32_t* const upper = &values.bits(row, col);
      uint32_t* const lower = upper + 8 * fragment.cols;
      const uint32_t* const words = registers.data() + first;
      if (packed) upper[0] = words[0] & 0xFFFF, upper[1] = words[0] >> 16, lower[0] = words[1] & 0xFFFF, lower[1] = words[1] >> 16;
      else std::memcpy(upper, words, 8), std::memcpy(lower, words + 2, 8);
    });
    return values;
  }
  const int count = fragment.registers(), per_register = fragment.elements_per_register();
  const auto mask = static_cast<uint32_t>(low_mask(fragment.element_bits));
  for (int thread = 0; thread < fragment.threads; ++thread) {
    for (int reg = 0; reg < count; ++reg) {
      const uint32_t word = registers[static_cast<size_t>(thread) * count + reg];
      for (int position = 0; position < per_register; ++position) {
        const MatrixPlace place = element_of(fragment.role, per_register, thread, reg, position);
        values(place.row, place.col) = (word >> position * fragment.element_bits) & mask;
      }
    }
  }
  return values;
}

void scatter(const BitMatrix& values, const Fragment& fragment, std::span<uint32_t> registers,
             std::string_view operand) {
  require_size(registers, fragment, operand);
  if (fragment.role == FragmentRole::d) {
    const bool packed = fragment.element_bits == 16;
    for_each_accumulator_block(fragment, [&](size_t first, int row, int col) {
      const uint32_t* const upper = &values.bits(row, col);
      const uint32_t* const lower = upper + 8 * fragment.cols;
      uint32_t* const words = registers.data() + first;
      if (packed) words[0] = (upper[0] & 0xFFFF) | upper[1] << 16, words[1] = (lower[0] & 0xFFFF) | lower[1] << 16;
      else std::memcpy(words, upper, 8), std::memcpy(words + 2, lower, 8);
    });
    return;
  }
  const int count = fragment.registers(), per_register = fragment.elements_per_register();
  const auto mask = static_cast<uint32_t>(low_mask(fragment.element_bits));
  for (int thread = 0; thread < fragment.threads; ++thread) {
    for (int reg = 0; reg < count; ++reg) {
      uint32_t word = 0;
      for (int position = 0; position < per_register; ++position) {
        const MatrixPlace place = element_of(fragment.role, per_register, thread, reg, position);
        word |= (values(place.row, place.col) & mask) << position * fragment.element_bits;
      }
      registers[static_cast<size_t>(thread) * count + reg] = word;
    }
  }
}

}  // namespace bitmma
