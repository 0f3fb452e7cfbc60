// SPDX-License-Identifier: MIT
// cp.async.bulk and cp.reduce.async.bulk, with and without tensor maps, and st.async. Writes to shared memory complete
// on an mbarrier.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "decode.hpp"
#include "mbarrier.hpp"
#include "tensor_map.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

struct BulkDetails {
  std::vector<uint32_t> coordinates = {};  // slots of a tensor map's coordinates, innermost first
  bool is_im2col = false;
  std::vector<uint32_t> offsets = {};    // slots of the offsets of im2col, W first; of a store none
  uint32_t blocks = Op::no_slot;         // slot of the mask of .multicast::cluster
  std::optional<Atomic> reduction = {};  // of cp.reduce.async.bulk
  Type type = Type::b32;                 // element type, without a tensor map
  bool to_shared = true;
  bool of_pair = false;  // .cta_group::2
  bool of_rows = false;  // .tile::gather4, .tile::scatter4: the coordinates are a column and four rows
  Address to = {}, from = {}, barrier = {};
};

/// 16 bytes, and the shared-memory address at which they will arrive.
using Pieces = std::vector<std::pair<uint64_t, std::array<uint8_t, piece>>>;

/// The copy arrives when a thread waits on the named barrier. With .multicast::cluster each block of the mask receives
/// it at the same offset of its shared memory and of its barrier. With .cta_group::2 the signal goes to the block of
/// its pair whose rank has the parity of the rank of the barrier's block (PTX ISA, cp.async.bulk.tensor).
/// `bytes_of_barrier`: what the barrier counts.
void begin_copy(Warp& warp, const Op& op, int lane, const Pieces& pieces, size_t bytes_of_barrier) {
  const auto& details = *static_cast<const BulkDetails*>(op.details);
  const uint64_t barrier = details.barrier.of(warp, lane);
  const auto begin = [&](const auto& in_block, uint64_t barrier_there) {
    const MbarrierObject object = object_of(warp, op, lane, details.barrier.space, barrier_there, AccessKind::atomic);
    BulkCopy copy{.barrier = object.address, .bytes = static_cast<uint32_t>(bytes_of_barrier)};
    for (const auto& [to, bytes] : pieces) {
      const uint8_t* const place =
          locate(warp, op, lane, details.to.space, in_block(to), piece, AccessKind::bulk_write);
      Cta* const cta = owner_of(*warp.cta->cluster, place);
      if (!cta)
        fault(ViolationCode::out_of_bounds, lane, fmt::format("a bulk copy to {:#x}", in_block(to)), "shared memory");
      const auto at = static_cast<uint32_t>(place - cta->shared.data());
      copy.pieces.push_back({cta, at, bytes});
      if (cta->launch->checks) std::memset(cta->shared_states.data() + at, in_flight, piece);
    }
    object.cta->bulk_copies.push_back(std::move(copy));
  };
  if (details.blocks == Op::no_slot) return begin([](uint64_t address) { return address; }, barrier);
  const auto parity = static_cast<int>(barrier >> shared_rank_bits & 1);
  for_each_lane(blocks_of_mask(warp, details.blocks, lane), [&](int rank) {
    const int rank_of_barrier = details.of_pair ? (rank & ~1) | parity : rank;
    begin([rank](uint64_t address) { return address_in(rank, address); }, address_in(rank_of_barrier, barrier));
  });
}

/// Refuses a copy larger than a block's shared memory before the bytes are gathered.
void require_fits(const Cta& cta, int lane, uint64_t bytes) {
  if (bytes <= cta.shared.size()) return;
  fault(ViolationCode::out_of_bounds, lane, fmt::format("a bulk copy of {} bytes", bytes),
        fmt::format("at most the {} of a block's shared memory", cta.shared.size() - shared_begin));
}

/// The bytes that a copy reads from shared memory.
void check_source(const Warp& warp, int lane, const uint8_t* source) {
  Cta* const cta = owner_of(*warp.cta->cluster, source);
  if (cta) check_async_read({&warp, 1}, lane, *cta, static_cast<size_t>(source - cta->shared.data()));
}

