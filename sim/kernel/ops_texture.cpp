// SPDX-License-Identifier: MIT
// Textures and surfaces by their objects: tex, tld4, txq, suld, sust, suq.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "decode.hpp"
#include "lane_access.hpp"
#include "texture.hpp"

namespace bitmma::kernel {
namespace {

using Kind = Operand::Kind;

/// .1d to .3d, and the arrays of layers .a1d and .a2d.
struct Geometry {
  Word name = Word::none;
  int dimensions = 1;
  bool is_layered = false;
  size_t coordinates = 1;  // in braces: that of the layer first, padding last
};
constexpr auto geometries = std::to_array<Geometry>({
    {.name = Word::d1, .dimensions = 1, .coordinates = 1},
    {.name = Word::d2, .dimensions = 2, .coordinates = 2},
    {.name = Word::d3, .dimensions = 3, .coordinates = 4},
    {.name = Word::a1d, .dimensions = 1, .is_layered = true, .coordinates = 2},
    {.name = Word::a2d, .dimensions = 2, .is_layered = true, .coordinates = 4},
});

const Geometry& take_geometry(Decoder& decoder, Words& words) {
  for (const Geometry& row : geometries) {
    if (words.take(row.name)) return row;
  }
  decoder.refuse("of another geometry than .1d, .2d, .3d, .a1d and .a2d: cube maps and samples do not run");
}

/// An object and the place in it: [%rd1, {%f1, %f2}].
struct ObjectDetails {
  uint32_t object = 0;  // slots
  uint32_t layer = 0;
  std::array<uint32_t, 3> coordinates = {};
  Geometry geometry = {};
};

uint32_t read_object(Decoder& decoder, const Operand& base) {
  if (base.kind != Kind::reg)
    decoder.refuse("a .texref, .samplerref or .surfref of the module; objects in a register run",
                   "compile with CUDA 12 or later, which uses objects");
  return decoder.read(base, Type::b64);
}

ObjectDetails read_place(Decoder& decoder, const Operand& operand, const Geometry& geometry, Type type) {
  if (operand.kind != Kind::address || operand.elements.empty()) decoder.refuse("without an object in brackets");
  ObjectDetails details{.object = read_object(decoder, operand.elements[0]), .geometry = geometry};
  if (operand.elements.size() == 3) decoder.refuse("with a sampler of its own; textures have theirs in their object");
  if (operand.elements.size() != 2) decoder.refuse("without coordinates");
  const std::span<const Operand> coordinates = parts_of(operand.elements[1]);
  // PTX ISA, tex: ptxas also takes three elements where PTX says four, the last of which is padding.
  const size_t used = static_cast<size_t>(geometry.dimensions) + (geometry.is_layered ? 1 : 0);
  if (coordinates.size() != geometry.coordinates && coordinates.size() != used)
    decoder.refuse(fmt::format("with {} coordinates instead of {}", coordinates.size(), geometry.coordinates));
  size_t at = 0;
  if (geometry.is_layered) details.layer = decoder.read(coordinates[at++], Type::b32);
  for (int i = 0; i < geometry.dimensions; ++i)
    details.coordinates[static_cast<size_t>(i)] = decoder.read(coordinates[at++], type);
  for (; at < coordinates.size(); ++at)
    if (coordinates[at].kind == Kind::reg) decoder.read(coordinates[at], type);
  return details;
}

/// The object of a lane. Lanes mostly have the same one.
template <typename Object>
class ObjectCache {
 public:
  ObjectCache(const std::map<uint64_t, Object>& objects, std::string_view kind) : objects_(objects), kind_(kind) {}

  const Object& of(const Warp& warp, uint32_t slot, int lane) {
    const uint64_t handle = warp.lanes_of<const uint64_t>(slot)[lane];
    if (last_ && handle == last_handle_) return *last_;
    const auto object = objects_.find(handle);
    if (object == objects_.end())
      fault(ViolationCode::out_of_bounds, lane, fmt::format("{:#x} as the object of a {}", handle, kind_),
            fmt::format("the handle of a {} that exists", kind_));
    last_handle_ = handle;
    return *(last_ = &object->second);
  }

