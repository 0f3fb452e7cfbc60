// SPDX-License-Identifier: MIT
#include "bitmma/memory/metadata_order.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/text.hpp"
#include "bitmma/layout/layout.hpp"

namespace bitmma {
namespace {

constexpr int chunk_bits = 4;
constexpr int64_t most_chunks = int64_t{1} << 26;

/// The words of metadata in sm80's order, and the rows of a group that reorder_meta exchanges.
struct OrderWords {
  int bits, group, interweave;

  explicit OrderWords(int element_bits)
      : bits(element_bits >= 16 ? 16 : 32), group(bits == 16 ? 32 : 16), interweave(bits == 16 ? 4 : 2) {}
  int64_t cols(const SparsePattern& pattern) const { return int64_t{bits / chunk_bits} * pattern.chunk; }
};

int64_t extent_of(const LayoutMode& mode) {
  int64_t extent = 1;
  for (const LayoutDigit& digit : mode) extent *= digit.extent;
  return extent;
}

/// The atom of CUTLASS, in elements of A. Atoms follow each other along M first.
/// sm90: Step <<3,1,5>, <0,4,2>> orders the modes of Shape <<8,2,4>, <k,2,NumK>>. k is a word of 16 bits.
Layout atom_of(const MetadataImage& image) {
  const int bits = image.element_bits;
  if (image.order == MetadataOrder::sm100) {
    if (bits == 4) return {{{128, 256}}, {{256, 1}}};
    if (bits == 8) return {{{128, 128}}, {{128, 1}}};
    if (bits == 16) return {{{8, 128}, {2, 16}, {8, 2048}}, {{16, 1}, {2, 1024}, {4, 32}}};
    return {{{8, 64}, {2, 8}, {8, 1024}}, {{8, 1}, {2, 512}, {4, 16}}};
  }
  const int64_t tile_k = std::min<int64_t>(image.tile_k, 128);
  if (bits == 8) return {{{64, tile_k}}, {{tile_k, 1}}};
  const int64_t k = bits == 16 ? 16 : 8, tiles = tile_k / (2 * k);
  return {{{8, 2 * k * tiles}, {2, k}, {4, 32 * k * tiles}}, {{k, 1}, {2, 16 * k * tiles}, {tiles, 2 * k}}};
}

bool has_atom(MetadataOrder order) { return order == MetadataOrder::sm90 || order == MetadataOrder::sm100; }

/// Where the chunks of a legal image are; what does not depend on the chunk is computed once.
class ChunkPlaces {
 public:
  explicit ChunkPlaces(const MetadataImage& image)
      : image_(image), words_(image.element_bits), chunk_(image.pattern().chunk) {
    row_bytes_ = (image.chunks() + 1) / 2;
    if (!has_atom(image.order)) return;
    const Layout atom = atom_of(image);
    m_ = extent_of(atom.row), k_ = extent_of(atom.col), column_of_atoms_ = round_up(image.rows, m_) * k_;
    row_offsets_ = offsets_of(atom.row, m_), col_offsets_ = offsets_of(atom.col, k_);
  }

  int64_t bit_of(int64_t row, int64_t chunk) const {
    if (image_.order == MetadataOrder::row_major) return 8 * row * row_bytes_ + chunk_bits * chunk;
    if (image_.order == MetadataOrder::sm80) {
      const int per_word = words_.bits / chunk_bits;
      return words_.bits * word_of_sm80(row, chunk / per_word) + chunk_bits * (chunk % per_word);
    }
    const int64_t col = chunk * chunk_;
    const int64_t offset = row_offsets_[static_cast<size_t>(row % m_)] + col_offsets_[static_cast<size_t>(col % k_)] +
                           row / m_ * m_ * k_ + col / k_ * column_of_atoms_;
    return offset / chunk_ * chunk_bits;
  }

 private:
  int64_t word_of_sm80(int64_t row, int64_t col) const {
    int64_t to_row = row / words_.group * words_.group + row % 8 * words_.interweave + row % words_.group / 8;
    int64_t to_col = col;
    if (to_row % 2 == 0 && to_col % 2 == 1) ++to_row, --to_col;
    else if (to_row % 2 == 1 && to_col % 2 == 0) --to_row, ++to_col;
    return to_col / 2 * 2 * image_.rows + 2 * to_row + to_col % 2;
  }

