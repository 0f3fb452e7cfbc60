// SPDX-License-Identifier: MIT
#include "lane_access.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "../core/cpu_level.hpp"
#include "../core/words.hpp"
#include "bitmma/core/bits.hpp"
#include "lanes.hpp"

namespace bitmma::kernel {
namespace {

/// Where the lanes of an access are.
struct LanePlaces {
  uint64_t least = 0;   // the lowest address, without the window of a generic one
  uint64_t extent = 0;  // bytes from there to the end of the highest lane
  Space space = Space::generic;
  bool is_row = false;                       // all 32 lanes, one behind the other
  bool fills = false;                        // every byte of the extent is one of a lane
  bool is_distinct = false;                  // no two lanes have one address; only known of stores
  bool is_exchange = false;                  // lane i is where lane i ^ x of a row is, in pieces of 16 bytes at least
  std::array<uint32_t, lanes> offsets = {};  // of each lane from `least`; an inactive lane has that of an active one
};

constexpr size_t piece = 16;  // bytes

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
template <bool is_write, typename A>
BITMMA_INLINE bool find_offsets(Mask mask, const A* from, A added, uint64_t bytes, LanePlaces& places) {
  const A base = from[__builtin_ctz(mask)];
  constexpr A near = A{1} << 30;  // half of the most bytes between two lanes
  std::array<int32_t, lanes> distances;
  A far = 0;
  for (size_t i = 0; i < lanes; ++i) {
    const A distance = (mask >> i & 1) != 0 ? static_cast<A>(from[i] - base) : A{0};
    far |= static_cast<A>(distance + near);
    distances[i] = static_cast<int32_t>(distance);
  }
  if (far >= 2 * near) return false;
  int32_t least = 0, most = 0;
  for (size_t i = 0; i < lanes; ++i) least = std::min(least, distances[i]), most = std::max(most, distances[i]);
  const A first = static_cast<A>(base + added);  // of a lane; the sum of the kernel wraps, and these do not
  if ((least < 0 && first < static_cast<A>(-least)) || static_cast<A>(~first) < static_cast<A>(most)) return false;
  places.least = static_cast<A>(first + static_cast<A>(least));
  places.extent = static_cast<uint64_t>(most - least) + bytes;
  uint32_t all_bits = 0;
  for (size_t i = 0; i < lanes; ++i) {
    places.offsets[i] = static_cast<uint32_t>(distances[i] - least);
    all_bits |= places.offsets[i];
  }
  if ((all_bits & (bytes - 1)) != 0) return false;
  const int shift = std::countr_zero(bytes);
  const uint64_t elements = places.extent >> shift;
  if (elements > 64) {
    if constexpr (is_write) places.is_distinct = are_distinct(mask, places.offsets, shift);
    return true;
  }
  uint64_t seen = 0;
  for (size_t i = 0; i < lanes; ++i) seen |= uint64_t{1} << (places.offsets[i] >> shift);
  places.fills = seen == low_mask(static_cast<int>(elements));
  places.is_distinct = std::popcount(seen) == std::popcount(mask);
  return true;
}

/// Whether all lanes together fill an aligned range of as many bytes, in any order: then sets their places.
template <typename A>
BITMMA_INLINE bool is_permutation(const A* from, A added, uint64_t bytes, LanePlaces& places) {
  const A range = static_cast<A>(lanes * bytes);
  const A least = static_cast<A>(from[0] + added) & static_cast<A>(~(range - 1));
  const int shift = std::countr_zero(bytes);
  const A first = static_cast<A>(from[0] + added - least);
  A all_bits = 0, differs = 0;
  uint32_t seen = 0;
  for (size_t i = 0; i < lanes; ++i) {
    const A offset = static_cast<A>(from[i] + added - least);
    all_bits |= offset;
    differs |= offset ^ first ^ static_cast<A>(static_cast<A>(i) * static_cast<A>(bytes));
    places.offsets[i] = static_cast<uint32_t>(offset);
  }
  places.least = least;
  places.extent = range;
  if (differs == 0) {
    places.fills = places.is_distinct = true;
    places.is_exchange = first % piece == 0;
    return true;
  }
  for (size_t i = 0; i < lanes; ++i) seen |= uint32_t{1} << (places.offsets[i] >> shift & 31);
  if ((all_bits & ~static_cast<A>(range - bytes)) != 0 || seen != all_lanes) return false;
  places.fills = places.is_distinct = true;
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
template <bool is_write, typename A>
BITMMA_INLINE bool find_places(const Warp& warp, Mask mask, const Address& address, uint64_t bytes,
                               LanePlaces& places) {
  const A* const from = warp.lanes_of<const A>(address.slot);
  const A offset = static_cast<A>(address.offset), step = static_cast<A>(bytes);
  A differs = 0, varies = 0;
  for (size_t i = 0; i < lanes; ++i) {
    const A distance = static_cast<A>(from[i] - from[0]);
    differs |= distance ^ static_cast<A>(static_cast<A>(i) * step);
    varies |= distance;
  }
  if (differs == 0 && mask == all_lanes) {
    places.least = static_cast<A>(from[0] + offset);
    places.extent = lanes * bytes;
    places.is_row = places.fills = places.is_distinct = true;
    if (places.least > static_cast<A>(~A{0}) - places.extent) return false;  // the addresses wrap
  } else if (varies == 0) {
    places.least = static_cast<A>(from[0] + offset);
    places.extent = bytes;
    places.offsets = {};
    places.fills = true;
    places.is_distinct = std::popcount(mask) == 1;
    if (places.least > static_cast<A>(~A{0}) - places.extent) return false;
  } else {
    if ((mask != all_lanes || !is_permutation(from, offset, bytes, places)) &&
        !find_offsets<is_write>(mask, from, offset, bytes, places))
      return false;
  }
  return (places.least & (bytes - 1)) == 0 && find_space(address.space, places);
}

// Ranges of words, sixteen at a time: compilers leave some of these loops as they are if they are written word by word.
using Block [[gnu::vector_size(64)]] = uint32_t;
constexpr size_t block = sizeof(Block) / 4;

/// GCC 12 makes Block{} + word of sixteen insertions here.
BITMMA_INLINE void set_all(Block& words, uint32_t word) {
  uint32_t all[block];
  for (uint32_t& each : all) each = word;
  std::memcpy(&words, all, sizeof words);
}
BITMMA_INLINE uint64_t any_bits(const Block& words) {
  uint64_t parts[sizeof(Block) / 8], any = 0;
  std::memcpy(parts, &words, sizeof words);
  for (const uint64_t part : parts) any |= part;
  return any;
}
/// The upper half joined with the lower one.
constexpr uint32_t folded(uint64_t bits) { return static_cast<uint32_t>(bits | bits >> 32); }
/// The bits in which words differ from `word`, of even words in the lower half.
BITMMA_INLINE uint64_t differences(const uint32_t* words, size_t count, uint32_t word) {
  Block differ{}, all;
  set_all(all, word);
  uint32_t rest = 0;
  size_t i = 0;
  for (; i + block <= count; i += block) {
    Block next;
    std::memcpy(&next, words + i, sizeof next);
    differ |= next ^ all;
  }
  for (; i < count; ++i) rest |= words[i] ^ word;
  return (count >= block ? any_bits(differ) : 0) | rest;
}
BITMMA_INLINE uint32_t largest(const uint32_t* words, size_t count) {
  Block most{};
  uint32_t all = 0;
  size_t i = 0;
  for (; i + block <= count; i += block) {
    Block next;
    std::memcpy(&next, words + i, sizeof next);
    most = next > most ? next : most;
  }
  for (; i < count; ++i) all = std::max(all, words[i]);
  if (count >= block) {
    uint32_t parts[block];
    std::memcpy(parts, &most, sizeof most);
    for (const uint32_t part : parts) all = std::max(all, part);
  }
  return all;
}
BITMMA_INLINE void fill(uint32_t* words, size_t count, uint32_t word) {
  size_t i = 0;
  Block all;
  set_all(all, word);
  for (; i + block <= count; i += block) std::memcpy(words + i, &all, sizeof all);
  for (; i < count; ++i) words[i] = word;
}
BITMMA_INLINE void fill(int* words, size_t count, int word) {
  fill(reinterpret_cast<uint32_t*>(words), count, static_cast<uint32_t>(word));
}
BITMMA_INLINE void set_bits(uint32_t* words, size_t count, uint32_t bits) {
  size_t i = 0;
  Block all;
  set_all(all, bits);
  for (; i + block <= count; i += block) {
    Block next;
    std::memcpy(&next, words + i, sizeof next);
    next |= all;
    std::memcpy(words + i, &next, sizeof next);
  }
  for (; i < count; ++i) words[i] |= bits;
}

/// The states of four bytes that are written.
constexpr uint32_t written_word = 0x01010101;
static_assert(written == 1);

/// The same for bytes; their number is a multiple of 4, or less than 4.
BITMMA_INLINE bool are_written(const uint8_t* states, size_t bytes) {
  Block differ{};
  uint32_t rest = 0;
  size_t i = 0;
  for (; i + sizeof(Block) <= bytes; i += sizeof(Block)) {
    Block next;
    std::memcpy(&next, states + i, sizeof next);
    differ |= next ^ written_word;
  }
  for (; i + 4 <= bytes; i += 4) rest |= bitmma::load<uint32_t>(states + i) ^ written_word;
  for (; i < bytes; ++i) rest |= states[i] ^ uint32_t { written };
  return ((bytes >= sizeof(Block) ? any_bits(differ) : 0) | rest) == 0;
}
BITMMA_INLINE void set_written(uint8_t* states, size_t bytes) {
  size_t i = 0;
  Block all;
  set_all(all, written_word);
  for (; i + sizeof(Block) <= bytes; i += sizeof(Block)) std::memcpy(states + i, &all, sizeof all);
  for (; i + 4 <= bytes; i += 4) bitmma::store(written_word, states + i);
  for (; i < bytes; ++i) states[i] = written;
}

BITMMA_INLINE bool is_ordered(const Warp& warp, uint32_t writer, uint32_t epoch) {
  const auto number = static_cast<int>(writer & SharedUses::writer_bits) - 1;
  return number < 0 || number == warp.number || epoch <= warp.seen[static_cast<size_t>(number)];
}

/// The newest epoch of warp `other` of a block that is visible to `warp`.
BITMMA_INLINE uint32_t seen_of(const Warp& warp, const Cta& cta, int other) {
  return warp.seen[static_cast<size_t>(cta.rank) * cta.warps.size() + static_cast<size_t>(other)];
}

/// Whether barriers are between all accesses to words of shared memory by other warps and an access of `warp`.
BITMMA_INLINE bool is_clear(const Warp& warp, Cta& cta, size_t at, size_t words, bool is_write) {
  const SharedUses::Row row = cta.uses.row(at);
  static_assert(static_cast<uint8_t>(SharedBytes::apart) == 2 && static_cast<uint8_t>(SharedBytes::alike) == 1);
  uint64_t bytes_of_words = 0;
  size_t i = 0;
  for (; i + 8 <= words; i += 8) bytes_of_words |= bitmma::load<uint64_t>(row.bytes + i);
  for (; i < words; ++i) bytes_of_words |= static_cast<uint64_t>(row.bytes[i]);
  if ((bytes_of_words & 0x0202020202020202) != 0) return false;
  if (largest(row.write_epochs, words) <= warp.seen_of_all) {
    // Barriers of all warps are between the writes and here.
  } else if ((differences(row.writers, words, row.writers[0]) |
              differences(row.write_epochs, words, row.write_epochs[0])) == 0) {
    if (!is_ordered(warp, row.writers[0], row.write_epochs[0])) return false;
  } else {
    for (i = 0; i < words; ++i) {
      if (!is_ordered(warp, row.writers[i], row.write_epochs[i])) return false;
    }
  }
  if (!is_write) return true;
  const uint32_t readers = folded(differences(row.readers, words, 0));
  for (uint32_t others = readers & ~(uint32_t{1} << (warp.index % 32)); others != 0; others &= others - 1) {
    const int reader = __builtin_ctz(others);
    const uint32_t bit = uint32_t{1} << reader, seen = seen_of(warp, cta, reader);
    if (cta.uses.newest_read(reader) <= seen) continue;
    const uint32_t* const epochs = cta.uses.read_epochs(reader, at);
    Block late{};
    uint32_t rest = 0;
    for (i = 0; i + block <= words; i += block) {
      Block of_readers, of_epochs;
      std::memcpy(&of_readers, row.readers + i, sizeof of_readers);
      std::memcpy(&of_epochs, epochs + i, sizeof of_epochs);
      late |= reinterpret_cast<Block>((of_epochs > seen) & ((of_readers & bit) != 0));
    }
    for (; i < words; ++i) rest |= (row.readers[i] & bit) & (0 - static_cast<uint32_t>(epochs[i] > seen));
    if (((words >= block ? any_bits(late) : 0) | rest) != 0) return false;
  }
  return true;
}

BITMMA_INLINE void note_reads(const Warp& warp, Cta& cta, const Op& op, size_t at, size_t words) {
  const SharedUses::Row row = cta.uses.row(at);
  uint32_t* const epochs = cta.uses.read_epochs(warp.index, at);
  const uint32_t own = uint32_t{1} << (warp.index % 32), epoch = warp.epoch;
  set_bits(row.readers, words, own);
  fill(row.read_instructions, words, op.instruction);
  fill(epochs, words, epoch);
  cta.uses.expect_read(warp.index, epoch);
}

BITMMA_INLINE void note_writes(const Warp& warp, Cta& cta, const Op& op, size_t at, size_t words) {
  const SharedUses::Row row = cta.uses.row(at);
  const uint32_t writer = SharedUses::coded(warp.number, false, true), epoch = warp.epoch;
  fill(row.writers, words, writer);
  fill(row.write_epochs, words, epoch);
  fill(row.write_instructions, words, op.instruction);
  fill(row.readers, words, 0);
}

/// The lane of each byte of a row of elements of `bytes` bytes.
template <size_t bytes>
constexpr auto lanes_of_row = [] {
  std::array<uint8_t, lanes * bytes> of_byte{};
  for (size_t i = 0; i < of_byte.size(); ++i) of_byte[i] = static_cast<uint8_t>(i / bytes);
  return of_byte;
}();

/// The bytes of a row of lanes <-> those where the lanes of an exchange are. `first`: the offset of lane 0.
template <size_t bytes>
BITMMA_INLINE void exchange(const uint8_t* from, size_t first, uint8_t* to) {
#pragma GCC unroll 1
  for (size_t at = 0; at < bytes; at += piece) std::memcpy(to + (at ^ first), from + at, piece);
}

/// Notes which lane writes which of the bytes that row.write_lanes are of.
template <size_t bytes>
BITMMA_INLINE void note_lanes(uint8_t* write_lanes, Mask mask, const LanePlaces& places) {
  if (places.is_row) {
    std::memcpy(write_lanes, lanes_of_row<bytes>.data(), lanes * bytes);
    return;
  }
  if (places.is_exchange) return exchange<lanes * bytes>(lanes_of_row<bytes>.data(), places.offsets[0], write_lanes);
  const auto note = [&](size_t lane) {
    std::memcpy(write_lanes + places.offsets[lane], lanes_of_row<bytes>.data() + bytes * lane, bytes);
  };
  if (mask == all_lanes) {
    for (size_t lane = 0; lane < lanes; ++lane) note(lane);
  } else {
    for_each_lane(mask, [&](int lane) { note(static_cast<size_t>(lane)); });
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

/// The words of a lane as a number or vector, for bitwise operations on all of them.
template <size_t words>
using LaneWords = std::conditional_t<words == 4, bitmma::Words, std::conditional_t<words == 2, uint64_t, uint32_t>>;
template <size_t words>
using LaneBytes = std::conditional_t<words == 4, uint32_t, std::conditional_t<words == 2, uint16_t, uint8_t>>;
template <typename V>
BITMMA_INLINE V in_all_words(uint32_t word) {
  if constexpr (sizeof(V) == 16) return V{} + word;
  else return static_cast<V>(word * uint64_t{0x0000000100000001});
}
template <typename V>
BITMMA_INLINE uint32_t any_bits_of(const V& words) {
  if constexpr (sizeof(V) == 16) return words[0] | words[1] | words[2] | words[3];
  else return folded(words);
}

/// The larger words, and the largest of all.
template <typename V>
BITMMA_INLINE void raise_words(V& words, const V& other) {
  if constexpr (sizeof(V) == 16) {
    words = other > words ? other : words;
  } else if constexpr (sizeof(V) == 8) {
    const auto low = std::max(static_cast<uint32_t>(words), static_cast<uint32_t>(other));
    words = std::max(words >> 32, other >> 32) << 32 | low;
  } else {
    words = std::max(words, other);
  }
}
template <typename V>
BITMMA_INLINE uint32_t largest_of(const V& words) {
  if constexpr (sizeof(V) == 16) return std::max(std::max(words[0], words[1]), std::max(words[2], words[3]));
  else return static_cast<uint32_t>(std::max(uint64_t{words} >> 32, uint64_t{words} & 0xFFFFFFFF));
}

/// Checks and notes the words of each lane. False if that is for lanes one by one: nothing has happened.
template <size_t words>
BITMMA_INLINE bool use_words(const Warp& warp, Cta& cta, const Op& op, size_t at, bool is_write, uint8_t* states,
                             const LanePlaces& places) {
  using V = LaneWords<words>;
  const auto load_words = [](const uint32_t* from) { return bitmma::load<V>(from); };
  const SharedUses::Row row = cta.uses.row(at);
  // An inactive lane has the place of an active one, so that all 32 may be looked at.
  V newest{}, readers{}, unwritten_bytes{};
  LaneBytes<words> apart = 0;
#pragma GCC unroll 1
  for (const size_t offset : places.offsets) {
    const size_t i = offset / SharedUses::word;
    raise_words(newest, load_words(row.write_epochs + i));
    if (is_write) readers |= load_words(row.readers + i);
    else unwritten_bytes |= bitmma::load<V>(states + offset) ^ in_all_words<V>(written_word);
    apart |= bitmma::load<LaneBytes<words>>(row.bytes + i);
  }
  if ((apart & static_cast<LaneBytes<words>>(0x02020202)) != 0) return false;
  if (any_bits_of(unwritten_bytes) != 0) return false;
  if (largest_of(newest) > warp.seen_of_all) {
    uint32_t known_writer = 0, known_epoch = 0;  // of the word before: neighbours have one writer
    for (const size_t offset : places.offsets) {
      for (size_t i = offset / SharedUses::word; i < offset / SharedUses::word + words; ++i) {
        if (row.writers[i] == known_writer && row.write_epochs[i] == known_epoch) continue;
        if (!is_ordered(warp, row.writers[i], row.write_epochs[i])) return false;
        known_writer = row.writers[i], known_epoch = row.write_epochs[i];
      }
    }
  }
  if (is_write) {
    for (uint32_t others = any_bits_of(readers) & ~(uint32_t{1} << (warp.index % 32)); others != 0;
         others &= others - 1) {
      const int reader = __builtin_ctz(others);
      const uint32_t bit = uint32_t{1} << reader, seen = seen_of(warp, cta, reader);
      if (cta.uses.newest_read(reader) <= seen) continue;
      const uint32_t* const epochs = cta.uses.read_epochs(reader, at);
      uint32_t late = 0;
#pragma GCC unroll 1
      for (const size_t offset : places.offsets) {
        for (size_t i = offset / SharedUses::word; i < offset / SharedUses::word + words; ++i)
          late |= (row.readers[i] & bit) & (0 - static_cast<uint32_t>(epochs[i] > seen));
      }
      if (late != 0) return false;
    }
  }
  const auto store_words = [](uint32_t* to, uint32_t word) { bitmma::store(in_all_words<V>(word), to); };
  const auto instruction = static_cast<uint32_t>(op.instruction);
  uint32_t* const own_epochs = cta.uses.read_epochs(warp.index, at);
  const uint32_t own = uint32_t{1} << (warp.index % 32), as_writer = SharedUses::coded(warp.number, false, true);
  if (!is_write) cta.uses.expect_read(warp.index, warp.epoch);
#pragma GCC unroll 1
  for (const size_t offset : places.offsets) {
    const size_t i = offset / SharedUses::word;
    cta.uses.use_unit(at + offset);
    if (is_write) {
      store_words(row.writers + i, as_writer);
      store_words(row.write_epochs + i, warp.epoch);
      store_words(reinterpret_cast<uint32_t*>(row.write_instructions + i), instruction);
      store_words(row.readers + i, 0);
      bitmma::store(in_all_words<V>(written_word), states + offset);
    } else {
      bitmma::store(load_words(row.readers + i) | in_all_words<V>(own), row.readers + i);
      store_words(reinterpret_cast<uint32_t*>(row.read_instructions + i), instruction);
      store_words(own_epochs + i, warp.epoch);
    }
  }
  return true;
}

/// Checks and notes words that lanes fill. False if that is for lanes one by one: nothing has happened. `fixed`: the
/// bytes, if a compiler shall know them; 0 for any other number.
template <size_t fixed>
BITMMA_INLINE bool use_range(const Warp& warp, const Op& op, Mask mask, size_t at, size_t bytes, bool is_write,
                             const LanePlaces& places) {
  Cta& cta = *warp.cta;
  const size_t extent = fixed != 0 ? fixed : places.extent, words = extent / SharedUses::word;
  uint8_t* const states = cta.shared_states.data() + at;
  if ((!is_write && !are_written(states, extent)) || !is_clear(warp, cta, at, words, is_write)) return false;
  cta.uses.use_units(at, extent);
  if (bytes < SharedUses::word) note_narrow(cta, at, words);
  if (!is_write) {
    note_reads(warp, cta, op, at, words);
    return true;
  }
  note_writes(warp, cta, op, at, words);
  note_lanes(cta.uses.row(at).write_lanes, bytes, mask, places);
  set_written(states, extent);
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
    const bool is_clear_range = extent == 4 * lanes ? use_range<4 * lanes>(warp, op, mask, at, bytes, is_write, places)
                                : extent == 2 * lanes
                                    ? use_range<2 * lanes>(warp, op, mask, at, bytes, is_write, places)
                                    : use_range<0>(warp, op, mask, at, bytes, is_write, places);
    return is_clear_range ? place : nullptr;
  }
  bool is_all_clear = false;
  switch (bytes) {
    case 4: is_all_clear = use_words<1>(warp, cta, op, at, is_write, states, places); break;
    case 8: is_all_clear = use_words<2>(warp, cta, op, at, is_write, states, places); break;
    case 16: is_all_clear = use_words<4>(warp, cta, op, at, is_write, states, places); break;
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

/// Elements in memory -> a register of the lanes. `skip`: bytes in front of the element in each lane's bytes.
template <typename T, typename W>
BITMMA_INLINE void load_part(W* to, W keep, const uint8_t* from, size_t skip, Mask mask, const LanePlaces& places) {
  if ((places.is_row || places.is_exchange) && places.extent == lanes * sizeof(T)) {
    T row[lanes];
    if (places.is_row) std::memcpy(row, from, sizeof row);
    else exchange<sizeof row>(from, places.offsets[0], reinterpret_cast<uint8_t*>(row));
    for (size_t i = 0; i < lanes; ++i) to[i] = static_cast<W>(row[i]) & keep;
    return;
  }
  W values[lanes];
  const size_t stride = places.extent / lanes;
#pragma GCC unroll 1
  for (size_t i = 0; i < lanes; ++i) {
    T value;
    std::memcpy(&value, from + (places.is_row ? i * stride : size_t{places.offsets[i]}) + skip, sizeof value);
    values[i] = static_cast<W>(value) & keep;
  }
  set_lanes(to, mask, values);
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

template <bool is_write>
BITMMA_INLINE bool find_places(const Warp& warp, Mask mask, const MemoryDetails& details, LanePlaces& places) {
  if (warp.unwritten && warp.unwritten->stored != 0) return false;  // its bytes get states of their own
  const auto bytes = static_cast<uint64_t>(details.total());
  return details.address.wide ? find_places<is_write, uint64_t>(warp, mask, details.address, bytes, places)
                              : find_places<is_write, uint32_t>(warp, mask, details.address, bytes, places);
}

BITMMA_INLINE void load_lanes(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MemoryDetails*>(op.details);
  const auto bytes = static_cast<size_t>(details.total());
  LanePlaces places;
  const uint8_t* from = nullptr;
  if (find_places<false>(warp, mask, details, places)) {
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
  if (!(address.wide ? find_places<false, uint64_t>(warp, mask, address, bytes, places)
                     : find_places<false, uint32_t>(warp, mask, address, bytes, places)))
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

/// How the elements of lanes are stored.
enum class Order : uint8_t { row, exchange, any };

/// A register of all lanes -> a row of elements, or an exchange.
template <typename T, typename W>
BITMMA_INLINE void store_row(const W* from, uint8_t* to, Order order, uint32_t first) {
  T row[lanes];
  for (size_t i = 0; i < lanes; ++i) row[i] = static_cast<T>(from[i]);
  if (order == Order::row) std::memcpy(to, row, sizeof row);
  else exchange<sizeof row>(reinterpret_cast<const uint8_t*>(row), first, to);
}

template <typename T, typename W>
BITMMA_INLINE void store_part(const W* from, uint8_t* to, Mask mask, Order order, const uint32_t* offsets) {
  if (order == Order::any) store_part<T>(from, to, mask, offsets);
  else store_row<T>(from, to, order, offsets[0]);
}
template <typename W>
BITMMA_INLINE void store_part(const W* from, uint8_t* to, size_t bytes, Mask mask, Order order,
                              const uint32_t* offsets) {
  switch (bytes) {
    case 1: return store_part<uint8_t>(from, to, mask, order, offsets);
    case 2: return store_part<uint16_t>(from, to, mask, order, offsets);
    case 4: return store_part<uint32_t>(from, to, mask, order, offsets);
    default: return store_part<uint64_t>(from, to, mask, order, offsets);
  }
}

/// The bytes of all lanes, those of lane i at to + offsets[i].
BITMMA_INLINE void collect(const Warp& warp, const MemoryDetails& details, Mask mask, Order of_lanes,
                           const uint32_t* offsets, uint8_t* to) {
  const auto bytes = static_cast<size_t>(details.bytes);
  const Order order = details.parts.size() == 1 ? of_lanes : Order::any;
  for (const MemoryDetails::Part& part : details.parts) {
    if (bytes == 16) {
      for_each_lane(mask, [&](int lane) {
        std::memcpy(to + offsets[lane], warp.lanes_of<const uint64_t>(part.slot) + 2 * lane, 16);
      });
    } else if (part.bits > 32) {
      store_part(warp.lanes_of<const uint64_t>(part.slot), to, bytes, mask, order, offsets);
    } else {
      store_part(warp.lanes_of<const uint32_t>(part.slot), to, bytes, mask, order, offsets);
    }
    to += bytes;
  }
}

/// The lanes of `mask` whose bytes differ from those at their places.
template <typename T>
BITMMA_INLINE Mask differing(const uint8_t* data, const uint8_t* memory, Mask mask, const LanePlaces& places) {
  T present[lanes], next[lanes];
  std::memcpy(next, data, sizeof next);
  if (places.is_row) {
    std::memcpy(present, memory, sizeof present);
  } else {
#pragma GCC unroll 1
    for (size_t i = 0; i < lanes; ++i) std::memcpy(&present[i], memory + places.offsets[i], sizeof(T));
  }
  bool differ[lanes];
  for (size_t i = 0; i < lanes; ++i) differ[i] = next[i] != present[i];
  return mask_of(differ) & mask;
}

/// The lanes that a store changes.
BITMMA_INLINE Mask changed_lanes(const Warp& warp, const MemoryDetails& details, Mask mask, const LanePlaces& places,
                                 const uint8_t* memory) {
  const auto bytes = static_cast<size_t>(details.total());
  std::array<uint32_t, lanes> spread;
  for (size_t i = 0; i < lanes; ++i) spread[i] = static_cast<uint32_t>(i * bytes);
  alignas(64) uint8_t data[lanes * most_access_bytes] = {};
  collect(warp, details, mask, places.is_row ? Order::row : Order::any, spread.data(), data);
  switch (bytes) {
    case 1: return differing<uint8_t>(data, memory, mask, places);
    case 2: return differing<uint16_t>(data, memory, mask, places);
    case 4: return differing<uint32_t>(data, memory, mask, places);
    case 8: return differing<uint64_t>(data, memory, mask, places);
    default: break;
  }
  Mask differ = 0;
  for_each_lane(mask, [&](int lane) {
    const auto i = static_cast<size_t>(lane);
    differ |= Mask{std::memcmp(data + spread[i], memory + places.offsets[i], bytes) != 0} << lane;
  });
  return differ;
}

/// The first byte of a write of global memory, checked and noted for all lanes; nullptr as above.
BITMMA_INLINE uint8_t* write_global(Warp& warp, const Op& op, const MemoryDetails& details, Mask mask,
                                    const LanePlaces& places) {
  const GlobalRegion* const region = region_of(*warp.cta, places.least, places.extent);
  if (!region) return nullptr;
  const size_t at = places.least - region->begin;
  const auto bytes = static_cast<size_t>(details.total());
  if (uint8_t* const states = region->states) {
    if (places.fills) set_written(states + at, places.extent);
    else
      for_each_lane(mask,
                    [&](int lane) { set_written(states + at + places.offsets[static_cast<size_t>(lane)], bytes); });
  }
  if (region->uses) {
    const Mask changed = changed_lanes(warp, details, mask, places, region->data + at);
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

BITMMA_INLINE void store_lanes(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const MemoryDetails*>(op.details);
  const auto bytes = static_cast<size_t>(details.total());
  LanePlaces places;
  if (!find_places<true>(warp, mask, details, places) || !places.is_distinct) return store_by_lanes(warp, op, mask);
  if (places.is_row)
    for (size_t i = 0; i < lanes; ++i) places.offsets[i] = static_cast<uint32_t>(i * bytes);
  uint8_t* to = nullptr;
  if (places.space == Space::shared) to = in_shared(warp, op, mask, bytes, true, places);
  if (places.space == Space::global) to = write_global(warp, op, details, mask, places);
  if (!to) return store_by_lanes(warp, op, mask);
  ++warp.cta->cluster->changes;
  const Order order = places.is_row ? Order::row : places.is_exchange ? Order::exchange : Order::any;
  collect(warp, details, mask, order, places.offsets.data(), to);
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