 private:
  const std::map<uint64_t, Object>& objects_;
  std::string_view kind_;
  uint64_t last_handle_ = 0;
  const Object* last_ = nullptr;
};

void require_geometry(const Texels& texels, const Geometry& geometry, int lane) {
  if (texels.dimensions == geometry.dimensions && (texels.layers > 0) == geometry.is_layered) return;
  fault(ViolationCode::undefined_by_ptx, lane,
        fmt::format("a fetch of .{} from texels of {} dimensions{}", print(geometry.name), texels.dimensions,
                    texels.layers > 0 ? " in layers" : ""),
        "the geometry of the object");
}

// --- tex and tld4

struct FetchDetails {
  ObjectDetails place = {};
  std::array<uint32_t, 4> results = {};
  std::optional<uint32_t> level = {};
  Type type = Type::f32;
  bool are_integers = false;
  std::optional<size_t> channel = {};  // of tld4
};

/// Faults for coordinates with which an H200 returns nothing but zeros.
void require_coordinates(const Texture& texture, const FetchDetails& details, int lane) {
  if (!details.are_integers && texture.is_buffer)
    fault(ViolationCode::undefined_by_ptx, lane, "coordinates of .f32 in linear memory, where a GPU returns zeros",
          "those of .s32: tex1Dfetch");
  if (details.are_integers && !texture.is_buffer && texture.texels.dimensions == 1 && texture.texels.layers == 0)
    fault(ViolationCode::undefined_by_ptx, lane,
          "coordinates of .s32 in an array of one dimension, where a GPU returns zeros", "those of .f32: tex1D");
}

void run_fetch(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const FetchDetails*>(op.details);
  const ObjectDetails& place = details.place;
  ObjectCache textures(warp.cta->objects->textures, "texture");
  for_each_lane(mask, [&](int lane) {
    const Texture& texture = textures.of(warp, place.object, lane);
    require_geometry(texture.texels, place.geometry, lane);
    require_coordinates(texture, details, lane);
    TexturePoint point{.are_integers = details.are_integers};
    for (size_t i = 0; i < static_cast<size_t>(place.geometry.dimensions); ++i)
      point.coordinates[i] = warp.lanes_of<const uint32_t>(place.coordinates[i])[lane];
    if (place.geometry.is_layered) point.layer = warp.lanes_of<const uint32_t>(place.layer)[lane];
    const Corners corners = corners_of(texture, point, details.channel.has_value());
    std::array<TexelBytes, most_corners> texels{};
    const int bytes = texture.texels.texel_bytes();
    for (size_t i = 0; i < static_cast<size_t>(corners.count); ++i) {
      if (!corners.offsets[i]) continue;
      const uint64_t address = texture.texels.address + static_cast<uint64_t>(*corners.offsets[i]);
      std::memcpy(texels[i].data(), locate(warp, op, lane, Space::global, address, bytes, AccessKind::read),
                  static_cast<size_t>(bytes));
    }
    const std::array<uint32_t, 4> words =
        details.channel ? gathered(texture, corners, texels, *details.channel) : fetched(texture, corners, texels);
    for (size_t i = 0; i < 4; ++i) warp.lanes_of<uint32_t>(details.results[i])[lane] = words[i];
  });
}

void take_results(Decoder& decoder, const Operand& operand, FetchDetails& details) {
  if (operand.kind == Kind::pair)
    decoder.refuse("with a predicate for sparse textures", "leave the predicate out: all texels are in memory");
  if (operand.kind != Kind::vector || operand.elements.size() != 4) decoder.refuse("without four registers");
  for (size_t i = 0; i < 4; ++i) details.results[i] = decoder.write(operand.elements[i], details.type);
}

void decode_tex(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  FetchDetails fetch_details;
  if (words.take(Word::grad)) decoder.refuse("by gradients, which choose among mip maps: textures have one level");
  const bool has_level = words.take(Word::level);
  const Geometry& geometry = take_geometry(decoder, words);
  if (!words.take(Word::v4)) decoder.refuse("without .v4");
  const auto coordinate_type = words.take_type(), type = words.take_type();
  if (!type || (type != Type::f32 && type != Type::u32 && type != Type::s32) ||
      (coordinate_type != Type::f32 && coordinate_type != Type::s32))
    decoder.refuse("of other types than .f32, .u32 and .s32, with coordinates of .f32 or .s32");
  fetch_details.type = *type;
  fetch_details.are_integers = coordinate_type == Type::s32;
  if (instruction.operands.size() > (has_level ? 3 : 2)) decoder.refuse("with an offset or a depth to compare with");
  decoder.require_operands(instruction, has_level ? 3 : 2, has_level ? 3 : 2);
  take_results(decoder, instruction.operands[0], fetch_details);
  fetch_details.place = read_place(decoder, instruction.operands[1], geometry, *coordinate_type);
  // A texture without mip maps has level 0 alone, to which each other level is clamped. PTX ISA, tex.level
  if (has_level) decoder.read(instruction.operands[2], *coordinate_type);
  const auto* details = decoder.keep(fetch_details);
  decoder.emit(run_fetch).details = details;
}

void decode_tld4(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  FetchDetails fetch_details;
  constexpr std::array channels{Word::r, Word::g, Word::b, Word::a};
  for (size_t i = 0; i < channels.size(); ++i) {
    if (words.take(channels[i])) fetch_details.channel = i;
  }
  if (!fetch_details.channel) decoder.refuse("without a channel");
  const Geometry& geometry = take_geometry(decoder, words);
  if (geometry.dimensions != 2) decoder.refuse("of this geometry");
  if (!words.take(Word::v4)) decoder.refuse("without .v4");
  const auto coordinate_type = words.take_type(), type = words.take_type();
  if (!type || (type != Type::f32 && type != Type::u32 && type != Type::s32) || coordinate_type != Type::f32)
    decoder.refuse("of other types than .f32, .u32 and .s32, with coordinates of .f32");
  fetch_details.type = *type;
  if (instruction.operands.size() > 2) decoder.refuse("with an offset or a depth to compare with");
  decoder.require_operands(instruction, 2, 2);
  take_results(decoder, instruction.operands[0], fetch_details);
  fetch_details.place = read_place(decoder, instruction.operands[1], geometry, Type::f32);
  const auto* details = decoder.keep(fetch_details);
  decoder.emit(run_fetch).details = details;
}

// --- suld and sust

struct SurfaceDetails {
  ObjectDetails place = {};
  SurfaceMode mode = SurfaceMode::trap;
  Type type = Type::b32;
  MemoryDetails::Part parts[4] = {};
  size_t count = 1;

