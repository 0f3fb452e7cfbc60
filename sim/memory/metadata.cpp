// SPDX-License-Identifier: MIT
#include "bitmma/memory/metadata.hpp"

#include <algorithm>
#include <string>

namespace bitmma {
namespace {

/// The number of registers of all warps that hold these rows.
size_t registers_for(int rows) { return static_cast<size_t>(rows) * 2; }

void require_range(std::string_view field, int seen, int first, int last) {
  if (seen >= first && seen <= last) return;
  throw Error({.field = std::string(field),
               .seen = std::to_string(seen),
               .expected = std::to_string(first) + ".." + std::to_string(last)});
}

void require_sound(const SparsePattern& pattern) {
  if (pattern == one_of_two || pattern == two_of_four || pattern == two_pairs_of_eight) return;
  throw Error({.field = "sparse pattern",
               .seen = std::to_string(pattern.stored_per_chunk) + " of " + std::to_string(pattern.chunk),
               .expected = "1 of 2, 2 of 4, or two pairs of 8"});
}

void require_sound(const MetadataLayout& layout, int selector) {
  const int container_bits = layout.pattern == one_of_two           ? 32
                             : layout.pattern == two_pairs_of_eight ? 4
                             : layout.by_halves                     ? 16
                                                                    : 8;
  if (layout != metadata_layout(container_bits, layout.stored_k)) {
    throw Error({.field = "metadata layout", .seen = "another", .expected = "a layout that metadata_layout() returns"});
  }
  require_range("sparsity selector", selector, 0, layout.selectors - 1);
}

/// Requires the rows of whole warps.
void require_rows(int rows) {
  require_range("rows", rows, 16, 1 << 16);
  if (rows % 16 != 0)
    throw Error({.field = "rows", .seen = std::to_string(rows), .expected = "a multiple of 16: whole warps"});
}

RegisterPlace field_place_of(const MetadataLayout& layout, int row, int stored, int selector) {
  const int warp = row / 16, g = row % 8, upper_row = row / 8 % 2;
  const int field = stored / layout.pattern.unit, per_register = layout.fields_per_register();
  const int registers = (layout.by_halves ? 4 : 2) / layout.selectors;
  const int which = selector * registers + field / per_register, bit = layout.field_bits * (field % per_register);
  if (layout.by_halves) return {.thread = 32 * warp + 4 * g + which, .reg = 0, .bit = 16 * upper_row + bit};
  return {.thread = 32 * warp + 4 * g + 2 * which + upper_row, .reg = 0, .bit = bit};
}

}  // namespace

MetadataLayout metadata_layout(int container_bits, int stored_k) {
  if (container_bits != 4 && container_bits != 8 && container_bits != 16 && container_bits != 32)
    throw Error({.field = "container bits", .seen = std::to_string(container_bits), .legal = {"4", "8", "16", "32"}});
  MetadataLayout layout{.pattern = sparse_pattern(container_bits),
                        .stored_k = stored_k,
                        .field_bits = container_bits == 32 ? 4 : 2,
                        .by_halves = container_bits >= 16};
  // A quad has four threads; each row takes one or two registers of a selector, and 8-bit rows do not share theirs.
  const int fields = stored_k / layout.pattern.unit, per_register = layout.fields_per_register();
  const int registers = std::max(1, fields / per_register + (fields % per_register != 0));
  layout.selectors = (layout.by_halves ? 4 : 2) / registers;
  if (stored_k < 1 || stored_k % layout.pattern.stored_per_chunk != 0 || layout.selectors < 1) {
    throw Error({.field = "stored K",
                 .seen = std::to_string(stored_k),
                 .expected = "whole chunks, as many as the registers of a quad describe"});
  }
  return layout;
}

RegisterPlace metadata_place_of(const MetadataLayout& layout, int row, int stored, int selector) {
  require_sound(layout, selector);
  require_range("row", row, 0, (1 << 16) - 1);
  require_range("stored element", stored, 0, layout.stored_k - 1);
  return field_place_of(layout, row, stored, selector);
}

Selection select(const SparsePattern& pattern, int rows, int stored_k, const std::function<uint32_t(int, int)>& nibble,
                 bool ordered, Format a) {
  require_sound(pattern);
  require_range("rows", rows, 0, 1 << 16);
  require_range("stored K", stored_k, 0,
                (1 << 16) / pattern.chunk * pattern.stored_per_chunk);  // positions have 16 bits
  Selection selection;
  selection.k.reserve(static_cast<size_t>(rows) * stored_k);
  for (int row = 0; row < rows; ++row) {
    for (int chunk = 0; chunk * pattern.stored_per_chunk < stored_k; ++chunk) {
      const uint32_t bits = nibble(row, chunk);
      uint32_t first = bits & 3, second = bits >> 2 & 3;
      const int base = chunk * pattern.chunk;
      if (pattern.stored_per_chunk == 1) {
        // Two 2-bit indices of 16-bit halves: 0100 takes halves 0 and 1, the first element; 1110 takes halves 2 and 3.
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
      selection.undefined_chunks += ordered ? second <= first : second == first;
      if (pattern == two_pairs_of_eight && a == Format::e2m1)
        first = std::min(first, 2u), second = std::max(second, 1u);
      for (const uint32_t position : {first, second}) {
        for (int i = 0; i < pattern.unit; ++i)
          selection.k.push_back(static_cast<uint16_t>(base + static_cast<int>(position) * pattern.unit + i));
      }
    }
  }
  return selection;
}

uint32_t nibble_of(const SparsePattern& pattern, std::span<const uint16_t> k) {
  require_sound(pattern);
  if (k.size() != static_cast<size_t>(pattern.stored_per_chunk)) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "positions of a chunk",
                 .seen = std::to_string(k.size()),
                 .expected = std::to_string(pattern.stored_per_chunk)});
  }
  const auto position = [&](size_t stored) { return static_cast<uint32_t>(k[stored] % pattern.chunk / pattern.unit); };
  if (pattern.stored_per_chunk == 1) return position(0) == 0 ? 0x4 : 0xE;
  return position(0) | position(static_cast<size_t>(pattern.unit)) << 2;
}

