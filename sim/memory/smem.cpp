#include "bitmma/memory/smem.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace bitmma {
namespace {

int bytes_of_element(const SmemMatrix& matrix) { return std::max(1, matrix.element_bits / 8); }

[[noreturn]] void refuse_outside(const SmemMap& map, int row, int col, size_t image_bytes, std::string_view operand) {
  const SmemDescriptor& descriptor = map.matrix().descriptor;
  const int64_t byte = map.place_of(row, col).byte;
  throw Error({.field = fmt::format("{} element row {}, k {}", operand, row, col),
               .seen = fmt::format("byte {:#x} ({})", byte, byte),
               .legal = fmt::format("an address inside the shared-memory image of {} bytes", image_bytes),
               .fix = fmt::format("check start address {:#x}, LBO {} and SBO {}", descriptor.start_address_bytes,
                                  descriptor.strides.leading_dim_byte_offset,
                                  descriptor.strides.stride_dim_byte_offset)});
}

}  // namespace

Layout layout_of(const SmemMatrix& matrix) {
  return hardware_layout(matrix.major, info(matrix.descriptor.swizzle), matrix.descriptor.strides, matrix.element_bits,
                         matrix.rows, matrix.cols);
}

std::string print_cute(const SmemMatrix& matrix) {
  const SwizzleInfo& swizzle = info(matrix.descriptor.swizzle);
  return fmt::format("{} o {}", print(swizzle),
                     print(canonical_layout(matrix.major, swizzle, matrix.descriptor.strides, matrix.element_bits, matrix.rows, matrix.cols)));
}

std::string print_hardware_cute(const SmemMatrix& matrix) {
  return fmt::format("{} o {}", print(info(matrix.descriptor.swizzle)), print(layout_of(matrix)));
}

SmemMap::SmemMap(const SmemMatrix& matrix) : matrix_(matrix), swizzle_(info(matrix.descriptor.swizzle)) {
  const Layout layout = layout_of(matrix);
  row_offset_ = offsets_of(layout.row, matrix.rows);
  col_offset_ = offsets_of(layout.col, matrix.cols);
}

SmemPlace SmemMap::absolute_place_of(int row, int col) const {
  constexpr int64_t line = 128;
  const SmemDescriptor& descriptor = matrix_.descriptor;
  const int64_t col_bits = col_offset_[col] * matrix_.element_bits, row_bytes = row_offset_[row] * matrix_.element_bits / 8;
  const int64_t position = descriptor.start_address_bytes % line + col_bits / 8;
  const int64_t buffer = position < line ? descriptor.start_address_bytes / line * line : descriptor.strides.leading_dim_byte_offset;
  return {.byte = apply(swizzle_, buffer + position % line + row_bytes, descriptor.base_offset), .bit = static_cast<int>(col_bits & 7)};
}

std::vector<std::pair<int, int>> SmemMap::elements_at(int64_t byte) const {
  std::vector<std::pair<int, int>> found;
  for (int row = 0; row < matrix_.rows; ++row) {
    for (int col = 0; col < matrix_.cols; ++col) {
      const int64_t first = place_of(row, col).byte;
      if (first <= byte && byte < first + bytes_of_element(matrix_)) found.emplace_back(row, col);
    }
  }
  return found;
}

void append_warnings(std::vector<Violation>& found, std::string_view operand, const SmemMatrix& matrix) {
  for (Violation& warning : warnings(matrix.descriptor, matrix.major, matrix.cols * matrix.element_bits / 8)) {
    warning.field = fmt::format("{} {}", operand, warning.field);
    found.push_back(std::move(warning));
  }
}

int64_t end_byte(const SmemMap& map) {
  int64_t end = 0;
  for (int row = 0; row < map.matrix().rows; ++row) {
    for (int col = 0; col < map.matrix().cols; ++col) {
      end = std::max(end, map.place_of(row, col).byte + bytes_of_element(map.matrix()));
    }
  }
  return end;
}

SmemPlace code_place(const SmemPlace& place, int element_bits, int code_bits) {
  if (element_bits != 8 || code_bits >= 8 || code_bits <= 1) return place;
  const int64_t bit = (place.byte & ~int64_t{15}) * 8 + (place.byte & 15) * code_bits;
  return {.byte = bit >> 3, .bit = static_cast<int>(bit & 7)};
}