  int bytes() const { return bytes_of(type) * static_cast<int>(count); }
};

/// The bytes of a lane's access; nullptr outside of a surface, where .zero loads zeros and stores nothing.
uint8_t* locate_in_surface(Warp& warp, const Op& op, int lane, ObjectCache<Texels>& surfaces,
                           const SurfaceDetails& details, bool is_store) {
  const ObjectDetails& place = details.place;
  const Texels& texels = surfaces.of(warp, place.object, lane);
  require_geometry(texels, place.geometry, lane);
  std::array<int32_t, 3> coordinates{};
  for (size_t i = 0; i < static_cast<size_t>(place.geometry.dimensions); ++i)
    coordinates[i] = warp.lanes_of<const int32_t>(place.coordinates[i])[lane];
  const uint32_t layer = place.geometry.is_layered ? warp.lanes_of<const uint32_t>(place.layer)[lane] : 0;
  if (coordinates[0] % details.bytes() != 0)
    fault(ViolationCode::misaligned, lane,
          fmt::format("{} bytes at byte {} of a row of a surface", details.bytes(), coordinates[0]),
          fmt::format("a multiple of {}", details.bytes()));
  const std::optional<int64_t> offset = surface_offset(texels, coordinates, layer, details.bytes(), details.mode);
  if (!offset) {
    if (details.mode == SurfaceMode::zero) return nullptr;
    fault(ViolationCode::out_of_bounds, lane,
          fmt::format("{} bytes at ({}, {}, {}), layer {}, of a surface", details.bytes(), coordinates[0],
                      coordinates[1], coordinates[2], layer),
          fmt::format("bytes below {} of rows below {} of {} slices", texels.extent[0] * texels.texel_bytes(),
                      texels.extent[1], std::max(texels.extent[2], texels.layers)));
  }
  return locate(warp, op, lane, Space::global, texels.address + static_cast<uint64_t>(*offset), details.bytes(),
                is_store ? AccessKind::write : AccessKind::read);
}

void run_surface_load(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const SurfaceDetails*>(op.details);
  ObjectCache surfaces(warp.cta->objects->surfaces, "surface");
  const auto element = static_cast<size_t>(bytes_of(details.type));
  for_each_lane(mask, [&](int lane) {
    const uint8_t* const place = locate_in_surface(warp, op, lane, surfaces, details, false);
    for (size_t i = 0; i < details.count; ++i) {
      uint64_t value = 0;
      if (place) std::memcpy(&value, place + i * element, element);
      if (details.parts[i].bits > 32) warp.lanes_of<uint64_t>(details.parts[i].slot)[lane] = value;
      else warp.lanes_of<uint32_t>(details.parts[i].slot)[lane] = static_cast<uint32_t>(value);
    }
  });
}

void run_surface_store(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const SurfaceDetails*>(op.details);
  ObjectCache surfaces(warp.cta->objects->surfaces, "surface");
  const auto element = static_cast<size_t>(bytes_of(details.type));
  std::array<uint8_t*, lanes> places{};
  std::array<TexelBytes, lanes> data{};
  Mask inside = 0;
  for_each_lane(mask, [&](int lane) {
    const auto index = static_cast<size_t>(lane);
    places[index] = locate_in_surface(warp, op, lane, surfaces, details, true);
    if (places[index]) inside |= Mask{1} << lane;
    for (size_t i = 0; i < details.count; ++i) {
      const uint64_t value = details.parts[i].bits > 32 ? warp.lanes_of<const uint64_t>(details.parts[i].slot)[lane]
                                                        : warp.lanes_of<const uint32_t>(details.parts[i].slot)[lane];
      std::memcpy(data[index].data() + i * element, &value, element);
    }
  });
  if (inside != 0)
    write_lanes(warp, op, inside, places, data[0].data(), sizeof data[0], static_cast<size_t>(details.bytes()));
}

template <bool is_store>
void decode_surface(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  SurfaceDetails surface_details;
  if (!words.take(Word::b)) decoder.refuse("without .b: only bytes as they are run");
  const Geometry& geometry = take_geometry(decoder, words);
  words.take_one({Word::ca, Word::cg, Word::cs, Word::cv, Word::wb, Word::wt});
  surface_details.count = words.take(Word::v2) ? 2 : words.take(Word::v4) ? 4 : 1;
  const auto type = words.take_type();
  if (!type || info(*type).kind != TypeClass::bits || info(*type).bits > 64) decoder.refuse("of this type");
  surface_details.type = *type;
  if (surface_details.bytes() > static_cast<int>(most_texel_bytes)) decoder.refuse("with a vector of this size");
  switch (words.take_one({Word::trap, Word::clamp, Word::zero})) {
    case Word::trap: surface_details.mode = SurfaceMode::trap; break;
    case Word::clamp: surface_details.mode = SurfaceMode::clamp; break;
    case Word::zero: surface_details.mode = SurfaceMode::zero; break;
    default: decoder.refuse("without .trap, .clamp or .zero");
  }
  decoder.require_operands(instruction, 2, 2);
  surface_details.place = read_place(decoder, instruction.operands[is_store ? 0 : 1], geometry, Type::s32);
  const std::span<const Operand> registers = parts_of(instruction.operands[is_store ? 1 : 0]);
  if (registers.size() != surface_details.count) decoder.refuse("with a vector of another size");
  for (size_t i = 0; i < registers.size(); ++i) {
    MemoryDetails::Part& part = surface_details.parts[i];
    part.slot = is_store ? decoder.read_wide(registers[i], *type, part.bits)
                         : decoder.write_wide(registers[i], *type, part.bits);
    if (part.bits > 64 || part.bits < 8 * bytes_of(*type)) decoder.refuse("with a register of another width");
  }
  const auto* details = decoder.keep(surface_details);
  decoder.emit(is_store ? run_surface_store : run_surface_load).details = details;
}

// --- txq and suq

struct Query {
  Word name = Word::none;
  uint32_t (*of_texels)(const Texels&) = nullptr;
  uint32_t (*of_texture)(const Texture&) = nullptr;  // a property of its sampler
};
constexpr auto queries = std::to_array<Query>({
    {.name = Word::width, .of_texels = [](const Texels& texels) { return static_cast<uint32_t>(texels.extent[0]); }},
    {.name = Word::height, .of_texels = [](const Texels& texels) { return static_cast<uint32_t>(texels.extent[1]); }},
    {.name = Word::depth, .of_texels = [](const Texels& texels) { return static_cast<uint32_t>(texels.extent[2]); }},
});

struct ObjectQuery {
  uint32_t object = 0;
  const Query* query = nullptr;
};

template <bool is_surface>
void run_object_query(Warp& warp, const Op& op, Mask mask) {
  const auto& details = *static_cast<const ObjectQuery*>(op.details);
  ObjectCache textures(warp.cta->objects->textures, "texture");
  ObjectCache surfaces(warp.cta->objects->surfaces, "surface");
  for_each_lane(mask, [&](int lane) {
    uint32_t& result = warp.lanes_of<uint32_t>(op.d)[lane];
    if constexpr (is_surface) {
      result = details.query->of_texels(surfaces.of(warp, details.object, lane));
    } else {
      const Texture& texture = textures.of(warp, details.object, lane);
      result = details.query->of_texels ? details.query->of_texels(texture.texels) : details.query->of_texture(texture);
    }
  });
}

template <bool is_surface>
void decode_object_query(Decoder& decoder, const PtxInstruction& instruction, Words& words) {
  const auto query = std::ranges::find_if(queries, [&](const Query& row) { return words.take(row.name); });
  if (query == queries.end() || (is_surface && !query->of_texels)) decoder.refuse("of this property");
  if (words.take_type() != Type::b32) decoder.refuse("without .b32");
  decoder.require_operands(instruction, 2, 2);
  const Operand& operand = instruction.operands[1];
  if (operand.kind != Kind::address || operand.elements.size() != 1 || operand.offset != 0)
    decoder.refuse("without an object in brackets");
  const uint32_t d = decoder.write(instruction.operands[0], Type::b32);
  const auto* details =
      decoder.keep(ObjectQuery{.object = read_object(decoder, operand.elements[0]), .query = &*query});
  Op& op = decoder.emit(run_object_query<is_surface>);
  op.details = details;
  op.d = d;
}

constexpr auto texture_rows = std::to_array<Opcode>({
    {.name = Word::tex, .does = "fetches from a texture", .decode = decode_tex, .acts = acts},
    {.name = Word::tld4, .does = "fetches a channel of four texels", .decode = decode_tld4, .acts = acts},
    {.name = Word::txq, .does = "a property of a texture", .decode = decode_object_query<false>},
    {.name = Word::suld, .does = "reads bytes of a surface", .decode = decode_surface<false>, .acts = acts},
    {.name = Word::sust, .does = "writes bytes of a surface", .decode = decode_surface<true>, .acts = acts},
    {.name = Word::suq, .does = "a property of a surface", .decode = decode_object_query<true>},
});

}  // namespace

std::span<const Opcode> texture_opcodes() { return texture_rows; }

}  // namespace bitmma::kernel
