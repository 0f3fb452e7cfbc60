// SPDX-License-Identifier: MIT
#include "tensor_map.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "bitmma/core/bits.hpp"
#include "bitmma/core/error.hpp"

namespace bitmma {
namespace {

[[noreturn]] void refuse(const std::string& field, std::string seen, std::string expected) {
  throw Error({.field = "tensor map: " + field, .seen = std::move(seen), .expected = std::move(expected)});
}

/// What cuTensorMapEncodeIm2col of driver 580 refuses: data/kernels/tensor_maps.tar.xz.
void require_im2col(const TensorMap& map) {
  const Im2colBox& box = *map.im2col;
  const size_t rank = map.sizes.size();
  if (rank < 3) refuse("sizes", fmt::format("{} dimensions", rank), "3 to 5 with im2col");
  const int64_t end = rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
  for (const auto& [name, corners] : {std::pair("lower", &box.lower), std::pair("upper", &box.upper)}) {
    const auto is_in = [end](int64_t corner) { return corner >= -end && corner < end; };
    if (corners->size() != rank - 2 || !std::ranges::all_of(*corners, is_in))
      refuse(fmt::format("im2col.{}", name), fmt::format("{}", fmt::join(*corners, ",")),
             fmt::format("{} of {}..{}", rank - 2, -end, end - 1));
  }
  for (size_t i = 0; i < rank - 2; ++i) {
    // The driver adds with 32 bits.
    const auto last = static_cast<int32_t>(static_cast<uint32_t>(map.sizes[i + 1] + box.upper[i]));
    if (box.lower[i] >= last)
      refuse("im2col", fmt::format("corners {} and {} of {} elements", box.lower[i], box.upper[i], map.sizes[i + 1]),
             "a box with a pixel");
  }
  if (box.pixels < 1 || box.pixels > 1024) refuse("im2col.pixels", std::to_string(box.pixels), "1 to 1024");
}

}  // namespace

void require_tensor_map(const TensorMap& map, int64_t memory_bytes) {
  const size_t rank = map.sizes.size();
  if (!map.type && map.element_bytes != 1 && map.element_bytes != 2 && map.element_bytes != 4 && map.element_bytes != 8)
    refuse("element_bytes", std::to_string(map.element_bytes), "1, 2, 4 or 8");
  // Elements of 4 and 6 bits come in groups.
  const int64_t group = map.type ? kernel::map_types[static_cast<size_t>(*map.type)].group : 1,
                bytes = map.type ? kernel::map_types[static_cast<size_t>(*map.type)].global_bytes : map.element_bytes,
                shared_bytes = map.type ? kernel::map_types[static_cast<size_t>(*map.type)].shared_bytes : bytes;
  if (rank < 1 || rank > 5) refuse("sizes", fmt::format("{} dimensions", rank), "1 to 5");
  if (map.strides_bytes.size() != rank - 1)
    refuse("strides_bytes", fmt::format("{}", fmt::join(map.strides_bytes, ",")), fmt::format("{} strides", rank - 1));
  const size_t boxed = map.im2col ? 1 : rank;
  if (map.box.size() != boxed)
    refuse("box", fmt::format("{}", fmt::join(map.box, ",")),
           map.im2col ? "the number of channels" : fmt::format("{} sizes", rank));
  if (!map.element_strides.empty() && map.element_strides.size() != rank)
    refuse("element_strides", fmt::format("{}", fmt::join(map.element_strides, ",")), fmt::format("{} strides", rank));
  int64_t last = bytes;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = map.sizes[i], stride = i == 0 ? bytes : map.strides_bytes[i - 1];
    const int64_t places = i == 0 ? (size + group - 1) / group : size;
    if (size < 1 || size > int64_t{1} << 32)
      refuse(fmt::format("sizes[{}]", i), std::to_string(size), "1 to 2^32 elements");
    if (i < boxed && (map.box[i] < 1 || map.box[i] > 256))
      refuse(fmt::format("box[{}]", i), std::to_string(map.box[i]), "1 to 256 elements");
    if (i > 0 && (stride < 0 || stride % 16 != 0 || stride >= int64_t{1} << 40))
      refuse(fmt::format("strides_bytes[{}]", i - 1), std::to_string(stride), "a multiple of 16 below 2^40");
    if (!map.element_strides.empty() && (map.element_strides[i] < 1 || map.element_strides[i] > 8))
      refuse(fmt::format("element_strides[{}]", i), std::to_string(map.element_strides[i]), "1 to 8");
    if (stride > 0 && places - 1 > (memory_bytes - last) / stride)
      refuse("sizes", fmt::format("{}", fmt::join(map.sizes, ",")),
             fmt::format("a tensor in {} bytes of memory", memory_bytes));
    last += (places - 1) * stride;
  }
  if (!map.element_strides.empty() && map.element_strides[0] != 1)
    refuse("element_strides[0]", std::to_string(map.element_strides[0]), "1: the driver ignores other values");
  const bool is_floating = map.type && kernel::info(kernel::map_types[static_cast<size_t>(*map.type)].type).kind ==
                                           kernel::TypeClass::floating;
  const bool is_tf32 = map.type == TensorMapType::tf32 || map.type == TensorMapType::tf32_ftz;
  if (map.fills_with_nan && (map.type ? !is_floating && !is_tf32 : bytes == 1))
    refuse("fill", "nan with elements that are no floating-point numbers", "zero");
  // The driver refuses boxes that no block has room for.
  constexpr int64_t most_box_bytes = 227 * 1024;
  int64_t box_bytes = shared_bytes;
  if (map.im2col) {
    require_im2col(map);
    box_bytes *= map.box[0] * map.im2col->pixels;
  } else {
    for (size_t i = 0; i < rank; ++i)
      box_bytes *= map.box[i] / (map.element_strides.empty() ? int64_t{1} : map.element_strides[i]);
  }
  if (box_bytes / group > most_box_bytes)
    refuse("box", fmt::format("{} bytes", box_bytes / group), fmt::format("at most {}", most_box_bytes));
  // Source: CUDA driver API, cuTensorMapEncodeTiled.
  constexpr int64_t padded_box = 128;
  const bool is_padded = shared_bytes != bytes;
  if (is_padded && (map.box[0] != padded_box || map.sizes[0] % padded_box != 0))
    refuse("box[0]", fmt::format("{} of {} elements", map.box[0], map.sizes[0]),
           "128, of a multiple of 128: elements of 4 and 6 bits that are padded in shared memory");
  if (group == 2 && map.sizes[0] % 2 != 0) refuse("sizes[0]", std::to_string(map.sizes[0]), "a multiple of 2");
  const int64_t row = map.box[0] * shared_bytes / group;
  if (map.box[0] * shared_bytes % (16 * group) != 0)
    refuse("box[0]", fmt::format("{} bytes", row), "a multiple of 16 bytes");
  const int width = info(map.swizzle).width_bytes;
  if (map.swizzle != Swizzle::none && row > width)
    refuse("box[0]", fmt::format("{} bytes", row), fmt::format("at most the {} bytes of the swizzle", width));
}