  const MetadataImage& image_;
  OrderWords words_;
  int64_t chunk_, row_bytes_ = 0;
  std::vector<int64_t> row_offsets_ = {}, col_offsets_ = {};  // in an atom of m_ rows and k_ columns
  int64_t m_ = 0, k_ = 0, column_of_atoms_ = 0;
};

void require_count(std::string_view field, size_t seen, int64_t expected) {
  if (static_cast<int64_t>(seen) == expected) return;
  throw Error({.code = ViolationCode::wrong_shape,
               .field = std::string(field),
               .seen = std::to_string(seen),
               .expected = std::to_string(expected)});
}

void require_one_to_one(const MetadataImage& image) {
  const MetadataPlaces places = places_of_metadata(image);
  if (places.is_one_to_one()) return;
  const Sm80Steps steps = sm80_steps(image.element_bits);
  throw Error({.field = "rows, cols",
               .seen = fmt::format("{}, {}", image.rows, image.cols),
               .expected = fmt::format("multiples of {} and {}", steps.rows, steps.cols),
               .fix = "reorder_meta maps others to places that chunks share, or outside",
               .source = "CUTLASS, host_reorder.h"});
}

}  // namespace

Sm80Steps sm80_steps(int element_bits) {
  const OrderWords words(element_bits);
  return {.rows = words.group, .cols = 2 * words.cols(sparse_pattern(element_bits))};
}

MetadataOrder metadata_order_named(std::string_view name) {
  const auto row = std::ranges::find(metadata_orders, name, &MetadataOrderInfo::name);
  if (row != metadata_orders.end()) return row->id;
  throw Error({.code = ViolationCode::unknown_name,
               .field = "order",
               .seen = std::string(name),
               .legal = row_names(metadata_orders)});
}

void require_legal(const MetadataImage& image) {
  const int bits = image.element_bits;
  const bool has_width = bits == 8 || bits == 16 || bits == 32 || (bits == 4 && image.order != MetadataOrder::sm90);
  if (!has_width) {
    throw Error({.field = "element bits",
                 .seen = std::to_string(bits),
                 .legal = image.order == MetadataOrder::sm90 ? std::vector<std::string>{"8", "16", "32"}
                                                             : std::vector<std::string>{"4", "8", "16", "32"}});
  }
  std::vector<Violation> violations;
  const int64_t col_step =
      image.order == MetadataOrder::sm80 ? OrderWords(bits).cols(image.pattern()) : int64_t{image.pattern().chunk};
  if (image.rows < 1 || image.rows > 1 << 24)
    violations.push_back({.field = "rows", .seen = std::to_string(image.rows), .expected = "1..16777216"});
  if (image.cols < 1 || image.cols > 1 << 24 || image.cols % col_step != 0) {
    violations.push_back({.field = "cols",
                          .seen = std::to_string(image.cols),
                          .expected = fmt::format("a multiple of {}, the columns of {}", col_step,
                                                  image.order == MetadataOrder::sm80 ? "a word" : "a chunk")});
  }
  const int64_t tile_step = 512 / bits;
  if (image.order == MetadataOrder::sm90 && (image.tile_k < tile_step || image.tile_k % tile_step != 0)) {
    violations.push_back({.field = "tile k",
                          .seen = std::to_string(image.tile_k),
                          .expected = fmt::format("a multiple of {}", tile_step)});
  }
  if (!violations.empty()) throw Error(std::move(violations));
}

int64_t MetadataImage::bytes() const {
  require_legal(*this);
  if (!has_atom(order)) return order == MetadataOrder::sm80 ? rows * chunks() / 2 : rows * ((chunks() + 1) / 2);
  const Layout atom = atom_of(*this);
  return round_up(rows, extent_of(atom.row)) * round_up(cols, extent_of(atom.col)) / pattern().chunk * chunk_bits / 8;
}

int64_t MetadataImage::bit_of(int64_t row, int64_t chunk) const {
  require_legal(*this);
  if (row < 0 || row >= rows || chunk < 0 || chunk >= chunks()) {
    throw Error({.field = "row, chunk",
                 .seen = fmt::format("{}, {}", row, chunk),
                 .expected = fmt::format("0..{}, 0..{}", rows - 1, chunks() - 1)});
  }
  return ChunkPlaces(*this).bit_of(row, chunk);
}

std::string print_cute(const MetadataImage& image) {
  require_legal(image);
  if (image.order == MetadataOrder::sm80) return "";
  if (image.order == MetadataOrder::row_major)
    return fmt::format("({},{}):({},1)", image.rows, image.cols, round_up(image.cols, 2 * image.pattern().chunk));
  Layout layout = atom_of(image);
  const int64_t m = extent_of(layout.row), k = extent_of(layout.col);
  layout.row.push_back({.extent = ceil_div(image.rows, m), .stride = m * k});
  layout.col.push_back({.extent = ceil_div(image.cols, k), .stride = round_up(image.rows, m) * k});
  return print(layout);
}

MetadataPlaces places_of_metadata(const MetadataImage& image) {
  require_legal(image);
  if (image.rows > most_chunks / image.chunks()) {
    throw Error({.code = ViolationCode::too_large,
                 .field = "rows, cols",
                 .seen = fmt::format("{}, {}", image.rows, image.cols),
                 .expected = fmt::format("at most {} chunks", most_chunks)});
  }
  const int64_t places = image.bytes() * 8 / chunk_bits, chunks = image.chunks();
  const ChunkPlaces chunk_places(image);
  MetadataPlaces result{.chunks = image.rows * chunks};
  std::vector<int64_t> owners(static_cast<size_t>(places), -1);
  for (int64_t row = 0; row < image.rows; ++row) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t bit = chunk_places.bit_of(row, chunk), place = bit / chunk_bits, own = row * chunks + chunk;
      const bool is_outside = place >= places;
      int64_t other = own;
      if (is_outside) {
        ++result.outside;
      } else if (int64_t& owner = owners[static_cast<size_t>(place)]; owner < 0) {
        owner = own;
        continue;
      } else {
        other = owner, ++result.shared;
      }
      if (!result.first) result.first = {row, chunk, other / chunks, other % chunks, bit};
    }
  }
  return result;
}