/// Writes or reduces one element in global memory.
void store_element(const BulkDetails& details, Type type, uint8_t* to, const uint8_t* from, size_t bytes) {
  if (!details.reduction) {
    std::memcpy(to, from, bytes);
    return;
  }
  uint64_t old = 0, value = 0;
  std::memcpy(&old, to, bytes);
  std::memcpy(&value, from, bytes);
  const uint64_t next = combined(*details.reduction, type, old, value, 0, AtomicPlace::bulk);
  std::memcpy(to, &next, bytes);
}

/// Source: PTX ISA, cp.reduce.async.bulk.
bool can_reduce(Atomic what, Type type) {
  if (!is_floating(type)) return true;
  return what == Atomic::add || ((what == Atomic::min || what == Atomic::max) && bytes_of(type) == 2);
}

void run_bulk_copy(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const BulkDetails*>(op.details);
  for_each_lane(mask, [&](int lane) {
    const uint64_t to = details.to.of(warp, lane), from = details.from.of(warp, lane);
    const uint32_t bytes = warp.lanes_of<const uint32_t>(op.c)[lane];
    if (bytes % piece != 0)
      fault(ViolationCode::misaligned, lane, fmt::format("a bulk copy of {} bytes", bytes), "a multiple of 16");
    require_fits(*warp.cta, lane, bytes);
    Pieces pieces;
    for (uint32_t i = 0; i < bytes; i += piece) {
      std::array<uint8_t, piece> data;
      const uint8_t* const source = locate(warp, op, lane, details.from.space, from + i, piece, AccessKind::read);
      if (details.from.space == Space::shared) check_source(warp, lane, source);
      std::memcpy(data.data(), source, piece);
      if (details.to_shared) {
        pieces.emplace_back(to + i, data);
        continue;
      }
      const size_t element = details.reduction ? static_cast<size_t>(bytes_of(details.type)) : piece;
      uint8_t* const place = locate(warp, op, lane, details.to.space, to + i, piece,
                                    details.reduction ? AccessKind::atomic : AccessKind::write);
      for (size_t at = 0; at < piece; at += element)
        store_element(details, details.type, place + at, data.data() + at, element);
    }
    if (details.to_shared) begin_copy(warp, op, lane, pieces, pieces.size() * piece);
  });
}

// --- st.async

struct AsyncStoreDetails {
  std::vector<uint32_t> parts = {};  // slots
  bool wide_parts = false;
  Address to = {}, barrier = {};
};

void run_async_store(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const AsyncStoreDetails*>(op.details);
  const size_t part_bytes = details.wide_parts ? 8 : 4;
  for_each_lane(mask, [&](int lane) {
    BulkCopy::Piece stored{.size = static_cast<uint32_t>(part_bytes * details.parts.size())};
    for (size_t i = 0; i < details.parts.size(); ++i) {
      const uint8_t* const from =
          details.wide_parts ? reinterpret_cast<const uint8_t*>(warp.lanes_of<const uint64_t>(details.parts[i]) + lane)
                             : reinterpret_cast<const uint8_t*>(warp.lanes_of<const uint32_t>(details.parts[i]) + lane);
      std::memcpy(stored.bytes.data() + part_bytes * i, from, part_bytes);
    }
    const MbarrierObject object =
        object_of(warp, op, lane, Space::shared, details.barrier.of(warp, lane), AccessKind::atomic);
    const uint8_t* const place =
        locate(warp, op, lane, details.to, static_cast<int>(stored.size), AccessKind::write, stored.bytes.data());
    stored.cta = owner_of(*warp.cta->cluster, place);
    stored.to = static_cast<uint32_t>(place - stored.cta->shared.data());
    if (stored.cta->launch->checks) std::memset(stored.cta->shared_states.data() + stored.to, in_flight, stored.size);
    object.cta->bulk_copies.push_back({.barrier = object.address, .bytes = stored.size, .pieces = {stored}});
  });
}

