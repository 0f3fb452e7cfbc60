#include "bitmma/memory/metadata.hpp"

#include <array>
#include <string>

namespace bitmma {
namespace {

constexpr auto layouts = std::to_array<MetadataLayout>({
    {.stored_k = 8, .chunk = 2, .stored_per_chunk = 1, .field_bits = 4, .selectors = 2},   // tf32, k16
    {.stored_k = 16, .chunk = 4, .stored_per_chunk = 2, .field_bits = 2, .selectors = 2},  // f16, bf16, k32
    {.stored_k = 32, .chunk = 4, .stored_per_chunk = 2, .field_bits = 2, .selectors = 1},  // 8-bit, k64
});

uint32_t field_of(const MetadataLayout& layout, int position) {
  if (layout.field_bits == 2) return static_cast<uint32_t>(position);
  return position == 0 ? 0x4u : 0xEu;
}

}  // namespace

const MetadataLayout& metadata_layout(int element_bits) {
  return element_bits == 32 ? layouts[0] : element_bits == 16 ? layouts[1] : layouts[2];
}

RegisterPlace metadata_place_of(const MetadataLayout& layout, int row, int stored, int selector) {
  const int warp = row / 16, g = row % 8, upper_row = row / 8 % 2;
  const int upper_k = stored >= layout.stored_k / 2;
  const int within = stored % (layout.stored_k / 2);
  if (layout.selectors == 1) {  // 8-bit types: all four lanes of a quad supply metadata
    return {.thread = 32 * warp + 4 * g + upper_row + 2 * upper_k, .reg = 0, .bit = 2 * within};
  }
  return {.thread = 32 * warp + 4 * g + 2 * selector + upper_k, .reg = 0,
          .bit = 16 * upper_row + layout.field_bits * within};
}

Selection select(const MetadataLayout& layout, std::span<const uint32_t> metadata, int rows, int selector) {
  if (metadata.size() != 128) {
    throw Error({.field = "metadata registers", .seen = std::to_string(metadata.size()), .legal = "128, one a thread"});
  }
  Selection selection;
  selection.k.resize(static_cast<size_t>(rows) * layout.stored_k);
  for (int row = 0; row < rows; ++row) {
    uint32_t previous = 0;
    for (int stored = 0; stored < layout.stored_k; ++stored) {
      const RegisterPlace place = metadata_place_of(layout, row, stored, selector);
      const uint32_t field = metadata[place.thread] >> place.bit & ((1u << layout.field_bits) - 1);
      const int chunk_base = stored / layout.stored_per_chunk * layout.chunk;
      uint32_t position = field;
      if (layout.field_bits == 4) {
        // Two 2-bit numbers of 16-bit halves: 0100 takes halves 0 and 1, the first element; 1110 halves 2 and 3.
        const uint32_t low = field & 3, high = field >> 2;
        position = high / 2;
        if (field != 0x4 && field != 0xE) {
          ++selection.undefined_chunks;
          selection.mixed.push_back({.row = static_cast<uint16_t>(row), .stored = static_cast<uint16_t>(stored),
                                     .low_half = static_cast<uint16_t>(2 * chunk_base + static_cast<int>(low)),
                                     .high_half = static_cast<uint16_t>(2 * chunk_base + static_cast<int>(high))});
        }
      } else {
        selection.undefined_chunks += stored % layout.stored_per_chunk == 1 && position <= previous;
      }
      previous = position;
      selection.k[static_cast<size_t>(row) * layout.stored_k + stored] = static_cast<uint16_t>(chunk_base + static_cast<int>(position));
    }
  }
  return selection;
}

std::vector<uint32_t> encode_metadata(const MetadataLayout& layout, std::span<const uint16_t> k, int rows,
                                      int selector) {
  std::vector<uint32_t> metadata(128, 0);
  for (int row = 0; row < rows; ++row) {
    for (int stored = 0; stored < layout.stored_k; ++stored) {
      const RegisterPlace place = metadata_place_of(layout, row, stored, selector);
      const int position = k[static_cast<size_t>(row) * layout.stored_k + stored] % layout.chunk;
      metadata[place.thread] |= field_of(layout, position) << place.bit;
    }
  }
  return metadata;
}

}  // namespace bitmma
