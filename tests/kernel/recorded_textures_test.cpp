// SPDX-License-Identifier: MIT
// Fetches from textures and accesses of surfaces that lab/record_textures.cu recorded on an H200, bit for bit:
// data/kernels/textures.tar.xz.
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <sstream>

#include "bitmma/kernel/memory.hpp"
#include "kernel/texture.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace bitmma;

namespace {

/// A line of textures.txt, and what textures.bin has of it.
struct Recorded {
  std::string name = {};
  std::map<std::string, std::string> keys = {};
  std::vector<uint8_t> texels = {};
  std::vector<uint32_t> coordinates = {}, results = {};

  const std::string& text(const std::string& key) const { return keys.at(key); }
  int number(const std::string& key) const { return std::stoi(keys.at(key)); }
};

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

std::vector<Recorded> recorded_cases(const std::string& name) {
  const std::string binary = test::read_text(test::oracle_path(name + ".bin"));
  std::vector<Recorded> cases;
  std::istringstream lines(test::read_text(test::oracle_path(name + ".txt")));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Recorded recorded;
    words >> recorded.name;
    for (std::string word; words >> word;) {
      const size_t sign = word.find('=');
      if (sign != std::string::npos) recorded.keys[word.substr(0, sign)] = word.substr(sign + 1);
    }
    if (!recorded.keys.contains("results")) continue;
    auto at = static_cast<size_t>(recorded.number("at"));
    const auto take = [&](auto& to, const std::string& key) {
      to.resize(static_cast<size_t>(recorded.number(key)));
      const size_t bytes = to.size() * sizeof to[0];
      REQUIRE(at + bytes <= binary.size());
      if (bytes > 0) std::memcpy(to.data(), binary.data() + at, bytes);
      at += bytes;
    };
    take(recorded.texels, "texels"), take(recorded.coordinates, "coordinates"), take(recorded.results, "results");
    cases.push_back(std::move(recorded));
  }
  return cases;
}

TexelFormat format_of(const std::string& name) {
  const std::map<std::string, TexelFormat> formats{
      {"u8", TexelFormat::u8},   {"u16", TexelFormat::u16}, {"u32", TexelFormat::u32}, {"s8", TexelFormat::s8},
      {"s16", TexelFormat::s16}, {"s32", TexelFormat::s32}, {"f16", TexelFormat::f16}, {"f32", TexelFormat::f32}};
  return formats.at(name);
}

Texels texels_of(const Recorded& recorded, std::array<int64_t, 3> extent, int dimensions, bool is_layered) {
  Texels texels{.format = format_of(recorded.text("type")), .channels = recorded.number("channels")};
  texels.dimensions = dimensions;
  texels.layers = is_layered ? extent[2] : 0;
  texels.extent = {extent[0], extent[1], dimensions == 3 ? extent[2] : 1};
  texels.row_bytes = texels.extent[0] * texels.texel_bytes();
  texels.slice_bytes = texels.row_bytes * texels.extent[1];
  return texels;
}

Texture texture_of(const Recorded& recorded) {
  const std::map<std::string, AddressMode> modes{{"wrap", AddressMode::wrap},
                                                 {"clamp", AddressMode::clamp},
                                                 {"mirror", AddressMode::mirror},
                                                 {"border", AddressMode::border}};
  Texture texture;
  texture.texels = texels_of(recorded, {recorded.number("width"), recorded.number("height"), recorded.number("depth")},
                             recorded.number("dims"), recorded.number("layered") != 0);
  texture.is_buffer = recorded.text("resource") == "linear";
  texture.is_linear = recorded.text("filter") == "linear";
  texture.has_normalized_coordinates = recorded.number("coordinates_normalized") != 0;
  texture.reads_normalized = recorded.number("read_normalized") != 0;
  const std::vector<std::string> names = parts_of(recorded.text("modes")), border = parts_of(recorded.text("border"));
  for (size_t i = 0; i < 3; ++i) texture.modes[i] = modes.at(names.at(i));
  for (size_t i = 0; i < 4; ++i) texture.border[i] = static_cast<uint32_t>(std::stoul(border.at(i), nullptr, 16));
  return texture;
}

/// The channel of a tld4, gather_g; nothing: a tex.
std::optional<size_t> channel_of(const std::string& op) {
  if (!op.starts_with("gather_")) return std::nullopt;
  return std::string("rgba").find(op.back());
}

/// What a fetch of bitmma returns of the texels of a case.
std::array<uint32_t, 4> fetch(const Recorded& recorded, const Texture& texture, std::span<const uint32_t> coordinates) {
  const std::string& op = recorded.text("op");
  kernel::TexturePoint point{.are_integers = op == "tex_integer"};
  size_t at = 0;
  if (texture.texels.layers > 0) point.layer = coordinates[at++];
  for (size_t i = 0; at < coordinates.size(); ++i, ++at) point.coordinates[i] = coordinates[at];
  const std::optional<size_t> channel = channel_of(op);
  const kernel::Corners corners = kernel::corners_of(texture, point, channel.has_value());
  std::array<kernel::TexelBytes, kernel::most_corners> texels{};
  for (size_t i = 0; i < static_cast<size_t>(corners.count); ++i) {
    if (corners.offsets[i])
      std::memcpy(texels[i].data(), recorded.texels.data() + *corners.offsets[i],
                  static_cast<size_t>(texture.texels.texel_bytes()));
  }
  if (channel) return kernel::gathered(texture, corners, texels, *channel);
  return kernel::fetched(texture, corners, texels);
}

}  // namespace