PackedTensorMap map_at(Warp& warp, const Op& op, int lane, uint64_t address, size_t rank, bool is_im2col) {
  std::array<uint8_t, tensor_map_bytes> bytes{};
  if (address % 64 != 0)
    fault(ViolationCode::misaligned, lane, fmt::format("a tensor map at {:#x}", address), "a multiple of 64");
  for (size_t i = 0; i < used_map_bytes; i += 16)
    std::memcpy(bytes.data() + i, locate(warp, op, lane, Space::generic, address + i, 16, AccessKind::read), 16);
  const PackedTensorMap map = PackedTensorMap::of(bytes);
  require_usable(map);
  if (map.address % 16 != 0)
    fault(ViolationCode::misaligned, lane, fmt::format("a tensor at {:#x}, by its map", map.address),
          "a multiple of 16");
  if (map.is_im2col != is_im2col)
    fault(ViolationCode::undefined_by_ptx, lane, fmt::format("a tensor map {} im2col", is_im2col ? "without" : "of"),
          fmt::format("a map for this mode: cuTensorMapEncode{}", is_im2col ? "Im2col" : "Tiled"));
  if (map.rank != rank)
    fault(ViolationCode::undefined_by_ptx, lane, fmt::format("a tensor map of {} dimensions", map.rank),
          fmt::format("one of {}", rank));
  return map;
}

using Indices = std::array<int64_t, 5>;
constexpr size_t row_coordinates = 4;  // of .tile::gather4 and .tile::scatter4

bool is_in_tensor(const PackedTensorMap& map, size_t dimension, int64_t index) {
  return index >= 0 && static_cast<uint64_t>(index) < map.sizes[dimension];
}

/// The number of indices of a dimension that a copy moves.
uint32_t moved_of(const PackedTensorMap& map, size_t dimension) {
  return (map.box[dimension] + map.element_strides[dimension] - 1) / map.element_strides[dimension];
}

/// The addresses of an im2col copy's pixels; nothing for a pixel outside the tensor.
std::vector<std::optional<uint64_t>> pixels_of_tensor(const PackedTensorMap& map, Indices at, const Indices& offsets) {
  std::vector<std::optional<uint64_t>> pixels;
  const size_t last = map.rank - 1U;
  for (uint32_t pixel = 0; pixel < map.pixels; ++pixel) {
    std::optional<uint64_t> address = map.address;
    for (size_t i = 1; i <= last; ++i) {
      const int64_t index = at[i] + offsets[i];
      if (!is_in_tensor(map, i, index)) address.reset();
      if (address) *address += static_cast<uint64_t>(index) * map.strides_bytes[i - 1];
    }
    pixels.push_back(address);
    size_t i = 1;
    for (; i < last; ++i) {
      at[i] += map.element_strides[i];
      if (at[i] < static_cast<int64_t>(map.sizes[i]) + map.upper[i - 1]) break;
      at[i] = map.lower[i - 1];
    }
    if (i == last) ++at[last];
  }
  return pixels;
}

/// The address at which row `row` of a box starts in the tensor; nothing if the row is outside the tensor.
std::optional<uint64_t> row_of_tensor(const PackedTensorMap& map, const Indices& first, uint32_t row) {
  uint64_t address = map.address;
  for (size_t i = 1; i < map.rank; ++i) {
    const uint32_t moved = moved_of(map, i);
    const int64_t index = first[i] + int64_t{row % moved} * map.element_strides[i];
    row /= moved;
    if (!is_in_tensor(map, i, index)) return std::nullopt;
    address += static_cast<uint64_t>(index) * map.strides_bytes[i - 1];
  }
  return address;
}

/// Refuses coordinates at which a GPU stops with an illegal instruction. Measured on an H100 (data/kernels/tma.cu).
void require_coordinates(const BulkDetails& details, const PackedTensorMap& map, const Indices& first, int lane) {
  const MapType& elements = map.elements();
  const bool is_padded = elements.shared_bytes != elements.global_bytes;
  if (is_padded ? first[0] % 128 != 0 : first[0] * elements.global_bytes % (16 * elements.group) != 0) {
    fault(ViolationCode::misaligned, lane,
          elements.group == 1 ? fmt::format("coordinate {} of {}-byte elements in the innermost dimension", first[0],
                                            elements.global_bytes)
                              : fmt::format("coordinate {} in the innermost dimension", first[0]),
          is_padded ? "a multiple of 128" : "a coordinate at a multiple of 16 bytes");
  }
  if (!details.to_shared && *std::ranges::min_element(first) < 0) {
    fault(ViolationCode::out_of_bounds, lane,
          fmt::format("a store to coordinates {}", fmt::join(first.begin(), first.begin() + map.rank, ", ")),
          "coordinates of 0 or more; loads may begin in front of the tensor");
  }
}

