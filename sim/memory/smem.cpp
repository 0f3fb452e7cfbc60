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
  for (int row = 0; row < matrix.rows; ++row) row_offset_.push_back(offset_of(layout.row, row));
  for (int col = 0; col < matrix.cols; ++col) col_offset_.push_back(offset_of(layout.col, col));
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

/// Sixteen bytes never come apart: the swizzle moves whole units, and strides are multiples of them. So whole elements are
/// read a unit at a time, along K or along the rows. Returns false where that does not hold or a unit lies outside the image;
/// the caller then reads element by element.
template <typename Element>
bool gather_units(std::span<const uint8_t> image, const SmemMap& map, BitMatrix& values) {
  const SmemMatrix& matrix = map.matrix();
  constexpr int per_unit = 16 / sizeof(Element);
  const bool along_k = matrix.major == Major::k;
  if ((along_k ? matrix.cols : matrix.rows) % per_unit != 0 || matrix.descriptor.leading_dim_absolute) return false;
  const std::ptrdiff_t step = along_k ? 1 : matrix.cols;
  for (int outer = 0; outer < (along_k ? matrix.rows : matrix.cols); ++outer) {
    for (int inner = 0; inner < (along_k ? matrix.cols : matrix.rows); inner += per_unit) {
      const int row = along_k ? outer : inner, col = along_k ? inner : outer;
      const int64_t byte = map.place_of(row, col).byte;
      if (byte % 16 != 0 || byte + 16 > static_cast<int64_t>(image.size())) return false;
      std::array<Element, per_unit> unit;
      std::memcpy(unit.data(), image.data() + byte, 16);
      uint32_t* const target = &values.bits(row, col);
      for (int i = 0; i < per_unit; ++i) target[i * step] = unit[static_cast<size_t>(i)];
    }
  }
  return true;
}

bool gather_units(std::span<const uint8_t> image, const SmemMap& map, Format format, BitMatrix& values) {
  static_assert(std::endian::native == std::endian::little);
  const int bits = map.matrix().element_bits;
  if (info(format).bits != bits) return false;
  return bits == 32 ? gather_units<uint32_t>(image, map, values) : bits == 16 ? gather_units<uint16_t>(image, map, values) : bits == 8 && gather_units<uint8_t>(image, map, values);
}

}  // namespace

BitMatrix gather(std::span<const uint8_t> image, const SmemMap& map, Format format, std::string_view operand) {
  const SmemMatrix& matrix = map.matrix();
  BitMatrix values(format, matrix.rows, matrix.cols);
  if (gather_units(image, map, format, values)) return values;
  const int code_bits = std::min(matrix.element_bits, info(format).bits);
  const uint32_t mask = static_cast<uint32_t>(low_mask(code_bits));
  const int bytes = bytes_of_element(matrix);
  for (int row = 0; row < matrix.rows; ++row) {
    for (int col = 0; col < matrix.cols; ++col) {
      const SmemPlace place = map.place_of(row, col);
      if (place.byte + bytes > static_cast<int64_t>(image.size())) refuse_outside(map, row, col, image.size(), operand);
      const SmemPlace code = code_place(place, matrix.element_bits, code_bits);
      uint64_t word = 0;
      for (int i = 0; 8 * i < code.bit + code_bits; ++i) word |= uint64_t{image[code.byte + i]} << (8 * i);
      values(row, col) = static_cast<uint32_t>(word >> code.bit) & mask;
    }
  }
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
