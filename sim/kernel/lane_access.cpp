// SPDX-License-Identifier: MIT
#include "lane_access.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "../core/cpu_level.hpp"
#include "../core/words.hpp"
#include "bitmma/core/bits.hpp"

namespace bitmma::kernel {
namespace {

/// Where the lanes of an access are.
struct LanePlaces {
  uint64_t least = 0;   // the lowest address, without the window of a generic one
  uint64_t extent = 0;  // bytes from there to the end of the highest lane
  Space space = Space::generic;
  bool is_row = false;                       // all 32 lanes, one behind the other
  bool fills = false;                        // every byte of the extent is one of a lane
  bool is_distinct = false;                  // no two lanes have one address
  std::array<uint32_t, lanes> offsets = {};  // of each lane from `least`; an inactive lane has that of an active one
};

/// Whether no two active lanes have one address. May be false although none have.
BITMMA_INLINE bool are_distinct(Mask mask, const std::array<uint32_t, lanes>& offsets, int shift) {
  uint64_t previous = 0;
  bool ascends = true;
  for (Mask left = mask; left != 0; left &= left - 1) {
    const uint64_t next = uint64_t{offsets[static_cast<size_t>(__builtin_ctz(left))]} + 1;
    ascends = ascends && next > previous;
    previous = next;
  }
  if (ascends) return true;
  std::array<uint64_t, 16> seen{};  // bits: 1,024 places
  for (Mask left = mask; left != 0; left &= left - 1) {
    const uint32_t place = offsets[static_cast<size_t>(__builtin_ctz(left))] >> shift;
    if (place >= 64 * seen.size() || (seen[place / 64] >> place % 64 & 1) != 0) return false;
    seen[place / 64] |= uint64_t{1} << place % 64;
  }
  return true;
}

/// Offsets of lanes that are not a row. False if they are too far apart.
BITMMA_INLINE bool find_offsets(Mask mask, std::array<uint64_t, lanes>& all, uint64_t bytes, LanePlaces& places) {
  const auto first = static_cast<size_t>(__builtin_ctz(mask));
  if (mask != all_lanes) {
    for (size_t i = 0; i < lanes; ++i) all[i] = (mask >> i & 1) != 0 ? all[i] : all[first];
  }
  uint64_t least = all[0], most = all[0];
  for (size_t i = 0; i < lanes; ++i) least = std::min(least, all[i]), most = std::max(most, all[i]);
  if (most - least > INT32_MAX) return false;
  places.least = least;
  places.extent = most - least + bytes;
  for (size_t i = 0; i < lanes; ++i) places.offsets[i] = static_cast<uint32_t>(all[i] - least);
  uint32_t offsets_or = 0;
  for (size_t i = 0; i < lanes; ++i) offsets_or |= places.offsets[i];
  if ((offsets_or & (bytes - 1)) != 0) return false;
  const int shift = std::countr_zero(bytes);
  const uint64_t elements = places.extent >> shift;
  if (elements > 64) {
    places.is_distinct = are_distinct(mask, places.offsets, shift);
    return true;
  }
  uint64_t seen = 0;
  for (size_t i = 0; i < lanes; ++i) seen |= uint64_t{1} << (places.offsets[i] >> shift);
  places.fills = seen == low_mask(static_cast<int>(elements));
  places.is_distinct = std::popcount(seen) == std::popcount(mask);
  return true;
}

/// Sets the space of a generic address, and takes its window off. False if lanes are in several spaces.
BITMMA_INLINE bool find_space(Space space, LanePlaces& places) {
  places.space = space;
  if (space != Space::generic) return true;
  const uint64_t least = places.least, most = least + (places.extent - 1);
  if (least >= shared_window && most < shared_window + window_bytes) {
    places.space = Space::shared;
    places.least -= shared_window;
    return true;
  }
  places.space = Space::global;
  return most < shared_window || least >= param_window + window_bytes;
}

/// False if the lanes have to be looked at one by one.
template <typename A>
BITMMA_INLINE bool find_places(const Warp& warp, Mask mask, const Address& address, uint64_t bytes,
                               LanePlaces& places) {
  const A* const from = warp.lanes_of<const A>(address.slot);
  const A offset = static_cast<A>(address.offset), step = static_cast<A>(bytes);
  A differs = 0;
  for (size_t i = 0; i < lanes; ++i)
    differs |= static_cast<A>(from[i] - from[0]) ^ static_cast<A>(static_cast<A>(i) * step);
  if (differs == 0 && mask == all_lanes) {
    places.least = static_cast<A>(from[0] + offset);
    places.extent = lanes * bytes;
    places.is_row = places.fills = places.is_distinct = true;
    if (places.least > static_cast<A>(~A{0}) - places.extent) return false;  // the addresses wrap
  } else {
    std::array<uint64_t, lanes> all;
    for (size_t i = 0; i < lanes; ++i) all[i] = static_cast<A>(from[i] + offset);
    if (!find_offsets(mask, all, bytes, places)) return false;
  }
  return (places.least & (bytes - 1)) == 0 && find_space(address.space, places);
}

BITMMA_INLINE bool are_written(const uint8_t* states, size_t bytes) {
  static_assert(written == 1);
  uint8_t differs = 0;
  for (size_t i = 0; i < bytes; ++i) differs |= states[i] ^ uint8_t { written };
  return differs == 0;
}

BITMMA_INLINE bool is_ordered(const Warp& warp, uint32_t writer, uint32_t epoch) {
  const auto number = static_cast<int>(writer & SharedUses::writer_bits) - 1;
  return number < 0 || number == warp.number || epoch <= warp.seen[static_cast<size_t>(number)];
}

/// Whether barriers are between all accesses to words of shared memory by other warps and an access of `warp`.
BITMMA_INLINE bool is_clear(const Warp& warp, Cta& cta, size_t at, size_t words, bool is_write) {
  const SharedUses::Row row = cta.uses.row(at);
  uint32_t differs = 0, readers = 0;
  uint8_t apart = 0;
  for (size_t i = 0; i < words; ++i) {
    differs |= (row.writers[i] ^ row.writers[0]) | (row.write_epochs[i] ^ row.write_epochs[0]);
    readers |= row.readers[i];
  }
  for (size_t i = 0; i < words; ++i) apart |= static_cast<uint8_t>(row.bytes[i]);
  static_assert(static_cast<uint8_t>(SharedBytes::apart) == 2 && static_cast<uint8_t>(SharedBytes::alike) == 1);
  if ((apart & 2) != 0) return false;
  if (differs == 0) {
    if (!is_ordered(warp, row.writers[0], row.write_epochs[0])) return false;
  } else {
    for (size_t i = 0; i < words; ++i) {
      if (!is_ordered(warp, row.writers[i], row.write_epochs[i])) return false;
    }
  }
  if (!is_write) return true;
  for (uint32_t others = readers & ~(uint32_t{1} << (warp.index % 32)); others != 0; others &= others - 1) {
    const int reader = __builtin_ctz(others);
    const uint32_t seen = warp.seen[static_cast<size_t>(cta.warps[static_cast<size_t>(reader)].number)];
    const uint32_t* const epochs = cta.uses.read_epochs(reader, at);
    uint32_t late = 0;
    for (size_t i = 0; i < words; ++i) late |= (row.readers[i] >> reader & 1) & static_cast<uint32_t>(epochs[i] > seen);
    if (late != 0) return false;
  }
  return true;
}

BITMMA_INLINE void note_reads(const Warp& warp, Cta& cta, const Op& op, size_t at, size_t words) {
  const SharedUses::Row row = cta.uses.row(at);
  uint32_t* const epochs = cta.uses.read_epochs(warp.index, at);
  const uint32_t own = uint32_t{1} << (warp.index % 32), epoch = warp.epoch;
  const int instruction = op.instruction;
  for (size_t i = 0; i < words; ++i) row.readers[i] |= own;
  for (size_t i = 0; i < words; ++i) row.read_instructions[i] = instruction;
  for (size_t i = 0; i < words; ++i) epochs[i] = epoch;
}

BITMMA_INLINE void note_writes(const Warp& warp, Cta& cta, const Op& op, size_t at, size_t words) {
  const SharedUses::Row row = cta.uses.row(at);
  const uint32_t writer = SharedUses::coded(warp.number, false, true), epoch = warp.epoch;
  const int instruction = op.instruction;
  for (size_t i = 0; i < words; ++i) row.writers[i] = writer;
  for (size_t i = 0; i < words; ++i) row.write_epochs[i] = epoch;
  for (size_t i = 0; i < words; ++i) row.write_instructions[i] = instruction;
  for (size_t i = 0; i < words; ++i) row.readers[i] = 0;
}

/// The lane of each byte of a row of elements of `bytes` bytes.
template <size_t bytes>
constexpr auto lanes_of_row = [] {
  std::array<uint8_t, lanes * bytes> of_byte{};
  for (size_t i = 0; i < of_byte.size(); ++i) of_byte[i] = static_cast<uint8_t>(i / bytes);
  return of_byte;
}();

/// Notes which lane writes which of the bytes that row.write_lanes are of.
template <size_t bytes>
BITMMA_INLINE void note_lanes(uint8_t* write_lanes, Mask mask, const LanePlaces& places) {
  if (places.is_row) {
    std::memcpy(write_lanes, lanes_of_row<bytes>.data(), lanes * bytes);
    return;
  }
  for (Mask left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(__builtin_ctz(left));
    std::memcpy(write_lanes + places.offsets[lane], lanes_of_row<bytes>.data() + bytes * lane, bytes);
  }
}
BITMMA_INLINE void note_lanes(uint8_t* write_lanes, size_t bytes, Mask mask, const LanePlaces& places) {
  switch (bytes) {
    case 1: return note_lanes<1>(write_lanes, mask, places);
    case 2: return note_lanes<2>(write_lanes, mask, places);
    case 4: return note_lanes<4>(write_lanes, mask, places);
    case 8: return note_lanes<8>(write_lanes, mask, places);
    case 16: return note_lanes<16>(write_lanes, mask, places);
    default: return note_lanes<most_access_bytes>(write_lanes, mask, places);
  }
}

/// Narrow accesses make their words records of bytes.
BITMMA_INLINE void note_narrow(Cta& cta, size_t at, size_t words) {
  cta.uses.expect_narrow();
  SharedBytes* const bytes = cta.uses.row(at).bytes;
  for (size_t i = 0; i < words; ++i) bytes[i] = SharedBytes::alike;
}

/// Checks and notes the words of each lane. False if that is for lanes one by one: nothing has happened.
template <size_t words>
BITMMA_INLINE bool use_words(const Warp& warp, Cta& cta, const Op& op, Mask mask, size_t at, bool is_write,
                             uint8_t* states, const LanePlaces& places) {
  constexpr size_t bytes = words * SharedUses::word;
  const SharedUses::Row row = cta.uses.row(at);
  const uint32_t others = ~(uint32_t{1} << (warp.index % 32));
  uint32_t known_writer = 0, known_epoch = 0;  // of the word before: most words have one writer
  for (Mask left = mask; left != 0; left &= left - 1) {
    const size_t offset = places.offsets[static_cast<size_t>(__builtin_ctz(left))];
    if (!is_write && !are_written(states + offset, bytes)) return false;
    for (size_t i = offset / SharedUses::word; i < offset / SharedUses::word + words; ++i) {
      const uint32_t writer = row.writers[i], epoch = row.write_epochs[i];
      if (row.bytes[i] == SharedBytes::apart) return false;
      if (writer != known_writer || epoch != known_epoch) {
        if (!is_ordered(warp, writer, epoch)) return false;
        known_writer = writer, known_epoch = epoch;
      }
      if (is_write && (row.readers[i] & others) != 0 && !is_clear(warp, cta, at + offset, words, is_write))
        return false;
    }
  }
  for (Mask left = mask; left != 0; left &= left - 1) {
    const size_t offset = places.offsets[static_cast<size_t>(__builtin_ctz(left))];
    cta.uses.use_units(at + offset, bytes);
    if (is_write) {
      note_writes(warp, cta, op, at + offset, words);
      for (size_t i = 0; i < bytes; ++i) states[offset + i] = written;
    } else {
      note_reads(warp, cta, op, at + offset, words);
    }
  }
  return true;
}

/// The first byte of the access in shared memory, checked and noted for all lanes; nullptr: nothing has happened, and
/// the lanes have to be looked at one by one.
BITMMA_INLINE uint8_t* in_shared(Warp& warp, const Op& op, Mask mask, size_t bytes, bool is_write,
                                 const LanePlaces& places) {
  Cta& cta = *warp.cta;
  const uint64_t size = cta.shared.size(), at = places.least - (static_cast<uint64_t>(cta.rank) << shared_rank_bits);
  if (at < shared_begin || at > size || size - at < places.extent) return nullptr;
  uint8_t* const place = cta.shared.data() + at;
  if (!cta.launch->checks) return place;
  constexpr size_t word = SharedUses::word;
  uint8_t* const states = cta.shared_states.data() + at;
  const size_t extent = places.extent;
  if (places.fills) {
    if ((at | extent) % word != 0) return nullptr;
    const size_t words = extent / word;
    if ((!is_write && !are_written(states, extent)) || !is_clear(warp, cta, at, words, is_write)) return nullptr;
    cta.uses.use_units(at, extent);
    if (bytes < word) note_narrow(cta, at, words);
    if (!is_write) {
      note_reads(warp, cta, op, at, words);
      return place;
    }
    note_writes(warp, cta, op, at, words);
    note_lanes(cta.uses.row(at).write_lanes, bytes, mask, places);
    for (size_t i = 0; i < extent; ++i) states[i] = written;
    return place;
  }
  bool is_all_clear = false;
  switch (bytes) {
    case 4: is_all_clear = use_words<1>(warp, cta, op, mask, at, is_write, states, places); break;
    case 8: is_all_clear = use_words<2>(warp, cta, op, mask, at, is_write, states, places); break;
    case 16: is_all_clear = use_words<4>(warp, cta, op, mask, at, is_write, states, places); break;
    default: break;
  }
  if (!is_all_clear) return nullptr;
  if (is_write) note_lanes(cta.uses.row(at).write_lanes, bytes, mask, places);
  return place;
}

/// The same for a read of global memory.
BITMMA_INLINE const uint8_t* read_global(Warp& warp, const Op& op, Mask mask, size_t bytes, const LanePlaces& places) {
  const GlobalRegion* const region = region_of(*warp.cta, places.least, places.extent);
  if (!region) return nullptr;
  const size_t at = places.least - region->begin;
  if (const uint8_t* const states = region->states) {
    if (places.fills) {
      if (!are_written(states + at, places.extent)) return nullptr;
    } else {
      for (Mask left = mask; left != 0; left &= left - 1) {
        if (!are_written(states + at + places.offsets[static_cast<size_t>(__builtin_ctz(left))], bytes)) return nullptr;
      }
    }
  }
  if (region->uses) {
    if (places.fills) note_block_use(warp, op, *region, at, places.extent, false, false);
    else
      for_each_lane(mask, [&](int lane) {
        note_block_use(warp, op, *region, at + places.offsets[static_cast<size_t>(lane)], bytes, false, false);
      });
  }
  return region->data + at;
}

/// The same for a write. The bytes of lane i are at data + data_offsets[i].
BITMMA_INLINE uint8_t* write_global(Warp& warp, const Op& op, Mask mask, size_t bytes, const LanePlaces& places,
                                    const uint8_t* data, const uint32_t* data_offsets) {
  const GlobalRegion* const region = region_of(*warp.cta, places.least, places.extent);
  if (!region) return nullptr;
  const size_t at = places.least - region->begin;
  if (uint8_t* const states = region->states) {
    if (places.fills)
      for (size_t i = 0; i < places.extent; ++i) states[at + i] = written;
    else
      for_each_lane(mask, [&](int lane) {
        std::memset(states + at + places.offsets[static_cast<size_t>(lane)], written, bytes);
      });
  }
  if (region->uses) {
    Mask changed = 0;
    for_each_lane(mask, [&](int lane) {
      const auto i = static_cast<size_t>(lane);
      changed |= Mask{std::memcmp(data + data_offsets[i], region->data + at + places.offsets[i], bytes) != 0} << lane;
    });
    // Lanes that fill a range are noted together.
    if (places.fills && (changed == 0 || changed == mask))
      note_block_use(warp, op, *region, at, places.extent, true, changed != 0);
    else
      for_each_lane(mask, [&](int lane) {
        note_block_use(warp, op, *region, at + places.offsets[static_cast<size_t>(lane)], bytes, true,
                       (changed >> lane & 1) != 0);
      });
  }
  return region->data + at;
}

/// Elements in memory -> a register of the lanes. `skip`: bytes in front of the element in each lane's bytes.
template <typename T, typename W>
BITMMA_INLINE void load_part(W* to, W keep, const uint8_t* from, size_t skip, Mask mask, const LanePlaces& places) {
  if (places.is_row && places.extent == lanes * sizeof(T)) {
    T row[lanes];
    std::memcpy(row, from, sizeof row);
    for (size_t i = 0; i < lanes; ++i) to[i] = static_cast<W>(row[i]) & keep;
    return;
  }
  W values[lanes];
  const size_t stride = places.extent / lanes;
  for (size_t i = 0; i < lanes; ++i) {
    T value;
    std::memcpy(&value, from + (places.is_row ? i * stride : size_t{places.offsets[i]}) + skip, sizeof value);
    values[i] = static_cast<W>(value) & keep;
  }
  for (size_t i = 0; i < lanes; ++i) to[i] = (mask >> i & 1) != 0 ? values[i] : to[i];
}

template <typename W>
BITMMA_INLINE void load_part(W* to, W keep, const MemoryDetails& details, const uint8_t* from, size_t skip, Mask mask,
                             const LanePlaces& places) {
  const bool extends = is_signed(details.type);
  switch (details.bytes) {
    case 1:
      return extends ? load_part<int8_t>(to, keep, from, skip, mask, places)
                     : load_part<uint8_t>(to, keep, from, skip, mask, places);
    case 2:
      return extends ? load_part<int16_t>(to, keep, from, skip, mask, places)
                     : load_part<uint16_t>(to, keep, from, skip, mask, places);
    case 4:
      return extends && sizeof(W) > 4 ? load_part<int32_t>(to, keep, from, skip, mask, places)
                                      : load_part<uint32_t>(to, keep, from, skip, mask, places);
    default: return load_part<uint64_t>(to, keep, from, skip, mask, places);
  }
}

BITMMA_INLINE bool find_places(const Warp& warp, Mask mask, const MemoryDetails& details, LanePlaces& places) {
  if (warp.unwritten) return false;  // a warp that holds unwritten values is followed lane by lane
  const auto bytes = static_cast<uint64_t>(details.total());
  return details.address.wide ? find_places<uint64_t>(warp, mask, details.address, bytes, places)
                              : find_places<uint32_t>(warp, mask, details.address, bytes, places);
}

BITMMA_INLINE void load_lanes(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MemoryDetails*>(op.details);
  const auto bytes = static_cast<size_t>(details.total());
  LanePlaces places;
  const uint8_t* from = nullptr;
  if (find_places(warp, mask, details, places)) {
    if (places.space == Space::shared) from = in_shared(warp, op, mask, bytes, false, places);
    if (places.space == Space::global) from = read_global(warp, op, mask, bytes, places);
  }
  if (!from) return load_by_lanes(warp, op, mask);
  for (size_t i = 0; i < details.parts.size(); ++i) {
    const MemoryDetails::Part& part = details.parts[i];
    const size_t skip = i * static_cast<size_t>(details.bytes);
    if (details.bytes == 16) {
      for_each_lane(mask, [&](int lane) {
        const size_t offset =
            places.is_row ? static_cast<size_t>(lane) * bytes : places.offsets[static_cast<size_t>(lane)];
        std::memcpy(warp.lanes_of<uint64_t>(part.slot) + 2 * lane, from + offset, 16);
      });
    } else if (part.bits > 32) {
      load_part(warp.lanes_of<uint64_t>(part.slot), ~uint64_t{0}, details, from, skip, mask, places);
    } else {
      load_part(warp.lanes_of<uint32_t>(part.slot), static_cast<uint32_t>(low_mask(part.bits)), details, from, skip,
                mask, places);
    }
  }
}

BITMMA_INLINE bool read_rows_of_lanes(Warp& warp, const Op& op, Mask mask, const Address& address, MatrixRows& rows) {
  constexpr size_t bytes = std::tuple_size_v<MatrixRows::value_type>;
  LanePlaces places;
  if (warp.unwritten || !(address.wide ? find_places<uint64_t>(warp, mask, address, bytes, places)
                                       : find_places<uint32_t>(warp, mask, address, bytes, places)))
    return false;
  if (places.space != Space::shared) return false;
  const uint8_t* const from = in_shared(warp, op, mask, bytes, false, places);
  if (!from) return false;
  if (places.is_row) std::memcpy(rows.data(), from, sizeof rows);
  else
    for (size_t i = 0; i < lanes; ++i) std::memcpy(rows[i].data(), from + places.offsets[i], bytes);
  return true;
}

/// A register of the lanes -> bytes at to + offsets[lane].
template <typename T, typename W>
BITMMA_INLINE void store_part(const W* from, uint8_t* to, Mask mask, const uint32_t* offsets) {
  if (mask == all_lanes) {
    for (size_t i = 0; i < lanes; ++i) {
      const auto value = static_cast<T>(from[i]);
      std::memcpy(to + offsets[i], &value, sizeof value);
    }
    return;
  }
  for (Mask left = mask; left != 0; left &= left - 1) {
    const auto i = static_cast<size_t>(__builtin_ctz(left));
    const auto value = static_cast<T>(from[i]);
    std::memcpy(to + offsets[i], &value, sizeof value);
  }
}

/// A register of all lanes -> a row of elements.
template <typename T, typename W>
BITMMA_INLINE void store_row(const W* from, uint8_t* to) {
  T row[lanes];
  for (size_t i = 0; i < lanes; ++i) row[i] = static_cast<T>(from[i]);
  std::memcpy(to, row, sizeof row);
}

template <typename W>
BITMMA_INLINE void store_part(const W* from, uint8_t* to, size_t bytes, Mask mask, bool is_row,
                              const uint32_t* offsets) {
  switch (bytes) {
    case 1: return is_row ? store_row<uint8_t>(from, to) : store_part<uint8_t>(from, to, mask, offsets);
    case 2: return is_row ? store_row<uint16_t>(from, to) : store_part<uint16_t>(from, to, mask, offsets);
    case 4: return is_row ? store_row<uint32_t>(from, to) : store_part<uint32_t>(from, to, mask, offsets);
    default: return is_row ? store_row<uint64_t>(from, to) : store_part<uint64_t>(from, to, mask, offsets);
  }
}

/// The bytes of all lanes, those of lane i at to + offsets[i].
BITMMA_INLINE void collect(const Warp& warp, const MemoryDetails& details, Mask mask, bool is_row,
                           const uint32_t* offsets, uint8_t* to) {
  const auto bytes = static_cast<size_t>(details.bytes);
  const bool is_single_row = is_row && details.parts.size() == 1;
  for (const MemoryDetails::Part& part : details.parts) {
    if (bytes == 16) {
      for_each_lane(mask, [&](int lane) {
        std::memcpy(to + offsets[lane], warp.lanes_of<const uint64_t>(part.slot) + 2 * lane, 16);
      });
    } else if (part.bits > 32) {
      store_part(warp.lanes_of<const uint64_t>(part.slot), to, bytes, mask, is_single_row, offsets);
    } else {
      store_part(warp.lanes_of<const uint32_t>(part.slot), to, bytes, mask, is_single_row, offsets);
    }
    to += bytes;
  }
}

BITMMA_INLINE void store_lanes(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MemoryDetails*>(op.details);
  const auto bytes = static_cast<size_t>(details.total());
  LanePlaces places;
  if (!find_places(warp, mask, details, places) || !places.is_distinct) return store_by_lanes(warp, op, mask);
  const bool is_dense = places.fills;
  if (places.is_row)
    for (size_t i = 0; i < lanes; ++i) places.offsets[i] = static_cast<uint32_t>(i * bytes);
  std::array<uint32_t, lanes> spread;
  if (!is_dense)
    for (size_t i = 0; i < lanes; ++i) spread[i] = static_cast<uint32_t>(i * bytes);
  // The bytes as they lie in memory, or where they do not lie together, lane by lane.
  const uint32_t* const offsets = is_dense ? places.offsets.data() : spread.data();
  alignas(64) uint8_t data[lanes * most_access_bytes];
  collect(warp, details, mask, places.is_row, offsets, data);
  uint8_t* to = nullptr;
  if (places.space == Space::shared) to = in_shared(warp, op, mask, bytes, true, places);
  if (places.space == Space::global) to = write_global(warp, op, mask, bytes, places, data, offsets);
  if (!to) return store_by_lanes(warp, op, mask);
  ++warp.cta->cluster->changes;
  if (is_dense) std::memcpy(to, data, places.extent);
  else
    for_each_lane(mask, [&](int lane) {
      const auto i = static_cast<size_t>(lane);
      copy_element(to + places.offsets[i], data + spread[i], bytes);
    });
}

#define BITMMA_LANE_ACCESS(space, target)                                                         \
  namespace space {                                                                               \
  target void load(Warp& warp, const Op& op, Mask mask) { load_lanes(warp, op, mask); }           \
  target void store(Warp& warp, const Op& op, Mask mask) { store_lanes(warp, op, mask); }         \
  target bool rows(Warp& warp, const Op& op, Mask mask, const Address& address, MatrixRows& to) { \
    return read_rows_of_lanes(warp, op, mask, address, to);                                       \
  }                                                                                               \
  }
BITMMA_AT_CPU_LEVELS(BITMMA_LANE_ACCESS)
constexpr std::array loads{Run{v4::load}, Run{v3::load}, Run{baseline::load}};
constexpr std::array stores{Run{v4::store}, Run{v3::store}, Run{baseline::store}};

using ReadRows = bool (*)(Warp&, const Op&, Mask, const Address&, MatrixRows&);
constexpr std::array row_readers{ReadRows{v4::rows}, ReadRows{v3::rows}, ReadRows{baseline::rows}};

}  // namespace

bool read_rows(Warp& warp, const Op& op, Mask mask, const Address& address, MatrixRows& rows) {
  return at_cpu_level(row_readers)(warp, op, mask, address, rows);
}

Run load_run() { return at_cpu_level(loads); }
Run store_run() { return at_cpu_level(stores); }

}  // namespace bitmma::kernel