/// The same for im2col. Measured on an H200 (data/kernels/im2col.cu).
void require_pixels(const BulkDetails& details, const PackedTensorMap& map, const Indices& first, int lane) {
  for (size_t i = 1; i + 1 < map.rank; ++i) {
    const int64_t lower = map.lower[i - 1], upper = map.upper[i - 1], end = static_cast<int64_t>(map.sizes[i]) + upper;
    if (first[i] < lower || first[i] >= end)
      fault(ViolationCode::undefined_by_ptx, lane,
            fmt::format("an im2col copy from coordinate {} of dimension {}", first[i], i),
            fmt::format("a pixel of the box, {}..{}; a GPU stops", lower, end - 1));
    if (!details.to_shared && (lower < 0 || upper > 0))
      fault(ViolationCode::undefined_by_ptx, lane,
            fmt::format("an im2col store with corners {} and {} of dimension {}", lower, upper, i),
            "a lower corner of 0 or more and an upper one of 0 or less; a GPU stops");
  }
}

/// Copies between a box of a tensor and shared memory. The box is dense there, but with a swizzle each row starts at a
/// multiple of the swizzle's span.
void run_tensor_copy(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const BulkDetails*>(op.details);
  const size_t rank = details.of_rows ? 2 : details.coordinates.size();
  for_each_lane(mask, [&](int lane) {
    const uint64_t to = details.to.of(warp, lane), from = details.from.of(warp, lane);
    const uint64_t box_at = details.to_shared ? to : from;
    const PackedTensorMap map = map_at(warp, op, lane, details.to_shared ? from : to, rank, details.is_im2col);
    if (box_at % 128 != 0)
      fault(ViolationCode::misaligned, lane, fmt::format("a box at address {:#x}", box_at), "a multiple of 128");
    const SwizzleInfo& swizzle = *swizzle_of(map);
    // Elements of 4 and 6 bits are copied in groups: `element` is the group.
    const auto element = static_cast<uint32_t>(map.elements().shared_bytes),
               element_in_global = static_cast<uint32_t>(map.elements().global_bytes),
               group = static_cast<uint32_t>(map.elements().group);
    const uint32_t row_bytes = map.box[0] / group * element;
    const uint32_t row_pitch = swizzle.bits == 0 ? row_bytes : static_cast<uint32_t>(swizzle.width_bytes);
    if (details.of_rows && map.box[1] != 1)
      fault(ViolationCode::undefined_by_ptx, lane, fmt::format("a box of {} rows", map.box[1]),
            "a box of one row: the coordinates name four of them");
    uint64_t rows = details.of_rows ? row_coordinates : map.is_im2col ? map.pixels : 1;
    for (size_t i = 1; i < rank && !map.is_im2col; ++i) rows *= moved_of(map, i);
    require_fits(*warp.cta, lane, rows * row_pitch);
    Indices first{};
    for (size_t i = 0; i < details.coordinates.size(); ++i)
      first[i] = static_cast<int32_t>(warp.lanes_of<const uint32_t>(details.coordinates[i])[lane]);
    require_coordinates(details, map, first, lane);
    if (map.is_im2col) require_pixels(details, map, first, lane);
    std::vector<std::optional<uint64_t>> pixels;
    if (map.is_im2col) {
      Indices offsets{};
      for (size_t i = 0; i < details.offsets.size(); ++i)
        offsets[i + 1] = static_cast<uint16_t>(warp.lanes_of<const uint32_t>(details.offsets[i])[lane]);
      pixels = pixels_of_tensor(map, first, offsets);
    }
    const auto row_at = [&](uint32_t number) {
      if (map.is_im2col) return pixels[number];
      return details.of_rows ? row_of_tensor(map, {first[0], first[1 + number]}, 0) : row_of_tensor(map, first, number);
    };
    const Type type = map.has_type ? map.elements().type : element == 8 ? Type::b64 : Type::b32;
    if (details.reduction) {
      if (group > 1)
        fault(ViolationCode::undefined_by_ptx, lane, "a reduction of elements of 4 or 6 bits",
              "elements of 8 bits or more");
      const bool of_bits =
          *details.reduction == Atomic::and_ || *details.reduction == Atomic::or_ || *details.reduction == Atomic::xor_;
      if (!map.has_type && !of_bits)
        fault(ViolationCode::undefined_by_ptx, lane, "a reduction by a tensor map without the type of its elements",
              "a map with element_type");
      if (!can_reduce(*details.reduction, type))
        fault(ViolationCode::undefined_by_ptx, lane, fmt::format("this reduction of .{}", info(type).name),
              "sums of floating-point numbers; min and max of f16 and bf16");
    }
    Pieces pieces;
    std::optional<uint64_t> row;
    for (uint32_t moved = 0; moved < row_bytes * static_cast<uint32_t>(rows); moved += piece) {
      const uint32_t in_row = moved % row_bytes, at = moved / row_bytes * row_pitch + in_row;
      if (in_row == 0) row = row_at(moved / row_bytes);
      const auto place = static_cast<uint64_t>(apply(swizzle, static_cast<int64_t>(box_at + at)));
      const uint8_t* const source =
          details.to_shared ? nullptr : locate(warp, op, lane, details.from.space, place, piece, AccessKind::read);
      if (source) check_source(warp, lane, source);
      std::array<uint8_t, piece> data{};
      if (map.fills_with_nan) {  // of f16, bf16, f32 and f64 on an H100
        for (size_t i = 0; i < data.size(); i += 2) data[i] = 0xF7, data[i + 1] = 0x7F;
      }
      for (uint32_t byte = 0; byte < piece; byte += element) {
        const int64_t index = first[0] + int64_t{(in_row + byte) / element} * group;
        if (!row || !is_in_tensor(map, 0, index)) continue;
        const uint64_t in_global = *row + static_cast<uint64_t>(index) / group * element_in_global;
        const AccessKind kind = details.to_shared   ? AccessKind::read
                                : details.reduction ? AccessKind::atomic
                                                    : AccessKind::write;
        if (element_in_global == 12) {  // three aligned words
          for (uint32_t at = 0; at < element_in_global; at += 4) {
            uint8_t* const word = locate(warp, op, lane, Space::global, in_global + at, 4, kind);
            if (details.to_shared) std::memcpy(data.data() + byte + at, word, 4);
            else std::memcpy(word, source + byte + at, 4);
          }
          continue;
        }
        uint8_t* const global =
            locate(warp, op, lane, Space::global, in_global, static_cast<int>(element_in_global), kind);
        if (details.to_shared) std::memcpy(data.data() + byte, global, element_in_global);
        else store_element(details, type, global, source + byte, element_in_global);
      }
      if (details.to_shared) pieces.emplace_back(place, data);
    }
    // Padding does not count: CUTLASS's mainloops for elements of 4 and 6 bits expect the bytes of the elements.
    if (details.to_shared) begin_copy(warp, op, lane, pieces, pieces.size() * piece / element * element_in_global);
  });
}

}  // namespace