std::vector<uint8_t> pack_metadata(const MetadataImage& image, std::span<const uint8_t> nibbles) {
  require_one_to_one(image);
  const int64_t chunks = image.chunks();
  require_count("nibbles", nibbles.size(), image.rows * chunks);
  const ChunkPlaces places(image);
  std::vector<uint8_t> bytes(static_cast<size_t>(image.bytes()), 0);
  for (size_t i = 0; i < nibbles.size(); ++i) {
    if (nibbles[i] > 0xF)
      throw Error({.field = fmt::format("nibble {}", i), .seen = std::to_string(nibbles[i]), .expected = "0..15"});
    const int64_t bit = places.bit_of(static_cast<int64_t>(i) / chunks, static_cast<int64_t>(i) % chunks);
    bytes[static_cast<size_t>(bit / 8)] |= static_cast<uint8_t>(nibbles[i] << bit % 8);
  }
  return bytes;
}

std::vector<uint8_t> unpack_metadata(const MetadataImage& image, std::span<const uint8_t> bytes) {
  require_one_to_one(image);
  require_count("bytes of metadata", bytes.size(), image.bytes());
  const ChunkPlaces places(image);
  std::vector<uint8_t> nibbles;
  nibbles.reserve(static_cast<size_t>(image.rows * image.chunks()));
  for (int64_t row = 0; row < image.rows; ++row) {
    for (int64_t chunk = 0; chunk < image.chunks(); ++chunk) {
      const int64_t bit = places.bit_of(row, chunk);
      nibbles.push_back(bytes[static_cast<size_t>(bit / 8)] >> bit % 8 & 0xF);
    }
  }
  return nibbles;
}

}  // namespace bitmma