namespace {

/// Where gather puts element (row, col): codes[row * row_step + col * col_step]. One of the steps is 1.
struct Target {
  uint32_t* codes;
  std::ptrdiff_t row_step, col_step;
};

/// Element `i` of a unit of 16 bytes, for codes of `width` bits that lie side by side from its start.
template <int width>
uint32_t code_in_unit(const uint8_t* unit, int i) {
  if constexpr (width >= 8) {
    uint32_t code = 0;
    std::memcpy(&code, unit + i * (width / 8), width / 8);
    return code;
  } else {
    const int bit = i * width;
    return (unit[bit >> 3] | unit[(bit >> 3) + 1] << 8) >> (bit & 7) & low_mask(width);
  }
}

/// Sixteen bytes never come apart: the swizzle moves whole units, and strides are multiples of them. So elements are read a
/// unit at a time, along K or along the rows, and sixteen units side by side, so that also what is transposed is written
/// in whole lines. Returns false where units do not hold together or lie outside the image; the caller then reads element
/// by element.
template <int width>
bool gather_units(std::span<const uint8_t> image, const SmemMap& map, const Target& target) {
  static_assert(std::endian::native == std::endian::little);
  const SmemMatrix& matrix = map.matrix();
  const int per_unit = width >= 8 ? 128 / width : 128 / matrix.element_bits;  // narrow codes may have wider containers
  const bool along_k = matrix.major == Major::k;
  const int inners = along_k ? matrix.cols : matrix.rows, outers = along_k ? matrix.rows : matrix.cols;
  if (inners % per_unit != 0) return false;
  const std::ptrdiff_t inner_step = along_k ? target.col_step : target.row_step, outer_step = along_k ? target.row_step : target.col_step;
  constexpr int side_by_side = 16;
  std::array<std::array<uint8_t, 17>, side_by_side> units{};  // one byte more than a unit has, for codes that end with it
  for (int outer = 0; outer < outers; outer += side_by_side) {
    const int count = std::min(side_by_side, outers - outer);
    for (int inner = 0; inner < inners; inner += per_unit) {
      for (int u = 0; u < count; ++u) {
        const SmemPlace place = along_k ? map.place_of(outer + u, inner) : map.place_of(inner, outer + u);
        if (place.byte % 16 != 0 || place.bit != 0 || place.byte + 16 > static_cast<int64_t>(image.size())) return false;
        std::memcpy(units[static_cast<size_t>(u)].data(), image.data() + place.byte, 16);
      }
      uint32_t* const codes = target.codes + outer * outer_step + inner * inner_step;
      if (inner_step == 1) {
        for (int u = 0; u < count; ++u) {
          for (int i = 0; i < per_unit; ++i) codes[u * outer_step + i] = code_in_unit<width>(units[static_cast<size_t>(u)].data(), i);
        }
      } else {
        for (int i = 0; i < per_unit; ++i) {
          for (int u = 0; u < count; ++u) codes[i * inner_step + u] = code_in_unit<width>(units[static_cast<size_t>(u)].data(), i);
        }
      }
    }
  }
  return true;
}

bool gather_units(std::span<const uint8_t> image, const SmemMap& map, int code_bits, const Target& target) {
  switch (code_bits) {
    case 32: return gather_units<32>(image, map, target);
    case 16: return gather_units<16>(image, map, target);
    case 8: return gather_units<8>(image, map, target);
    case 6: return gather_units<6>(image, map, target);
    case 4: return gather_units<4>(image, map, target);
    case 1: return gather_units<1>(image, map, target);
    default: return false;
  }
}

void gather(std::span<const uint8_t> image, const SmemMap& map, int code_bits, std::string_view operand, const Target& target) {
  if (gather_units(image, map, code_bits, target)) return;
  const SmemMatrix& matrix = map.matrix();
  const uint32_t mask = static_cast<uint32_t>(low_mask(code_bits));
  const int bytes = bytes_of_element(matrix);
  for (int row = 0; row < matrix.rows; ++row) {
    for (int col = 0; col < matrix.cols; ++col) {
      const SmemPlace place = map.place_of(row, col);
      if (place.byte + bytes > static_cast<int64_t>(image.size())) refuse_outside(map, row, col, image.size(), operand);
      const SmemPlace code = code_place(place, matrix.element_bits, code_bits);
      uint64_t word = 0;
      for (int i = 0; 8 * i < code.bit + code_bits; ++i) word |= uint64_t{image[code.byte + i]} << (8 * i);
      target.codes[row * target.row_step + col * target.col_step] = static_cast<uint32_t>(word >> code.bit) & mask;
    }
  }
}

}  // namespace

BitMatrix gather(std::span<const uint8_t> image, const SmemMap& map, Format format, std::string_view operand) {
  const SmemMatrix& matrix = map.matrix();
  BitMatrix values = BitMatrix::unfilled(format, matrix.rows, matrix.cols);
  gather(image, map, std::min(matrix.element_bits, info(format).bits), operand, {.codes = values.bits.data(), .row_step = matrix.cols, .col_step = 1});
  return values;
}

BitMatrix gather_transposed(std::span<const uint8_t> image, const SmemMap& map, Format format, std::string_view operand) {
  const SmemMatrix& matrix = map.matrix();
  BitMatrix values = BitMatrix::unfilled(format, matrix.cols, matrix.rows);
  gather(image, map, std::min(matrix.element_bits, info(format).bits), operand, {.codes = values.bits.data(), .row_step = 1, .col_step = matrix.rows});
  return values;
}

void scatter(const BitMatrix& values, const SmemMap& map, std::span<uint8_t> image, std::string_view operand) {
  const SmemMatrix& matrix = map.matrix();
  const int code_bits = std::min(matrix.element_bits, info(values.format).bits);
  const uint64_t mask = low_mask(code_bits);
  const int bytes = bytes_of_element(matrix);
  for (int row = 0; row < matrix.rows; ++row) {
    for (int col = 0; col < matrix.cols; ++col) {
      if (map.place_of(row, col).byte + bytes > static_cast<int64_t>(image.size())) {
        refuse_outside(map, row, col, image.size(), operand);
      }
    }
  }
  for (int row = 0; row < matrix.rows; ++row) {
    for (int col = 0; col < matrix.cols; ++col) {
      const SmemPlace code = code_place(map.place_of(row, col), matrix.element_bits, code_bits);
      for (int i = 0; 8 * i < code.bit + code_bits; ++i) {
        uint8_t& byte = image[code.byte + i];
        const auto byte_mask = static_cast<uint8_t>(mask << code.bit >> (8 * i));
        const auto byte_value = static_cast<uint8_t>((values(row, col) & mask) << code.bit >> (8 * i));
        byte = static_cast<uint8_t>((byte & ~byte_mask) | byte_value);
      }
    }
  }
}

}  // namespace bitmma