void decode_bulk_copy(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  // Writes to global memory happen at once, and prefetches change no value.
  if (words.take(Word::commit_group)) {
    decoder.require_operands(instruction, 0, 0);
    decoder.emit(nothing);
    return;
  }
  if (words.take(Word::wait_group)) {
    words.take(Word::read);
    decoder.require_operands(instruction, 1, 1);
    if (instruction.operands[0].kind != Kind::integer || instruction.operands[0].value > INT32_MAX)
      decoder.refuse("with a number that is not constant, or negative");
    decoder.emit(nothing);
    return;
  }
  if (words.take(Word::prefetch)) {
    if (!words.take(Word::L2) || !words.take(Word::global)) decoder.refuse("not a form that PTX has");
    words.take(Word::L2_cache_hint);
    if (words.take(Word::tensor)) {
      words.take_one({Word::d1, Word::d2, Word::d3, Word::d4, Word::d5});
      words.take_one({Word::tile, Word::im2col, Word::tile_gather4, Word::im2col_w, Word::im2col_w_128});
    }
    decoder.require_operands(instruction, 1, 3);
    if (instruction.operands[0].kind != Kind::address) decoder.refuse("without an address in brackets");
    decoder.emit(nothing);
    return;
  }
  BulkDetails bulk_details;
  const auto& operands = instruction.operands;
  const bool has_policy = words.take(Word::L2_cache_hint), is_tensor = words.take(Word::tensor);
  size_t rank = 0;
  constexpr std::array ranks{Word::d1, Word::d2, Word::d3, Word::d4, Word::d5};
  for (size_t i = 0; is_tensor && i < ranks.size(); ++i) {
    if (words.take(ranks[i])) rank = i + 1;
  }
  bulk_details.is_im2col = is_tensor && words.take_one({Word::im2col, Word::im2col_no_offs}) != Word::none;
  if (bulk_details.is_im2col && rank < 3) decoder.refuse("of less than 3 dimensions");
  // PTX ISA 5.5.5. The driver API calls a map's bytes opaque, and drivers make these maps for Blackwell alone.
  if (is_tensor && words.take_one({Word::im2col_w, Word::im2col_w_128}) != Word::none)
    decoder.refuse("no GPU was measured",
                   "the place of halo pixels in shared memory and the bytes of cuTensorMapEncodeIm2colWide's maps are "
                   "not known; copies in mode .im2col run");
  bulk_details.of_rows = words.take_one({Word::tile_gather4, Word::tile_scatter4}) != Word::none;
  if (!bulk_details.of_rows) words.take(Word::tile);
  if (words.take(Word::reduce)) {
    bulk_details.reduction = take_atomic(words);
    if (!bulk_details.reduction) decoder.refuse("without an operation");
    words.take(Word::noftz);
    if (!is_tensor) {
      const auto type = words.take_type();
      if (!type || (bytes_of(*type) != 2 && bytes_of(*type) != 4 && bytes_of(*type) != 8))
        decoder.refuse("of this type");
      if (!can_reduce(*bulk_details.reduction, *type)) decoder.refuse("of this type");
      bulk_details.type = *type;
    }
    decoder.program().has_atomics = true;
    if (*bulk_details.reduction == Atomic::add && (is_tensor || is_floating(bulk_details.type)))
      decoder.program().order_matters = true;
  }
  // The first space in the opcode is the destination.
  const auto place = [&](Word word) { return std::ranges::find(instruction.words, word); };
  bulk_details.to_shared = place(Word::global) > std::min(place(Word::shared_cluster), place(Word::shared_cta));
  const bool has_global = words.take(Word::global),
             to_cluster = bulk_details.to_shared && words.take(Word::shared_cluster);
  if (!(has_global ? to_cluster || words.take(Word::shared_cta)
                   : to_cluster && words.take(Word::shared_cta) && !is_tensor))
    decoder.refuse("between other spaces");
  if (bulk_details.reduction && bulk_details.to_shared) decoder.refuse("to shared memory");
  if (bulk_details.of_rows) {
    if (decoder.target() < Target::sm_100) decoder.refuse("before sm_100");
    const bool gathers = std::ranges::find(instruction.words, Word::tile_gather4) != instruction.words.end();
    if (rank != 2 || bulk_details.reduction || gathers != bulk_details.to_shared)
      decoder.refuse("with four rows of this tensor, in this direction");
    rank = 1 + row_coordinates;
  }
  const bool to_many = has_global && to_cluster && words.take(Word::multicast_cluster);
  if (bulk_details.to_shared && is_tensor && !words.take(Word::cta_group_1))
    bulk_details.of_pair = words.take(Word::cta_group_2);
  if (!words.take(bulk_details.to_shared ? Word::mbarrier_complete_tx_bytes : Word::bulk_group))
    decoder.refuse("with another completion");
  const bool has_offsets = bulk_details.is_im2col && bulk_details.to_shared;
  if (bulk_details.is_im2col && has_offsets != has_word(instruction, Word::im2col))
    decoder.refuse(has_offsets ? "without the offsets of .im2col" : "with .im2col: a store is .im2col_no_offs");
  const size_t count = (bulk_details.to_shared ? 3 : 2) + (has_offsets ? 1 : 0) + (is_tensor ? 0 : 1) +
                       (to_many ? 1 : 0) + (has_policy ? 1 : 0);
  decoder.require_operands(instruction, count, count);
  // A tensor map with coordinates: [%rd1, {%r1, %r2}].
  const auto of_map = [&](const Operand& operand) {
    if (operand.kind != Kind::address || operand.elements.size() != 2 || operand.elements[1].kind != Kind::vector ||
        operand.elements[1].elements.size() != rank || rank == 0)
      decoder.refuse("without a map and its coordinates");
    for (const Operand& coordinate : operand.elements[1].elements)
      bulk_details.coordinates.push_back(decoder.read(coordinate, Type::s32));
    Operand base = operand;
    base.elements.pop_back();
    return base;
  };
  const Space other = is_tensor ? Space::generic : has_global ? Space::global : Space::shared;
  const Operand to = is_tensor && !bulk_details.to_shared ? of_map(operands[0]) : operands[0],
                from = is_tensor && bulk_details.to_shared ? of_map(operands[1]) : operands[1];
  bulk_details.to = address_of(decoder, to, bulk_details.to_shared ? Space::shared : other);
  bulk_details.from = address_of(decoder, from, bulk_details.to_shared ? other : Space::shared);
  const uint32_t c = is_tensor ? 0 : decoder.read(operands[2], Type::u32);
  if (bulk_details.to_shared) bulk_details.barrier = address_of(decoder, operands[is_tensor ? 2 : 3], Space::shared);
  if (has_offsets) {
    const Operand& offsets = operands[3];
    if (offsets.kind != Kind::vector || offsets.elements.size() != rank - 2)
      decoder.refuse(fmt::format("without {} offsets in braces", rank - 2));
    for (const Operand& offset : offsets.elements) bulk_details.offsets.push_back(decoder.read(offset, Type::u16));
  }
  if (to_many) bulk_details.blocks = decoder.read(operands[is_tensor ? (has_offsets ? 4 : 3) : 4], Type::b16);
  const auto* details = decoder.keep(std::move(bulk_details));
  Op& op = decoder.emit(is_tensor ? run_tensor_copy : run_bulk_copy);
  op.details = details;
  op.orders_blocks = details->reduction.has_value();
  op.c = c;
}

void decode_async_store(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  AsyncStoreDetails async_store_details;
  words.take(Word::weak);
  const size_t count = words.take(Word::v2) ? 2 : words.take(Word::v4) ? 4 : 1;
  const auto type = words.take_type();
  if (!words.take(Word::shared_cluster) || !words.take(Word::mbarrier_complete_tx_bytes) || !type ||
      (bytes_of(*type) != 4 && bytes_of(*type) != 8) || bytes_of(*type) * count > 16)
    decoder.refuse("of another space, type or completion");
  async_store_details.wide_parts = bytes_of(*type) == 8;
  decoder.require_operands(instruction, 3, 3);
  const Operand& value = instruction.operands[1];
  for (const Operand& part : parts_of(value)) async_store_details.parts.push_back(decoder.read(part, *type));
  if (async_store_details.parts.size() != count) decoder.refuse("with a vector of another size");
  async_store_details.to = address_of(decoder, instruction.operands[0], Space::shared);
  async_store_details.barrier = address_of(decoder, instruction.operands[2], Space::shared);
  const auto* details = decoder.keep(std::move(async_store_details));
  Op& op = decoder.emit(run_async_store);
  op.details = details;
}

}  // namespace bitmma::kernel
