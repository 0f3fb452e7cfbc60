// SPDX-License-Identifier: MIT
#include "texture.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bitmma/formats/round.hpp"

namespace bitmma {

int Texels::channel_bytes() const {
  using enum TexelFormat;
  return format == u8 || format == s8 ? 1 : format == u16 || format == s16 || format == f16 ? 2 : 4;
}

bool Texels::can_be_normalized() const { return channel_bytes() < 4 && format != TexelFormat::f16; }

namespace kernel {

std::optional<int64_t> surface_offset(const Texels& texels, std::array<int32_t, 3> coordinates, uint32_t layer,
                                      int bytes, SurfaceMode mode) {
  const int64_t row = texels.extent[0] * texels.texel_bytes();
  std::array<int64_t, 4> at{coordinates[0], coordinates[1], coordinates[2], static_cast<int32_t>(layer)};
  const std::array<int64_t, 4> ends{row - bytes + 1, texels.extent[1], texels.extent[2],
                                    std::max<int64_t>(texels.layers, 1)};
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] >= 0 && at[i] < ends[i]) continue;
    if (mode != SurfaceMode::clamp || ends[i] <= 0) return std::nullopt;
    at[i] = std::clamp<int64_t>(at[i], 0, ends[i] - 1);
  }
  return at[0] + at[1] * texels.row_bytes + (at[2] + at[3]) * texels.slice_bytes;
}

