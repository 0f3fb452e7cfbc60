// SPDX-License-Identifier: MIT
// Where an element of a matrix is in shared memory, and the inverse.
//
//   descriptor -> linear byte address = start + canonical offset(row, k) -> physical = swizzle(linear, base offset)
//
// The hardware checks nothing: it reads overlapping rows and meaningless strides by the same rule.
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

/// The largest shared memory of a CTA on GPUs whose instructions use descriptors: 227 KB.
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

/// "Swizzle<3,4,3> o ((8,8),(8,2)):((64,512),(1,8))": the descriptor's layout by PTX's canonical layouts, in elements
/// from its start address.
std::string print_cute(const SmemMatrix& matrix);

/// The layout that the hardware reads; it differs only in the cases described in layout/canonical.hpp.
std::string print_hardware_cute(const SmemMatrix& matrix);

/// The evidence that a K-major row wider than the swizzle continues at LBO: measured, chosen, or not reached by any
/// instruction. Empty if no row is that wide.
std::string wide_row_evidence(const SmemMatrix& matrix);

/// A place in shared memory: `bit` counts from the lowest bit of byte `byte`, and is 0 for elements of at least 8 bits.
struct SmemPlace {
  int64_t byte = 0;
  int bit = 0;

  bool operator==(const SmemPlace&) const = default;
};

/// The places of all elements of one matrix; each coordinate's offset is computed once.
class SmemMap {
 public:
  /// Throws Error for a matrix without elements or with more than 65536 rows or columns, for containers other than 1,
  /// 2, 4, 8, 16 or 32 bits, and for strides and a start outside 0..2^32.
  explicit SmemMap(const SmemMatrix& matrix);

  const SmemMatrix& matrix() const { return matrix_; }
  /// The place of element (row, col). Throws Error, like linear_of, unless 0 <= row < rows and 0 <= col < cols.
  SmemPlace place_of(int row, int col) const {
    require_element(row, col);
    const int64_t offset_bits =
        (row_offset_[static_cast<std::size_t>(row)] + col_offset_[static_cast<std::size_t>(col)]) *
        matrix_.element_bits;
    if (matrix_.descriptor.leading_dim_absolute) return absolute_place_of(row, col);
    const int64_t linear = matrix_.descriptor.start_address_bytes + (offset_bits >> 3);
    return {.byte = apply(swizzle_, linear, matrix_.descriptor.base_offset), .bit = static_cast<int>(offset_bits & 7)};
  }
  /// The byte address before the swizzle.
  int64_t linear_of(int row, int col) const {
    require_element(row, col);
    return matrix_.descriptor.start_address_bytes +
           (((row_offset_[static_cast<std::size_t>(row)] + col_offset_[static_cast<std::size_t>(col)]) *
             matrix_.element_bits) >>
            3);
  }
  /// The first bytes of 16-byte units, each with `per_unit` elements of a row (K-major) or of a column (MN-major):
  /// first those of all rows or columns, then the next unit of each. Nothing if the elements of a unit do not start a
  /// unit of shared memory, or if there are no whole units.
  std::optional<std::vector<uint32_t>> units(int per_unit) const;
  /// All elements that byte `byte` contains a part of, by row then column. Empty if the matrix does not use it.
  std::vector<std::pair<int, int>> elements_at(int64_t byte) const;

 private:
  void require_element(int row, int col) const {
    if (static_cast<std::size_t>(row) >= row_offset_.size() || static_cast<std::size_t>(col) >= col_offset_.size()) {
      refuse_element(row, col);
    }
  }
  [[noreturn]] void refuse_element(int row, int col) const;
  /// With an absolute leading dimension, a row that crosses the end of its 128 bytes continues in the row with the same
  /// number in a second buffer, at the address in the LBO field. Source: PTX ISA 9.7.16.3.1.2, and the fields that
  /// CUTLASS sets.
  SmemPlace absolute_place_of(int row, int col) const;

  SmemMatrix matrix_;
  SwizzleInfo swizzle_;
  std::vector<int64_t> row_offset_, col_offset_;  // in elements
};

/// Where a code of `code_bits` bits starts in the element at `place`: codes narrower than their 8-bit container are
/// packed at the start of their 16-byte group, lowest bits first.
SmemPlace code_place(const SmemPlace& place, int element_bits, int code_bits);

/// Reads the matrix. Throws Error, which names `operand`, row, k, address and image size, if an element is outside
/// `image`.
Matrix gather(std::span<const uint8_t> image, const SmemMap& map, Format format, std::string_view operand);

/// The same with rows and columns exchanged: B is N x K in memory, and K x N in the product.
Matrix gather_transposed(std::span<const uint8_t> image, const SmemMap& map, Format format, std::string_view operand);

/// Writes the matrix into `image`; the inverse of gather if the map is one-to-one. Throws like gather, before it writes
/// anything.
void scatter(const Matrix& values, const SmemMap& map, std::span<uint8_t> image, std::string_view operand);

/// Appends warnings about the matrix's descriptor, each naming `operand`.
void append_warnings(std::vector<Violation>& list, std::string_view operand, const SmemMatrix& matrix);

/// One more than the highest byte that the matrix uses: the image size that it needs.
int64_t end_byte(const SmemMap& map);

/// Warns if the matrix uses bytes beyond the shared memory of a CTA.
std::vector<Violation> reach_warnings(const SmemMap& map);

}  // namespace bitmma
