#include "bitmma/memory/metadata.hpp"

#include <array>
#include <string>

namespace bitmma {
namespace {

constexpr auto layouts = std::to_array<MetadataLayout>({
    {.pattern = one_of_two, .stored_k = 8, .field_bits = 4, .selectors = 2},    // tf32, k16
    {.pattern = two_of_four, .stored_k = 16, .field_bits = 2, .selectors = 2},  // f16, bf16, k32
    {.pattern = two_of_four, .stored_k = 32, .field_bits = 2, .selectors = 1},  // 8-bit, k64
});

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
  return {.thread = 32 * warp + 4 * g + 2 * selector + upper_k,
          .reg = 0,
          .bit = 16 * upper_row + layout.field_bits * within};
}

Selection select(const SparsePattern& pattern, int rows, int stored_k,
                 const std::function<uint32_t(int, int)>& nibble) {
  Selection selection;
  selection.k.reserve(static_cast<size_t>(rows) * stored_k);
  for (int row = 0; row < rows; ++row) {
    for (int chunk = 0; chunk * pattern.stored_per_chunk < stored_k; ++chunk) {
      const uint32_t bits = nibble(row, chunk), first = bits & 3, second = bits >> 2 & 3;
      const int base = chunk * pattern.chunk;
      if (pattern.stored_per_chunk == 1) {
        // Two 2-bit numbers of 16-bit halves: 0100 takes halves 0 and 1, the first element; 1110 halves 2 and 3.
        if (bits != 0x4 && bits != 0xE) {
          ++selection.undefined_chunks;
          selection.mixed.push_back({.row = static_cast<uint16_t>(row),
                                     .stored = static_cast<uint16_t>(chunk),
                                     .low_half = static_cast<uint16_t>(2 * base + static_cast<int>(first)),
                                     .high_half = static_cast<uint16_t>(2 * base + static_cast<int>(second))});
        }
        selection.k.push_back(static_cast<uint16_t>(base + static_cast<int>(second / 2)));
        continue;
      }
      selection.undefined_chunks += second <= first;
      for (const uint32_t position : {first, second}) {
        for (int i = 0; i < pattern.unit; ++i)
          selection.k.push_back(static_cast<uint16_t>(base + static_cast<int>(position) * pattern.unit + i));
      }
    }
  }
  return selection;
}

uint32_t nibble_of(const SparsePattern& pattern, std::span<const uint16_t> k) {
  const auto position = [&](size_t stored) { return static_cast<uint32_t>(k[stored] % pattern.chunk / pattern.unit); };
  if (pattern.stored_per_chunk == 1) return position(0) == 0 ? 0x4 : 0xE;
  return position(0) | position(static_cast<size_t>(pattern.unit)) << 2;
}

Selection select(const MetadataLayout& layout, std::span<const uint32_t> metadata, int rows, int selector) {
  if (metadata.size() != 128) {
    throw Error(
        {.field = "metadata registers", .seen = std::to_string(metadata.size()), .expected = "128, one a thread"});
  }
  return select(layout.pattern, rows, layout.stored_k, [&](int row, int chunk) {
    const RegisterPlace place = metadata_place_of(layout, row, chunk * layout.pattern.stored_per_chunk, selector);
    return metadata[place.thread] >> place.bit & 0xF;
  });
}

std::vector<uint32_t> encode_metadata(const MetadataLayout& layout, std::span<const uint16_t> k, int rows,
                                      int selector) {
  std::vector<uint32_t> metadata(128, 0);
  const int per_chunk = layout.pattern.stored_per_chunk;
  for (int row = 0; row < rows; ++row) {
    for (int stored = 0; stored < layout.stored_k; stored += per_chunk) {
      const RegisterPlace place = metadata_place_of(layout, row, stored, selector);
      metadata[place.thread] |= nibble_of(layout.pattern, k.subspan(static_cast<size_t>(row) * layout.stored_k + stored,
                                                                    static_cast<size_t>(per_chunk)))
                                << place.bit;
    }
  }
  return metadata;
}

}  // namespace bitmma
