// SPDX-License-Identifier: MIT
#include "warp_registers.hpp"

#include "../../core/words.hpp"
#include "bitmma/core/bits.hpp"

namespace bitmma::family {
namespace {

constexpr int rows = 8;  // g of the lanes 4 g + q

/// Calls body(number of elements of a register as a constant).
template <typename Body>
void with_elements(int per_register, const Body& body) {
  switch (per_register) {
    case 1: return body(std::integral_constant<int, 1>{});
    case 2: return body(std::integral_constant<int, 2>{});
    case 4: return body(std::integral_constant<int, 4>{});
    default: return body(std::integral_constant<int, 8>{});
  }
}

}  // namespace

TransposedRegisters::TransposedRegisters(const Fragment& fragment, int shift, int bits,
                                         const std::function<int(int col)>& place)
    : columns_(4 * fragment.registers()),
      per_register_(fragment.elements_per_register()),
      shift_(shift),
      mask_(static_cast<uint32_t>(low_mask(bits))) {
  const int registers = fragment.registers();
  for (int column = 0; column < columns_; ++column) {
    for (int i = 0; i < per_register_; ++i) {
      const MatrixPlace at = element_at(fragment, column / registers, column % registers, i * fragment.element_bits);
      codes_.push_back(static_cast<uint16_t>(place(at.col) * WarpProduct::cols + at.row));
    }
  }
}

void TransposedRegisters::gather(const uint32_t* registers, uint32_t* codes) const {
  with_elements(per_register_, [&](auto constant) {
    constexpr int elements = constant, width = 32 / elements;
    // Copies, which the stores cannot change.
    const int columns = columns_, shift = shift_;
    const Words mask = Words{} + mask_;
    const uint16_t* at = codes_.data();
    for (int column = 0; column < columns; column += 4, at += 4 * elements) {
      for (int row = 0; row < rows; row += 4) {
        const uint32_t* const from = registers + row * columns + column;
        Words words[4] = {load<Words>(from), load<Words>(from + columns), load<Words>(from + 2 * columns),
                          load<Words>(from + 3 * columns)};
        transpose(words);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          const Words word = words[j] >> shift;
#pragma GCC unroll 8
          for (int i = 0; i < elements; ++i) store((word >> i * width) & mask, codes + at[j * elements + i] + row);
        }
      }
    }
  });
}

void TransposedRegisters::scatter(const uint32_t* codes, uint32_t* registers) const {
  with_elements(per_register_, [&](auto constant) {
    constexpr int elements = constant, width = 32 / elements;
    const int columns = columns_;
    const uint16_t* at = codes_.data();
    for (int column = 0; column < columns; column += 4, at += 4 * elements) {
      for (int row = 0; row < rows; row += 4) {
        Words words[4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          words[j] = Words{};
#pragma GCC unroll 8
          for (int i = 0; i < elements; ++i) words[j] |= load<Words>(codes + at[j * elements + i] + row) << i * width;
        }
        transpose(words);
        for (int i = 0; i < 4; ++i) store(words[i], registers + (row + i) * columns + column);
      }
    }
  });
}

ElementRegisters::ElementRegisters(const Fragment& fragment, bool is_transposed) {
  const int lines = is_transposed ? fragment.cols : fragment.rows,
            columns = is_transposed ? fragment.rows : fragment.cols;
  for (int row = 0; row < lines; ++row) {
    for (int col = 0; col < columns; ++col) {
      const RegisterPlace place = is_transposed ? place_of(fragment, col, row) : place_of(fragment, row, col);
      places_.push_back(
          static_cast<uint16_t>((place.thread * fragment.registers() + place.reg) * fragment.elements_per_register() +
                                place.bit / fragment.element_bits));
    }
  }
  const auto follows = [&](size_t i) { return places_[i] == places_[i - 1] + 1; };
  for (size_t run = 2; run <= 8 && places_.size() % run == 0; run *= 2) {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (i % run != 0 && !follows(i)) return;
    }
    run_ = static_cast<int>(run);
  }
}

BRegisters::BRegisters(const Fragment& fragment, int shift, int bits, int stride,
                       const std::function<int(int k)>& place)
    : registers_(fragment.registers()),
      per_register_(fragment.elements_per_register()),
      shift_(shift),
      stride_(stride),
      mask_(static_cast<uint32_t>(low_mask(bits))) {
  for (int k = 0; k < fragment.cols; ++k) codes_.push_back(static_cast<uint16_t>(place(k)));
}

void BRegisters::gather(const uint32_t* registers, uint32_t* codes) const {
  with_elements(per_register_, [&](auto constant) {
    constexpr int elements = constant, width = 32 / elements;
    const int count = registers_, shift = shift_, stride = stride_;
    const Words mask = Words{} + mask_;
    for (int row = 0; row < rows; ++row, registers += 4 * count, codes += stride) {
      const uint16_t* at = codes_.data();
      for (int reg = 0; reg < count; ++reg, at += 4 * elements) {
        // One register of the four lanes of a row; then their codes in the order of k.
        const Words words =
            Words{registers[reg], registers[count + reg], registers[2 * count + reg], registers[3 * count + reg]} >>
            shift;
        Words parts[elements];
#pragma GCC unroll 8
        for (int i = 0; i < elements; ++i) parts[i] = words >> i * width & mask;
        if constexpr (elements == 1) {
          store(parts[0], codes + at[0]);
        } else if constexpr (elements == 2) {
          store(__builtin_shufflevector(parts[0], parts[1], 0, 4, 1, 5), codes + at[0]);
          store(__builtin_shufflevector(parts[0], parts[1], 2, 6, 3, 7), codes + at[4]);
        } else {
#pragma GCC unroll 2
          for (int first = 0; first < elements; first += 4) {
            Words four[4] = {parts[first], parts[first + 1], parts[first + 2], parts[first + 3]};
            transpose(four);
#pragma GCC unroll 4
            for (int q = 0; q < 4; ++q) {
              const auto pairs = reinterpret_cast<Doubles>(four[q]);
              const uint64_t low = pairs[0], high = pairs[1];
              std::memcpy(codes + at[elements * q + first], &low, sizeof low);
              std::memcpy(codes + at[elements * q + first + 2], &high, sizeof high);
            }
          }
        }
      }
    }
  });
}

}  // namespace bitmma::family