Selection select(const MetadataLayout& layout, std::span<const uint32_t> metadata, int rows, int selector, bool ordered,
                 Format a) {
  require_rows(rows);
  require_sound(layout, selector);
  if (metadata.size() != registers_for(rows)) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "metadata registers",
                 .seen = std::to_string(metadata.size()),
                 .expected = std::to_string(registers_for(rows)) + ", one a thread"});
  }
  return select(
      layout.pattern, rows, layout.stored_k,
      [&](int row, int chunk) {
        const RegisterPlace place = field_place_of(layout, row, chunk * layout.pattern.stored_per_chunk, selector);
        return metadata[place.thread] >> place.bit & 0xF;
      },
      ordered, a);
}

std::vector<uint32_t> encode_metadata(const MetadataLayout& layout, std::span<const uint16_t> k, int rows,
                                      int selector) {
  require_rows(rows);
  require_sound(layout, selector);
  if (k.size() != static_cast<size_t>(rows) * static_cast<size_t>(layout.stored_k)) {
    throw Error({.code = ViolationCode::wrong_shape,
                 .field = "positions of stored elements",
                 .seen = std::to_string(k.size()),
                 .expected = std::to_string(rows) + " x " + std::to_string(layout.stored_k)});
  }
  std::vector<uint32_t> metadata(registers_for(rows), 0);
  const int per_chunk = layout.pattern.stored_per_chunk;
  for (int row = 0; row < rows; ++row) {
    for (int stored = 0; stored < layout.stored_k; stored += per_chunk) {
      const RegisterPlace place = field_place_of(layout, row, stored, selector);
      metadata[place.thread] |= nibble_of(layout.pattern, k.subspan(static_cast<size_t>(row) * layout.stored_k + stored,
                                                                    static_cast<size_t>(per_chunk)))
                                << place.bit;
    }
  }
  return metadata;
}

}  // namespace bitmma
