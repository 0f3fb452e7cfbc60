// SPDX-License-Identifier: MIT
// Faults of operands that were stored in shared memory in a layout other than the right descriptor's. Unwritten bytes
// are zero; if real memory held other data, a fault explains only some of the wrong outputs.
#include <array>
#include <string>

#include "bitmma/core/error.hpp"
#include "fault_rows.hpp"

namespace bitmma::faults {
namespace {

/// ORs a code into a zeroed image. Throws Error if it is out of bounds.
void put(std::span<uint8_t> image, int64_t byte, int bit, uint64_t code, int code_bits) {
  if (byte < 0 || byte + 8 > static_cast<int64_t>(image.size())) {
    throw Error({.field = "byte written", .seen = std::to_string(byte), .expected = "a byte of the image"});
  }
  for (int i = 0; i < code_bits; ++i) {
    const int64_t at = bit + i;
    if ((code >> i & 1) != 0) image[static_cast<size_t>(byte + at / 8)] |= static_cast<uint8_t>(1 << at % 8);
  }
}

/// Stores the elements one after another; `element_of(row, k)` counts from the start address.
template <typename ElementOf>
void write_plain(std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines, int element_bits,
                 const ElementOf& element_of) {
  const int code_bits = info(lines.format()).bits;
  for (int row = 0; row < lines.rows(); ++row) {
    for (int k = 0; k < lines.cols(); ++k) {
      const int64_t bit = element_of(row, k) * element_bits;
      const SmemPlace place =
          code_place({.byte = right.descriptor.start_address_bytes + bit / 8, .bit = static_cast<int>(bit % 8)},
                     element_bits, code_bits);
      put(image, place.byte, place.bit, lines.code(row, k), code_bits);
    }
  }
}

void write_dense(std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines, Swizzle mode) {
  SmemMatrix wrong = right;
  wrong.descriptor.swizzle = mode, wrong.descriptor.base_offset = 0;
  wrong.descriptor.strides = minimal_strides(wrong.major, info(mode), wrong.element_bits, wrong.rows, wrong.cols);
  scatter(lines, SmemMap(wrong), image, "operand");
}

struct WrittenRow {
  std::string_view id, what;
  bool (*applies)(const SmemMatrix&, const FormatInfo&);
  void (*write)(std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines);
};

bool always(const SmemMatrix&, const FormatInfo&) { return true; }
template <Swizzle mode>
bool has_other_mode(const SmemMatrix& m, const FormatInfo&) {
  return m.descriptor.swizzle != mode;
}
template <Swizzle mode>
void write_in(std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines) {
  write_dense(image, right, lines, mode);
}

constexpr auto written_rows = std::to_array<WrittenRow>({
    {.id = "linear",
     .what = "written without swizzle at the same strides, read with it",
     .applies = [](const SmemMatrix& m, const FormatInfo&) { return info(m.descriptor.swizzle).bits != 0; },
     .write =
         [](std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines) {
           const SmemMap map(right);
           const int code_bits = info(lines.format()).bits;
           for (int row = 0; row < lines.rows(); ++row) {
             for (int k = 0; k < lines.cols(); ++k) {
               const SmemPlace place = code_place({.byte = map.linear_of(row, k), .bit = map.place_of(row, k).bit},
                                                  right.element_bits, code_bits);
               put(image, place.byte, place.bit, lines.code(row, k), code_bits);
             }
           }
         }},
    {.id = "plain",
     .what = "written as a plain matrix, line after line along K",
     .applies = always,
     .write =
         [](std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines) {
           write_plain(image, right, lines, right.element_bits,
                       [&](int row, int k) { return int64_t{row} * lines.cols() + k; });
         }},
    {.id = "plain_transposed",
     .what = "written as a plain matrix, one k after the other",
     .applies = always,
     .write =
         [](std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines) {
           write_plain(image, right, lines, right.element_bits,
                       [&](int row, int k) { return int64_t{k} * lines.rows() + row; });
         }},
    {.id = "dense.none",
     .what = "written in core matrices without swizzle and without gaps between them",
     .applies = has_other_mode<Swizzle::none>,
     .write = write_in<Swizzle::none>},
    {.id = "dense.32",
     .what = "written as a dense tile of swizzle 32",
     .applies = has_other_mode<Swizzle::b32>,
     .write = write_in<Swizzle::b32>},
    {.id = "dense.64",
     .what = "written as a dense tile of swizzle 64",
     .applies = has_other_mode<Swizzle::b64>,
     .write = write_in<Swizzle::b64>},
    {.id = "dense.128",
     .what = "written as a dense tile of swizzle 128",
     .applies = has_other_mode<Swizzle::b128>,
     .write = write_in<Swizzle::b128>},
    {.id = "code_per_byte",
     .what = "written with a code in the low bits of every byte",
     .applies = [](const SmemMatrix& m, const FormatInfo& format) { return m.element_bits == 8 && format.bits < 8; },
     .write =
         [](std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines) {
           const SmemMap map(right);
           for (int row = 0; row < lines.rows(); ++row) {
             for (int k = 0; k < lines.cols(); ++k) put(image, map.place_of(row, k).byte, 0, lines.code(row, k), 8);
           }
         }},
    {.id = "unpadded",
     .what = "written without the padding of every 16 bytes: rows of K are too short",
     .applies = [](const SmemMatrix& m, const FormatInfo& format) { return m.element_bits == 8 && format.bits == 4; },
     .write =
         [](std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines) {
           SmemMatrix wrong = right;
           wrong.element_bits = 4;
           scatter(lines, SmemMap(wrong), image, "operand");
         }},
});

/// Stores elements at their addresses before the swizzle.
void write_linear(std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines) {
  const SmemMap map(right);
  const int code_bits = info(lines.format()).bits;
  for (int row = 0; row < lines.rows(); ++row) {
    for (int k = 0; k < lines.cols(); ++k) {
      const SmemPlace place =
          code_place({.byte = map.linear_of(row, k), .bit = map.place_of(row, k).bit}, right.element_bits, code_bits);
      put(image, place.byte, place.bit, lines.code(row, k), code_bits);
    }
  }
}

/// Bits per element in shared memory: kinds that mix narrow types store each element in a byte.
int container_bits(const Subject& s, Role x) {
  const int bits = info(x == Role::a ? s.mma().a : s.mma().b).bits;
  return bits == 6 || (bits == 4 && s.mma().scale_count == 0) ? 8 : bits;
}

/// Plain matrices do not specify a layout: tries each tile layout, stored in another one or linearly.
void add_layouts(Rows& rows, const Subject& s, Role x) {
  if (x == Role::a ? s.mma().a_source != OperandSource::smem : s.mma().b_source != OperandSource::smem) return;
  const int bits = container_bits(s, x);
  const auto add_row = [&](const SwizzleInfo& mode, Major major, std::string_view id, const std::string& what,
                           auto write) {
    const std::string_view name = major == Major::k ? "k" : "mn";
    add(rows, fmt::format("{}.tile.{}.{}.{}", letter(x), name, mode.name, id), stage_of(x),
        fmt::format("{}: {}, read as a {} tile of swizzle {}", upper(x), what,
                    major == Major::k ? "K-major" : "MN-major", mode.name),
        "the swizzle of the TMA map that wrote the tile must be that of the descriptor",
        [x, bits, mode, major, write](const Subject&, Parts& parts) {
          Matrix& operand = operand_of(parts, x);
          const Matrix lines = x == Role::a ? operand : transposed(operand);
          SmemMatrix right{.major = major, .element_bits = bits, .rows = lines.rows(), .cols = lines.cols()};
          try {
            right.descriptor.swizzle = mode.id;
            right.descriptor.strides = minimal_strides(major, mode, bits, right.rows, right.cols);
            const SmemMap map(right);
            std::vector<uint8_t> image(static_cast<size_t>(2 * end_byte(map) + 4096));
            write(image, right, lines);
            operand = x == Role::a ? gather(image, map, lines.format(), "A")
                                   : gather_transposed(image, map, lines.format(), "B");
            return true;
          } catch (const Error&) {
            return false;  // the tile does not exist
          }
        });
  };
  for (const Major major : {Major::k, Major::mn}) {
    for (const SwizzleInfo& mode : swizzles) {
      if (mode.code(s.this_case().target) < 0 || mode.rows_per_atom < 8) continue;
      if (mode.bits != 0) add_row(mode, major, "linear", "written without swizzle at the same strides", write_linear);
      for (const SwizzleInfo& other : swizzles) {
        if (other.id == mode.id || other.code(s.this_case().target) < 0 || other.rows_per_atom < 8) continue;
        add_row(mode, major, other.name, fmt::format("written as a tile of swizzle {}", other.name),
                [id = other.id](std::span<uint8_t> image, const SmemMatrix& right, const Matrix& lines) {
                  write_dense(image, right, lines, id);
                });
      }
    }
  }
}

}  // namespace

void add_written_faults(Rows& rows, const Subject& s, Role x) {
  const SmemMatrix* const matrix = s.in_smem(x);
  if (!s.this_case().has_state()) add_layouts(rows, s, x);
  if (!matrix || matrix->descriptor.leading_dim_absolute) return;
  for (const WrittenRow& row : written_rows) {
    if (!row.applies(*matrix, info(x == Role::a ? s.mma().a : s.mma().b))) continue;
    add(rows, fmt::format("{}.written.{}", letter(x), row.id), stage_of(x), fmt::format("{}: {}", upper(x), row.what),
        "the layout in which the tile was written: the TMA map, or the indices of the stores",
        [x, write = row.write](const Subject& subject, Parts& parts) {
          std::optional<Matrix> read = subject.read_written(x, write);
          if (read) operand_of(parts, x) = std::move(*read);
          return read.has_value();
        });
  }
}

}  // namespace bitmma::faults
