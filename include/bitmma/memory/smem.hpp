// SPDX-License-Identifier: MIT
// Where an element of a matrix lives in shared memory, and the other way round.
//
//   descriptor -> linear byte address = start + canonical offset(row, k) -> physical = swizzle(linear, base offset)
//
// Nothing is checked by the hardware: overlapping rows and strides that make no sense are read as the rule says.
// Source: measured on an H200 with random strides, starts and base offsets (data/README.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bitmma/descriptor/smem_descriptor.hpp"
#include "bitmma/formats/matrix.hpp"

namespace bitmma {

/// Most bytes of shared memory that a CTA has on the GPUs whose instructions take descriptors: 227 KB.
inline constexpr int64_t shared_memory_bytes = 227 * 1024;

/// A rows x cols matrix (M or N by K) in a CTA's shared memory, as one instruction reads it.
struct SmemMatrix {
  SmemDescriptor descriptor = {};
  Major major = Major::k;
  int element_bits = 16;  // of the container in memory
  int rows = 0;
  int cols = 0;
};

/// The layout in elements that the hardware reads, before the swizzle.
Layout layout_of(const SmemMatrix& matrix);

/// "Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))": the descriptor's layout according to PTX's canonical layouts, in
/// elements from its start address.
std::string print_cute(const SmemMatrix& matrix);

/// The layout that the hardware reads; it differs only in the cases of layout/canonical.hpp.
std::string print_hardware_cute(const SmemMatrix& matrix);

/// How sure the rule is that a K-major row wider than the swizzle goes on at LBO: measured, chosen, or of no
/// instruction. Empty if no row is that wide.
std::string wide_row_evidence(const SmemMatrix& matrix);

/// A place in shared memory: `bit` counts from the lowest bit of byte `byte`, and is 0 for elements of 8 bits and more.
struct SmemPlace {
  int64_t byte = 0;
  int bit = 0;

  bool operator==(const SmemPlace&) const = default;
};

/// Places of all elements of one matrix: computes each coordinate's offset once.
class SmemMap {
 public:
  /// Throws Error for a matrix without elements or of more than 65536 rows or columns, for containers of other than 1,
  /// 2, 4, 8, 16 or 32 bits, and for strides and a start below 0 or above 2^32.
  explicit SmemMap(const SmemMatrix& matrix);

  const SmemMatrix& matrix() const { return matrix_; }
  /// Place of element (row, col). Throws Error, like linear_of, unless 0 <= row < rows and 0 <= col < cols.
  SmemPlace place_of(int row, int col) const {
    require_element(row, col);
    const int64_t offset_bits =
        (row_offset_[static_cast<std::size_t>(row)] + col_offset_[static_cast<std::size_t>(col)]) *
        matrix_.element_bits;
    if (matrix_.descriptor.leading_dim_absolute) return absolute_place_of(row, col);
    const int64_t linear = matrix_.descriptor.start_address_bytes + (offset_bits >> 3);
    return {.byte = apply(swizzle_, linear, matrix_.descriptor.base_offset), .bit = static_cast<int>(offset_bits & 7)};
  }
  /// The byte before the swizzle acts on it.
  int64_t linear_of(int row, int col) const {
    require_element(row, col);
    return matrix_.descriptor.start_address_bytes +
           (((row_offset_[static_cast<std::size_t>(row)] + col_offset_[static_cast<std::size_t>(col)]) *
             matrix_.element_bits) >>
            3);
  }
  /// First bytes of the units of 16 bytes, `per_unit` elements of a row (K-major) or of a column (MN-major) each: those
  /// of all rows or columns, then the next ones of each. Nothing when some unit's elements do not begin a unit of
  /// shared memory, or there are no whole units.
  std::optional<std::vector<uint32_t>> units(int per_unit) const;
  /// All elements that byte `byte` holds a part of, by row then column. Empty when the matrix does not use it.
  std::vector<std::pair<int, int>> elements_at(int64_t byte) const;

 private:
  void require_element(int row, int col) const {
    if (static_cast<std::size_t>(row) >= row_offset_.size() || static_cast<std::size_t>(col) >= col_offset_.size()) {
      refuse_element(row, col);
    }
  }
  [[noreturn]] void refuse_element(int row, int col) const;
  /// With an absolute leading dimension a row that passes the end of its 128 bytes goes on at the row of the same
  /// number in a second buffer, at the address in the LBO field. Source: PTX ISA 9.7.16.3.1.2 and how CUTLASS sets the
  /// fields.
  SmemPlace absolute_place_of(int row, int col) const;

  SmemMatrix matrix_;
  SwizzleInfo swizzle_;
  std::vector<int64_t> row_offset_, col_offset_;  // in elements
};

/// Where a code of `code_bits` bits begins in the element at `place`: codes narrower than their 8-bit container lie
/// packed at the start of their 16-byte group, lowest bits first.
SmemPlace code_place(const SmemPlace& place, int element_bits, int code_bits);

/// Reads the matrix. Throws Error naming `operand`, row, k, address and image size when an element lies outside
/// `image`.
Matrix gather(std::span<const uint8_t> image, const SmemMap& map, Format format, std::string_view operand);

/// The same with rows and columns exchanged: B, which lies in memory as N x K, as the K x N that it is multiplied as.
Matrix gather_transposed(std::span<const uint8_t> image, const SmemMap& map, Format format, std::string_view operand);

/// Writes the matrix into `image`; the inverse of gather where the map is one-to-one. Throws like gather, before it
/// writes.
void scatter(const Matrix& values, const SmemMap& map, std::span<uint8_t> image, std::string_view operand);

/// Adds what looks suspicious in the matrix's descriptor, each line naming `operand`.
void append_warnings(std::vector<Violation>& found, std::string_view operand, const SmemMatrix& matrix);

/// One more than the highest byte the matrix uses: the image size it needs.
int64_t end_byte(const SmemMap& map);

/// Says, as a warning, that the matrix uses bytes beyond the shared memory of a CTA.
std::vector<Violation> reach_warnings(const SmemMap& map);

}  // namespace bitmma