TEST_CASE("fetches of an H200, filtered and of single texels, are the same") {
  std::map<std::string, std::array<int64_t, 2>> counts;  // the same, others
  for (const Recorded& recorded : recorded_cases("textures")) {
    const Texture texture = texture_of(recorded);
    const std::string kind = fmt::format("{} {} {}", recorded.name, recorded.text("type"), recorded.text("filter"));
    std::array<int64_t, 2>& count = counts[kind];
    const auto per = static_cast<size_t>(recorded.number("per")), keep = static_cast<size_t>(recorded.number("keep"));
    // Faults of kernels, which the functions below do not know.
    const bool is_integer = recorded.text("op") == "tex_integer";
    const bool is_line = texture.texels.dimensions == 1 && texture.texels.layers == 0;
    if (is_integer ? is_line && !texture.is_buffer : texture.is_buffer) continue;
    Memory memory;
    Texture object = texture;
    object.texels.address = memory.allocate(static_cast<int64_t>(recorded.texels.size()));
    memory.add_texture(object);  // none is refused
    for (size_t i = 0; i * keep < recorded.results.size(); ++i) {
      const auto words = fetch(recorded, texture, std::span(recorded.coordinates).subspan(i * per, per));
      for (size_t channel = 0; channel < keep; ++channel) {
        const uint32_t result = recorded.results[i * keep + channel];
        ++count[words[channel] == result ? 0 : 1];
        if (words[channel] == result || count[1] > 3) continue;
        UNSCOPED_INFO(fmt::format("{} at {}: fetch {} channel {} is {:#x}, recorded {:#x}", kind, recorded.text("at"),
                                  i, channel, words[channel], result));
      }
    }
  }
  int64_t same = 0, others = 0;
  for (const auto& [kind, count] : counts) {
    same += count[0], others += count[1];
    UNSCOPED_INFO(fmt::format("{}: {} the same, {} others", kind, count[0], count[1]));
  }
  UNSCOPED_INFO(fmt::format("{} the same, {} others", same, others));
  CHECK(others == 0);
  CHECK(same == 73209);
}

TEST_CASE("loads and stores of an H200's surfaces are the same") {
  int64_t same = 0, others = 0;
  for (const Recorded& recorded : recorded_cases("surfaces")) {
    const int shape = recorded.number("shape");  // 1d, 2d, 3d, a1d, a2d
    const bool is_layered = shape > 3;
    const int dimensions = is_layered ? shape - 3 : shape;
    const Texels texels =
        texels_of(recorded, {5, dimensions > 1 ? 3 : 1, dimensions > 2 || is_layered ? 2 : 1}, dimensions, is_layered);
    const std::string& size = recorded.text("size");  // b32, v2.b16
    const size_t count = size.starts_with('v') ? static_cast<size_t>(size[1] - '0') : 1;
    const size_t element = std::stoul(size.substr(size.find('b') + 1)) / 8, bytes = count * element;
    const kernel::SurfaceMode mode =
        recorded.text("mode") == "clamp" ? kernel::SurfaceMode::clamp : kernel::SurfaceMode::zero;
    const auto offset_of = [&](size_t access) {
      const std::span at = std::span(recorded.coordinates).subspan(3 * access, 3);
      std::array<int32_t, 3> coordinates{};
      for (size_t i = 0; i < static_cast<size_t>(dimensions); ++i)
        coordinates[i] = static_cast<int32_t>(at[is_layered ? i + 1 : i]);
      return kernel::surface_offset(texels, coordinates, is_layered ? at[0] : 0, static_cast<int>(bytes), mode);
    };
    const auto* const results = reinterpret_cast<const uint8_t*>(recorded.results.data());
    const size_t accesses = recorded.coordinates.size() / 3;
    for (size_t access = 0; access < accesses; ++access) {
      const std::optional<int64_t> offset = offset_of(access);
      // Registers of 16 bits stand in words; stores are of the bytes a0, a1, ... of these registers.
      const size_t stride = element > 2 ? element : 4, stored_stride = element > 2 ? element : 2;
      std::vector<uint8_t> expected, seen;
      if (recorded.name == "load") {
        for (size_t i = 0; i < bytes; ++i) {
          expected.push_back(offset ? recorded.texels[static_cast<size_t>(*offset) + i] : 0);
          seen.push_back(results[16 * access + i / element * stride + i % element]);
        }
      } else {
        expected = recorded.texels;
        for (size_t i = 0; offset && i < bytes; ++i)
          expected[static_cast<size_t>(*offset) + i] =
              static_cast<uint8_t>(0xA0 + i / element * stored_stride + i % element);
        const uint8_t* const after = results + access * recorded.texels.size();
        seen.assign(after, after + recorded.texels.size());
      }
      ++(seen == expected ? same : others);
      if (seen != expected && others < 4)
        UNSCOPED_INFO(
            fmt::format("{} {} {} of shape {}, access {}", recorded.name, size, recorded.text("mode"), shape, access));
    }
  }
  CHECK(others == 0);
  CHECK(same == 59698);
}
