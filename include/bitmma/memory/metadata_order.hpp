// SPDX-License-Identifier: MIT
// The order in which a library stores the metadata of a whole sparse A in memory. An instruction reads metadata from
// registers or Tensor Memory (memory/metadata.hpp, memory/tmem.hpp); a kernel loads it from here.
//
//   A of 16 bits, 64 x 128, CUTLASS's order for sm_90: row 9, chunk 5 (columns 20-23) is in byte 146, bits 7:4
//
// CUTLASS has three orders:
//   sm80   words of 16 bits (A of 16 and 32 bits) or 32 bits (A of 4 and 8 bits), a row's next chunks from bit 0 up.
//          reorder_meta moves row r of a group of 32 (16) to row 4 (r % 8) + r / 8 (2 (r % 8) + r / 8), exchanges the
//          words off the diagonal of every 2 x 2 block, and ColumnMajorInterleaved<2> stores pairs of columns of words.
//          It is one-to-one only for whole groups of rows and pairs of columns; PyTorch uses it too.
//   sm90   atoms of 64 rows and up to 128 columns, which depend on K of the kernel's tile
//   sm100  atoms of 128 rows, 128 columns (256 for fp4, 64 for tf32): also for sm_120
// The order of cuSPARSELt is not published.
//
// Sources: CUTLASS 4.x, tools/util/include/cutlass/util/host_reorder.h,
// include/cutlass/gemm/collective/builders/sm90_sparse_config.inl and sm1xx_sparse_config.inl; PyTorch,
// torch/sparse/_semi_structured_conversions.py.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bitmma/core/error.hpp"
#include "bitmma/core/table.hpp"
#include "bitmma/memory/metadata.hpp"

namespace bitmma {

enum class MetadataOrder : uint8_t { row_major, sm80, sm90, sm100 };

struct MetadataOrderInfo {
  MetadataOrder id;
  std::string_view name;
  std::string_view meaning;
};
inline constexpr auto metadata_orders = std::to_array<MetadataOrderInfo>({
    {MetadataOrder::row_major, "row-major", "row by row, the chunks of a row from bit 0 up"},
    {MetadataOrder::sm80, "sm80", "CUTLASS's reorder_meta and ColumnMajorInterleaved<2>, as PyTorch stores it"},
    {MetadataOrder::sm90, "sm90", "CUTLASS's Sm90GemmSparseConfig::TensorEAtom"},
    {MetadataOrder::sm100, "sm100", "CUTLASS's Sm1xxGemmSparseConfig::TensorEAtom, also for sm_120"},
});
static_assert(are_in_enum_order(metadata_orders));

constexpr const MetadataOrderInfo& info(MetadataOrder order) { return metadata_orders[static_cast<size_t>(order)]; }

/// The metadata of a sparse A of `rows` x `cols` logical elements in memory.
struct MetadataImage {
  MetadataOrder order = MetadataOrder::row_major;
  int element_bits = 16;  // of A's container: 4, 8, 16 or 32
  int64_t rows = 0, cols = 0;
  int64_t tile_k = 128;  // sm90 alone: K of the kernel's tile; from 128 on the order does not change

  const SparsePattern& pattern() const { return sparse_pattern(element_bits); }
  int64_t chunks() const { return cols / pattern().chunk; }
  /// The bytes of the image, with the padding up to whole atoms.
  int64_t bytes() const;
  /// The lowest bit of a chunk's four, counted from the start of the image.
  int64_t bit_of(int64_t row, int64_t chunk) const;

  bool operator==(const MetadataImage&) const = default;
};

/// The rows and columns of A that sm80 moves as a whole; it is one-to-one for their multiples.
struct Sm80Steps {
  int64_t rows = 0, cols = 0;
};
Sm80Steps sm80_steps(int element_bits);

/// The order of this name. Throws Error for others, which are listed.
MetadataOrder metadata_order_named(std::string_view name);

/// Throws Error unless the order has this width and `cols` are whole chunks, and for sm80 whole words. Rows and pairs
/// of words that sm80 does not map one-to-one are legal here: places_of_metadata() finds them.
void require_legal(const MetadataImage& image);

/// (row, column of A) -> a number of elements of A in CuTe's notation; its metadata is at 4 / chunk bits for each.
/// Nothing for sm80, which is not a layout. Throws Error like require_legal.
std::string print_cute(const MetadataImage& image);

/// How many chunks have a place of their own.
struct [[nodiscard]] MetadataPlaces {
  struct Clash {
    int64_t row = 0, chunk = 0;              // a chunk without a place of its own
    int64_t other_row = 0, other_chunk = 0;  // the chunk with the same place; itself if its place is outside
    int64_t bit = 0;
  };
  int64_t chunks = 0;
  int64_t shared = 0;   // chunks whose place an earlier one has
  int64_t outside = 0;  // chunks behind the end of the image
  std::optional<Clash> first = {};

  bool is_one_to_one() const { return shared == 0 && outside == 0; }
};
/// Examines every chunk. Throws Error like require_legal, and for more than 2^26 chunks.
MetadataPlaces places_of_metadata(const MetadataImage& image);

/// The image of rows x chunks nibbles, padding zero, and back. Throws Error for another number of nibbles or bytes, and
/// for an image that is not one-to-one.
std::vector<uint8_t> pack_metadata(const MetadataImage& image, std::span<const uint8_t> nibbles);
std::vector<uint8_t> unpack_metadata(const MetadataImage& image, std::span<const uint8_t> bytes);

}  // namespace bitmma
