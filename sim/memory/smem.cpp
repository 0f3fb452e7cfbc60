// SPDX-License-Identifier: MIT
#include "bitmma/memory/smem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "../core/words.hpp"
#include "../formats/matrix_inside.hpp"
#include "bitmma/descriptor/descriptor_meaning.hpp"

namespace bitmma {
namespace {

int bytes_of_element(const SmemMatrix& matrix) { return std::max(1, matrix.element_bits / 8); }

[[noreturn]] void refuse_outside(const SmemMap& map, int row, int col, size_t image_bytes, std::string_view operand) {
  const SmemDescriptor& descriptor = map.matrix().descriptor;
  const int64_t byte = map.place_of(row, col).byte;
  throw Error(
      {.field = fmt::format("{} element row {}, k {}", operand, row, col),
       .seen = fmt::format("byte {:#x} ({})", byte, byte),
       .expected = fmt::format("an address inside the shared-memory image of {} bytes", image_bytes),
       .fix = fmt::format("check start address {:#x}, LBO {} and SBO {}", descriptor.start_address_bytes,
                          descriptor.strides.leading_dim_byte_offset, descriptor.strides.stride_dim_byte_offset)});
}

/// Checks that sizes and addresses are small enough that no sum of offsets overflows.
void require_countable(const SmemMatrix& matrix) {
  constexpr int most_extent = 1 << 16;
  constexpr int64_t most_bytes = int64_t{1} << 32;
  std::vector<Violation> violations;
  const auto require = [&](bool holds, std::string_view field, auto seen, std::string_view expected) {
    if (holds) return;
    violations.push_back(
        {.field = std::string(field), .seen = fmt::format("{}", seen), .expected = std::string(expected)});
  };
  const int bits = matrix.element_bits;
  require(bits >= 1 && bits <= 32 && std::has_single_bit(static_cast<unsigned>(bits)), "element bits", bits,
          "1, 2, 4, 8, 16 or 32");
  require(matrix.rows >= 1 && matrix.rows <= most_extent, "rows", matrix.rows, "1..65536");
  require(matrix.cols >= 1 && matrix.cols <= most_extent, "columns", matrix.cols, "1..65536");
  const SmemDescriptor& descriptor = matrix.descriptor;
  require(static_cast<size_t>(descriptor.swizzle) < swizzles.size(), "swizzle", static_cast<int>(descriptor.swizzle),
          "one of the modes");
  for (const auto& [field, bytes] : {std::pair("start address", descriptor.start_address_bytes),
                                     std::pair("leading_dim_byte_offset", descriptor.strides.leading_dim_byte_offset),
                                     std::pair("stride_dim_byte_offset", descriptor.strides.stride_dim_byte_offset)}) {
    require(bytes >= 0 && bytes <= most_bytes, field, bytes, "0..2^32");
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

/// Returns `matrix` after its check.
const SmemMatrix& checked(const SmemMatrix& matrix) {
  require_countable(matrix);
  return matrix;
}

}  // namespace

Layout layout_of(const SmemMatrix& matrix) {
  require_countable(matrix);
  return hardware_layout(matrix.major, info(matrix.descriptor.swizzle), matrix.descriptor.strides, matrix.element_bits,
                         matrix.rows, matrix.cols);
}

std::string print_cute(const SmemMatrix& matrix) {
  require_countable(matrix);
  const SwizzleInfo& swizzle = info(matrix.descriptor.swizzle);
  return fmt::format("{} o {}", print(swizzle),
                     print(canonical_layout(matrix.major, swizzle, matrix.descriptor.strides, matrix.element_bits,
                                            matrix.rows, matrix.cols)));
}

std::string print_hardware_cute(const SmemMatrix& matrix) {
  const std::string layout = print(layout_of(matrix));
  return fmt::format("{} o {}", print(info(matrix.descriptor.swizzle)), layout);
}

std::string wide_row_evidence(const SmemMatrix& matrix) {
  require_countable(matrix);
  const SwizzleInfo& swizzle = info(matrix.descriptor.swizzle);
  if (!is_wider_than_swizzle(matrix.major, swizzle, matrix.element_bits, matrix.cols)) return {};
  return std::string(evidence_of_wide_rows(matrix.descriptor.target, swizzle, matrix.cols * matrix.element_bits / 8));
}

SmemMap::SmemMap(const SmemMatrix& matrix) : matrix_(checked(matrix)), swizzle_(info(matrix.descriptor.swizzle)) {
  const Layout layout = layout_of(matrix);
  row_offset_ = offsets_of(layout.row, matrix.rows);
  col_offset_ = offsets_of(layout.col, matrix.cols);
}

void SmemMap::refuse_element(int row, int col) const {
  throw Error({.field = "element",
               .seen = fmt::format("row {}, column {}", row, col),
               .expected = fmt::format("rows 0..{}, columns 0..{}", matrix_.rows - 1, matrix_.cols - 1)});
}

SmemPlace SmemMap::absolute_place_of(int row, int col) const {
  constexpr int64_t line = 128;
  const SmemDescriptor& descriptor = matrix_.descriptor;
  const int64_t col_bits = col_offset_[col] * matrix_.element_bits, row_bits = row_offset_[row] * matrix_.element_bits;
  const int64_t position = descriptor.start_address_bytes % line + col_bits / 8;
  const int64_t buffer =
      position < line ? descriptor.start_address_bytes / line * line : descriptor.strides.leading_dim_byte_offset;
  // Only one of the two offsets can be a fraction of a byte: the one along neighbouring elements.
  return {.byte = apply(swizzle_, buffer + position % line + row_bits / 8, descriptor.base_offset),
          .bit = static_cast<int>((col_bits + row_bits) & 7)};
}

std::optional<std::vector<uint32_t>> SmemMap::units(int per_unit) const {
  constexpr uint64_t unit_bits = 128;
  const bool along_k = matrix_.major == Major::k;
  const std::vector<int64_t>&inner_offset = along_k ? col_offset_ : row_offset_,
        &outer_offset = along_k ? row_offset_ : col_offset_;
  if (per_unit < 1 || inner_offset.size() % static_cast<size_t>(per_unit) != 0) return std::nullopt;
  const SmemDescriptor& descriptor = matrix_.descriptor;
  std::vector<uint32_t> bytes(outer_offset.size() * (inner_offset.size() / static_cast<size_t>(per_unit)));
  uint32_t* to = bytes.data();
  if (descriptor.leading_dim_absolute) {
    for (int inner = 0; inner < static_cast<int>(inner_offset.size()); inner += per_unit) {
      for (int outer = 0; outer < static_cast<int>(outer_offset.size()); ++outer) {
        const SmemPlace place = along_k ? place_of(outer, inner) : place_of(inner, outer);
        if (place.byte % 16 != 0 || place.bit != 0) return std::nullopt;
        *to++ = static_cast<uint32_t>(place.byte);
      }
    }
    return bytes;
  }
  // place_of in 32 bits, for many outer offsets at once: 64 rows with strides below 2^18 bytes stay far below 2^32. The
  // end of `bytes` holds the bytes of the outer offsets until the last of them overwrite it.
  constexpr uint64_t most_bytes = uint64_t{1} << 30;
  if (static_cast<uint64_t>(descriptor.start_address_bytes) > most_bytes) return std::nullopt;
  const int bit_shift = std::countr_zero(static_cast<uint32_t>(matrix_.element_bits));
  const size_t outers = outer_offset.size();
  uint32_t* const outer_bytes = bytes.data() + bytes.size() - outers;
  uint64_t outer_bits = 0;
  for (size_t outer = 0; outer < outers; ++outer) {
    const uint64_t bits = static_cast<uint64_t>(outer_offset[outer]) << bit_shift;
    outer_bits |= bits;
    outer_bytes[outer] = static_cast<uint32_t>(bits / 8);
  }
  if (outer_bits % unit_bits != 0 || outer_bits / 8 > most_bytes) return std::nullopt;
  const int down = swizzle_.base + swizzle_.shift, up = swizzle_.base;
  const uint32_t mask = (1u << swizzle_.bits) - 1, base_offset = static_cast<uint32_t>(descriptor.base_offset);
  for (size_t inner = 0; inner < inner_offset.size(); inner += static_cast<size_t>(per_unit)) {
    const uint64_t bits = static_cast<uint64_t>(inner_offset[inner]) << bit_shift;
    if (bits % unit_bits != 0 || bits / 8 > most_bytes) return std::nullopt;
    const uint32_t first = static_cast<uint32_t>(static_cast<uint64_t>(descriptor.start_address_bytes) + bits / 8);
    for (size_t outer = 0; outer < outers; ++outer) {
      const uint32_t linear = first + outer_bytes[outer];
      to[outer] = linear ^ ((((linear >> down) - base_offset) & mask) << up);
    }
    to += outers;
  }
  return bytes;
}

std::vector<std::pair<int, int>> SmemMap::elements_at(int64_t byte) const {
  std::vector<std::pair<int, int>> elements;
  for (int row = 0; row < matrix_.rows; ++row) {
    for (int col = 0; col < matrix_.cols; ++col) {
      const int64_t first = place_of(row, col).byte;
      if (first <= byte && byte < first + bytes_of_element(matrix_)) elements.emplace_back(row, col);
    }
  }
  return elements;
}

void append_warnings(std::vector<Violation>& list, std::string_view operand, const SmemMatrix& matrix) {
  for (Violation& warning : warnings(matrix.descriptor, matrix.major, matrix.cols * matrix.element_bits / 8)) {
    warning.field = fmt::format("{} {}", operand, warning.field);
    list.push_back(std::move(warning));
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

/// The destination of element (row, col) in gather: codes[row * row_step + col * col_step]. One of the steps is 1.
struct Destination {
  uint32_t* codes;
  std::ptrdiff_t row_step, col_step;
};

/// Takes the codes of a 16-byte unit, `width` bits each, which follow each other from its start.
template <int width>
BITMMA_INLINE void take_codes(const uint8_t* unit, int count, uint32_t* codes) {
  if constexpr (width == 32) {
    std::memcpy(codes, unit, 16);
  } else if constexpr (width == 16) {
    store_words(load<Halves>(unit), codes);
  } else if constexpr (width == 8) {
    store_words(load<Bytes>(unit), codes);
  } else if constexpr (width == 4) {
    const auto bytes = load<Bytes>(unit), low = bytes & 15, high = bytes >> 4;
    store_words(__builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), codes);
    if (count > 16)
      store_words(__builtin_shufflevector(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31),
                  codes + 16);
  } else if constexpr (width == 1) {
    for (int word = 0; word < 4; ++word) {
      uint32_t bits;
      std::memcpy(&bits, unit + 4 * word, 4);
      const Words all = Words{} + bits;
#pragma GCC unroll 8
      for (int i = 0; i < 32; i += 4) {
        const Words bit = Words{1, 2, 4, 8} << i, is_set = reinterpret_cast<Words>((all & bit) == bit);  // 0 or -1
        store(-is_set, codes + 32 * word + i);
      }
    }
  } else {
    std::array<uint8_t, 17> bytes{};  // one more, for the code that ends with the unit
    std::memcpy(bytes.data(), unit, 16);
    for (int i = 0; i < count; ++i) {
      const int bit = i * width;
      codes[i] = static_cast<uint32_t>((bytes[bit >> 3] | bytes[(bit >> 3) + 1] << 8) >> (bit & 7)) &
                 static_cast<uint32_t>(low_mask(width));
    }
  }
}

/// The hardware never splits sixteen bytes: the swizzle moves whole units, and strides are multiples of them. So this
/// reads a unit at a time along K or along the rows; to transpose, it reads four units side by side. Returns false if
/// units do not stay together or are outside the image; the caller then reads element by element.
template <int width>
bool gather_units(std::span<const uint8_t> image, const SmemMap& map, const Destination& target) {
  static_assert(std::endian::native == std::endian::little);
  const SmemMatrix& matrix = map.matrix();
  const int per_unit = width >= 8 ? 128 / width : 128 / matrix.element_bits;  // narrow codes may have wider containers
  const bool along_k = matrix.major == Major::k;
  const int inners = along_k ? matrix.cols : matrix.rows, outers = along_k ? matrix.rows : matrix.cols;
  const std::ptrdiff_t inner_step = along_k ? target.col_step : target.row_step,
                       outer_step = along_k ? target.row_step : target.col_step;
  constexpr int side_by_side = 4;
  const bool transposing = inner_step != 1;
  if (inners % per_unit != 0 || (transposing && outers % side_by_side != 0)) return false;
  const std::optional<std::vector<uint32_t>> units = map.units(per_unit);
  if (!units || std::ranges::any_of(*units, [&](uint32_t byte) { return byte + uint64_t{16} > image.size(); }))
    return false;
  const uint32_t* unit = units->data();
  if (!transposing) {
    for (int inner = 0; inner < inners; inner += per_unit) {
      for (int outer = 0; outer < outers; ++outer)
        take_codes<width>(image.data() + *unit++, per_unit, target.codes + outer * outer_step + inner);
    }
    return true;
  }
  constexpr int most_per_unit = width >= 8 ? 128 / width : width == 1 ? 128 : 32;
  uint32_t codes[side_by_side][most_per_unit];
  for (int inner = 0; inner < inners; inner += per_unit) {
    for (int outer = 0; outer < outers; outer += side_by_side, unit += side_by_side) {
      for (int u = 0; u < side_by_side; ++u) take_codes<width>(image.data() + unit[u], per_unit, codes[u]);
      uint32_t* to = target.codes + inner * inner_step + outer;
      for (int i = 0; i < (width >= 8 ? most_per_unit : per_unit); i += 4) {
        Words words[side_by_side];
        for (int u = 0; u < side_by_side; ++u) words[u] = load<Words>(codes[u] + i);
        transpose(words);
        for (int j = 0; j < 4; ++j, to += inner_step) store(words[j], to);
      }
    }
  }
  return true;
}

bool gather_units(std::span<const uint8_t> image, const SmemMap& map, int code_bits, const Destination& target) {
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

/// The bits of a code in its element. Codes narrower than a byte may be packed in groups of bytes; no others may.
int code_bits_of(const SmemMap& map, Format format, std::string_view operand) {
  const int code_bits = info(format).bits, element_bits = map.matrix().element_bits;
  const bool may_be_in_bytes = code_bits == 4 || code_bits == 6;  // single bits are never in bytes
  if (element_bits == code_bits || (element_bits == 8 && may_be_in_bytes)) return code_bits;
  throw Error(
      {.code = ViolationCode::wrong_type,
       .field = fmt::format("{} elements", operand),
       .seen = fmt::format("{} bits", element_bits),
       .expected = fmt::format("{} bits for {}{}", code_bits, info(format).name, may_be_in_bytes ? ", or 8" : "")});
}

void gather(std::span<const uint8_t> image, const SmemMap& map, int code_bits, std::string_view operand,
            const Destination& target) {
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

Matrix gather(std::span<const uint8_t> image, const SmemMap& map, Format format, std::string_view operand) {
  const SmemMatrix& matrix = map.matrix();
  Matrix values = unfilled_matrix(format, matrix.rows, matrix.cols);
  gather(image, map, code_bits_of(map, format, operand), operand,
         {.codes = values.words().data(), .row_step = matrix.cols, .col_step = 1});
  return values;
}

Matrix gather_transposed(std::span<const uint8_t> image, const SmemMap& map, Format format, std::string_view operand) {
  const SmemMatrix& matrix = map.matrix();
  Matrix values = unfilled_matrix(format, matrix.cols, matrix.rows);
  gather(image, map, code_bits_of(map, format, operand), operand,
         {.codes = values.words().data(), .row_step = 1, .col_step = matrix.rows});
  return values;
}

void scatter(const Matrix& values, const SmemMap& map, std::span<uint8_t> image, std::string_view operand) {
  const SmemMatrix& matrix = map.matrix();
  const int code_bits = code_bits_of(map, values.format(), operand);
  if (values.rows() != matrix.rows || values.cols() != matrix.cols) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = std::string(operand),
                 .seen = fmt::format("{} x {}", values.rows(), values.cols()),
                 .expected = fmt::format("{} x {}", matrix.rows, matrix.cols)});
  }
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

std::vector<Violation> reach_warnings(const SmemMap& map) {
  const int64_t end = end_byte(map);
  if (end <= shared_memory_bytes) return {};
  return {{.code = ViolationCode::too_large,
           .field = "last byte",
           .seen = fmt::format("{:#x}", end - 1),
           .expected = fmt::format("below {:#x}: a CTA has at most 227 KB of shared memory", shared_memory_bytes),
           .fix = end > int64_t{1} << 18 ? "descriptors can address only 2^18 bytes" : "",
           .severity = Severity::warning}};
}

}  // namespace bitmma