std::array<uint8_t, tensor_map_bytes> encode_tensor_map(const TensorMap& map, uint64_t address) {
  require_tensor_map(map, std::numeric_limits<int64_t>::max());
  if (address % 16 != 0)
    throw Error(
        {.field = "tensor map: address", .seen = fmt::format("{:#x}", address), .expected = "a multiple of 16"});
  return kernel::pack(map, address).bytes();
}

namespace kernel {
namespace {

/// A field of the bytes.
struct Bits {
  size_t word;
  int first, count;
};
constexpr Bits im2col_bits{2, 0, 1}, pixel_bits{15, 0, 32}, rank_bits{2, 4, 3}, type_bits{2, 7, 4},
    interleave_bits{2, 11, 2}, swizzle_bits{2, 13, 2}, fill_bits{2, 15, 1}, tf32_bits{2, 16, 1},
    atomicity_bits{2, 19, 2}, untyped_bits{2, 31, 1};
// A tf32 element has the number of f32 or f32.ftz and a bit.
constexpr uint8_t f32_type = 7, tf32_type = 11, packed_types = 13;

constexpr Bits box_bits(size_t i) { return i == 0 ? Bits{13, 24, 8} : Bits{14, static_cast<int>(8 * (i - 1)), 8}; }
constexpr Bits step_bits(size_t i) { return {13, static_cast<int>(3 * i), 3}; }
constexpr Bits high_stride_bits(size_t i) { return {7, static_cast<int>(4 * i), 4}; }

/// A corner of the box of pixels.
Bits corner_bits(size_t rank, size_t i, bool is_upper) {
  const int bits = rank == 3 ? 16 : rank == 4 ? 8 : 5;
  return {14, (is_upper ? 16 : 0) + bits * static_cast<int>(i), bits};
}
size_t corners_of(size_t rank) { return rank >= 3 && rank <= 5 ? rank - 2 : 0; }

int16_t sign_extended(uint32_t value, int bits) {
  return static_cast<int16_t>(static_cast<int16_t>(value << (16 - bits)) >> (16 - bits));
}

uint32_t get(const PackedTensorMap& map, Bits bits) {
  return map.words[bits.word] >> bits.first & static_cast<uint32_t>(low_mask(bits.count));
}
void set(std::array<uint32_t, 32>& words, Bits bits, uint64_t value) {
  const auto mask = static_cast<uint32_t>(low_mask(bits.count));
  words[bits.word] = (words[bits.word] & ~(mask << bits.first)) | (static_cast<uint32_t>(value) & mask) << bits.first;
}

/// What only the driver reads: the bytes of a box, and the alignment of its place in shared memory.
void set_derived(std::array<uint32_t, 32>& words, const PackedTensorMap& map) {
  constexpr std::array<uint32_t, 4> alignments{16, 256, 512, 1024};
  uint32_t moved = static_cast<uint32_t>(map.elements().shared_bytes);
  if (map.is_im2col) moved *= map.box[0] * map.pixels;
  else
    for (size_t i = 0; i < map.rank; ++i) moved *= map.box[i] / map.element_strides[i];
  words[16] = moved / static_cast<uint32_t>(map.elements().group);
  words[18] = alignments[map.swizzle];
}

}  // namespace

PackedTensorMap PackedTensorMap::of(std::span<const uint8_t, tensor_map_bytes> bytes) {
  PackedTensorMap map;
  std::memcpy(map.words.data(), bytes.data(), tensor_map_bytes);
  map.address = uint64_t{map.words[1]} << 32 | map.words[0];
  map.is_im2col = get(map, im2col_bits) != 0;
  map.rank = static_cast<uint8_t>(get(map, rank_bits) + 1);
  map.type = static_cast<uint8_t>(get(map, type_bits));
  if (get(map, tf32_bits) != 0 && (map.type == f32_type || map.type == f32_type + 1)) map.type += tf32_type - f32_type;
  map.interleave = static_cast<uint8_t>(get(map, interleave_bits));
  map.swizzle = static_cast<uint8_t>(get(map, swizzle_bits));
  map.swizzle_atomicity = static_cast<uint8_t>(get(map, atomicity_bits));
  map.fills_with_nan = get(map, fill_bits) != 0;
  map.has_type = get(map, untyped_bits) == 0;
  for (size_t i = 0; i < map.sizes.size(); ++i) {
    map.sizes[i] = uint64_t{map.words[8 + i]} + 1;
    if (i == 0 || !map.is_im2col) map.box[i] = static_cast<uint16_t>(get(map, box_bits(i)) + 1);
    map.element_strides[i] = static_cast<uint8_t>(get(map, step_bits(i)) + 1);
  }
  for (size_t i = 0; map.is_im2col && i < corners_of(map.rank); ++i) {
    const auto corner = [&](bool is_upper) {
      const Bits bits = corner_bits(map.rank, i, is_upper);
      return sign_extended(get(map, bits), bits.count);
    };
    map.lower[i] = corner(false), map.upper[i] = corner(true);
  }
  if (map.is_im2col) map.pixels = get(map, pixel_bits) + 1;
  for (size_t i = 0; i < map.strides_bytes.size(); ++i)
    map.strides_bytes[i] = (uint64_t{get(map, high_stride_bits(i))} << 32 | map.words[3 + i]) << 4;
  return map;
}

std::array<uint8_t, tensor_map_bytes> PackedTensorMap::bytes() const {
  std::array<uint32_t, 32> all = words;
  all[0] = static_cast<uint32_t>(address);
  all[1] = static_cast<uint32_t>(address >> 32);
  const bool is_tf32 = type == tf32_type || type == tf32_type + 1;
  set(all, im2col_bits, is_im2col ? 1 : 0);
  set(all, rank_bits, rank - 1U);
  set(all, type_bits, is_tf32 ? type - (tf32_type - f32_type) : type);
  set(all, tf32_bits, is_tf32 ? 1 : 0);
  set(all, interleave_bits, interleave);
  set(all, swizzle_bits, swizzle);
  set(all, atomicity_bits, swizzle_atomicity);
  set(all, fill_bits, fills_with_nan ? 1 : 0);
  set(all, untyped_bits, has_type ? 0 : 1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    all[8 + i] = static_cast<uint32_t>(sizes[i] - 1);
    if (i == 0 || !is_im2col) set(all, box_bits(i), box[i] - 1U);
    set(all, step_bits(i), element_strides[i] - 1U);
  }
  for (size_t i = 0; is_im2col && i < corners_of(rank); ++i) {
    set(all, corner_bits(rank, i, false), static_cast<uint16_t>(lower[i]));
    set(all, corner_bits(rank, i, true), static_cast<uint16_t>(upper[i]));
  }
  if (is_im2col) all[15] = pixels - 1;
  for (size_t i = 0; i < strides_bytes.size(); ++i) {
    all[3 + i] = static_cast<uint32_t>(strides_bytes[i] >> 4);
    set(all, high_stride_bits(i), strides_bytes[i] >> 36);
  }
  return std::bit_cast<std::array<uint8_t, tensor_map_bytes>>(all);
}

PackedTensorMap pack(const TensorMap& map, uint64_t address) {
  PackedTensorMap packed{.address = address};
  const size_t rank = map.sizes.size();
  for (size_t i = 0; i < rank; ++i) {
    packed.sizes[i] = static_cast<uint64_t>(map.sizes[i]);
    if (i > 0) packed.strides_bytes[i - 1] = static_cast<uint64_t>(map.strides_bytes[i - 1]);
    if (i < map.box.size()) packed.box[i] = static_cast<uint16_t>(map.box[i]);
    packed.element_strides[i] = static_cast<uint8_t>(map.element_strides.empty() ? int64_t{1} : map.element_strides[i]);
  }
  packed.rank = static_cast<uint8_t>(rank);
  packed.is_im2col = map.im2col.has_value();
  for (size_t i = 0; packed.is_im2col && i < map.im2col->lower.size(); ++i) {
    packed.lower[i] = static_cast<int16_t>(map.im2col->lower[i]);
    packed.upper[i] = static_cast<int16_t>(map.im2col->upper[i]);
  }
  if (packed.is_im2col) packed.pixels = static_cast<uint32_t>(map.im2col->pixels);
  constexpr std::array<uint8_t, 9> unsigned_types{0, 0, 1, 0, 2, 0, 0, 0, 4};  // by their bytes
  packed.has_type = map.type.has_value();
  packed.type = map.type ? static_cast<uint8_t>(*map.type) : unsigned_types[static_cast<size_t>(map.element_bytes)];
  packed.swizzle = static_cast<uint8_t>(std::min(map.swizzle, Swizzle::b128));
  packed.swizzle_atomicity = map.swizzle == Swizzle::b128_atom32 ? 1 : 0;
  packed.fills_with_nan = map.fills_with_nan;
  set_derived(packed.words, packed);
  return packed;
}

const SwizzleInfo* swizzle_of(const PackedTensorMap& map) {
  static constexpr SwizzleInfo atom64{
      .id = Swizzle::b128, .name = "128-atom64", .width_bytes = 128, .bits = 1, .base = 6, .shift = 1};
  if (map.swizzle_atomicity == 0) return &info(static_cast<Swizzle>(map.swizzle));
  if (map.swizzle != static_cast<uint8_t>(Swizzle::b128)) return nullptr;
  return map.swizzle_atomicity == 1 ? &info(Swizzle::b128_atom32) : map.swizzle_atomicity == 3 ? &atom64 : nullptr;
}

void require_usable(const PackedTensorMap& packed) {
  const auto require = [](bool holds, std::string_view field, int value, std::string expected) {
    if (!holds)
      throw Error({.field = fmt::format("tensor map: {}", field),
                   .seen = std::to_string(value),
                   .expected = std::move(expected)});
  };
  require(packed.rank <= 5, "rank", packed.rank, "1 to 5");
  require(packed.interleave == 0, "interleave", packed.interleave, "0, none");
  require(swizzle_of(packed) != nullptr, "swizzle atomicity", packed.swizzle_atomicity,
          "0, 16 bytes; with the swizzle of 128 bytes also 1, 32 bytes, and 3, 64 bytes");
  const auto rank = static_cast<std::ptrdiff_t>(packed.rank);
  TensorMap map{.element_bytes = packed.elements().shared_bytes,
                .sizes = {packed.sizes.begin(), packed.sizes.begin() + rank},
                .box = {packed.box.begin(), packed.box.begin() + rank},
                .element_strides = {packed.element_strides.begin(), packed.element_strides.begin() + rank},
                .swizzle = packed.swizzle_atomicity == 0 ? static_cast<Swizzle>(packed.swizzle) : Swizzle::b128,
                .fills_with_nan = packed.fills_with_nan,
                .type = static_cast<TensorMapType>(packed.type)};
  map.strides_bytes = {packed.strides_bytes.begin(), packed.strides_bytes.begin() + rank - 1};
  if (packed.is_im2col) {
    const auto corners = static_cast<std::ptrdiff_t>(corners_of(packed.rank));
    map.box.resize(1);
    map.im2col = Im2colBox{.lower = {packed.lower.begin(), packed.lower.begin() + corners},
                           .upper = {packed.upper.begin(), packed.upper.begin() + corners},
                           .pixels = packed.pixels};
  }
  require_tensor_map(map, std::numeric_limits<int64_t>::max());
}

}  // namespace kernel
}  // namespace bitmma
