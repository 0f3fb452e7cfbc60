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
  std::array<int64_t, 4> at{coordinates[0], coordinates[1], coordinates[2], int64_t{layer}};
  const std::array<int64_t, 4> ends{row - bytes + 1, texels.extent[1], texels.extent[2],
                                    std::max<int64_t>(texels.layers, 1)};
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] >= 0 && at[i] < ends[i]) continue;
    if (mode != SurfaceMode::clamp || ends[i] <= 0) return std::nullopt;
    at[i] = std::clamp<int64_t>(at[i], 0, ends[i] - 1);
  }
  at[0] -= at[0] % bytes;  // the last access that is aligned
  return at[0] + at[1] * texels.row_bytes + (at[2] + at[3]) * texels.slice_bytes;
}

namespace {

__extension__ using Wide = __int128;

constexpr int fraction_bits = 8;  // of a coordinate of a linear filter. CUDA C++ Programming Guide, Texture Fetching
constexpr int32_t whole_weight = 1 << fraction_bits;

/// Bits behind the point that a GPU keeps of a normalized coordinate, before it multiplies it by the size of this
/// dimension. is_coordinate_measured says where that is a choice.
int coordinate_bits(int64_t size, size_t dimension) {
  if (dimension == 2) return size <= 2049 ? 21 : 22;
  return size <= 8192 ? 21 : size <= 65536 ? 22 : 23;
}

/// x 2^bits, rounded down. A NaN and subnormal numbers are 0; what is far away stays beyond any texture.
int64_t fixed_point(uint32_t word, int bits) {
  constexpr int far = 32;  // floats from 2^25 on are even integers: as many turns of a texture, mirrored or not
  const FormatInfo& f32 = info(Format::f32);
  const uint32_t magnitude = word & 0x7FFF'FFFF;
  const int exponent = static_cast<int>(magnitude >> f32.mantissa_bits);
  if (magnitude > *f32.infinity() || exponent == 0) return 0;
  const int64_t sign = word >> 31 != 0 ? -1 : 1;
  if (exponent - f32.bias >= far) return sign * (int64_t{1} << (far + bits));
  const int64_t significand =
      sign * static_cast<int64_t>((magnitude & low_mask(f32.mantissa_bits)) | uint64_t{1} << f32.mantissa_bits);
  const int shift = exponent - f32.bias - f32.mantissa_bits + bits;
  return shift >= 0 ? significand << shift : significand >> std::min(-shift, 63);
}

/// Where a coordinate is: in a texel, or from the centre of a texel a fraction of the way to the next one's.
struct Place {
  int64_t texel = 0;
  uint32_t fraction = 0;
};
Place place_of(const Texture& texture, size_t dimension, uint32_t word, bool has_neighbours) {
  const int64_t size = texture.has_normalized_coordinates ? texture.texels.extent[dimension] : 1;
  const int bits = texture.has_normalized_coordinates ? coordinate_bits(size, dimension) : fraction_bits + 1;
  const Wide place = Wide{fixed_point(word, bits)} * size;
  if (!has_neighbours) return {static_cast<int64_t>(place >> bits)};
  const int rest = bits - fraction_bits;
  const Wide from_centre = ((place + (Wide{1} << (rest - 1))) >> rest) - whole_weight / 2;
  return {static_cast<int64_t>(from_centre >> fraction_bits), static_cast<uint32_t>(from_centre & (whole_weight - 1))};
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
/// clamp with others. Lines in layers have no y.
AddressMode mode_of(const Texture& texture, size_t dimension) {
  if (texture.texels.layers > 0 && dimension >= static_cast<size_t>(texture.texels.dimensions))
    return AddressMode::clamp;
  const AddressMode mode = texture.modes[dimension];
  const bool repeats = mode == AddressMode::wrap || mode == AddressMode::mirror;
  return repeats && !texture.has_normalized_coordinates ? AddressMode::clamp : mode;
}

int64_t low_bits_as_number(uint32_t code, int bits, bool is_signed) {
  const int shift = 32 - bits;
  return is_signed ? static_cast<int32_t>(code << shift) >> shift : static_cast<int64_t>(code << shift >> shift);
}

bool is_signed_format(TexelFormat format) {
  return format == TexelFormat::s8 || format == TexelFormat::s16 || format == TexelFormat::s32;
}

/// What 1 is, of integers that are read as normalized.
int64_t one_of(int bits, bool is_signed) { return (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1; }

/// numerator / denominator as f32, to nearest even.
uint32_t quotient(int64_t numerator, int64_t denominator) {
  constexpr int shift = 46;  // leaves 30 bits or more, and a last one for the rest
  const auto dividend = static_cast<uint64_t>(std::abs(numerator)) << shift,
             divisor = static_cast<uint64_t>(denominator);
  const uint64_t bits_of_quotient = dividend / divisor << 1 | (dividend % divisor != 0 ? 1 : 0);
  return static_cast<uint32_t>(
      round_to(Format::f32, {.negative = numerator < 0, .magnitude = bits_of_quotient, .exponent = -shift - 1},
               Rounding::nearest_even));
}

uint32_t f32_of_f16(uint32_t code) {
  constexpr uint32_t sign = 0x8000, infinity = 0x7C00;
  if ((code & ~sign) > infinity)
    return (code & sign) << 16 | 0x7F80'0000 | (code & 0x3FF) << 13;  // NaNs stay as they are
  return static_cast<uint32_t>(convert(Format::f16, code, Format::f32, Rounding::nearest_even, Overflow::infinity));
}

/// Codes of a texel's channels in the texels' format.
using Codes = std::array<uint32_t, 4>;
Codes codes_of(const Texels& texels, const uint8_t* bytes) {
  Codes codes{};
  const auto size = static_cast<size_t>(texels.channel_bytes());
  for (size_t i = 0; i < static_cast<size_t>(texels.channels); ++i) std::memcpy(&codes[i], bytes + i * size, size);
  return codes;
}

/// The colour of a border as an integer that is read as normalized. A GPU keeps four bits more than the integer has,
/// and rounds what remains to nearest, ties toward zero.
int64_t normalized(uint32_t word, int bits, bool is_signed) {
  constexpr int guard_bits = 4;
  const bool is_negative = word >> 31 != 0;
  if (is_negative && !is_signed) return 0;
  const int kept = (is_signed ? bits - 1 : bits) + guard_bits;
  const int64_t magnitude = std::min(fixed_point(word & 0x7FFF'FFFF, kept), int64_t{1} << kept);
  const int64_t number = (magnitude * one_of(bits, is_signed) + (int64_t{1} << (kept - 1)) - 1) >> kept;
  return is_negative ? -number : number;
}

/// The colour of a border in f16. Finite numbers stay finite; of a NaN's payload a GPU keeps the upper ten bits.
uint32_t f16_of_border(uint32_t word) {
  constexpr uint32_t infinity = 0x7F80'0000;
  if ((word & 0x7FFF'FFFF) >= infinity) return (word >> 16 & 0x8000) | 0x7C00 | (word >> 13 & 0x3FF);
  return static_cast<uint32_t>(convert(Format::f32, word, Format::f16, Rounding::toward_zero, Overflow::saturate));
}

/// A texel in the colour of the border. A GPU keeps that in the format of the texels; of integers that are not read as
/// normalized it keeps the low bits of the f32.
Codes codes_of_border(const Texture& texture) {
  const Texels& texels = texture.texels;
  const int bits = 8 * texels.channel_bytes();
  const bool is_signed = is_signed_format(texels.format);
  Codes codes{};
  for (size_t i = 0; i < static_cast<size_t>(texels.channels); ++i) {
    const uint32_t word = texture.border[i];
    if (texels.format == TexelFormat::f16) {
      codes[i] = f16_of_border(word);
    } else {
      const int64_t number = texture.reads_normalized ? normalized(word, bits, is_signed) : int64_t{word};
      codes[i] = static_cast<uint32_t>(number) & static_cast<uint32_t>(low_mask(bits));
    }
  }
  return codes;
}

Codes codes_at(const Texture& texture, const Corners& corners, std::span<const TexelBytes, most_corners> texels,
               size_t i) {
  return corners.offsets[i] ? codes_of(texture.texels, texels[i].data()) : codes_of_border(texture);
}

/// A number of a texel as f32, or as an integer.
uint32_t word_of(const Texture& texture, uint32_t code) {
  const Texels& texels = texture.texels;
  const int bits = 8 * texels.channel_bytes();
  if (texels.format == TexelFormat::f16) return f32_of_f16(code);
  if (bits == 32) return code;
  const bool is_signed = is_signed_format(texels.format);
  const int64_t number = low_bits_as_number(code, bits, is_signed);
  if (!texture.reads_normalized) return static_cast<uint32_t>(number);
  const int64_t one = one_of(bits, is_signed);
  return quotient(std::max(number, -one), one);
}

// --- Linear filters. The rules are measured: data/kernels/textures.tar.xz.

/// Weights of the corners in 1/256; their sum is 256. In each slice a GPU divides the weight of the slice in two along
/// x, and each half along y. It rounds one part to nearest, and the other is what remains.
std::array<int32_t, most_corners> weights_of(const Corners& corners) {
  const auto product = [](int32_t weight, int32_t fraction) {
    return (weight * fraction + whole_weight / 2) >> fraction_bits;
  };
  std::array<int32_t, 3> fractions{};
  for (size_t d = 0; d < 3; ++d) fractions[d] = static_cast<int32_t>(corners.fractions[d]);
  std::array<int32_t, most_corners> weights{};
  for (size_t first = 0; first < static_cast<size_t>(corners.count); first += 4) {
    const int32_t slice = first == 0 ? whole_weight - fractions[2] : fractions[2];
    const int32_t right = product(slice, fractions[0]), left = slice - right;
    weights[first + 3] = product(right, fractions[1]);
    weights[first + 1] = right - weights[first + 3];
    weights[first] = product(left, whole_weight - fractions[1]);
    weights[first + 2] = left - weights[first];
  }
  return weights;
}

/// Whether a corner is part of a result although its weight may round to 0: no fraction on the way to it is 0.
bool is_near(const Corners& corners, size_t i) {
  for (size_t d = 0; d < 3; ++d) {
    if ((i >> d & 1) != 0 && corners.fractions[d] == 0) return false;
  }
  return true;
}

using Channel = std::array<uint32_t, most_corners>;  // the codes of a channel at the corners

/// Numbers of `format`, f16 or f32. Within a slice a GPU shifts each significand to the greatest exponent, with four
/// more bits, and drops what is behind them. It adds the products with the weights exactly. Of two slices it shifts
/// the sums to a common exponent, the greatest one rounded down to a multiple of four, and rounds them down there. It
/// rounds once, ties away from zero, and takes subnormal numbers of f32 for 0.
uint32_t filtered_floats(const FormatInfo& format, const Corners& corners, const Channel& codes) {
  constexpr int guard_bits = 4, exponent_step = 4;
  const std::array<int32_t, most_corners> weights = weights_of(corners);
  const auto count = static_cast<size_t>(corners.count);
  const auto sign = static_cast<uint32_t>(format.sign_bit()), infinity = static_cast<uint32_t>(*format.infinity());
  const bool flushes = format.id == Format::f32;
  bool has_nan = false, are_negative = true;
  std::array<bool, 2> has_infinity{};  // positive, negative
  for (size_t i = 0; i < count; ++i) {
    if (!is_near(corners, i)) continue;
    const uint32_t magnitude = codes[i] & ~sign;
    const bool is_negative = (codes[i] & sign) != 0;
    are_negative &= is_negative;
    has_nan |= magnitude > infinity;
    has_infinity[is_negative ? 1 : 0] |= magnitude == infinity;
  }
  if (has_nan || (has_infinity[0] && has_infinity[1])) return ~sign;
  if (has_infinity[0] || has_infinity[1]) return has_infinity[1] ? infinity | sign : infinity;

  const auto exponent_of = [&](uint32_t code) {
    const auto exponent = static_cast<int>((code & ~sign) >> format.mantissa_bits);
    return flushes ? exponent : std::max(exponent, 1);
  };
  struct Slice {
    int exponent = 0;
    int64_t sum = 0;
  };
  std::array<Slice, 2> slices{};
  for (size_t i = 0; i < count; ++i) {
    if (weights[i] != 0) slices[i / 4].exponent = std::max(slices[i / 4].exponent, exponent_of(codes[i]));
  }
  for (size_t i = 0; i < count; ++i) {
    const uint32_t exponent_field = (codes[i] & ~sign) >> format.mantissa_bits;
    if (weights[i] == 0 || (exponent_field == 0 && flushes)) continue;
    const int64_t significand = static_cast<int64_t>(codes[i] & low_mask(format.mantissa_bits)) |
                                (exponent_field != 0 ? int64_t{1} << format.mantissa_bits : 0);
    const int down = slices[i / 4].exponent - exponent_of(codes[i]);
    const int64_t aligned = significand << guard_bits >> std::min(down, 63);
    slices[i / 4].sum += ((codes[i] & sign) != 0 ? -aligned : aligned) * weights[i];
  }
  const int greatest = std::max(slices[0].exponent, slices[1].exponent);
  const int common = greatest - greatest % exponent_step;
  int64_t sum = 0;
  for (const Slice& slice : slices) {
    const int up = slice.exponent - common;
    sum += up >= 0 ? slice.sum << up : slice.sum >> std::min(-up, 63);
  }
  if (sum == 0) return are_negative ? sign : 0;
  const auto code = static_cast<uint32_t>(
      round_to(format.id,
               {.negative = sum < 0,
                .magnitude = static_cast<uint64_t>(std::abs(sum)),
                .exponent = common - format.bias - format.mantissa_bits - guard_bits - fraction_bits},
               Rounding::nearest_away));
  return flushes && (code & ~sign) >> format.mantissa_bits == 0 ? code & sign : code;
}

/// Integers that are read as normalized: a GPU filters them to 16 bits.
uint32_t filtered_integers(const Texture& texture, const Corners& corners, const Channel& codes) {
  const bool is_signed = is_signed_format(texture.texels.format);
  const int bits = 8 * texture.texels.channel_bytes();
  const std::array<int32_t, most_corners> weights = weights_of(corners);
  int64_t sum = 0;
  for (size_t i = 0; i < static_cast<size_t>(corners.count); ++i)
    sum += weights[i] * low_bits_as_number(codes[i], bits, is_signed);
  int64_t number = 0;
  if (bits == 16) number = (sum + 128) >> 8;
  else if (!is_signed) number = (sum * 257 + 128) >> 8;         // 257 = (2^16 - 1) / (2^8 - 1)
  else number = (8 * sum + (sum >> 4) + (sum >> 12) + 4) >> 3;  // nearly (2^15 - 1) / (2^7 - 1) / 2^8
  const int64_t one = one_of(16, is_signed);
  return quotient(std::max(number, -one), one);
}

}  // namespace

Corners corners_of(const Texture& texture, const TexturePoint& point, bool gathers) {
  const Texels& texels = texture.texels;
  const bool has_neighbours = gathers || (texture.is_linear && !point.are_integers);
  // A GPU filters one dimension as two, at y = 0: half of each result is the border if that is the mode of y.
  const auto dimensions = static_cast<size_t>(has_neighbours ? std::max(texels.dimensions, 2) : texels.dimensions);
  Corners corners{.count = has_neighbours ? 1 << dimensions : 1};
  std::array<std::array<std::optional<int64_t>, 2>, 3> places{};
  for (auto& both : places) both[0] = 0;
  for (size_t d = 0; d < dimensions; ++d) {
    const uint32_t word = point.coordinates[d];
    const int64_t size = texels.extent[d];
    const Place place =
        point.are_integers ? Place{static_cast<int32_t>(word)} : place_of(texture, d, word, has_neighbours);
    const AddressMode mode = point.are_integers ? AddressMode::border : mode_of(texture, d);
    // Before the first centre and behind the last one, clamp has one texel alone.
    const bool is_beyond = mode == AddressMode::clamp && (place.texel < 0 || place.texel >= size - 1);
    corners.fractions[d] = is_beyond ? 0 : place.fraction;
    for (int64_t i = 0; i < 2; ++i) places[d][static_cast<size_t>(i)] = texel_at(place.texel + i, size, mode);
  }
  std::optional<int64_t> layer = 0;  // an unsigned number: one below 0 is beyond the last
  if (texels.layers > 0)
    layer = texel_at(point.layer, texels.layers, point.are_integers ? AddressMode::border : AddressMode::clamp);
  for (size_t i = 0; i < static_cast<size_t>(corners.count); ++i) {
    std::array<std::optional<int64_t>, 3> at{};
    for (size_t d = 0; d < 3; ++d) at[d] = places[d][i >> d & 1];
    if (at[0] && at[1] && at[2] && layer)
      corners.offsets[i] =
          *at[0] * texels.texel_bytes() + *at[1] * texels.row_bytes + (*at[2] + *layer) * texels.slice_bytes;
  }
  // Integers know no border: outside are zeros.
  if (point.are_integers && !corners.offsets[0]) corners.count = 0;
  return corners;
}

std::array<uint32_t, 4> fetched(const Texture& texture, const Corners& corners,
                                std::span<const TexelBytes, most_corners> texels) {
  std::array<uint32_t, 4> words{};
  if (corners.count == 0) return words;
  std::array<Codes, most_corners> codes{};
  for (size_t i = 0; i < static_cast<size_t>(corners.count); ++i) codes[i] = codes_at(texture, corners, texels, i);
  for (size_t channel = 0; channel < static_cast<size_t>(texture.texels.channels); ++channel) {
    if (corners.count == 1) {
      words[channel] = word_of(texture, codes[0][channel]);
      continue;
    }
    Channel of_channel{};
    for (size_t i = 0; i < most_corners; ++i) of_channel[i] = codes[i][channel];
    switch (texture.texels.format) {
      case TexelFormat::f32: words[channel] = filtered_floats(info(Format::f32), corners, of_channel); break;
      case TexelFormat::f16:
        words[channel] = f32_of_f16(filtered_floats(info(Format::f16), corners, of_channel));
        break;
      default: words[channel] = filtered_integers(texture, corners, of_channel); break;
    }
  }
  return words;
}

std::array<uint32_t, 4> gathered(const Texture& texture, const Corners& corners,
                                 std::span<const TexelBytes, most_corners> texels, size_t channel) {
  constexpr std::array<size_t, 4> order{2, 3, 1, 0};  // PTX ISA, tld4: counter-clockwise from the lower left texel
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i < 4; ++i) words[i] = word_of(texture, codes_at(texture, corners, texels, order[i])[channel]);
  return words;
}

}  // namespace kernel
}  // namespace bitmma