namespace {

constexpr int fraction_bits = 8;  // of a coordinate of a linear filter. CUDA C++ Programming Guide, Texture Fetching
constexpr int64_t far = int64_t{1} << 40;  // beyond any texture, in texels

/// A coordinate in texels, times 2^bits and rounded down. Infinities and what is far away stay far away; a NaN is 0.
int64_t scaled(uint32_t word, int64_t size, bool is_normalized, int bits) {
  const FormatInfo& f32 = info(Format::f32);
  const uint32_t magnitude = word & 0x7FFF'FFFF;
  if (magnitude > *f32.infinity()) return 0;
  const bool is_negative = word >> 31 != 0;
  const int exponent = static_cast<int>(magnitude >> f32.mantissa_bits);
  const int64_t significand = static_cast<int64_t>(magnitude & low_mask(f32.mantissa_bits)) |
                              (exponent > 0 ? int64_t{1} << f32.mantissa_bits : 0);
  // Below 2^52: sizes are at most 2^28.
  const int64_t product = (is_normalized ? significand * size : significand) * (is_negative ? -1 : 1);
  const int shift = std::max(exponent, 1) - f32.bias - f32.mantissa_bits + bits;
  if (shift <= 0) return product >> std::min(-shift, 63);
  const int64_t limit = far << bits;
  if (shift >= 62 || std::abs(product) > limit >> shift) return product == 0 ? 0 : is_negative ? -limit : limit;
  return product << shift;
}

/// The texel that stands at index i of a dimension; nothing: the border.
std::optional<int64_t> texel_at(int64_t i, int64_t size, AddressMode mode) {
  const auto modulo = [](int64_t a, int64_t b) { return (a % b + b) % b; };
  switch (mode) {
    case AddressMode::wrap: return modulo(i, size);
    case AddressMode::clamp: return std::clamp<int64_t>(i, 0, size - 1);
    case AddressMode::mirror: {
      const int64_t place = modulo(i, 2 * size);
      return place < size ? place : 2 * size - 1 - place;
    }
    case AddressMode::border: break;
  }
  return i >= 0 && i < size ? std::optional(i) : std::nullopt;
}

/// The mode of a dimension. CUDA C++ Programming Guide: wrap and mirror are for normalized coordinates alone, and mean
/// clamp with others.
AddressMode mode_of(const Texture& texture, size_t dimension) {
  const AddressMode mode = texture.modes[dimension];
  const bool repeats = mode == AddressMode::wrap || mode == AddressMode::mirror;
  return repeats && !texture.has_normalized_coordinates ? AddressMode::clamp : mode;
}

/// Numbers of a texel as f32, or as integers.
uint32_t word_of_channel(const Texture& texture, const uint8_t* bytes) {
  const Texels& texels = texture.texels;
  uint32_t code = 0;
  std::memcpy(&code, bytes, static_cast<size_t>(texels.channel_bytes()));
  const int bits = 8 * texels.channel_bytes();
  const auto number = [&] {  // an integer with its sign
    const int shift = 32 - bits;
    return static_cast<int32_t>(code << shift) >> shift;
  };
  const auto quotient = [](int64_t numerator, int64_t denominator) {
    constexpr int shift = 46;  // leaves 30 bits or more, and a last one for the rest
    const auto dividend = static_cast<uint64_t>(std::abs(numerator)) << shift,
               divisor = static_cast<uint64_t>(denominator);
    const uint64_t bits_of_quotient = dividend / divisor << 1 | (dividend % divisor != 0 ? 1 : 0);
    return static_cast<uint32_t>(
        round_to(Format::f32, {.negative = numerator < 0, .magnitude = bits_of_quotient, .exponent = -shift - 1},
                 Rounding::nearest_even));
  };
  switch (texels.format) {
    case TexelFormat::f32:
    case TexelFormat::u32:
    case TexelFormat::s32: return code;
    case TexelFormat::f16:
      return static_cast<uint32_t>(convert(Format::f16, code, Format::f32, Rounding::nearest_even, Overflow::infinity));
    case TexelFormat::u8:
    case TexelFormat::u16: return texture.reads_normalized ? quotient(code, (int64_t{1} << bits) - 1) : code;
    case TexelFormat::s8:
    case TexelFormat::s16:
      if (!texture.reads_normalized) return static_cast<uint32_t>(number());
      return quotient(std::max<int64_t>(number(), -((int64_t{1} << (bits - 1)) - 1)), (int64_t{1} << (bits - 1)) - 1);
  }
  return 0;
}

/// The words of a texel, or of the border. A channel that a texel does not have is 0, and the last one 1.
std::array<uint32_t, 4> words_of(const Texture& texture, const uint8_t* texel) {
  const Texels& texels = texture.texels;
  const bool is_number =
      texture.reads_normalized || texels.format == TexelFormat::f16 || texels.format == TexelFormat::f32;
  std::array<uint32_t, 4> words{0, 0, 0, is_number ? 0x3F80'0000 : uint32_t{1}};
  for (size_t i = 0; i < static_cast<size_t>(texels.channels); ++i) {
    words[i] =
        texel ? word_of_channel(texture, texel + i * static_cast<size_t>(texels.channel_bytes())) : texture.border[i];
  }
  return words;
}

}  // namespace
Corners corners_of(const Texture& texture, const TexturePoint& point, bool gathers) {
  const Texels& texels = texture.texels;
  const bool has_neighbours = gathers || (texture.is_linear && !point.are_integers);
  const auto dimensions = static_cast<size_t>(texels.dimensions);
  Corners corners{.count = has_neighbours ? 1 << dimensions : 1};
  std::array<std::array<std::optional<int64_t>, 2>, 3> places{};
  for (auto& both : places) both[0] = 0;
  for (size_t d = 0; d < dimensions; ++d) {
    const uint32_t word = point.coordinates[d];
    const int64_t size = texels.extent[d];
    int64_t first = static_cast<int32_t>(word);
    if (has_neighbours) {
      // From the centre of a texel to that of the next.
      const int64_t place =
          scaled(word, size, texture.has_normalized_coordinates, fraction_bits) - (int64_t{1} << (fraction_bits - 1));
      first = place >> fraction_bits;
      corners.fractions[d] = static_cast<uint32_t>(place & ((1 << fraction_bits) - 1));
    } else if (!point.are_integers) {
      first = scaled(word, size, texture.has_normalized_coordinates, 0);
    }
    const AddressMode mode = texture.is_buffer ? AddressMode::border : mode_of(texture, d);
    for (int64_t i = 0; i < 2; ++i) places[d][static_cast<size_t>(i)] = texel_at(first + i, size, mode);
  }
  const int64_t layer =
      texels.layers > 0 ? std::clamp<int64_t>(static_cast<int32_t>(point.layer), 0, texels.layers - 1) : 0;
  for (size_t i = 0; i < static_cast<size_t>(corners.count); ++i) {
    std::array<std::optional<int64_t>, 3> at{};
    for (size_t d = 0; d < 3; ++d) at[d] = places[d][i >> d & 1];
    if (at[0] && at[1] && at[2])
      corners.offsets[i] =
          *at[0] * texels.texel_bytes() + *at[1] * texels.row_bytes + (*at[2] + layer) * texels.slice_bytes;
  }
  return corners;
}

std::array<uint32_t, 4> fetched(const Texture& texture, const Corners& corners,
                                std::span<const TexelBytes, most_corners> texels) {
  return words_of(texture, corners.offsets[0] ? texels[0].data() : nullptr);
}

std::array<uint32_t, 4> gathered(const Texture& texture, const Corners& corners,
                                 std::span<const TexelBytes, most_corners> texels, size_t channel) {
  constexpr std::array<size_t, 4> order{2, 3, 1, 0};  // PTX ISA, tld4: counter-clockwise from the lower left texel
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i < 4; ++i)
    words[i] = words_of(texture, corners.offsets[order[i]] ? texels[order[i]].data() : nullptr)[channel];
  return words;
}

}  // namespace kernel
}  // namespace bitmma
